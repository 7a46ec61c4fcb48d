// Decoder of the statistics reply.
#include "sdk/stats.hpp"

#include "wire/primitives.hpp"

namespace galgo::sdk {

Result<Stats> decode_stats(ConstBytes payload) {
    wire::FieldReader reader(payload);
    Stats stats;
    stats.process_id = reader.u32();
    stats.cpu_usage_percent = reader.number<float>();
    (void)reader.number<float>();  // of the whole machine
    stats.memory_usage_bytes = reader.u64();
    (void)reader.u64();  // total memory
    (void)reader.u64();  // available memory
    stats.run_time_us = reader.u64();
    (void)reader.u64();  // start time
    stats.read_bytes = reader.u64();
    stats.written_bytes = reader.u64();
    stats.messages_size_bytes = reader.u64();
    stats.streams_count = reader.u32();
    stats.topics_count = reader.u32();
    stats.partitions_count = reader.u32();
    stats.segments_count = reader.u32();
    stats.messages_count = reader.u64();
    stats.clients_count = reader.u32();
    stats.groups_count = reader.u32();
    stats.hostname = reader.str32();
    (void)reader.str32();  // system name
    (void)reader.str32();  // system version
    (void)reader.str32();  // kernel version
    stats.server_version = reader.str32();
    return reader.finish(stats);
}

}  // namespace galgo::sdk

// The answer to GetStats as the client shows it: numbers of one server process. Owns its text.
// wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/error.hpp"

namespace galgo::sdk {

struct Stats {
    std::uint32_t process_id = 0;
    float cpu_usage_percent = 0;
    std::uint64_t memory_usage_bytes = 0;
    std::uint64_t run_time_us = 0;
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::uint64_t messages_size_bytes = 0;
    std::uint32_t streams_count = 0;
    std::uint32_t topics_count = 0;
    std::uint32_t partitions_count = 0;
    std::uint32_t segments_count = 0;
    std::uint64_t messages_count = 0;
    std::uint32_t clients_count = 0;
    std::uint32_t groups_count = 0;
    std::string hostname;
    std::string server_version;
};

/// Fields behind the server's version are not looked at. Error: kInvalidCommand.
[[nodiscard]] Result<Stats> decode_stats(ConstBytes payload);

}  // namespace galgo::sdk

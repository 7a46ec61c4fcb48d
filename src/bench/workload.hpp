// The closed loops against a server: each connection has one request in flight, sends the next when
// the answer is there. One thread a producer or consumer, each with its own connection.
//
// Batches are built before the clock starts, so a row shows the server and the loopback, not the
// making of messages. Bounded by bytes, by requests and by time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bench/report.hpp"
#include "sdk/address.hpp"

namespace galgo::bench {

enum class Durability : std::uint8_t {
    kServerDefault,  ///< no option is sent
    kReplicated,
    kPersisted,
};

struct WorkloadOptions {
    sdk::Address server;
    std::string username = "iggy";
    std::string password = "iggy";
    std::string stream = "galgo-bench";  ///< its one topic is named "topic"
    Durability durability = Durability::kReplicated;
    std::string segment_size;  ///< option of the topic, as "1 MiB"; empty: it is not sent
    bool create = true;        ///< drop the stream if it is there, make it anew
    std::uint32_t partitions = 1;
    std::uint32_t producers = 1;  ///< connections of produce and of consume
    std::uint32_t message_size = 1000;
    std::uint32_t batch = 1000;  ///< messages a send or poll
    std::uint64_t total_bytes = 1'000'000'000;
    std::uint32_t warmup = 32;  ///< requests in front of the timed ones
    std::uint32_t time_limit_seconds = 60;
    std::uint32_t round_trips = 20'000;
    std::uint32_t round_trip_size = 256;
    bool ack_only = false;
    bool verify = false;  ///< consume checks the checksum of every message
    /// Consume as the consumer of this number from behind its stored offset, which each poll stores
    /// anew; 0: by offsets, nothing is stored.
    std::uint32_t auto_commit_consumer = 0;
    std::uint32_t process_id = 0;  ///< of the server; 0 = ask it, if it is on this machine
};

/// Sends total_bytes of payload. Row "produce".
[[nodiscard]] Result<Row> produce(const WorkloadOptions& options);

/// Reads all partitions from offset 0 to their ends, checks that offsets follow each other, sizes
/// are message_size and the topic holds no other number of messages. Row "consume". A violation is
/// kInvalidOffset, kInvalidMessagePayloadLength or kInvalidMessagesCount; a bad checksum (with
/// `verify`) kInvalidMessageChecksum. On a retained part (offset above 0 at the start) the count is
/// not compared. With auto_commit_consumer the server is asked for what is next, so an offset that
/// it did not store is kInvalidOffset; the warm-up polls by offset and stores nothing.
[[nodiscard]] Result<Row> consume(const WorkloadOptions& options);

/// Single messages of round_trip_size bytes on a stream of its own (named with "-rt", dropped at
/// the end): rows "send-ack" and, unless ack_only, "send+poll".
[[nodiscard]] Result<std::vector<Row>> round_trips(const WorkloadOptions& options);

/// Each of `producers` connections makes and deletes streams named after `stream`, one request in
/// flight, `requests` of them in all. Row "metadata".
[[nodiscard]] Result<Row> change_metadata(const WorkloadOptions& options, std::uint64_t requests);

/// Deletes the stream; one that is not there is fine.
[[nodiscard]] Status drop_stream(const WorkloadOptions& options);

}  // namespace galgo::bench

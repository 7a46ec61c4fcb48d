// The values that travel to and from a partition: what is asked, what is answered.
#pragma once

#include <cstdint>
#include <optional>

#include "base/ids.hpp"
#include "memory/buffer.hpp"
#include "partitions/retry_table.hpp"
#include "storage/partition_log.hpp"
#include "wire/primitives.hpp"

namespace galgo::partitions {

/// Who owns a stored offset: a consumer id (or the hash of its name), or the number of a group.
struct ConsumerKey {
    wire::ConsumerKind kind = wire::ConsumerKind::kConsumer;
    std::uint32_t id = 0;

    constexpr auto operator<=>(const ConsumerKey&) const noexcept = default;
};

struct AppendRequest {
    memory::BufRef batch;             ///< header and frames, verified; the only holder of its block
    std::uint32_t message_count = 0;  ///< as the verified header says
    Producer producer{};              ///< none: never taken for a retry
};

struct PollRequest {
    ConsumerKey consumer;
    wire::PollingStrategy strategy;
    std::uint32_t count = 0;      ///< messages at most
    std::uint64_t bytes_max = 0;  ///< of the records in the reply; at least one message is served
    bool auto_commit = false;
};

struct PollResult {
    Offset current_offset;     ///< last committed; 0 while empty
    storage::ReadSlices read;  ///< records to send, and how many messages they hold
};

struct StoredOffset {
    Offset current;  ///< last committed offset of the partition
    Offset stored;
};

}  // namespace galgo::partitions

// The identifiers that every layer speaks of. Domain ids (streams, topics, users) are in
// model/ids.hpp.
#pragma once

#include <cstdint>

#include "base/strong_id.hpp"

namespace galgo {

__extension__ using u128 = unsigned __int128;

/// Index of a shard in this process, 0-based.
using ShardIndex = StrongId<struct ShardIndexTag, std::uint16_t>;

/// stream(20 bits) | topic(12) | partition(20), packed: bits 51..32, 31..20, 19..0. Names a
/// partition in this process and in its journals. Build it with model::pack_partition_key.
using PartitionKey = StrongId<struct PartitionKeyTag, std::uint64_t>;

/// Metadata op that created a partition, or that last purged it: tells apart two partitions that
/// had the same PartitionKey one after the other. Strictly increasing for one key.
using Incarnation = StrongId<struct IncarnationTag, std::uint64_t>;

/// Position of a message in its partition, 0-based.
using Offset = StrongId<struct OffsetTag, std::uint64_t>;

/// Position of a prepare in the log of one consensus group, from 1; 0 = nothing yet.
using OpNumber = StrongId<struct OpNumberTag, std::uint64_t>;
/// View of a consensus group, from 0.
using ViewNumber = StrongId<struct ViewNumberTag, std::uint32_t>;

/// Random number of a client instance as it stands in frame headers; never 0 for a real client.
using ClientId = StrongId<struct ClientIdTag, u128>;
static_assert(sizeof(ClientId) == 16 && alignof(ClientId) == 8);
/// Epoch of a client id: metadata op of its Register; 0 = none.
using SessionId = StrongId<struct SessionIdTag, std::uint64_t>;
/// Request number of a client within its session, from 1.
using RequestNumber = StrongId<struct RequestNumberTag, std::uint64_t>;

/// Microseconds since the Unix epoch (wall time: record stamps, expiry).
using Timestamp = StrongId<struct TimestampTag, std::uint64_t>;
/// Nanoseconds of the monotonic clock of the backend (timers, latencies).
using Instant = StrongId<struct InstantTag, std::uint64_t>;

}  // namespace galgo

// The names and numbers that a consensus group is configured and spoken of with. Values only; any
// thread.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/ids.hpp"

namespace galgo::consensus {

/// The cluster that a frame and a superblock belong to; the same for ever.
using ClusterId = StrongId<struct ClusterIdTag, u128>;
/// A consensus group within the cluster: a partition key, or the number of the metadata group.
using GroupId = StrongId<struct GroupIdTag, std::uint64_t>;
inline constexpr GroupId kMetadataGroup{std::uint64_t{1} << 63U};
/// A replica within its group, 0-based and below the number of replicas.
using ReplicaIndex = StrongId<struct ReplicaIndexTag, std::uint8_t>;
/// Time as the core knows it: ticks (10 ms in the server) since some fixed moment.
using TickCount = StrongId<struct TickCountTag, std::uint64_t>;
/// The caller's own mark for a request; comes back in every effect about it. Opaque to the core.
using Token = StrongId<struct TokenTag, std::uint64_t>;

/// Ops that one group may have prepared and not yet committed.
inline constexpr std::size_t kPipelineMax = 127;
inline constexpr std::uint8_t kReplicasMax = 31;
/// Reads of the own log that a replica may have asked for, to send prepares again.
inline constexpr std::size_t kReadsMax = 16;

/// Some of the replicas of a group.
class ReplicaSet {
 public:
    constexpr ReplicaSet() noexcept = default;

    constexpr void add(ReplicaIndex replica) noexcept { bits_ |= bit(replica); }
    constexpr void remove(ReplicaIndex replica) noexcept { bits_ &= ~bit(replica); }
    [[nodiscard]] constexpr bool contains(ReplicaIndex replica) const noexcept {
        return replica.value() < kReplicasMax && (bits_ & bit(replica)) != 0;
    }
    [[nodiscard]] constexpr bool empty() const noexcept { return bits_ == 0; }
    [[nodiscard]] constexpr std::size_t count() const noexcept {
        return static_cast<std::size_t>(std::popcount(bits_));
    }
    constexpr bool operator==(const ReplicaSet&) const noexcept = default;

 private:
    static constexpr std::uint32_t bit(ReplicaIndex replica) noexcept {
        return std::uint32_t{1} << replica.value();
    }
    std::uint32_t bits_ = 0;
};

/// The primary of `view` among `replica_count` replicas.
[[nodiscard]] constexpr ReplicaIndex primary_of(ViewNumber view,
                                                std::uint8_t replica_count) noexcept {
    return ReplicaIndex(static_cast<std::uint8_t>(view.value() % replica_count));
}

class Marks;

/// What all groups of one shard have in common. Outlives them and does not change.
struct ReplicaOptions {
    ClusterId cluster;
    ReplicaIndex replica;            ///< this node
    std::uint8_t replica_count = 1;  ///< 1..=31, the same on every node
    std::uint8_t pipeline_max = 32;  ///< 1..=127 ops in flight
    /// 1..=255 prepares sent again in a tick, all backups together (16 reads at a time).
    std::uint8_t resend_per_tick_max = 64;
    std::uint16_t heartbeat_ticks = 50;  ///< primary: at least one frame a peer in this time
    std::uint16_t resend_ticks = 25;     ///< first wait for an acknowledgement; doubles 4 times
    std::uint16_t election_ticks = 500;  ///< backup: silence after which it suspects
    std::uint64_t stamp_ahead_max_us = 10'000'000;  ///< more than one replica: see on_request.cpp
    Marks* marks = nullptr;  ///< counts rare branches; null = not counted. Same thread as the group
};

}  // namespace galgo::consensus

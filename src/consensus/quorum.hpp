// How many replicas decide. A majority for both kinds of decision: any two majorities share a
// replica, and a cluster of 2f + 1 works with f of them gone, elections included.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "consensus/types.hpp"

namespace galgo::consensus {

struct Quorums {
    std::uint8_t replication = 1;  ///< copies that make an op committed, the primary's included
    std::uint8_t view_change = 1;  ///< votes that make a view, the own one included
    constexpr bool operator==(const Quorums&) const noexcept = default;
};

[[nodiscard]] constexpr bool replica_count_supported(std::uint32_t replica_count) noexcept {
    return replica_count >= 1 && replica_count <= kReplicasMax;
}

/// `replica_count` is one that replica_count_supported() accepts.
[[nodiscard]] constexpr Quorums quorums_of(std::uint8_t replica_count) {
    GALGO_CHECK(replica_count_supported(replica_count));
    const auto majority = static_cast<std::uint8_t>(replica_count / 2 + 1);
    return {.replication = majority, .view_change = majority};
}

}  // namespace galgo::consensus

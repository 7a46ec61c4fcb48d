// The part of a replica that exists only in a group of more than one: what is durable, what the
// peers have, when something is due. Private to the module's sources.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "consensus/replica.hpp"

namespace galgo::consensus {

/// The primary's knowledge of one backup. have <= sent <= head.
struct Replica::PeerProgress {
    OpNumber have;              ///< acknowledged: durable there, and everything before it
    OpNumber sent;              ///< sent, and not known to be lost
    TickCount due;              ///< when something is missing: send again from `have`
    std::uint8_t attempts = 0;  ///< since `have` last rose
};

struct Replica::Cluster {
    explicit Cluster(std::uint8_t replica_count) : peers(replica_count) {}

    /// A read under way, and who is to get what it brings. op 0 = free.
    struct WantedRead {
        OpNumber op;
        ReplicaSet peers;
    };

    std::optional<DurableView> durable_view;
    std::optional<DurableEntry> durable;  ///< set from Boot on
    TickCount now;
    TickCount heartbeat_due;              ///< primary
    TickCount heard;                      ///< backup: when the primary was last heard
    TickCount superblock_due;             ///< after a failed write
    std::uint64_t heartbeat_counter = 0;  ///< primary: last sent; backup: last accepted
    ViewNumber newer_view;
    std::uint8_t superblock_attempts = 0;
    std::uint8_t resend_budget = 0;  ///< reads that may still be asked for in this tick
    bool superblock_in_flight = false;
    bool suspected = false;
    bool gap_reported = false;  ///< in this tick
    std::array<WantedRead, kReadsMax> reads{};
    std::vector<PeerProgress> peers;  ///< by replica; the own one is not used
};

}  // namespace galgo::consensus

// The part of a replica that exists only in a group of more than one: what is durable, what the
// peers have, when something is due. Private to the module's sources.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "consensus/durability.hpp"
#include "consensus/replica.hpp"

namespace galgo::consensus {

/// The primary's knowledge of one backup. have <= sent <= asked <= head.
struct Replica::PeerProgress {
    OpNumber have;                   ///< acknowledged: durable there, and everything before it
    OpNumber sent;                   ///< sent, in order, and not known to be lost
    OpNumber asked;                  ///< up to here the log is being read for it
    TickCount due;                   ///< when something is missing: send again from `have`
    std::uint8_t attempts = 0;       ///< since `have` last rose
    std::uint8_t read_failures = 0;  ///< in a row
    bool read_failed = false;        ///< nothing is read for it before `due`
};

struct Replica::Cluster {
    explicit Cluster(std::uint8_t replica_count) : peers(replica_count) {}

    /// A read under way, and who is to get what it brings. op 0 = free.
    struct WantedRead {
        OpNumber op;
        ReplicaSet peers;
    };

    SuperblockWrites superblock;
    DurableLog log;
    Head commit_max;  ///< known to be committed in the group; may lie beyond the own log
    TickCount now;
    TickCount heartbeat_due;              ///< primary
    TickCount heard;                      ///< backup: when the primary was last heard
    TickCount superblock_due;             ///< after a failed write
    std::uint64_t heartbeat_counter = 0;  ///< primary: last sent; backup: last accepted
    ViewNumber newer_view;
    std::uint8_t superblock_attempts = 0;  ///< that failed, up to a bound
    std::uint8_t resend_budget = 0;        ///< reads that may still be asked for in this tick
    bool suspected = false;
    bool gap_reported = false;  ///< in this tick
    std::array<WantedRead, kReadsMax> reads{};
    std::vector<PeerProgress> peers;  ///< by replica; the own one is not used
};

}  // namespace galgo::consensus

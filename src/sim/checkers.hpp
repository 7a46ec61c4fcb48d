// What must hold in every run, whatever the faults (the numbers are the laws of docs/simulator.md):
//
//  1 agreement: one entry an op, on every replica and in every life, linked to the one before
//  2 a replica carries out ops in order, each once a life; its view does not go back
//  3 durable before promised: an acknowledgement, a frame of a view, and a commit have their copies
//  4 what a replica promised is in its log after any crash, or it refuses to start; it refuses only
//    with a damaged disk
//  5 nothing acknowledged to a client is lost, nothing is carried out twice
//  6 a reply is that of the log; an eviction is one of the log
//  7 equal ops have equal digests of state and client table
//  8 results are those of the model
// Progress after the healing is the business of cluster.cpp.
//
// The first violation is kept; the run ends with it. Memory is reserved once.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "consensus/effects.hpp"
#include "consensus/frames.hpp"
#include "sim/entry.hpp"
#include "sim/faults.hpp"
#include "sim/swarm.hpp"
#include "sim/workload.hpp"

namespace galgo::sim {

/// What carrying out an entry came to.
struct Outcome {
    ErrorCode result = ErrorCode::kOk;
    std::uint32_t reply_bytes = 0;
    std::uint64_t reply_hash = 0;
    std::uint64_t repeated_hash = 0;  ///< of what a repetition is answered with
};

class Checkers {
 public:
    static constexpr std::uint64_t kDigestEvery = 16;

    explicit Checkers(const Workload& workload);
    void reset(const Swarm& swarm, SimMarkCounts& marks);

    [[nodiscard]] bool failed() const noexcept { return failed_; }
    [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
    void fail(std::string text);

    // What a node does.
    void on_boot(std::uint8_t node);
    void on_append(std::uint8_t node, const consensus::Prepare& prepare);
    void on_durable(std::uint8_t node, OpNumber op, consensus::Identity identity);
    void on_superblock(std::uint8_t node, ViewNumber view);
    void on_send(std::uint8_t node, const consensus::Frame& frame);
    void on_fatal(std::uint8_t node, const consensus::Fatal& fatal);
    /// The node is about to be told something that must stop it.
    void expect_fatal(std::uint8_t node, bool expected = true) noexcept {
        nodes_[node].fatal_expected = expected;
    }
    /// It booted on the empty disk, and `stopped` or not.
    void on_empty_boot(std::uint8_t node, bool stopped);
    /// The primary believes that `peer` has `op` and all before it.
    void on_belief(std::uint8_t node, std::uint8_t peer, OpNumber op);
    /// Fenced without having said Fatal, and its log takes more entries.
    void on_fenced(std::uint8_t node, bool log_poisoned);
    void on_commit(std::uint8_t node, const consensus::Head& head, const LogEntry& entry,
                   const Outcome& outcome);
    [[nodiscard]] static bool wants_digest(OpNumber op) noexcept {
        return op.value() % kDigestEvery == 0;
    }
    void on_digest(std::uint8_t node, OpNumber op, std::uint64_t digest);

    // Recovery: entries in order, then the end of it.
    void on_recovery_begin(std::uint8_t node) noexcept;
    void on_recovered_entry(std::uint8_t node, const LogEntry& entry);
    void on_recovered(std::uint8_t node);
    void on_refused(std::uint8_t node, bool disk_damaged);
    /// The node will not come back with what it had.
    void on_gone(std::uint8_t node) noexcept { nodes_[node].gone = true; }
    /// The same: its disk has nothing of it. It must say so and stop.
    void on_disk_lost(std::uint8_t node) noexcept;
    /// After all nodes were started again: what clients had been told, `op` and all before it, is
    /// on enough of them.
    void check_acknowledged(OpNumber op);

    /// A reply on its way to a client.
    void on_reply(const ClientMessage& message);
    /// It arrived.
    void on_acknowledged(const ClientMessage& message);

    [[nodiscard]] OpNumber acknowledged_op() const noexcept { return acknowledged_; }
    [[nodiscard]] std::uint64_t acknowledged() const noexcept { return acknowledged_count_; }
    [[nodiscard]] OpNumber committed() const noexcept { return committed_; }
    /// Of all entries that were ever prepared.
    [[nodiscard]] Timestamp highest_timestamp() const noexcept { return highest_timestamp_; }
    [[nodiscard]] bool superblock_durable(std::uint8_t node) const noexcept {
        return nodes_[node].superblock;
    }

 private:
    struct Committed {
        consensus::Identity identity;
        std::uint64_t reply_hash = 0;
        std::uint64_t digest = 0;
    };
    struct Executed {
        SessionId session;
        RequestNumber request;
        OpNumber op;
        std::uint64_t checksum = 0;
        std::uint64_t reply_hash = 0;
        std::uint64_t repeated_hash = 0;
        OpNumber reply_gone;  ///< where it was pushed out of the client table; 0: not yet
    };
    struct CachedReply {
        std::uint8_t client = 0;
        std::uint32_t bytes = 0;
        std::uint32_t executed = 0;  ///< index in executed_ of the client
    };
    struct SessionSpan {
        SessionId epoch;
        OpNumber ended;  ///< 0: not yet
    };
    struct OfNode {
        std::vector<consensus::Identity> appended;  ///< by op; the last of that op
        std::vector<std::uint8_t> ended_well;       ///< by op: that append is stable
        std::size_t appended_end = 0;
        OpNumber appended_last;  ///< in this life
        OpNumber durable;        ///< it and all before it ended well
        OpNumber durable_once;   ///< before its disk was lost: an acknowledgement may be on its way
        OpNumber promised;       ///< ever
        OpNumber commit;         ///< in this life
        OpNumber recovered;      ///< last entry found by a recovery
        consensus::Identity recovered_identity;
        ViewNumber view_sent;
        ViewNumber view_durable;
        bool superblock = false;
        bool gone = false;
        bool fatal_expected = false;
        bool stopped = false;  ///< said Fatal in this life
    };

    void commit_first(std::uint8_t node, const consensus::Head& head, const LogEntry& entry,
                      const Outcome& outcome);
    [[nodiscard]] bool speaks_after_fatal(std::uint8_t node, std::string_view what);
    void raise_durable(OfNode& one) noexcept;
    void check_once(const LogEntry& entry, OpNumber op, const Outcome& outcome);
    void note_sessions(OpNumber op);
    void note_reply(const LogEntry& entry, OpNumber op, std::uint32_t bytes);
    [[nodiscard]] const Executed* find_executed(const ClientMessage& message) const;
    [[nodiscard]] std::uint8_t number_of(ClientId client) const noexcept;

    const Workload& workload_;
    Model model_;
    SimMarkCounts* marks_ = nullptr;
    std::uint8_t node_count_ = 1;
    std::array<OfNode, kNodesMax> nodes_;
    std::vector<Committed> log_;  ///< by op
    std::size_t log_end_ = 0;
    std::array<std::vector<Executed>, kClientsMax> executed_;
    std::vector<CachedReply> cached_;  ///< what every client table holds now, oldest first
    std::uint64_t cached_bytes_ = 0;
    std::uint64_t cached_bytes_max_ = 0;
    std::array<std::vector<SessionSpan>, kClientsMax> sessions_;
    OpNumber committed_;
    consensus::Identity committed_identity_;
    Timestamp last_timestamp_;  ///< of the last committed entry
    Timestamp highest_timestamp_;
    OpNumber acknowledged_;  ///< the highest op that a client was told of
    std::uint64_t acknowledged_count_ = 0;
    bool failed_ = false;
    std::string failure_;
};

}  // namespace galgo::sim

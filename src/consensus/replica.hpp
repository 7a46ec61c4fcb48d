// Replica: one replica of one consensus group (Viewstamped Replication) as a pure state machine.
// The metadata log and every partition are such a group. A single node is a group of one on this
// same path: append = prepare, commit = a quorum of one has appended.
//
//   step(event, effects)   no I/O, clock, randomness, thread or allocation (a busy group borrows a
//                          Pipeline from its shard's pool, which keeps what comes back)
//
// What is here: a group of one, and the normal operation of up to 31. The primary sends each
// prepare to all backups, counts acknowledgements by identity, and commits what a majority holds;
// a backup takes op + 1 of the same log and nothing else, acknowledges when the entry and all
// before it are durable, and carries out what is committed, in order. A replica that comes back
// with an earlier life in a cluster takes no part (kRecovering), and a backup that misses the
// primary only says so.
//
// A failed append. The number of the op is never given again by this replica.
//   Group of one: the op is abandoned (kIoError) in its turn; ops behind it stand for themselves.
//   Its entry may or may not be in the log: a write that could not be taken back is found there by
//   the next life, which carries it out.
//   The chain of identities still runs through the failed prepare, so a log of a group of one may
//   lack a link that its successor names.
//   More replicas: the replica is fenced for good, because later appends would be acknowledged
//   across a hole. A fenced primary admits nothing, is silent, so that its backups notice, and
//   abandons the op and all behind it with kTransientNotCommitted (a majority may still have them);
//   what is before the hole is committed when its acknowledgements come. A fenced backup is silent
//   and carries out nothing more.
//
// Invariants (checked after every step, in all builds):
//   commit <= head;  head - commit = ops in the pipeline <= 127;  commit <= commit_max;
//   log_view <= view;  no frame of a view that is not durable;  commit <= durable prefix <= head;
//   stamps do not decrease from op to op (rise, with more than one replica).
// Size: 104 bytes in a group of one, no timer. With more, about 600 bytes and 40 a replica; wants a
// Tick each tick.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "consensus/durability.hpp"
#include "consensus/effects.hpp"
#include "consensus/events.hpp"
#include "consensus/marks.hpp"
#include "consensus/mutations.hpp"
#include "consensus/pipeline.hpp"
#include "consensus/quorum.hpp"
#include "consensus/types.hpp"

namespace galgo::consensus {

enum class ReplicaStatus : std::uint8_t {
    kBooting,  ///< before Boot, and until the first superblock is written
    kNormal,
    kRecovering,  ///< has an earlier life in a cluster; no part in anything
};

class Replica {
 public:
    /// `options` outlives it, as `pool` does.
    Replica(PipelinePool& pool, const ReplicaOptions& options, GroupId group,
            Incarnation incarnation);
#ifdef GALGO_PLANTED_BUGS
    Replica(PipelinePool& pool, const ReplicaOptions& options, GroupId group,
            Incarnation incarnation, Mutations mutations);
#endif
    ~Replica();
    Replica(const Replica&) = delete;
    Replica& operator=(const Replica&) = delete;

    /// Takes one event and appends what is to be done to `effects`, which is empty.
    void step(const Event& event, EffectList& effects);
    /// The same, by kind of event.
    void step(const Boot& boot, EffectList& effects);
    void step(const Tick& tick, EffectList& effects);
    void step(const ClientRequest& request, EffectList& effects);
    void step(const Received& received, EffectList& effects);
    void step(const AppendDone& done, EffectList& effects);
    void step(const SuperblockDone& done, EffectList& effects);
    void step(const ReadDone& done, EffectList& effects);

    [[nodiscard]] ReplicaStatus status() const noexcept { return status_; }
    [[nodiscard]] bool fenced() const noexcept { return fenced_; }
    [[nodiscard]] ViewNumber view() const noexcept { return view_; }
    [[nodiscard]] ViewNumber log_view() const noexcept { return log_view_; }
    [[nodiscard]] bool is_primary() const noexcept {
        return primary_of(view_, options_.replica_count) == options_.replica;
    }
    /// Would a request be looked at (the pipeline may still be full)?
    [[nodiscard]] bool admits() const noexcept;
    [[nodiscard]] OpNumber head() const noexcept { return log_.op(); }
    [[nodiscard]] const Head& log_head() const noexcept { return log_.get(); }
    /// Carried out up to here.
    [[nodiscard]] OpNumber commit() const noexcept { return commit_.op; }
    [[nodiscard]] const Head& commit_head() const noexcept { return commit_; }
    /// Known to be committed in the group; what is above commit() is missing here.
    [[nodiscard]] OpNumber commit_max() const noexcept { return commit_max_head().op; }
    [[nodiscard]] const Head& commit_max_head() const noexcept;
    [[nodiscard]] Timestamp last_timestamp() const noexcept { return last_timestamp_; }
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return pipeline_ == nullptr ? 0 : pipeline_->size();
    }
    [[nodiscard]] bool wants_ticks() const noexcept { return cluster_ != nullptr; }
    [[nodiscard]] bool primary_suspected() const noexcept;
    /// The highest view seen on frames that were refused for it; view() when there was none.
    [[nodiscard]] ViewNumber newer_view() const noexcept;
    /// Durable on `peer` with all before it, as far as this primary knows.
    [[nodiscard]] OpNumber acknowledged_by(ReplicaIndex peer) const noexcept;
    /// Durable in the own log without a hole up to here (a group of one: commit()).
    [[nodiscard]] OpNumber durable() const noexcept;
    void check_invariants() const;

 private:
    struct Cluster;  ///< what only a group of more than one needs; detail/cluster.hpp
    struct PeerProgress;

    // replica.cpp
    [[nodiscard]] FatalReason check_boot(const Boot& boot) const noexcept;
    void boot_in_cluster(const Boot& boot, EffectList& effects);
    void become_normal();
    void persist_superblock(EffectList& effects);
    void fence(FatalReason reason, OpNumber op, EffectList& effects);
    [[nodiscard]] const Identity* identity_at(OpNumber op) const noexcept;
    void ensure_pipeline();
    [[nodiscard]] FrameMaker maker() const noexcept;
    [[nodiscard]] bool may_send() const noexcept;
    void send(ReplicaSet to, const OutgoingFrame& frame, EffectList& effects);
    void mark(Mark mark) const noexcept;
    void append_failed(const AppendDone& done, EffectList& effects);

    // on_request.cpp
    void reject(const ClientRequest& request, EffectList& effects) const;
    void send_new_prepare(const Prepare& prepare, EffectList& effects);

    // on_prepare.cpp
    [[nodiscard]] Refusal check_frame(const Received& received) const noexcept;
    [[nodiscard]] Refusal check_role(const Received& received) const noexcept;
    void refuse(const Received& received, Refusal reason, EffectList& effects);
    void on_prepare(const Received& received, const PrepareFrame& frame, EffectList& effects);
    void on_next_prepare(const Received& received, const PrepareFrame& frame, EffectList& effects);
    void append_prepare(const PrepareFrame& frame, EffectList& effects);
    [[nodiscard]] bool learn_commit(const Received& received, const Head& commit,
                                    EffectList& effects);
    void diverged(const Received& received, OpNumber op, EffectList& effects);
    void on_commit_frame(const Received& received, const CommitFrame& frame, EffectList& effects);
    void heard_primary(EffectList& effects);
    void report_gap(EffectList& effects);
    void send_prepare_ok(bool gap, EffectList& effects);

    // on_ack.cpp
    void on_prepare_ok(const Received& received, const PrepareOkFrame& frame, EffectList& effects);
    void resend(ReplicaIndex peer, EffectList& effects);
    [[nodiscard]] bool want_read(OpNumber op, ReplicaIndex peer, EffectList& effects);
    void read_failed(OpNumber op, ReplicaIndex peer, EffectList& effects);

    // commit.cpp
    void raise_commit_by_quorum();
    void commit_contiguous(EffectList& effects);

    // timeouts.cpp
    void tick_primary(const Tick& tick, EffectList& effects);
    void tick_backup(EffectList& effects);

    PipelinePool& pool_;
    const ReplicaOptions& options_;
    std::unique_ptr<Pipeline> pipeline_;  ///< null while nothing is in flight
    std::unique_ptr<Cluster> cluster_;    ///< null in a group of one
    GroupId group_;
    Incarnation incarnation_;
    LogHead log_;
    Head commit_;
    Timestamp last_timestamp_;
    ViewNumber view_;
    ViewNumber log_view_;
    ReplicaStatus status_ = ReplicaStatus::kBooting;
    bool fenced_ = false;
#ifdef GALGO_PLANTED_BUGS
    Mutations mutations_;
    [[nodiscard]] bool planted(Mutation mutation) const noexcept {
        return mutations_.has(mutation);
    }
#endif
};
#ifndef GALGO_PLANTED_BUGS
static_assert(sizeof(Replica) <= 104);
#endif

}  // namespace galgo::consensus

// Frames: what is refused, and what a backup does with those of its primary.
//
// A backup's log is a prefix of the primary's log of the view, because it takes only op + 1 with
// the parent link; so it may carry out what is durable here and committed there. It keeps nothing
// that lies beyond a gap: it says what it has, and the primary sends the rest again. Nothing that a
// peer says is asserted on.
//
// A commit is (op, identity). One at or below the head must name the entry that is here; one beyond
// it is remembered, and the entry that comes there must be it. Otherwise the logs diverged, and
// this replica stops.
#include <algorithm>

#include "consensus/detail/cluster.hpp"
#include "consensus/replica.hpp"

namespace galgo::consensus {

void Replica::step(const Received& received, EffectList& effects) {
    Refusal reason = check_frame(received);
    if (reason == Refusal::kNone) {
        reason = check_role(received);
    }
    if (reason != Refusal::kNone) {
        refuse(received, reason, effects);
        return;
    }
    if (const auto* prepare = std::get_if<PrepareFrame>(&received.frame.payload)) {
        on_prepare(received, *prepare, effects);
    } else if (const auto* ok = std::get_if<PrepareOkFrame>(&received.frame.payload)) {
        on_prepare_ok(received, *ok, effects);
    } else if (const auto* commit = std::get_if<CommitFrame>(&received.frame.payload)) {
        on_commit_frame(received, *commit, effects);
    }
    check_invariants();
}

/// Is it a frame for this group, from the member that it says, in this view?
Refusal Replica::check_frame(const Received& received) const noexcept {
    const FrameHeader& header = received.frame.header;
    if (received.peer.value() >= options_.replica_count ||
        header.replica.value() >= options_.replica_count) {
        return Refusal::kUnknownReplica;
    }
    if (header.replica != received.peer || received.peer == options_.replica) {
        return Refusal::kWrongSender;
    }
    if (header.cluster != options_.cluster) {
        return Refusal::kOtherCluster;
    }
    if (header.group != group_ || header.incarnation != incarnation_) {
        return Refusal::kOtherGroup;
    }
    if (status_ != ReplicaStatus::kNormal) {
        return Refusal::kNotNormal;
    }
    if (header.view < view_) {
        return Refusal::kOldView;
    }
    if (header.view > view_) {
        return Refusal::kNewerView;
    }
    return Refusal::kNone;
}

Refusal Replica::check_role(const Received& received) const noexcept {
    const bool is_ack = std::holds_alternative<PrepareOkFrame>(received.frame.payload);
    if (is_ack) {
        // Also when fenced: what lies before the hole is committed as it is acknowledged.
        return is_primary() ? Refusal::kNone : Refusal::kNotForBackup;
    }
    if (is_primary()) {
        return Refusal::kNotForPrimary;
    }
    if (received.peer != primary_of(view_, options_.replica_count)) {
        return Refusal::kNotFromPrimary;
    }
    return fenced_ ? Refusal::kNotNormal : Refusal::kNone;
}

void Replica::refuse(const Received& received, Refusal reason, EffectList& effects) {
    const ViewNumber view = received.frame.header.view;
    if (reason == Refusal::kOldView) {
        GALGO_MARK(OldViewFrame);
    }
    if (reason == Refusal::kNewerView) {
        GALGO_MARK(NewerViewFrame);
        if (view > cluster_->newer_view) {
            cluster_->newer_view = view;
            effects.push(
                Note{.kind = NoteKind::kNewerViewSeen, .peer = received.peer, .view = view});
        }
    }
    effects.push(Note{.kind = NoteKind::kFrameRefused,
                      .reason = reason,
                      .peer = received.peer,
                      .op = log_.op(),
                      .view = view});
}

void Replica::on_prepare(const Received& received, const PrepareFrame& frame, EffectList& effects) {
    const Prepare& prepare = frame.prepare;
    if (prepare.op == OpNumber{0}) {
        refuse(received, Refusal::kMalformed, effects);
        return;
    }
    heard_primary(effects);
    switch (log_.link(prepare)) {
        case LogHead::Link::kKnown: {
            const Identity* known = identity_at(prepare.op);
            if (known != nullptr && *known != prepare.identity) {
                GALGO_MARK(PrepareOtherIdentity);
                refuse(received, Refusal::kOtherIdentity, effects);
                return;
            }
            // The acknowledgement was lost, or is on its way.
            GALGO_MARK(PrepareKnown);
            if (learn_commit(received, frame.commit, effects)) {
                send_prepare_ok(/*gap=*/false, effects);
            }
            return;
        }
        case LogHead::Link::kGap:
            GALGO_MARK(PrepareGap);
            if (!learn_commit(received, frame.commit, effects)) {
                return;
            }
#ifdef GALGO_PLANTED_BUGS
            if (planted(Mutation::kApplyAcrossGap) && pipeline_ == nullptr) {
                commit_ = {.op = OpNumber(prepare.op.value() - 1), .identity = prepare.parent};
                if (commit_.op > cluster_->commit_max.op) {
                    cluster_->commit_max = commit_;
                }
                log_.planted_set(commit_);
                cluster_->log.plant(commit_);
                append_prepare(frame, effects);
                return;
            }
#endif
            report_gap(effects);
            return;
        case LogHead::Link::kOtherParent:
#ifdef GALGO_PLANTED_BUGS
            if (planted(Mutation::kSkipParentCheck)) {
                log_.planted_set({.op = log_.op(), .identity = prepare.parent});
                break;
            }
#endif
            GALGO_MARK(PrepareOtherParent);
            refuse(received, Refusal::kOtherParent, effects);
            return;
        case LogHead::Link::kFollows:
            break;
    }
    on_next_prepare(received, frame, effects);
}

/// Op + 1 of this log.
void Replica::on_next_prepare(const Received& received, const PrepareFrame& frame,
                              EffectList& effects) {
    const Prepare& prepare = frame.prepare;
    if (compute_identity(group_, incarnation_, prepare) != prepare.identity) {
        refuse(received, Refusal::kIdentity, effects);
        return;
    }
    const bool contradicts_itself =
        frame.commit.op == prepare.op && frame.commit.identity != prepare.identity;
    if (prepare.timestamp <= last_timestamp_ || contradicts_itself) {
        refuse(received, Refusal::kMalformed, effects);
        return;
    }
    const Head& known = cluster_->commit_max;
    if (known.op == prepare.op && known.identity != prepare.identity) {
        diverged(received, prepare.op, effects);
        return;
    }
    if (!learn_commit(received, frame.commit, effects)) {
        return;
    }
    if (in_flight() >= kPipelineMax) {
        GALGO_MARK(PrepareBackupFull);
        refuse(received, Refusal::kPipelineFull, effects);
        return;
    }
    append_prepare(frame, effects);
}

void Replica::append_prepare(const PrepareFrame& frame, EffectList& effects) {
    const Prepare& prepare = frame.prepare;
    log_.advance(prepare);
    last_timestamp_ = prepare.timestamp;
    ensure_pipeline();
    pipeline_->push(prepare, Token{});
    effects.push(
        Append{.prepare = prepare, .view = view_, .commit = commit_max_head(), .token = Token{}});
#ifdef GALGO_PLANTED_BUGS
    if (planted(Mutation::kAckBeforeAppend) && may_send()) {
        ReplicaSet to;
        to.add(primary_of(view_, options_.replica_count));
        send(to,
             maker().make_prepare_ok(*cluster_->superblock.proof(), DurableLog::planted(log_.get()),
                                     log_.op(), commit_.op, /*gap=*/false),
             effects);
    }
#endif
}

void Replica::on_commit_frame(const Received& received, const CommitFrame& frame,
                              EffectList& effects) {
    Cluster& cluster = *cluster_;
    if (frame.counter <= cluster.heartbeat_counter) {
        // Delayed or doubled: says nothing about the primary being alive now.
        GALGO_MARK(HeartbeatStale);
    } else {
        cluster.heartbeat_counter = frame.counter;
        heard_primary(effects);
    }
    if (!learn_commit(received, frame.commit, effects)) {
        return;
    }
    if (frame.commit.op > log_.op()) {
        GALGO_MARK(HeartbeatShowsGap);
        report_gap(effects);
    }
}

/// The primary says that `commit` is committed: carries out what that allows. False: the logs
/// diverged.
bool Replica::learn_commit(const Received& received, const Head& commit, EffectList& effects) {
    Head& known = cluster_->commit_max;
    const Identity* own = commit.op == known.op ? &known.identity : identity_at(commit.op);
    bool other = own != nullptr && *own != commit.identity;
#ifdef GALGO_PLANTED_BUGS
    other = other && !planted(Mutation::kBelieveCommitNumber);
#endif
    if (other) {
        diverged(received, commit.op, effects);
        return false;
    }
    if (commit.op > known.op) {
        known = commit;
        if (commit.op > log_.op()) {
            GALGO_MARK(CommitBeyondHead);
        }
    }
    commit_contiguous(effects);
    return true;
}

/// This log and that of the primary hold, or will hold, different entries at a committed op.
void Replica::diverged(const Received& received, OpNumber op, EffectList& effects) {
    GALGO_MARK(Diverged);
    refuse(received, Refusal::kOtherIdentity, effects);
    fence(FatalReason::kDiverged, op, effects);
}

void Replica::heard_primary(EffectList& effects) {
    cluster_->heard = cluster_->now;
    if (cluster_->suspected) {
        GALGO_MARK(PrimaryHeardAgain);
        cluster_->suspected = false;
        effects.push(Note{.kind = NoteKind::kPrimaryHeardAgain, .view = view_});
    }
}

/// Once a tick: what follows a gap comes in a burst, and one answer to it is enough.
void Replica::report_gap(EffectList& effects) {
    if (cluster_->gap_reported) {
        GALGO_MARK(GapReportSuppressed);
        return;
    }
    GALGO_MARK(GapReported);
    cluster_->gap_reported = true;
    send_prepare_ok(/*gap=*/true, effects);
}

void Replica::send_prepare_ok(bool gap, EffectList& effects) {
    if (!may_send()) {
        return;
    }
    ReplicaSet to;
    to.add(primary_of(view_, options_.replica_count));
    send(to,
         maker().make_prepare_ok(*cluster_->superblock.proof(), cluster_->log.proof(), log_.op(),
                                 commit_.op, gap),
         effects);
}

}  // namespace galgo::consensus

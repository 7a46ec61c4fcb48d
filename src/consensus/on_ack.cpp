// Acknowledgements on the primary, and sending again what a backup missed.
//
// An acknowledgement names the last entry that is durable at the backup together with everything
// before it; its identity covers them all. So a lost acknowledgement costs nothing once a later one
// arrives, and a backup counts once, whatever comes twice.
//
// Sending again: from the log, oldest first, at most kResendWindow ops beyond what the backup has;
// the next ones go when it acknowledges. It begins when a backup reports a gap, or what it has did
// not grow for resend_ticks (doubled at each further attempt, up to 16 times); a backup that stays
// silent is tried with one op. All backups of a group together cost at most resend_per_tick_max
// reads a tick. While reads are under way for a backup, new prepares wait behind them.
//
// A read that fails: nothing is read for that backup for resend_ticks, doubled with each failure in
// a row, up to 16 times; at the 5th it is said that the backup starves (NoteKind::kBackupStarved).
#include <algorithm>

#include "consensus/detail/cluster.hpp"
#include "consensus/replica.hpp"

namespace galgo::consensus {
namespace {

constexpr std::uint64_t kResendWindow = 16;
constexpr std::uint8_t kProbeAfterAttempts = 2;
constexpr std::uint8_t kReadBackoffMax = 4;
constexpr std::uint8_t kStarvedAfterReads = 5;

}  // namespace

void Replica::on_prepare_ok(const Received& received, const PrepareOkFrame& frame,
                            EffectList& effects) {
    Cluster& cluster = *cluster_;
    PeerProgress& peer = cluster.peers[received.peer.value()];
    if (frame.durable.op > log_.op() || frame.received > log_.op()) {
        GALGO_MARK(AckBeyondHead);
        refuse(received, Refusal::kBeyondHead, effects);
        return;
    }
    if (frame.received < frame.durable.op || frame.commit > frame.durable.op) {
        refuse(received, Refusal::kMalformed, effects);
        return;
    }
    const Identity* own = identity_at(frame.durable.op);
    if (own != nullptr && *own != frame.durable.identity) {
        GALGO_MARK(AckOtherIdentity);
        refuse(received, Refusal::kOtherIdentity, effects);
        return;
    }
    if (frame.durable.op < peer.have) {
        GALGO_MARK(AckStale);
        return;
    }
    if (frame.durable.op > peer.have) {
        peer.have = frame.durable.op;
        if (peer.have > peer.sent) {
            // It came by another way than the one that failed.
            peer.sent = peer.have;
            peer.asked = std::max(peer.asked, peer.sent);
            peer.read_failed = false;
            peer.read_failures = 0;
        }
        peer.attempts = 0;
        if (!peer.read_failed) {
            peer.due = cluster.now.plus(options_.resend_ticks);
        }
        raise_commit_by_quorum();
        commit_contiguous(effects);
    }
    if (frame.gap && frame.received < peer.sent) {
        GALGO_MARK(AckGap);
        peer.sent = peer.asked = std::max(frame.received, peer.have);
    }
    resend(received.peer, effects);
}

/// Asks the log for the next ops that the backup was not sent. They go to it in order, whatever the
/// order in which the reads end: a backup takes nothing but its next op.
void Replica::resend(ReplicaIndex index, EffectList& effects) {
    if (!may_send()) {
        return;
    }
    PeerProgress& peer = cluster_->peers[index.value()];
    if (peer.read_failed) {
        return;
    }
    const std::uint64_t window = peer.attempts >= kProbeAfterAttempts ? 1 : kResendWindow;
    const OpNumber end = std::min(log_.op(), peer.have.plus(window));
    while (peer.asked < end) {
        if (!want_read(peer.asked.next(), index, effects)) {
            GALGO_MARK(ResendBudgetSpent);
            return;
        }
        peer.asked = peer.asked.next();
    }
}

/// False: no more in this tick.
bool Replica::want_read(OpNumber op, ReplicaIndex peer, EffectList& effects) {
    Cluster::WantedRead* vacant = nullptr;
    for (Cluster::WantedRead& read : cluster_->reads) {
        if (read.op == op) {
            GALGO_MARK(ResendJoinedRead);
            read.peers.add(peer);
            return true;
        }
        if (read.op == OpNumber{0} && vacant == nullptr) {
            vacant = &read;
        }
    }
    if (vacant == nullptr || cluster_->resend_budget == 0) {
        return false;
    }
    --cluster_->resend_budget;
    vacant->op = op;
    vacant->peers.add(peer);
    effects.push(Read{.op = op});
    return true;
}

void Replica::step(const ReadDone& done, EffectList& effects) {
    GALGO_CHECK(cluster_ != nullptr && done.op != OpNumber{0});
    const auto wanted = std::ranges::find(cluster_->reads, done.op, &Cluster::WantedRead::op);
    if (wanted == cluster_->reads.end()) {
        GALGO_MARK(ReadNotWanted);
        return;
    }
    ReplicaSet to = wanted->peers;
    *wanted = {};
    if (!may_send() || !is_primary()) {
        return;
    }
    const Prepare& prepare = done.prepare;
    const Identity* own = identity_at(done.op);
    const bool good = done.status == ReadStatus::kPresent && prepare.op == done.op &&
                      (own == nullptr || *own == prepare.identity) &&
                      compute_identity(group_, incarnation_, prepare) == prepare.identity;
    for (std::uint8_t i = 0; i < options_.replica_count; ++i) {
        const ReplicaIndex index(i);
        PeerProgress& peer = cluster_->peers[i];
        if (!to.contains(index)) {
            continue;
        }
        if (!good) {
            read_failed(done.op, index, effects);
            continue;
        }
        peer.read_failures = 0;
        if (done.op == peer.sent.next()) {
            peer.sent = done.op;
            peer.asked = std::max(peer.asked, peer.sent);
            continue;
        }
        to.remove(index);
        if (done.op > peer.sent) {
            // What lies before it is still to come, or could not be read.
            GALGO_MARK(ReadHeldBack);
            peer.asked = peer.sent;
        }
    }
    if (!good) {
        GALGO_MARK(ReadFailed);
        effects.push(Note{.kind = NoteKind::kReadFailed, .op = done.op, .view = view_});
    } else if (!to.empty()) {
        send(to, maker().make_prepare(*cluster_->superblock.proof(), prepare, cluster_->commit_max),
             effects);
    }
    check_invariants();
}

void Replica::read_failed(OpNumber op, ReplicaIndex index, EffectList& effects) {
    PeerProgress& peer = cluster_->peers[index.value()];
    if (peer.sent >= op) {
        return;
    }
    peer.asked = peer.sent;
    if (peer.read_failed) {
        return;  // one of those that were asked for together
    }
    peer.read_failed = true;
    const unsigned backoff = std::min(peer.read_failures, kReadBackoffMax);
    peer.due = cluster_->now.plus(std::uint64_t{options_.resend_ticks} << backoff);
    peer.read_failures = static_cast<std::uint8_t>(std::min(peer.read_failures + 1, 255));
    if (peer.read_failures == kStarvedAfterReads) {
        GALGO_MARK(BackupStarved);
        effects.push(
            Note{.kind = NoteKind::kBackupStarved, .peer = index, .op = op, .view = view_});
    }
}

}  // namespace galgo::consensus

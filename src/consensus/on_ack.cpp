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
// reads a tick.
#include <algorithm>

#include "consensus/detail/cluster.hpp"
#include "consensus/replica.hpp"

namespace galgo::consensus {
namespace {

constexpr std::uint64_t kResendWindow = 16;
constexpr std::uint8_t kProbeAfterAttempts = 2;

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
        peer.sent = std::max(peer.sent, peer.have);
        peer.attempts = 0;
        peer.due = cluster.now.plus(options_.resend_ticks);
        raise_commit_by_quorum();
        commit_contiguous(effects);
    }
    if (frame.gap && frame.received < peer.sent) {
        GALGO_MARK(AckGap);
        peer.sent = std::max(frame.received, peer.have);
    }
    resend(received.peer, effects);
}

/// Asks the log for the next ops that the backup was not sent.
void Replica::resend(ReplicaIndex index, EffectList& effects) {
    if (!may_send()) {
        return;
    }
    PeerProgress& peer = cluster_->peers[index.value()];
    const std::uint64_t window = peer.attempts >= kProbeAfterAttempts ? 1 : kResendWindow;
    const OpNumber end = std::min(log_.op(), peer.have.plus(window));
    while (peer.sent < end) {
        if (!want_read(peer.sent.next(), index, effects)) {
            GALGO_MARK(ResendBudgetSpent);
            return;
        }
        peer.sent = peer.sent.next();
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
            // Tried again with the next tick.
            peer.sent = std::min(peer.sent, std::max(peer.have, OpNumber(done.op.value() - 1)));
        } else if (peer.have >= done.op) {
            to.remove(index);
        }
    }
    if (!good) {
        GALGO_MARK(ReadFailed);
        effects.push(Note{.kind = NoteKind::kReadFailed, .op = done.op, .view = view_});
        return;
    }
    if (!to.empty()) {
        send(to, maker().make_prepare(*cluster_->durable_view, prepare, commit_max_), effects);
    }
    check_invariants();
}

}  // namespace galgo::consensus

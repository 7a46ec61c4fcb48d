// A client's request on the primary: stamp it, make it the head, begin its append, and send it to
// every backup at once.
//
// Stamps. A group of one stamps max(now, last): a clock that stands still or steps back does not
// order messages backwards. With more replicas stamps rise, max(now, last + 1), and they may run
// ahead of this node's clock by no more than stamp_ahead_max: a primary whose clock was far ahead
// must not push the stamps of all its successors there for ever, so its successor waits.
#include <algorithm>

#include "consensus/detail/cluster.hpp"
#include "consensus/replica.hpp"

namespace galgo::consensus {

void Replica::step(const ClientRequest& request, EffectList& effects) {
    if (!admits()) {
        if (fenced_) {
            GALGO_MARK(RejectedFenced);
        } else {
            GALGO_MARK(RejectedNotPrimary);
        }
        reject(request, effects);
        return;
    }
    if (in_flight() >= options_.pipeline_max) {
        GALGO_MARK(PipelineFull);
        reject(request, effects);
        return;
    }
    const Timestamp least = cluster_ == nullptr ? last_timestamp_ : last_timestamp_.next();
    if (least > request.wall) {
        GALGO_MARK(StampClamped);
        if (cluster_ != nullptr &&
            least.value() - request.wall.value() > options_.stamp_ahead_max_us) {
            GALGO_MARK(StampTooFarAhead);
            reject(request, effects);
            return;
        }
    }
    ensure_pipeline();
    last_timestamp_ = std::max(request.wall, least);
    const Prepare prepare = log_.extend(group_, incarnation_, last_timestamp_, request.body);
    pipeline_->push(prepare, request.token);
    effects.push(Append{
        .prepare = prepare, .view = view_, .commit = commit_max_head(), .token = request.token});
    if (cluster_ != nullptr) {
        send_new_prepare(prepare, effects);
#ifdef GALGO_PLANTED_BUGS
        if (planted(Mutation::kAckBeforeAppend) || planted(Mutation::kQuorumOneShort)) {
            raise_commit_by_quorum();
            commit_contiguous(effects);
        }
#endif
    }
    check_invariants();
}

void Replica::reject(const ClientRequest& request, EffectList& effects) const {
    effects.push(Reject{.token = request.token, .error = ErrorCode::kTransientNotAccepted});
}

/// To the backups that were sent everything before it. One that is being sent older ops again, that
/// waits for what is being read for it, or that has not acknowledged anything for a whole pipeline,
/// gets it in its turn from the log.
void Replica::send_new_prepare(const Prepare& prepare, EffectList& effects) {
    Cluster& cluster = *cluster_;
    ReplicaSet to;
    for (std::uint8_t i = 0; i < options_.replica_count; ++i) {
        if (i == options_.replica.value()) {
            continue;
        }
        PeerProgress& peer = cluster.peers[i];
        if (peer.sent.next() != prepare.op || peer.asked != peer.sent ||
            prepare.op.value() - peer.have.value() > kPipelineMax) {
            GALGO_MARK(PrepareHeldBackFromPeer);
            continue;
        }
        if (peer.sent == peer.have) {
            peer.due = cluster.now.plus(options_.resend_ticks);
        }
        peer.sent = peer.asked = prepare.op;
        to.add(ReplicaIndex(i));
    }
    if (to.empty()) {
        return;
    }
    send(to, maker().make_prepare(*cluster.superblock.proof(), prepare, cluster.commit_max),
         effects);
    if (to.count() + 1 == options_.replica_count) {
        cluster.heartbeat_due = cluster.now.plus(options_.heartbeat_ticks);
    }
}

}  // namespace galgo::consensus

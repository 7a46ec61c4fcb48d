// What is committed, and carrying it out in order.
#include <algorithm>
#include <array>
#include <functional>

#include "consensus/detail/cluster.hpp"
#include "consensus/replica.hpp"

namespace galgo::consensus {

/// An op is committed when a majority has it durable, with all before it: the q-th largest of what
/// the replicas have. The own log counts as far as it is durable; it may be among the missing.
void Replica::raise_commit_by_quorum() {
    std::size_t quorum = quorums_of(options_.replica_count).replication;
    OpNumber own = cluster_->log.op();
#ifdef GALGO_PLANTED_BUGS
    if (planted(Mutation::kQuorumOneShort)) {
        --quorum;
    }
    if (planted(Mutation::kAckBeforeAppend)) {
        own = log_.op();
    }
#endif
    std::array<OpNumber, kReplicasMax> have;
    const auto end = have.begin() + options_.replica_count;
    for (std::size_t i = 0; i < options_.replica_count; ++i) {
        have[i] = i == options_.replica.value() ? own : cluster_->peers[i].have;
    }
    const auto decisive = have.begin() + static_cast<std::ptrdiff_t>(quorum - 1);
    std::nth_element(have.begin(), decisive, end, std::greater<>());
    if (*decisive > cluster_->commit_max.op) {
        if (*decisive > own) {
            GALGO_MARK(CommitBeforeOwnAppend);
        }
        // Prepared here, and not carried out: in the pipeline.
        const Identity* identity = identity_at(*decisive);
        GALGO_CHECK(identity != nullptr);
        cluster_->commit_max = {.op = *decisive, .identity = *identity};
    }
}

/// Carries out what is committed and durable here. In a group of one an entry is decided by its own
/// append, in either way. A fenced backup carries out nothing: its log may not be that of the
/// group. A fenced primary only lacks what lies behind the hole.
void Replica::commit_contiguous(EffectList& effects) {
    if (pipeline_ == nullptr) {
        return;
    }
    if (fenced_ && !is_primary()) {
#ifdef GALGO_PLANTED_BUGS
        if (!planted(Mutation::kGoOnWhenFenced))
#endif
            return;
    }
    while (!pipeline_->empty()) {
        const PipelineEntry& entry = pipeline_->front();
        const Head head{.op = pipeline_->first_op(), .identity = entry.identity};
        if (cluster_ == nullptr) {
            if (entry.state == AppendState::kPending) {
                break;
            }
        } else if (head.op > cluster_->commit_max.op) {
            break;
        } else if (head.op > cluster_->log.op()) {
            GALGO_MARK(CommitWaitsForOwnLog);
            break;
        }
        bool failed = entry.state == AppendState::kFailed;
#ifdef GALGO_PLANTED_BUGS
        failed = failed && !planted(Mutation::kCommitFailedAppend);
#endif
        if (failed) {
            effects.push(Abandon{.head = head, .token = entry.token, .error = ErrorCode::kIoError});
        } else {
            effects.push(Commit{.head = head, .token = entry.token});
        }
        commit_ = head;
        pipeline_->pop_front();
    }
    if (pipeline_->empty()) {
        pool_.give_back(std::move(pipeline_));
    }
}

}  // namespace galgo::consensus

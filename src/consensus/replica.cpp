// Construction, boot and superblock, the end of an append, invariants, and what all handlers share.
#include "consensus/replica.hpp"

#include <algorithm>
#include <variant>

#include "base/check.hpp"
#include "consensus/detail/cluster.hpp"

namespace galgo::consensus {

namespace {

constexpr unsigned kSuperblockBackoffMax = 6;  // 64 ticks

}  // namespace

Replica::Replica(PipelinePool& pool, const ReplicaOptions& options, GroupId group,
                 Incarnation incarnation)
    : pool_(pool), options_(options), group_(group), incarnation_(incarnation) {
    GALGO_CHECK(replica_count_supported(options.replica_count));
    GALGO_CHECK(options.replica.value() < options.replica_count);
    GALGO_CHECK(options.pipeline_max >= 1 && options.pipeline_max <= kPipelineMax);
    GALGO_CHECK(options.resend_per_tick_max >= 1);
    if (options.replica_count > 1) {
        cluster_ = std::make_unique<Cluster>(options.replica_count);
    }
}

#ifdef GALGO_PLANTED_BUGS
Replica::Replica(PipelinePool& pool, const ReplicaOptions& options, GroupId group,
                 Incarnation incarnation, Mutations mutations)
    : Replica(pool, options, group, incarnation) {
    mutations_ = mutations;
}
#endif

Replica::~Replica() = default;

void Replica::step(const Event& event, EffectList& effects) {
    std::visit([&](const auto& one) { step(one, effects); }, event);
}

void Replica::step(const Boot& boot, EffectList& effects) {
    GALGO_CHECK(status_ == ReplicaStatus::kBooting && log_.op() == OpNumber{0});
    if (boot.superblock.has_value()) {
        const SuperblockState& stored = *boot.superblock;
        if (stored.cluster != options_.cluster || stored.replica != options_.replica ||
            stored.replica_count != options_.replica_count) {
            fence(FatalReason::kOtherIdentity, boot.log.head.op, effects);
            return;
        }
        if (stored.log_view > stored.view) {
            fence(FatalReason::kBadSuperblock, boot.log.head.op, effects);
            return;
        }
        view_ = stored.view;
        log_view_ = stored.log_view;
    }
    log_ = LogHead(boot.log.head);
    last_timestamp_ = boot.log.last_timestamp;
    if (cluster_ != nullptr) {
        boot_in_cluster(boot, effects);
        return;
    }
    // What a group of one has in its log is committed.
    commit_ = boot.log.head;
    commit_max_ = commit_.op;
    status_ = ReplicaStatus::kNormal;
    check_invariants();
}

void Replica::boot_in_cluster(const Boot& boot, EffectList& effects) {
    Cluster& cluster = *cluster_;
    cluster.now = boot.now;
    cluster.newer_view = view_;
    cluster.durable = DurableEntry::proven_by(boot);
    cluster.durable_view = DurableView::proven_by(boot);
    // The log behind the known commit may have to give way to another one; nothing of it is
    // carried out before that is decided.
    commit_ = {.op = std::min(boot.log.commit, boot.log.head.op), .identity = {}};
    commit_max_ = boot.log.commit;
    if (boot.superblock.has_value() || boot.log.head.op != OpNumber{0}) {
        status_ = ReplicaStatus::kRecovering;
        effects.push(Note{.kind = NoteKind::kRecoveryNeeded, .op = log_.op(), .view = view_});
        return;
    }
    persist_superblock(effects);
#ifdef GALGO_PLANTED_BUGS
    if (planted(Mutation::kFrameBeforeSuperblock)) {
        cluster.durable_view = DurableView::planted({.view = view_, .log_view = log_view_});
        become_normal();
    }
#endif
    check_invariants();
}

void Replica::become_normal() {
    status_ = ReplicaStatus::kNormal;
    cluster_->heard = cluster_->now;
    cluster_->heartbeat_due = cluster_->now;
    cluster_->resend_budget = options_.resend_per_tick_max;
}

void Replica::persist_superblock(EffectList& effects) {
    GALGO_CHECK(!cluster_->superblock_in_flight);
    cluster_->superblock_in_flight = true;
    effects.push(PersistSuperblock{{.cluster = options_.cluster,
                                    .replica = options_.replica,
                                    .replica_count = options_.replica_count,
                                    .view = view_,
                                    .log_view = log_view_,
                                    .commit_max = commit_max_}});
}

void Replica::step(const SuperblockDone& done, EffectList& effects) {
    GALGO_CHECK(cluster_ != nullptr && cluster_->superblock_in_flight);
    static_cast<void>(effects);
    cluster_->superblock_in_flight = false;
    const std::optional<DurableView> proof = DurableView::proven_by(done);
    if (!proof.has_value()) {
        const unsigned backoff =
            std::min<unsigned>(cluster_->superblock_attempts, kSuperblockBackoffMax);
        cluster_->superblock_due = cluster_->now.plus(std::uint64_t{1} << backoff);
        ++cluster_->superblock_attempts;
        return;
    }
    cluster_->superblock_attempts = 0;
    GALGO_CHECK(proof->view() <= view_);
    cluster_->durable_view = proof;
    if (status_ == ReplicaStatus::kBooting && proof->view() == view_) {
        become_normal();
    }
    check_invariants();
}

void Replica::step(const AppendDone& done, EffectList& effects) {
    GALGO_CHECK(pipeline_ != nullptr);
    pipeline_->record(done);
    if (done.status == AppendStatus::kFailed) {
        append_failed(done, effects);
    } else if (cluster_ != nullptr) {
        const OpNumber before = cluster_->durable->head().op;
        while (const auto further = pipeline_->durable_after(*cluster_->durable)) {
            cluster_->durable = further;
        }
        const bool rose = cluster_->durable->head().op > before;
        if (!rose) {
            GALGO_MARK(AppendsEndedOutOfOrder);
        } else if (is_primary()) {
            raise_commit_by_quorum();
        } else {
            send_prepare_ok(/*gap=*/false, effects);
        }
    }
    commit_contiguous(effects);
    check_invariants();
}

void Replica::append_failed(const AppendDone& done, EffectList& effects) {
    effects.push(Note{.kind = NoteKind::kAppendFailed, .op = done.op, .view = view_});
#ifdef GALGO_PLANTED_BUGS
    if (planted(Mutation::kReuseFailedOp) && done.op == log_.op() && is_primary()) {
        effects.push(Abandon{.head = log_.get(), .token = pipeline_->back().token});
        pipeline_->planted_pop_back();
        log_.planted_set(pipeline_->empty() ? commit_
                                            : Head{.op = OpNumber(done.op.value() - 1),
                                                   .identity = pipeline_->back().identity});
        if (cluster_ != nullptr) {
            for (PeerProgress& peer : cluster_->peers) {
                peer.sent = std::min(peer.sent, log_.op());
                peer.have = std::min(peer.have, log_.op());
            }
            commit_max_ = std::min(commit_max_, log_.op());
            cluster_->durable = DurableEntry::planted(
                std::min(cluster_->durable->head(), log_.get(),
                         [](const Head& left, const Head& right) { return left.op < right.op; }));
        }
        return;
    }
#endif
    if (cluster_ == nullptr) {
        GALGO_MARK(AppendFailedAlone);
        return;  // abandoned in its turn
    }
    fenced_ = true;
    if (!is_primary()) {
        GALGO_MARK(AppendFailedOnBackup);
        return;
    }
    GALGO_MARK(AppendFailedOnPrimary);
    for (OpNumber op = done.op; op <= log_.op(); op = op.next()) {
        PipelineEntry& entry = *pipeline_->find(op);
        if (!entry.abandoned) {
            entry.abandoned = true;
            effects.push(Abandon{.head = {.op = op, .identity = entry.identity},
                                 .token = entry.token,
                                 .error = ErrorCode::kTransientNotCommitted});
        }
    }
}

void Replica::fence(FatalReason reason, OpNumber op, EffectList& effects) {
    fenced_ = true;
    effects.push(Fatal{.reason = reason, .op = op});
}

bool Replica::admits() const noexcept {
    return status_ == ReplicaStatus::kNormal && !fenced_ && is_primary();
}

bool Replica::primary_suspected() const noexcept {
    return cluster_ != nullptr && cluster_->suspected;
}

ViewNumber Replica::newer_view() const noexcept {
    return cluster_ == nullptr ? view_ : cluster_->newer_view;
}

OpNumber Replica::durable() const noexcept {
    return cluster_ == nullptr || !cluster_->durable.has_value() ? commit_.op
                                                                 : cluster_->durable->head().op;
}

/// Null when the op is not remembered.
const Identity* Replica::identity_at(OpNumber op) const noexcept {
    if (op == commit_.op) {
        return &commit_.identity;
    }
    const PipelineEntry* entry = pipeline_ == nullptr ? nullptr : pipeline_->find(op);
    return entry == nullptr ? nullptr : &entry->identity;
}

void Replica::ensure_pipeline() {
    if (pipeline_ == nullptr) {
        pipeline_ = pool_.borrow();
    }
}

FrameMaker Replica::maker() const noexcept {
    return {options_.cluster, group_, incarnation_, options_.replica};
}

/// Speaks this replica for its view? Whatever is sent asks here first.
bool Replica::may_send() const noexcept {
    return status_ == ReplicaStatus::kNormal && !fenced_ && cluster_ != nullptr &&
           cluster_->durable_view.has_value() && cluster_->durable_view->view() == view_;
}

void Replica::send(ReplicaSet to, const OutgoingFrame& frame, EffectList& effects) {
    GALGO_CHECK(may_send());
    GALGO_CHECK(!to.empty() && !to.contains(options_.replica));
    effects.push(Send{.to = to, .frame = frame});
}

void Replica::mark(Mark mark) const noexcept {
    if (options_.marks != nullptr) {
        options_.marks->hit(mark);
    }
}

void Replica::check_invariants() const {
    GALGO_CHECK(log_view_ <= view_);
    GALGO_CHECK(commit_.op <= log_.op());
    GALGO_CHECK(commit_.op <= commit_max_);
    if (status_ == ReplicaStatus::kNormal) {
        GALGO_CHECK(log_.op().value() - commit_.op.value() == in_flight());
    }
    if (pipeline_ != nullptr) {
        GALGO_CHECK(!pipeline_->empty());
        GALGO_CHECK(pipeline_->first_op() == commit_.op.next());
        GALGO_CHECK(pipeline_->back().identity == log_.get().identity);
    }
    if (cluster_ == nullptr || status_ == ReplicaStatus::kBooting) {
        return;
    }
    if (cluster_->durable_view.has_value()) {
        GALGO_CHECK(cluster_->durable_view->view() <= view_);
    }
    const OpNumber durable_op = cluster_->durable->head().op;
    GALGO_CHECK(commit_.op <= durable_op);
    GALGO_CHECK(durable_op <= log_.op());
    for (const PeerProgress& peer : cluster_->peers) {
        GALGO_CHECK(peer.have <= peer.sent);
        GALGO_CHECK(peer.sent <= log_.op());
    }
}

}  // namespace galgo::consensus

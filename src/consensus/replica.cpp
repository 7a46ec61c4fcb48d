// Construction, boot and superblock, the end of an append, invariants, and what all handlers share.
#include "consensus/replica.hpp"

#include <algorithm>
#include <variant>

#include "base/check.hpp"
#include "consensus/detail/cluster.hpp"

namespace galgo::consensus {

namespace {

constexpr std::uint8_t kSuperblockBackoffMax = 6;  // 64 ticks

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
    if (const FatalReason reason = check_boot(boot); reason != FatalReason::kNone) {
        fence(reason, boot.log.head.op, effects);
        return;
    }
    if (boot.superblock.has_value()) {
        view_ = boot.superblock->view;
        log_view_ = boot.superblock->log_view;
    }
    log_ = LogHead(boot.log.head);
    last_timestamp_ = boot.log.last_timestamp;
    if (cluster_ != nullptr) {
        boot_in_cluster(boot, effects);
        return;
    }
    // What a group of one has in its log is committed.
    commit_ = boot.log.head;
    status_ = ReplicaStatus::kNormal;
    check_invariants();
}

FatalReason Replica::check_boot(const Boot& boot) const noexcept {
    const Head& head = boot.log.head;
    if (boot.superblock.has_value()) {
        const SuperblockState& stored = *boot.superblock;
        if (stored.cluster != options_.cluster || stored.replica != options_.replica ||
            stored.replica_count != options_.replica_count) {
            return FatalReason::kOtherIdentity;
        }
        if (stored.log_view > stored.view) {
            return FatalReason::kBadSuperblock;
        }
    } else if (cluster_ != nullptr && (!boot.fresh || head.op != OpNumber{0})) {
        GALGO_MARK(BootWithoutSuperblock);
#ifdef GALGO_PLANTED_BUGS
        if (planted(Mutation::kEmptyIsFresh) && head.op == OpNumber{0}) {
            return FatalReason::kNone;
        }
#endif
        return FatalReason::kNoSuperblock;
    }
    const bool contradicts =
        boot.log.commit.op == head.op && boot.log.commit.identity != head.identity;
    return cluster_ != nullptr && contradicts ? FatalReason::kBadLog : FatalReason::kNone;
}

void Replica::boot_in_cluster(const Boot& boot, EffectList& effects) {
    Cluster& cluster = *cluster_;
    cluster.now = boot.now;
    cluster.newer_view = view_;
    cluster.log = DurableLog(boot);
    cluster.superblock.recovered(boot);
    // The log behind the known commit may have to give way to another one; nothing of it is
    // carried out before that is decided. The superblock may know of a later commit, but not that
    // this log leads there.
    commit_ = boot.log.commit.op < boot.log.head.op ? boot.log.commit : boot.log.head;
    cluster.commit_max = boot.log.commit;
    if (boot.superblock.has_value() && boot.superblock->commit_max.op > cluster.commit_max.op) {
        cluster.commit_max = boot.superblock->commit_max;
    }
    if (boot.superblock.has_value()) {
        status_ = ReplicaStatus::kRecovering;
        effects.push(Note{.kind = NoteKind::kRecoveryNeeded, .op = log_.op(), .view = view_});
        return;
    }
    persist_superblock(effects);
#ifdef GALGO_PLANTED_BUGS
    if (planted(Mutation::kFrameBeforeSuperblock)) {
        cluster.superblock.plant(view_);
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
    const SuperblockState state{.cluster = options_.cluster,
                                .replica = options_.replica,
                                .replica_count = options_.replica_count,
                                .view = view_,
                                .log_view = log_view_,
                                .commit_max = cluster_->commit_max};
    cluster_->superblock.asked(state);
    effects.push(PersistSuperblock{state});
}

void Replica::step(const SuperblockDone& done, EffectList& effects) {
    GALGO_CHECK(cluster_ != nullptr);
    static_cast<void>(effects);
    if (!cluster_->superblock.ended(done)) {
        // 1, 2, 4 .. 64 ticks later, and 64 from then on.
        std::uint8_t& attempts = cluster_->superblock_attempts;
        cluster_->superblock_due =
            cluster_->now.plus(std::uint64_t{1} << std::min(attempts, kSuperblockBackoffMax));
        attempts = static_cast<std::uint8_t>(std::min(attempts, kSuperblockBackoffMax) + 1);
        return;
    }
    cluster_->superblock_attempts = 0;
    if (status_ == ReplicaStatus::kBooting && done.state.view == view_) {
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
        bool extended = cluster_->log.extend(*pipeline_);
#ifdef GALGO_PLANTED_BUGS
        if (planted(Mutation::kAckByHighest) && done.op > cluster_->log.op()) {
            cluster_->log.plant({.op = done.op, .identity = done.identity});
            extended = true;
        }
#endif
        if (!extended) {
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
                peer.asked = std::min(peer.asked, log_.op());
                peer.have = std::min(peer.have, log_.op());
            }
            if (cluster_->commit_max.op > log_.op()) {
                cluster_->commit_max = log_.get();
            }
            if (cluster_->log.op() > log_.op()) {
                cluster_->log.plant(log_.get());
            }
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
        const PipelineEntry& entry = *pipeline_->find(op);
        if (!entry.abandoned) {
            pipeline_->abandon(op);
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

OpNumber Replica::acknowledged_by(ReplicaIndex peer) const noexcept {
    GALGO_CHECK(cluster_ != nullptr && peer.value() < options_.replica_count);
    return cluster_->peers[peer.value()].have;
}

OpNumber Replica::durable() const noexcept {
    return cluster_ == nullptr ? commit_.op : cluster_->log.op();
}

const Head& Replica::commit_max_head() const noexcept {
    return cluster_ == nullptr ? commit_ : cluster_->commit_max;
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
           cluster_->superblock.proof().has_value() &&
           cluster_->superblock.proof()->view() == view_;
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
    GALGO_CHECK(commit_.op <= commit_max());
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
    if (cluster_->superblock.proof().has_value()) {
        GALGO_CHECK(cluster_->superblock.proof()->view() <= view_);
    }
    GALGO_CHECK(commit_.op <= cluster_->log.op());
    GALGO_CHECK(cluster_->log.op() <= log_.op());
    for (const PeerProgress& peer : cluster_->peers) {
        GALGO_CHECK(peer.have <= peer.sent);
        GALGO_CHECK(peer.sent <= peer.asked);
        GALGO_CHECK(peer.asked <= log_.op());
    }
}

}  // namespace galgo::consensus

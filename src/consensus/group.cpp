#include "consensus/group.hpp"

#include <algorithm>

namespace galgo::consensus {

Group::Group(PipelinePool& pool, const Start& start) noexcept
    : pool_(pool),
      head_(start.head),
      commit_(start.head),
      last_timestamp_(start.last_timestamp),
      view_(start.view),
      pipeline_max_(start.pipeline_max) {
    GALGO_CHECK(pipeline_max_ >= 1 && pipeline_max_ <= kPipelineMax);
}

Group::~Group() = default;

void Group::step(const Request& request, EffectList& effects) {
    if (in_flight() >= pipeline_max_) {
        effects.push({.kind = EffectKind::kReject,
                      .error = ErrorCode::kTransientNotAccepted,
                      .token = request.token});
        return;
    }
    if (pipeline_ == nullptr) {
        pipeline_ = pool_.borrow();
    }
    head_ = head_.next();
    // A clock that stands still or steps back must not order messages backwards.
    last_timestamp_ = std::max(request.wall, last_timestamp_);
    pipeline_->push({.op = head_, .token = request.token, .state = AppendState::kPending});
    effects.push({.kind = EffectKind::kAppend,
                  .view = view_,
                  .op = head_,
                  .timestamp = last_timestamp_,
                  .token = request.token});
    check_invariants();
}

void Group::step(const AppendDone& done, EffectList& effects) {
    GALGO_CHECK(pipeline_ != nullptr);
    PipelineEntry* entry = pipeline_->find(done.op);
    GALGO_CHECK(entry != nullptr);
    GALGO_CHECK(entry->state == AppendState::kPending);
    entry->state = done.durable ? AppendState::kDurable : AppendState::kFailed;
    commit_contiguous(effects);
    check_invariants();
}

void Group::commit_contiguous(EffectList& effects) {
    while (!pipeline_->empty() && pipeline_->front().state != AppendState::kPending) {
        const PipelineEntry& entry = pipeline_->front();
        const bool durable = entry.state == AppendState::kDurable;
        effects.push({.kind = durable ? EffectKind::kCommit : EffectKind::kAbandon,
                      .error = durable ? ErrorCode::kOk : ErrorCode::kIoError,
                      .view = view_,
                      .op = entry.op,
                      .token = entry.token});
        commit_ = entry.op;
        pipeline_->pop_front();
    }
    if (pipeline_->empty()) {
        pool_.give_back(std::move(pipeline_));
    }
}

void Group::check_invariants() const {
    GALGO_DCHECK(commit_ <= head_);
    GALGO_DCHECK(head_.value() - commit_.value() == in_flight());
    GALGO_DCHECK(pipeline_ == nullptr || !pipeline_->empty());
}

}  // namespace galgo::consensus

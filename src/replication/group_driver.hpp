// GroupDriver: runs one consensus group for the code that owns its log. The owner admits a
// proposal, writes the prepare to its log in the order of admission, reports how the write ended,
// and is told, in op order, which proposals are committed. Used by the metadata plane and by every
// partition.
//
//   GALGO_CO_TRY(driver.admit(proposal, wall));           // op and timestamp are assigned
//   const Status written = co_await log.append(...);      // suspends; other proposals may be
//   admitted driver.appended(proposal, written.has_value(), [&](Proposal& p) { ...;
//   p.settle(ErrorCode::kOk); }); co_await proposal.settled();                          // its turn
//   may come after others'
//
// One shard; no timer; an idle driver holds no more than its group.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "consensus/group.hpp"
#include "coro/sync.hpp"

namespace galgo::replication {

/// One operation between admission and its outcome. Lives in the frame of the coroutine that
/// proposes it, and stays there until settled.
class Proposal {
 public:
    explicit Proposal(coro::ReadyQueue& ready) noexcept : settled_(ready) {}
    Proposal(const Proposal&) = delete;
    Proposal& operator=(const Proposal&) = delete;

    [[nodiscard]] OpNumber op() const noexcept { return op_; }
    [[nodiscard]] Timestamp timestamp() const noexcept { return timestamp_; }

    /// kOk: committed and carried out. Called once, by the owner of the log or by the driver.
    void settle(ErrorCode outcome) noexcept {
        outcome_ = outcome;
        settled_.set();
    }
    [[nodiscard]] coro::Event::Awaiter settled() noexcept { return settled_.wait(); }
    [[nodiscard]] ErrorCode outcome() const noexcept { return outcome_; }

 private:
    friend class GroupDriver;
    OpNumber op_;
    Timestamp timestamp_;
    ErrorCode outcome_ = ErrorCode::kOk;
    coro::Event settled_;
};

class GroupDriver {
 public:
    GroupDriver(consensus::PipelinePool& pool, const consensus::Group::Start& start) noexcept
        : group_(pool, start) {}

    [[nodiscard]] const consensus::Group& group() const noexcept { return group_; }

    /// Assigns op and timestamp. Error 58: the pipeline is full, nothing happened.
    [[nodiscard]] Status admit(Proposal& proposal, Timestamp wall) {
        consensus::EffectList effects;
        group_.step(consensus::Request{token_of(proposal), wall}, effects);
        const consensus::Effect& effect = effects.view().front();
        if (effect.kind == consensus::EffectKind::kReject) {
            return fail(effect.error);
        }
        GALGO_CHECK(effect.kind == consensus::EffectKind::kAppend);
        proposal.op_ = effect.op;
        proposal.timestamp_ = effect.timestamp;
        return {};
    }

    /// The write of `proposal` ended. Calls on_commit(Proposal&) for each op that is committed now,
    /// in order; it settles the proposal at once or later. What failed is settled here with
    /// kIoError.
    template <class OnCommit>
    void appended(Proposal& proposal, bool durable, OnCommit&& on_commit) {
        consensus::EffectList effects;
        group_.step(consensus::AppendDone{proposal.op(), durable}, effects);
        for (const consensus::Effect& effect : effects.view()) {
            Proposal& decided = proposal_of(effect.token);
            if (effect.kind == consensus::EffectKind::kCommit) {
                on_commit(decided);
            } else {
                decided.settle(effect.error);
            }
        }
    }

 private:
    static consensus::Token token_of(Proposal& proposal) noexcept {
        return consensus::Token{reinterpret_cast<std::uintptr_t>(&proposal)};
    }
    static Proposal& proposal_of(consensus::Token token) noexcept {
        return *reinterpret_cast<Proposal*>(static_cast<std::uintptr_t>(token.value()));
    }

    consensus::Group group_;
};

}  // namespace galgo::replication

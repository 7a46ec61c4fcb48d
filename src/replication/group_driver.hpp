// GroupDriver: runs one consensus group of a single node for the code that owns its log. The owner
// admits a proposal, writes the prepare to its log in the order of admission, reports how the write
// ended, and is told, in op order, which proposals are committed. Used by the metadata plane and by
// every partition.
//
//   GALGO_CO_TRY(driver.admit(proposal, wall, digest));   // op and timestamp are assigned
//   const Status written = co_await log.append(...);      // suspends; others may be admitted
//   driver.appended(proposal, written.has_value(),
//                   [&](Proposal& p) { ...; p.settle(ErrorCode::kOk); });
//   co_await proposal.settled();                          // its turn may come after others'
//
// One shard; no timer; an idle driver holds no more than its replica.
#pragma once

#include <cstdint>
#include <variant>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "consensus/replica.hpp"
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
    [[nodiscard]] consensus::Identity identity() const noexcept { return identity_; }
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
    consensus::Identity identity_;
    Timestamp timestamp_;
    ErrorCode outcome_ = ErrorCode::kOk;
    coro::Event settled_;
};

class GroupDriver {
 public:
    /// `options` (of a group of one) and `pool` outlive the driver. `log`: what its owner
    /// recovered.
    GroupDriver(consensus::PipelinePool& pool, const consensus::ReplicaOptions& options,
                consensus::GroupId group, Incarnation incarnation, const consensus::LogSummary& log)
        : replica_(pool, options, group, incarnation) {
        GALGO_CHECK(options.replica_count == 1);
        consensus::EffectList effects;
        replica_.step(consensus::Boot{.log = log}, effects);
        GALGO_CHECK(effects.empty());
    }

    /// The group as this node sees it.
    [[nodiscard]] const consensus::Replica& group() const noexcept { return replica_; }

    /// Assigns op and timestamp. `body` is the digest of what the owner will write for it. Error
    /// 58: the pipeline is full, nothing happened.
    [[nodiscard]] Status admit(Proposal& proposal, Timestamp wall, consensus::BodyDigest body) {
        consensus::EffectList effects;
        replica_.step(
            consensus::ClientRequest{.token = token_of(proposal), .wall = wall, .body = body},
            effects);
        const consensus::Effect& effect = effects.view().front();
        if (const auto* reject = std::get_if<consensus::Reject>(&effect)) {
            return fail(reject->error);
        }
        const auto* append = std::get_if<consensus::Append>(&effect);
        GALGO_CHECK(append != nullptr);
        proposal.op_ = append->prepare.op;
        proposal.identity_ = append->prepare.identity;
        proposal.timestamp_ = append->prepare.timestamp;
        return {};
    }

    /// The write of `proposal` ended. Calls on_commit(Proposal&) for each op that is committed now,
    /// in order; it settles the proposal at once or later. What failed is settled here with
    /// kIoError.
    template <class OnCommit>
    void appended(Proposal& proposal, bool durable, OnCommit&& on_commit) {
        consensus::EffectList effects;
        replica_.step(consensus::AppendDone{.op = proposal.op(),
                                            .identity = proposal.identity(),
                                            .status = durable ? consensus::AppendStatus::kDurable
                                                              : consensus::AppendStatus::kFailed},
                      effects);
        for (const consensus::Effect& effect : effects.view()) {
            if (const auto* commit = std::get_if<consensus::Commit>(&effect)) {
                on_commit(proposal_of(commit->token));
            } else if (const auto* abandon = std::get_if<consensus::Abandon>(&effect)) {
                proposal_of(abandon->token).settle(abandon->error);
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

    consensus::Replica replica_;
};

}  // namespace galgo::replication

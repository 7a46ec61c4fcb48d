// The planted bugs: what each one does, and within how many ticks the simulator must catch it.
// Those of the core are switches of consensus/mutations.hpp and exist only in the binary that links
// the planted core; those of storage, state and replies are here, in the simulated node.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "consensus/mutations.hpp"

namespace galgo::sim {

enum class Bug : std::uint8_t {
    kNone,
    // in the core
    kAckBeforeAppend,
    kFrameBeforeSuperblock,
    kApplyAcrossGap,
    kReuseFailedOp,
    kQuorumOneShort,
    kSkipParentCheck,
    kBelieveCommitNumber,
    kEmptyIsFresh,
    kAckByHighest,
    kCommitFailedAppend,
    kGoOnWhenFenced,
    // in the node
    kEvictByLocalState,
    kReplyNotFromLog,
    kSkipSync,
    kTornTailTakenForWhole,
    kCorruptionTakenForTorn,
    kNeverSendsAgain,
    kApplyByNode,
    kExecuteAgain,
    kOtherResult,
    kTrustBodies,
};

struct PlantedBug {
    Bug bug{};
    std::string_view name;
    std::uint64_t ticks_max = 0;  ///< replica ticks, over as many seeds as it takes
    std::string_view caught_by;   ///< a failure by something else does not count
    std::optional<consensus::Mutation> mutation{};  ///< of the core
};

/// Nothing but the exit code is known of an assertion.
inline constexpr std::string_view kByAssertion = "an assertion of the core";

// Keep it in step with docs/simulator.md.
inline constexpr PlantedBug kPlantedBugs[] = {
    {Bug::kAckBeforeAppend, "ack-before-append", 100'000, "law 3",
     consensus::Mutation::kAckBeforeAppend},
    {Bug::kFrameBeforeSuperblock, "frame-before-superblock", 100'000, "law 3",
     consensus::Mutation::kFrameBeforeSuperblock},
    {Bug::kApplyAcrossGap, "apply-across-gap", 100'000, "law 3",
     consensus::Mutation::kApplyAcrossGap},
    {Bug::kReuseFailedOp, "reuse-failed-op", 100'000, "law 1", consensus::Mutation::kReuseFailedOp},
    {Bug::kQuorumOneShort, "quorum-one-short", 100'000, "law 3",
     consensus::Mutation::kQuorumOneShort},
    {Bug::kSkipParentCheck, "skip-parent-check", 100'000, kByAssertion,
     consensus::Mutation::kSkipParentCheck},
    {Bug::kBelieveCommitNumber, "believe-commit-number", 100'000, "law 1",
     consensus::Mutation::kBelieveCommitNumber},
    {Bug::kEmptyIsFresh, "empty-is-fresh", 100'000, "law 4", consensus::Mutation::kEmptyIsFresh},
    {Bug::kAckByHighest, "ack-by-highest", 100'000, "law 3", consensus::Mutation::kAckByHighest},
    {Bug::kCommitFailedAppend, "commit-failed-append", 100'000, "law 3",
     consensus::Mutation::kCommitFailedAppend},
    {Bug::kGoOnWhenFenced, "go-on-when-fenced", 300'000, "law 2",
     consensus::Mutation::kGoOnWhenFenced},
    {Bug::kEvictByLocalState, "evict-by-local-state", 100'000, "law 6"},
    {Bug::kReplyNotFromLog, "reply-not-from-log", 100'000, "law 6"},
    {Bug::kSkipSync, "skip-sync", 100'000, "law 4"},
    {Bug::kTornTailTakenForWhole, "torn-tail-taken-for-whole", 100'000, "law 4"},
    {Bug::kCorruptionTakenForTorn, "corruption-taken-for-torn", 100'000, "law 4"},
    {Bug::kNeverSendsAgain, "never-sends-again", 100'000, "no progress"},
    {Bug::kApplyByNode, "apply-by-node", 100'000, "law 7"},
    {Bug::kExecuteAgain, "execute-again", 100'000, "law 5"},
    {Bug::kOtherResult, "other-result", 100'000, "law 8"},
    {Bug::kTrustBodies, "trust-bodies", 100'000, "law 1"},
};

}  // namespace galgo::sim

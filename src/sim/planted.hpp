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
    // in the node
    kEvictByLocalState,
    kReplyNotFromLog,
    kSkipSync,
    kTornTailTakenForWhole,
    kCorruptionTakenForTorn,
    kNeverSendsAgain,
};

struct PlantedBug {
    Bug bug{};
    std::string_view name;
    std::uint64_t ticks_max = 0;                  ///< replica ticks, over as many seeds as it takes
    std::optional<consensus::Mutation> mutation;  ///< of the core
};

// Keep it in step with docs/simulator.md.
inline constexpr PlantedBug kPlantedBugs[] = {
    {Bug::kAckBeforeAppend, "ack-before-append", 100'000, consensus::Mutation::kAckBeforeAppend},
    {Bug::kFrameBeforeSuperblock, "frame-before-superblock", 100'000,
     consensus::Mutation::kFrameBeforeSuperblock},
    {Bug::kApplyAcrossGap, "apply-across-gap", 100'000, consensus::Mutation::kApplyAcrossGap},
    {Bug::kReuseFailedOp, "reuse-failed-op", 100'000, consensus::Mutation::kReuseFailedOp},
    {Bug::kQuorumOneShort, "quorum-one-short", 100'000, consensus::Mutation::kQuorumOneShort},
    {Bug::kSkipParentCheck, "skip-parent-check", 100'000, consensus::Mutation::kSkipParentCheck},
    {Bug::kBelieveCommitNumber, "believe-commit-number", 100'000,
     consensus::Mutation::kBelieveCommitNumber},
    {Bug::kEmptyIsFresh, "empty-is-fresh", 300'000, consensus::Mutation::kEmptyIsFresh},
    {Bug::kEvictByLocalState, "evict-by-local-state", 100'000, std::nullopt},
    {Bug::kReplyNotFromLog, "reply-not-from-log", 100'000, std::nullopt},
    {Bug::kSkipSync, "skip-sync", 100'000, std::nullopt},
    {Bug::kTornTailTakenForWhole, "torn-tail-taken-for-whole", 300'000, std::nullopt},
    {Bug::kCorruptionTakenForTorn, "corruption-taken-for-torn", 100'000, std::nullopt},
    {Bug::kNeverSendsAgain, "never-sends-again", 100'000, std::nullopt},
};

}  // namespace galgo::sim

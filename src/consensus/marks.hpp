// Rare branches, counted: a test or a campaign of simulations asks whether it ever came there. The
// counters belong to the caller (ReplicaOptions::marks), so a replica stays free of globals.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace galgo::consensus {

// One line a branch; names end up in reports.
#define GALGO_CONSENSUS_MARKS(X) \
    X(PipelineFull)              \
    X(StampClamped)              \
    X(StampTooFarAhead)          \
    X(RejectedNotPrimary)        \
    X(RejectedFenced)            \
    X(AppendFailedAlone)         \
    X(AppendFailedOnPrimary)     \
    X(AppendFailedOnBackup)      \
    X(AppendsEndedOutOfOrder)    \
    X(PrepareKnown)              \
    X(PrepareGap)                \
    X(PrepareOtherParent)        \
    X(PrepareOtherIdentity)      \
    X(PrepareBackupFull)         \
    X(PrepareHeldBackFromPeer)   \
    X(GapReported)               \
    X(GapReportSuppressed)       \
    X(HeartbeatStale)            \
    X(HeartbeatShowsGap)         \
    X(AckStale)                  \
    X(AckBeyondHead)             \
    X(AckOtherIdentity)          \
    X(AckGap)                    \
    X(CommitBeforeOwnAppend)     \
    X(CommitWaitsForOwnLog)      \
    X(ResendTimeout)             \
    X(ResendBudgetSpent)         \
    X(ResendJoinedRead)          \
    X(ReadNotWanted)             \
    X(ReadFailed)                \
    X(ReadHeldBack)              \
    X(BackupStarved)             \
    X(OldViewFrame)              \
    X(NewerViewFrame)            \
    X(PrimarySuspected)          \
    X(PrimaryHeardAgain)         \
    X(SuperblockRetried)         \
    X(BootWithoutSuperblock)     \
    X(CommitBeyondHead)          \
    X(Diverged)

enum class Mark : std::uint8_t {
#define GALGO_CONSENSUS_MARK(name) k##name,
    GALGO_CONSENSUS_MARKS(GALGO_CONSENSUS_MARK)
#undef GALGO_CONSENSUS_MARK
        kCount
};

[[nodiscard]] constexpr std::string_view mark_name(Mark mark) noexcept {
    constexpr std::string_view kNames[] = {
#define GALGO_CONSENSUS_MARK(name) #name,
        GALGO_CONSENSUS_MARKS(GALGO_CONSENSUS_MARK)
#undef GALGO_CONSENSUS_MARK
    };
    return mark < Mark::kCount ? kNames[static_cast<std::size_t>(mark)] : "unknown";
}

class Marks {
 public:
    void hit(Mark mark) noexcept { ++counts_[static_cast<std::size_t>(mark)]; }
    [[nodiscard]] std::uint64_t count(Mark mark) const noexcept {
        return counts_[static_cast<std::size_t>(mark)];
    }

 private:
    std::array<std::uint64_t, static_cast<std::size_t>(Mark::kCount)> counts_{};
};

}  // namespace galgo::consensus

/// Counts the branch that it stands in. For members of Replica.
#define GALGO_MARK(name) this->mark(::galgo::consensus::Mark::k##name)

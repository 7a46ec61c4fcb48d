// The faults that the simulator knows, and how often each one struck; rare branches of the
// simulator's own storage and clients beside them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace galgo::sim {

// One line a kind; names end up in reports.
#define GALGO_SIM_FAULTS(X)                                          \
    X(CrashOfProcess)      /* kill -9: the page cache stays */       \
    X(CrashOfPower)        /* what was not synced may be gone */     \
    X(CrashAtEffect)       /* between two effects of one step */     \
    X(CrashBetweenDiskOps) /* after one, before the next is begun */ \
    X(CrashDuringDiskOp)                                             \
    X(CrashDuringBoot)                                               \
    X(Pause)                                                         \
    X(ClockJumpForward)                                              \
    X(ClockJumpBack)                                                 \
    X(ClockDrift) /* a node has counted a tick more or less */       \
    X(TornWrite)  /* a part of the sectors of a write */             \
    X(TornSector)                                                    \
    X(SectorLostAtPowerLoss)                                         \
    X(WriteLost)                                                     \
    X(WriteMisdirected)                                              \
    X(BitRot)                                                        \
    X(ReadError)                                                     \
    X(WriteError)                                                    \
    X(SyncError)                                                     \
    X(DiskFull) /* an allocation refused */                          \
    X(DiskLost) /* a new one in its place, with nothing on it */     \
    X(DiskSlow)                                                      \
    X(FrameDelayed)                                                  \
    X(FrameLost)                                                     \
    X(FrameDoubled)                                                  \
    X(FrameReordered) /* overtaken by a later one of its link */     \
    X(FrameCorrupted)                                                \
    X(FrameForged)                                                   \
    X(LinkCut) /* a partition of the network begins */               \
    X(FrameCut)                                                      \
    X(RequestLost)                                                   \
    X(RequestDoubled)                                                \
    X(ReplyLost)                                                     \
    X(OldRequestRepeated)                                            \
    X(RequestToAnyNode)

enum class Fault : std::uint8_t {
#define GALGO_SIM_FAULT(name) k##name,
    GALGO_SIM_FAULTS(GALGO_SIM_FAULT)
#undef GALGO_SIM_FAULT
        kCount
};

// What is not a fault but rarely happens, in the simulator's own parts.
#define GALGO_SIM_MARKS(X)   \
    X(TornTailCut)           \
    X(LastBatchWrittenAgain) \
    X(RotRefused)            \
    X(SuperblockRepaired)    \
    X(FailedAppendTakenBack) \
    X(FailedAppendStayed)    \
    X(JournalPoisoned)       \
    X(OpNumberSkipped)       \
    X(BatchOfMany)           \
    X(PrepareFromDisk)       \
    X(ReplyRepeated)         \
    X(ReplyGone)             \
    X(RequestInFlight)       \
    X(SessionUnknown)        \
    X(SessionTooLow)         \
    X(FaultyClientDropped)   \
    X(SessionPushedOut)      \
    X(OperationRefused)      \
    X(OutcomeUnknown)        \
    X(AppliedOnRestart)      \
    X(BootAgain)             \
    X(QuorumLost)            \
    X(BackupLeftBehind)

enum class SimMark : std::uint8_t {
#define GALGO_SIM_MARK(name) k##name,
    GALGO_SIM_MARKS(GALGO_SIM_MARK)
#undef GALGO_SIM_MARK
        kCount
};

template <class Kind>
class Counts {
 public:
    static constexpr std::size_t kSize = static_cast<std::size_t>(Kind::kCount);

    void hit(Kind kind, std::uint64_t times = 1) noexcept {
        counts_[static_cast<std::size_t>(kind)] += times;
    }
    [[nodiscard]] std::uint64_t of(Kind kind) const noexcept {
        return counts_[static_cast<std::size_t>(kind)];
    }
    [[nodiscard]] std::uint64_t at(std::size_t index) const noexcept { return counts_[index]; }
    void add(const Counts& other) noexcept {
        for (std::size_t i = 0; i < kSize; ++i) {
            counts_[i] += other.counts_[i];
        }
    }

 private:
    std::array<std::uint64_t, kSize> counts_{};
};
using FaultCounts = Counts<Fault>;
using SimMarkCounts = Counts<SimMark>;

[[nodiscard]] constexpr std::string_view fault_name(std::size_t index) noexcept {
    constexpr std::string_view kNames[] = {
#define GALGO_SIM_FAULT(name) #name,
        GALGO_SIM_FAULTS(GALGO_SIM_FAULT)
#undef GALGO_SIM_FAULT
    };
    return kNames[index];
}
[[nodiscard]] constexpr std::string_view sim_mark_name(std::size_t index) noexcept {
    constexpr std::string_view kNames[] = {
#define GALGO_SIM_MARK(name) #name,
        GALGO_SIM_MARKS(GALGO_SIM_MARK)
#undef GALGO_SIM_MARK
    };
    return kNames[index];
}

}  // namespace galgo::sim

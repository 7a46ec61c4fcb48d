// Bugs planted on purpose, to see that the simulator finds them. They exist only where
// GALGO_PLANTED_BUGS is defined (library galgo_consensus_planted); the server is built without, and
// has neither the switch nor the code.
#pragma once

#include <cstdint>

namespace galgo::consensus {

enum class Mutation : std::uint8_t {
    kAckBeforeAppend,        ///< an entry counts as durable when its append begins
    kFrameBeforeSuperblock,  ///< frames of a view go out before the view is durable
    kApplyAcrossGap,         ///< a backup takes op + 2 and never carries out op + 1
    kReuseFailedOp,          ///< the number of a failed append is given again
    kQuorumOneShort,         ///< commits with one copy less than a quorum
    kSkipParentCheck,        ///< a backup takes op + 1 of another log
    kBelieveCommitNumber,    ///< a commit is taken by its number, whatever its identity
    kEmptyIsFresh,           ///< a replica without superblock and log counts as a new one
    kAckByHighest,           ///< what ended last counts as durable with all before it
    kCommitFailedAppend,     ///< a group of one carries out an op whose append failed
    kGoOnWhenFenced,         ///< a backup that was stopped goes on carrying out
};

class Mutations {
 public:
    constexpr Mutations() noexcept = default;
    constexpr explicit Mutations(Mutation one) noexcept { add(one); }

    constexpr void add(Mutation mutation) noexcept {
        bits_ |= 1U << static_cast<unsigned>(mutation);
    }
    [[nodiscard]] constexpr bool has(Mutation mutation) const noexcept {
        return (bits_ & (1U << static_cast<unsigned>(mutation))) != 0;
    }

 private:
    std::uint32_t bits_ = 0;
};

}  // namespace galgo::consensus

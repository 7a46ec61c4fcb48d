// What comes out of a replica: effects as plain values, to be carried out in their order. The
// replica does no I/O; whoever runs it reports back by events.
//
// Bodies are not in here. The driver keeps the body of an op from its Append on until the op is
// committed and no longer wanted: a Send of a prepare names it by op, a Read asks the log for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <variant>

#include "base/check.hpp"
#include "base/error_code.hpp"
#include "base/ids.hpp"
#include "consensus/events.hpp"
#include "consensus/frames.hpp"
#include "consensus/head.hpp"
#include "consensus/types.hpp"

namespace galgo::consensus {

/// Write the entry to the log, then report AppendDone. On a primary `token` names the body, on a
/// backup (token 0) it is the body that came with the frame of this step.
struct Append {
    Prepare prepare;
    ViewNumber view;
    Head commit;  ///< known to be committed; on a backup it may lie beyond the entry
    Token token;
};

/// Send `frame` to each of `to`. May be lost. A prepare takes its body along, found by its op.
struct Send {
    ReplicaSet to;
    OutgoingFrame frame;
};

/// Read the entry of `op` from the log (or from memory, if it is still there), then report
/// ReadDone and keep its body for the Sends of that step. Answered in the order in which they were
/// asked for where that is possible: a backup takes nothing but its next op.
struct Read {
    OpNumber op;
};

/// Write `state` to stable storage, then report SuperblockDone. At most one is under way.
struct PersistSuperblock {
    SuperblockState state;
};

/// `head` is committed: carry it out, make it visible, answer its request (primary: `token`).
/// In op order without holes; an op that was abandoned in a group of one is the exception.
struct Commit {
    Head head;
    Token token;
};

/// The request of this op gets no success. In a group of one with `error` kIoError: the entry is
/// may or may not be in the log (a failed write may have arrived); its number is not given again in
/// this life, and a later one that finds it carries it out. With more replicas
/// kTransientNotCommitted: whether it takes effect is decided without this replica.
struct Abandon {
    Head head;
    Token token;
    ErrorCode error = ErrorCode::kIoError;
};

/// The request was not admitted: no op was given.
struct Reject {
    Token token;
    ErrorCode error = ErrorCode::kTransientNotAccepted;
};

/// For log, metrics and checkers; nothing has to be done.
enum class NoteKind : std::uint8_t {
    kFrameRefused,      ///< `reason`; the frame had no effect
    kAppendFailed,      ///< op
    kPrimarySuspected,  ///< nothing heard of the primary for election_ticks
    kPrimaryHeardAgain,
    kNewerViewSeen,   ///< `view`
    kReadFailed,      ///< op: a peer needs it, and the own log does not give it
    kBackupStarved,   ///< op, `peer`: it needs this op to go on, and reading it failed 5 times
                      ///< in a row; tried on, slowly, and said once until a read succeeds
    kRecoveryNeeded,  ///< a replica with an earlier life in a cluster: it takes no part
};
enum class Refusal : std::uint8_t {
    kNone,
    kWrongSender,     ///< the header names another replica than the connection, or this one
    kUnknownReplica,  ///< outside the group
    kOtherCluster,
    kOtherGroup,  ///< or another incarnation of it
    kNotNormal,   ///< this replica is booting, recovering or fenced
    kOldView,
    kNewerView,
    kNotFromPrimary,
    kNotForPrimary,  ///< a prepare or heartbeat that came to the primary of this view
    kNotForBackup,   ///< an acknowledgement that came to a backup
    kMalformed,      ///< fields that contradict each other
    kIdentity,       ///< the identity is not that of the fields
    kOtherParent,    ///< op + 1 of another log
    kOtherIdentity,  ///< an op that is known here under another identity
    kPipelineFull,
    kBeyondHead,  ///< acknowledges what was never prepared
};
struct Note {
    NoteKind kind{};
    Refusal reason = Refusal::kNone;
    ReplicaIndex peer;
    OpNumber op;
    ViewNumber view;
};

/// This replica must not go on with this group: it has been fenced.
enum class FatalReason : std::uint8_t {
    kNone,
    kOtherIdentity,  ///< boot: the superblock is of another cluster, replica or replica count
    kBadSuperblock,  ///< boot: log_view above view
    kNoSuperblock,   ///< boot in a cluster: none, and not fresh, or with a log nevertheless
    kBadLog,         ///< boot: the log does not end with the entry that it says is committed there
    kDiverged,       ///< the primary committed another entry than this log has at `op`
};
struct Fatal {
    FatalReason reason{};
    OpNumber op;
};

using Effect =
    std::variant<Append, Send, Read, PersistSuperblock, Commit, Abandon, Reject, Note, Fatal>;
static_assert(std::is_trivially_copyable_v<Effect> && std::is_trivially_destructible_v<Effect>);

/// Effects of one step, in the order in which they must be carried out. Holds at most one Commit or
/// Abandon for each op in flight, as many reads as a step asks for, and a few more. Lives on a
/// stack; slots are not touched before they are used.
class EffectList {
 public:
    static constexpr std::size_t kCapacity = kPipelineMax + kReadsMax + 9;

    EffectList() noexcept {}
    EffectList(const EffectList&) = delete;
    EffectList& operator=(const EffectList&) = delete;

    template <class E>
    void push(const E& effect) noexcept {
        GALGO_CHECK(count_ < kCapacity);
        std::construct_at(slot(count_), effect);
        ++count_;
    }
    void clear() noexcept { count_ = 0; }
    [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
    [[nodiscard]] std::span<const Effect> view() const noexcept {
        return {std::launder(reinterpret_cast<const Effect*>(storage_)), count_};
    }

 private:
    Effect* slot(std::size_t index) noexcept {
        return reinterpret_cast<Effect*>(storage_ + index * sizeof(Effect));
    }
    alignas(Effect) std::byte storage_[kCapacity * sizeof(Effect)];
    std::size_t count_ = 0;
};

}  // namespace galgo::consensus

// The frames that replicas of a group send each other, as header values; bytes are the matter of
// the cluster module, and the body of a prepare travels beside it (the sender finds it by op).
//
// Frame is what came in: anything, to be checked. OutgoingFrame is what goes out: it speaks for a
// view, so it can be made only from the proof that this view is on stable storage, and an
// acknowledgement only from the proof that the entry is in the log (durability.hpp). There is no
// other constructor.
#pragma once

#include <cstdint>
#include <variant>

#include "base/ids.hpp"
#include "consensus/head.hpp"
#include "consensus/types.hpp"

namespace galgo::consensus {

/// In every frame. wire: numbers of the commands are those of the reference's replica protocol.
struct FrameHeader {
    ClusterId cluster;
    GroupId group;
    Incarnation incarnation;  ///< of the group: tells it from a deleted one of the same number
    ViewNumber view;
    ReplicaIndex replica;  ///< sender
    constexpr bool operator==(const FrameHeader&) const noexcept = default;
};

/// Primary to backups: append this. Its body is beside it.
struct PrepareFrame {
    static constexpr std::uint8_t kCommand = 6;
    Prepare prepare;
    Head commit;  ///< highest committed entry that the sender knows; may lie beyond the prepare
    constexpr bool operator==(const PrepareFrame&) const noexcept = default;
};

/// Backup to primary: `durable` and everything before it is in my log, for good. Cumulative: the
/// identity covers the whole log up to there.
struct PrepareOkFrame {
    static constexpr std::uint8_t kCommand = 7;
    Head durable;
    OpNumber received;  ///< appends up to here are under way: send what is behind it
    OpNumber commit;    ///< committed and carried out here
    bool gap = false;   ///< something between `received` and the latest frame did not come
    constexpr bool operator==(const PrepareOkFrame&) const noexcept = default;
};

/// Primary to backups while nothing else goes: I am alive, and committed this.
struct CommitFrame {
    static constexpr std::uint8_t kCommand = 9;
    Head commit;                ///< the last op that the primary carried out
    std::uint64_t counter = 0;  ///< rises within a view; a token with the view
    constexpr bool operator==(const CommitFrame&) const noexcept = default;
};

struct Frame {
    FrameHeader header;
    std::variant<PrepareFrame, PrepareOkFrame, CommitFrame> payload;
    constexpr bool operator==(const Frame&) const noexcept = default;
};

class DurableView;
class DurableEntry;

class OutgoingFrame {
 public:
    [[nodiscard]] constexpr const Frame& values() const noexcept { return frame_; }

 private:
    friend class FrameMaker;
    explicit constexpr OutgoingFrame(const Frame& frame) noexcept : frame_(frame) {}
    Frame frame_;
};

/// Makes the frames of one replica of one group.
class FrameMaker {
 public:
    constexpr FrameMaker(ClusterId cluster, GroupId group, Incarnation incarnation,
                         ReplicaIndex replica) noexcept
        : cluster_(cluster), group_(group), incarnation_(incarnation), replica_(replica) {}

    [[nodiscard]] OutgoingFrame make_prepare(const DurableView& view, const Prepare& prepare,
                                             const Head& commit) const noexcept;
    [[nodiscard]] OutgoingFrame make_prepare_ok(const DurableView& view, const DurableEntry& entry,
                                                OpNumber received, OpNumber commit,
                                                bool gap) const noexcept;
    [[nodiscard]] OutgoingFrame make_commit(const DurableView& view, const Head& commit,
                                            std::uint64_t counter) const noexcept;

 private:
    [[nodiscard]] FrameHeader header(const DurableView& view) const noexcept;

    ClusterId cluster_;
    GroupId group_;
    Incarnation incarnation_;
    ReplicaIndex replica_;
};

}  // namespace galgo::consensus

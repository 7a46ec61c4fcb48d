// Retention: which of a partition's oldest segments go, and whether a quiet one is ended so that it
// can go. Pure: rules of the topic, figures of the log and the time come as arguments, so the
// answer is that of the moment, also after the topic was changed.
//
// Oldest first, whole sealed segments only. A segment is due when all its messages are expired, or
// when the topic's sealed segments are together above its size while this partition has more than
// its share (its newest sealed segment is never due for that alone), or when somebody asked for its
// deletion. What a consumer with a stored offset has not read is held back, as far as the server's
// bound lets it: that counts from when a segment was first found due, not from the age of its
// messages, so a consumer has that time however old the messages are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "storage/partition_log.hpp"

namespace galgo::partitions {

/// Segments that go between two suspensions that let others work.
inline constexpr std::size_t kSegmentsAtATime = 64;

struct RetentionRules {
    std::uint64_t expiry_us = 0;           ///< 0: messages never expire
    std::uint64_t size_max_bytes = 0;      ///< of all sealed segments of the topic; 0: no bound
    std::uint64_t topic_sealed_bytes = 0;  ///< what they have now
    std::uint32_t partition_count = 1;     ///< of the topic; at least 1
    std::uint64_t held_back_max_ns = 0;    ///< since a segment is due; 0: held back for ever
};

struct RetentionFigures {
    std::uint64_t sealed_bytes = 0;         ///< of this partition
    std::optional<Offset> needed_from;      ///< what some consumer has not read begins there
    Offset given_up;                        ///< held back for long enough: HeldBack::overdue()
    Offset wanted;                          ///< segments that end up to here were deleted
    std::optional<Timestamp> active_since;  ///< oldest message behind the sealed ones
};

struct RetentionDecision {
    Offset trim_below;    ///< segments that end there or before go
    Offset needed_below;  ///< up to there segments are due that a consumer has not read
    std::uint64_t held_back_bytes = 0;  ///< due, but a consumer has not read them
    std::uint64_t given_up_bytes = 0;   ///< go although a consumer has not read them
    std::size_t trim_count = 0;         ///< segments with messages that go
    bool roll = false;                  ///< the segment that is written is old enough to be ended
};

/// Takes the sealed segments one by one, the oldest first, until one stays.
class RetentionWalk {
 public:
    /// `now` may lie before times of messages (the clock was set back): those are not expired.
    RetentionWalk(const RetentionRules& rules, const RetentionFigures& figures,
                  Timestamp now) noexcept;
    /// False: it is not due, and so none behind it is.
    bool add(const storage::SegmentFacts& segment) noexcept;
    [[nodiscard]] RetentionDecision decision() const noexcept;

 private:
    RetentionRules rules_;
    RetentionFigures figures_;
    Timestamp now_;
    std::uint64_t topic_bytes_;
    std::uint64_t own_bytes_;
    bool is_held_ = false;
    RetentionDecision decision_;
};

/// For how long segments have been due and held back, to an eighth of the bound. In memory: a start
/// counts anew. At most ten marks.
class HeldBack {
 public:
    /// Of one pass: the segments that end up to `needed_below` are due and needed; none: 0.
    void note(Offset needed_below, Instant now, std::uint64_t bound_ns);
    /// Those that end up to here have been for the whole bound; 0: none, or there is no bound.
    [[nodiscard]] Offset overdue(Instant now, std::uint64_t bound_ns) const noexcept;

 private:
    struct Mark {
        Offset below;
        Instant since;
    };
    std::vector<Mark> marks_;  ///< both ascend
};

}  // namespace galgo::partitions

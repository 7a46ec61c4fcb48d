// Retention: which of a partition's oldest segments go, and whether a quiet one is ended so that it
// can go. Pure: rules of the topic, figures of the log and the time come as arguments, so the
// answer is that of the moment, also after the topic was changed.
//
// Oldest first, whole sealed segments only. A segment is due when all its messages are expired, or
// when the topic's sealed segments are together above its size while this partition has more than
// its share, or when somebody asked for its deletion. The smallest stored offset holds back what
// lies behind it, as far as the server's bound lets it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/ids.hpp"
#include "storage/partition_log.hpp"

namespace galgo::partitions {

struct RetentionRules {
    std::uint64_t expiry_us = 0;           ///< 0: messages never expire
    std::uint64_t size_max_bytes = 0;      ///< of all sealed segments of the topic; 0: no bound
    std::uint64_t topic_sealed_bytes = 0;  ///< what they have now
    std::uint32_t partition_count = 1;     ///< of the topic; at least 1
    std::uint64_t held_back_max_us = 0;    ///< since a segment is due; 0: held back for ever
};

struct RetentionFigures {
    std::span<const storage::SegmentFacts> sealed;  ///< oldest first
    std::optional<Offset> stored_min;               ///< smallest offset that a consumer has stored
    Offset wanted;                                  ///< segments that end up to here were deleted
    std::optional<Timestamp> active_since;          ///< oldest message behind the sealed ones
};

struct RetentionDecision {
    Offset trim_below;  ///< segments that end there or before go
    std::uint64_t trim_bytes = 0;
    std::uint64_t held_back_bytes = 0;  ///< due, but a consumer has not read them
    std::uint64_t given_up_bytes = 0;   ///< go although a consumer has not read them
    bool roll = false;                  ///< the segment that is written is old enough to be ended
};

/// `now` may lie before times of messages (the clock was set back): those are not expired.
[[nodiscard]] RetentionDecision decide_retention(const RetentionRules& rules,
                                                 const RetentionFigures& figures,
                                                 Timestamp now) noexcept;

}  // namespace galgo::partitions

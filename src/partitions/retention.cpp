#include "partitions/retention.hpp"

#include <algorithm>

namespace galgo::partitions {

namespace {

/// 0 for a time that has not come.
std::uint64_t age_of(Timestamp time, Timestamp now) noexcept {
    return now.value() - std::min(time.value(), now.value());
}

bool is_expired(const RetentionRules& rules, Timestamp newest, Timestamp now) noexcept {
    return rules.expiry_us != 0 && newest <= now && age_of(newest, now) >= rules.expiry_us;
}

}  // namespace

RetentionDecision decide_retention(const RetentionRules& rules, const RetentionFigures& figures,
                                   Timestamp now) noexcept {
    RetentionDecision decision;
    std::uint64_t own_bytes = 0;
    for (const storage::SegmentFacts& segment : figures.sealed) {
        own_bytes += segment.size_bytes;
    }
    const std::uint64_t share = rules.size_max_bytes / std::max(rules.partition_count, 1U);
    std::uint64_t topic_bytes = std::max(rules.topic_sealed_bytes, own_bytes);
    bool is_held = false;
    for (const storage::SegmentFacts& segment : figures.sealed) {
        if (segment.size_bytes == 0) {
            continue;  // it marks a hole, and goes with its neighbours
        }
        const bool expired = is_expired(rules, segment.last_timestamp, now);
        const bool oversize =
            rules.size_max_bytes != 0 && topic_bytes > rules.size_max_bytes && own_bytes > share;
        if (!expired && !oversize && segment.end > figures.wanted) {
            break;
        }
        const std::uint64_t due_us =
            age_of(segment.last_timestamp, now) - (expired ? rules.expiry_us : 0);
        const bool is_needed =
            figures.stored_min.has_value() && figures.stored_min->next() < segment.end;
        const bool gives_way = rules.held_back_max_us != 0 && due_us >= rules.held_back_max_us;
        is_held = is_held || (is_needed && !gives_way);
        topic_bytes -= segment.size_bytes;
        own_bytes -= segment.size_bytes;
        if (is_held) {
            decision.held_back_bytes += segment.size_bytes;
            continue;
        }
        decision.trim_below = segment.end;
        decision.trim_bytes += segment.size_bytes;
        decision.given_up_bytes += is_needed ? segment.size_bytes : 0;
    }
    decision.roll =
        figures.active_since.has_value() && is_expired(rules, *figures.active_since, now);
    return decision;
}

}  // namespace galgo::partitions

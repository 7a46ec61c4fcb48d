#include "partitions/retention.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace galgo::partitions {

namespace {

/// Marks that lie in the time of one bound.
constexpr std::uint64_t kMarksOfABound = 8;

bool has_passed(Instant since, std::uint64_t bound_ns, Instant now) noexcept {
    return now >= since && now.value() - since.value() >= bound_ns;
}

/// A time that is 0 says nothing.
bool is_expired(const RetentionRules& rules, Timestamp newest, Timestamp now) noexcept {
    return rules.expiry_us != 0 && newest.value() != 0 && newest <= now &&
           now.value() - newest.value() >= rules.expiry_us;
}

}  // namespace

RetentionWalk::RetentionWalk(const RetentionRules& rules, const RetentionFigures& figures,
                             Timestamp now) noexcept
    : rules_(rules),
      figures_(figures),
      now_(now),
      topic_bytes_(std::max(rules.topic_sealed_bytes, figures.sealed_bytes)),
      own_bytes_(figures.sealed_bytes) {}

bool RetentionWalk::add(const storage::SegmentFacts& segment) noexcept {
    if (segment.size_bytes == 0) {
        return true;  // it marks a hole, and goes with its neighbours
    }
    const std::uint64_t share = rules_.size_max_bytes / std::max(rules_.partition_count, 1U);
    const bool is_newest = own_bytes_ <= segment.size_bytes;
    const bool oversize = rules_.size_max_bytes != 0 && topic_bytes_ > rules_.size_max_bytes &&
                          own_bytes_ > share && !is_newest;
    if (!is_expired(rules_, segment.last_timestamp, now_) && !oversize &&
        segment.end > figures_.wanted) {
        return false;
    }
    const bool is_needed = figures_.needed_from.has_value() && *figures_.needed_from < segment.end;
    if (is_needed) {
        decision_.needed_below = segment.end;
    }
    is_held_ = is_held_ || (is_needed && segment.end > figures_.given_up);
    topic_bytes_ -= std::min(topic_bytes_, segment.size_bytes);
    own_bytes_ -= std::min(own_bytes_, segment.size_bytes);
    if (is_held_) {
        decision_.held_back_bytes += segment.size_bytes;
        return true;
    }
    decision_.trim_below = segment.end;
    ++decision_.trim_count;
    decision_.given_up_bytes += is_needed ? segment.size_bytes : 0;
    return true;
}

/// No segment is ended by its age while what is older stays: it would stay, too, in small pieces.
RetentionDecision RetentionWalk::decision() const noexcept {
    RetentionDecision decision = decision_;
    decision.roll = decision.held_back_bytes == 0 && figures_.active_since.has_value() &&
                    is_expired(rules_, *figures_.active_since, now_);
    return decision;
}

void HeldBack::note(Offset needed_below, Instant now, std::uint64_t bound_ns) {
    // What is not due any more, or was read, counts anew when it is due again.
    const auto beyond = std::ranges::lower_bound(marks_, needed_below, {}, &Mark::below);
    if (beyond != marks_.end()) {
        beyond->below = needed_below;
        marks_.erase(beyond + 1, marks_.end());
    }
    if (needed_below == Offset{0} || bound_ns == 0) {
        marks_.clear();
        return;
    }
    while (marks_.size() > 1 && has_passed(marks_[1].since, bound_ns, now)) {
        marks_.erase(marks_.begin());  // the next one says more
    }
    if (marks_.empty() || (marks_.back().below < needed_below &&
                           has_passed(marks_.back().since, bound_ns / kMarksOfABound, now))) {
        marks_.push_back({.below = needed_below, .since = now});
    }
    GALGO_DCHECK(marks_.size() <= kMarksOfABound + 2);
}

Offset HeldBack::overdue(Instant now, std::uint64_t bound_ns) const noexcept {
    Offset below;
    for (const Mark& mark : marks_) {
        if (bound_ns != 0 && has_passed(mark.since, bound_ns, now)) {
            below = mark.below;
        }
    }
    return below;
}

}  // namespace galgo::partitions

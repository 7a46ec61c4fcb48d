// Retention of one partition carried out: the decision is retention.cpp's, the files are the log's.
#include <algorithm>

#include "observe/log.hpp"
#include "partitions/partition.hpp"

namespace galgo::partitions {

using coro::Task;

namespace {

/// Segments that go between two suspensions that let others work.
constexpr std::size_t kSegmentsAtATime = 16;

}  // namespace

std::vector<storage::SegmentFacts> Partition::sealed_segments() const {
    std::vector<storage::SegmentFacts> sealed;
    for (std::size_t i = 0; i + 1 < log_->segment_count(); ++i) {
        sealed.push_back(log_->segment(i));
    }
    return sealed;
}

std::optional<SlowestConsumer> Partition::slowest_consumer() {
    if (!offsets_.damaged().empty()) {
        return SlowestConsumer{.consumer = *offsets_.damaged().begin(), .is_unknown = true};
    }
    std::optional<SlowestConsumer> slowest;
    for (const auto& [consumer, entry] : offsets_.entries()) {
        if (!slowest.has_value() || entry.offset < slowest->stored) {
            slowest = SlowestConsumer{.consumer = consumer, .stored = entry.offset};
        }
    }
    return slowest;
}

/// `slowest` is looked for only when something is due: there may be many consumers.
RetentionDecision Partition::decide(const RetentionRules& rules, Timestamp now,
                                    std::optional<SlowestConsumer>& slowest) {
    const std::vector<storage::SegmentFacts> sealed = sealed_segments();
    RetentionFigures figures{.sealed = sealed,
                             .stored_min = {},
                             .wanted = log_->wanted_trim(),
                             .active_since = log_->active_since()};
    const RetentionDecision due = decide_retention(rules, figures, now);
    if (due.trim_below == Offset{0}) {
        return due;
    }
    slowest = slowest_consumer();
    if (!slowest.has_value()) {
        return due;
    }
    figures.stored_min = slowest->stored;
    return decide_retention(rules, figures, now);
}

Task<Result<Cleaned>> Partition::clean(RetentionRules rules, Timestamp now,
                                       std::size_t segments_max) {
    Cleaned cleaned;
    const std::optional<Error>& fence = log_->fenced();
    if (fence.has_value() && fence->retry == RetryClass::kNever) {
        co_return cleaned;
    }
    std::optional<SlowestConsumer> slowest;
    RetentionDecision decision = decide(rules, now, slowest);
    if (decision.roll) {
        GALGO_CO_TRY_ASSIGN(const bool rolled,
                            co_await log_->roll_by_age(Timestamp(now.value() - rules.expiry_us)));
        if (rolled) {
            publish_counters();
            decision = decide(rules, now, slowest);
        }
    }
    cleaned.held_back_bytes = decision.held_back_bytes;
    if (cleaned.held_back_bytes != 0) {
        cleaned.held_back_by = slowest;
    }
    if (decision.trim_below == Offset{0}) {
        co_return cleaned;
    }
    GALGO_CO_TRY_ASSIGN(cleaned.trimmed, co_await log_->trim(decision.trim_below, segments_max));
    cleaned.again = cleaned.trimmed.segment_count == segments_max;
    if (cleaned.trimmed.segment_count != 0) {
        publish_counters();
    }
    if (cleaned.trimmed.segment_count != 0 && decision.given_up_bytes != 0) {
        observe::log_warn("partitions",
                          "messages go although a consumer has not read them: held back too long",
                          {{"directory", directory_},
                           {"first_offset", log_->first_offset()},
                           {"kind", static_cast<std::uint64_t>(slowest->consumer.kind)},
                           {"consumer", slowest->consumer.id},
                           {"stored", slowest->stored}});
    }
    co_return cleaned;
}

Task<Status> Partition::delete_segments(std::uint32_t count) {
    Offset wanted;
    std::uint32_t counted = 0;
    for (const storage::SegmentFacts& segment : sealed_segments()) {
        if (counted == count) {
            break;
        }
        if (segment.size_bytes != 0) {
            wanted = segment.end;
            ++counted;
        }
    }
    if (wanted == Offset{0}) {
        co_return Status{};
    }
    const std::optional<SlowestConsumer> slowest = slowest_consumer();
    Offset below = wanted;
    if (slowest.has_value() && slowest->stored.next() < wanted) {
        below = slowest->stored.next();
        GALGO_CO_TRY(co_await log_->want_trim(wanted));
    }
    std::size_t trimmed = kSegmentsAtATime;
    while (trimmed == kSegmentsAtATime) {
        GALGO_CO_TRY_ASSIGN(const storage::TrimResult result,
                            co_await log_->trim(below, kSegmentsAtATime));
        trimmed = result.segment_count;
        publish_counters();
    }
    co_return Status{};
}

}  // namespace galgo::partitions

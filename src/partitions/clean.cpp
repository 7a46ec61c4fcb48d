// Retention of one partition carried out: the decision is retention.cpp's, the files are the log's.
#include <algorithm>

#include "base/units.hpp"
#include "coro/ready_queue.hpp"
#include "observe/log.hpp"
#include "partitions/partition.hpp"

namespace galgo::partitions {

using coro::Task;

namespace {

/// Between two lines about deletions that are left to a later pass.
constexpr std::uint64_t kDeleteLineNs = 60 * kSecond;

}  // namespace

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

/// Looks no further than to the first segment that stays. `slowest` is looked for only when
/// something is due: there may be many consumers.
RetentionDecision Partition::decide(const RetentionRules& rules, Timestamp now,
                                    std::optional<SlowestConsumer>& slowest) {
    RetentionFigures figures{
        .sealed_bytes = log_->stats().sealed_bytes,
        .needed_from = {},
        .given_up = held_back_.overdue(environment_.loop.now(), rules.held_back_max_ns),
        .wanted = log_->wanted_trim(),
        .active_since = log_->active_since()};
    RetentionWalk first(rules, figures, now);
    const std::size_t end = log_->segment_count();
    std::size_t i = 0;
    while (i + 1 < end && first.decision().trim_below == Offset{0} && first.add(log_->segment(i))) {
        ++i;
    }
    if (first.decision().trim_below == Offset{0}) {
        return first.decision();
    }
    slowest = slowest_consumer();
    if (slowest.has_value()) {
        figures.needed_from = slowest->needed_from();
    }
    RetentionWalk walk(rules, figures, now);
    for (i = 0; i + 1 < end && walk.add(log_->segment(i)); ++i) {
    }
    return walk.decision();
}

/// A segment that cannot be ended keeps none from going: they may be what makes room.
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
        const Result<bool> rolled =
            co_await log_->roll_by_age(Timestamp(now.value() - rules.expiry_us));
        if (!rolled.has_value()) {
            cleaned.roll_error = rolled.error();
        } else if (*rolled) {
            publish_counters();
            decision = decide(rules, now, slowest);
        }
    }
    held_back_.note(decision.needed_below, environment_.loop.now(), rules.held_back_max_ns);
    cleaned.held_back_bytes = decision.held_back_bytes;
    if (decision.needed_below != Offset{0}) {
        cleaned.slowest = slowest;
    }
    if (decision.trim_below == Offset{0}) {
        co_return cleaned;
    }
    GALGO_CO_TRY_ASSIGN(cleaned.trimmed, co_await log_->trim(decision.trim_below, segments_max));
    cleaned.again = cleaned.trimmed.segment_count == segments_max;
    if (cleaned.trimmed.segment_count != 0) {
        cleaned.given_up_bytes = std::min(decision.given_up_bytes, cleaned.trimmed.bytes);
        publish_counters();
    }
    co_return cleaned;
}

/// Where the `count` oldest sealed segments with messages end; 0 when there are none.
Offset Partition::end_of_oldest(std::uint32_t count) const {
    Offset end;
    std::uint32_t counted = 0;
    for (std::size_t i = 0; i + 1 < log_->segment_count() && counted < count; ++i) {
        const storage::SegmentFacts segment = log_->segment(i);
        if (segment.size_bytes != 0) {
            end = segment.end;
            ++counted;
        }
    }
    return end;
}

Task<Status> Partition::delete_segments(std::uint32_t count) {
    const Offset wanted = end_of_oldest(count);
    if (wanted == Offset{0}) {
        co_return Status{};
    }
    // First: whoever is told of an error asks again, and then means the same segments.
    GALGO_CO_TRY(co_await log_->want_trim(wanted));
    Result<storage::TrimResult> trimmed;
    do {
        const std::optional<SlowestConsumer> slowest = slowest_consumer();
        trimmed = co_await log_->trim(
            slowest.has_value() ? std::min(slowest->needed_from(), wanted) : wanted,
            kSegmentsAtATime);
        if (trimmed.has_value()) {
            publish_counters();
        }
        co_await coro::yield_to(environment_.loop.ready());
    } while (trimmed.has_value() && trimmed->segment_count == kSegmentsAtATime);
    if (!trimmed.has_value() && environment_.loop.now() >= next_delete_line_at_) {
        next_delete_line_at_ = environment_.loop.now().plus(kDeleteLineNs);
        observe::log_warn("partitions", "segments that were deleted go later",
                          {{"directory", directory_}, {"error", to_string(trimmed.error())}});
    }
    co_return Status{};
}

}  // namespace galgo::partitions

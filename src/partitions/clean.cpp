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

/// Looks no further than to the first segment that stays, or to `segments_max` that go. `slowest`
/// is looked for only when something is due: there may be many consumers.
RetentionDecision Partition::decide(const RetentionRules& rules, Timestamp now,
                                    std::size_t segments_max,
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
    for (i = 0;
         i + 1 < end && walk.decision().trim_count < segments_max && walk.add(log_->segment(i));
         ++i) {
    }
    return walk.decision();
}

/// A segment that cannot be ended keeps none from going: they may be what makes room.
Task<Cleaned> Partition::clean(RetentionRules rules, Timestamp now, std::size_t segments_max) {
    Cleaned cleaned;
    const std::optional<Error>& fence = log_->fenced();
    if (fence.has_value() && fence->retry == RetryClass::kNever) {
        co_return cleaned;
    }
    std::optional<SlowestConsumer> slowest;
    RetentionDecision decision = decide(rules, now, segments_max, slowest);
    if (decision.roll) {
        const Result<bool> rolled =
            co_await log_->roll_by_age(Timestamp(now.value() - rules.expiry_us));
        if (!rolled.has_value()) {
            cleaned.roll_error = rolled.error();
        } else if (*rolled) {
            publish_counters();
            decision = decide(rules, now, segments_max, slowest);
        }
    }
    cleaned.again = decision.trim_count == segments_max;  // what is behind them was not looked at
    if (!cleaned.again) {
        held_back_.note(decision.needed_below, environment_.loop.now(), rules.held_back_max_ns);
        cleaned.held_back_bytes = decision.held_back_bytes;
    }
    if (decision.needed_below != Offset{0}) {
        cleaned.slowest = slowest;
    }
    if (decision.trim_below == Offset{0}) {
        co_return cleaned;
    }
    const Result<storage::TrimResult> trimmed =
        co_await log_->trim(decision.trim_below, segments_max);
    if (!trimmed.has_value()) {
        cleaned.trim_error = trimmed.error();
        cleaned.again = false;
        co_return cleaned;
    }
    cleaned.trimmed = *trimmed;
    if (trimmed->segment_count == 0) {
        cleaned.again = false;  // a deletion was faster, or the front stays for another reason
        co_return cleaned;
    }
    cleaned.given_up_bytes = std::min(decision.given_up_bytes, trimmed->bytes);
    publish_counters();
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
    const std::optional<SlowestConsumer> slowest = slowest_consumer();
    GALGO_CO_TRY(
        co_await log_->want_trim(wanted, slowest.has_value() ? slowest->needed_from() : wanted));
    if (deletes_ || background_.closed()) {
        co_return Status{};
    }
    deletes_ = true;
    const bool more = co_await delete_wanted();
    deletes_ = more && !background_.closed();
    if (deletes_) {
        background_.spawn(delete_the_rest, coro::Anchor<Partition>(*this));
    }
    co_return Status{};
}

/// One step. True when there may be more that no consumer needs.
Task<bool> Partition::delete_wanted() {
    const Offset wanted = log_->wanted_trim();
    const std::optional<SlowestConsumer> slowest = slowest_consumer();
    const Result<storage::TrimResult> trimmed = co_await log_->trim(
        slowest.has_value() ? std::min(slowest->needed_from(), wanted) : wanted, kSegmentsAtATime);
    if (trimmed.has_value()) {
        publish_counters();
        co_return trimmed->segment_count == kSegmentsAtATime || wanted < log_->wanted_trim();
    }
    if (environment_.loop.now() >= next_delete_line_at_) {
        next_delete_line_at_ = environment_.loop.now().plus(kDeleteLineNs);
        observe::log_warn("partitions", "segments that were deleted go later",
                          {{"directory", directory_}, {"error", to_string(trimmed.error())}});
    }
    co_return false;
}

/// Whoever asked has the answer: the decision is stable, and thousands of files take their time.
Task<void> Partition::delete_the_rest(coro::Anchor<Partition> partition) {
    bool more = true;
    while (more && !partition->background_.closed()) {
        co_await coro::yield_to(partition->environment_.loop.ready());
        more = co_await partition->delete_wanted();
    }
    partition->deletes_ = false;
}

}  // namespace galgo::partitions

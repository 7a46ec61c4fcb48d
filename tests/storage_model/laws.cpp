// What must be true of a poll, of the counters and of a start.
#include <algorithm>
#include <format>

#include "driver.hpp"

namespace galgo::log_model {

using coro::Task;
using partitions::ConsumerKey;
using partitions::PartitionHandle;
using partitions::PollRequest;
using partitions::PollResult;
using wire::PollingKind;

namespace {

/// A poll that begins inside of a batch counts all of it.
std::uint64_t unsent_bytes(const PartitionModel& m, const Reply& reply) {
    const SeenMessage& first = reply.messages.front();
    std::uint64_t bytes = 0;
    for (std::size_t i = m.index_of(first.base); i < m.index_of(first.offset); ++i) {
        bytes += m.messages[i].frame_bytes;
    }
    return bytes;
}

Task<Result<PollResult>> poll_task(World& world, std::size_t index, PollRequest request) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await world.open(index));
    Result<PollResult> result = co_await handle->poll(request);
    co_return result;
}

}  // namespace

void Driver::poll(std::size_t index) {
    PartitionModel& m = model(index);
    const ConsumerKey key = draw_consumer();
    PollRequest request{.consumer = key,
                        .strategy = {.kind = static_cast<PollingKind>(random_.between(1, 5))},
                        .count = static_cast<std::uint32_t>(
                            random_.percent(10) ? random_.between(1, 500) : random_.between(1, 20)),
                        .bytes_max = random_.percent(15) ? random_.between(1, 20'000) : 4 * kMiB,
                        .auto_commit = random_.percent(15)};
    std::uint64_t from = 0;
    bool named = false;
    switch (request.strategy.kind) {
        case PollingKind::kOffset:
            from = random_.below(m.committed_end + 3);
            if (random_.percent(70) && !m.messages.empty()) {
                from = m.messages[random_.below(m.messages.size())].offset;
            }
            request.strategy.value = from;
            named = true;
            break;
        case PollingKind::kTimestamp: {
            std::uint64_t time = wall_now() - random_.below(3'000'000);
            if (!m.messages.empty() && random_.percent(90)) {
                const Message& message = m.messages[random_.below(m.messages.size())];
                time = message.timestamp != 0 ? message.timestamp + random_.below(3) - 1
                                              : message.sent_after;
            }
            request.strategy.value = time;
            break;
        }
        case PollingKind::kFirst:
            from = m.first;
            break;
        case PollingKind::kLast:
            from = std::max(
                m.first, m.committed_end - std::min<std::uint64_t>(m.committed_end, request.count));
            break;
        case PollingKind::kNext: {
            const auto found = m.consumers.find(key);
            named = found != m.consumers.end() && found->second.stored.has_value();
            from = named ? *found->second.stored + 1 : m.first;
            break;
        }
    }
    PollRequest asked = request;
    if (options_.plant == Plant::kSkipMessage && asked.strategy.kind == PollingKind::kOffset &&
        random_.percent(5)) {
        ++asked.strategy.value;
    }
    if (options_.plant == Plant::kTimestampOff && asked.strategy.kind == PollingKind::kTimestamp) {
        ++asked.strategy.value;
    }
    const auto polled = world_.run(poll_task, world_, index, asked);
    if (!polled.has_value()) {
        crash_somehow();
        return;
    }
    note_faults();
    const Result<PollResult>& result = *polled;
    if (result.has_value()) {
        check_poll(index, request, from, *result);
        return;
    }
    const ErrorCode code = result.error().code;
    trace_.add(static_cast<std::uint64_t>(code));
    const auto consumer = m.consumers.find(key);
    if (code == ErrorCode::kTooManyConsumerOffsets && request.auto_commit &&
        !m.may_store(key, World::kConsumerOffsetsMax)) {
        return;
    }
    if (code == ErrorCode::kCannotReadConsumerOffsets && consumer != m.consumers.end() &&
        consumer->second.damaged) {
        return;
    }
    // Lost messages are told: then none that has to be there stands at the named offset.
    const std::size_t at = m.index_of(from);
    const bool is_there = at < m.messages.size() && m.messages[at].offset == from;
    const bool may_be_lost = !m.persisted || m.failed_since_start || !m.attempts.empty();
    if (code == ErrorCode::kCannotReadMessage && !faulty_ && named && !is_there && may_be_lost) {
        return;
    }
    if (!faulty_) {
        differ(std::format("a poll of kind {} from {} failed: {}",
                           static_cast<int>(request.strategy.kind), from,
                           to_string(result.error())));
    }
}

void Driver::check_poll(std::size_t index, const PollRequest& request, std::uint64_t from,
                        const PollResult& result) {
    PartitionModel& m = model(index);
    Reply reply;
    if (Difference found = take_apart(result.read, reply); found.has_value()) {
        differ(*std::move(found));
        return;
    }
    const std::uint64_t current = m.committed_end == 0 ? 0 : m.committed_end - 1;
    if (result.current_offset.value() != current) {
        differ(std::format("a poll says the last offset is {}; it is {}",
                           result.current_offset.value(), current));
        return;
    }
    trace_.add(reply.messages.size());
    trace_.add(reply.bytes);
    if (request.strategy.kind == PollingKind::kTimestamp) {
        from = reply.messages.empty() ? m.committed_end : reply.messages.front().offset;
        for (const Message& message : m.messages) {
            if (message.offset >= from) {
                break;
            }
            const bool is_late = message.timestamp != 0
                                     ? message.timestamp >= request.strategy.value
                                     : message.sent_after > request.strategy.value;
            if (message.here && is_late && message.offset < m.committed_end) {
                differ(std::format("a poll by time {} began at {}, behind {} of time {}",
                                   request.strategy.value, from, describe(message),
                                   message.timestamp));
                return;
            }
        }
        if (!reply.messages.empty() && reply.messages.front().timestamp < request.strategy.value) {
            differ(std::format("a poll by time {} began with time {}", request.strategy.value,
                               reply.messages.front().timestamp));
            return;
        }
    }
    if (reply.messages.size() > request.count) {
        differ("a poll brought more messages than asked for");
        return;
    }
    if (!reply.messages.empty() && reply.messages.front().offset < from) {
        differ(std::format("a poll from {} began at {}", from, reply.messages.front().offset));
        return;
    }
    for (const SeenMessage& seen : reply.messages) {
        if (seen.offset >= m.committed_end) {
            differ(std::format("a poll brought {}, which is not committed", seen.offset));
            return;
        }
        check(m.see(seen));
        if (result_.difference.has_value()) {
            return;
        }
    }
    // Everything between the start and the last message is there, and the end has a reason.
    std::size_t at = m.index_of(from);
    for (const SeenMessage& seen : reply.messages) {
        for (; at < m.messages.size() && m.messages[at].offset < seen.offset; ++at) {
            if (m.messages[at].here) {
                differ(std::format("a poll from {} passed {}", from, describe(m.messages[at])));
                return;
            }
        }
        ++at;
    }
    while (at < m.messages.size() && !m.messages[at].here) {
        ++at;
    }
    const std::uint64_t left = request.count - reply.messages.size();
    if (left == 0 || at >= m.messages.size() || m.messages[at].offset >= m.committed_end) {
        // the count, or the end
    } else if (reply.messages.empty()) {
        differ(std::format("a poll from {} of {} messages brought none; {} is there", from,
                           request.count, describe(m.messages[at])));
        return;
    } else if (m.lost_unstable && m.messages[at].offset != reply.messages.back().offset + 1) {
        // what was lost between is told by the next poll
    } else if (!faulty_ && reply.bytes + unsent_bytes(m, reply) + m.slice_bytes(at, left) <=
                               request.bytes_max) {
        differ(
            std::format("a poll from {} of {} messages ended after {}, before {}; {} of {} bytes",
                        from, request.count, reply.messages.size(), describe(m.messages[at]),
                        reply.bytes, request.bytes_max));
        return;
    }
    if (request.auto_commit && !reply.messages.empty()) {
        if (!m.may_store(request.consumer, World::kConsumerOffsetsMax)) {
            differ("a poll made room for one more consumer");
            return;
        }
        m.raise(request.consumer, reply.messages.back().offset);
        check_stored(index, request.consumer);
    }
}

void Driver::check_stored(std::size_t index, ConsumerKey key) {
    PartitionModel& m = model(index);
    const Place& place = world_.places()[index];
    const auto handle = world_.table().find(place.key, place.incarnation);
    if (!handle.has_value()) {
        return;
    }
    const auto found = (*handle)->stored_offset(key);
    const Consumer& consumer = m.consumers[key];
    if (!found.has_value()) {
        if (!consumer.damaged) {
            differ(std::format("the stored offset of consumer {} cannot be read", key.id));
        }
        return;
    }
    const auto stored = found->has_value() ? std::optional((*found)->stored.value()) : std::nullopt;
    trace_.add(stored.value_or(~std::uint64_t{0}));
    if (stored != consumer.stored || consumer.damaged) {
        differ(
            std::format("consumer {} has stored {}, and should have {}", key.id,
                        stored.has_value() ? std::to_string(*stored) : "none",
                        consumer.stored.has_value() ? std::to_string(*consumer.stored) : "none"));
    }
}

/// After an operation, with nothing on its way.
void Driver::check_counters(std::size_t index) {
    PartitionModel& m = model(index);
    const Place& place = world_.places()[index];
    const auto handle = world_.table().find(place.key, place.incarnation);
    if (!handle.has_value()) {
        return;
    }
    const partitions::Counters& counters = place.counters;
    const std::uint64_t current = m.committed_end == 0 ? 0 : m.committed_end - 1;
    if (counters.current_offset.value() != current) {
        differ(std::format("partition {} says its last offset is {}; it is {}", index,
                           counters.current_offset.value(), current));
        return;
    }
    check(m.advance_first(counters.first_offset.value()));
    if (!faulty_ && (*handle)->fenced().has_value()) {
        differ(
            std::format("partition {} is fenced without a fault: {}", index, *(*handle)->fenced()));
    }
}

/// All that is there, from the first offset on.
void Driver::scan(std::size_t index, bool& whole) {
    PartitionModel& m = model(index);
    std::uint64_t at = world_.places()[index].counters.first_offset.value();
    while (at < m.committed_end) {
        const PollRequest request{.strategy = {.kind = PollingKind::kOffset, .value = at},
                                  .count = 4096,
                                  .bytes_max = 4 * kMiB};
        const auto polled = world_.run(poll_task, world_, index, request);
        note_faults();
        if (!polled.has_value()) {
            differ("a crash that nobody asked for");
            return;
        }
        if (!polled->has_value()) {
            const std::size_t next = m.index_of(at);
            const bool must =
                next < m.messages.size() && m.messages[next].offset == at && m.messages[next].must;
            if (faulty_) {
                whole = false;
                return;
            }
            if ((*polled).error().code != ErrorCode::kCannotReadMessage || must) {
                differ(std::format("after a start, a poll from {} failed: {}", at,
                                   to_string((*polled).error())));
                return;
            }
            ++at;
            continue;
        }
        Reply reply;
        check(take_apart((*polled)->read, reply));
        for (const SeenMessage& seen : reply.messages) {
            if (!result_.difference.has_value()) {
                check(m.see(seen));
            }
        }
        if (result_.difference.has_value() || reply.messages.empty()) {
            return;
        }
        at = reply.messages.back().offset + 1;
    }
}

/// What a start has brought back.
void Driver::recover(std::size_t index, bool& whole) {
    PartitionModel& m = model(index);
    const Place& place = world_.places()[index];
    const auto handle = world_.table().find(place.key, place.incarnation);
    if (!handle.has_value()) {
        whole = false;
        if (!faulty_) {
            differ(std::format("partition {} was not opened, without a fault", index));
        }
        return;
    }
    const partitions::Counters& counters = place.counters;
    const std::uint64_t current = counters.current_offset.value();
    m.committed_end = current + 1;
    if (current == 0 && counters.message_count == 0) {
        m.committed_end = std::min<std::uint64_t>(m.told_end, 1);
    }
    if (m.committed_end < m.told_end) {
        differ(std::format("partition {} ended at {} and ends at {} after a start", index,
                           m.told_end, m.committed_end));
        return;
    }
    check(m.advance_first(counters.first_offset.value()));
    if (result_.difference.has_value()) {
        return;
    }
    if (!faulty_ && (*handle)->fenced().has_value()) {
        differ(std::format("partition {} is fenced after a start without a fault: {}", index,
                           *(*handle)->fenced()));
        return;
    }
    bool scanned = true;
    scan(index, scanned);
    scanned = scanned && !faulty_;
    whole = whole && scanned;
    if (result_.difference.has_value()) {
        return;
    }
    const std::size_t before = m.messages.size();
    check(m.recover(*unresolved_, scanned));
    result_.lost_unstable += before - m.messages.size();
    if (scanned) {
        m.trim_bound = m.first;
    }
    for (const auto kind : {wire::ConsumerKind::kConsumer, wire::ConsumerKind::kGroup}) {
        for (std::uint32_t id = 1; id <= World::kConsumerOffsetsMax + 2; ++id) {
            const ConsumerKey key{.kind = kind, .id = id};
            const auto found = (*handle)->stored_offset(key);
            const bool has = found.has_value() && found->has_value();
            check(m.recover_offset(key, !found.has_value(),
                                   has ? std::optional((*found)->stored.value()) : std::nullopt,
                                   *unresolved_, scanned));
        }
    }
}

}  // namespace galgo::log_model

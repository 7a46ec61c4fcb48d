#include "model.hpp"

#include <algorithm>
#include <format>

#include "wire/batch.hpp"

namespace galgo::log_model {

std::string describe(const Message& message) {
    return std::format("message {} of send {}.{}{}{}{}", message.offset, message.serial,
                       message.index, message.acknowledged ? ", acknowledged" : "",
                       message.seen ? ", seen" : "", message.stable ? ", stable" : "");
}

void PartitionModel::begin_life(std::uint64_t next_incarnation) {
    const bool was_persisted = persisted;
    const bool were_persisted = offsets_persisted;
    *this = PartitionModel{};
    persisted = was_persisted;
    offsets_persisted = were_persisted;
    incarnation = next_incarnation;
}

// ---- sends

void PartitionModel::begin_send(std::uint64_t serial, Attempt attempt) {
    attempt.floor = told_end;
    attempts.emplace(serial, std::move(attempt));
}

/// Sends that a loss of power took, if others stand in their place now. A start with faults leaves
/// that open.
void PartitionModel::forget_unknown(std::uint64_t from, std::uint64_t end) {
    std::set<std::uint64_t> serials;
    for (std::size_t i = index_of(from); i < messages.size() && messages[i].offset < end; ++i) {
        if (!messages[i].here && !messages[i].must) {
            serials.insert(messages[i].serial);
        }
    }
    if (!serials.empty()) {
        std::erase_if(messages, [&](const Message& message) {
            return serials.contains(message.serial) && !message.here && !message.must;
        });
    }
}

Difference PartitionModel::place(std::uint64_t serial, const Attempt& attempt, std::uint64_t base,
                                 bool acknowledged) {
    const std::uint64_t end = base + attempt.checksums.size();
    if (base < attempt.floor) {
        return std::format("send {} stands at {}, but {} was told before it began", serial, base,
                           attempt.floor);
    }
    forget_unknown(base, end);
    const std::size_t at = index_of(base);
    if (at < messages.size() && messages[at].offset < end) {
        return std::format("send {} at {}..{} has an offset of {}", serial, base, end,
                           describe(messages[at]));
    }
    for (std::size_t i = 0; i < attempt.checksums.size(); ++i) {
        messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(at + i),
                        Message{.offset = base + i,
                                .serial = serial,
                                .checksum = attempt.checksums[i],
                                .sent_after = attempt.sent_after,
                                .sent_before = attempt.sent_before,
                                .index = static_cast<std::uint32_t>(i),
                                .batch_count = static_cast<std::uint32_t>(attempt.checksums.size()),
                                .frame_bytes = attempt.frame_bytes[i],
                                .acknowledged = acknowledged,
                                .here = true});
    }
    return std::nullopt;
}

Difference PartitionModel::acknowledge(std::uint64_t serial, std::uint64_t base,
                                       std::uint64_t wall_now) {
    const auto found = attempts.find(serial);
    const std::size_t at = index_of(base);
    if (found == attempts.end()) {  // a reader was faster
        if (at >= messages.size() || messages[at].offset != base || messages[at].serial != serial) {
            return std::format("send {} was told {}, and stands elsewhere", serial, base);
        }
        for (std::size_t i = at; i < messages.size() && messages[i].serial == serial; ++i) {
            messages[i].acknowledged = true;
            messages[i].sent_before = wall_now;
        }
    } else {
        found->second.sent_before = wall_now;
        if (Difference wrong = place(serial, found->second, base, true); wrong.has_value()) {
            return wrong;
        }
        attempts.erase(found);
    }
    const std::size_t begin = index_of(base);
    const std::uint64_t end = base + messages[begin].batch_count;
    committed_end = std::max(committed_end, end);
    told_end = std::max(told_end, end);
    return std::nullopt;
}

void PartitionModel::fail_send(std::uint64_t serial, std::uint64_t wall_now) {
    failed_since_start = true;
    const auto found = attempts.find(serial);
    if (found != attempts.end()) {
        found->second.sent_before = wall_now;
        found->second.ended = true;
    }
}

// ---- reads

std::size_t PartitionModel::index_of(std::uint64_t offset) const {
    return static_cast<std::size_t>(
        std::ranges::lower_bound(messages, offset, {}, &Message::offset) - messages.begin());
}

Difference PartitionModel::see(const SeenMessage& seen) {
    std::size_t at = index_of(seen.offset);
    if (at < messages.size() && messages[at].offset == seen.offset &&
        messages[at].serial != seen.serial) {
        forget_unknown(seen.offset, seen.offset + 1);
        at = index_of(seen.offset);
    }
    if (at == messages.size() || messages[at].offset != seen.offset) {
        const auto attempt = attempts.find(seen.serial);
        if (attempt == attempts.end()) {
            return std::format("a reader got send {}.{} at {}: nobody sent it, or it was gone",
                               seen.serial, seen.index, seen.offset);
        }
        if (Difference wrong = place(seen.serial, attempt->second, seen.base, false);
            wrong.has_value()) {
            return wrong;
        }
        attempts.erase(attempt);
        at = index_of(seen.offset);
    }
    Message& message = messages[at];
    if (message.serial != seen.serial || message.index != seen.index ||
        message.checksum != seen.checksum || message.frame_bytes != seen.frame_bytes ||
        message.offset != seen.offset) {
        return std::format("a reader got send {}.{} at {}, where {} stands", seen.serial,
                           seen.index, seen.offset, describe(message));
    }
    if (message.timestamp != 0 && message.timestamp != seen.timestamp) {
        return std::format("the time of {} was {} and is {}", describe(message), message.timestamp,
                           seen.timestamp);
    }
    const Message* before = at == 0 ? nullptr : &messages[at - 1];
    if (before != nullptr && before->timestamp > seen.timestamp) {
        return std::format("the time of {} is before that of the message in front",
                           describe(message));
    }
    message.timestamp = seen.timestamp;
    message.seen = true;
    message.here = true;
    message.scanned = true;
    told_end = std::max(told_end, message.offset + 1);
    return std::nullopt;
}

std::uint64_t PartitionModel::slice_bytes(std::size_t index, std::uint64_t count) const {
    std::uint64_t bytes = wire::kBatchHeaderSize;
    const std::uint64_t serial = messages[index].serial;
    for (std::size_t i = index;
         i < messages.size() && i < index + count && messages[i].serial == serial; ++i) {
        bytes += messages[i].frame_bytes;
    }
    return bytes;
}

Difference PartitionModel::advance_first(std::uint64_t now_first) {
    if (now_first < first) {
        return std::format("the log began at {} and begins at {} now", first, now_first);
    }
    while (!messages.empty() && messages.front().offset < now_first) {
        const Message& gone = messages.front();
        if ((gone.here || gone.must) && gone.offset >= trim_bound) {
            return std::format("the log begins at {}, and nothing lets {} go", now_first,
                               describe(gone));
        }
        messages.pop_front();
    }
    first = now_first;
    return std::nullopt;
}

// ---- consumers

void PartitionModel::store(partitions::ConsumerKey key, std::optional<std::uint64_t> offset) {
    Consumer& consumer = consumers[key];
    consumer.stored = offset;
    consumer.damaged = false;
    consumer.after_kill = {offset};
    if (offsets_persisted) {
        consumer.after_power = {offset};
    } else {
        consumer.after_power.insert(offset);
    }
}

void PartitionModel::attempt_store(partitions::ConsumerKey key,
                                   std::optional<std::uint64_t> offset) {
    Consumer& consumer = consumers[key];
    consumer.after_kill.insert(offset);
    consumer.after_power.insert(offset);
}

void PartitionModel::raise(partitions::ConsumerKey key, std::uint64_t offset) {
    Consumer& consumer = consumers[key];
    if (!consumer.stored.has_value() || *consumer.stored < offset) {
        consumer.stored = offset;
        consumer.damaged = false;
        consumer.raising = true;
        attempt_store(key, offset);
    }
}

bool PartitionModel::may_store(partitions::ConsumerKey key, std::size_t max) const {
    std::size_t count = 0;
    for (const auto& [other, consumer] : consumers) {
        const bool has_place = consumer.stored.has_value() || consumer.damaged;
        if (has_place && other == key) {
            return true;
        }
        count += has_place && other.kind == key.kind ? 1 : 0;
    }
    return count < max;
}

std::optional<std::uint64_t> PartitionModel::needed_from() const {
    std::optional<std::uint64_t> needed;
    for (const auto& [key, consumer] : consumers) {
        if (consumer.damaged) {
            return 0;
        }
        if (consumer.stored.has_value()) {
            needed = std::min(needed.value_or(~std::uint64_t{0}), *consumer.stored + 1);
        }
    }
    return needed;
}

Difference PartitionModel::recover_offset(partitions::ConsumerKey key, bool is_damaged,
                                          std::optional<std::uint64_t> found, Crash crash,
                                          bool whole) {
    Consumer& consumer = consumers[key];
    const auto& allowed = crash == Crash::kPower ? consumer.after_power : consumer.after_kill;
    const auto text = [](std::optional<std::uint64_t> offset) {
        return offset.has_value() ? std::to_string(*offset) : std::string("none");
    };
    if (is_damaged && whole && (offsets_persisted || crash != Crash::kPower) && !consumer.damaged) {
        return std::format("the stored offset of consumer {} is damaged", key.id);
    }
    if (!is_damaged && !allowed.contains(found)) {
        std::string all;
        for (const auto& one : allowed) {
            all += ' ' + text(one);
        }
        return std::format("consumer {} has stored {}; it may be{}", key.id, text(found), all);
    }
    consumer.damaged = is_damaged;
    consumer.stored = found;
    consumer.raising = false;
    if (!is_damaged && whole) {
        consumer.after_kill = {found};
        if (offsets_persisted) {
            consumer.after_power = {found};
        }
    }
    return std::nullopt;
}

// ---- the end and the start of a process

void PartitionModel::crash(Crash crash) {
    const bool power = crash == Crash::kPower;
    for (Message& message : messages) {
        message.must = !power
                           ? message.must || message.acknowledged || message.seen || message.stable
                       : persisted ? message.acknowledged
                                   : message.stable;
        message.here = false;
        message.scanned = false;
    }
    for (auto& [serial, attempt] : attempts) {
        attempt.ended = true;
    }
    if (power && !persisted) {
        lost_unstable = true;
        first = stable_first;
        told_end = stable_first;
        for (const Message& message : messages) {
            if (message.must) {
                told_end = std::max(told_end, message.offset + 1);
            }
        }
        for (auto& [serial, attempt] : attempts) {
            attempt.floor = std::min(attempt.floor, told_end);
        }
    }
    failed_since_start = false;
}

Difference PartitionModel::recover(Crash crash, bool whole) {
    for (const Message& message : messages) {
        if (message.must && !message.scanned && whole) {
            return std::format("lost after {}: {}",
                               crash == Crash::kPower  ? "a loss of power"
                               : crash == Crash::kKill ? "a kill"
                                                       : "a stop",
                               describe(message));
        }
    }
    if (!whole) {
        return std::nullopt;
    }
    std::erase_if(messages, [](const Message& message) { return !message.scanned; });
    attempts.clear();  // what is not there now never comes
    for (Message& message : messages) {
        message.must = false;
        message.stable = !tainted;
    }
    stable_first = first;
    return std::nullopt;
}

void PartitionModel::set_all_stable() {
    for (Message& message : messages) {
        message.stable = message.stable || (message.here && !tainted);
    }
    stable_first = first;
}

}  // namespace galgo::log_model

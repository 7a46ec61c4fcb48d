// The operations of a run.
#include "driver.hpp"

#include <algorithm>
#include <cerrno>
#include <format>
#include <utility>

namespace galgo::log_model {

using coro::Task;
using partitions::ConsumerKey;
using partitions::PartitionHandle;
using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

namespace {

constexpr std::uint64_t kNoCrash = ~std::uint64_t{0};
constexpr std::uint64_t kPlenty = 1ULL << 40;
constexpr std::size_t kRecentSends = 48;
/// A send that old may have left its window of 64, with those that failed.
constexpr std::uint64_t kWindowSafe = 56;
/// Above that the partition is purged, because nothing else may let its messages go.
constexpr std::size_t kMessagesMax = 3000;

Task<Result<Offset>> send_task(World& world, std::size_t index, memory::BufRef batch,
                               std::uint32_t count, partitions::Producer producer) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await world.open(index));
    Result<Offset> base = co_await handle->append(
        {.batch = std::move(batch), .message_count = count, .producer = producer});
    co_return base;
}

Task<Status> store_task(World& world, std::size_t index, ConsumerKey key,
                        std::optional<std::uint64_t> offset) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await world.open(index));
    if (offset.has_value()) {
        co_return co_await handle->store_offset(key, Offset{*offset});
    }
    co_return co_await handle->delete_offset(key);
}

Task<Status> flush_task(World& world, std::size_t index) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await world.open(index));
    co_return co_await handle->flush();
}

Task<Result<partitions::Cleaned>> clean_task(World& world, std::size_t index,
                                             partitions::RetentionRules rules) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await world.open(index));
    Result<partitions::Cleaned> cleaned;
    do {
        cleaned = co_await handle->clean(rules, world.clock().wall_now(), 16);
    } while (cleaned.has_value() && cleaned->again);
    co_return cleaned;
}

Task<Status> delete_task(World& world, std::size_t index, std::uint32_t count) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await world.open(index));
    co_return co_await handle->delete_segments(count);
}

Task<Status> purge_task(World& world, std::size_t index, bool deleted) {
    co_await world.purge(index, deleted);
    GALGO_CO_TRY(co_await world.open(index));
    co_return Status{};
}

/// With a value, so that its end is told from a crash.
Task<Status> housekeeping_task(World& world) {
    co_await world.housekeeping();
    co_return Status{};
}

Task<Status> close_task(coro::Scope& scope) {
    co_await scope.close();
    co_return Status{};
}

runtime_sim::DiskOptions disk_options(std::uint64_t seed) {
    runtime_sim::DiskOptions options;
    options.slow_percent = seed % 3 == 0 ? 10 : 1;
    return options;
}

}  // namespace

Driver::Driver(const RunOptions& options)
    : options_(options),
      plan_(options.seed),
      random_(plan_.random),
      world_(options.seed, plan_.journal_bytes, disk_options(options.seed)),
      noise_(256 * kKiB) {
    runtime_sim::SimRandom noise(7);
    for (std::byte& byte : noise_) {
        byte = static_cast<std::byte>(noise.next());
    }
    for (std::uint64_t i = 0; i < plan_.partitions; ++i) {
        const bool persisted = random_.percent(50);
        const bool offsets_persisted = random_.percent(50);
        world_.add_partition(
            {.segment_size_bytes = (16 * kKiB) << random_.below(3),
             .messages_required_to_save = static_cast<std::uint32_t>(random_.between(1, 100)),
             .size_required_to_save_bytes = random_.between(1, 64 * kKiB),
             .persisted = persisted,
             .offsets_persisted = offsets_persisted});
        models_.emplace_back();
        models_.back().persisted = persisted;
        models_.back().offsets_persisted = offsets_persisted;
        say(std::format("  {}: {}, offsets {}", i, persisted ? "persisted" : "replicated",
                        offsets_persisted ? "persisted" : "replicated"));
        sends_.emplace_back();
    }
}

Driver::~Driver() = default;

void Driver::differ(std::string text) {
    if (!result_.difference.has_value()) {
        result_.difference = std::move(text);
    }
}

void Driver::check(Difference found) {
    if (found.has_value()) {
        differ(*std::move(found));
    }
}

void Driver::say(std::string text) {
    if (options_.log) {
        std::fputs(std::format("{:>8} {}\n", result_.operations, text).c_str(), stdout);
        std::fflush(stdout);  // the lines of the server come from a thread
    }
}

// ---- the run

RunResult Driver::run() {
    boot();
    while (result_.operations < options_.operations && !result_.difference.has_value()) {
        const Operation operation = draw();
        ++result_.operations;
        step(operation);
        if (result_.difference.has_value()) {
            break;
        }
        for (std::size_t i = 0; i < models_.size(); ++i) {
            check_counters(i);
        }
    }
    world_.io().crash_after(kNoCrash);
    trace_.add(world_.trace_hash());
    result_.trace = trace_.hash();
    return result_;
}

Operation Driver::draw() {
    std::uint64_t at = random_.below(10'000);
    for (std::size_t i = 0; i < kWeights.size(); ++i) {
        if (at < kWeights[i].weight) {
            ++result_.counts[i];
            say(kWeights[i].name);
            return kWeights[i].operation;
        }
        at -= kWeights[i].weight;
    }
    return Operation::kAppend;
}

void Driver::step(Operation operation) {
    const std::size_t index = random_.below(models_.size());
    if (model(index).messages.size() > kMessagesMax) {
        operation = Operation::kPurge;
    }
    const bool cut = random_.below(1000) < plan_.crash_permille;
    if (cut) {
        world_.io().crash_after(random_.below(60));
    }
    switch (operation) {
        case Operation::kAppend:
            append(index);
            break;
        case Operation::kBurst:
            burst(index);
            break;
        case Operation::kRetry:
            retry(index);
            break;
        case Operation::kPoll:
            poll(index);
            break;
        case Operation::kStoreOffset:
            store_offset(index);
            break;
        case Operation::kDeleteOffset:
            delete_offset(index);
            break;
        case Operation::kFlush:
            flush(index);
            break;
        case Operation::kClean:
            clean(index);
            break;
        case Operation::kDeleteSegments:
            delete_segments(index);
            break;
        case Operation::kPurge:
            purge(index);
            break;
        case Operation::kHousekeeping:
            if (!world_.run(housekeeping_task, world_).has_value()) {
                crash_somehow();
            }
            note_faults();
            break;
        case Operation::kJump:
            jump();
            break;
        case Operation::kEndSession:
            end_session();
            break;
        case Operation::kStop:
            stop();
            break;
        case Operation::kKill:
            crash(CrashKind::kProcess);
            break;
        case Operation::kPower:
            crash(may_lose_power() ? CrashKind::kPower : CrashKind::kProcess);
            break;
        case Operation::kFault:
            arm_fault(false);
            break;
        case Operation::kHeal:
            heal();
            break;
    }
    if (world_.is_up() && world_.crashed()) {
        crash_somehow();
    }
    world_.io().crash_after(kNoCrash);
}

// ---- sends

Sent Driver::draw_send(std::size_t index) {
    Sends& sends = sends_[index];
    const std::uint64_t kind = random_.below(1000);
    Sent sent{.serial = next_serial_++,
              .count = static_cast<std::uint32_t>(1 + random_.below(4)),
              .payload_bytes = static_cast<std::uint32_t>(kind < plan_.bulk_permille
                                                              ? random_.between(60'000, 90'000)
                                                          : kind < 900 ? random_.below(300)
                                                                       : random_.below(4'000)),
              .origin = wall_now(),
              .session = random_.below(kSessions + 1)};
    if (sent.payload_bytes >= 60'000) {
        sent.count = 1;
    }
    if (sent.session < kSessions) {
        // Clients that number on their own repeat numbers.
        std::uint64_t& next = sends.next_request[sent.session];
        const bool again = next > 4 && random_.percent(5);
        sent.place = sends.placed[sent.session]++;
        sent.producer = {.session = SessionId{sessions_[sent.session]},
                         .request = RequestNumber{again ? next - random_.below(4) : ++next}};
    }
    return sent;
}

memory::BufRef Driver::build(const Sent& sent) {
    builder_.reset(sent.origin);
    for (std::uint32_t i = 0; i < sent.count; ++i) {
        const std::size_t at = (sent.serial * 31 + i * 7) % (noise_.size() - sent.payload_bytes);
        builder_.add({.id = (static_cast<u128>(sent.serial) << 16U) | i,
                      .timestamp_us = sent.origin,
                      .payload = ConstBytes(noise_).subspan(at, sent.payload_bytes),
                      .user_headers = {}});
    }
    const ConstBytes built = builder_.finish();
    memory::BufRef batch = *world_.pool().acquire(built.size());
    std::ranges::copy(built, batch.mutable_bytes().begin());
    return batch;
}

Attempt Driver::attempt_of(ConstBytes batch) {
    Attempt attempt{.checksums = {}, .frame_bytes = {}, .sent_after = wall_now()};
    wire::FrameCursor cursor(batch.subspan(wire::kBatchHeaderSize));
    while (!cursor.at_end()) {
        const auto message = cursor.next();
        attempt.checksums.push_back(message->checksum);
        attempt.frame_bytes.push_back(static_cast<std::uint32_t>(message->frame.size()));
    }
    return attempt;
}

void Driver::note_sent(std::size_t index, const Sent& sent, const Result<Offset>& base) {
    PartitionModel& m = model(index);
    Sends& sends = sends_[index];
    note_faults();
    if (!base.has_value()) {
        ++result_.failed;
        trace_.add(static_cast<std::uint64_t>(base.error().code));
        if (options_.plant == Plant::kAcknowledgeEarly && random_.percent(50)) {
            check(m.acknowledge(sent.serial, m.told_end, wall_now()));
            return;
        }
        m.fail_send(sent.serial, wall_now());
        if (options_.log) {
            say(std::format("  {}: send {} failed: {}", index, sent.serial,
                            to_string(base.error())));
        }
        if (!faulty_) {
            differ(std::format("send {} failed without a fault: {}", sent.serial,
                               to_string(base.error())));
        }
        return;
    }
    ++result_.acknowledged;
    std::uint64_t told = base->value();
    if (options_.plant == Plant::kReuseOffset && told != 0 && random_.percent(1)) {
        --told;
    }
    trace_.add(told);
    if (in_burst_ == 0 && !m.failed_since_start && m.committed_end > 1 && told != m.committed_end) {
        differ(std::format("send {} stands at {}, and the log ended at {}", sent.serial, told,
                           m.committed_end));
        return;
    }
    check(m.acknowledge(sent.serial, told, wall_now()));
    if (options_.log) {
        say(std::format("  {}: send {} ({}.{}) at {}..{}", index, sent.serial,
                        sent.producer.session.value(), sent.producer.request.value(), told,
                        told + sent.count));
    }
    Sent known = sent;
    known.base = told;
    sends.recent.push_back(known);
    if (sends.recent.size() > kRecentSends) {
        sends.recent.pop_front();
    }
}

void Driver::append(std::size_t index) {
    const Sent sent = draw_send(index);
    memory::BufRef batch = build(sent);
    model(index).begin_send(sent.serial, attempt_of(batch.bytes()));
    const auto base =
        world_.run(send_task, world_, index, std::move(batch), sent.count, sent.producer);
    if (base.has_value()) {
        note_sent(index, sent, *base);
        return;
    }
    if (options_.plant == Plant::kAcknowledgeEarly) {
        check(model(index).acknowledge(sent.serial, model(index).told_end, wall_now()));
    }
    crash_somehow();
}

/// Dies with the process: then nobody learns how the send ended.
Task<void> Driver::send_one(coro::Anchor<Driver> driver, std::size_t index, Sent sent) {
    memory::BufRef batch = driver->build(sent);
    driver->model(index).begin_send(sent.serial, driver->attempt_of(batch.bytes()));
    const Result<Offset> base =
        co_await send_task(driver->world_, index, std::move(batch), sent.count, sent.producer);
    if (!driver->world_.crashed()) {
        driver->note_sent(index, sent, base);
    }
}

void Driver::burst(std::size_t index) {
    coro::Scope scope(world_.queue());
    in_burst_ = random_.between(2, 40);
    for (std::size_t i = 0; i < in_burst_ && !world_.crashed(); ++i) {
        const std::size_t to = random_.percent(70) ? index : random_.below(models_.size());
        scope.spawn(send_one, coro::Anchor<Driver>(*this), to, draw_send(to));
    }
    const auto ended = world_.run(close_task, scope);
    if (!ended.has_value()) {
        crash_somehow();
    }
    in_burst_ = 0;
}

void Driver::retry(std::size_t index) {
    const Sends& sends = sends_[index];
    if (sends.recent.empty()) {
        return;
    }
    const Sent& known = sends.recent[random_.below(sends.recent.size())];
    if (known.session >= kSessions || known.producer.session.value() != sessions_[known.session] ||
        sends.placed[known.session] - known.place > kWindowSafe) {
        return;
    }
    const Sent sent = known;
    if (options_.plant == Plant::kForgetRetries && random_.percent(10)) {
        world_.table().retries().end_session(sent.producer.session);
    }
    const auto base = world_.run(send_task, world_, index, build(sent), sent.count, sent.producer);
    if (!base.has_value()) {
        crash_somehow();
        return;
    }
    note_faults();
    if (!base->has_value()) {
        differ(std::format("the retry of send {}, which was told {}, failed: {}", sent.serial,
                           sent.base, to_string(base->error())));
    } else if ((*base)->value() != sent.base) {
        differ(std::format("the retry of send {} was told {}, the send {}", sent.serial,
                           (*base)->value(), sent.base));
    }
}

// ---- stored offsets

ConsumerKey Driver::draw_consumer() {
    return {
        .kind = random_.percent(60) ? wire::ConsumerKind::kConsumer : wire::ConsumerKind::kGroup,
        .id = static_cast<std::uint32_t>(
            1 + random_.below(random_.percent(90) ? 4 : World::kConsumerOffsetsMax + 2))};
}

void Driver::store_offset(std::size_t index) {
    PartitionModel& m = model(index);
    const ConsumerKey key = draw_consumer();
    std::uint64_t offset = random_.below(m.committed_end + 3);
    if (random_.percent(70)) {  // forward, or consumers hold everything back
        offset = m.committed_end - std::min<std::uint64_t>(m.committed_end, random_.below(20));
    }
    if (m.consumers[key].raising) {
        world_.settle();
        m.consumers[key].raising = false;
    }
    const bool dropped = options_.plant == Plant::kDropStore && random_.percent(5) &&
                         offset < m.committed_end && m.may_store(key, World::kConsumerOffsetsMax);
    const bool may = m.may_store(key, World::kConsumerOffsetsMax);
    const auto stored =
        dropped ? std::optional(Status{}) : world_.run(store_task, world_, index, key, offset);
    if (!stored.has_value()) {
        m.attempt_store(key, offset);
        crash_somehow();
        return;
    }
    note_faults();
    const ErrorCode code = stored->has_value() ? ErrorCode::kOk : stored->error().code;
    trace_.add(static_cast<std::uint64_t>(code));
    // While nothing was ever sent, both ends are told as 0.
    if (code == ErrorCode::kInvalidOffset && (offset >= m.committed_end || m.committed_end <= 1)) {
        return;
    }
    if (code == ErrorCode::kTooManyConsumerOffsets && !may) {
        return;
    }
    if (code == ErrorCode::kOk && offset < std::max<std::uint64_t>(m.committed_end, 1) && may) {
        m.store(key, offset);
    } else if (code != ErrorCode::kOk && faulty_) {
        m.attempt_store(key, offset);
    } else {
        differ(std::format("a store of offset {} (end {}, {} room) was answered with {}", offset,
                           m.committed_end, may ? "there is" : "no", static_cast<int>(code)));
        return;
    }
    check_stored(index, key);
}

void Driver::delete_offset(std::size_t index) {
    PartitionModel& m = model(index);
    const ConsumerKey key = draw_consumer();
    Consumer& consumer = m.consumers[key];
    if (consumer.raising) {
        world_.settle();
        consumer.raising = false;
    }
    const bool has = consumer.stored.has_value() || consumer.damaged;
    const auto deleted = world_.run(store_task, world_, index, key, std::nullopt);
    if (!deleted.has_value()) {
        m.attempt_store(key, std::nullopt);
        crash_somehow();
        return;
    }
    note_faults();
    const ErrorCode code = deleted->has_value() ? ErrorCode::kOk : deleted->error().code;
    trace_.add(static_cast<std::uint64_t>(code));
    if (code == ErrorCode::kConsumerOffsetNotFound && !has) {
        return;
    }
    if (code == ErrorCode::kOk && has) {
        m.store(key, std::nullopt);
    } else if (code != ErrorCode::kOk && faulty_) {
        m.attempt_store(key, std::nullopt);
    } else {
        differ(std::format("a deletion of the offset of consumer {} was answered with {}", key.id,
                           static_cast<int>(code)));
        return;
    }
    check_stored(index, key);
}

// ---- flush, retention, purge

void Driver::flush(std::size_t index) {
    const auto flushed = world_.run(flush_task, world_, index);
    if (!flushed.has_value()) {
        crash_somehow();
        return;
    }
    note_faults();
    if (!flushed->has_value() && !faulty_) {
        differ(std::format("a flush failed without a fault: {}", to_string(flushed->error())));
    }
}

partitions::RetentionRules Driver::rules() const {
    return {.expiry_us = plan_.expiry_us,
            .size_max_bytes = plan_.size_max_bytes,
            .topic_sealed_bytes = 0,
            .partition_count = static_cast<std::uint32_t>(plan_.partitions),
            .held_back_max_ns = plan_.held_back_max_ns};
}

/// The first message that no rule lets go: all before it may be gone after this pass.
std::uint64_t Driver::due_bound(const PartitionModel& m) {
    const std::uint64_t now = wall_now();
    const std::optional<std::uint64_t> needed = m.needed_from();
    for (const Message& message : m.messages) {
        const std::uint64_t time = message.timestamp != 0 ? message.timestamp : message.sent_after;
        const bool expired = plan_.expiry_us != 0 && time + plan_.expiry_us <= now;
        if (!expired && plan_.size_max_bytes == 0 && message.offset >= m.wanted_end) {
            return message.offset;
        }
        if (needed.has_value() && message.offset >= *needed && plan_.held_back_max_ns == 0) {
            return message.offset;
        }
    }
    return ~std::uint64_t{0};
}

void Driver::clean(std::size_t index) {
    PartitionModel& m = model(index);
    partitions::RetentionRules asked = rules();
    for (const Place& place : world_.places()) {
        asked.topic_sealed_bytes += place.counters.sealed_bytes;
    }
    if (options_.plant == Plant::kTrimNeeded) {
        asked.held_back_max_ns = asked.held_back_max_ns == 0 ? 1 : asked.held_back_max_ns;
    }
    m.trim_bound = std::max(m.trim_bound, due_bound(m));
    const std::uint64_t now = wall_now();
    const auto cleaned = world_.run(clean_task, world_, index, asked);
    if (!cleaned.has_value()) {
        crash_somehow();
        return;
    }
    note_faults();
    check_counters(index);
    if (!cleaned->has_value()) {
        if (!faulty_) {
            differ(
                std::format("retention failed without a fault: {}", to_string(cleaned->error())));
        }
        return;
    }
    trace_.add((*cleaned)->trimmed.bytes);
    if (faulty_) {
        return;  // what was begun goes with a later call
    }
    m.trim_bound = m.first;
    m.stable_first = std::max(m.stable_first, m.first);
    const bool all_expired = plan_.expiry_us != 0 && !m.needed_from().has_value() &&
                             !m.messages.empty() && m.messages.back().timestamp != 0 &&
                             m.messages.back().timestamp + plan_.expiry_us <= now;
    if (all_expired) {
        differ(std::format("everything is expired and needed by nobody, and {} is there",
                           describe(m.messages.back())));
    }
}

void Driver::delete_segments(std::size_t index) {
    PartitionModel& m = model(index);
    m.wanted_end = m.committed_end;
    m.trim_bound =
        std::max(m.trim_bound, std::min(m.wanted_end, m.needed_from().value_or(m.wanted_end)));
    const auto deleted =
        world_.run(delete_task, world_, index, static_cast<std::uint32_t>(random_.between(1, 3)));
    if (!deleted.has_value()) {
        crash_somehow();
        return;
    }
    note_faults();
    check_counters(index);
    if (!deleted->has_value() && !faulty_) {
        differ(std::format("a deletion of segments failed without a fault: {}",
                           to_string(deleted->error())));
    }
    if (deleted->has_value() && !faulty_) {
        m.trim_bound = m.first;
        m.stable_first = std::max(m.stable_first, m.first);
    }
}

void Driver::purge(std::size_t index) {
    model(index).begin_life(world_.places()[index].incarnation.value() + 1);
    model(index).tainted = false;
    sends_[index] = {};
    const auto purged = world_.run(purge_task, world_, index, random_.percent(30));
    if (!purged.has_value()) {
        crash_somehow();
        return;
    }
    note_faults();
    if (!purged->has_value() && !faulty_) {
        differ(std::format("a purged partition cannot be opened: {}", to_string(purged->error())));
    }
}

// ---- time and sessions

void Driver::jump() {
    const std::uint64_t kind = random_.below(10);
    if (kind < 6) {
        world_.run_for(random_.below(50) * kMillisecond);
    } else if (kind < 9) {
        world_.run_for(random_.below(3'000) * kMillisecond);
    } else {
        world_.run_for(random_.below(30) * kSecond);
    }
    note_faults();
}

void Driver::end_session() {
    const std::size_t session = random_.below(kSessions);
    world_.table().retries().end_session(SessionId{sessions_[session]});
    sessions_[session] = next_session_++;
    for (Sends& sends : sends_) {
        sends.placed[session] = 0;
        sends.next_request[session] = 0;
    }
}

// ---- faults

void Driver::arm_fault(bool at_boot) {
    clear_faults();
    const std::uint64_t kind = random_.below(10);
    if (kind < 3 && plan_.short_writes) {
        world_.disk().add_fault({.op = DiskOp::kWrite,
                                 .path_contains = {},
                                 .skip = random_.below(20),
                                 .times = random_.between(1, 3),
                                 .short_transfer = true});
        armed_ = Armed::kShort;
        say("  short writes");
    } else if (kind < 6 && plan_.full_disk) {
        world_.disk().set_capacity(world_.disk().used_bytes() + random_.below(48 * kKiB));
        is_full_ = true;
        faulty_ = true;
        say("  the disk is nearly full");
    } else if (plan_.error_faults && (!at_boot || plan_.boot_faults)) {
        constexpr std::array kOps{DiskOp::kOpen,          DiskOp::kRead,   DiskOp::kWrite,
                                  DiskOp::kSync,          DiskOp::kSync,   DiskOp::kWrite,
                                  DiskOp::kTruncate,      DiskOp::kRename, DiskOp::kUnlink,
                                  DiskOp::kMakeDirectory, DiskOp::kClose};
        const DiskOp op = kOps[random_.below(kOps.size())];
        const bool passing = (op == DiskOp::kWrite || op == DiskOp::kOpen ||
                              op == DiskOp::kRename || op == DiskOp::kMakeDirectory) &&
                             random_.percent(40);
        world_.disk().add_fault({.op = op,
                                 .path_contains = {},
                                 .skip = random_.below(10),
                                 .times = random_.between(1, 3),
                                 .error = !passing              ? EIO
                                          : op == DiskOp::kOpen ? EMFILE
                                                                : ENOSPC});
        armed_ = op == DiskOp::kSync ? Armed::kSyncError
                 : passing           ? Armed::kPassing
                                     : Armed::kError;
        say(std::format("  operations {} fail with {}", static_cast<int>(op),
                        passing ? "ENOSPC or EMFILE" : "EIO"));
    }
}

/// What struck since the last look.
void Driver::note_faults() {
    const std::uint64_t count = world_.disk().fault_count();
    if (count == fault_count_) {
        return;
    }
    result_.faults += count - fault_count_;
    fault_count_ = count;
    if (armed_ == Armed::kNothing || armed_ == Armed::kShort) {
        return;
    }
    faulty_ = true;
    poisoned_ = poisoned_ || armed_ != Armed::kPassing;
    if (armed_ == Armed::kSyncError) {
        sync_failed_ = true;
        for (PartitionModel& m : models_) {
            m.tainted = true;
        }
    }
}

void Driver::clear_faults() {
    note_faults();
    world_.disk().clear_faults();
    armed_ = Armed::kNothing;
    world_.disk().set_capacity(kPlenty);
    is_full_ = false;
}

/// Once the faults are gone, every partition takes messages again: at once after a start, after
/// moments when they were of those that pass.
void Driver::heal() {
    if (!faulty_) {
        return;
    }
    clear_faults();
    if (poisoned_) {
        is_healing_ = true;  // that start meets no faults
        random_.percent(50) ? stop() : crash(CrashKind::kProcess);
        is_healing_ = false;
        if (result_.difference.has_value()) {
            return;
        }
    }
    for (std::size_t i = 0; i < models_.size(); ++i) {
        bool served = false;
        for (int tries = 0; tries < 6 && !served; ++tries) {
            const std::uint64_t before = result_.acknowledged;
            const std::uint64_t crashes = result_.crashes;
            append(i);
            if (result_.difference.has_value()) {
                return;
            }
            served = result_.acknowledged != before || result_.crashes != crashes;
            if (!served) {
                world_.run_for(1'100 * kMillisecond);
            }
        }
        if (!served) {
            differ(std::format("partition {} takes no messages, though its faults are gone", i));
            return;
        }
    }
}

// ---- the end and the start of a process

void Driver::stop() {
    for (PartitionModel& m : models_) {
        m.crash(unresolved_.value_or(Crash::kStop));
    }
    const auto stopped = world_.stop();
    note_faults();
    if (!stopped.has_value()) {
        crash_somehow();
        return;
    }
    ++result_.crashes;
    if (!stopped->has_value() && !faulty_) {
        differ(std::format("a stop without a fault failed: {}", to_string(stopped->error())));
        return;
    }
    unresolved_ = std::max(unresolved_.value_or(Crash::kStop), Crash::kStop);
    boot();
}

/// What a failed sync left in the page cache looks written to the next start, and is not stable: a
/// loss of power takes it. Of that a run is kept free unless it is asked for.
bool Driver::may_lose_power() const {
    return plan_.power && (options_.lost_syncs || !sync_failed_);
}

void Driver::crash_somehow() {
    note_faults();
    crash(may_lose_power() && random_.percent(50) ? CrashKind::kPower : CrashKind::kProcess);
}

void Driver::crash(CrashKind kind) {
    ++result_.crashes;
    note_faults();
    const Crash now = kind == CrashKind::kPower ? Crash::kPower : Crash::kKill;
    unresolved_ = std::max(unresolved_.value_or(now), now);
    say(kind == CrashKind::kPower ? "  power" : "  kill");
    for (PartitionModel& m : models_) {
        m.crash(*unresolved_);
    }
    const UnsyncedFate fate = random_.percent(50)   ? UnsyncedFate::kSeeded
                              : random_.percent(60) ? UnsyncedFate::kLoseAll
                                                    : UnsyncedFate::kKeepAll;
    if (options_.plant == Plant::kLoseJournal) {
        for (const std::string& path : world_.disk().list_all()) {
            if (path.starts_with("/data/state/") && !path.ends_with('/')) {
                static_cast<void>(world_.disk().unlink(path));
            }
        }
    }
    world_.kill(kind, fate);
    if (options_.plant == Plant::kSkipSync && kind == CrashKind::kPower) {
        for (const std::string& path : world_.disk().list_all()) {
            if (path.ends_with(".log")) {
                const auto bytes = world_.disk().read_file(path);
                static_cast<void>(
                    world_.disk().truncate_to(path, bytes.has_value() ? bytes->size() / 2 : 0));
            }
        }
    }
    boot();
}

void Driver::begin_process() {
    for (std::uint64_t& session : sessions_) {
        session = next_session_++;
    }
    for (Sends& sends : sends_) {
        sends = {};
    }
    faulty_ = is_full_;
    poisoned_ = false;
}

void Driver::boot() {
    for (int tries = 0; !result_.difference.has_value(); ++tries) {
        clear_faults();
        begin_process();
        if (plan_.boot_faults && !is_healing_ && tries == 0 && unresolved_.has_value() &&
            random_.percent(15)) {
            arm_fault(true);
        }
        if (tries == 0 && random_.below(1000) < 10 * plan_.crash_permille) {
            world_.io().crash_after(random_.below(60));
        }
        const std::optional<Status> started = world_.start();
        note_faults();
        world_.io().crash_after(kNoCrash);
        if (started.has_value() && started->has_value() && !world_.crashed()) {
            break;
        }
        if (started.has_value() && !started->has_value() && !faulty_) {
            differ(std::format("a start without a fault failed: {}", to_string(started->error())));
            return;
        }
        const bool power = may_lose_power() && random_.percent(50);
        const Crash now = power ? Crash::kPower : Crash::kKill;
        unresolved_ = std::max(unresolved_.value_or(now), now);
        for (PartitionModel& m : models_) {
            m.crash(*unresolved_);
        }
        world_.kill(power ? CrashKind::kPower : CrashKind::kProcess, UnsyncedFate::kSeeded);
    }
    if (result_.difference.has_value()) {
        return;
    }
    if (!unresolved_.has_value()) {
        unresolved_ = Crash::kStop;
    }
    bool whole = true;
    for (std::size_t i = 0; i < models_.size() && !result_.difference.has_value(); ++i) {
        recover(i, whole);
    }
    if (whole && !faulty_ && !world_.recovered()) {
        differ("a start without a fault left something in the journals");
    }
    if (whole && !faulty_) {
        unresolved_.reset();
    }
}

}  // namespace galgo::log_model

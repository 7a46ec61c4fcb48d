// One simulated process with one partition log.
#include "log_rig.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/check.hpp"
#include "runtime/io_await.hpp"
#include "storage/segment_format.hpp"
#include "storage/stored_batch.hpp"
#include "wire/batch.hpp"

namespace galgo::fuzz {

using coro::Task;

namespace {

/// Walks that end say so long before.
constexpr std::size_t kReadsMax = 5000;

/// One for all runs: making one reserves address space.
memory::BufferPool& pool() {
    static memory::BufferPool made({.budget_bytes = 32 * kMiB});
    return made;
}

/// What encrypted seeds are encrypted with: the bytes 0, 1, 2...
const storage::DataKey& key() {
    static const storage::DataKey made = [] {
        storage::KeyBytes bytes{};
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            bytes[i] = static_cast<std::byte>(i);
        }
        return storage::DataKey(bytes);
    }();
    return made;
}

bool is_damage(ErrorCode code) {
    return code == ErrorCode::kCannotReadMessage || code == ErrorCode::kInvalidMessageChecksum ||
           code == ErrorCode::kInvalidBatchChecksum || code == ErrorCode::kInvalidCommand ||
           code == ErrorCode::kInvalidReservedField || code == ErrorCode::kCannotDecryptData;
}

/// The messages of a reply: slices tile into valid batches.
std::vector<ReadMessage> messages_of(const storage::ReadSlices& slices) {
    Bytes all;
    for (const memory::BufRef& slice : slices.slices) {
        all.insert(all.end(), slice.bytes().begin(), slice.bytes().end());
    }
    GALGO_CHECK(all.size() == slices.bytes);
    std::vector<ReadMessage> messages;
    ConstBytes rest = all;
    while (!rest.empty()) {
        const auto header = wire::decode_batch_header(rest);
        GALGO_CHECK(header.has_value());
        GALGO_CHECK(header->batch_length <= rest.size());
        const ConstBytes batch = rest.first(static_cast<std::size_t>(header->batch_length));
        const auto view = wire::BatchView::validate(batch, wire::OffsetDeltas::kContiguous);
        GALGO_CHECK(view.has_value());
        wire::FrameCursor cursor = view->cursor();
        while (!cursor.at_end()) {
            const auto message = cursor.next();
            GALGO_CHECK(message.has_value());
            messages.push_back({.offset = Offset(header->base_offset + message->offset_delta),
                                .timestamp = Timestamp(header->base_timestamp_us),
                                .checksum = message->checksum});
        }
        rest = rest.subspan(batch.size());
    }
    GALGO_CHECK(messages.size() == slices.message_count);
    if (!messages.empty()) {
        GALGO_CHECK(messages.front().offset == slices.first);
        GALGO_CHECK(slices.next == messages.back().offset.next());
    }
    return messages;
}

}  // namespace

Bytes make_batch(Offset base, std::uint32_t count, Timestamp timestamp) {
    wire::BatchBuilder builder;
    builder.reset(timestamp.value());
    const std::array<std::byte, 3> payload{std::byte{1}, std::byte{2}, std::byte{3}};
    for (std::uint32_t i = 0; i < count; ++i) {
        builder.add({.id = base.value() + i + 1,
                     .timestamp_us = timestamp.value(),
                     .payload = payload,
                     .user_headers = {}});
    }
    const ConstBytes built = builder.finish();
    Bytes bytes(built.begin(), built.end());
    (void)wire::stamp_batch(MutableBytes(bytes),
                            {.partition = {}, .base_offset = base, .base_timestamp = timestamp});
    return bytes;
}

bool is_foreign(ConstBytes bytes) {
    const auto header = storage::decode_stored_header(bytes);
    if (!header || header->batch_length > bytes.size() ||
        (header->base_offset == 0 && header->partition_id == 0)) {
        return false;
    }
    const auto batch = bytes.first(static_cast<std::size_t>(header->batch_length));
    return storage::validate_stored(batch).has_value();
}

LogRig::~LogRig() {
    if (journal_) {
        for (int i = 0; i < 8; ++i) {
            world_.kill(node_);
            journal_->stop_waiting();
        }
        world_.kill(node_);
        destroy();
    }
    GALGO_CHECK(pool().stats().in_use_bytes == 0);
}

void LogRig::destroy() {
    log_.reset();
    world_.kill(node_);
    context_.reset();
    journal_.reset();
}

void LogRig::open(Incarnation incarnation) {
    const bool opened = try_open(incarnation);
    GALGO_CHECK(opened);
}

bool LogRig::try_open(Incarnation incarnation) {
    const Status booted = world_.run(node_, boot(incarnation));
    GALGO_CHECK(booted.has_value());
    if (!replay_.refusal().empty()) {
        return false;
    }
    GALGO_CHECK(log_->first_offset() <= log_->end_offset());
    GALGO_CHECK(log_->committed_end() <= log_->end_offset());
    op_ = OpNumber(std::uint64_t{1} << 62U);
    return true;
}

Task<Status> LogRig::boot(Incarnation incarnation) {
    runtime::IoBackend& io = *node_.io;
    GALGO_CO_TRY(co_await runtime::make_directories(io, kStateDirectory));
    GALGO_CO_TRY_ASSIGN(replay_, co_await storage::replay_journals(io, kStateDirectory));
    if (!replay_.refusal().empty()) {
        co_return Status{};
    }
    journal_ = std::make_unique<storage::ShardJournal>(
        io, node_.queue(),
        storage::JournalOptions{.directory = kStateDirectory,
                                .epoch = replay_.next_epoch(),
                                .first_sequence = replay_.next_sequence(),
                                .file_bytes = storage::kJournalFileBytesMin});
    node_.loop->add_turn_end([journal = journal_.get()] { journal->end_of_turn(); });
    context_ =
        std::make_unique<storage::StorageContext>(io, node_.queue(), pool(), *journal_, trash_);
    context_->encryption = &key();
    GALGO_CO_TRY_ASSIGN(log_, co_await storage::PartitionLog::open(
                                  *context_, "/data", kLogDirectory, PartitionKey{0}, incarnation,
                                  options_, &replay_));
    co_return Status{};
}

void LogRig::close() {
    const bool keeps_journals = !log_->recovery_complete();
    const bool fenced = log_->fenced().has_value();
    const Status closed = world_.run(node_, shut_down());
    GALGO_CHECK(closed.has_value() || fenced);
    if (!keeps_journals) {
        const Status removed = world_.run(node_, replay_.remove_files(*node_.io));
        GALGO_CHECK(removed.has_value());
    }
    destroy();
    world_.restart(node_, runtime_sim::CrashKind::kProcess);
}

Task<Status> LogRig::shut_down() {
    const Status closed = co_await log_->close();
    co_await journal_->close();
    co_await context_->files.close();
    co_return closed;
}

Result<std::vector<ReadMessage>> LogRig::read(Offset from, std::uint32_t count,
                                              bool begins_anywhere) {
    storage::ReadPlan plan = log_->plan_read(from, count, kMiB, log_->committed_end());
    plan.begins_anywhere = begins_anywhere;
    const auto got = world_.run(node_, log_->read(std::move(plan)));
    if (!got.has_value()) {
        GALGO_CHECK(is_damage(got.error().code));
        return std::unexpected(got.error());
    }
    std::vector<ReadMessage> messages = messages_of(*got);
    GALGO_CHECK(messages.size() <= count);
    Offset next = from;
    for (const ReadMessage& message : messages) {
        GALGO_CHECK(message.offset >= next);
        next = message.offset.next();
    }
    GALGO_CHECK(next <= log_->end_offset());
    return messages;
}

std::vector<ReadMessage> LogRig::read_all(std::uint32_t count, bool whole) {
    std::vector<ReadMessage> all;
    Offset at = log_->first_offset();
    for (std::size_t reads = 0; at < log_->end_offset(); ++reads) {
        if (!whole && reads == kReadsMax) {
            break;  // a hole of damage as wide as one of its offsets says
        }
        GALGO_CHECK(reads < kReadsMax);
        auto got = read(at, count);
        if (!got.has_value()) {
            if (!whole) {
                at = at.next();
                continue;
            }
            got = read(at, count, true);  // behind what is lost
            GALGO_CHECK(got.has_value());
            const Offset behind = got->empty() ? log_->end_offset() : got->front().offset;
            GALGO_CHECK(log_->lost_within(at, behind));
        }
        if (got->empty()) {
            break;  // a hole up to the end
        }
        all.insert(all.end(), got->begin(), got->end());
        at = all.back().offset.next();
    }
    return all;
}

Result<Offset> LogRig::offset_at_or_after(Timestamp timestamp) {
    return world_.run(node_, log_->offset_at_or_after(timestamp));
}

Task<Status> LogRig::append_batch(storage::StampedBatch batch) {
    const OpNumber op = batch.op;
    if (journal_->stats().file_count == 0) {
        GALGO_CO_TRY(co_await journal_->open());
    }
    const Status status = co_await log_->append(std::move(batch));
    if (status.has_value()) {
        log_->commit(op);
    }
    co_return status;
}

Status LogRig::append(std::uint32_t count) {
    const Offset base = log_->end_offset();
    const Timestamp timestamp = log_->last_timestamp();
    const Bytes bytes = make_batch(base, count, timestamp);
    memory::BufRef buffer = *pool().acquire(bytes.size());
    std::ranges::copy(bytes, buffer.mutable_bytes().begin());
    op_ = op_.next();
    return world_.run(node_, append_batch({.bytes = std::move(buffer),
                                           .base = base,
                                           .count = count,
                                           .timestamp = timestamp,
                                           .op = op_,
                                           .commit_op = op_}));
}

void LogRig::check_indexes() const {
    const auto entries = node_.disk->list_directory(kLogDirectory);
    if (!entries.has_value()) {
        return;  // nothing was ever written
    }
    for (const runtime::DirectoryEntry& entry : *entries) {
        const auto start = storage::parse_segment_file_name(entry.name, storage::kIndexExtension);
        if (!start.has_value()) {
            continue;
        }
        const Bytes index = *file(entry.name);
        const auto log = file(storage::segment_file_name(*start, storage::kLogExtension));
        GALGO_CHECK(log.has_value());
        GALGO_CHECK(index.size() % storage::kIndexEntryBytes == 0);
        for (std::size_t at = 0; at < index.size(); at += storage::kIndexEntryBytes) {
            const auto named = storage::decode_index_entry(
                ConstBytes(index).subspan(at),
                storage::index_seed(PartitionKey{0}, Incarnation{0}, *start));
            GALGO_CHECK(named.has_value());
            GALGO_CHECK(named->position < log->size());
            const auto header = storage::decode_stored_header(
                ConstBytes(*log).subspan(static_cast<std::size_t>(named->position)));
            GALGO_CHECK(header.has_value());
            GALGO_CHECK(Offset(header->base_offset) == named->offset);
            GALGO_CHECK(Timestamp(header->base_timestamp_us) == named->timestamp);
        }
    }
}

}  // namespace galgo::fuzz

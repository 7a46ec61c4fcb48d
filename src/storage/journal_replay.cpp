// Replay of the shard journals.
#include "storage/journal_replay.hpp"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <tuple>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::size_t kWindowBytes = 1 * kMiB;
static_assert(kWindowBytes > kJournalRecordHeaderBytes + kBulkBatchBytes);

}  // namespace

const JournalFacts* JournalReplay::find(PartitionKey partition, Incarnation incarnation) const {
    const auto found = partitions_.find({partition, incarnation});
    return found == partitions_.end() ? nullptr : &found->second;
}

void JournalReplay::take_record(const JournalRecord& record, std::uint32_t file,
                                std::uint64_t body_position) {
    ++record_count_;
    JournalFacts& facts = partitions_[{record.partition, record.incarnation}];
    facts.partition = record.partition;
    facts.incarnation = record.incarnation;
    facts.committed_op = std::max(facts.committed_op, record.commit_op);
    facts.last_op = std::max(facts.last_op, record.op);
    facts.last_view = std::max(facts.last_view, record.view);
    if (const std::uint64_t epoch = files_[file].header.epoch; epoch > facts.last_epoch) {
        // What an earlier boot did not find whole was judged then; commits of this one do not speak
        // of it.
        for (JournaledBatch& batch : facts.batches) {
            if (!batch.has_body()) {
                batch.op = OpNumber{~std::uint64_t{0}};
            }
        }
        facts.last_epoch = epoch;
    }
    if (record.kind == JournalKind::kOffsetSet || record.kind == JournalKind::kOffsetDelete) {
        facts.offsets.push_back({.consumer_kind = record.consumer_kind,
                                 .consumer_id = record.consumer_id,
                                 .deleted = record.kind == JournalKind::kOffsetDelete,
                                 .offset = record.base_offset,
                                 .op = record.op});
        return;
    }
    if (record.kind == JournalKind::kBatchDropped) {
        std::erase_if(facts.batches, [&record](const JournaledBatch& batch) {
            return batch.base_offset == record.base_offset;
        });
        return;
    }
    while (!facts.batches.empty() && facts.batches.back().end() > record.base_offset) {
        facts.batches.pop_back();
    }
    facts.batches.push_back(
        {.base_offset = record.base_offset,
         .message_count = record.message_count,
         .timestamp = record.timestamp,
         .op = record.op,
         .view = record.view,
         .batch_checksum = record.batch_checksum,
         .batch_length = record.batch_length,
         .file = file,
         .body_position = record.kind == JournalKind::kBatch ? body_position : 0});
    facts.end_named = std::max(facts.end_named, facts.batches.back().end());
}

Task<Status> JournalReplay::scan_file(runtime::IoBackend& io, std::uint32_t index) {
    File& file = files_[index];
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
    const auto window = std::make_unique<std::byte[]>(kWindowBytes);
    const std::uint64_t seed = file.header.seed();
    std::uint64_t position = kJournalFileHeaderBytes;
    std::uint64_t window_at = 0;
    std::size_t window_size = 0;
    Status status;
    while (true) {
        // The window holds the largest record from `position` on, or all that the file has.
        const std::size_t offset_in_window = position - window_at;
        if (window_size == 0 ||
            offset_in_window + kJournalRecordHeaderBytes + kBulkBatchBytes > window_size) {
            if (window_size == 0 || window_at + window_size < file.size_bytes) {
                const Result<std::size_t> got =
                    co_await runtime::read(io, handle, {window.get(), kWindowBytes}, position);
                if (!got.has_value()) {
                    status = std::unexpected(got.error());
                    break;
                }
                window_at = position;
                window_size = *got;
                if (window_size == 0) {
                    break;
                }
                continue;
            }
        }
        const ConstBytes rest(window.get() + offset_in_window, window_size - offset_in_window);
        const auto record = decode_journal_record(rest);
        if (!record.has_value() || rest.size() < kJournalRecordHeaderBytes + record->body_bytes ||
            !verify_journal_record(rest,
                                   rest.subspan(kJournalRecordHeaderBytes, record->body_bytes),
                                   seed, position)) {
            break;
        }
        take_record(*record, index, position + kJournalRecordHeaderBytes);
        position += kJournalRecordHeaderBytes + record->body_bytes;
    }
    (void)co_await runtime::close(io, handle);
    co_return status;
}

Task<Result<JournalReplay>> replay_journals(runtime::IoBackend& io, std::string directory) {
    JournalReplay replay;
    replay.directory_ = directory;
    auto entries = io.list_directory(directory);
    if (!entries.has_value()) {
        if (entries.error().os_errno == ENOENT) {
            co_return replay;
        }
        co_return std::unexpected(entries.error());
    }
    for (const runtime::DirectoryEntry& entry : *entries) {
        const auto name = parse_journal_file_name(entry.name);
        if (!name.has_value()) {
            continue;
        }
        replay.sequence_max_ = std::max(replay.sequence_max_, name->sequence);
        JournalReplay::File file{.path = directory + '/' + entry.name};
        GALGO_CO_TRY_ASSIGN(const runtime::FileFacts facts, io.file_facts(file.path));
        file.size_bytes = facts.size_bytes;
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                            co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
        std::byte bytes[kJournalFileHeaderBytes];
        const Result<std::size_t> got = co_await runtime::read(io, handle, bytes, 0);
        (void)co_await runtime::close(io, handle);
        GALGO_CO_TRY(got);
        const auto header = decode_journal_file_header(ConstBytes(bytes, *got));
        // A header of another sequence is one of an earlier life: the crash came before the first
        // record.
        if (header.has_value()) {
            replay.epoch_max_ = std::max(replay.epoch_max_, header->epoch);
            file.header = *header;
            file.readable = header->sequence == name->sequence && header->shard == name->shard;
        }
        replay.files_.push_back(std::move(file));
    }
    std::ranges::sort(replay.files_, {}, [](const JournalReplay::File& file) {
        return std::tuple(file.header.epoch, file.header.sequence, file.header.shard.value());
    });
    for (std::uint32_t i = 0; i < replay.files_.size(); ++i) {
        if (replay.files_[i].readable) {
            GALGO_CO_TRY(co_await replay.scan_file(io, i));
        }
    }
    co_return replay;
}

Task<Result<memory::BufRef>> JournalReplay::read_body(runtime::IoBackend& io,
                                                      memory::BufferPool& pool,
                                                      const JournaledBatch& batch) const {
    const File& file = files_[batch.file];
    GALGO_CHECK(batch.has_body() && batch.batch_length < kBulkBatchBytes);
    const std::size_t size = kJournalRecordHeaderBytes + batch.batch_length;
    const std::uint64_t position = batch.body_position - kJournalRecordHeaderBytes;
    GALGO_CO_TRY_ASSIGN(memory::BufRef buffer, pool.acquire(size, memory::AcquireClass::kReserved));
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
    const Result<std::size_t> got =
        co_await runtime::read(io, handle, buffer.mutable_bytes(), position);
    (void)co_await runtime::close(io, handle);
    GALGO_CO_TRY(got);
    const ConstBytes bytes = buffer.bytes();
    if (*got != size || !verify_journal_record(bytes, bytes.subspan(kJournalRecordHeaderBytes),
                                               file.header.seed(), position)) {
        co_return fail(ErrorCode::kCannotReadMessage);
    }
    co_return std::move(buffer).slice(kJournalRecordHeaderBytes, batch.batch_length);
}

Task<Status> JournalReplay::remove_files(runtime::IoBackend& io) const {
    for (const File& file : files_) {
        const Status removed = co_await runtime::unlink(io, file.path);
        if (!removed.has_value() && removed.error().os_errno != ENOENT) {
            co_return removed;
        }
    }
    if (!files_.empty()) {
        GALGO_CO_TRY(co_await runtime::sync_directory(io, directory_));
    }
    co_return Status{};
}

}  // namespace galgo::storage

// Opening a partition's log: what an index file says, walks over the batches of a log, and the
// index that such a walk makes.
#include <algorithm>

#include "runtime/io_await.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::end_of;
using detail::entries_make_sense;
using detail::entry_of;
using detail::kNoBytes;
using detail::kRecoveryWindowBytes;
using detail::names;
using memory::AcquireClass;

/// All entries, or none when they make no sense or a batch that verifies says otherwise. Bounds
/// come from the first and the last one. The first one is compared with the log here, the last one
/// by who begins there; a read that meets a wrong one between them notices by itself. A first batch
/// that does not verify is damage of the log: of that the index knows more than the log.
Task<Result<std::vector<IndexEntry>>> PartitionLog::load_index(Offset start, Offset limit,
                                                               runtime::FileHandle log,
                                                               std::uint64_t log_bytes) {
    std::vector<IndexEntry> entries = co_await read_entries(start, log_bytes / wire::kBatchSizeMin);
    if (!entries_make_sense(entries, start, limit, log_bytes)) {
        entries.clear();
    }
    if (!entries.empty()) {
        SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, log, log_bytes, 0,
                             wire::kBatchHeaderSize);
        GALGO_CO_TRY_ASSIGN(const SegmentStep looked, co_await cursor.next(kNoBytes));
        if (looked.kind == StepKind::kBatch && !names(entries.front(), looked.header)) {
            cursor.seek(0);
            GALGO_CO_TRY_ASSIGN(const SegmentStep first, co_await cursor.next(Offset{0}));
            if (first.kind == StepKind::kBatch) {
                const Status valid = co_await verify_batch(context_.ready, first.bytes);
                if (valid.has_value()) {
                    entries.clear();
                }
            }
        }
    }
    co_return entries;
}

/// Whatever the index file says; nothing when it cannot be read or has more than `count_max`
/// entries.
Task<std::vector<IndexEntry>> PartitionLog::read_entries(Offset start, std::uint64_t count_max) {
    std::vector<IndexEntry> entries;
    const std::string path = path_of(start, kIndexExtension);
    const Result<runtime::FileFacts> facts = context_.io.file_facts(path);
    if (!facts.has_value() || facts->size_bytes % kIndexEntryBytes != 0 ||
        facts->size_bytes / kIndexEntryBytes > count_max) {
        co_return entries;
    }
    const Result<runtime::FileHandle> file =
        co_await runtime::open(context_.io, path, runtime::OpenMode::kRead);
    if (!file.has_value()) {
        co_return entries;
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(facts->size_bytes));
    const Result<std::size_t> got = co_await runtime::read(context_.io, *file, bytes, 0);
    (void)co_await runtime::close(context_.io, *file);
    if (!got.has_value() || *got != bytes.size()) {
        co_return entries;
    }
    entries.reserve(bytes.size() / kIndexEntryBytes);
    for (std::size_t at = 0; at < bytes.size(); at += kIndexEntryBytes) {
        entries.push_back(decode_index_entry(ConstBytes(bytes).subspan(at, kIndexEntryBytes)));
    }
    co_return entries;
}

/// Replaces the index file. A failure leaves it to the next start.
Task<Status> PartitionLog::rewrite_index(Segment& segment, const std::vector<IndexEntry>& entries) {
    segment.index_entries = 0;
    ++recovery_.rebuilt_index_count;
    const std::string path = path_of(segment.start, kIndexExtension);
    std::vector<std::byte> bytes(entries.size() * kIndexEntryBytes);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        encode_index_entry(MutableBytes(bytes).subspan(i * kIndexEntryBytes), entries[i]);
    }
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(context_.io, path, runtime::OpenMode::kCreate));
    Status status = co_await runtime::truncate(context_.io, file, 0);
    if (status.has_value()) {
        status = co_await runtime::write_all(context_.io, file, bytes, 0);
    }
    if (status.has_value()) {
        status = co_await runtime::sync(context_.io, file);
    }
    (void)co_await runtime::close(context_.io, file);
    if (status.has_value()) {
        segment.index_entries = entries.size();
    }
    co_return status;
}

/// Goes on from `begin` while whole batches with offsets in [floor, limit) follow each other, all
/// checksums included. `found.index` gets entries for them; those of `claimed` that lie before the
/// stop are compared.
Task<Status> PartitionLog::walk_batches(runtime::FileHandle file, std::uint64_t size,
                                        std::uint64_t begin, Offset floor, Offset limit,
                                        const std::vector<IndexEntry>& claimed, Walk& found) {
    found.end = floor;
    std::size_t claim = 0;
    while (claim < claimed.size() && claimed[claim].position < begin) {
        ++claim;
    }
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, file, size, begin,
                         kRecoveryWindowBytes);
    while (true) {
        found.position = cursor.position();
        GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(Offset{0}));
        found.reached_end = step.kind == StepKind::kEnd;
        found.unreadable = step.unreadable;
        if (step.kind != StepKind::kBatch || step.header.base_offset < found.end.value() ||
            !is_ours(step.header)) {
            break;
        }
        const Status valid = co_await verify_batch(context_.ready, step.bytes);
        if (!valid.has_value()) {
            break;
        }
        if (end_of(step.header) > limit) {
            found.passed_limit = end_of(step.header);
            break;
        }
        const IndexEntry entry = entry_of(step);
        for (; claim < claimed.size() && claimed[claim].position < cursor.position(); ++claim) {
            found.contradicts = found.contradicts || claimed[claim] != entry;
        }
        if (!found.first.has_value()) {
            found.first = entry;
        }
        if (found.index.empty() ||
            step.position >= found.index.back().position + kIndexStrideBytes) {
            found.index.push_back(entry);
        }
        found.last = entry;
        found.end = end_of(step.header);
        found.last_timestamp = std::max(found.last_timestamp, entry.timestamp);
    }
    co_return Status{};
}

}  // namespace galgo::storage

// Opening a partition's log: the last segment, and damage in what of it was stable.
#include <algorithm>
#include <utility>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::end_of;
using detail::kRecoveryWindowBytes;
using detail::names;
using memory::AcquireClass;
using memory::BufRef;

/// What stands behind the last index entry and is no batch is the trace of a crash, and cut. The
/// batch that the entry names was synced, like all before it: when it is not whole, the log is
/// damaged, unless whole batches up to there show that the index is wrong.
Task<Status> PartitionLog::recover_last(std::vector<Salvaged>& salvaged) {
    Segment& segment = segments_.back();
    const std::string path = path_of(segment.start, kLogExtension);
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(context_.io, path, runtime::OpenMode::kReadWrite));
    const FileRef file = context_.files.adopt(handle);
    const std::uint64_t size = segment.size_bytes;
    const Offset no_limit(~std::uint64_t{0});
    GALGO_CO_TRY_ASSIGN(const std::vector<IndexEntry> entries,
                        co_await load_index(segment.start, no_limit, handle, size));
    Walk walk;
    bool index_is_right = false;
    bool damaged = false;
    if (!entries.empty()) {
        const IndexEntry last = entries.back();
        walk.index = entries;
        GALGO_CO_TRY(
            co_await walk_batches(handle, size, last.position, last.offset, no_limit, {}, walk));
        index_is_right = walk.first == last;
        segment.first = entries.front().offset;
    }
    if (index_is_right) {
        GALGO_CO_TRY(co_await look_for_damage(segment, handle, entries));
    } else {
        walk = Walk{};
        GALGO_CO_TRY(co_await walk_batches(handle, size, 0, segment.start, no_limit, {}, walk));
        damaged = !entries.empty() && walk.position <= entries.back().position;
        segment.first = walk.first.has_value() ? walk.first->offset : segment.first;
    }
    segment.end = walk.end;
    segment.last_timestamp = walk.last_timestamp;
    damaged = damaged || walk.unreadable;
    if (!damaged && walk.position < size) {
        GALGO_CO_TRY_ASSIGN(const bool was_cut,
                            co_await cut_tail(segment, handle, walk.position, size, salvaged));
        damaged = !was_cut;
        segment.size_bytes = was_cut ? walk.position : size;
    }
    // A process that was killed leaves bytes in the page cache that no sync has seen; on a file
    // that was closed well it costs nothing.
    GALGO_CO_TRY(co_await runtime::sync(context_.io, handle));
    last_timestamp_ = std::max(last_timestamp_, segment.last_timestamp);
    if (damaged) {
        co_return co_await leave_damage(segment, handle, entries, walk);
    }
    writer_.start = segment.start;
    writer_.last_batch = walk.last;
    const Result<runtime::FileFacts> facts =
        context_.io.file_facts(path_of(segment.start, kIndexExtension));
    const std::uint64_t index_bytes = facts.has_value() ? facts->size_bytes : 0;
    const std::uint64_t wanted_bytes = walk.index.size() * kIndexEntryBytes;
    if (index_bytes > wanted_bytes || (!index_is_right && (index_bytes | wanted_bytes) != 0)) {
        (void)co_await rewrite_index(segment, walk.index);
    } else {
        segment.index_entries = index_bytes / kIndexEntryBytes;
    }
    writer_.index = std::move(walk.index);
    writer_.index_on_disk = segment.index_entries;
    co_return Status{};
}

/// Every byte of the last segment stays where it is, and the segment takes no more: what is written
/// from now on begins another one. The end goes behind all that is told by what lies there.
Task<Status> PartitionLog::leave_damage(Segment& segment, runtime::FileHandle file,
                                        const std::vector<IndexEntry>& entries, const Walk& walk) {
    tell_damage(segment, walk.position);
    intact_end_ = std::min(intact_end_, walk.end);
    std::uint64_t from = walk.position;
    if (!entries.empty() && from <= entries.back().position) {
        const IndexEntry last = entries.back();
        GALGO_CO_TRY_ASSIGN(const std::uint32_t count,
                            co_await count_messages(file, last.position, segment.size_bytes));
        segment.end = std::max(segment.end, last.offset.plus(std::max(count, 1U)));
        last_timestamp_ = std::max(last_timestamp_, last.timestamp);
        from = last.position + 1;
    }
    GALGO_CO_TRY_ASSIGN(const Offset end, co_await search_behind(segment.end, file, from,
                                                                 segment.size_bytes, nullptr));
    segment.end = std::max({segment.end, end, end_offset_});
    segment.last_timestamp = Timestamp(~std::uint64_t{0});  // a search by time looks inside
    segment.index_entries = entries.size();
    last_is_sealed_ = true;
    co_return Status{};
}

/// How many messages a batch that is not whole has: its frames say so, one by one, when they fill
/// what the header says; otherwise header or frames, whoever says more.
Task<Result<std::uint32_t>> PartitionLog::count_messages(runtime::FileHandle file,
                                                         std::uint64_t position,
                                                         std::uint64_t size) {
    const auto length =
        static_cast<std::size_t>(std::min<std::uint64_t>(memory::kBlockBytesMax, size - position));
    GALGO_CO_TRY_ASSIGN(BufRef buffer, context_.pool.acquire(length, AcquireClass::kReserved));
    const Result<std::size_t> got =
        co_await runtime::read(context_.io, file, buffer.mutable_bytes(), position);
    if (!got.has_value() || *got < wire::kBatchHeaderSize) {
        co_return 0U;
    }
    const ConstBytes bytes = buffer.bytes().first(*got);
    wire::FrameCursor cursor(bytes.subspan(wire::kBatchHeaderSize));
    std::uint32_t count = 0;
    std::size_t frames_end = wire::kBatchHeaderSize;
    while (!cursor.at_end()) {
        const Result<wire::MessageView> message = cursor.next();
        if (!message.has_value() || message->offset_delta != count ||
            detail::checksum(message->frame.subspan(8)) != message->checksum) {
            break;
        }
        ++count;
        frames_end = wire::kBatchHeaderSize + cursor.position();
    }
    const Result<wire::BatchHeader> header = wire::decode_batch_header(bytes);
    const bool filled = header.has_value() && header->batch_length == frames_end;
    co_return filled || !header.has_value() ? count : std::max(count, header->message_count);
}

/// Looks at the last stable batches, up to the last index entry. Damage there stays where it is,
/// and the read that meets it says so; the log takes no more.
Task<Status> PartitionLog::look_for_damage(const Segment& segment, runtime::FileHandle file,
                                           const std::vector<IndexEntry>& entries) {
    if (entries.size() < 2) {
        co_return Status{};
    }
    const std::uint64_t stable_to = entries.back().position;
    std::size_t from = entries.size() - 2;
    while (from > 0 && entries[from].position + kIndexStrideBytes > stable_to) {
        --from;
    }
    Offset end = entries[from].offset;
    bool in_doubt = from != 0;
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, file,
                         segment.size_bytes, entries[from].position, kRecoveryWindowBytes);
    while (cursor.position() < stable_to) {
        GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(Offset{0}));
        if (std::exchange(in_doubt, false) &&
            (step.kind != StepKind::kBatch || !names(entries[from], step.header))) {
            end = segment.start;  // is the entry wrong or the log? From its begin it can be told.
            cursor.seek(0);
            continue;
        }
        if (step.kind == StepKind::kEnd) {
            break;
        }
        bool whole = step.kind == StepKind::kBatch && step.header.base_offset >= end.value();
        if (whole) {
            const Status valid = co_await verify_batch(context_.ready, step.bytes);
            whole = valid.has_value();
        }
        if (!whole) {
            tell_damage(segment, step.position);
            intact_end_ = std::min(intact_end_, end);
            break;
        }
        end = end_of(step.header);
    }
    co_return Status{};
}

void PartitionLog::tell_damage(const Segment& segment, std::uint64_t position) {
    has_stable_damage_ = true;
    observe::log_error("storage",
                       "a segment is damaged where it was synced; the partition takes no more "
                       "messages until the file is restored or the partition is purged",
                       {{"file", path_of(segment.start, kLogExtension)}, {"position", position}});
}

}  // namespace galgo::storage

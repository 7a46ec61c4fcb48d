// Opening a partition's log: segments that another one follows.
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::end_of;
using detail::kNoBytes;
using detail::names;
using memory::AcquireClass;

/// One look at the last batch, when the index leads to it and its end is where the next segment
/// begins; what is less clear is verified.
Task<Status> PartitionLog::recover_sealed(std::size_t index) {
    Segment& segment = segments_[index];
    const Offset next_start = segments_[index + 1].start;
    if (segment.size_bytes == 0) {
        segment.end = segment.start;
        co_return Status{};
    }
    const std::uint64_t size = segment.size_bytes;
    const std::string path = path_of(segment.start, kLogExtension);
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(context_.io, path, runtime::OpenMode::kRead));
    const FileRef file = context_.files.adopt(handle);
    GALGO_CO_TRY_ASSIGN(const std::vector<IndexEntry> entries,
                        co_await load_index(segment.start, next_start, handle, size));
    Walk walk;
    bool whole = false;
    if (!entries.empty()) {
        const IndexEntry last = entries.back();
        SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, handle, size,
                             last.position, wire::kBatchHeaderSize);
        GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(kNoBytes));
        segment.first = entries.front().offset;
        segment.index_entries = entries.size();
        if (step.kind == StepKind::kBatch && names(last, step.header) &&
            end_of(step.header) == next_start && cursor.position() == size) {
            segment.end = next_start;
            segment.last_timestamp = last.timestamp;
            co_return Status{};
        }
        GALGO_CO_TRY(co_await walk_batches(handle, size, last.position, last.offset, next_start,
                                           entries, walk));
        whole = walk.first.has_value() && !walk.contradicts &&
                (walk.reached_end || walk.end == next_start);
    }
    if (!whole) {
        walk = Walk{};
        GALGO_CO_TRY(
            co_await walk_batches(handle, size, 0, segment.start, next_start, entries, walk));
        whole = walk.reached_end || walk.end == next_start;
        segment.first = walk.first.has_value() ? walk.first->offset : segment.first;
        if (whole || walk.contradicts || entries.empty()) {
            if (walk.last.has_value() && walk.last->position > walk.index.back().position) {
                walk.index.push_back(*walk.last);
            }
            (void)co_await rewrite_index(segment, walk.index);
        }
    }
    if (!whole && walk.passed_limit.has_value()) {
        note_damage(std::format(
            "{} reaches to offset {}, into {}: one of them was brought here or is an old copy; put "
            "the right one in its place, or purge the partition",
            path, walk.passed_limit->value(), path_of(next_start, kLogExtension)));
        intact_end_ = std::min(intact_end_, walk.end);
    }
    if (!whole) {
        // Damage inside stays where it is: a read that meets it says so. What lies behind counts as
        // there, and a sound index leads to it.
        observe::log_error(
            "storage", "damage in a sealed segment",
            {{"directory", directory_}, {"segment", segment.start}, {"position", walk.position}});
        segment.end = next_start;
        segment.last_timestamp = Timestamp(~std::uint64_t{0});
        co_return Status{};
    }
    if (!walk.reached_end) {
        // Left by a write that failed: every offset of this segment is in front of it.
        observe::log_warn("storage", "no batches at the end of a sealed segment",
                          {{"directory", directory_},
                           {"segment", segment.start},
                           {"position", walk.position},
                           {"bytes", size - walk.position}});
        segment.size_bytes = walk.position;
    }
    segment.end = walk.end;
    segment.last_timestamp = walk.last_timestamp;
    if (segment.end != next_start) {
        tell_gap(segment.end, next_start);
    }
    co_return Status{};
}

}  // namespace galgo::storage

// Opening a partition's log: segments that another one follows.
#include <algorithm>
#include <format>
#include <iterator>

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

/// The last one so far, which ends where the next one begins: one look at its last batch, when the
/// index leads to it; what is less clear is verified. False: it holds other batches than its index
/// knows of, and is not served.
Task<Result<bool>> PartitionLog::recover_sealed(FileRef file, Offset next_start) {
    Segment& segment = segments_.back();
    if (segment.size_bytes == 0) {
        segment.end = segment.start;
        co_return true;
    }
    const std::uint64_t size = segment.size_bytes;
    const runtime::FileHandle handle = file.handle();
    GALGO_CO_TRY_ASSIGN(const IndexClaims claims, co_await read_claims(segment.start));
    const std::vector<IndexEntry>& entries = claims.entries;
    const bool has_proof = claims.checked && !entries.empty();
    segment.index_entries = claims.checked ? claims.places : 0;
    Walk walk;
    bool leads = false;  // the index leads to the batch that its last entry names
    if (has_proof && entries.back().position < size) {
        const IndexEntry last = entries.back();
        SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, handle, size,
                             last.position, wire::kBatchHeaderSize);
        GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(kNoBytes));
        segment.first_timestamp = entries.front().timestamp;
        if (step.kind == StepKind::kBatch && names(last, step.header) &&
            end_of(step.header) == next_start && cursor.position() == size) {
            segment.end = next_start;
            segment.last_timestamp = last.timestamp;
            last_timestamp_ = std::max(last_timestamp_, last.timestamp);
            if (!claims.is_exact) {
                (void)co_await rewrite_index(segment, entries);
            }
            co_return true;
        }
        GALGO_CO_TRY(co_await walk_batches(handle, size, last.position, last.offset, next_start,
                                           entries, walk));
        leads = walk.first == last;
    }
    if (!leads) {
        walk = Walk{};
        GALGO_CO_TRY(
            co_await walk_batches(handle, size, 0, segment.start, next_start, entries, walk));
        segment.first_timestamp =
            walk.first.has_value() ? walk.first->timestamp : segment.first_timestamp;
    }
    if (has_proof && walk.contradicts) {
        tell_exchanged(segment, std::max(next_start, entries.back().offset.next()));
        co_return false;
    }
    const bool whole = walk.reached_end || walk.end == next_start;
    last_timestamp_ = std::max(
        {last_timestamp_, walk.last_timestamp, has_proof ? entries.back().timestamp : Timestamp{}});
    if (!has_proof) {
        GALGO_CO_TRY(co_await rebuild_index(segment, handle, claims, walk, whole));
    }
    if (!whole) {
        GALGO_CO_TRY(co_await tell_unclear(segment, handle, claims, walk, next_start));
        segment.end = next_start;
        segment.last_timestamp = Timestamp(~std::uint64_t{0});
        co_return true;
    }
    if (leads && (!claims.is_exact || walk.last != entries.back())) {
        GALGO_CO_TRY(co_await rebuild_index(segment, handle, claims, walk, whole));
    }
    if (has_proof && entries.back().position >= walk.position) {
        tell_cut(segment, walk, std::max(next_start, entries.back().offset.next()));
    } else if (walk.end != next_start) {
        tell_gap(walk.end, next_start);
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
    co_return true;
}

/// The index of a sealed segment that had none, or not all: what it said that was right, what the
/// walk found, and the last batch.
Task<Status> PartitionLog::rebuild_index(Segment& segment, runtime::FileHandle file,
                                         const IndexClaims& claims, const Walk& walk, bool whole) {
    std::vector<IndexEntry> entries;
    if (claims.checked) {
        entries = claims.entries;
    }
    std::ranges::copy_if(walk.index, std::back_inserter(entries), [&](const IndexEntry& entry) {
        return entries.empty() || entry.position > entries.back().position;
    });
    if (!whole) {
        // The way to what lies behind the damage.
        GALGO_CO_TRY_ASSIGN(
            const std::vector<IndexEntry> behind,
            co_await keep_unchecked(claims, file, segment.size_bytes, walk.position));
        entries.insert(entries.end(), behind.begin(), behind.end());
    } else if (walk.last.has_value() && walk.last->position > entries.back().position &&
               walk.last->position <= kIndexPositionMax) {
        entries.push_back(*walk.last);
    }
    (void)co_await rewrite_index(segment, entries);
    co_return Status{};
}

/// A walk met what is no batch, or one of another place. Damage inside stays where it is: a read
/// that meets it says so. What lies behind counts as there, and a sound index leads to it. A file
/// that was cut lacks what nobody else has: no damage of a disk does that.
Task<Status> PartitionLog::tell_unclear(const Segment& segment, runtime::FileHandle file,
                                        const IndexClaims& claims, const Walk& walk,
                                        Offset next_start) {
    if (walk.passed_limit.has_value()) {
        note_damage(std::format(
            "{} reaches to offset {}, into {}: one of them was brought here or is an old copy; put "
            "the right one in its place, or purge the partition",
            path_of(segment.start, kLogExtension), walk.passed_limit->value(),
            path_of(next_start, kLogExtension)));
        intact_end_ = std::min(intact_end_, walk.end);
    }
    const std::uint64_t size = segment.size_bytes;
    const bool knows_more = claims.checked && !claims.entries.empty() &&
                            claims.entries.back().position + wire::kBatchSizeMin > size;
    bool cut = knows_more;
    if (!cut && !walk.unreadable) {
        GALGO_CO_TRY_ASSIGN(const Remains remains,
                            co_await look_at_remains(file, walk.position, size));
        cut = remains.ends_inside;
    }
    if (cut) {
        tell_cut(segment, walk, next_start);
    } else {
        observe::log_error(
            "storage", "damage in a sealed segment",
            {{"directory", directory_}, {"segment", segment.start}, {"position", walk.position}});
    }
    co_return Status{};
}

/// The file is shorter than it was: [end of the walk, `lost_end`) is told as lost.
void PartitionLog::tell_cut(const Segment& segment, const Walk& walk, Offset lost_end) {
    note_damage(std::format(
        "{} was cut: it ends at byte {}, and of the messages from offset {} to {} some are gone; "
        "restore it, or accept the loss by an empty file {} and without {}, or purge the partition",
        path_of(segment.start, kLogExtension), segment.size_bytes, walk.end.value(),
        lost_end.value() - 1, path_of(walk.end, kLogExtension),
        path_of(segment.start, kIndexExtension)));
    intact_end_ = std::min(intact_end_, walk.end);
    note_lost(walk.end, lost_end);
}

/// Whole batches stand where its index knows others, which were stable. Not served, and not written
/// into.
void PartitionLog::tell_exchanged(const Segment& segment, Offset lost_end) {
    note_damage(
        std::format("{} holds other batches than its index knows of: it was brought here or is an "
                    "old copy; put the right file in its place, or purge the partition",
                    path_of(segment.start, kLogExtension)));
    intact_end_ = std::min(intact_end_, segment.start);
    note_lost(segment.start, lost_end);
}

}  // namespace galgo::storage

// Opening a partition's log: the order of its steps, which files there are, and which are gone.
//
// Sealed segments: their bounds are read, not their bytes; damage inside is found by the read that
// meets it. Last segment: verified by checksums from its last index entry on, because an entry
// reaches the disk only when the log is stable up to the end of its batch. What does not verify
// behind that batch is a torn tail: it is kept aside and cut; the batch itself, or what the disk
// cannot read, is damage: it stays and the log is fenced. Whole batches behind a torn one (a power
// loss does not keep the order of writes) and bodies in the journal are then written again.
#include <algorithm>
#include <cerrno>
#include <format>
#include <optional>
#include <utility>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::kFencedName;

Task<Result<std::unique_ptr<PartitionLog>>> PartitionLog::open(
    StorageContext& context, std::string root, std::string directory, PartitionKey partition,
    Incarnation incarnation, LogOptions options, const JournalReplay* replay, KnownEnds known) {
    std::unique_ptr<PartitionLog> log(new PartitionLog(
        context, std::move(root), std::move(directory), partition, incarnation, options));
    log->known_ = known;
    const Status recovered = co_await log->recover(replay);
    if (!recovered.has_value()) {
        log->closed_ = true;
        co_await log->quiesce();
        co_await log->scope_.close();
        co_return std::unexpected(recovered.error());
    }
    co_return log;
}

Task<Status> PartitionLog::recover(const JournalReplay* replay) {
    GALGO_CO_TRY(co_await list_segments());
    FileRef last;
    GALGO_CO_TRY_ASSIGN(const bool writable, co_await look_at_segments(last));
    check_begin();
    SalvageTurn turn(context_.salvage);
    std::vector<Salvaged> salvaged;
    if (!segments_.empty()) {
        GALGO_CO_TRY(co_await recover_last(std::move(last), writable, turn, salvaged));
        end_offset_ = std::max(end_offset_, flushed_end());
    }
    count_segments();
    const JournalFacts* facts =
        replay == nullptr ? nullptr : replay->find(partition_, incarnation_);
    GALGO_CO_TRY(co_await heal(facts, replay, salvaged));
    const Status finished = co_await finish_recovery();
    co_return finished;
}

/// Opens each segment, once, and does all but the last. A segment waits, open, for the name of the
/// next one that is served: that says where it ends. `last`: of the last segment, open for writing
/// when true is returned.
Task<Result<bool>> PartitionLog::look_at_segments(FileRef& last) {
    const std::vector<Segment> found = std::exchange(segments_, {});
    bool writable = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const Segment& next = found[i];
        const bool is_last = i + 1 == found.size();
        FileRef file;
        bool is_right = next.size_bytes == 0;
        if (!is_right) {
            const std::string path = path_of(next.start, kLogExtension);
            GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                                co_await runtime::open(context_.io, path,
                                                       is_last ? runtime::OpenMode::kReadWrite
                                                               : runtime::OpenMode::kRead));
            file = context_.files.adopt(handle);
            GALGO_CO_TRY_ASSIGN(is_right, co_await begins_as_named(next, file));
        }
        if (!is_right) {
            GALGO_CO_TRY(co_await tell_foreign(
                next.start, is_last ? std::nullopt : std::optional(found[i + 1].start)));
            continue;
        }
        if (next.size_bytes == 0 && last) {
            // An empty one says where offsets begin that were not given out, as far as the start
            // that made it knew. A log that came back knows better.
            GALGO_CO_TRY_ASSIGN(const IndexClaims claims,
                                co_await read_claims(segments_.back().start));
            SegmentCursor cursor(context_.io, context_.pool, memory::AcquireClass::kReserved,
                                 last.handle(), segments_.back().size_bytes, 0,
                                 wire::kBatchHeaderSize);
            const bool has_proof = claims.checked && !claims.entries.empty();
            cursor.seek(has_proof ? claims.entries.back().position : 0);
            GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(detail::kNoBytes));
            if (has_proof && step.kind == StepKind::kBatch &&
                detail::names(claims.entries.back(), step.header) &&
                detail::end_of(step.header) > next.start) {
                continue;
            }
        }
        if (!segments_.empty()) {
            GALGO_CO_TRY_ASSIGN(const bool is_served, co_await recover_sealed(last, next.start));
            if (!is_served) {
                segments_.pop_back();
            }
        }
        segments_.push_back(next);
        last = std::move(file);
        writable = is_last && last;
    }
    co_return writable;
}

// ---- what is there
// ---------------------------------------------------------------------------------------

Task<Status> PartitionLog::list_segments() {
    auto entries = context_.io.list_directory(directory_);
    if (!entries.has_value()) {
        if (entries.error().os_errno == ENOENT) {
            co_return Status{};
        }
        co_return std::unexpected(entries.error());
    }
    directory_exists_ = true;
    // Made by a process that may have been killed before it had synced them.
    entries_dirty_ = parents_dirty_ = true;
    std::vector<Offset> indexes;
    for (const runtime::DirectoryEntry& entry : *entries) {
        if (const auto start = parse_segment_file_name(entry.name, kLogExtension)) {
            segments_.push_back({.start = *start, .first = *start, .end = *start});
        } else if (const auto index = parse_segment_file_name(entry.name, kIndexExtension)) {
            indexes.push_back(*index);
        }
    }
    std::ranges::sort(segments_, {}, &Segment::start);
    GALGO_CO_TRY(co_await check_incarnation());
    GALGO_CO_TRY(co_await apply_retained(indexes));
    for (const Offset index : indexes) {
        if (!std::ranges::binary_search(segments_, index, {}, &Segment::start)) {
            GALGO_CO_TRY(co_await judge_lone_index(index));
        }
    }
    for (Segment& segment : segments_) {
        GALGO_CO_TRY_ASSIGN(const runtime::FileFacts facts,
                            context_.io.file_facts(path_of(segment.start, kLogExtension)));
        segment.size_bytes = facts.size_bytes;
        if (segment.size_bytes == 0) {
            GALGO_CO_TRY_ASSIGN(const IndexClaims claims, co_await read_claims(segment.start));
            if (!claims.entries.empty()) {
                GALGO_CO_TRY(co_await tell_lost(segment.start));
            }
        }
    }
    co_return co_await read_marker(std::format("{}/{}", directory_, kFencedName));
}

/// Entries name what was synced; a log that is dropped takes its index along.
Task<Status> PartitionLog::judge_lone_index(Offset start) {
    GALGO_CO_TRY_ASSIGN(const IndexClaims claims, co_await read_claims(start));
    if (!claims.entries.empty()) {
        co_return co_await tell_lost(start);
    }
    const std::string path = path_of(start, kIndexExtension);
    if (claims.places == 0) {
        (void)co_await runtime::unlink(context_.io, path);
    } else {
        observe::log_warn("storage", "an index of no log here", {{"file", path}});
    }
    co_return Status{};
}

/// A segment that is gone although its index is there, or that was emptied.
Task<Status> PartitionLog::tell_lost(Offset start) {
    note_damage(std::format(
        "{} is gone, its index still knows it; restore the file, or purge the partition",
        path_of(start, kLogExtension)));
    intact_end_ = std::min(intact_end_, start);
    const auto next = std::ranges::upper_bound(segments_, start, {}, &Segment::start);
    if (next != segments_.end()) {
        note_lost(start, next->start);
        co_return Status{};
    }
    last_is_sealed_ = true;  // the one before it was: it ends where it ends
    GALGO_CO_TRY_ASSIGN(const Offset end, co_await told_end(start));
    note_lost(start, end);
    co_return Status{};
}

/// For good, and found again at each start while it is there.
void PartitionLog::note_damage(std::string what) {
    what += std::format(" (then remove {}/{})", directory_, kFencedName);
    has_stable_damage_ = must_fence_ = true;
    observe::log_error("storage", "a partition takes no more messages: its files are damaged",
                       {{"what", what}});
    if (damage_text_.empty()) {
        damage_text_ = std::move(what);
    }
}

/// Messages end at `end`, and the next file begins behind it. Where offsets are skipped an empty
/// segment says so (create_segment()).
void PartitionLog::tell_gap(Offset end, Offset next_start) {
    note_damage(std::format(
        "a file is gone in front of {}: the messages before it end at offset {}; restore "
        "it, or accept the loss by an empty file {} without an index, or purge the partition",
        path_of(next_start, kLogExtension), end.value(), path_of(end, kLogExtension)));
    intact_end_ = std::min(intact_end_, end);
    note_lost(end, next_start);
}

}  // namespace galgo::storage

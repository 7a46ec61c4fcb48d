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

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::entries_make_sense;
using detail::kFencedName;

namespace {

/// Of the index of a lost log, whose size would be the bound: those of 128 GiB.
constexpr std::uint64_t kEntriesOfLostMax = 1ULL << 21;

}  // namespace

Task<Result<std::unique_ptr<PartitionLog>>> PartitionLog::open(
    StorageContext& context, std::string root, std::string directory, PartitionKey partition,
    Incarnation incarnation, LogOptions options, const JournalReplay* replay) {
    std::unique_ptr<PartitionLog> log(new PartitionLog(
        context, std::move(root), std::move(directory), partition, incarnation, options));
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
    GALGO_CO_TRY(co_await pass_over_foreign());
    if (!segments_.empty() && segments_.front().start != Offset{0}) {
        tell_gap(Offset{0}, segments_.front().start);
    }
    for (std::size_t i = 0; i + 1 < segments_.size(); ++i) {
        GALGO_CO_TRY(co_await recover_sealed(i));
    }
    std::vector<Salvaged> salvaged;
    if (!segments_.empty()) {
        GALGO_CO_TRY(co_await recover_last(salvaged));
        end_offset_ = std::max(end_offset_, flushed_end());
    }
    count_segments();
    const JournalFacts* facts =
        replay == nullptr ? nullptr : replay->find(partition_, incarnation_);
    GALGO_CO_TRY(co_await heal(facts, replay, salvaged));
    const Status finished = co_await finish_recovery();
    co_return finished;
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
    for (const Offset index : indexes) {
        if (!std::ranges::binary_search(segments_, index, {}, &Segment::start)) {
            const std::string path = path_of(index, kIndexExtension);
            // Entries name what was synced; a log that is dropped takes its index along.
            if (index_has_entries(index)) {
                co_await tell_lost(index);
            } else {
                (void)co_await runtime::unlink(context_.io, path);
            }
        }
    }
    for (Segment& segment : segments_) {
        GALGO_CO_TRY_ASSIGN(const runtime::FileFacts facts,
                            context_.io.file_facts(path_of(segment.start, kLogExtension)));
        segment.size_bytes = facts.size_bytes;
        if (segment.size_bytes == 0 && index_has_entries(segment.start)) {
            co_await tell_lost(segment.start);
        }
    }
    co_return co_await read_marker(std::format("{}/{}", directory_, kFencedName));
}

bool PartitionLog::index_has_entries(Offset start) const {
    const Result<runtime::FileFacts> facts =
        context_.io.file_facts(path_of(start, kIndexExtension));
    return facts.has_value() && facts->size_bytes >= kIndexEntryBytes;
}

/// A segment that is gone although its index is there, or that was emptied.
Task<void> PartitionLog::tell_lost(Offset start) {
    note_damage(std::format(
        "{} is gone, its index still knows it; restore the file, or purge the partition",
        path_of(start, kLogExtension)));
    intact_end_ = std::min(intact_end_, start);
    const auto next = std::ranges::upper_bound(segments_, start, {}, &Segment::start);
    Offset end = start.next();
    if (next != segments_.end()) {
        end = next->start;
    } else {
        last_is_sealed_ = true;  // the one before it was: it ends where it ends
        const std::vector<IndexEntry> entries = co_await read_entries(start, kEntriesOfLostMax);
        const bool make_sense =
            entries_make_sense(entries, start, Offset(~std::uint64_t{0}), ~std::uint64_t{0});
        end = make_sense && !entries.empty() ? entries.back().offset.next() : end;
    }
    note_lost(start, end);
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

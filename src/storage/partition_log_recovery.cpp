// Opening a partition's log: what is on disk, what is damaged, what the journal knows better.
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

#include "model/ids.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/replace_file.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using memory::AcquireClass;
using memory::BufRef;

namespace {

constexpr std::string_view kIncarnationName = "incarnation";
constexpr std::size_t kIncarnationBytes = 16;
constexpr std::string_view kFencedName = "fenced";
/// In memory and in that file; what is lost beyond them is passed by reads as any hole.
constexpr std::size_t kLostRangesMax = 256;
constexpr std::size_t kLostRangeBytes = 16;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kMarkerBytesMax = kLostRangesMax * kLostRangeBytes + kChecksumBytes;
/// Of the index of a lost log, whose size would be the bound: those of 128 GiB.
constexpr std::uint64_t kEntriesOfLostMax = 1ULL << 21;
constexpr std::size_t kWindowBytes = 64 * kKiB;
constexpr std::size_t kCopyBytes = 1 * kMiB;
/// A header in torn bytes whose offset is further away than that says nothing.
constexpr std::uint64_t kNamedDistanceMax = 1ULL << 24;
/// Recovered bytes that wait in memory before they are written.
constexpr std::uint64_t kHealBytesMax = 8 * kMiB;
/// Bound of what is searched for whole batches behind damage, and held in memory meanwhile.
constexpr std::uint64_t kSalvageBytesMax = 64 * kMiB;
/// Bytes that one search for them reads and hashes in vain before it gives up.
constexpr std::uint64_t kSalvageWorkMax = 8 * kSalvageBytesMax;
constexpr Offset kNoBytes{~std::uint64_t{0}};  // of SegmentCursor::next: headers only

/// Whose files are in the directory; empty when it does not say.
Task<Result<std::optional<Incarnation>>> read_incarnation(runtime::IoBackend& io,
                                                          const std::string& directory) {
    const std::string path = std::format("{}/{}", directory, kIncarnationName);
    const Result<runtime::FileHandle> file =
        co_await runtime::open(io, path, runtime::OpenMode::kRead);
    if (!file.has_value() && file.error().os_errno == ENOENT) {
        co_return std::nullopt;
    }
    GALGO_CO_TRY(file);
    std::byte bytes[kIncarnationBytes + 1];
    const Result<std::size_t> got = co_await runtime::read(io, *file, bytes, 0);
    (void)co_await runtime::close(io, *file);
    GALGO_CO_TRY(got);
    if (*got != kIncarnationBytes ||
        load<std::uint64_t>(bytes, 8) !=
            detail::kind_checksum(detail::FileKind::kIncarnation, load<std::uint64_t>(bytes, 0))) {
        observe::log_warn("storage", "incarnation file is damaged", {{"directory", directory}});
        co_return std::nullopt;
    }
    co_return Incarnation(load<std::uint64_t>(bytes, 0));
}

Offset end_of(const wire::BatchHeader& header) noexcept {
    return Offset(header.base_offset + header.message_count);
}

/// Entries of a log of that size and offsets in [start, limit): from its begin, ascending, inside
/// of it.
bool entries_make_sense(const std::vector<IndexEntry>& entries, Offset start, Offset limit,
                        std::uint64_t log_bytes) noexcept {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].position >= log_bytes || entries[i].offset < start ||
            entries[i].offset >= limit ||
            (i == 0 ? entries[i].position != 0
                    : entries[i].position <= entries[i - 1].position ||
                          entries[i].offset <= entries[i - 1].offset ||
                          entries[i].timestamp < entries[i - 1].timestamp)) {
            return false;
        }
    }
    return true;
}

bool names(const IndexEntry& entry, const wire::BatchHeader& header) noexcept {
    return entry.offset.value() == header.base_offset &&
           entry.timestamp.value() == header.base_timestamp_us;
}

IndexEntry entry_of(const SegmentStep& step) noexcept {
    return {.offset = Offset(step.header.base_offset),
            .timestamp = Timestamp(step.header.base_timestamp_us),
            .position = step.position};
}

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

/// The fence comes when what the journals know is written. The ranges in the file are of earlier
/// runs, whose journals are gone; without them holes are only holes.
Task<Status> PartitionLog::read_marker(std::string path) {
    const Result<runtime::FileFacts> facts = context_.io.file_facts(path);
    if (!facts.has_value()) {
        co_return Status{};
    }
    must_fence_ = true;
    const std::uint64_t size = facts->size_bytes;
    if (size == 0) {
        co_return Status{};
    }
    bool sound = size <= kMarkerBytesMax && size % kLostRangeBytes == kChecksumBytes;
    if (sound) {
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                            co_await runtime::open(context_.io, path, runtime::OpenMode::kRead));
        std::vector<std::byte> bytes(static_cast<std::size_t>(size));
        const Result<std::size_t> got = co_await runtime::read(context_.io, file, bytes, 0);
        (void)co_await runtime::close(context_.io, file);
        const std::size_t ranges_bytes = bytes.size() - kChecksumBytes;
        sound = got.has_value() && *got == bytes.size() &&
                load<std::uint64_t>(bytes, ranges_bytes) ==
                    detail::checksum(ConstBytes(bytes).first(ranges_bytes));
        for (std::size_t at = 0; sound && at < ranges_bytes; at += kLostRangeBytes) {
            note_lost(Offset(load<std::uint64_t>(bytes, at)),
                      Offset(load<std::uint64_t>(bytes, at + 8)));
        }
        if (sound) {
            marker_ = std::move(bytes);
        }
    }
    if (!sound) {
        observe::log_warn("storage", "the file of a fence does not say what is lost",
                          {{"file", path}});
    }
    co_return Status{};
}

/// Acknowledged messages stood in [from, end), and no file has them.
void PartitionLog::note_lost(Offset from, Offset end) {
    if (from >= end) {
        return;
    }
    auto at = std::ranges::lower_bound(lost_, from, {}, &LostRange::end);
    auto behind = at;
    while (behind != lost_.end() && behind->from <= end) {  // together they are one
        from = std::min(from, behind->from);
        end = std::max(end, behind->end);
        ++behind;
    }
    if (at != behind) {
        *at = {.from = from, .end = end};
        lost_.erase(at + 1, behind);
    } else if (lost_.size() < kLostRangesMax) {
        lost_.insert(at, {.from = from, .end = end});
    } else {
        observe::log_warn("storage", "lost messages that polls will not tell of",
                          {{"directory", directory_}, {"from", from}, {"end", end}});
    }
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

/// Segments that begin with another batch than the names of their files say. Nothing of them is
/// served, and nothing is written into or over them.
Task<Status> PartitionLog::pass_over_foreign() {
    std::vector<Segment> named_right;
    named_right.reserve(segments_.size());
    for (std::size_t i = 0; i < segments_.size(); ++i) {
        const Segment& segment = segments_[i];
        bool is_right = segment.size_bytes == 0;
        if (!is_right) {
            GALGO_CO_TRY_ASSIGN(is_right, co_await begins_as_named(segment));
        }
        if (is_right) {
            named_right.push_back(segment);
        } else if (i + 1 < segments_.size()) {
            note_lost(segment.start, segments_[i + 1].start);
        } else {
            last_is_sealed_ = true;  // the one before it was: it ends where it ends
            note_lost(segment.start, segment.start.next());  // how many more, nothing says
        }
    }
    segments_ = std::move(named_right);
    co_return Status{};
}

/// False when its first batch verifies, with another offset or of another partition. One that does
/// not verify says nothing.
Task<Result<bool>> PartitionLog::begins_as_named(const Segment& segment) {
    const std::string path = path_of(segment.start, kLogExtension);
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(context_.io, path, runtime::OpenMode::kRead));
    const FileRef file = context_.files.adopt(handle);
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, handle,
                         segment.size_bytes, 0, wire::kBatchHeaderSize);
    GALGO_CO_TRY_ASSIGN(SegmentStep step, co_await cursor.next(kNoBytes));
    if (step.kind != StepKind::kBatch ||
        (is_ours(step.header) && step.header.base_offset == segment.start.value())) {
        co_return true;
    }
    cursor.seek(0);
    GALGO_CO_TRY_ASSIGN(step, co_await cursor.next(Offset{0}));
    if (step.kind != StepKind::kBatch) {
        co_return true;
    }
    const Status valid = co_await verify_batch(context_.ready, step.bytes);
    if (!valid.has_value()) {
        co_return true;
    }
    note_damage(std::format(
        "{} should begin with offset {} of partition {}, but does with offset {} of partition {}: "
        "it was renamed or brought here; put the right file in its place, or purge the partition",
        path, segment.start.value(), model::unpack_partition_key(partition_).partition.value(),
        step.header.base_offset, step.header.partition_id));
    intact_end_ = std::min(intact_end_, segment.start);
    co_return false;
}

/// As far as a batch says whose it is: the number of the partition in its topic.
bool PartitionLog::is_ours(const wire::BatchHeader& header) const noexcept {
    return header.partition_id == model::unpack_partition_key(partition_).partition.value();
}

/// The directory of an earlier incarnation (a purge or a deletion that was cut short) goes to the
/// trash as a whole: its offsets and its fence end with it.
Task<Status> PartitionLog::check_incarnation() {
    GALGO_CO_TRY_ASSIGN(const std::optional<Incarnation> found,
                        co_await read_incarnation(context_.io, directory_));
    if (!found.has_value()) {
        // Brought here by hand, or the work of a process that was killed before it had written the
        // file. This incarnation's: the next one must not take them for its own.
        directory_exists_ = false;
        const Status noted = co_await make_directory();
        if (!noted.has_value()) {
            observe::log_warn("storage", "an incarnation file cannot be written now",
                              {{"directory", directory_}, {"error", to_string(noted.error())}});
        }
        co_return Status{};
    }
    if (*found == incarnation_) {
        co_return Status{};
    }
    const std::size_t segment_count = segments_.size();
    segments_.clear();
    directory_exists_ = entries_dirty_ = false;
    if (*found > incarnation_ || !context_.trash.is_retired(partition_, *found)) {
        co_return co_await quarantine_partition(context_, root_, directory_, partition_, *found);
    }
    observe::log_info("storage", "dropping what an earlier incarnation left",
                      {{"directory", directory_}, {"segments", segment_count}});
    co_return co_await trash_partition(context_, directory_, partition_, *found);
}

/// No entry of the metadata log ended that life: it may be all that is left of messages.
Task<Status> quarantine_partition(StorageContext& context, std::string root, std::string directory,
                                  PartitionKey partition, Incarnation found) {
    const std::string folder = root + "/quarantine";
    GALGO_CO_TRY(co_await runtime::make_directories(context.io, folder));
    GALGO_CO_TRY(co_await runtime::sync_directory(context.io, root));
    std::string kept;
    for (std::uint32_t n = 1; kept.empty() || context.io.file_facts(kept).has_value(); ++n) {
        kept = std::format("{}/{:016x}-{}.{}", folder, partition.value(), found.value(), n);
    }
    const Status moved = co_await runtime::rename(context.io, directory, kept);
    observe::log_error("storage",
                       "files of a partition that the metadata log does not know are moved aside",
                       {{"directory", directory},
                        {"incarnation", found},
                        {"to", kept},
                        {"error", moved.has_value() ? "none" : to_string(moved.error())}});
    GALGO_CO_TRY(moved);
    GALGO_CO_TRY(co_await runtime::sync_directory(context.io, folder));
    co_return co_await runtime::sync_directory(context.io,
                                               directory.substr(0, directory.rfind('/')));
}

Task<Status> trash_unopened(StorageContext& context, std::string root, std::string directory,
                            PartitionKey partition, Incarnation incarnation) {
    const Result<std::optional<Incarnation>> found =
        co_await read_incarnation(context.io, directory);
    if (found.has_value() && found->has_value() && !context.trash.is_retired(partition, **found)) {
        co_return co_await quarantine_partition(context, std::move(root), std::move(directory),
                                                partition, **found);
    }
    co_return co_await trash_partition(context, std::move(directory), partition, incarnation);
}

Task<Status> PartitionLog::write_incarnation() {
    std::byte bytes[kIncarnationBytes];
    store<std::uint64_t>(bytes, 0, incarnation_.value());
    store<std::uint64_t>(
        bytes, 8, detail::kind_checksum(detail::FileKind::kIncarnation, incarnation_.value()));
    co_return co_await detail::replace_file(context_.io, directory_, std::string(kIncarnationName),
                                            bytes);
}

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
                         kWindowBytes);
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

// ---- sealed segments
// -------------------------------------------------------------------------------------

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

// ---- the last segment
// ------------------------------------------------------------------------------------

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
                         segment.size_bytes, entries[from].position, kWindowBytes);
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

/// Whole batches from `position` on, and the end behind them; `end_offset_` goes behind what torn
/// headers name, too. They are collected when `salvaged` is there.
Task<Result<Offset>> PartitionLog::search_behind(Offset end, runtime::FileHandle file,
                                                 std::uint64_t position, std::uint64_t size,
                                                 std::vector<Salvaged>* salvaged) {
    const std::uint64_t search_end = std::min(size, position + kSalvageBytesMax);
    std::uint64_t work_left = kSalvageWorkMax;
    // One for all: small batches share its windows.
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, file, size, position,
                         kWindowBytes);
    while (cursor.position() < search_end) {
        const std::uint64_t at = cursor.position();
        GALGO_CO_TRY_ASSIGN(SegmentStep step, co_await cursor.next(Offset{0}));
        if (step.header_decoded && step.header.base_offset >= end.value() &&
            step.header.base_offset - end.value() < kNamedDistanceMax &&
            step.header.batch_length <= memory::kBlockBytesMax) {
            // Torn, but it says which offsets it was given.
            end_offset_ = std::max(end_offset_, end_of(step.header));
        }
        // Bytes of a payload can look like a batch: those of the log are not so far ahead.
        if (step.kind == StepKind::kBatch && is_ours(step.header) &&
            step.header.base_offset >= end.value() &&
            step.header.base_offset - end.value() < kNamedDistanceMax) {
            const Status valid = co_await verify_batch(context_.ready, step.bytes);
            if (valid.has_value()) {
                end = end_of(step.header);
                end_offset_ = std::max(end_offset_, end);
                last_timestamp_ =
                    std::max(last_timestamp_, Timestamp(step.header.base_timestamp_us));
                if (salvaged != nullptr) {
                    salvaged->push_back({.bytes = std::move(step.bytes), .header = step.header});
                }
                continue;
            }
        }
        GALGO_CO_TRY_ASSIGN(const std::optional<std::uint64_t> found,
                            co_await find_valid_batch(context_.io, context_.pool, file, at + 1,
                                                      search_end, end, work_left));
        if (!found.has_value()) {
            break;
        }
        cursor.seek(*found);
    }
    co_return end;
}

/// Bytes that are no batch: whole batches behind them are taken out, the rest is kept aside, the
/// file is cut. False when it stays as it is, because not all of it can be read.
Task<Result<bool>> PartitionLog::cut_tail(const Segment& segment, runtime::FileHandle file,
                                          std::uint64_t position, std::uint64_t size,
                                          std::vector<Salvaged>& salvaged) {
    observe::log_warn("storage", "cutting the torn tail of a segment",
                      {{"directory", directory_},
                       {"segment", segment.start},
                       {"position", position},
                       {"bytes", size - position}});
    GALGO_CO_TRY(co_await search_behind(segment.end, file, position, size, &salvaged));
    const Status kept = co_await keep_aside(segment.start, file, position, size);
    if (!kept.has_value() && kept.error().os_errno == EIO) {
        salvaged.clear();
        co_return false;
    }
    GALGO_CO_TRY(kept);
    GALGO_CO_TRY(co_await runtime::truncate(context_.io, file, position));
    recovery_.cut_bytes += size - position;
    co_return true;
}

/// Copies a range of a log into the first free `{start}.log.torn-{n}`. Zeros alone are not worth a
/// file.
Task<Status> PartitionLog::keep_aside(Offset start, runtime::FileHandle file, std::uint64_t from,
                                      std::uint64_t to) {
    std::string path;
    FileRef copy;
    const Status status = co_await copy_aside(start, file, from, to, path, copy);
    entries_dirty_ = true;
    if (status.has_value()) {
        co_return status;
    }
    if (status.error().os_errno == ENOSPC || status.error().os_errno == EDQUOT) {
        // A full disk must not keep the partition from opening; the bytes were no batch anyway.
        observe::log_warn("storage", "no room to keep torn bytes aside",
                          {{"directory", directory_}});
        co_return Status{};
    }
    if (copy) {  // the next try makes another
        (void)co_await runtime::unlink(context_.io, path);
    }
    co_return status;
}

Task<Status> PartitionLog::copy_aside(Offset start, runtime::FileHandle file, std::uint64_t from,
                                      std::uint64_t to, std::string& path, FileRef& copy) {
    for (std::uint64_t at = from; at < to;) {
        const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kCopyBytes, to - at));
        GALGO_CO_TRY_ASSIGN(BufRef buffer, context_.pool.acquire(size, AcquireClass::kReserved));
        GALGO_CO_TRY_ASSIGN(const std::size_t got,
                            co_await runtime::read(context_.io, file, buffer.mutable_bytes(), at));
        if (got == 0) {
            break;
        }
        const ConstBytes bytes = buffer.bytes().first(got);
        if (!copy && std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; })) {
            at += got;
            continue;
        }
        for (std::uint32_t n = 1; !copy; ++n) {
            path = std::format("{}.torn-{}", path_of(start, kLogExtension), n);
            const Result<runtime::FileHandle> made =
                co_await runtime::open(context_.io, path, runtime::OpenMode::kCreateExclusive);
            if (made.has_value()) {
                copy = context_.files.adopt(*made);
            } else if (made.error().os_errno != EEXIST) {
                co_return std::unexpected(made.error());
            }
        }
        // Zeros in front are left as a hole of the copy.
        GALGO_CO_TRY(co_await runtime::write_all(context_.io, copy.handle(), bytes, at - from));
        at += got;
    }
    if (copy) {
        GALGO_CO_TRY(co_await runtime::sync(context_.io, copy.handle()));
    }
    co_return Status{};
}

// ---- what the journal knows
// ------------------------------------------------------------------------------

/// `op`: of its record in the journals; 0 when it comes from behind damage in a segment.
void PartitionLog::place_recovered(BufRef bytes, const wire::BatchHeader& header, OpNumber op) {
    StampedBatch batch{.bytes = std::move(bytes),
                       .base = Offset(header.base_offset),
                       .count = header.message_count,
                       .timestamp = Timestamp(header.base_timestamp_us),
                       .op = op};
    const Offset end = std::max(end_offset_, end_of(header));  // place_in_tail names its own end
    (void)place_in_tail(batch);
    tail_[tail_.size() - 1].in_old_journals = op != OpNumber{0};
    end_offset_ = end;
    recovery_complete_ = false;  // until it is in a segment
}

Task<Status> PartitionLog::heal(const JournalFacts* facts, const JournalReplay* replay,
                                std::vector<Salvaged>& salvaged) {
    Offset have = flushed_end();
    bool missing_acknowledged = false;
    bool was_stable = has_stable_damage_;
    std::vector<LostRange> lost;
    std::size_t next_salvaged = 0;
    const auto take_salvaged_before = [&](Offset limit) {
        while (next_salvaged < salvaged.size() && end_of(salvaged[next_salvaged].header) <= limit) {
            Salvaged& batch = salvaged[next_salvaged++];
            if (batch.header.base_offset >= have.value()) {
                have = end_of(batch.header);
                ++recovery_.salvaged_batch_count;
                place_recovered(std::move(batch.bytes), batch.header, OpNumber{0});
            }
        }
    };
    const std::size_t count = facts == nullptr ? 0 : facts->batches.size();
    for (std::size_t i = 0; i < count; ++i) {
        const JournaledBatch& batch = facts->batches[i];
        if (batch.end() <= have) {
            // In the segment already; but where that is damaged this may be the only copy.
            if (batch.has_body() && batch.end() > intact_end_) {
                replay->keep_files();
            }
            continue;
        }
        take_salvaged_before(batch.base_offset);
        while (next_salvaged < salvaged.size() &&
               salvaged[next_salvaged].header.base_offset < batch.base_offset.value()) {
            ++next_salvaged;  // overlaps what the journal names: the journal is right
        }
        if (next_salvaged < salvaged.size() &&
            salvaged[next_salvaged].header.base_offset == batch.base_offset.value() &&
            salvaged[next_salvaged].header.batch_checksum == batch.batch_checksum) {
            take_salvaged_before(batch.end());
            continue;
        }
        if (batch.base_offset < have) {
            observe::log_warn("storage", "the journal names a batch that overlaps the log",
                              {{"directory", directory_}, {"offset", batch.base_offset}});
            continue;
        }
        if (batch.has_body()) {
            Result<BufRef> body = co_await replay->read_body(context_.io, context_.pool, batch);
            if (!body.has_value() && body.error().code != ErrorCode::kCannotReadMessage) {
                co_return std::unexpected(body.error());
            }
            if (body.has_value()) {
                const auto view = wire::BatchView::validate(body->bytes());
                if (view.has_value() && is_ours(view->header()) &&
                    view->header().base_offset == batch.base_offset.value() &&
                    view->header().message_count == batch.message_count) {
                    const wire::BatchHeader header = view->header();
                    have = end_of(header);
                    ++recovery_.healed_batch_count;
                    place_recovered(std::move(*body), header, batch.op);
                    if (tail_bytes_ >= kHealBytesMax && !fence_.has_value()) {
                        (void)co_await force_flush();
                    }
                    continue;
                }
            }
        }
        // Named, but nowhere whole.
        recovery_.lost_message_count += batch.message_count;
        if (batch.op <= facts->committed_op) {
            missing_acknowledged = true;
        }
        was_stable = was_stable || batch.damaged;
        if (batch.op <= facts->committed_op || batch.damaged) {
            if (lost.empty() || lost.back().end != batch.base_offset) {
                lost.push_back({.from = batch.base_offset, .end = batch.base_offset});
            }
            lost.back().end = batch.end();
        }
    }
    take_salvaged_before(Offset(~std::uint64_t{0}));
    if (facts != nullptr) {
        end_offset_ = std::max(end_offset_, facts->end_named);
        committed_op_ = std::max(committed_op_, facts->last_op);
    }
    if (missing_acknowledged || was_stable) {
        // A log that acknowledges without waiting for the disk may lose its unsynced tail with the
        // power; one that waits cannot, so something has damaged it, and nobody shall write over
        // that.
        observe::log_error("storage", "batches that were acknowledged are missing",
                           {{"directory", directory_}, {"messages", recovery_.lost_message_count}});
        must_fence_ = must_fence_ || options_.persisted || was_stable;
        for (std::size_t i = 0; must_fence_ && i < lost.size(); ++i) {
            note_lost(lost[i].from, lost[i].end);
        }
    }
    co_return Status{};
}

/// The file that fences the log in later runs too, and says what is lost; stable with the next sync
/// of the directory.
Task<Status> PartitionLog::mark_fenced() {
    GALGO_CO_TRY(co_await make_directory());
    const std::string path = std::format("{}/{}", directory_, kFencedName);
    std::vector<std::byte> bytes(lost_.empty() ? 0
                                               : lost_.size() * kLostRangeBytes + kChecksumBytes);
    for (std::size_t i = 0; i < lost_.size(); ++i) {
        store<std::uint64_t>(bytes, i * kLostRangeBytes, lost_[i].from.value());
        store<std::uint64_t>(bytes, i * kLostRangeBytes + 8, lost_[i].end.value());
    }
    if (!bytes.empty()) {
        const std::size_t ranges_bytes = bytes.size() - kChecksumBytes;
        store<std::uint64_t>(bytes, ranges_bytes,
                             detail::checksum(ConstBytes(bytes).first(ranges_bytes)));
    }
    entries_dirty_ = true;
    if (context_.io.file_facts(path).has_value() && (bytes.empty() || bytes == marker_)) {
        co_return Status{};
    }
    // What it lists may stand nowhere else: it is replaced as a whole.
    (void)co_await runtime::unlink(context_.io, path + std::string(detail::kTemporary));
    co_return co_await detail::replace_file(context_.io, directory_, std::string(kFencedName),
                                            bytes);
}

/// What could be healed is written and the next offset named first, also when the log then takes no
/// more: the journals that tell of both go when the recovery is complete, and the marker alone
/// would not say what was given out.
Task<Status> PartitionLog::finish_recovery() {
    uncommitted_.clear();
    committed_end_ = recovered_end_ = end_offset_;
    Status status;
    if (must_fence_) {
        status = co_await mark_fenced();
    }
    if (fence_.has_value() && !fence_is_temporary_) {
        status = std::unexpected(*fence_);
    } else if (status.has_value()) {  // else the journals alone tell of it: nothing may hide that
        const Status settled = co_await settle_recovered();
        if (!settled.has_value()) {
            status = settled;
            if (!fence_.has_value()) {
                fence(settled.error(), "recovery could not write");
            }
        }
    }
    if (must_fence_) {
        fence(fail_os(EIO).error(),
              !damage_text_.empty() ? damage_text_.c_str()
              : has_stable_damage_  ? "acknowledged batches are damaged on disk (file \"fenced\")"
                                    : "acknowledged batches are missing (file \"fenced\")");
    }
    recovery_complete_ =
        status.has_value() && tail_.empty() && flushed_end() >= recovered_end_ && !entries_dirty_;
    drop_idle_files();
    co_return Status{};
}

/// Writes and syncs what was brought in, and makes the next offset stable as the name of an empty
/// segment, unless a batch behind it has been written since.
Task<Status> PartitionLog::settle_recovered() {
    GALGO_CO_TRY(co_await force_flush());
    while (flush_running_) {
        co_await flush_done_.wait();
    }
    if (flushed_end() < recovered_end_) {
        flush_running_ = true;
        Status named;
        // An empty one needs no end. Sealed it could be followed by nothing when the next step
        // fails.
        if (!segments_.empty() && !last_is_sealed_ && segments_.back().size_bytes != 0) {
            named = co_await seal();
        }
        if (named.has_value()) {
            named = co_await create_segment(recovered_end_);
        }
        flush_running_ = false;
        flush_done_.wake_all();
        GALGO_CO_TRY(named);
    }
    GALGO_CO_TRY(co_await sync_until(written_total_));
    if (sync_running_) {  // it may have taken the directory along
        co_await sync_done_.wait();
        if (fence_.has_value()) {
            co_return std::unexpected(*fence_);
        }
    }
    while (entries_dirty_) {
        if (sync_running_) {
            co_await sync_done_.wait();
            continue;
        }
        if (fence_.has_value()) {
            co_return std::unexpected(*fence_);
        }
        GALGO_CO_TRY(co_await sync_once());
    }
    if (writer_.log && writer_.index_file && !last_is_sealed_ && synced_total_ == written_total_) {
        name_last_batch();
        (void)co_await write_index(writer_, segments_.back().size_bytes);
    }
    co_return Status{};
}

Task<Status> PartitionLog::complete_recovery() {
    if (recovery_complete_) {
        co_return Status{};
    }
    if (closed_) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    if (fence_.has_value()) {
        const bool open_again = co_await try_unfence();
        if (!open_again) {
            co_return std::unexpected(*fence_);
        }
    }
    const Status settled = co_await settle_recovered();
    if (settled.has_value()) {
        recovery_complete_ = true;
        observe::log_info("storage", "recovery is complete", {{"directory", directory_}});
    }
    co_return settled;
}

}  // namespace galgo::storage

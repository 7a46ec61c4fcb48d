// The segments of one partition: every batch with all checksums, and the entries of the indexes
// against them. Reads the real files; a start does not read sealed segments.
#include <algorithm>
#include <cerrno>
#include <format>
#include <string>
#include <utility>
#include <vector>

#include "check/detail/check_context.hpp"
#include "model/ids.hpp"
#include "runtime/io_await.hpp"
#include "storage/segment_format.hpp"
#include "storage/segment_reader.hpp"
#include "storage/stored_batch.hpp"
#include "wire/batch.hpp"

namespace galgo::check {

using coro::Task;
using memory::AcquireClass;
using storage::SegmentCursor;
using storage::SegmentStep;
using storage::StepKind;

namespace {

constexpr std::size_t kWindowBytes = 1 * kMiB;
/// What one search behind damage reads and hashes in vain before it gives up.
constexpr std::uint64_t kSearchWorkMax = 512 * kMiB;
/// Of one index: those of 16 GiB.
constexpr std::uint64_t kEntriesMax = 1ULL << 18;
constexpr const char* kRestoreLog =
    "restore the file from a backup, or purge the partition; the other messages stay readable";

/// Descriptors that are closed when a part of a scan ends, however that ends.
Task<Result<std::vector<std::byte>>> read_index(runtime::IoBackend& io, std::string path,
                                                std::uint64_t size) {
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io, path, runtime::OpenMode::kRead));
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(std::min(size, kEntriesMax * storage::kIndexEntryBytes)));
    const Result<std::size_t> got = co_await runtime::read(io, file, bytes, 0);
    (void)co_await runtime::close(io, file);
    GALGO_CO_TRY(got);
    bytes.resize(*got);
    co_return bytes;
}

/// One segment on its way.
struct Segment {
    Offset start;
    std::optional<Offset> next;  ///< where the next file begins
    std::string log;
    std::string index;
    std::uint64_t size_bytes = 0;  ///< as far as it is looked at
    std::vector<storage::IndexEntry> entries;
    std::size_t next_entry = 0;
    std::uint64_t wrong_entries = 0;
    std::optional<std::uint64_t> first_wrong;  ///< position in the log that the first one names
};

class Scan {
 public:
    Scan(Context& context, std::string directory, PartitionKey key,
         std::optional<Incarnation> incarnation, const Cuts& cuts)
        : context_(context),
          directory_(std::move(directory)),
          key_(key),
          incarnation_(incarnation),
          cuts_(cuts) {
        if (context.options.key != nullptr && incarnation.has_value()) {
            cipher_.emplace(*context.options.key, key, *incarnation, storage::Salt{});
        }
    }

    Task<void> run();

 private:
    Task<void> scan_segment(Segment& segment);
    Task<void> load_index(Segment& segment);
    Task<void> walk(Segment& segment, runtime::FileHandle file);
    Task<Result<bool>> look_at(Segment& segment, const SegmentStep& step, Offset end);
    Task<Status> decrypt(const memory::BufRef& batch);
    Task<Result<std::uint64_t>> pass_damage(Segment& segment, runtime::FileHandle file,
                                            const SegmentStep& step, Offset end,
                                            const std::string& what);
    void compare_index(Segment& segment, const SegmentStep& step, std::uint64_t end);
    void tell_index(const Segment& segment);
    void tell_error(const std::string& path, const Error& error);

    Context& context_;
    std::string directory_;
    PartitionKey key_;
    std::optional<Incarnation> incarnation_;
    const Cuts& cuts_;
    std::optional<storage::BatchCipher> cipher_;
};

Task<void> Scan::run() {
    const auto entries = context_.real().list_directory(directory_);
    if (!entries.has_value()) {
        if (entries.error().os_errno != ENOENT) {
            tell_error(directory_, entries.error());
        }
        co_return;
    }
    std::vector<Segment> segments;
    for (const runtime::DirectoryEntry& entry : *entries) {
        const auto start = storage::parse_segment_file_name(entry.name, storage::kLogExtension);
        if (start.has_value() && !entry.is_directory) {
            Segment segment;
            segment.start = *start;
            segment.log = directory_ + '/' + entry.name;
            segment.index =
                directory_ + '/' + storage::segment_file_name(*start, storage::kIndexExtension);
            segments.push_back(std::move(segment));
        }
    }
    std::ranges::sort(segments, {}, &Segment::start);
    for (std::size_t i = 0; i < segments.size(); ++i) {
        if (i + 1 < segments.size()) {
            segments[i].next = segments[i + 1].start;
        }
        co_await scan_segment(segments[i]);
        segments[i].entries = {};
    }
}

void Scan::tell_error(const std::string& path, const Error& error) {
    context_.report.add({.severity = Severity::kDamage,
                         .file = context_.short_name(path),
                         .byte = {},
                         .offsets = {},
                         .what = "it cannot be read: " + to_string(error),
                         .remedy = "look at its mode and owner, and at the disk"});
}

Task<void> Scan::scan_segment(Segment& segment) {
    const Result<runtime::FileFacts> facts = context_.real().file_facts(segment.log);
    if (!facts.has_value()) {
        tell_error(segment.log, facts.error());
        co_return;
    }
    ++context_.report.counts.segments;
    const auto cut = cuts_.find(segment.log);
    segment.size_bytes =
        cut == cuts_.end() ? facts->size_bytes : std::min(facts->size_bytes, cut->second);
    co_await load_index(segment);
    if (segment.size_bytes == 0) {
        co_return;
    }
    const Result<runtime::FileHandle> file =
        co_await runtime::open(context_.real(), segment.log, runtime::OpenMode::kRead);
    if (!file.has_value()) {
        tell_error(segment.log, file.error());
        co_return;
    }
    co_await walk(segment, *file);
    (void)co_await runtime::close(context_.real(), *file);
    tell_index(segment);
}

/// Entries that do not verify say nothing; a start writes such a file anew.
Task<void> Scan::load_index(Segment& segment) {
    const Result<runtime::FileFacts> facts = context_.real().file_facts(segment.index);
    if (!incarnation_.has_value() || !facts.has_value()) {
        co_return;
    }
    const Result<std::vector<std::byte>> read =
        co_await read_index(context_.real(), segment.index, facts->size_bytes);
    if (!read.has_value()) {
        tell_error(segment.index, read.error());
        co_return;
    }
    const std::uint64_t seed = storage::index_seed(key_, *incarnation_, segment.start);
    std::optional<std::uint64_t> first_bad;
    std::uint64_t bad = 0;
    const ConstBytes bytes(*read);
    for (std::size_t at = 0; at < bytes.size(); at += storage::kIndexEntryBytes) {
        const ConstBytes rest = bytes.subspan(at);
        std::optional<storage::IndexEntry> entry;
        if (rest.size() >= storage::kIndexEntryBytes) {
            entry = storage::decode_index_entry(rest.first(storage::kIndexEntryBytes), seed);
        }
        if (entry.has_value()) {
            segment.entries.push_back(*entry);
        } else {
            ++bad;
            first_bad = first_bad.value_or(at);
        }
    }
    std::ranges::stable_sort(segment.entries, {}, &storage::IndexEntry::position);
    if (first_bad.has_value()) {
        context_.report.add(
            {.severity = Severity::kMends,
             .file = context_.short_name(segment.index),
             .byte = first_bad,
             .offsets = {},
             .what = std::format("{} entries do not verify, {} do", bad, segment.entries.size()),
             .start = "writes the index anew from the log"});
    }
}

/// Entries up to `end`, where the batch of `step` ends.
void Scan::compare_index(Segment& segment, const SegmentStep& step, std::uint64_t end) {
    for (; segment.next_entry < segment.entries.size() &&
           segment.entries[segment.next_entry].position < end;
         ++segment.next_entry) {
        const storage::IndexEntry& entry = segment.entries[segment.next_entry];
        if (entry.position != step.position || entry.offset.value() != step.header.base_offset ||
            entry.timestamp.value() != step.header.base_timestamp_us) {
            ++segment.wrong_entries;
            segment.first_wrong = segment.first_wrong.value_or(entry.position);
        }
    }
}

void Scan::tell_index(const Segment& segment) {
    if (segment.wrong_entries != 0) {
        context_.report.add(
            {.severity = Severity::kDamage,
             .file = context_.short_name(segment.log),
             .byte = segment.first_wrong,
             .offsets = {},
             .what = std::format("{} entries of its index verify and tell of other batches than it "
                                 "holds: the log was exchanged or written over",
                                 segment.wrong_entries),
             .start = "leaves both as they are; when it sees this, the partition takes no more",
             .remedy = kRestoreLog});
    }
    if (segment.next_entry < segment.entries.size()) {
        const storage::IndexEntry& entry = segment.entries[segment.next_entry];
        context_.report.add(
            {.severity = Severity::kDamage,
             .file = context_.short_name(segment.log),
             .byte = segment.size_bytes,
             .offsets = std::pair(entry.offset, segment.next.value_or(Offset{0})),
             .what = std::format("the file ends at byte {}, but its index knows of a batch at {}",
                                 segment.size_bytes, entry.position),
             .start = "the partition takes no more messages",
             .remedy = kRestoreLog});
    }
}

/// All batches, and all damage between them.
Task<void> Scan::walk(Segment& segment, runtime::FileHandle file) {
    SegmentCursor cursor(context_.real(), context_.pool, AcquireClass::kReserved, file,
                         segment.size_bytes, 0, kWindowBytes);
    Offset end = segment.start;
    Counts& counts = context_.report.counts;
    while (true) {
        const Result<SegmentStep> step = co_await cursor.next(Offset{0});
        if (!step.has_value()) {
            tell_error(segment.log, step.error());
            co_return;
        }
        if (step->kind == StepKind::kEnd) {
            break;
        }
        std::string what = step->unreadable ? "the disk cannot read it" : "no batch begins here";
        bool whole = step->kind == StepKind::kBatch;
        if (whole) {
            const Result<bool> good = co_await look_at(segment, *step, end);
            whole = good.value_or(false);
            what = good.has_value() ? "a batch of another place" : to_string(good.error());
        }
        if (!whole) {
            const Result<std::uint64_t> behind =
                co_await pass_damage(segment, file, *step, end, what);
            if (!behind.has_value()) {
                tell_error(segment.log, behind.error());
                co_return;
            }
            cursor.seek(*behind);
            continue;
        }
        compare_index(segment, *step, cursor.position());
        end = Offset(step->header.base_offset + step->header.message_count);
        ++counts.batches;
        counts.messages += step->header.message_count;
        counts.bytes += step->header.batch_length;
        context_.tell_progress(segment.log);
    }
}

/// Is the batch whole, and of this place? Error: a checksum is wrong.
Task<Result<bool>> Scan::look_at(Segment& segment, const SegmentStep& step, Offset end) {
    GALGO_CO_TRY(co_await storage::verify_batch(context_.loop.ready(), step.bytes));
    const bool is_first = step.position == 0;
    if (step.header.partition_id != model::unpack_partition_key(key_).partition.value() ||
        step.header.base_offset < end.value() ||
        (is_first && step.header.base_offset != segment.start.value())) {
        co_return false;
    }
    if (cipher_.has_value() && storage::is_encrypted(step.bytes.bytes())) {
        const Status decrypted = co_await decrypt(step.bytes);
        if (!decrypted.has_value()) {
            context_.report.add(
                {.severity = Severity::kDamage,
                 .file = context_.short_name(segment.log),
                 .byte = step.position,
                 .offsets = std::pair(Offset(step.header.base_offset),
                                      Offset(step.header.base_offset + step.header.message_count)),
                 .what = "the checksum of the batch is right, but it cannot be decrypted: " +
                         to_string(decrypted.error()),
                 .start = "serves the others; polls of these offsets get error 72",
                 .remedy = kRestoreLog});
        }
    }
    co_return true;
}

Task<Status> Scan::decrypt(const memory::BufRef& batch) {
    GALGO_CO_TRY_ASSIGN(
        memory::BufRef plain,
        context_.pool.acquire(storage::decrypted_size(batch.bytes()), AcquireClass::kReserved));
    GALGO_CO_TRY_ASSIGN(storage::BatchCipher::Decryption job,
                        cipher_->decrypt(batch.bytes(), plain.mutable_bytes()));
    while (true) {
        const Result<bool> done = job.step();
        GALGO_CO_TRY(done);
        if (*done) {
            co_return Status{};
        }
        co_await coro::yield_to(context_.loop.ready());
    }
}

/// Where the next whole batch begins behind damage, or the end.
Task<Result<std::uint64_t>> Scan::pass_damage(Segment& segment, runtime::FileHandle file,
                                              const SegmentStep& step, Offset end,
                                              const std::string& what) {
    std::uint64_t work = kSearchWorkMax;
    GALGO_CO_TRY_ASSIGN(
        const std::optional<std::uint64_t> found,
        co_await storage::find_valid_batch(context_.real(), context_.pool, file, step.position + 1,
                                           segment.size_bytes, end, work));
    Offset behind = segment.next.value_or(Offset{0});
    if (found.has_value()) {
        SegmentCursor cursor(context_.real(), context_.pool, AcquireClass::kReserved, file,
                             segment.size_bytes, *found, wire::kBatchHeaderSize);
        GALGO_CO_TRY_ASSIGN(const SegmentStep next,
                            co_await cursor.next(Offset{~std::uint64_t{0}}));
        behind = Offset(next.header.base_offset);
    }
    const std::uint64_t to = found.value_or(segment.size_bytes);
    while (segment.next_entry < segment.entries.size() &&
           segment.entries[segment.next_entry].position < to) {
        ++segment.next_entry;  // told by this line
    }
    if (!found.has_value() && segment.next == end) {
        context_.report.add({.severity = Severity::kNote,
                             .file = context_.short_name(segment.log),
                             .byte = step.position,
                             .offsets = {},
                             .what = std::format("{} bytes behind its last batch, left by a write "
                                                 "that failed; nothing is missing",
                                                 to - step.position)});
        co_return to;
    }
    context_.report.add(
        {.severity = Severity::kDamage,
         .file = context_.short_name(segment.log),
         .byte = step.position,
         .offsets = std::pair(end, behind),
         .what = std::format("{}; {} bytes are no whole batch{}", what, to - step.position,
                             work == 0 ? " as far as was searched" : ""),
         .start = "leaves them there; polls of what they held get an error",
         .remedy = kRestoreLog});
    co_return to;
}

}  // namespace

Task<void> scan_partition(Context& context, std::string directory, PartitionKey key,
                          std::optional<Incarnation> incarnation, const Cuts& cuts) {
    Scan scan(context, std::move(directory), key, incarnation, cuts);
    co_await scan.run();
}

}  // namespace galgo::check

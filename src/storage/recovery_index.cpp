// Opening a partition's log: what an index file says, walks over the batches of a log, and the
// index that such a walk makes.
//
// An entry that verifies was written when the log was stable up to the end of its batch. So a log
// that is shorter, or holds something else there, is damaged, and its index stays as it is: it is
// rebuilt from the log only where it says nothing (absent, or entries that do not verify).
#include <algorithm>
#include <cerrno>
#include <optional>

#include "runtime/io_await.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/detail/replace_file.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::end_of;
using detail::entry_of;
using detail::kNoBytes;
using detail::kRecoveryWindowBytes;
using detail::names;
using memory::AcquireClass;

namespace {

/// Of one index: those of 16 GiB.
constexpr std::uint64_t kEntriesMax = 1ULL << 18;
constexpr Offset kNoOffset{~std::uint64_t{0}};

/// Could these be all entries of a segment, from its begin, ascending?
bool make_sense(const std::vector<IndexEntry>& entries, Offset start) noexcept {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].position > kIndexPositionMax || entries[i].offset == kNoOffset ||
            (i == 0 ? entries[i].position != 0 || entries[i].offset != start
                    : entries[i].position <= entries[i - 1].position ||
                          entries[i].offset <= entries[i - 1].offset ||
                          entries[i].timestamp < entries[i - 1].timestamp)) {
            return false;
        }
    }
    return true;
}

}  // namespace

/// Whatever the index file of that segment says. What the disk cannot read of it says nothing.
Task<Result<PartitionLog::IndexClaims>> PartitionLog::read_claims(Offset start) {
    IndexClaims claims;
    const std::string path = path_of(start, kIndexExtension);
    const Result<runtime::FileHandle> file =
        co_await runtime::open(context_.io, path, runtime::OpenMode::kRead);
    if (!file.has_value() && file.error().os_errno == ENOENT) {
        co_return claims;
    }
    GALGO_CO_TRY(file);
    const Result<runtime::FileFacts> facts = context_.io.file_facts(path);
    const std::uint64_t size = facts.has_value() ? facts->size_bytes : 0;
    std::vector<std::byte> bytes(
        static_cast<std::size_t>(std::min(size, kEntriesMax * kIndexEntryBytes)));
    Result<std::size_t> got = std::size_t{0};
    if (!bytes.empty()) {
        got = co_await runtime::read(context_.io, *file, bytes, 0);
    }
    (void)co_await runtime::close(context_.io, *file);
    if (!got.has_value() && got.error().os_errno != EIO) {
        co_return std::unexpected(got.error());
    }
    const std::size_t whole = got.value_or(0) - got.value_or(0) % kIndexEntryBytes;
    claims.is_exact = whole == size;
    claims.places = whole / kIndexEntryBytes;
    decode_claims(start, ConstBytes(bytes).first(whole), claims);
    co_return claims;
}

void PartitionLog::decode_claims(Offset start, ConstBytes places, IndexClaims& claims) const {
    const std::uint64_t seed = index_seed(partition_, incarnation_, start);
    std::vector<IndexEntry>& entries = claims.entries;
    bool ascend = true;
    for (ConstBytes rest = places; !rest.empty(); rest = rest.subspan(kIndexEntryBytes)) {
        const std::optional<IndexEntry> entry = decode_index_entry(rest, seed);
        if (entry.has_value() && entry->offset != kNoOffset) {
            ascend = ascend && (entries.empty() || entries.back().position < entry->position);
            entries.push_back(*entry);
        } else {
            claims.is_exact = false;
        }
    }
    if (!ascend) {  // a write over older ones that was cut short
        std::ranges::stable_sort(entries, {}, &IndexEntry::position);
        const auto same = std::ranges::unique(entries, {}, &IndexEntry::position);
        entries.erase(same.begin(), same.end());
        claims.is_exact = false;
    }
    if (entries.empty()) {
        for (ConstBytes rest = places; !rest.empty(); rest = rest.subspan(kIndexEntryBytes)) {
            entries.push_back(decode_unchecked_entry(rest));
        }
        claims.checked = entries.empty();
        if (!make_sense(entries, start)) {
            entries.clear();
            claims.checked = true;
        }
    }
}

/// The end of what the index of a segment tells of when its log is gone or another one; the next
/// offset of the partition goes behind it.
Task<Result<Offset>> PartitionLog::told_end(Offset start) {
    GALGO_CO_TRY_ASSIGN(const IndexClaims claims, co_await read_claims(start));
    if (claims.entries.empty()) {
        co_return start.next();
    }
    const Offset end = claims.entries.back().offset.next();
    if (claims.checked) {
        end_offset_ = std::max(end_offset_, end);
    }
    co_return end;
}

/// Unchecked entries behind `from` whose batches begin there. The last one stays all the same: it
/// is the word that something was stable there.
Task<Result<std::vector<IndexEntry>>> PartitionLog::keep_unchecked(const IndexClaims& claims,
                                                                   runtime::FileHandle log,
                                                                   std::uint64_t log_bytes,
                                                                   std::uint64_t from) {
    std::vector<IndexEntry> kept;
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, log, log_bytes, 0,
                         wire::kBatchHeaderSize);
    for (const IndexEntry& entry : claims.entries) {
        if (claims.checked || entry.position < from) {
            continue;
        }
        cursor.seek(entry.position);
        GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(kNoBytes));
        if ((step.kind == StepKind::kBatch && names(entry, step.header)) ||
            &entry == &claims.entries.back()) {
            kept.push_back(entry);
        }
    }
    co_return kept;
}

/// Replaces the index file as a whole: it may be the only word about what a log held. A failure
/// leaves it as it is, to the next start.
Task<Status> PartitionLog::rewrite_index(Segment& segment, const std::vector<IndexEntry>& entries) {
    segment.index_entries = 0;
    ++recovery_.rebuilt_index_count;
    const std::uint64_t seed = index_seed(partition_, incarnation_, segment.start);
    const std::vector<std::byte> bytes = detail::encode_entries(entries, seed);
    const std::string path = path_of(segment.start, kIndexExtension);
    (void)co_await runtime::unlink(context_.io, path + std::string(detail::kTemporary));
    entries_dirty_ = true;
    GALGO_CO_TRY(co_await detail::replace_file(
        context_.io, directory_, segment_file_name(segment.start, kIndexExtension), bytes));
    segment.index_entries = entries.size();
    co_return Status{};
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
        if (step.position <= kIndexPositionMax &&
            (found.index.empty() ||
             step.position >= found.index.back().position + kIndexStrideBytes)) {
            found.index.push_back(entry);
        }
        found.last = entry;
        found.end = end_of(step.header);
        found.last_timestamp = std::max(found.last_timestamp, entry.timestamp);
    }
    co_return Status{};
}

}  // namespace galgo::storage

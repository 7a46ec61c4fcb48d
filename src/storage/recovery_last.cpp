// Opening a partition's log: the last segment, and damage in what of it was stable.
#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"
#include "storage/stored_batch.hpp"

namespace galgo::storage {

using coro::Task;
using detail::end_of;
using detail::kRecoveryWindowBytes;
using memory::AcquireClass;
using memory::BufRef;

namespace {

/// Of a batch whose header does not say how long it is.
constexpr std::uint64_t kRemainsBytesMax = 128 * kMiB;
constexpr std::uint64_t kWriteAgainBytes = 1 * kMiB;

/// Writes the entries from `first` on behind those that the file has. They are derived: a failure
/// leaves them to the next sync of the log.
Task<Status> add_entries(runtime::IoBackend& io, std::string path, std::uint64_t seed,
                         const std::vector<IndexEntry>& entries, std::size_t first) {
    const std::vector<std::byte> bytes =
        detail::encode_entries(std::span(entries).subspan(first), seed);
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io, path, runtime::OpenMode::kCreate));
    const Status written = co_await runtime::write_all(io, file, bytes, first * kIndexEntryBytes);
    (void)co_await runtime::close(io, file);
    co_return written;
}

/// Writes the bytes [from, to) of a log over themselves, so that the next sync covers them.
Task<Status> write_again(StorageContext& context, runtime::FileHandle file, std::uint64_t from,
                         std::uint64_t to) {
    while (from < to) {
        const auto size =
            static_cast<std::size_t>(std::min<std::uint64_t>(kWriteAgainBytes, to - from));
        GALGO_CO_TRY_ASSIGN(BufRef buffer, context.pool.acquire(size, AcquireClass::kReserved));
        GALGO_CO_TRY_ASSIGN(
            const std::size_t got,
            co_await runtime::read(context.io, file, buffer.mutable_bytes().first(size), from));
        if (got == 0) {
            co_return fail_os(EIO);
        }
        GALGO_CO_TRY(
            co_await runtime::write_all(context.io, file, buffer.bytes().first(got), from));
        from += got;
    }
    co_return Status{};
}

/// Where the batch at `position` ends; it was verified before.
Task<Result<std::uint64_t>> end_of_batch(runtime::IoBackend& io, runtime::FileHandle file,
                                         std::uint64_t position) {
    std::array<std::byte, wire::kBatchHeaderSize> bytes{};
    GALGO_CO_TRY_ASSIGN(const std::size_t got, co_await runtime::read(io, file, bytes, position));
    GALGO_CO_TRY_ASSIGN(const wire::BatchHeader header,
                        decode_stored_header(ConstBytes(bytes).first(got)));
    co_return position + header.batch_length;
}

}  // namespace

/// What stands behind the last index entry and is no batch is the trace of a crash, and cut. The
/// batch that a verified entry names was synced, like all before it: when it is not there, the log
/// is damaged. An entry without a check is believed unless whole batches up to there show that it
/// is wrong.
Task<Status> PartitionLog::recover_last(FileRef file, bool writable, SalvageTurn& turn,
                                        std::vector<Salvaged>& salvaged) {
    Segment& segment = segments_.back();
    GALGO_CO_TRY_ASSIGN(const IndexClaims claims, co_await read_claims(segment.start));
    const std::vector<IndexEntry>& entries = claims.entries;
    const std::uint64_t size = segment.size_bytes;
    if (size == 0 && !entries.empty()) {
        // Emptied: list_segments() told it, and the index is what is left.
        if (claims.checked) {
            segment.first = segment.end = entries.back().offset.next();
            end_is_unnamed_ = true;
        }
        co_return Status{};
    }
    if (!writable) {
        const std::string path = path_of(segment.start, kLogExtension);
        GALGO_CO_TRY_ASSIGN(
            const runtime::FileHandle opened,
            co_await runtime::open(context_.io, path, runtime::OpenMode::kReadWrite));
        file = context_.files.adopt(opened);
    }
    const runtime::FileHandle handle = file.handle();
    const Offset no_limit(~std::uint64_t{0});
    const bool has_proof = claims.checked && !entries.empty();
    Walk walk;
    bool leads = false;  // the index leads to the batch that its last entry names
    if (has_proof && entries.back().position < size) {
        const IndexEntry last = entries.back();
        walk.index = entries;
        GALGO_CO_TRY(
            co_await walk_batches(handle, size, last.position, last.offset, no_limit, {}, walk));
        leads = walk.first == last;
        segment.first_timestamp = entries.front().timestamp;
    }
    if (!leads) {
        walk = Walk{};
        GALGO_CO_TRY(
            co_await walk_batches(handle, size, 0, segment.start, no_limit, entries, walk));
        segment.first_timestamp =
            walk.first.has_value() ? walk.first->timestamp : segment.first_timestamp;
    }
    if (has_proof && walk.contradicts) {
        last_is_sealed_ = true;
        end_is_occupied_ = true;
        end_offset_ = std::max(end_offset_, entries.back().offset.next());
        tell_exchanged(segment, entries.back().offset.next());
        segments_.pop_back();
        co_return Status{};
    }
    const bool damaged =
        walk.unreadable ||
        (!leads && !entries.empty() && (has_proof || walk.position <= entries.back().position));
    std::optional<std::uint64_t> damage_in_front;
    if (leads) {
        GALGO_CO_TRY_ASSIGN(damage_in_front, co_await look_for_damage(segment, handle, entries));
    }
    segment.end = walk.end;
    segment.last_timestamp = walk.last_timestamp;
    bool whole = walk.position == size;
    if (!damaged && !whole) {
        co_await turn.take();
    }
    if (!damaged && !damage_in_front.has_value() && !whole) {
        GALGO_CO_TRY_ASSIGN(whole,
                            co_await cut_tail(segment, handle, walk.position, size, salvaged));
        segment.size_bytes = whole ? walk.position : size;
        if (salvaged.empty()) {
            turn.give();
        }
    }
    // A process that was killed leaves bytes in the page cache that no sync has seen, or that one
    // has failed on: those count as written, and the next sync would pass them. So what no entry
    // proves is written again. On a file that was closed well that is nothing.
    if (!damaged && !damage_in_front.has_value() && walk.last.has_value()) {
        std::uint64_t proven = 0;
        if (leads) {
            GALGO_CO_TRY_ASSIGN(proven,
                                co_await end_of_batch(context_.io, handle, walk.first->position));
        }
        GALGO_CO_TRY(co_await write_again(context_, handle, proven, walk.position));
    }
    GALGO_CO_TRY(co_await runtime::sync(context_.io, handle));
    last_timestamp_ = std::max(last_timestamp_, segment.last_timestamp);
    if (damaged || (!damage_in_front.has_value() && !whole)) {
        co_return co_await leave_damage(segment, handle, claims, walk);
    }
    if (damage_in_front.has_value()) {
        // Nothing is written behind it, nor cut: the file stays as it is, and what the journals
        // have begins another one.
        if (!whole) {
            GALGO_CO_TRY(
                co_await search_behind(segment.end, handle, walk.position, size, &salvaged));
        }
        segment.size_bytes = walk.position;
        segment.index_entries = claims.places;
        last_is_sealed_ = true;
        co_return Status{};
    }
    writer_.start = segment.start;
    writer_.last_batch = walk.last;
    if (walk.last.has_value() && walk.last->position > walk.index.back().position &&
        walk.last->position <= kIndexPositionMax) {
        walk.index.push_back(*walk.last);  // stable now, and so a proof for the next start
    }
    segment.index_entries = claims.places;
    if (!claims.is_exact) {
        (void)co_await rewrite_index(segment, walk.index);
    } else if (walk.index.size() > claims.places) {
        const Status added =
            co_await add_entries(context_.io, path_of(segment.start, kIndexExtension),
                                 index_seed(partition_, incarnation_, segment.start), walk.index,
                                 static_cast<std::size_t>(claims.places));
        segment.index_entries = added.has_value() ? walk.index.size() : claims.places;
    }
    writer_.index = std::move(walk.index);
    writer_.index_on_disk = segment.index_entries;
    co_return Status{};
}

/// Every byte of the last segment stays where it is, and the segment takes no more: what is written
/// from now on begins another one. The end goes behind all that is told by what lies there.
Task<Status> PartitionLog::leave_damage(Segment& segment, runtime::FileHandle file,
                                        const IndexClaims& claims, const Walk& walk) {
    const std::uint64_t size = segment.size_bytes;
    std::uint64_t from = walk.position;
    bool cut = false;
    intact_end_ = std::min(intact_end_, walk.end);
    if (!claims.entries.empty() && from <= claims.entries.back().position) {
        const IndexEntry last = claims.entries.back();
        Remains remains;
        if (last.position < size) {
            GALGO_CO_TRY_ASSIGN(remains, co_await look_at_remains(file, last.position, size));
        }
        cut = last.position >= size || remains.ends_inside;
        segment.end = std::max(segment.end, last.offset.plus(std::max(remains.messages, 1U)));
        last_timestamp_ = std::max(last_timestamp_, last.timestamp);
        from = last.position + 1;
    }
    Offset end = segment.end;
    if (from < size) {
        GALGO_CO_TRY_ASSIGN(end, co_await search_behind(segment.end, file, from, size, nullptr));
    }
    segment.end = std::max({segment.end, end, end_offset_});
    segment.last_timestamp = Timestamp(~std::uint64_t{0});  // a search by time looks inside
    last_is_sealed_ = true;
    segment.index_entries = claims.places;
    if (!claims.checked) {
        std::vector<IndexEntry> entries = walk.index;
        GALGO_CO_TRY_ASSIGN(const std::vector<IndexEntry> behind,
                            co_await keep_unchecked(claims, file, size, walk.position));
        entries.insert(entries.end(), behind.begin(), behind.end());
        (void)co_await rewrite_index(segment, entries);
    }
    if (cut) {
        tell_cut(segment, walk, segment.end);
        end_is_unnamed_ = true;
    } else {
        tell_damage(segment, walk.position);
    }
    co_return Status{};
}

/// What is left of a batch that is not whole. Its frames tell, one by one, when they fill what the
/// header says; otherwise header or frames, whoever says more.
Task<Result<PartitionLog::Remains>> PartitionLog::look_at_remains(runtime::FileHandle file,
                                                                  std::uint64_t position,
                                                                  std::uint64_t size) {
    Remains remains;
    const std::uint64_t left = size - position;
    if (left < wire::kBatchHeaderSize) {
        remains.ends_inside = true;
        co_return remains;
    }
    const auto length = static_cast<std::size_t>(std::min(kRemainsBytesMax, left));
    Result<BufRef> acquired = context_.pool.acquire(length, AcquireClass::kReserved);
    if (!acquired.has_value()) {
        co_return remains;  // nothing is known of it, and the partition is opened all the same
    }
    BufRef buffer = *std::move(acquired);
    const Result<std::size_t> got =
        co_await runtime::read(context_.io, file, buffer.mutable_bytes(), position);
    if (!got.has_value() || *got < wire::kBatchHeaderSize) {
        co_return remains;
    }
    const ConstBytes bytes = buffer.bytes().first(*got);
    if (is_encrypted(bytes)) {  // its frames tell nothing, its header has a checksum of its own
        const Result<wire::BatchHeader> stored = decode_stored_header(bytes);
        std::uint64_t hashed = 0;
        if (stored.has_value()) {  // its lengths agree: the count is better than none
            remains.messages = stored->message_count;
            remains.ends_inside = first_part_fits(bytes, *stored, hashed) &&
                                  stored->batch_length > left &&
                                  stored->batch_length <= memory::kBlockBytesMax;
        }
        co_return remains;
    }
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
    remains.messages =
        filled || !header.has_value() ? count : std::max(count, header->message_count);
    // All frames are there when its length alone is wrong.
    remains.ends_inside = header.has_value() && header->batch_length > left &&
                          header->batch_length <= memory::kBlockBytesMax &&
                          count < header->message_count;
    co_return remains;
}

/// Looks at the last stable batches, up to the last index entry. Where damage is; it stays there,
/// and the read that meets it says so.
Task<Result<std::optional<std::uint64_t>>> PartitionLog::look_for_damage(
    const Segment& segment, runtime::FileHandle file, const std::vector<IndexEntry>& entries) {
    if (entries.size() < 2) {
        co_return std::nullopt;
    }
    const std::uint64_t stable_to = entries.back().position;
    std::size_t from = entries.size() - 2;
    while (from > 0 && entries[from].position + kIndexStrideBytes > stable_to) {
        --from;
    }
    Offset end = entries[from].offset;
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, file,
                         segment.size_bytes, entries[from].position, kRecoveryWindowBytes);
    while (cursor.position() < stable_to) {
        GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(Offset{0}));
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
            co_return step.position;
        }
        end = end_of(step.header);
    }
    co_return std::nullopt;
}

void PartitionLog::tell_damage(const Segment& segment, std::uint64_t position) {
    has_stable_damage_ = true;
    observe::log_error("storage",
                       "a segment is damaged where it was synced; the partition takes no more "
                       "messages until the file is restored or the partition is purged",
                       {{"file", path_of(segment.start, kLogExtension)}, {"position", position}});
}

}  // namespace galgo::storage

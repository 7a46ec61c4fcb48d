// Opening a partition's log: the torn end of the last segment, and whole batches behind what is
// torn.
#include <algorithm>
#include <cerrno>
#include <format>
#include <optional>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/free_name.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::end_of;
using detail::kRecoveryWindowBytes;
using memory::AcquireClass;
using memory::BufRef;

namespace {

constexpr std::size_t kCopyBytes = 1 * kMiB;
/// A header in torn bytes whose offset is further away than that says nothing.
constexpr std::uint64_t kNamedDistanceMax = 1ULL << 24;
/// Bound of what is searched for whole batches behind damage, and held in memory meanwhile.
constexpr std::uint64_t kSalvageBytesMax = 64 * kMiB;
/// Bytes that one search for them reads and hashes in vain before it gives up.
constexpr std::uint64_t kSalvageWorkMax = 8 * kSalvageBytesMax;

}  // namespace

/// Whole batches from `position` on, and the end behind them; `end_offset_` goes behind what torn
/// headers name, too. They are collected when `salvaged` is there.
Task<Result<Offset>> PartitionLog::search_behind(Offset end, runtime::FileHandle file,
                                                 std::uint64_t position, std::uint64_t size,
                                                 std::vector<Salvaged>* salvaged) {
    const std::uint64_t search_end = std::min(size, position + kSalvageBytesMax);
    std::uint64_t work_left = kSalvageWorkMax;
    // One for all: small batches share its windows.
    SegmentCursor cursor(context_.io, context_.pool, AcquireClass::kReserved, file, size, position,
                         kRecoveryWindowBytes);
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
    if (status.error().os_errno == ENOSPC || status.error().os_errno == EDQUOT ||
        status.error().os_errno == EEXIST) {
        // A full disk, or one full of such files, must not keep the partition from opening; the
        // bytes were no batch anyway.
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
        if (!copy) {
            GALGO_CO_TRY_ASSIGN(
                path, detail::first_free(context_.io, path_of(start, kLogExtension) + ".torn-"));
            GALGO_CO_TRY_ASSIGN(
                const runtime::FileHandle made,
                co_await runtime::open(context_.io, path, runtime::OpenMode::kCreateExclusive));
            copy = context_.files.adopt(made);
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

}  // namespace galgo::storage

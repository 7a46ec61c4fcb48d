// What a partition's log knows as lost, and the file `fenced` that says so to later runs.
#include <algorithm>
#include <format>
#include <utility>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/checksum.hpp"
#include "storage/detail/keep_copy.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/detail/replace_file.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using detail::kFencedName;

namespace {

/// In memory and in that file; what is lost beyond them is passed by reads as any hole.
constexpr std::size_t kLostRangesMax = 256;
constexpr std::size_t kLostRangeBytes = 16;
constexpr std::size_t kChecksumBytes = 8;
constexpr std::size_t kMarkerBytesMax = kLostRangesMax * kLostRangeBytes + kChecksumBytes;

}  // namespace

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
    marker_is_damaged_ = !sound;
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
    if (std::exchange(marker_is_damaged_, false)) {
        const Status kept =
            co_await detail::keep_copy(context_.io, directory_, std::string(kFencedName));
        marker_is_damaged_ = !kept.has_value();
        GALGO_CO_TRY(kept);
    }
    // What it lists may stand nowhere else: it is replaced as a whole.
    (void)co_await runtime::unlink(context_.io, path + std::string(detail::kTemporary));
    co_return co_await detail::replace_file(context_.io, directory_, std::string(kFencedName),
                                            bytes);
}

}  // namespace galgo::storage

// The front of a log: its oldest segments go, and a quiet one is ended so that it can go.
//
// Where the log begins is a fact of its own, in the file "retained": stable before the first file
// is taken away, so that a start can tell segments that were given up from segments that are gone.
// Renames into the trash are not synced: what a loss of power brings back, or a crash left, goes at
// the next start, because the decision was made. Bound to partition and life, so that the file of
// another one never deletes anything; one that does not verify deletes nothing either.
#include <algorithm>
#include <cerrno>
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/full_disk.hpp"
#include "storage/detail/replace_file.hpp"
#include "storage/detail/retained_file.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;

// ---- at the start
// ----------------------------------------------------------------------------------------

/// Segments that were given up go, and so do their indexes; `indexes`: of all index files.
Task<Status> PartitionLog::apply_retained(std::vector<Offset>& indexes) {
    const std::string path = std::format("{}/{}", directory_, detail::kRetainedName);
    const Result<runtime::FileHandle> file =
        co_await runtime::open(context_.io, path, runtime::OpenMode::kRead);
    if (!file.has_value() && file.error().os_errno == ENOENT) {
        co_return Status{};
    }
    std::byte bytes[detail::kRetainedBytes + 1];
    Result<std::size_t> got = fail_os(EIO);
    if (file.has_value()) {
        got = co_await runtime::read(context_.io, *file, bytes, 0);
        (void)co_await runtime::close(context_.io, *file);
    } else {
        got = std::unexpected(file.error());
    }
    if (!got.has_value() && got.error().os_errno != EIO) {
        co_return std::unexpected(got.error());
    }
    const std::optional<detail::Retained> retained =
        got.has_value()
            ? detail::decode_retained(ConstBytes(bytes).first(*got), partition_, incarnation_)
            : std::nullopt;
    if (!retained.has_value()) {
        low_ = segments_.empty() ? Offset{0} : segments_.front().start;
        note_damage(std::format(
            "{} is damaged, it says where the log begins; the first file is {}: restore the file, "
            "or, if nothing is gone before that, remove it and put an empty file {} there without "
            "an index, or purge the partition",
            path, path_of(low_, kLogExtension), path_of(Offset{0}, kLogExtension)));
        co_return Status{};
    }
    low_ = retained->low;
    wanted_ = retained->wanted;
    std::size_t count = 0;
    // When what should stay is gone, nothing else goes.
    if (has_segment(low_)) {
        while (count + 1 < segments_.size() && segments_[count + 1].start <= low_) {
            leaving_.push_back(segments_[count++].start);
        }
    }
    segments_.erase(segments_.begin(), segments_.begin() + static_cast<std::ptrdiff_t>(count));
    const Status moved = co_await move_leaving();
    if (!moved.has_value()) {
        observe::log_warn("storage", "files of dropped segments are left",
                          {{"directory", directory_}, {"error", to_string(moved.error())}});
    }
    // The log of such an index was given up: it is not a word about messages that are lost.
    for (const Offset index : indexes) {
        if (index < low_ && !has_segment(index)) {
            (void)co_await runtime::unlink(context_.io, path_of(index, kIndexExtension));
        }
    }
    std::erase_if(indexes, [this](Offset index) { return index < low_; });
    co_return Status{};
}

/// The log begins where it was trimmed to, or is damaged.
void PartitionLog::check_begin() {
    if (!segments_.empty() && segments_.front().start > low_) {
        tell_gap(low_, segments_.front().start);
        return;
    }
    end_offset_ = std::max(end_offset_, low_);
    if (low_ != Offset{0} && !has_segment(low_) && !must_fence_) {
        last_is_sealed_ = !segments_.empty();
        note_damage(
            std::format("{} is gone, and with it all messages from its offset on; restore the "
                        "file, or put an empty one there and accept the loss, or purge the "
                        "partition",
                        path_of(low_, kLogExtension)));
        intact_end_ = std::min(intact_end_, low_);
        note_lost(low_, low_.next());  // how many more, nothing says
    }
}

// ---- trim
// ------------------------------------------------------------------------------------------------

/// How many segments of the front go. Not up to an empty one that has another behind it: as the
/// middle one of three it may go itself.
std::size_t PartitionLog::count_to_trim(Offset below, std::size_t count_max) const noexcept {
    std::size_t count = 0;
    std::size_t with_messages = 0;
    while (count + 1 < segments_.size() && segments_[count].end <= below) {
        const bool is_empty = segments_[count].size_bytes == 0;
        if (!is_empty && with_messages == count_max) {
            break;
        }
        with_messages += is_empty ? 0U : 1U;
        ++count;
    }
    if (with_messages == 0) {
        return 0;  // where the log begins needs no second name
    }
    while (count + 1 < segments_.size() && segments_[count].size_bytes == 0) {
        ++count;
    }
    return count;
}

Task<Result<TrimResult>> PartitionLog::trim(Offset below, std::size_t count_max) {
    co_await trimming_.acquire();
    Result<TrimResult> trimmed = co_await trim_alone(below, count_max);
    trimming_.release();
    co_return trimmed;
}

Task<Result<TrimResult>> PartitionLog::trim_alone(Offset below, std::size_t count_max) {
    if (closed_) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    if (fence_.has_value() && !fence_is_temporary_) {
        co_return std::unexpected(*fence_);
    }
    GALGO_CO_TRY(co_await move_leaving());
    const std::size_t count = count_to_trim(below, count_max);
    if (count == 0 || closed_) {
        co_return TrimResult{};
    }
    const Offset low = segments_[count].start;
    if (!std::ranges::contains(begins_, low)) {
        begins_.push_back(low);
    }
    if (entries_dirty_) {
        // The segment that the log will begin with may be new: its name is stable first.
        GALGO_CO_TRY(co_await runtime::sync_directory(context_.io, directory_));
    }
    GALGO_CO_TRY(co_await write_retained(low, wanted_, low));
    if (closed_) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    TrimResult trimmed;
    low_ = low;
    begins_.clear();
    const auto kept = std::ranges::lower_bound(segments_, low_, {}, &Segment::start);
    for (auto gone = segments_.begin(); gone != kept; ++gone) {
        trimmed.segment_count += gone->size_bytes == 0 ? 0U : 1U;
        trimmed.bytes += gone->size_bytes;
        totals_.bytes -= gone->size_bytes;
        totals_.messages -= gone->message_count();
        leaving_.push_back(gone->start);
    }
    segments_.erase(segments_.begin(), kept);
    const Status moved = co_await move_leaving();
    if (!moved.has_value()) {
        // They are given up; the next trim or start takes the files away.
        observe::log_warn("storage", "files of dropped segments are left",
                          {{"directory", directory_}, {"error", to_string(moved.error())}});
    }
    co_return trimmed;
}

Task<Status> PartitionLog::want_trim(Offset below, Offset unneeded) {
    co_await trimming_.acquire();
    Status written;
    if (closed_) {
        written = fail(ErrorCode::kTransientNotAccepted);
    } else if (fence_.has_value() && !fence_is_temporary_) {
        written = std::unexpected(*fence_);  // "retained" may be what is damaged
    } else if (below > wanted_) {
        written = co_await write_retained(low_, below, std::min(below, unneeded));
        if (written.has_value()) {
            wanted_ = below;
            begins_.clear();
        }
    }
    trimming_.release();
    co_return written;
}

/// The directory's entries are synced with it. On a full disk the index of a segment that ends up
/// to `unneeded`, and goes at once, makes room: giving up is what makes more.
Task<Status> PartitionLog::write_retained(Offset low, Offset wanted, Offset unneeded) {
    std::byte bytes[detail::kRetainedBytes];
    detail::encode_retained(bytes, {.low = low, .wanted = wanted}, partition_, incarnation_);
    GALGO_CO_TRY(co_await make_directory());
    const std::string name(detail::kRetainedName);
    Status written = co_await detail::replace_file(context_.io, directory_, name, bytes);
    if (!written.has_value() && detail::is_full_disk(written.error())) {
        const bool has_room = co_await give_up_index(unneeded);
        if (has_room) {
            written = co_await detail::replace_file(context_.io, directory_, name, bytes);
        }
    }
    GALGO_CO_TRY(written);
    co_return co_await runtime::sync_directory(context_.io, directory_);
}

/// The oldest one of a segment that ends at or before `below`. It is derived: as long as the
/// segment is there, reads of it take longer, and a start makes the index again.
Task<bool> PartitionLog::give_up_index(Offset below) {
    for (std::size_t i = 0; i + 1 < segments_.size() && segments_[i].end <= below; ++i) {
        if (segments_[i].index_entries == 0) {
            continue;
        }
        segments_[i].index_entries = 0;
        const Offset start = segments_[i].start;
        context_.files.forget_segment(log_number_, start);
        const Status unlinked =
            co_await runtime::unlink(context_.io, path_of(start, kIndexExtension));
        co_return unlinked.has_value();
    }
    co_return false;
}

Task<Status> PartitionLog::move_leaving() {
    while (!leaving_.empty()) {
        GALGO_CO_TRY(co_await move_to_trash(leaving_.front()));
        leaving_.erase(leaving_.begin());
    }
    co_return Status{};
}

// ---- a quiet segment
// -------------------------------------------------------------------------------------

std::optional<Timestamp> PartitionLog::active_since() const noexcept {
    if (!segments_.empty() && segments_.back().size_bytes != 0) {
        return segments_.back().first_timestamp;
    }
    for (std::size_t i = 0; i < tail_.size(); ++i) {
        if (!tail_[i].failed) {
            return tail_[i].timestamp;
        }
    }
    return std::nullopt;
}

Task<Result<bool>> PartitionLog::roll_by_age(Timestamp begun_by) {
    const auto is_due = [this, begun_by] {
        const std::optional<Timestamp> since = active_since();
        return !closed_ && !fence_.has_value() && recovery_complete_ && since.has_value() &&
               *since <= begun_by;
    };
    if (!is_due()) {
        co_return false;
    }
    GALGO_CO_TRY(co_await force_flush());
    while (flush_running_) {
        co_await flush_done_.wait();
    }
    if (!is_due() || segments_.empty() || segments_.back().size_bytes == 0) {
        co_return false;  // another one was faster
    }
    flush_running_ = true;
    Status rolled;
    if (!last_is_sealed_) {
        rolled = co_await seal();
    }
    if (rolled.has_value()) {
        drop_failed_front();
        const Offset start = tail_.empty() ? recovered_end_ : tail_.front().base;
        rolled = co_await create_segment(std::max(flushed_end(), start));
    }
    flush_running_ = false;
    flush_done_.wake_all();
    GALGO_CO_TRY(rolled);
    co_return true;
}

}  // namespace galgo::storage

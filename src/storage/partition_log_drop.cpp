// Dropping segments: retention, deletion. Files go to the trash by rename, a deleted
// partition as a whole directory; their bytes are freed there.
#include <cerrno>
#include <format>

#include "runtime/io_await.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;

/// Returns when no write, no sync and no background work is on its way. The caller has seen to it
/// that none starts.
Task<void> PartitionLog::quiesce() {
    while (flush_running_ || sync_running_ || background_flush_ || background_sync_) {
        if (flush_running_) {
            co_await flush_done_.wait();
        } else if (sync_running_) {
            co_await sync_done_.wait();
        } else {
            co_await coro::yield_to(context_.ready);
        }
    }
}

Task<Status> PartitionLog::move_to_trash(Offset start) {
    context_.files.forget_segment(log_number_, start);
    const std::string index_path = path_of(start, kIndexExtension);
    const Status unlinked = co_await runtime::unlink(context_.io, index_path);
    if (!unlinked.has_value() && unlinked.error().os_errno != ENOENT) {
        co_return unlinked;
    }
    const Status moved =
        co_await context_.trash.take(context_.io, path_of(start, kLogExtension),
                                     std::format("{:016x}-{}-{:020}.log", partition_.value(),
                                                 incarnation_.value(), start.value()));
    co_return moved;
}

Task<Status> trash_partition(StorageContext& context, std::string directory, PartitionKey partition,
                             Incarnation incarnation) {
    const Status moved = co_await context.trash.take(
        context.io, std::move(directory),
        std::format("{:016x}-{}", partition.value(), incarnation.value()));
    co_return moved;
}

Task<Status> PartitionLog::drop_oldest_segment() {
    if (segments_.empty() || !segment(0).sealed) {
        co_return fail(ErrorCode::kSegmentNotFound);
    }
    // The name of the last segment carries the next offset: it goes only when there is another one.
    if (segments_.size() == 1) {
        if (flush_running_) {
            co_return fail(ErrorCode::kTransientNotAccepted);
        }
        flush_running_ = true;
        const Status created = co_await create_segment(flushed_end());
        flush_running_ = false;
        flush_done_.wake_all();
        GALGO_CO_TRY(created);
    }
    const Offset start = segments_.front().start;
    GALGO_CO_TRY(co_await move_to_trash(start));
    if (!segments_.empty() && segments_.front().start == start) {
        segments_.erase(segments_.begin());
        count_segments();
    }
    entries_dirty_ = true;
    co_return Status{};
}

/// Lets go of everything in memory; returns the segments, whose files are still there. Nothing is
/// on its way.
std::vector<PartitionLog::Segment> PartitionLog::forget_everything() {
    for (std::size_t i = 0; i < tail_.size(); ++i) {
        if (tail_[i].journal_sequence != 0) {
            context_.journal.release(tail_[i].journal_sequence, 1);
        }
    }
    tail_first_id_ += tail_.size();
    tail_.clear();
    tail_messages_ = tail_bytes_ = 0;
    uncommitted_.clear();
    for (const PendingRelease& release : pending_releases_) {
        context_.journal.release(release.journal_sequence, release.count);
    }
    pending_releases_.clear();
    synced_total_ = written_total_;
    writer_ = Writer{};
    std::vector<Segment> dropped = std::move(segments_);
    segments_.clear();
    last_is_sealed_ = false;
    count_segments();
    return dropped;
}

Task<Status> PartitionLog::drop_everything() {
    const std::vector<Segment> dropped = forget_everything();
    Status status;
    for (const Segment& segment : dropped) {
        const Status moved = co_await move_to_trash(segment.start);
        if (!moved.has_value() && status.has_value()) {
            status = moved;
        }
    }
    co_return status;
}

Task<Status> PartitionLog::destroy() {
    closed_ = true;
    co_await quiesce();
    co_await scope_.close();
    (void)forget_everything();
    context_.files.forget_log(log_number_);
    if (!directory_exists_) {
        co_return Status{};
    }
    const Status moved = co_await trash_partition(context_, directory_, partition_, incarnation_);
    co_return moved;
}

}  // namespace galgo::storage

// The end of a log, and of segments that nothing needs. Files go to the trash by rename, a
// partition that was deleted or purged as a whole directory; their bytes are freed there.
#include <cerrno>
#include <format>

#include "runtime/io_await.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;

/// Returns when no write, no sync and no background work is on its way. The caller has seen to it
/// that none starts.
Task<void> PartitionLog::quiesce() {
    co_await trimming_.acquire();
    trimming_.release();
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
    context_.files.forget_segment(log_number_, start);  // a read may have opened it meanwhile
    co_return moved;
}

Task<Status> trash_partition(StorageContext& context, std::string directory, PartitionKey partition,
                             Incarnation incarnation) {
    const Status moved = co_await context.trash.take(
        context.io, std::move(directory),
        std::format("{:016x}-{}", partition.value(), incarnation.value()));
    co_return moved;
}

/// Lets go of everything in memory. Nothing is on its way.
void PartitionLog::forget_everything() {
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
    segments_.clear();
    leaving_.clear();
    low_ = wanted_ = Offset{0};
    begins_.clear();
    last_is_sealed_ = false;
    count_segments();
}

Task<Status> PartitionLog::destroy() {
    closed_ = true;
    co_await quiesce();
    co_await scope_.close();
    forget_everything();
    context_.files.forget_log(log_number_);
    // Also one that the log knows nothing of: it must not be found by the next life.
    const Status moved = co_await trash_partition(context_, directory_, partition_, incarnation_);
    co_return moved;
}

}  // namespace galgo::storage

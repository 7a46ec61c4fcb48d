// Opening a partition's log: what was brought in is written, the next offset is named, and the log
// is fenced where that is due.
#include <cerrno>
#include <format>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;

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
    if (must_fence_ && damage_text_.empty() && !lost_.empty()) {
        damage_text_ = std::format(
            "acknowledged messages are missing, from offset {} on ({}/{} has all of them): restore "
            "the files and remove that one, or purge the partition",
            lost_.front().from.value(), directory_, detail::kFencedName);
    }
    if (must_fence_) {
        fence(fail_os(EIO).error(),
              !damage_text_.empty() ? damage_text_.c_str()
              : has_stable_damage_  ? "acknowledged batches are damaged on disk (file \"fenced\")"
                                    : "acknowledged batches are missing (file \"fenced\")");
    }
    recovery_complete_ =
        status.has_value() && tail_.empty() && flushed_end() >= recovered_end_ && !entries_dirty_;
    note_stable_end();
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
    if (flushed_end() < recovered_end_ || (end_is_unnamed_ && last_is_sealed_)) {
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

/// All segments were synced by the recovery, if not before.
void PartitionLog::note_stable_end() noexcept {
    if (recovery_complete_ && options_.persisted && !parents_dirty_ &&
        synced_total_ == written_total_) {
        stable_end_ = flushed_end();
    }
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
        note_stable_end();
        observe::log_info("storage", "recovery is complete", {{"directory", directory_}});
    }
    co_return settled;
}

}  // namespace galgo::storage

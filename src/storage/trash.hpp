// Trash: where dropped segments and the directories of deleted partitions wait, by rename, until
// their bytes are freed. Large files are cut there by at most 32 MiB at a time, because unlinking a
// cached gigabyte blocks its caller for a fifth of a second.
//
// One for the process ("{path}/trash"): every shard may put something there, one shard empties it
// when there is something. What a crash left there goes at the first emptying of the next run.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::storage {

class Trash {
 public:
    /// Enough for all that is still on its way here: renames take moments, a snapshot of the
    /// metadata is hundreds of changes away.
    static constexpr std::size_t kLivesMax = 65536;

    /// `directory` may be absent; it is on the file system of the data.
    explicit Trash(std::string directory) : directory_(std::move(directory)) {}

    /// Renames the file or directory `from` to `name` in the trash. A name is used once: it carries
    /// key and incarnation. What is absent is success. The rename is not synced: after a loss of
    /// power `from` may be there again. Any shard.
    coro::Task<Status> take(runtime::IoBackend& io, std::string from, std::string name);

    using Life = std::pair<PartitionKey, Incarnation>;
    /// A deletion or purge in the metadata log ended that life of the partition: its files may go.
    /// The last kLivesMax are remembered. Any thread; in the order of the log.
    void note_retired(PartitionKey partition, Incarnation incarnation);
    /// Is the end of that life among what is remembered? If not, its files may be all that is left
    /// of something: they are kept. Any thread.
    [[nodiscard]] bool is_retired(PartitionKey partition, Incarnation incarnation) const;
    /// What is remembered, oldest first: the next start learns it from a snapshot. Any thread.
    [[nodiscard]] std::vector<Life> retired_lives() const;

    /// Was something put there since the last emptying began, or was something left by it? True
    /// after the start. Any thread.
    [[nodiscard]] bool has_work() const noexcept {
        return has_work_.load(std::memory_order_relaxed);
    }
    /// Deletes what is there, yielding between steps; what fails stays for the next call. At most
    /// `steps_max` cuts and unlinks; true when the trash is empty. One shard, one call at a time.
    coro::Task<Result<bool>> empty(runtime::IoBackend& io, coro::ReadyQueue& ready,
                                   std::size_t steps_max);

    [[nodiscard]] const std::string& directory() const noexcept { return directory_; }

 private:
    std::string directory_;
    mutable std::mutex retired_mutex_;
    std::deque<Life> retired_;  ///< oldest first, at most kLivesMax
    std::set<Life> retired_set_;
    std::atomic<bool> has_work_{true};
};

}  // namespace galgo::storage

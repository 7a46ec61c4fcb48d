// UringGroup: what the shards' rings share: each other's descriptors (to wake one another), and the
// CPUs that the kernel's workers may use. Made on the main thread before any shard's thread is
// pinned, outlives all back ends.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "runtime_uring/ring.hpp"

namespace galgo::runtime_uring {

class UringGroup {
 public:
    /// `worker_cpus`: where the kernel's workers may run; empty = wherever the calling thread may.
    explicit UringGroup(std::size_t shard_count, std::vector<int> worker_cpus = {});
    UringGroup(const UringGroup&) = delete;
    UringGroup& operator=(const UringGroup&) = delete;

    /// Wakes a shard from any thread of the process (log, offload, signal threads; a shard uses its
    /// own back end). Takes a lock and makes a system call. Nothing happens when the shard has no
    /// ring.
    void wake(ShardIndex shard);

    [[nodiscard]] std::size_t shard_count() const noexcept { return shard_count_; }
    [[nodiscard]] const std::vector<int>& worker_cpus() const noexcept { return worker_cpus_; }

 private:
    friend class UringBackend;
    static constexpr int kNoRing = -1;

    std::size_t shard_count_;
    std::vector<int> worker_cpus_;
    std::unique_ptr<std::atomic<int>[]> ring_fds_;
    std::mutex outside_mutex_;  // for threads that are no shard
    Ring outside_;
};

}  // namespace galgo::runtime_uring

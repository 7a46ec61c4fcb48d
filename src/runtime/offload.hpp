// OffloadQueue: work that would stall a shard's loop (argon2, directory listings, statfs,
// snapshots) runs on one of the two offload threads of the process and comes back to the shard that
// asked.
//
// Shards push and collect; each offload thread runs run_worker() for its lane. Lock-free stacks
// both ways, so a shard never waits. Bounded by `jobs_max`: when full, submit refuses and the
// caller answers with a typed, retryable error. What others wait for takes the urgent lane instead,
// and is never refused: the background thread runs at the lowest priority, where a busy machine
// gives it no time for seconds. The offload thread wakes the home shard of a finished job; the
// shard finds it by collect() in its next turn.
#pragma once

#include <array>
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/this_shard.hpp"
#include "base/unique_function.hpp"

namespace galgo::runtime {

/// Which offload thread does a job.
enum class OffloadLane : std::uint8_t {
    kBackground,  ///< at the lowest priority; may take long
    kUrgent,      ///< at the shards' priority; short, and rare
};

/// One piece of work; lives in the waiting coroutine until `done`.
struct OffloadJob {
    void (*run)(OffloadJob& job) noexcept = nullptr;   ///< on the lane's thread
    void (*done)(OffloadJob& job) noexcept = nullptr;  ///< on the home shard, from collect()
    ShardIndex home = kNoShard;
    OffloadJob* next = nullptr;
};

class OffloadQueue {
 public:
    /// `wake(shard)` ends the sleep of a shard's loop; called on the offload threads.
    OffloadQueue(std::uint16_t shard_count, std::uint32_t jobs_max,
                 UniqueFunction<void(ShardIndex)> wake);
    OffloadQueue(const OffloadQueue&) = delete;
    OffloadQueue& operator=(const OffloadQueue&) = delete;
    ~OffloadQueue();

    /// From a shard, to the background lane. False: the queue is full and nothing happened.
    [[nodiscard]] bool try_submit(OffloadJob& job) noexcept;
    /// From a shard, to the urgent lane, however many wait. For a caller that has at most one on
    /// its way.
    void submit_urgent(OffloadJob& job) noexcept;
    /// From a shard, once a turn: calls `done` of its finished jobs; true when there were any.
    bool collect() noexcept;

    /// The body of the lane's thread; returns after stop(), when all its submitted jobs have run.
    void run_worker(OffloadLane lane) noexcept;
    void stop() noexcept;
    /// From any thread: what has not begun in the background lane, and what it gets later, comes
    /// back without having run (58). A stopping server does not work through a queue of password
    /// hashes.
    void refuse() noexcept { refusing_.store(true, std::memory_order_relaxed); }

 private:
    struct alignas(64) PerShard {
        std::atomic<OffloadJob*> finished{nullptr};
    };

    struct alignas(64) Lane {
        std::atomic<OffloadJob*> submitted{nullptr};
        std::atomic<std::uint32_t> signal{0};
    };

    [[nodiscard]] Lane& lane(OffloadLane lane) noexcept {
        return lanes_[static_cast<std::size_t>(lane)];
    }
    void enqueue(OffloadJob& job, OffloadLane lane) noexcept;

    std::vector<PerShard> shards_;
    std::uint32_t jobs_max_;
    UniqueFunction<void(ShardIndex)> wake_;
    std::atomic<std::uint32_t> job_count_{0};
    std::array<Lane, 2> lanes_;
    std::atomic<bool> stopping_{false};
    std::atomic<bool> refusing_{false};
};

/// co_await offload(queue, fn): runs fn() -> T in the background lane; Result<T> with 58 when the
/// queue is full. What fn captures must not be touched by the shard meanwhile.
template <class Fn>
class [[nodiscard]] OffloadAwaiter : private OffloadJob {
    using Value = std::invoke_result_t<Fn&>;

 public:
    OffloadAwaiter(OffloadQueue& queue, Fn fn, OffloadLane lane)
        : queue_(queue), fn_(std::move(fn)), lane_(lane) {}
    OffloadAwaiter(const OffloadAwaiter&) = delete;
    OffloadAwaiter& operator=(const OffloadAwaiter&) = delete;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    bool await_suspend(std::coroutine_handle<> handle) noexcept {
        handle_ = handle;
        run = [](OffloadJob& job) noexcept {
            auto& self = static_cast<OffloadAwaiter&>(job);
            self.value_ = self.fn_();
        };
        done = [](OffloadJob& job) noexcept { static_cast<OffloadAwaiter&>(job).handle_.resume(); };
        if (lane_ == OffloadLane::kUrgent) {
            queue_.submit_urgent(*this);
            return true;
        }
        return queue_.try_submit(*this);
    }
    Result<Value> await_resume() { return std::move(value_); }

 private:
    OffloadQueue& queue_;
    Fn fn_;
    OffloadLane lane_;
    std::coroutine_handle<> handle_;
    Result<Value> value_ = fail(ErrorCode::kTransientNotAccepted);
};

template <class Fn>
[[nodiscard]] OffloadAwaiter<Fn> offload(OffloadQueue& queue, Fn fn) {
    return OffloadAwaiter<Fn>(queue, std::move(fn), OffloadLane::kBackground);
}

/// The same in the urgent lane; never 58.
template <class Fn>
[[nodiscard]] OffloadAwaiter<Fn> offload_urgent(OffloadQueue& queue, Fn fn) {
    return OffloadAwaiter<Fn>(queue, std::move(fn), OffloadLane::kUrgent);
}

}  // namespace galgo::runtime

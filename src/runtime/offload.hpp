// OffloadQueue: work that would stall a shard's loop (argon2, directory listings, statfs) runs on
// the one offload thread of the process and comes back to the shard that asked.
//
// Shards push and collect; the offload thread runs run_worker(). Lock-free stacks both ways, so a
// shard never waits. Bounded by `jobs_max`: when full, submit refuses and the caller answers with a
// typed, retryable error. What others wait behind goes to the front instead, and is never refused.
// The offload thread wakes the home shard of a finished job; the shard
// finds it by collect() in its next turn.
#pragma once

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

/// One piece of work; lives in the waiting coroutine until `done`.
struct OffloadJob {
    void (*run)(OffloadJob& job) noexcept = nullptr;   ///< on the offload thread
    void (*done)(OffloadJob& job) noexcept = nullptr;  ///< on the home shard, from collect()
    ShardIndex home = kNoShard;
    OffloadJob* next = nullptr;
};

class OffloadQueue {
 public:
    /// `wake(shard)` ends the sleep of a shard's loop; called on the offload thread.
    OffloadQueue(std::uint16_t shard_count, std::uint32_t jobs_max,
                 UniqueFunction<void(ShardIndex)> wake);
    OffloadQueue(const OffloadQueue&) = delete;
    OffloadQueue& operator=(const OffloadQueue&) = delete;
    ~OffloadQueue();

    /// From a shard. False: the queue is full and nothing happened.
    [[nodiscard]] bool try_submit(OffloadJob& job) noexcept;
    /// The same for a job that runs before all that wait, however many do: after the one that runs
    /// now. For a caller that has at most one on its way.
    void submit_first(OffloadJob& job) noexcept;
    /// From a shard, once a turn: calls `done` of its finished jobs; true when there were any.
    bool collect() noexcept;

    /// The body of the offload thread; returns after stop(), when all submitted jobs have run.
    void run_worker() noexcept;
    void stop() noexcept;
    /// From any thread: what has not begun, and what is submitted later, comes back without having
    /// run (58). A stopping server does not work through a queue of password hashes.
    void refuse() noexcept { refusing_.store(true, std::memory_order_relaxed); }

 private:
    struct alignas(64) PerShard {
        std::atomic<OffloadJob*> finished{nullptr};
    };

    void enqueue(OffloadJob& job, std::atomic<OffloadJob*>& stack) noexcept;
    void run(OffloadJob& job) noexcept;

    std::vector<PerShard> shards_;
    std::uint32_t jobs_max_;
    UniqueFunction<void(ShardIndex)> wake_;
    std::atomic<std::uint32_t> job_count_{0};
    std::atomic<OffloadJob*> submitted_{nullptr};
    std::atomic<OffloadJob*> submitted_first_{nullptr};
    std::atomic<std::uint32_t> signal_{0};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> refusing_{false};
};

/// co_await offload(queue, fn): runs fn() -> T on the offload thread; Result<T> with 58 when the
/// queue is full. What fn captures must not be touched by the shard meanwhile.
template <class Fn>
class [[nodiscard]] OffloadAwaiter : private OffloadJob {
    using Value = std::invoke_result_t<Fn&>;

 public:
    OffloadAwaiter(OffloadQueue& queue, Fn fn, bool first)
        : queue_(queue), fn_(std::move(fn)), first_(first) {}
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
        if (first_) {
            queue_.submit_first(*this);
            return true;
        }
        return queue_.try_submit(*this);
    }
    Result<Value> await_resume() { return std::move(value_); }

 private:
    OffloadQueue& queue_;
    Fn fn_;
    bool first_;
    std::coroutine_handle<> handle_;
    Result<Value> value_ = fail(ErrorCode::kTransientNotAccepted);
};

template <class Fn>
[[nodiscard]] OffloadAwaiter<Fn> offload(OffloadQueue& queue, Fn fn) {
    return OffloadAwaiter<Fn>(queue, std::move(fn), false);
}

/// The same by submit_first(): 58 only from a queue that refuses all.
template <class Fn>
[[nodiscard]] OffloadAwaiter<Fn> offload_first(OffloadQueue& queue, Fn fn) {
    return OffloadAwaiter<Fn>(queue, std::move(fn), true);
}

}  // namespace galgo::runtime

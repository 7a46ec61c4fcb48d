// The coroutines of one shard that can go on. Completions resume directly; what one coroutine wakes
// in another goes through this queue, so that waking never nests and a turn of the loop stays
// bounded. Intrusive: pushing cannot fail and allocates nothing.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include "base/intrusive_list.hpp"

namespace galgo::coro {

/// Lives in the awaiter, that is in the waiting coroutine's frame.
struct ReadyNode : ListLink<> {
    std::coroutine_handle<> handle;
};

class ReadyQueue {
 public:
    void push(ReadyNode& node) noexcept {
        list_.push_back(node);
        ++size_;
    }
    [[nodiscard]] bool empty() const noexcept { return list_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

    /// Resumes at most `count_max` of those that are queued now; what they wake waits for the next
    /// call. Returns how many were resumed.
    std::size_t run(std::size_t count_max) {
        const std::size_t count = size_ < count_max ? size_ : count_max;
        for (std::size_t i = 0; i < count; ++i) {
            ReadyNode& node = list_.pop_front();
            --size_;
            node.handle.resume();
        }
        return count;
    }

 private:
    IntrusiveList<ReadyNode> list_;
    std::size_t size_ = 0;
};

/// co_await yield_to(queue): lets everything else that is ready run first.
class [[nodiscard]] YieldAwaiter {
 public:
    explicit YieldAwaiter(ReadyQueue& queue) noexcept : queue_(queue) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
        node_.handle = handle;
        queue_.push(node_);
    }
    void await_resume() const noexcept {}

 private:
    ReadyQueue& queue_;
    ReadyNode node_;
};

[[nodiscard]] inline YieldAwaiter yield_to(ReadyQueue& queue) noexcept {
    return YieldAwaiter(queue);
}

}  // namespace galgo::coro

// Coroutine synchronisation within one shard: WaitList (wake one or all), Event, Semaphore.
// No threads here: everything runs on the shard that owns the ReadyQueue. Waiters wake in FIFO
// order.
#pragma once

#include <coroutine>
#include <cstddef>

#include "base/check.hpp"
#include "coro/ready_queue.hpp"

namespace galgo::coro {

/// A list of suspended coroutines. `co_await list.wait()` suspends until a wake.
class WaitList {
 public:
    explicit WaitList(ReadyQueue& queue) noexcept : queue_(queue) {}

    class [[nodiscard]] Awaiter {
     public:
        explicit Awaiter(WaitList& list) noexcept : list_(list) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            node_.handle = handle;
            list_.waiting_.push_back(node_);
        }
        void await_resume() const noexcept {}

     private:
        WaitList& list_;
        ReadyNode node_;
    };

    [[nodiscard]] Awaiter wait() noexcept { return Awaiter(*this); }
    [[nodiscard]] bool empty() const noexcept { return waiting_.empty(); }
    void wake_one() noexcept {
        if (!waiting_.empty()) {
            queue_.push(waiting_.pop_front());
        }
    }
    void wake_all() noexcept {
        while (!waiting_.empty()) {
            queue_.push(waiting_.pop_front());
        }
    }

 private:
    ReadyQueue& queue_;
    IntrusiveList<ReadyNode> waiting_;
};

/// Set once or many times; waiting on a set event does not suspend.
class Event {
 public:
    explicit Event(ReadyQueue& queue) noexcept : waiters_(queue) {}

    void set() noexcept {
        set_ = true;
        waiters_.wake_all();
    }
    void clear() noexcept { set_ = false; }
    [[nodiscard]] bool is_set() const noexcept { return set_; }

    class [[nodiscard]] Awaiter {
     public:
        explicit Awaiter(Event& event) noexcept : event_(event), inner_(event.waiters_.wait()) {}
        [[nodiscard]] bool await_ready() const noexcept { return event_.set_; }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            inner_.await_suspend(handle);
        }
        void await_resume() const noexcept {}

     private:
        Event& event_;
        WaitList::Awaiter inner_;
    };
    [[nodiscard]] Awaiter wait() noexcept { return Awaiter(*this); }

 private:
    bool set_ = false;
    WaitList waiters_;
};

/// Counts units; acquire waits in FIFO order, so a large request is not starved by small ones.
class Semaphore {
 public:
    Semaphore(ReadyQueue& queue, std::size_t units) noexcept : queue_(queue), units_(units) {}

    class [[nodiscard]] Awaiter : public ReadyNode {
     public:
        Awaiter(Semaphore& semaphore, std::size_t units) noexcept
            : semaphore_(semaphore), units_(units) {}
        [[nodiscard]] bool await_ready() const noexcept {
            if (semaphore_.waiting_.empty() && semaphore_.units_ >= units_) {
                semaphore_.units_ -= units_;
                return true;
            }
            return false;
        }
        void await_suspend(std::coroutine_handle<> waiting) noexcept {
            handle = waiting;
            semaphore_.waiting_.push_back(*this);
        }
        void await_resume() const noexcept {}

     private:
        friend Semaphore;
        Semaphore& semaphore_;
        std::size_t units_;
    };

    /// Takes `units`; suspends until they are free. The caller gives them back by release().
    [[nodiscard]] Awaiter acquire(std::size_t units = 1) noexcept { return Awaiter(*this, units); }
    void release(std::size_t units = 1) noexcept {
        units_ += units;
        while (!waiting_.empty()) {
            auto& first = static_cast<Awaiter&>(waiting_.front());
            if (first.units_ > units_) {
                break;
            }
            units_ -= first.units_;
            queue_.push(waiting_.pop_front());
        }
    }
    [[nodiscard]] std::size_t available() const noexcept { return units_; }

 private:
    ReadyQueue& queue_;
    std::size_t units_;
    IntrusiveList<ReadyNode> waiting_;
};

}  // namespace galgo::coro

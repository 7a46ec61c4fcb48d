// Admission: the places of a partition's pipeline, given in the order of asking. What finds no
// place waits, so that many producers of one partition share its barriers instead of asking again
// after a pause; what finds too many waiting is refused. One shard.
#pragma once

#include <coroutine>
#include <cstddef>
#include <utility>

#include "coro/sync.hpp"

namespace galgo::partitions {

class Admission {
 public:
    /// Operations that may wait for a place (source: server of the 0.11.0 clients, 32 + 64).
    static constexpr std::size_t kWaitingMax = 64;

    Admission(coro::ReadyQueue& ready, std::size_t places) noexcept : free_(ready, places) {}

    /// A place, given back at its end.
    class Place {
     public:
        explicit Place(coro::Semaphore& free) noexcept : free_(&free) {}
        Place(Place&& other) noexcept : free_(std::exchange(other.free_, nullptr)) {}
        Place& operator=(Place&&) = delete;
        ~Place() {
            if (free_ != nullptr) {
                free_->release();
            }
        }

     private:
        coro::Semaphore* free_;
    };

    class [[nodiscard]] Awaiter {
     public:
        explicit Awaiter(Admission& admission) noexcept
            : admission_(admission), inner_(admission.free_, 1) {}
        /// Not past one that was woken and has not run yet.
        [[nodiscard]] bool await_ready() const noexcept {
            return admission_.waiting_ == 0 && inner_.await_ready();
        }
        void await_suspend(std::coroutine_handle<> waiting) noexcept {
            is_waiting_ = true;
            ++admission_.waiting_;
            inner_.await_suspend(waiting);
        }
        [[nodiscard]] Place await_resume() noexcept {
            if (is_waiting_) {
                --admission_.waiting_;
            }
            return Place(admission_.free_);
        }

     private:
        Admission& admission_;
        coro::Semaphore::Awaiter inner_;
        bool is_waiting_ = false;
    };

    /// enter() would not suspend.
    [[nodiscard]] bool has_place() const noexcept {
        return waiting_ == 0 && free_.available() != 0;
    }
    /// No more may wait: the caller refuses with 58.
    [[nodiscard]] bool is_full() const noexcept { return waiting_ >= kWaitingMax; }
    /// Suspends until a place is free.
    [[nodiscard]] Awaiter enter() noexcept { return Awaiter(*this); }

 private:
    coro::Semaphore free_;
    std::size_t waiting_ = 0;
};

}  // namespace galgo::partitions

// SpscLane: a bounded queue from one thread to one other, in one ring of slots. Each side keeps a
// copy of the other's index and reads the shared one only when its copy says full or empty, so that
// a busy lane moves few cache lines. Slots are raw memory: pages that no message touched stay
// unmapped.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "base/check.hpp"

namespace galgo::runtime {

inline constexpr std::size_t kCacheLineBytes = 64;

template <class T>
class SpscLane {
    static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
    /// `capacity` is a power of two.
    explicit SpscLane(std::size_t capacity)
        : mask_(capacity - 1), slots_(std::allocator<T>().allocate(capacity)) {
        GALGO_CHECK(std::has_single_bit(capacity));
    }
    SpscLane(const SpscLane&) = delete;
    SpscLane& operator=(const SpscLane&) = delete;
    /// Both sides have stopped.
    ~SpscLane() {
        while (!empty()) {
            (void)pop();
        }
        std::allocator<T>().deallocate(slots_, mask_ + 1);
    }

    /// Producer. False when full; `value` is then untouched.
    [[nodiscard]] bool try_push(T&& value) noexcept {
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        if (tail - head_seen_ > mask_) {
            head_seen_ = head_.load(std::memory_order_acquire);
            if (tail - head_seen_ > mask_) {
                return false;
            }
        }
        std::construct_at(slots_ + (tail & mask_), std::move(value));
        tail_.store(tail + 1, std::memory_order_release);
        return true;
    }

    /// Consumer.
    [[nodiscard]] bool empty() noexcept {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        if (head == tail_seen_) {
            tail_seen_ = tail_.load(std::memory_order_acquire);
        }
        return head == tail_seen_;
    }
    /// Consumer; not empty (the consumer asked). The slot is free again when this returns.
    [[nodiscard]] T pop() noexcept {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        GALGO_DCHECK(head != tail_seen_);
        T* slot = slots_ + (head & mask_);
        T value = std::move(*slot);
        std::destroy_at(slot);
        head_.store(head + 1, std::memory_order_release);
        return value;
    }

    /// Any thread; a snapshot.
    [[nodiscard]] std::size_t size() const noexcept {
        const std::size_t head = head_.load(std::memory_order_relaxed);
        const std::size_t tail = tail_.load(std::memory_order_relaxed);
        return tail > head ? tail - head : 0;
    }
    [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }

 private:
    const std::size_t mask_;
    T* const slots_;
    alignas(kCacheLineBytes) std::atomic<std::size_t> head_{0};  // consumer's
    std::size_t tail_seen_ = 0;
    alignas(kCacheLineBytes) std::atomic<std::size_t> tail_{0};  // producer's
    std::size_t head_seen_ = 0;
};

}  // namespace galgo::runtime

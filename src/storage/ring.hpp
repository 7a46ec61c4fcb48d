// Ring: a double-ended queue in one power-of-two array. It grows when full and never shrinks by
// itself, so that a queue in steady state allocates nothing. Elements move when it grows.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/check.hpp"

namespace galgo::storage {

template <class T>
class Ring {
 public:
    Ring() noexcept = default;
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;

    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept {
        GALGO_DCHECK(i < size_);
        return slots_[(head_ + i) & (capacity_ - 1)];
    }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
        GALGO_DCHECK(i < size_);
        return slots_[(head_ + i) & (capacity_ - 1)];
    }
    [[nodiscard]] T& front() noexcept { return (*this)[0]; }
    [[nodiscard]] T& back() noexcept { return (*this)[size_ - 1]; }
    [[nodiscard]] const T& front() const noexcept { return (*this)[0]; }
    [[nodiscard]] const T& back() const noexcept { return (*this)[size_ - 1]; }

    void push_back(T value) {
        if (size_ == capacity_) {
            grow();
        }
        slots_[(head_ + size_) & (capacity_ - 1)] = std::move(value);
        ++size_;
    }
    T pop_front() noexcept {
        T value = std::exchange(front(), T{});
        head_ = (head_ + 1) & (capacity_ - 1);
        --size_;
        return value;
    }
    T pop_back() noexcept {
        T value = std::exchange(back(), T{});
        --size_;
        return value;
    }
    void clear() noexcept {
        while (size_ != 0) {
            (void)pop_front();
        }
    }
    /// Lets go of the memory; only when empty.
    void shrink() noexcept {
        if (size_ == 0) {
            slots_.reset();
            capacity_ = head_ = 0;
        }
    }

 private:
    void grow() {
        const std::size_t capacity = capacity_ == 0 ? 8 : capacity_ * 2;
        auto slots = std::make_unique<T[]>(capacity);
        for (std::size_t i = 0; i < size_; ++i) {
            slots[i] = std::move((*this)[i]);
        }
        slots_ = std::move(slots);
        capacity_ = capacity;
        head_ = 0;
    }

    std::unique_ptr<T[]> slots_;
    std::size_t capacity_ = 0;
    std::size_t head_ = 0;
    std::size_t size_ = 0;
};

}  // namespace galgo::storage

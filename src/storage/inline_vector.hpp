// InlineVector: a move-only vector whose first N elements live in the object itself, so that the
// usual plan or reply needs no allocation. Grows on the heap beyond N.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/check.hpp"

namespace galgo::storage {

template <class T, std::size_t N>
class InlineVector {
 public:
    InlineVector() noexcept = default;
    InlineVector(InlineVector&& other) noexcept { take(other); }
    InlineVector& operator=(InlineVector&& other) noexcept {
        if (this != &other) {
            clear();
            take(other);
        }
        return *this;
    }
    InlineVector(const InlineVector&) = delete;
    InlineVector& operator=(const InlineVector&) = delete;
    ~InlineVector() = default;

    void push_back(T value) {
        if (size_ == capacity_) {
            auto heap = std::make_unique<T[]>(capacity_ * 2);
            for (std::size_t i = 0; i < size_; ++i) {
                heap[i] = std::move(data()[i]);
            }
            heap_ = std::move(heap);
            capacity_ *= 2;
        }
        data()[size_++] = std::move(value);
    }
    void clear() noexcept {
        for (std::size_t i = 0; i < size_; ++i) {
            data()[i] = T{};
        }
        size_ = 0;
    }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    [[nodiscard]] T& operator[](std::size_t i) noexcept {
        GALGO_DCHECK(i < size_);
        return data()[i];
    }
    [[nodiscard]] const T& operator[](std::size_t i) const noexcept {
        GALGO_DCHECK(i < size_);
        return data()[i];
    }
    [[nodiscard]] T& back() noexcept { return (*this)[size_ - 1]; }
    [[nodiscard]] T* begin() noexcept { return data(); }
    [[nodiscard]] T* end() noexcept { return data() + size_; }
    [[nodiscard]] const T* begin() const noexcept { return data(); }
    [[nodiscard]] const T* end() const noexcept { return data() + size_; }

 private:
    [[nodiscard]] T* data() noexcept { return heap_ ? heap_.get() : inline_; }
    [[nodiscard]] const T* data() const noexcept { return heap_ ? heap_.get() : inline_; }
    void take(InlineVector& other) noexcept {
        heap_ = std::move(other.heap_);
        if (!heap_) {
            for (std::size_t i = 0; i < other.size_; ++i) {
                inline_[i] = std::exchange(other.inline_[i], T{});
            }
        }
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, N);
    }

    T inline_[N] = {};
    std::unique_ptr<T[]> heap_;
    std::size_t size_ = 0;
    std::size_t capacity_ = N;
};

}  // namespace galgo::storage

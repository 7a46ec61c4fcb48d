// A lock-free stack of block headers for many threads. The head is {tag, index + 1} in one word;
// the tag goes up with each change, so that a head that went away and came back is not taken for
// the same (a thread would have to sleep through exactly 2^32 changes). Headers are never unmapped
// while the pool lives, so that reading `next` of a header that another thread just took is
// harmless.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory/buffer.hpp"

namespace galgo::memory::internal {

class TaggedStack {
 public:
    void push(Block& block) noexcept {
        std::uint64_t head = head_.load(std::memory_order_relaxed);
        std::uint64_t wanted;
        do {
            block.next.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
            wanted = next_tag(head) | (block.index + 1);
        } while (!head_.compare_exchange_weak(head, wanted, std::memory_order_release,
                                              std::memory_order_relaxed));
    }

    /// `blocks` is the table that the indices count in. nullptr when empty.
    Block* pop(Block* blocks) noexcept {
        std::uint64_t head = head_.load(std::memory_order_acquire);
        while (static_cast<std::uint32_t>(head) != 0) {
            Block& block = blocks[static_cast<std::uint32_t>(head) - 1];
            const std::uint64_t wanted =
                next_tag(head) | block.next.load(std::memory_order_relaxed);
            if (head_.compare_exchange_weak(head, wanted, std::memory_order_acquire,
                                            std::memory_order_acquire)) {
                return &block;
            }
        }
        return nullptr;
    }

 private:
    static std::uint64_t next_tag(std::uint64_t head) noexcept { return ((head >> 32) + 1) << 32; }

    std::atomic<std::uint64_t> head_ = 0;
};

}  // namespace galgo::memory::internal

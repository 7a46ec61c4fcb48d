// The bounded queue between all threads that log and the one log thread: slots with a sequence
// number each (D. Vyukov's bounded queue). A push claims a slot by one compare-exchange, copies,
// publishes; it fails when the ring is full. A producer that is preempted between claim and publish
// holds up the consumer, never another producer.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "observe/log.hpp"

namespace galgo::observe::detail {

class LineRing {
 public:
    static constexpr std::size_t kLineBytesMax = 1024;
    static constexpr std::size_t kCapacity = 1024;

    LineRing() : slots_(new Slot[kCapacity]) {
        for (std::size_t i = 0; i < kCapacity; ++i) {
            slots_[i].sequence.store(i, std::memory_order_relaxed);
        }
    }

    /// Any thread. False when full; nothing is kept then. `line` has at most kLineBytesMax bytes.
    bool push(LogLevel level, std::string_view line) noexcept {
        std::uint64_t position = head_.load(std::memory_order_relaxed);
        for (;;) {
            Slot& slot = slots_[position % kCapacity];
            const std::uint64_t sequence = slot.sequence.load(std::memory_order_acquire);
            if (sequence == position) {
                if (head_.compare_exchange_weak(position, position + 1,
                                                std::memory_order_relaxed)) {
                    slot.level = level;
                    slot.size = static_cast<std::uint16_t>(line.size());
                    std::memcpy(slot.text, line.data(), line.size());
                    slot.sequence.store(position + 1, std::memory_order_release);
                    return true;
                }
            } else if (sequence < position) {
                return false;
            } else {
                position = head_.load(std::memory_order_relaxed);
            }
        }
    }

    /// The log thread only: hands the oldest line to `use(level, line)`; false when there is none.
    template <class Use>
    bool pop(Use&& use) {
        Slot& slot = slots_[tail_ % kCapacity];
        if (slot.sequence.load(std::memory_order_acquire) != tail_ + 1) {
            return false;
        }
        use(slot.level, std::string_view(slot.text, slot.size));
        slot.sequence.store(tail_ + kCapacity, std::memory_order_release);
        ++tail_;
        return true;
    }

    /// The log thread only.
    [[nodiscard]] bool empty() const noexcept {
        return slots_[tail_ % kCapacity].sequence.load(std::memory_order_acquire) != tail_ + 1;
    }

 private:
    struct alignas(64) Slot {
        std::atomic<std::uint64_t> sequence{0};
        std::uint16_t size = 0;
        LogLevel level = LogLevel::kInfo;
        char text[kLineBytesMax];
    };

    std::unique_ptr<Slot[]> slots_;
    alignas(64) std::atomic<std::uint64_t> head_{0};
    alignas(64) std::uint64_t tail_ = 0;
};

}  // namespace galgo::observe::detail

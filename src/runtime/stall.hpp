// What one turn that takes too long leaves behind. The loop publishes since when it is inside a
// turn and what it is doing; another thread reads that every few milliseconds and, past the limit,
// has the shard's own thread sample its stack inside the turn (runtime_uring/stall_detector.hpp
// sends the signal, because this module makes no system call). The loop reports the sample after
// the turn.
//
// Threads: running_since_ns, last_turn_start_ns and task are written by the shard and read by any
// thread. The sample is written by a signal handler on the shard's thread and read by the shard.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace galgo::runtime {

/// Called on the shard's thread, after the turn. Implementations must not block.
class LoopObserver {
 public:
    LoopObserver() = default;
    LoopObserver(const LoopObserver&) = delete;
    LoopObserver& operator=(const LoopObserver&) = delete;
    virtual ~LoopObserver() = default;

    /// A turn that did something took `duration_ns`.
    virtual void on_turn(std::uint64_t duration_ns) noexcept = 0;
    /// A turn exceeded the limit; at most once a second. `task` is the label that was current when
    /// the stack was sampled; "unknown" and an empty `backtrace` when nobody sampled.
    virtual void on_slow_turn(std::uint64_t duration_ns, const char* task,
                              std::span<void* const> backtrace) noexcept = 0;
};

/// A shard is stuck when running_since_ns is not 0 and long ago; an idle shard sleeps with 0 there.
struct StallProbe {
    static constexpr std::size_t kFramesMax = 48;

    std::atomic<std::uint64_t> running_since_ns{
        0};  ///< start of the turn; 0 between turns and asleep
    std::atomic<std::uint64_t> last_turn_start_ns{
        0};                                  ///< start of the last turn, kept while asleep
    std::atomic<const char*> task{"start"};  ///< a string literal

    // The sample of the turn that started at sampled_turn_ns.
    std::atomic<std::uint64_t> sampled_turn_ns{0};
    const char* sampled_task = nullptr;
    std::uint32_t frame_count = 0;
    std::array<void*, kFramesMax> frames{};
};

/// Labels what the shard does from here to the end of the enclosing block; nests.
class TaskLabel {
 public:
    TaskLabel(StallProbe& probe, const char* literal) noexcept
        : probe_(probe), before_(probe.task.load(std::memory_order_relaxed)) {
        probe_.task.store(literal, std::memory_order_relaxed);
    }
    TaskLabel(const TaskLabel&) = delete;
    TaskLabel& operator=(const TaskLabel&) = delete;
    ~TaskLabel() { probe_.task.store(before_, std::memory_order_relaxed); }

 private:
    StallProbe& probe_;
    const char* before_;
};

}  // namespace galgo::runtime

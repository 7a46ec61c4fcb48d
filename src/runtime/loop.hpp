// Loop: the executor of one shard. One turn is
//   reap completions, turn-start hooks, timers, ready coroutines (at most event_interval), turn-end
//   hooks;
// what the turn queued is submitted by the poll() that begins the next one, so there is one
// submission a turn. When a turn leaves nothing ready and no hook did work, the loop first polls on
// for a while (adaptively, at most busy_poll_ns) and then blocks until a completion, a wake or the
// next timer.
//
// Owned and used by the shard's thread alone; stats(), stall_probe() and stop() may be used by
// others. Limits: 16 hooks of each kind, 8 sleep gates.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.hpp"
#include "base/unique_function.hpp"
#include "coro/ready_queue.hpp"
#include "runtime/io.hpp"
#include "runtime/stall.hpp"
#include "runtime/timer_wheel.hpp"

namespace galgo::runtime {

struct LoopOptions {
    std::uint32_t event_interval = 128;  ///< coroutines resumed a turn, at most
    std::uint64_t busy_poll_ns = 0;      ///< longest poll before blocking; 0 = block at once
    std::uint64_t slow_turn_ns = 10 * kMillisecond;
    LoopObserver* observer = nullptr;  ///< outlives the loop
};

/// Counted by the shard (relaxed), read by anyone.
struct TurnStats {
    std::atomic<std::uint64_t> turns{0};
    std::atomic<std::uint64_t> slow_turns{0};
    std::atomic<std::uint64_t> longest_ns{0};
    std::atomic<std::uint64_t> sleeps{0};  ///< times the loop blocked
};

/// What must agree before the loop blocks: it publishes that the shard is about to sleep and looks
/// again.
class SleepGate {
 public:
    SleepGate() = default;
    SleepGate(const SleepGate&) = delete;
    SleepGate& operator=(const SleepGate&) = delete;
    virtual ~SleepGate() = default;
    /// True: the loop may block, and after_sleep() follows. False: there is work, nothing was
    /// published.
    [[nodiscard]] virtual bool before_sleep() noexcept = 0;
    /// Before anything of the shard runs again.
    virtual void after_sleep() noexcept = 0;
};

class Loop {
 public:
    Loop(IoBackend& io, LoopOptions options);
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;
    ~Loop();

    [[nodiscard]] coro::ReadyQueue& ready() noexcept { return ready_; }
    [[nodiscard]] IoBackend& io() noexcept { return io_; }
    [[nodiscard]] TimerWheel& timers() noexcept { return timers_; }
    /// Monotonic time read at the start of this turn; never decreases.
    [[nodiscard]] Instant now() const noexcept { return now_; }
    /// Wall time, read afresh.
    [[nodiscard]] Timestamp wall_now() { return io_.wall_now(); }

    class SleepAwaiter;
    /// co_await loop.sleep_until(deadline): resumes through the ready queue, at most a tick late.
    [[nodiscard]] SleepAwaiter sleep_until(Instant deadline) noexcept;
    [[nodiscard]] SleepAwaiter sleep_for(std::uint64_t duration_ns) noexcept;

    /// Runs once a turn before timers and coroutines; true = did work (then the loop does not
    /// block). `name` is a literal, shown in slow-turn reports.
    void add_turn_start(UniqueFunction<bool()> hook, const char* name = "turn start hook");
    /// Runs once a turn after the coroutines, in the order of adding.
    void add_turn_end(UniqueFunction<void()> hook, const char* name = "turn end hook");
    /// Gates outlive the loop's run; asked in the order of adding.
    void add_sleep_gate(SleepGate& gate);

    /// Turns until stop(). May be called again.
    void run();
    /// One turn that never blocks, for tests and the simulator. True = something was done or is
    /// ready.
    bool run_turn();
    /// When run_turn() should be called again at the latest: 0 = at once, kNever = after I/O or a
    /// wake.
    [[nodiscard]] Instant next_wake() const noexcept;

    /// run() returns after the current turn. From another thread, wake the shard as well.
    void stop() noexcept { stop_.store(true, std::memory_order_release); }
    [[nodiscard]] bool stop_requested() const noexcept {
        return stop_.load(std::memory_order_acquire);
    }

    [[nodiscard]] const TurnStats& stats() const noexcept { return stats_; }
    [[nodiscard]] StallProbe& stall_probe() noexcept { return probe_; }

 private:
    struct StartHook {
        UniqueFunction<bool()> run;
        const char* name;
    };
    struct EndHook {
        UniqueFunction<void()> run;
        const char* name;
    };

    void begin_turn(Instant now) noexcept;
    void end_turn(Instant now) noexcept;
    void end_turn_report(std::uint64_t duration_ns) noexcept;
    void run_body(std::size_t completions);
    void awake() noexcept;
    std::size_t sleep_and_reap();
    [[nodiscard]] bool spin_on(Instant now) noexcept;
    void adapt_spin(bool found_work_soon) noexcept;

    IoBackend& io_;
    LoopOptions options_;
    coro::ReadyQueue ready_;
    Instant now_;
    TimerWheel timers_;
    std::vector<StartHook> start_hooks_;
    std::vector<EndHook> end_hooks_;
    std::vector<SleepGate*> gates_;
    std::size_t gates_closed_ = 0;  // the first so many have published sleep
    bool asleep_ = false;
    bool in_turn_ = false;
    bool worked_ = false;        // this turn did something
    bool must_go_on_ = true;     // something is ready or a hook did work: do not block
    std::uint64_t spin_ns_ = 0;  // current length of the poll before blocking
    Instant spin_until_{0};      // 0: not polling
    Instant turn_start_{0};
    Instant last_report_{0};
    std::atomic<bool> stop_{false};
    TurnStats stats_;
    StallProbe probe_;
};

class [[nodiscard]] Loop::SleepAwaiter : private Timer {
 public:
    SleepAwaiter(Loop& loop, Instant deadline) noexcept : loop_(loop), deadline_(deadline) {}
    SleepAwaiter(const SleepAwaiter&) = delete;
    SleepAwaiter& operator=(const SleepAwaiter&) = delete;

    [[nodiscard]] bool await_ready() const noexcept { return deadline_ <= loop_.now(); }
    void await_suspend(std::coroutine_handle<> handle) noexcept {
        node_.handle = handle;
        fire = [](Timer& timer) noexcept {
            auto& self = static_cast<SleepAwaiter&>(timer);
            self.loop_.ready().push(self.node_);
        };
        loop_.timers().arm(*this, deadline_);
    }
    void await_resume() const noexcept {}

 private:
    Loop& loop_;
    Instant deadline_;
    coro::ReadyNode node_;
};

inline Loop::SleepAwaiter Loop::sleep_until(Instant deadline) noexcept {
    return SleepAwaiter(*this, deadline);
}
inline Loop::SleepAwaiter Loop::sleep_for(std::uint64_t duration_ns) noexcept {
    return SleepAwaiter(*this, now_.plus(duration_ns));
}

/// A sleep that another coroutine of the shard can end early: for periodic work that must stop at
/// once. One sleeper at a time. After interrupt() every later sleep returns at once, until reset().
class Sleeper {
 public:
    explicit Sleeper(Loop& loop) noexcept : loop_(loop), timer_(this) {}
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;

    class [[nodiscard]] Awaiter {
     public:
        Awaiter(Sleeper& sleeper, Instant deadline) noexcept
            : sleeper_(sleeper), deadline_(deadline) {}
        [[nodiscard]] bool await_ready() const noexcept { return sleeper_.interrupted_; }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            GALGO_CHECK(!sleeper_.waiting_);
            sleeper_.waiting_ = true;
            sleeper_.node_.handle = handle;
            sleeper_.loop_.timers().arm(sleeper_.timer_, deadline_);
        }
        /// True: the time passed. False: interrupted.
        [[nodiscard]] bool await_resume() const noexcept { return !sleeper_.interrupted_; }

     private:
        Sleeper& sleeper_;
        Instant deadline_;
    };

    [[nodiscard]] Awaiter sleep_until(Instant deadline) noexcept { return {*this, deadline}; }
    [[nodiscard]] Awaiter sleep_for(std::uint64_t duration_ns) noexcept {
        return {*this, loop_.now().plus(duration_ns)};
    }
    void interrupt() noexcept {
        interrupted_ = true;
        if (waiting_) {
            loop_.timers().cancel(timer_);
            wake();
        }
    }
    void reset() noexcept { interrupted_ = false; }

 private:
    struct Alarm : Timer {
        explicit Alarm(Sleeper* owner) noexcept
            : Timer([](Timer& timer) noexcept { static_cast<Alarm&>(timer).sleeper->wake(); }),
              sleeper(owner) {}
        Sleeper* sleeper;
    };
    void wake() noexcept {
        waiting_ = false;
        loop_.ready().push(node_);
    }

    Loop& loop_;
    Alarm timer_;
    coro::ReadyNode node_;
    bool waiting_ = false;
    bool interrupted_ = false;
};

}  // namespace galgo::runtime

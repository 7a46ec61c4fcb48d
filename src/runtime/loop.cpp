#include "runtime/loop.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace galgo::runtime {

namespace {

constexpr std::size_t kHooksMax = 16;
constexpr std::size_t kGatesMax = 8;
constexpr std::uint64_t kSpinMinNs = kMicrosecond;
constexpr std::uint64_t kReportIntervalNs = kSecond;

void add(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

Loop::Loop(IoBackend& io, LoopOptions options)
    : io_(io), options_(options), now_(io.now()), timers_(now_), spin_ns_(options.busy_poll_ns) {
    GALGO_CHECK(options.event_interval > 0);
    io_.set_awake_hook([this] { awake(); });
}

Loop::~Loop() {
    GALGO_CHECK(ready_.empty());
    io_.set_awake_hook({});
}

void Loop::add_turn_start(UniqueFunction<bool()> hook, const char* name) {
    GALGO_CHECK(start_hooks_.size() < kHooksMax);
    start_hooks_.push_back({std::move(hook), name});
}

void Loop::add_turn_end(UniqueFunction<void()> hook, const char* name) {
    GALGO_CHECK(end_hooks_.size() < kHooksMax);
    end_hooks_.push_back({std::move(hook), name});
}

void Loop::add_sleep_gate(SleepGate& gate) {
    GALGO_CHECK(gates_.size() < kGatesMax);
    gates_.push_back(&gate);
}

void Loop::run() {
    stop_.store(false, std::memory_order_release);
    must_go_on_ = true;
    while (!stop_requested()) {
        std::size_t completions = 0;
        if (must_go_on_ || spin_on(now_)) {
            begin_turn(io_.now());
            completions = io_.poll(Instant{0});
        } else {
            completions = sleep_and_reap();
        }
        run_body(completions);
    }
    end_turn(io_.now());
}

bool Loop::run_turn() {
    begin_turn(io_.now());
    run_body(io_.poll(Instant{0}));
    end_turn(io_.now());
    return worked_ || must_go_on_;
}

Instant Loop::next_wake() const noexcept {
    return must_go_on_ ? Instant{0} : timers_.next_deadline();
}

void Loop::begin_turn(Instant now) noexcept {
    if (in_turn_) {
        end_turn(now);
    }
    now_ = std::max(now_, now);
    turn_start_ = now_;
    in_turn_ = true;
    worked_ = false;
    add(stats_.turns);
    probe_.task.store("completions", std::memory_order_relaxed);
    probe_.last_turn_start_ns.store(now_.value(), std::memory_order_relaxed);
    probe_.running_since_ns.store(now_.value(), std::memory_order_release);
}

void Loop::end_turn(Instant now) noexcept {
    if (!in_turn_) {
        return;
    }
    in_turn_ = false;
    probe_.running_since_ns.store(0, std::memory_order_release);
    const std::uint64_t duration_ns =
        now > turn_start_ ? now.value() - turn_start_.value() : std::uint64_t{0};
    if (duration_ns > stats_.longest_ns.load(std::memory_order_relaxed)) {
        stats_.longest_ns.store(duration_ns, std::memory_order_relaxed);
    }
    if (worked_ && options_.observer != nullptr) {
        options_.observer->on_turn(duration_ns);
    }
    if (duration_ns >= options_.slow_turn_ns) {
        add(stats_.slow_turns);
        end_turn_report(duration_ns);
    }
}

void Loop::end_turn_report(std::uint64_t duration_ns) noexcept {
    if (options_.observer == nullptr ||
        (last_report_ != Instant{0} && now_.value() - last_report_.value() < kReportIntervalNs)) {
        return;
    }
    last_report_ = now_;
    // The handler ran on this very thread, so a compiler fence orders it.
    const bool sampled =
        probe_.sampled_turn_ns.load(std::memory_order_relaxed) == turn_start_.value();
    std::atomic_signal_fence(std::memory_order_acquire);
    // Without a sample nothing is known: the label is that of the last hook, whatever took the
    // time.
    const char* task = sampled ? probe_.sampled_task : "unknown";
    options_.observer->on_slow_turn(
        duration_ns, task,
        std::span<void* const>(probe_.frames).first(sampled ? probe_.frame_count : 0));
}

void Loop::run_body(std::size_t completions) {
    bool hooks_worked = false;
    for (StartHook& hook : start_hooks_) {
        probe_.task.store(hook.name, std::memory_order_relaxed);
        hooks_worked = hook.run() || hooks_worked;
    }
    probe_.task.store("timers", std::memory_order_relaxed);
    const std::size_t fired = timers_.advance(now_);
    probe_.task.store("ready coroutines", std::memory_order_relaxed);
    const std::size_t resumed = ready_.run(options_.event_interval);
    for (EndHook& hook : end_hooks_) {
        probe_.task.store(hook.name, std::memory_order_relaxed);
        hook.run();
    }
    worked_ = completions != 0 || hooks_worked || fired != 0 || resumed != 0;
    must_go_on_ = hooks_worked || !ready_.empty();
    if (worked_ && spin_until_ != Instant{0}) {
        spin_until_ = Instant{0};
        adapt_spin(true);
    }
}

bool Loop::spin_on(Instant now) noexcept {
    if (spin_ns_ == 0) {
        return false;
    }
    if (spin_until_ == Instant{0}) {
        spin_until_ = now.plus(spin_ns_);
        return true;
    }
    if (now < spin_until_ && timers_.next_deadline() > now) {
        return true;
    }
    spin_until_ = Instant{0};
    adapt_spin(false);
    return false;
}

// Doubles when work arrived within reach of a poll and halves when a poll was for nothing; below a
// microsecond it is off, and a short sleep that ended with work switches it on again.
void Loop::adapt_spin(bool found_work_soon) noexcept {
    if (found_work_soon) {
        const std::uint64_t first = std::max(options_.busy_poll_ns / 8, kSpinMinNs);
        spin_ns_ = std::min(options_.busy_poll_ns, std::max(first, spin_ns_ * 2));
    } else {
        spin_ns_ /= 2;
        if (spin_ns_ < kSpinMinNs) {
            spin_ns_ = 0;
        }
    }
}

std::size_t Loop::sleep_and_reap() {
    const Instant start = io_.now();
    end_turn(start);
    GALGO_DCHECK(gates_closed_ == 0);
    bool may_sleep = true;
    for (SleepGate* gate : gates_) {
        if (!gate->before_sleep()) {
            may_sleep = false;
            break;
        }
        ++gates_closed_;
    }
    asleep_ = true;
    Instant until{0};
    if (may_sleep && !stop_requested()) {
        until = timers_.next_deadline();
        add(stats_.sleeps);
    } else {
        awake();  // a poll that cannot sleep does not call the hook, and completions run inside it
    }
    const std::size_t completions = io_.poll(until);
    awake();
    if (completions != 0 && options_.busy_poll_ns != 0 &&
        now_.value() - start.value() < options_.busy_poll_ns) {
        adapt_spin(true);
    }
    return completions;
}

void Loop::awake() noexcept {
    if (!asleep_) {
        return;
    }
    asleep_ = false;
    for (; gates_closed_ != 0; --gates_closed_) {
        gates_[gates_closed_ - 1]->after_sleep();
    }
    begin_turn(io_.now());
}

}  // namespace galgo::runtime

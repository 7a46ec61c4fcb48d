#include "runtime/loop.hpp"

#include <gtest/gtest.h>

#include <string>

#include "coro/scope.hpp"
#include "fake_io_test.hpp"

namespace galgo::runtime {
namespace {

using coro::Anchor;
using coro::Task;

struct Fixture : coro::Anchored {
    explicit Fixture(LoopOptions options = {}) : loop(io, options), scope(loop.ready()) {}
    FakeIo io;
    Loop loop;
    coro::Scope scope;
    std::string trace;
};

Task<void> mark(Anchor<Fixture> f, std::string what) {
    co_await coro::yield_to(f->loop.ready());
    f->trace += what;
}

TEST(Loop, TurnHasTheDocumentedOrder) {
    Fixture f;
    f.io.completions_next = 1;
    f.io.on_complete = [&] { f.trace += "reap "; };
    f.loop.add_turn_start([&] {
        f.trace += "start ";
        return false;
    });
    f.loop.add_turn_end([&] { f.trace += "end "; });
    struct T : Timer {
        std::string* trace = nullptr;
    } timer;
    timer.trace = &f.trace;
    timer.fire = [](Timer& t) noexcept { *static_cast<T&>(t).trace += "timer "; };
    f.loop.timers().arm(timer, f.loop.now().plus(kMillisecond));
    f.scope.spawn(mark, Anchor(f), std::string("ready "));
    f.io.clock = f.io.clock.plus(2 * kMillisecond);
    EXPECT_TRUE(f.loop.run_turn());
    EXPECT_EQ(f.trace, "reap start timer ready end ");
    EXPECT_FALSE(f.loop.run_turn());
    EXPECT_EQ(f.loop.next_wake(), kNever);
    EXPECT_EQ(f.io.waits.size(), 2u);
}

TEST(Loop, ReadyWorkIsBoundedATurn) {
    Fixture f(LoopOptions{.event_interval = 2});
    for (int i = 0; i < 5; ++i) {
        f.scope.spawn(mark, Anchor(f), std::string("x"));
    }
    f.loop.run_turn();
    EXPECT_EQ(f.trace, "xx");
    EXPECT_EQ(f.loop.next_wake(), Instant{0});
    f.loop.run_turn();
    f.loop.run_turn();
    EXPECT_EQ(f.trace, "xxxxx");
}

Task<void> sleep_and_stop(Anchor<Fixture> f, std::uint64_t ns) {
    const Instant start = f->loop.now();
    co_await f->loop.sleep_for(ns);
    f->trace += std::to_string((f->loop.now().value() - start.value()) / kMillisecond);
    f->loop.stop();
}

TEST(Loop, BlocksUntilTheNextTimerAndSeesFreshTime) {
    Fixture f;
    f.scope.spawn(sleep_and_stop, Anchor(f), 30 * kMillisecond);
    f.loop.run();
    EXPECT_EQ(f.trace, "30");
    // One poll at the start and one that blocks, besides one at a border of the wheel.
    EXPECT_EQ(f.loop.stats().sleeps.load(), 2u);
    EXPECT_EQ(f.io.waits.size(), 3u);
    EXPECT_NE(f.io.waits[1], Instant{0});
    EXPECT_EQ(f.loop.stall_probe().running_since_ns.load(), 0u);
}

struct Gate : SleepGate {
    int before = 0;
    int after = 0;
    bool agree = true;
    bool before_sleep() noexcept override {
        ++before;
        return agree;
    }
    void after_sleep() noexcept override { ++after; }
};

TEST(Loop, GatesAreLeftBeforeCompletionsRun) {
    Fixture f;
    Gate first;
    Gate second;
    f.loop.add_sleep_gate(first);
    f.loop.add_sleep_gate(second);
    f.io.during_sleep = [&] {
        EXPECT_EQ(first.before, 1);
        EXPECT_EQ(first.after, 0);
        EXPECT_EQ(f.loop.stall_probe().running_since_ns.load(), 0u);
        f.io.completions_next = 1;
    };
    f.io.on_complete = [&] {
        EXPECT_EQ(first.after, 1);
        EXPECT_EQ(second.after, 1);
        f.loop.stop();
    };
    f.loop.run();
    EXPECT_EQ(f.io.waits.back(), kNever);
}

TEST(Loop, AGateThatRefusesKeepsTheLoopAwake) {
    Fixture f;
    Gate first;
    Gate second;
    second.agree = false;
    f.loop.add_sleep_gate(first);
    f.loop.add_sleep_gate(second);
    int turns = 0;
    f.loop.add_turn_end([&] {
        if (++turns == 3) {
            f.loop.stop();
        }
    });
    f.loop.run();
    EXPECT_EQ(first.before, 2);
    EXPECT_EQ(first.after, 2);
    EXPECT_EQ(second.after, 0);
    EXPECT_EQ(f.loop.stats().sleeps.load(), 0u);
}

TEST(Loop, PollsOnBeforeBlockingOnlyAsLongAsItPays) {
    Fixture f(LoopOptions{.busy_poll_ns = 32 * kMicrosecond});
    int sleeps = 0;
    f.loop.add_turn_end([&] { f.io.clock = f.io.clock.plus(kMicrosecond); });
    f.io.during_sleep = [&] {
        f.io.clock = f.io.clock.plus(kSecond);
        if (++sleeps == 10) {
            f.loop.stop();
        }
    };
    std::vector<std::size_t> polls_before;
    f.loop.run();
    std::size_t polls = 0;
    for (const Instant wait : f.io.waits) {
        if (wait == Instant{0}) {
            ++polls;
        } else {
            polls_before.push_back(polls);
            polls = 0;
        }
    }
    ASSERT_EQ(polls_before.size(), 10u);
    EXPECT_GE(polls_before.front(), 30u);
    EXPECT_EQ(polls_before.back(), 0u);
}

struct Observer : LoopObserver {
    int turns = 0;
    int slow = 0;
    std::string task;
    std::size_t frames = 0;
    void on_turn(std::uint64_t) noexcept override { ++turns; }
    void on_slow_turn(std::uint64_t, const char* name,
                      std::span<void* const> backtrace) noexcept override {
        ++slow;
        task = name;
        frames = backtrace.size();
    }
};

TEST(Loop, SlowTurnsAreCountedAndReportedAtMostOnceASecond) {
    Observer observer;
    Fixture f(LoopOptions{.observer = &observer});
    f.loop.add_turn_start(
        [&] {
            StallProbe& probe = f.loop.stall_probe();
            f.io.clock = f.io.clock.plus(20 * kMillisecond);
            probe.sampled_turn_ns = probe.running_since_ns.load();
            probe.sampled_task = probe.task.load();
            probe.frame_count = 3;
            return true;
        },
        "slow hook");
    for (int i = 0; i < 10; ++i) {
        f.loop.run_turn();
    }
    EXPECT_EQ(observer.turns, 10);
    EXPECT_EQ(observer.slow, 1);
    EXPECT_EQ(observer.task, "slow hook");
    EXPECT_EQ(observer.frames, 3u);
    EXPECT_EQ(f.loop.stats().slow_turns.load(), 10u);
    EXPECT_EQ(f.loop.stats().longest_ns.load(), 20 * kMillisecond);
}

// The label at the end of a turn is that of its last hook, which may have taken no time at all.
TEST(Loop, ASlowTurnThatNobodySampledBlamesNobody) {
    Observer observer;
    Fixture f(LoopOptions{.observer = &observer});
    f.loop.add_turn_start(
        [&] {
            f.io.clock = f.io.clock.plus(20 * kMillisecond);
            return true;
        },
        "slow hook");
    f.loop.add_turn_end([] {}, "last hook");
    f.loop.run_turn();
    EXPECT_EQ(observer.slow, 1);
    EXPECT_EQ(observer.task, "unknown");
    EXPECT_EQ(observer.frames, 0u);
}

struct Periodic : coro::Anchored {
    explicit Periodic(Loop& loop) : sleeper(loop) {}
    Sleeper sleeper;
    int rounds = 0;
};

Task<void> run_periodic(Anchor<Periodic> p) {
    for (;;) {
        const bool passed = co_await p->sleeper.sleep_for(kSecond);
        if (!passed) {
            co_return;
        }
        ++p->rounds;
    }
}

TEST(Loop, ASleeperEndsEarlyWhenInterrupted) {
    Fixture f;
    Periodic p(f.loop);
    f.scope.spawn(run_periodic, Anchor(p));
    for (int i = 0; i < 3; ++i) {
        f.io.clock = f.io.clock.plus(1001 * kMillisecond);
        f.loop.run_turn();
    }
    EXPECT_EQ(p.rounds, 3);
    p.sleeper.interrupt();
    f.loop.run_turn();
    EXPECT_EQ(f.scope.inside(), 0u);
    EXPECT_EQ(f.loop.timers().armed_count(), 0u);
}

}  // namespace
}  // namespace galgo::runtime

#include "runtime/timer_wheel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace galgo::runtime {
namespace {

constexpr std::uint64_t kMs = kMillisecond;

struct TestTimer : Timer {
    TestTimer() : Timer([](Timer& t) noexcept { ++static_cast<TestTimer&>(t).fired; }) {}
    int fired = 0;
};

TEST(TimerWheel, FiresNeverEarlyAndAtMostATickLate) {
    TimerWheel wheel(Instant{5 * kMs});
    TestTimer timer;
    wheel.arm(timer, Instant{7 * kMs + 1});
    EXPECT_EQ(wheel.next_deadline(), Instant{8 * kMs});
    EXPECT_EQ(wheel.advance(Instant{7 * kMs + 999'999}), 0u);
    EXPECT_EQ(wheel.advance(Instant{8 * kMs}), 1u);
    EXPECT_EQ(timer.fired, 1);
    EXPECT_FALSE(timer.is_armed());
    EXPECT_EQ(wheel.next_deadline(), kNever);
}

TEST(TimerWheel, PastDeadlineFiresAtTheNextTick) {
    TimerWheel wheel(Instant{100 * kMs});
    TestTimer timer;
    wheel.arm(timer, Instant{3});
    EXPECT_EQ(wheel.advance(Instant{100 * kMs}), 0u);
    EXPECT_EQ(wheel.advance(Instant{101 * kMs}), 1u);
}

TEST(TimerWheel, NeverDisarms) {
    TimerWheel wheel(Instant{0});
    TestTimer timer;
    wheel.arm(timer, Instant{10 * kMs});
    wheel.arm(timer, kNever);
    EXPECT_FALSE(timer.is_armed());
    EXPECT_EQ(wheel.armed_count(), 0u);
    wheel.cancel(timer);
    EXPECT_EQ(wheel.advance(Instant{kSecond}), 0u);
}

TEST(TimerWheel, FarDeadlinesWork) {
    TimerWheel wheel(Instant{0});
    TestTimer far;
    const Instant deadline{UINT64_MAX - 10 * kMs};
    wheel.arm(far, deadline);
    EXPECT_LE(wheel.next_deadline(), deadline);
    std::size_t steps = 0;
    while (far.fired == 0) {
        wheel.advance(Instant{wheel.next_deadline().value()});
        ASSERT_LT(++steps, 20u);
    }
    EXPECT_EQ(far.fired, 1);
}

struct Chain : Timer {
    Chain(TimerWheel& w, Timer& other) : wheel(w), victim(other) {
        fire = [](Timer& t) noexcept {
            auto& self = static_cast<Chain&>(t);
            ++self.fired;
            self.wheel.cancel(self.victim);
            self.wheel.arm(self, Instant{0});
        };
    }
    TimerWheel& wheel;
    Timer& victim;
    int fired = 0;
};

TEST(TimerWheel, CallbackMayCancelADueTimerAndRearmItself) {
    TimerWheel wheel(Instant{0});
    TestTimer victim;
    Chain chain(wheel, victim);
    wheel.arm(chain, Instant{50 * kMs});
    wheel.arm(victim, Instant{50 * kMs});
    EXPECT_EQ(wheel.advance(Instant{400 * kMs}), 1u);  // one firing, though 350 ticks behind
    EXPECT_EQ(chain.fired, 1);
    EXPECT_EQ(victim.fired, 0);
    EXPECT_EQ(wheel.advance(Instant{401 * kMs}), 1u);
    wheel.cancel(chain);
}

// Law: against a sorted model, under random arms, cancels and steps of every size.
TEST(TimerWheel, AgreesWithAModel) {
    std::mt19937_64 random(20240517);
    std::uint64_t now = 123'456'789;
    TimerWheel wheel(Instant{now});
    std::vector<std::unique_ptr<TestTimer>> timers;
    std::vector<std::uint64_t> deadline(200, 0);
    for (int i = 0; i < 200; ++i) {
        timers.push_back(std::make_unique<TestTimer>());
    }
    std::size_t fired_total = 0;
    for (int step = 0; step < 20'000; ++step) {
        const std::size_t i = random() % timers.size();
        if (random() % 4 == 0) {
            wheel.cancel(*timers[i]);
        } else {
            deadline[i] = now + (random() >> (24 + random() % 36));
            wheel.arm(*timers[i], Instant{deadline[i]});
        }
        const Instant next = wheel.next_deadline();
        for (std::size_t k = 0; k < timers.size(); ++k) {
            if (timers[k]->is_armed()) {
                ASSERT_LE(next.value(), std::max(deadline[k], now) + 2 * kMs);
            }
        }
        now += random() >> (30 + random() % 30);
        std::vector<std::pair<std::size_t, bool>> expected;
        for (std::size_t k = 0; k < timers.size(); ++k) {
            timers[k]->fired = 0;
            expected.emplace_back(k, timers[k]->is_armed());
        }
        fired_total += wheel.advance(Instant{now});
        for (const auto& [k, armed] : expected) {
            if (!armed) {
                ASSERT_EQ(timers[k]->fired, 0);
            } else if (timers[k]->fired != 0) {
                ASSERT_EQ(timers[k]->fired, 1);
                ASSERT_LE(deadline[k], now) << "early";
            } else {
                ASSERT_GT(deadline[k] + 2 * kMs, now) << "late";
            }
        }
    }
    EXPECT_GT(fired_total, 1000u);
    for (auto& timer : timers) {
        wheel.cancel(*timer);
    }
    EXPECT_EQ(wheel.armed_count(), 0u);
}

}  // namespace
}  // namespace galgo::runtime

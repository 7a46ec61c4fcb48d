// A crash of a process of its own, and what it leaves on stderr.
#include "server/crash_report.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <thread>

namespace galgo::server {
namespace {

#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool kHasReport = false;  // the sanitizer reports instead
#else
constexpr bool kHasReport = true;
#endif

/// Runs over any stack: as much use of each frame before and after the call as keeps the compiler
/// from making it a loop.
// NOLINTNEXTLINE(misc-no-recursion): that is its purpose
int run_over(int depth) {
    if (depth < 0) {
        return 0;
    }
    volatile char frame[4096];
    frame[0] = static_cast<char>(depth);
    const int deeper = run_over(depth + 1);
    return deeper + frame[0];
}

void crash(bool on_a_thread) {
    const rlimit no_core{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_CORE, &no_core);
    install_crash_report();
    if (on_a_thread) {
        std::thread([] {
            const CrashStack stack;
            std::exit(run_over(0));
        }).join();
    }
    const CrashStack stack;
    std::exit(run_over(0));
}

TEST(CrashReportDeathTest, AStackThatRanOverIsReported) {
    if (!kHasReport) {
        GTEST_SKIP() << "a sanitizer reports in this build";
    }
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(crash(false), ::testing::KilledBySignal(SIGSEGV), "galgo: crash: SEGV");
    EXPECT_EXIT(crash(true), ::testing::KilledBySignal(SIGSEGV), "galgo: crash: SEGV");
}

TEST(CrashReport, AStackGoesWithItsThread) {
    for (int i = 0; i < 100; ++i) {
        std::thread([] {
            stack_t before{};
            stack_t within{};
            stack_t after{};
            sigaltstack(nullptr, &before);
            {
                const CrashStack stack;
                sigaltstack(nullptr, &within);
            }
            sigaltstack(nullptr, &after);
            EXPECT_EQ(before.ss_sp, after.ss_sp);
            EXPECT_EQ(before.ss_flags, after.ss_flags);
            EXPECT_EQ(within.ss_sp != before.ss_sp, kHasReport);
        }).join();
    }
}

}  // namespace
}  // namespace galgo::server

// Probe under refusing kernels, pinning, and the stall detector.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "runtime_uring/pinning.hpp"
#include "runtime_uring/probe.hpp"
#include "runtime_uring/stall_detector.hpp"
#include "test_loop_test.hpp"

namespace galgo::runtime_uring {
namespace {

using ::testing::Test;

TEST(Probe, WorksHere) {
    EXPECT_TRUE(probe().has_value());
}

// The errno that probe() gives in a child whose seccomp filter answers io_uring_setup with
// `refusal`.
int probe_under_filter(std::uint16_t refusal) {
    const pid_t child = ::fork();
    if (child == 0) {
        std::array<sock_filter, 4> code{{
            {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
            {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_io_uring_setup},
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | std::uint32_t{refusal}},
            {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
        }};
        sock_fprog program{.len = static_cast<std::uint16_t>(code.size()), .filter = code.data()};
        if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
            ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
            ::_exit(255);
        }
        const Status result = probe();
        ::_exit(result.has_value() ? 0 : result.error().os_errno);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Probe, ARefusalNamesTheSwitch) {
    EXPECT_EQ(probe_under_filter(EPERM), EPERM);
    const std::string forbidden = explain_setup_failure(EPERM);
    EXPECT_NE(forbidden.find("seccomp"), std::string::npos);
    EXPECT_NE(forbidden.find("kernel.io_uring_disabled"), std::string::npos);
    EXPECT_EQ(probe_under_filter(ENOSYS), ENOSYS);
    EXPECT_NE(explain_setup_failure(ENOSYS).find("6.1"), std::string::npos);
    EXPECT_EQ(probe_under_filter(ENOMEM), ENOMEM);
    EXPECT_NE(explain_setup_failure(ENOMEM).find("memlock"), std::string::npos);
    EXPECT_EQ(probe_under_filter(EINVAL), EINVAL);
    for (const int error : {EPERM, ENOSYS, ENOMEM, EINVAL, EMFILE, EIO}) {
        EXPECT_EQ(explain_setup_failure(error).find('\n'), std::string::npos);
    }
}

TEST(Pinning, AShardThreadHasItsNameCpuAndIndex) {
    const std::vector<int> allowed = allowed_cpus();
    ASSERT_FALSE(allowed.empty());
    std::thread thread([&] {
        ASSERT_TRUE(enter_shard_thread(ShardIndex{3}, allowed.back()).has_value());
        EXPECT_EQ(this_shard(), ShardIndex{3});
        EXPECT_EQ(allowed_cpus(), std::vector<int>{allowed.back()});
        std::array<char, 16> name{};
        ::pthread_getname_np(::pthread_self(), name.data(), name.size());
        EXPECT_STREQ(name.data(), "shard-3");
        EXPECT_FALSE(pin_this_thread(-1).has_value());
        EXPECT_FALSE(pin_this_thread(1000).has_value());
    });
    thread.join();
    EXPECT_EQ(allowed_cpus(), allowed);
}

struct Observer : runtime::LoopObserver {
    std::atomic<int> slow{0};
    std::string task;
    std::size_t frames = 0;
    void on_turn(std::uint64_t) noexcept override {}
    void on_slow_turn(std::uint64_t duration_ns, const char* name,
                      std::span<void* const> backtrace) noexcept override {
        EXPECT_GE(duration_ns, 10 * kMillisecond);
        task = name;
        frames = backtrace.size();
        ++slow;
    }
};

TEST(StallDetector, SamplesTheStackInsideASlowTurn) {
    StallDetector detector;
    UringGroup group(1);
    Observer observer;
    std::atomic<bool> done{false};
    std::thread shard_thread([&] {
        TestShard shard(group, ShardIndex{0}, {}, {.observer = &observer});
        detector.watch(shard.loop.stall_probe());
        bool first = true;
        shard.loop.add_turn_start([&] {
            if (first) {
                first = false;
                const runtime::TaskLabel label(shard.loop.stall_probe(), "long computation");
                const Instant end = shard.io().now().plus(kSecond);
                // Until the sample is there, as a stand-in for a computation without end.
                while (shard.loop.stall_probe().sampled_turn_ns.load() == 0 &&
                       shard.io().now() < end) {
                }
            } else {
                shard.loop.stop();
            }
            return true;
        });
        shard.loop.run();
        detector.unwatch();
        done = true;
    });
    while (!done) {
        const std::uint64_t wait_ns = detector.tick();
        EXPECT_LE(wait_ns, 10 * kMillisecond);
        std::this_thread::sleep_for(std::chrono::nanoseconds(std::max<std::uint64_t>(wait_ns, 1)));
    }
    shard_thread.join();
    EXPECT_EQ(observer.slow.load(), 1);
    EXPECT_EQ(observer.task, "long computation");
    EXPECT_GT(observer.frames, 3u);
}

TEST(StallDetector, SignalsATurnOnceAndSaysWhenToLookAgain) {
    StallDetector detector(10 * kMillisecond);
    EXPECT_EQ(detector.check(Instant{kSecond}).next_after_ns, 10 * kMillisecond);
    set_this_shard(ShardIndex{5});
    runtime::StallProbe probe;
    detector.watch(probe);
    const auto check = [&](std::uint64_t now) { return detector.check(Instant{now}); };
    EXPECT_EQ(check(kSecond).next_after_ns, 10 * kMillisecond);  // between turns
    probe.running_since_ns = kSecond;
    StallDetector::Check seen = check(kSecond + 3 * kMillisecond);
    EXPECT_EQ(seen.signalled, 0u);
    EXPECT_EQ(seen.next_after_ns, 7 * kMillisecond);
    EXPECT_EQ(probe.sampled_turn_ns.load(), 0u);
    seen = check(kSecond + 10 * kMillisecond);
    EXPECT_EQ(seen.signalled, 1u);
    EXPECT_EQ(seen.next_after_ns, 10 * kMillisecond);
    EXPECT_EQ(probe.sampled_turn_ns.load(), kSecond);  // this very thread had the signal
    EXPECT_GT(probe.frame_count, 0u);
    EXPECT_EQ(check(kSecond + 20 * kMillisecond).signalled, 0u);
    probe.running_since_ns = 2 * kSecond;
    EXPECT_EQ(check(3 * kSecond).signalled, 1u);
    detector.unwatch();
    set_this_shard(kNoShard);
}

}  // namespace
}  // namespace galgo::runtime_uring

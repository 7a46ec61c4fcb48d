#include "runtime_uring/stall_detector.hpp"

#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>

#include "base/check.hpp"
#include "base/this_shard.hpp"

namespace galgo::runtime_uring {

namespace {

constexpr std::size_t kShardsMax = 1024;
// The handler finds its shard's probe here.
std::array<std::atomic<runtime::StallProbe*>, kShardsMax> g_probes{};

void on_signal(int) {
    const int saved_errno = errno;
    const std::size_t shard = this_shard().value();
    runtime::StallProbe* probe =
        shard < kShardsMax ? g_probes[shard].load(std::memory_order_relaxed) : nullptr;
    if (probe != nullptr) {
        const std::uint64_t turn = probe->running_since_ns.load(std::memory_order_relaxed);
        if (turn != 0 && probe->sampled_turn_ns.load(std::memory_order_relaxed) != turn) {
            const int count = ::backtrace(probe->frames.data(), runtime::StallProbe::kFramesMax);
            probe->frame_count = static_cast<std::uint32_t>(count > 0 ? count : 0);
            probe->sampled_task = probe->task.load(std::memory_order_relaxed);
            std::atomic_signal_fence(std::memory_order_release);
            probe->sampled_turn_ns.store(turn, std::memory_order_relaxed);
        }
    }
    errno = saved_errno;
}

}  // namespace

StallDetector::StallDetector(std::uint64_t limit_ns) : limit_ns_(limit_ns) {
    std::array<void*, 4> frames{};
    (void)::backtrace(frames.data(), static_cast<int>(frames.size()));
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    GALGO_CHECK(::sigaction(SIGURG, &action, nullptr) == 0);
}

StallDetector::~StallDetector() {
    GALGO_CHECK(watched_.empty());
    ::signal(SIGURG, SIG_DFL);
}

void StallDetector::watch(runtime::StallProbe& probe) {
    const ShardIndex shard = this_shard();
    GALGO_CHECK(shard.value() < kShardsMax);
    g_probes[shard.value()].store(&probe, std::memory_order_relaxed);
    const std::lock_guard lock(mutex_);
    watched_.push_back({.shard = shard,
                        .thread = static_cast<pid_t>(::syscall(SYS_gettid)),
                        .probe = &probe,
                        .signalled_turn_ns = 0});
}

void StallDetector::unwatch() {
    const std::lock_guard lock(mutex_);
    std::erase_if(watched_, [](const Watched& entry) { return entry.shard == this_shard(); });
    g_probes[this_shard().value()].store(nullptr, std::memory_order_relaxed);
}

StallDetector::Check StallDetector::check(Instant now) noexcept {
    Check result{.next_after_ns = limit_ns_};
    const std::lock_guard lock(mutex_);
    for (Watched& entry : watched_) {
        const std::uint64_t since = entry.probe->running_since_ns.load(std::memory_order_acquire);
        if (since == 0 || since == entry.signalled_turn_ns) {
            continue;
        }
        const std::uint64_t limit = since + limit_ns_;
        if (now.value() < limit) {
            result.next_after_ns = std::min(result.next_after_ns, limit - now.value());
            continue;
        }
        entry.signalled_turn_ns = since;
        if (::syscall(SYS_tgkill, ::getpid(), entry.thread, SIGURG) == 0) {
            ++result.signalled;
        }
    }
    return result;
}

std::uint64_t StallDetector::tick() noexcept {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return check(Instant{static_cast<std::uint64_t>(time.tv_sec) * kSecond +
                         static_cast<std::uint64_t>(time.tv_nsec)})
        .next_after_ns;
}

}  // namespace galgo::runtime_uring

// The log thread, its ring and its life: start, drain, stop; and the emergency path past all of it.
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>
#include <vector>

#include "observe/detail/line_ring.hpp"
#include "observe/detail/logger.hpp"
#include "observe/detail/sinks.hpp"

namespace galgo::observe {
namespace {

namespace fs = std::filesystem;
using detail::LineRing;

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
constexpr std::uint64_t kIdleNsMax = 500'000'000;  ///< the longest nap: how late a check may come

std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kNsPerSecond +
           static_cast<std::uint64_t>(now.tv_nsec);
}

struct Logger {
    LineRing ring;
    std::atomic<std::uint64_t> dropped{0};
    // 1 while the log thread sleeps or is about to. A producer that takes the 1 away wakes it.
    std::atomic<std::uint32_t> asleep{0};
    std::atomic<bool> stopping{false};

    std::thread thread;
    std::unique_ptr<detail::Sinks> sinks;
    LogSettings settings;
    LogTick tick;
    std::uint64_t dropped_reported = 0;  // log thread only
};

/// Never destroyed: a thread may log while the process ends.
Logger& logger() noexcept {
    static auto* const instance = new Logger;
    return *instance;
}

/// Path of the open log file for the crash path; empty = none.
constexpr std::size_t kPathMax = 512;
char g_path[kPathMax] = {};

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
                std::uint64_t ns) noexcept {
    timespec timeout{.tv_sec = static_cast<std::time_t>(ns / kNsPerSecond),
                     .tv_nsec = static_cast<long>(ns % kNsPerSecond)};
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, &timeout, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

std::size_t drain(Logger& log) {
    std::size_t lines = 0;
    const auto write = [&log](LogLevel level, std::string_view line) {
        log.sinks->write(level, line);
    };
    while (lines < LineRing::kCapacity && log.ring.pop(write)) {
        ++lines;
    }
    const std::uint64_t dropped = log.dropped.load(std::memory_order_relaxed);
    if (dropped != log.dropped_reported) {
        const std::string line = detail::format_line(
            LogLevel::kWarn, "observe", "log lines lost, the queue was full",
            {{"lines", dropped - log.dropped_reported}, {"lines_in_all", dropped}});
        log.sinks->write(LogLevel::kWarn, line);
        log.dropped_reported = dropped;
        ++lines;
    }
    return lines;
}

/// Calls the tick when it is due; returns when it is due next, by the monotonic clock.
std::uint64_t run_tick(const LogTick& tick, std::uint64_t due_ns) noexcept {
    if (tick.run == nullptr || monotonic_ns() < due_ns) {
        return due_ns;
    }
    const std::uint64_t wait_ns = std::clamp(tick.run(tick.context), kLogTickNsMin, kIdleNsMax);
    return monotonic_ns() + wait_ns;
}

void run(Logger& log) {
    pthread_setname_np(pthread_self(), "log");
    // Nice is a property of the thread on Linux; a refusal leaves it as it was.
    setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
    std::uint64_t checked_at = monotonic_ns();
    std::uint64_t tick_due_ns = log.tick.run != nullptr ? 0 : UINT64_MAX;
    for (;;) {
        tick_due_ns = run_tick(log.tick, tick_due_ns);
        const bool last_round = log.stopping.load(std::memory_order_acquire);
        const std::size_t lines = drain(log);
        if (lines != 0) {
            log.sinks->flush();
        }
        if (last_round) {
            return;  // what was in the ring when the stop was ordered is out; it holds no more
        }
        if (lines != 0) {
            continue;
        }
        if (log.settings.check_interval_ns != 0 &&
            monotonic_ns() - checked_at >= log.settings.check_interval_ns) {
            checked_at = monotonic_ns();
            remove_old_logs(log.settings, std::time(nullptr));
        }
        // Announce, look again, sleep: a line published after the look finds the announcement.
        log.asleep.store(1, std::memory_order_seq_cst);
        if (log.ring.empty() && !log.stopping.load(std::memory_order_seq_cst)) {
            const std::uint64_t now = monotonic_ns();
            futex_wait(log.asleep, 1,
                       std::min(kIdleNsMax, tick_due_ns - std::min(now, tick_due_ns)));
        }
        log.asleep.store(0, std::memory_order_relaxed);
    }
}

void wake(Logger& log) noexcept {
    // Pairs with the announcement in run(): either this load sees it, or that look sees the line.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (log.asleep.load(std::memory_order_relaxed) == 1 &&
        log.asleep.exchange(0, std::memory_order_acq_rel) == 1) {
        futex_wake(log.asleep);
    }
}

void write_all(int fd, std::string_view text) noexcept {
    while (!text.empty()) {
        const ssize_t n = ::write(fd, text.data(), text.size());
        if (n <= 0) {
            return;
        }
        text.remove_prefix(static_cast<std::size_t>(n));
    }
}

}  // namespace

namespace detail {

void submit(LogLevel level, std::string_view line) noexcept {
    Logger& log = logger();
    if (!log.ring.push(level, line)) {
        log.dropped.fetch_add(1, std::memory_order_relaxed);
        return;
    }
    wake(log);
}

}  // namespace detail

std::string start_log(const LogSettings& settings, LogTick tick) {
    Logger& log = logger();
    if (log.thread.joinable()) {
        return "the log is started already";
    }
    std::string error;
    log.settings = settings;
    log.tick = tick;
    log.sinks = detail::open_sinks(settings, error);
    log.stopping.store(false, std::memory_order_relaxed);
    g_path[0] = '\0';
    const std::string path = (fs::path(settings.directory) / kLogFileName).string();
    if (!settings.directory.empty() && error.empty() && path.size() < kPathMax) {
        std::copy_n(path.c_str(), path.size() + 1, g_path);
    }
    log.thread = std::thread([&log] { run(log); });
    return error;
}

void stop_log() noexcept {
    Logger& log = logger();
    if (!log.thread.joinable()) {
        const auto write = [](LogLevel, std::string_view line) {
            write_all(STDERR_FILENO, line);
            write_all(STDERR_FILENO, "\n");
        };
        while (log.ring.pop(write)) {
        }
        return;
    }
    log.stopping.store(true, std::memory_order_seq_cst);
    wake(log);
    log.thread.join();
    log.sinks->flush();
    log.sinks.reset();
}

void log_write_now(std::string_view text) noexcept {
    write_all(STDERR_FILENO, text);
    if (g_path[0] != '\0') {
        const int fd = ::open(g_path, O_WRONLY | O_APPEND | O_CLOEXEC);
        if (fd >= 0) {
            write_all(fd, text);
            ::close(fd);
        }
    }
}

std::uint64_t log_dropped_lines() noexcept {
    return logger().dropped.load(std::memory_order_relaxed);
}

std::size_t remove_old_logs(const LogSettings& settings, std::int64_t now_seconds) noexcept {
    struct File {
        fs::path path;
        std::int64_t written_at;
        std::uint64_t size;
    };
    std::size_t removed = 0;
    try {
        std::vector<File> files;
        std::uint64_t total = 0;
        for (const fs::directory_entry& entry : fs::directory_iterator(settings.directory)) {
            const std::string name = entry.path().filename().string();
            if (!name.starts_with("iggy-server") || !entry.is_regular_file()) {
                continue;
            }
            total += entry.file_size();
            if (name != kLogFileName) {
                const auto age = fs::file_time_type::clock::now() - entry.last_write_time();
                const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(age).count();
                files.push_back({entry.path(), std::time(nullptr) - seconds, entry.file_size()});
            }
        }
        std::ranges::sort(files, {}, &File::written_at);
        const auto retention = static_cast<std::int64_t>(settings.retention_ns / kNsPerSecond);
        for (const File& file : files) {
            const bool too_old = retention != 0 && now_seconds - file.written_at > retention;
            const bool too_much = settings.max_total_size != 0 && total > settings.max_total_size;
            if (!too_old && !too_much) {
                break;
            }
            if (fs::remove(file.path)) {
                total -= file.size;
                ++removed;
            }
        }
    } catch (const std::exception&) {
        // The next check tries again.
    }
    return removed;
}

}  // namespace galgo::observe

// Log lines: a constant message and key=value pairs. A caller formats its line on its own stack and
// puts it into a bounded lock-free ring; one log thread at nice 19 drains the ring into the sinks.
// A caller never waits: when the ring is full the line is dropped and counted, and the count is
// logged once there is room. Lines made before `start_log` wait in the ring. The same thread
// carries a periodic tick for whoever has to look at the shards from outside (LogTick).
//
//   log_info("partitions", "opened", {{"partition", "1/2/3"}, {"segments", segments.size()}});
//   2026-09-18T10:00:00.000000Z  INFO shard-0 partitions: opened partition=1/2/3 segments=4
//
// Limits: a line is cut at 1024 bytes; 1024 lines wait at most. Line breaks in values are escaped.
// error = an operator must act; warn = degraded; info = life cycle; the data path logs at debug at
// most.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/ids.hpp"

namespace galgo::observe {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

template <class T>
concept StrongIdLike = requires(const T& id) {
    typename T::value_type;
    { id.value() } -> std::convertible_to<typename T::value_type>;
} && std::unsigned_integral<typename T::value_type>;

/// One key=value pair; borrows its texts for the duration of the call.
class Field {
 public:
    Field(std::string_view key, std::string_view value) noexcept : key_(key), text_(value) {}
    Field(std::string_view key, const char* value) noexcept : key_(key), text_(value) {}
    Field(std::string_view key, const std::string& value) noexcept : key_(key), text_(value) {}
    Field(std::string_view key, bool value) noexcept : key_(key), text_(value ? "true" : "false") {}
    template <std::integral T>
        requires(!std::same_as<T, bool>)
    Field(std::string_view key, T value) noexcept
        : key_(key),
          kind_(std::signed_integral<T> ? Kind::kSigned : Kind::kUnsigned),
          number_(static_cast<std::uint64_t>(value)) {}
    template <StrongIdLike T>
    Field(std::string_view key, const T& id) noexcept
        : key_(key), kind_(Kind::kUnsigned), number_(static_cast<std::uint64_t>(id.value())) {}

    /// Appends "key=value" to `out`, at most `capacity` bytes; returns the bytes written.
    std::size_t format(char* out, std::size_t capacity) const noexcept;

 private:
    enum class Kind : std::uint8_t { kText, kSigned, kUnsigned };
    std::string_view key_;
    std::string_view text_;
    Kind kind_ = Kind::kText;
    std::uint64_t number_ = 0;
};

using Fields = std::initializer_list<Field>;

/// Is a line of that level and module written at all? Cheap: one relaxed load where no module has a
/// level of its own.
[[nodiscard]] bool log_enabled(LogLevel level, std::string_view module) noexcept;

/// Any thread; never waits, allocates nothing.
void log(LogLevel level, std::string_view module, std::string_view message,
         Fields fields = {}) noexcept;

inline void log_debug(std::string_view module, std::string_view message,
                      Fields fields = {}) noexcept {
    log(LogLevel::kDebug, module, message, fields);
}
inline void log_info(std::string_view module, std::string_view message,
                     Fields fields = {}) noexcept {
    log(LogLevel::kInfo, module, message, fields);
}
inline void log_warn(std::string_view module, std::string_view message,
                     Fields fields = {}) noexcept {
    log(LogLevel::kWarn, module, message, fields);
}
inline void log_error(std::string_view module, std::string_view message,
                      Fields fields = {}) noexcept {
    log(LogLevel::kError, module, message, fields);
}

/// "info" or "info,net=debug,storage=trace": at most 16 modules. False and no change when
/// malformed. Call it while the process has one thread.
[[nodiscard]] bool set_log_filter(std::string_view filter) noexcept;

struct LogSettings {
    bool to_stdout = true;
    std::string directory{};              ///< empty = no file; made when absent
    std::uint64_t max_file_size = 0;      ///< bytes; 0 = one unbounded file
    std::uint64_t max_total_size = 0;     ///< bytes; 0 = unlimited
    std::uint64_t retention_ns = 0;       ///< 0 = for ever
    std::uint64_t check_interval_ns = 0;  ///< how often age and total are looked at; 0 = never
};

/// Work for the log thread between its lines. `run` returns after how many nanoseconds it wants to
/// be called again (at least kLogTickNsMin is waited); it must be short, and a line it logs is
/// written after it. A tick comes late while the thread waits for a core or for a slow disk.
struct LogTick {
    using Run = std::uint64_t (*)(void* context) noexcept;
    Run run = nullptr;
    void* context = nullptr;  ///< outlives the log thread
};
inline constexpr std::uint64_t kLogTickNsMin = 500'000;

inline constexpr std::string_view kLogFileName = "iggy-server.log";

/// Opens the sinks and starts the log thread. The error text says which file could not be opened;
/// the standard output is in use then all the same. Main thread, once.
[[nodiscard]] std::string start_log(const LogSettings& settings, LogTick tick = {});

/// Drains the ring, flushes and ends the log thread. Without a started log the waiting lines go to
/// stderr. Main thread; a later start_log starts afresh.
void stop_log() noexcept;

/// Straight to stderr and the log file, past the ring. Async-signal-safe: for the crash path.
void log_write_now(std::string_view text) noexcept;

/// Lines lost so far because the ring was full.
[[nodiscard]] std::uint64_t log_dropped_lines() noexcept;

/// Lets through `per_second` events in each second of the clock passed in, counts the others. One
/// thread.
class RateLimit {
 public:
    explicit RateLimit(std::uint32_t per_second) noexcept : per_second_(per_second) {}

    [[nodiscard]] bool allow(Instant now) noexcept;
    /// How many were refused since the last call.
    [[nodiscard]] std::uint64_t take_suppressed() noexcept;

 private:
    std::uint32_t per_second_;
    std::uint32_t used_ = 0;
    std::uint64_t window_ = 0;
    std::uint64_t suppressed_ = 0;
};

/// Removes rotated log files of `directory` that are older than `retention_ns` (0 = none), then the
/// oldest until the rest together has at most `max_total_size` bytes (0 = any). The file being
/// written stays. `now_seconds`: Unix time. Returns how many went. Blocks on the file system: log
/// thread only.
std::size_t remove_old_logs(const LogSettings& settings, std::int64_t now_seconds) noexcept;

}  // namespace galgo::observe

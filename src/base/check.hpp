// Assertions of programmer errors. GALGO_CHECK is on in every build: a broken invariant stops the
// process with the expression, the place and a backtrace, because going on would risk stored data.
// Never used on bytes from disk or network: those are values (see base/error.hpp).
// GALGO_DCHECK is on where GALGO_DEBUG_CHECKS is defined (dev, tsan, fuzz, simulator).
#pragma once

namespace galgo {

/// Prints `expression` and its place to stderr, runs the crash hook and aborts. Any thread.
[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;

/// Called once, before abort, by check_failed and by the fatal-signal handlers of the server:
/// writes what it knows (backtrace, shard) to stderr and log. Must be async-signal-safe.
using CrashHook = void (*)() noexcept;
void set_crash_hook(CrashHook hook) noexcept;

}  // namespace galgo

#define GALGO_CHECK(condition)                                          \
    do {                                                                \
        if (!(condition)) [[unlikely]] {                                \
            ::galgo::check_failed(#condition, __FILE_NAME__, __LINE__); \
        }                                                               \
    } while (false)

#ifdef GALGO_DEBUG_CHECKS
#define GALGO_DCHECK(condition) GALGO_CHECK(condition)
#else
#define GALGO_DCHECK(condition) \
    do {                        \
        if (false) {            \
            (void)(condition);  \
        }                       \
    } while (false)
#endif

#include "base/check.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace galgo {

namespace {
std::atomic<CrashHook> g_crash_hook{nullptr};
}  // namespace

void set_crash_hook(CrashHook hook) noexcept {
    g_crash_hook.store(hook, std::memory_order_release);
}

void check_failed(const char* expression, const char* file, int line) noexcept {
    std::fprintf(stderr, "galgo: check failed: %s (%s:%d)\n", expression, file, line);
    std::fflush(stderr);
    // Taken once: a check that fails inside the hook must not run it again.
    if (CrashHook hook = g_crash_hook.exchange(nullptr, std::memory_order_acq_rel)) {
        hook();
    }
    std::abort();
}

}  // namespace galgo

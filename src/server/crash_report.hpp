// What is said when the process must stop: signal, build id, shard, backtrace, to stderr and log.
// Async-signal-safe; symbols are resolved by whoever reads it (addr2line, build id).
#pragma once

#include <csignal>

namespace galgo::server {

/// Installs the hook of failed checks and handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT.
void install_crash_report();

/// Room for the handlers beside the stack of the calling thread: without it a stack that ran over
/// leaves no report. One a thread, made on it and destroyed on it. Nothing where memory is short or
/// a sanitizer reports.
class CrashStack {
 public:
    CrashStack() noexcept;
    CrashStack(const CrashStack&) = delete;
    CrashStack& operator=(const CrashStack&) = delete;
    ~CrashStack();

 private:
    void* memory_ = nullptr;
    stack_t before_{};
};

}  // namespace galgo::server

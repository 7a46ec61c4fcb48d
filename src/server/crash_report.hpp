// What is said when the process must stop: signal, build id, backtrace, shard, last trace events,
// to stderr and log. Async-signal-safe; symbols are resolved by whoever reads it (addr2line, build
// id).
#pragma once

namespace galgo::server {

/// Installs the hook of failed checks and handlers for SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT.
void install_crash_report();

}  // namespace galgo::server

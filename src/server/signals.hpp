// Termination signals: SIGINT, SIGTERM, and SIGHUP unless it was ignored when the process began (as
// nohup does). They are shard 0's: every other thread blocks them. Until the process serves they
// end it, for it has promised nothing yet and a start may wait long. While it serves they are
// blocked and read from a signalfd by shard 0's loop, so that a stop begins in ordinary code.
// During the stop another one ends the process at once; the same one a second time is only told.
// Whenever that is, it is what kill -9 is.
#pragma once

#include "base/error.hpp"
#include "runtime/io.hpp"

namespace galgo::server {

/// Blocks the signals for this thread and all it starts; ignores SIGPIPE. Call before any thread
/// exists.
[[nodiscard]] Result<runtime::FileHandle> open_signal_file();

// Of the calling thread, which is shard 0's:

/// A signal ends the process, also one that came while they were blocked.
void let_signals_end_start() noexcept;
/// Blocked again; threads started now inherit that.
void hold_signals() noexcept;
/// SIGINT or SIGTERM ends the process with one line and status 1, `began_with` when it comes a
/// third time (0: the stop began without a signal). SIGHUP stays blocked: a terminal that closes
/// may send more than one.
void let_signals_end_stop(int began_with) noexcept;

}  // namespace galgo::server

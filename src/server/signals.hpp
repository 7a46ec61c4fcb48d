// Termination signals as a file: SIGINT and SIGTERM are blocked in every thread and read from a
// signalfd by shard 0's loop, so that a stop begins in ordinary code.
#pragma once

#include "base/error.hpp"
#include "runtime/io.hpp"

namespace galgo::server {

/// Blocks the signals for this thread and all it starts; ignores SIGPIPE. Call before any thread
/// exists.
[[nodiscard]] Result<runtime::FileHandle> open_signal_file();

}  // namespace galgo::server

// Log lines for a tool that shows them in its own way.
#pragma once

#include <string_view>

#include "observe/log.hpp"

namespace galgo::observe {

/// Takes all lines, whatever the filter says, instead of the log. Called on the thread that logs;
/// what it gets is borrowed. Null: the log again. Set it while the process has one thread.
using LogCapture = void (*)(void* context, LogLevel level, std::string_view module,
                            std::string_view message, Fields fields);
void capture_log(LogCapture capture, void* context) noexcept;

}  // namespace galgo::observe

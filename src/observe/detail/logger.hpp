// Between the facade (log.cpp: filter and format) and the log thread (log_thread.cpp).
#pragma once

#include <string>
#include <string_view>

#include "observe/log.hpp"

namespace galgo::observe::detail {

/// Hands a formatted line to the ring, counts it when that is full. Any thread; never waits.
void submit(LogLevel level, std::string_view line) noexcept;

/// Writes the line into `out`; returns its bytes, at most `capacity`.
std::size_t format_line(LogLevel level, std::string_view module, std::string_view message,
                        Fields fields, char* out, std::size_t capacity) noexcept;

/// The same as a string; for the log thread's own lines.
[[nodiscard]] std::string format_line(LogLevel level, std::string_view module,
                                      std::string_view message, Fields fields);

}  // namespace galgo::observe::detail

// Where lines end up. Owned and used by the log thread alone (by the main thread before it starts
// and after it has ended). Keeps spdlog in one source file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "observe/log.hpp"

namespace galgo::observe::detail {

class Sinks {
 public:
    virtual ~Sinks() = default;
    virtual void write(LogLevel level, std::string_view line) noexcept = 0;
    virtual void flush() noexcept = 0;
};

/// Standard output and file as the settings say. `error` gets the reason when there is no file.
[[nodiscard]] std::unique_ptr<Sinks> open_sinks(const LogSettings& settings, std::string& error);

}  // namespace galgo::observe::detail

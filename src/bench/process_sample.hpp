// What another process used so far, from the side: /proc/PID/stat and /proc/PID/io. Linux only; any
// thread. CPU time counts in clock ticks (10 ms), so measure at least some hundred of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace galgo::bench {

struct ProcessSample {
    double user_seconds = 0;
    double system_seconds = 0;
    std::uint64_t write_calls_bytes = 0;  ///< wchar: what write calls handed over, sockets included
    std::uint64_t storage_write_bytes = 0;  ///< write_bytes: what went towards the disk

    [[nodiscard]] double cpu_seconds() const noexcept { return user_seconds + system_seconds; }
};

/// Nothing if the process is gone; the byte counts stay 0 where io may not be read.
[[nodiscard]] std::optional<ProcessSample> sample_process(std::uint32_t process_id);

/// `later` - `earlier`.
[[nodiscard]] ProcessSample difference(const ProcessSample& later, const ProcessSample& earlier);

/// Reads the text of the two files. Nothing if a field is missing.
[[nodiscard]] std::optional<ProcessSample> parse_process_sample(std::string_view stat,
                                                                std::string_view io,
                                                                double ticks_per_second);

}  // namespace galgo::bench

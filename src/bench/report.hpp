// One row a measurement, shown as a line of a table or as one line of JSON. Medians over rounds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/process_sample.hpp"
#include "observe/histogram.hpp"

namespace galgo::bench {

struct Row {
    std::string server;  ///< address, or "limit" for the bare machine
    std::string name;    ///< produce, consume, send-ack, ...
    std::uint64_t requests = 0;
    std::uint64_t messages = 0;
    std::uint64_t payload_bytes = 0;
    double seconds = 0;
    // Of one request, microseconds.
    double p50_us = 0;
    double p99_us = 0;
    double p999_us = 0;
    double max_us = 0;
    std::optional<ProcessSample> used;  ///< by the server meanwhile

    [[nodiscard]] double megabytes_per_second() const noexcept;  ///< 10^6 payload bytes
    [[nodiscard]] double messages_per_second() const noexcept;
    /// CPU seconds of the server for 10^9 payload bytes; nothing without a sample.
    [[nodiscard]] std::optional<double> cpu_seconds_per_gigabyte() const noexcept;
};

/// Fills the percentiles from a histogram of nanoseconds.
void set_latencies(Row& row, const observe::Histogram& nanoseconds);

enum class Format : std::uint8_t { kTable, kJson };

/// Column names; empty for JSON.
[[nodiscard]] std::string header_line(Format format);
[[nodiscard]] std::string line(const Row& row, Format format);

/// Each field the median of the field in `rows` (at least one; of two middle ones the lower), which
/// are rounds of the same measurement; `used` is that of the round with the median CPU time.
[[nodiscard]] Row median(std::span<const Row> rows);

/// How `row` stands to `base`: throughput, p50 and CPU, as factors.
[[nodiscard]] std::string ratio_line(const Row& row, const Row& base, Format format);

}  // namespace galgo::bench

// What a campaign of runs adds up to, its table, and whether it saw enough. Plain values, so that a
// campaign can be shared among processes and added up.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "consensus/marks.hpp"
#include "sim/cluster.hpp"
#include "sim/faults.hpp"

namespace galgo::sim {

struct Totals {
    std::uint64_t runs = 0;
    std::uint64_t runs_alone = 0;
    std::uint64_t passed = 0;
    std::uint64_t passed_alone = 0;
    std::uint64_t unavailable = 0;
    std::uint64_t ticks = 0;
    std::uint64_t ticks_alone = 0;
    std::uint64_t events = 0;
    std::uint64_t committed = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t trace = 0;  ///< of all traces, in whatever order

    // Filled in by take_counts.
    std::uint64_t restarts = 0;
    std::uint64_t boots_refused = 0;
    FaultCounts faults;
    SimMarkCounts marks;
    std::array<std::uint64_t, static_cast<std::size_t>(consensus::Mark::kCount)> core_marks{};

    void add(std::uint64_t seed, const RunResult& result) noexcept;
    /// The counters of all runs of one Cluster, once.
    void take_counts(const Context& context) noexcept;
    void add(const Totals& other) noexcept;
};

/// Totals, then how often each fault struck and each marked branch was taken; `cpu_seconds` of all
/// processes that ran.
[[nodiscard]] std::string describe(const Totals& totals, double cpu_seconds);

/// What did not happen often enough: a kind of fault less than `each` times, a mark never, fewer
/// than 10 * `each` restarts, too small a share of runs that passed. Empty when there is no such
/// thing. Of the core's marks, those are left out that nothing here leads to (report.cpp names
/// them).
[[nodiscard]] std::string describe_lacking(const Totals& totals, std::uint64_t each);

}  // namespace galgo::sim

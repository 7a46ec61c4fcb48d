// Rounds over several servers in turns (limits, A, B, limits, A, B, ...), then medians and ratios:
// a machine that gets slower meanwhile slows all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "bench/limits.hpp"
#include "bench/workload.hpp"

namespace galgo::bench {

struct CompareOptions {
    std::vector<WorkloadOptions> servers;  ///< the first one is the base of the ratios
    LimitOptions limits;
    std::uint32_t rounds = 1;
    bool with_limits = true;
    Format format = Format::kTable;
};

/// Prints rows of each round, then (from two rounds on) medians, then ratios, through `print`. Each
/// round makes the streams of the workload anew and drops them. Stops at the first error.
[[nodiscard]] Status compare(const CompareOptions& options,
                             const std::function<void(const std::string&)>& print);

}  // namespace galgo::bench

// Reads what the machine and the control group grant this process: affinity mask, CPU quota,
// physical cores, NUMA nodes. Call it on the main thread before any thread is pinned.
#pragma once

#include "config/cpu_allocation.hpp"

namespace galgo::config {

/// Never fails: what cannot be read counts as absent (no quota, each CPU a core of its own, node
/// 0).
[[nodiscard]] CPUTopology read_cpu_topology();

}  // namespace galgo::config

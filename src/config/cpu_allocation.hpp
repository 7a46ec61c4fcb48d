// How many shards, and on which CPUs: the value of `system.sharding.cpu_allocation` and its
// resolution against a machine. Pure; what the machine looks like comes as an argument
// (config/cpu_topology.hpp reads it). Forms: "all", a count, "numa:auto". Ranges and explicit NUMA
// nodes are refused by name.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace galgo::config {

/// One shard a CPU that this process may use.
struct AllCPUs {
    bool operator==(const AllCPUs&) const = default;
};
/// So many shards, on the lowest CPUs that this process may use.
struct CPUCount {
    std::uint32_t count = 1;
    bool operator==(const CPUCount&) const = default;
};
/// One shard a physical core of all NUMA nodes; the default.
struct NUMAAuto {
    bool operator==(const NUMAAuto&) const = default;
};
using CPUAllocation = std::variant<NUMAAuto, AllCPUs, CPUCount>;

/// Where a logical CPU sits. `core` is unique in the machine (package and core id packed).
struct CPULocation {
    int cpu = 0;
    std::uint32_t core = 0;
    std::uint32_t node = 0;
};

struct CPUTopology {
    std::vector<int> allowed_cpus{};          ///< affinity mask of the process, before any pinning
    std::uint32_t available_parallelism = 1;  ///< affinity mask and CPU quota taken together
    std::vector<CPULocation>
        locations{};  ///< a CPU missing here counts as a core of its own, node 0
};

/// The error is a text that says what is allowed. No white space is tolerated.
[[nodiscard]] std::expected<CPUAllocation, std::string> parse_cpu_allocation(std::string_view text);

/// As it stands in TOML: `"all"`, `"numa:auto"` (with quotes) or `4`.
[[nodiscard]] std::string cpu_allocation_literal(const CPUAllocation& allocation);

/// CPU of shard i at index i, ascending; never empty on success. The error is a text for the
/// operator: more shards than CPUs, an empty mask.
[[nodiscard]] std::expected<std::vector<int>, std::string> resolve_cpus(
    const CPUAllocation& allocation, const CPUTopology& topology);

/// What the operator should know when numa:auto gave `cpus` of more than one NUMA node; nothing
/// otherwise. One line.
[[nodiscard]] std::optional<std::string> numa_warning(const CPUAllocation& allocation,
                                                      const std::vector<int>& cpus,
                                                      const CPUTopology& topology);

}  // namespace galgo::config

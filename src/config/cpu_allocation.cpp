#include "config/cpu_allocation.hpp"

#include <algorithm>
#include <charconv>
#include <format>
#include <set>

namespace galgo::config {
namespace {

constexpr std::string_view kAllowed = R"(must be "all", a number of shards, or "numa:auto")";

std::unexpected<std::string> refuse(std::string text) {
    return std::unexpected(std::move(text));
}

std::vector<int> first(std::vector<int> cpus, std::size_t count) {
    cpus.resize(std::min(cpus.size(), count));
    return cpus;
}

const CPULocation* find_location(const CPUTopology& topology, int cpu) {
    const auto found = std::ranges::find(topology.locations, cpu, &CPULocation::cpu);
    return found == topology.locations.end() ? nullptr : &*found;
}

/// The lowest allowed CPU of each physical core, of all NUMA nodes.
std::vector<int> one_per_core(const std::vector<int>& allowed, const CPUTopology& topology) {
    std::set<std::uint32_t> cores;
    std::vector<int> cpus;
    for (const int cpu : allowed) {
        const CPULocation* location = find_location(topology, cpu);
        if (location == nullptr || cores.insert(location->core).second) {
            cpus.push_back(cpu);
        }
    }
    return cpus;
}

}  // namespace

std::expected<CPUAllocation, std::string> parse_cpu_allocation(std::string_view text) {
    if (text == "all") {
        return AllCPUs{};
    }
    if (text == "numa:auto") {
        return NUMAAuto{};
    }
    if (text.starts_with("numa:") || text.find("..") != std::string_view::npos) {
        return refuse(
            std::format("{}; ranges and NUMA nodes are not available in this version", kAllowed));
    }
    // A shard index has 16 bits, the highest being kept for "no shard".
    constexpr std::uint32_t kShardsMax = 65'534;
    std::uint32_t count = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
    if (error != std::errc{} || end != text.data() + text.size() || count == 0 ||
        count > kShardsMax) {
        return refuse(std::string(kAllowed));
    }
    return CPUCount{.count = count};
}

std::string cpu_allocation_literal(const CPUAllocation& allocation) {
    if (const auto* fixed = std::get_if<CPUCount>(&allocation)) {
        return std::to_string(fixed->count);
    }
    return std::holds_alternative<AllCPUs>(allocation) ? R"("all")" : R"("numa:auto")";
}

std::expected<std::vector<int>, std::string> resolve_cpus(const CPUAllocation& allocation,
                                                          const CPUTopology& topology) {
    std::vector<int> allowed = topology.allowed_cpus;
    std::ranges::sort(allowed);
    const auto duplicates = std::ranges::unique(allowed);
    allowed.erase(duplicates.begin(), duplicates.end());
    const std::size_t parallelism = topology.available_parallelism;
    if (allowed.empty() || parallelism == 0) {
        return refuse("this process may use no CPU");
    }
    if (std::holds_alternative<AllCPUs>(allocation)) {
        return first(allowed, parallelism);
    }
    if (const auto* fixed = std::get_if<CPUCount>(&allocation)) {
        const std::size_t available = std::min(parallelism, allowed.size());
        if (fixed->count == 0 || fixed->count > available) {
            return refuse(std::format("{} shards do not fit, this process may use {} CPUs",
                                      fixed->count, available));
        }
        return first(allowed, fixed->count);
    }
    return first(one_per_core(allowed, topology), parallelism);
}

std::optional<std::string> numa_warning(const CPUAllocation& allocation,
                                        const std::vector<int>& cpus, const CPUTopology& topology) {
    if (!std::holds_alternative<NUMAAuto>(allocation)) {
        return std::nullopt;
    }
    std::set<std::uint32_t> nodes;
    for (const int cpu : cpus) {
        const CPULocation* location = find_location(topology, cpu);
        nodes.insert(location == nullptr ? 0 : location->node);
    }
    if (nodes.size() < 2) {
        return std::nullopt;
    }
    return std::format(
        "config: system.sharding.cpu_allocation = \"numa:auto\": the {} shards are spread over {} "
        "NUMA nodes and their memory is not bound to them; for one node, restrict the CPUs of this "
        "process (taskset, numactl)",
        cpus.size(), nodes.size());
}

}  // namespace galgo::config

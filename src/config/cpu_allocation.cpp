#include "config/cpu_allocation.hpp"

#include <algorithm>
#include <charconv>
#include <format>
#include <map>
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

/// The lowest allowed CPU of each physical core.
std::expected<std::vector<int>, std::string> one_per_core(const std::vector<int>& allowed,
                                                          const CPUTopology& topology) {
    std::map<int, CPULocation> locations;
    for (const CPULocation& location : topology.locations) {
        locations.emplace(location.cpu, location);
    }
    std::set<std::uint32_t> cores;
    std::set<std::uint32_t> nodes;
    std::vector<int> cpus;
    for (const int cpu : allowed) {
        const auto location = locations.find(cpu);
        nodes.insert(location == locations.end() ? 0 : location->second.node);
        if (location == locations.end() || cores.insert(location->second.core).second) {
            cpus.push_back(cpu);
        }
    }
    if (nodes.size() > 1) {
        return refuse(std::format(
            R"(numa:auto on {} NUMA nodes is not available in this version, use "all" or a number)",
            nodes.size()));
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
    auto cpus = one_per_core(allowed, topology);
    if (!cpus) {
        return cpus;
    }
    return first(std::move(*cpus), parallelism);
}

}  // namespace galgo::config

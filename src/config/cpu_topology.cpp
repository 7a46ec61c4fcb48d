#include "config/cpu_topology.hpp"

#include <sched.h>

#include <algorithm>
#include <format>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

namespace galgo::config {
namespace {

constexpr int kNodesMax = 64;

template <class T>
std::optional<T> read_number(const std::string& path) {
    std::ifstream file(path);
    T value{};
    return file >> value ? std::optional(value) : std::nullopt;
}

std::vector<int> read_affinity() {
    std::vector<int> cpus;
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) {
                cpus.push_back(cpu);
            }
        }
    }
    if (cpus.empty()) {  // more CPUs than the set holds
        const int count = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
        for (int cpu = 0; cpu < count; ++cpu) {
            cpus.push_back(cpu);
        }
    }
    return cpus;
}

/// CPUs worth of time that the control group grants; cgroup v2, the process's own view of the root.
std::optional<std::uint32_t> read_quota() {
    std::ifstream file("/sys/fs/cgroup/cpu.max");
    std::uint64_t quota = 0;
    std::uint64_t period = 0;
    if (!(file >> quota >> period) || period == 0) {  // "max" is no number
        return std::nullopt;
    }
    return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(quota / period, 1, 65'534));
}

std::uint32_t node_of(int cpu) {
    for (int node = 0; node < kNodesMax; ++node) {
        std::ifstream file(std::format("/sys/devices/system/cpu/cpu{}/node{}/cpulist", cpu, node));
        if (file) {
            return static_cast<std::uint32_t>(node);
        }
    }
    return 0;
}

}  // namespace

CPUTopology read_cpu_topology() {
    CPUTopology topology;
    topology.allowed_cpus = read_affinity();
    topology.available_parallelism = static_cast<std::uint32_t>(topology.allowed_cpus.size());
    if (const auto quota = read_quota()) {
        topology.available_parallelism = std::min(topology.available_parallelism, *quota);
    }
    for (const int cpu : topology.allowed_cpus) {
        const std::string base = std::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
        const auto core = read_number<std::uint32_t>(base + "core_id");
        const auto package = read_number<std::uint32_t>(base + "physical_package_id");
        if (core && package) {
            topology.locations.push_back(CPULocation{
                .cpu = cpu, .core = (*package << 16) | (*core & 0xFFFF), .node = node_of(cpu)});
        }
    }
    return topology;
}

}  // namespace galgo::config

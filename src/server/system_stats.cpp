#include "server/system_stats.hpp"

#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace galgo::server {

namespace {

/// The number behind "Key:" in a /proc file of such lines, in the unit of the file; 0 when absent.
std::uint64_t field_of(const char* path, const std::string& key) {
    std::ifstream file(path);
    std::string line;
    while (std::getline(file, line)) {
        if (line.starts_with(key + ":")) {
            std::istringstream rest(line.substr(key.size() + 1));
            std::uint64_t value = 0;
            rest >> value;
            return value;
        }
    }
    return 0;
}

struct CPUTimes {
    double process_seconds = 0;
    double busy_seconds = 0;
    double total_seconds = 0;
};

CPUTimes read_cpu_times() {
    CPUTimes times;
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    times.process_seconds =
        static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) / 1e9;
    std::ifstream file("/proc/stat");
    std::string name;
    file >> name;
    const double ticks_per_second = static_cast<double>(sysconf(_SC_CLK_TCK));
    std::array<double, 8> columns{};
    for (double& column : columns) {
        file >> column;
        times.total_seconds += column / ticks_per_second;
    }
    const double idle = (columns[3] + columns[4]) / ticks_per_second;
    times.busy_seconds = times.total_seconds - idle;
    return times;
}

}  // namespace

void read_system_stats(const shard::NodeFacts& node, shard::SystemStats& stats) {
    // The offload thread alone comes here, so the sample before may be kept plainly. The first
    // answer covers the time since the start of the process, for the CPUs of the whole machine
    // (total_cpu_usage_percent) the time since its boot.
    static CPUTimes before{};
    static double wall_before = static_cast<double>(node.started_at.value()) / 1e6;
    const CPUTimes now = read_cpu_times();
    timespec wall{};
    clock_gettime(CLOCK_REALTIME, &wall);
    const double wall_now =
        static_cast<double>(wall.tv_sec) + static_cast<double>(wall.tv_nsec) / 1e9;
    const double elapsed = wall_now - wall_before;
    wire::StatsReply& out = stats.reply;
    if (elapsed > 0) {
        out.cpu_usage_percent =
            static_cast<float>(100.0 * (now.process_seconds - before.process_seconds) / elapsed);
    }
    if (now.total_seconds > before.total_seconds) {
        out.total_cpu_usage_percent =
            static_cast<float>(100.0 * (now.busy_seconds - before.busy_seconds) /
                               (now.total_seconds - before.total_seconds));
    }
    before = now;
    wall_before = wall_now;

    out.process_id = static_cast<std::uint32_t>(getpid());
    out.memory_usage_bytes = field_of("/proc/self/status", "VmRSS") * 1024;
    out.total_memory_bytes = field_of("/proc/meminfo", "MemTotal") * 1024;
    out.available_memory_bytes = field_of("/proc/meminfo", "MemAvailable") * 1024;
    out.read_bytes = field_of("/proc/self/io", "read_bytes");
    out.written_bytes = field_of("/proc/self/io", "write_bytes");
    out.threads_count = static_cast<std::uint32_t>(field_of("/proc/self/status", "Threads"));
    struct statvfs disk{};
    if (statvfs(node.data_path.c_str(), &disk) == 0) {
        out.free_disk_bytes = std::uint64_t{disk.f_bavail} * disk.f_frsize;
        out.total_disk_bytes = std::uint64_t{disk.f_blocks} * disk.f_frsize;
    }
    utsname names{};
    if (uname(&names) == 0) {
        stats.hostname = names.nodename;
        stats.os_name = names.sysname;
        stats.kernel_version = names.release;
        stats.os_version = names.version;
    }
    std::ifstream release("/etc/os-release");
    std::string line;
    while (std::getline(release, line)) {
        const auto value = [&line](std::string_view key) -> std::string {
            std::string text = line.substr(key.size());
            std::erase(text, '"');
            return text;
        };
        if (line.starts_with("NAME=")) {
            stats.os_name = value("NAME=");
        } else if (line.starts_with("VERSION=")) {
            stats.os_version = value("VERSION=");
        }
    }
}

}  // namespace galgo::server

#include "runtime_uring/pinning.hpp"

#include <pthread.h>
#include <sched.h>

#include <cerrno>

#include "base/this_shard.hpp"

namespace galgo::runtime_uring {

std::vector<int> allowed_cpus() {
    std::vector<int> cpus;
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (::sched_getaffinity(0, sizeof(mask), &mask) == 0) {
        for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
            if (CPU_ISSET(static_cast<std::size_t>(cpu), &mask)) {
                cpus.push_back(cpu);
            }
        }
    }
    return cpus;
}

Status pin_this_thread(const std::vector<int>& cpus) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (const int cpu : cpus) {
        if (cpu < 0 || cpu >= CPU_SETSIZE) {
            return fail_os(EINVAL);
        }
        CPU_SET(static_cast<std::size_t>(cpu), &mask);
    }
    if (::sched_setaffinity(0, sizeof(mask), &mask) != 0) {
        return fail_os(errno);
    }
    return {};
}

Status pin_this_thread(int cpu) {
    return pin_this_thread(std::vector<int>{cpu});
}

void name_this_thread(const std::string& name) noexcept {
    ::pthread_setname_np(::pthread_self(), name.substr(0, 15).c_str());
}

Status enter_shard_thread(ShardIndex shard, std::optional<int> cpu) {
    set_this_shard(shard);
    name_this_thread("shard-" + std::to_string(shard.value()));
    if (cpu.has_value()) {
        return pin_this_thread(*cpu);
    }
    return {};
}

}  // namespace galgo::runtime_uring

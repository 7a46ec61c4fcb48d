#include "server/shard_observer.hpp"

#include <execinfo.h>

#include <cstdio>
#include <cstdlib>

#include "observe/log.hpp"

namespace galgo::server {

void ShardObserver::on_slow_turn(std::uint64_t duration_ns, const char* task,
                                 std::span<void* const> backtrace) noexcept {
    observe::log_warn(
        "loop", "a turn took too long",
        {{"microseconds", duration_ns / 1000}, {"task", task}, {"frames", backtrace.size()}});
    // One line a frame: a line of the log is bounded, and addresses are what addr2line wants.
    for (std::size_t i = 0; i < backtrace.size(); ++i) {
        char address[32];
        std::snprintf(address, sizeof(address), "%p", backtrace[i]);
        observe::log_warn("loop", "slow turn frame", {{"number", i}, {"address", address}});
    }
}

}  // namespace galgo::server

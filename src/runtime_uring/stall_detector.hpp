// StallDetector: samples the stack of a shard that is inside one turn for too long. check() runs on
// another thread (the log thread, every few milliseconds); it sends SIGURG to the shard's thread,
// whose handler takes a backtrace into the shard's StallProbe, inside the turn. The loop reports it
// when the turn is over. One detector a process, because the signal handler is the process's.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/ids.hpp"
#include "base/units.hpp"
#include "runtime/stall.hpp"

namespace galgo::runtime_uring {

class StallDetector {
 public:
    /// Installs the handler; the first backtrace is taken here, because it loads a library.
    explicit StallDetector(std::uint64_t limit_ns = 10 * kMillisecond);
    StallDetector(const StallDetector&) = delete;
    StallDetector& operator=(const StallDetector&) = delete;
    /// All shards have called unwatch().
    ~StallDetector();

    /// On the shard's thread (this_shard() is set), before its loop runs.
    void watch(runtime::StallProbe& probe);
    /// On the shard's thread, after its loop.
    void unwatch();

    /// Any one thread. `now` is CLOCK_MONOTONIC. Returns how many shards were signalled: at most
    /// once a turn.
    std::size_t check(Instant now);

 private:
    struct Watched {
        ShardIndex shard;
        pid_t thread;
        runtime::StallProbe* probe;
        std::uint64_t signalled_turn_ns;
    };
    std::uint64_t limit_ns_;
    std::mutex mutex_;
    std::vector<Watched> watched_;
};

}  // namespace galgo::runtime_uring

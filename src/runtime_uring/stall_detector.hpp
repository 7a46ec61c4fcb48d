// StallDetector: samples the stack of a shard that is inside one turn for too long. check() runs on
// another thread (the log thread, whenever check() asks for it); it sends SIGURG to the shard's
// thread, whose handler takes a backtrace into the shard's StallProbe, inside the turn. The loop
// reports it when the turn is over. One detector a process, because the signal handler is the
// process's.
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

    struct Check {
        std::size_t signalled = 0;  ///< shards; each at most once a turn
        /// When to look again: as soon as a turn that runs now would be above the limit, at the
        /// latest after the limit. So no turn stays unseen, and an idle process wakes seldom.
        std::uint64_t next_after_ns = 0;
    };
    /// Any one thread. `now` is CLOCK_MONOTONIC.
    Check check(Instant now) noexcept;
    /// check() by the present time; returns next_after_ns.
    std::uint64_t tick() noexcept;

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

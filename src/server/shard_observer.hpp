// What the loop of one shard tells about its turns: a histogram for the metrics, and for a turn
// that took too long one log line with its task and the backtrace that was taken inside it. The
// loop calls at most once a second for the latter. A frame is module+offset, as addr2line -e wants
// it; a frame without a name is in the module before it:
//   frames=17 backtrace=galgo-server+0x4f2a10,libc.so.6+0x3c050,galgo-server+0x51c3e2,+0x51c7aa
#pragma once

#include <span>

#include "observe/histogram.hpp"
#include "runtime/stall.hpp"

namespace galgo::server {

class ShardObserver final : public runtime::LoopObserver {
 public:
    explicit ShardObserver(observe::Histogram& turns) noexcept : turns_(turns) {}
    void on_turn(std::uint64_t duration_ns) noexcept override { turns_.record(duration_ns); }
    void on_slow_turn(std::uint64_t duration_ns, const char* task,
                      std::span<void* const> backtrace) noexcept override;

 private:
    observe::Histogram& turns_;
};

}  // namespace galgo::server

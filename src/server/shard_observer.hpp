// What the loop of one shard tells about its turns: a histogram for the metrics, a log line with a
// backtrace for a turn that took too long.
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

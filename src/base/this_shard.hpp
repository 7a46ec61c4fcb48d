// The one thread-local of the program: which shard this thread is. Set by the thread's start
// function, read by affinity checks, log lines and the buffer pool. Threads that are no shard keep
// kNoShard.
#pragma once

#include "base/check.hpp"
#include "base/ids.hpp"

namespace galgo {

inline constexpr ShardIndex kNoShard{0xFFFF};

[[nodiscard]] ShardIndex this_shard() noexcept;
void set_this_shard(ShardIndex shard) noexcept;

/// Member of objects that belong to the shard that made them; `check()` is free in release builds.
class ShardAffine {
 public:
    ShardAffine() noexcept : home_(this_shard()) {}
    [[nodiscard]] ShardIndex home() const noexcept { return home_; }
    void check() const noexcept { GALGO_DCHECK(home_ == this_shard()); }

 private:
    ShardIndex home_;
};

}  // namespace galgo

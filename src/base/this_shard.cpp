#include "base/this_shard.hpp"

namespace galgo {

namespace {
constinit thread_local ShardIndex t_shard = kNoShard;
}  // namespace

ShardIndex this_shard() noexcept {
    return t_shard;
}

void set_this_shard(ShardIndex shard) noexcept {
    t_shard = shard;
}

}  // namespace galgo

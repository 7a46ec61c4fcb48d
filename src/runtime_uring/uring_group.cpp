#include "runtime_uring/uring_group.hpp"

#include "base/check.hpp"
#include "runtime_uring/detail/abi.hpp"
#include "runtime_uring/detail/tags.hpp"
#include "runtime_uring/pinning.hpp"

namespace galgo::runtime_uring {

UringGroup::UringGroup(std::size_t shard_count, std::vector<int> worker_cpus)
    : shard_count_(shard_count),
      worker_cpus_(worker_cpus.empty() ? allowed_cpus() : std::move(worker_cpus)),
      ring_fds_(std::make_unique<std::atomic<int>[]>(shard_count)) {
    for (std::size_t i = 0; i < shard_count; ++i) {
        ring_fds_[i].store(kNoRing, std::memory_order_relaxed);
    }
}

void UringGroup::wake(ShardIndex shard) {
    GALGO_CHECK(shard.value() < shard_count_);
    const std::lock_guard lock(outside_mutex_);
    const int target = ring_fds_[shard.value()].load(std::memory_order_acquire);
    if (target == kNoRing) {
        return;
    }
    if (!outside_.is_open() &&
        !outside_.open({.sq_entries = 8, .cq_entries = 16, .shared_by_threads = true})) {
        return;  // the shard wakes at its next timer
    }
    if (io_uring_sqe* sqe = outside_.try_get_sqe()) {
        sqe->opcode = IORING_OP_MSG_RING;
        sqe->fd = target;
        sqe->addr = abi::kMsgData;
        sqe->off = detail::kTagWake;
        sqe->user_data = detail::kTagIgnore;
    }
    (void)outside_.enter(true, 1'000'000'000);
    while (outside_.completions() != 0) {
        (void)outside_.take();
    }
}

}  // namespace galgo::runtime_uring

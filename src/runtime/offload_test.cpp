// The order of the background lane, the urgent lane beside it, and what a full queue refuses.
#include "runtime/offload.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "base/this_shard.hpp"

namespace galgo::runtime {
namespace {

struct NotedJob : OffloadJob {
    std::vector<int>* ran = nullptr;
    int number = 0;
};

TEST(OffloadQueue, TheUrgentLaneWaitsForNothingInTheOther) {
    set_this_shard(ShardIndex{0});
    std::vector<int> ran;
    OffloadQueue queue(1, 3, [](ShardIndex) {});
    std::array<NotedJob, 4> jobs;
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        jobs[i].ran = &ran;
        jobs[i].number = static_cast<int>(i);
        jobs[i].run = [](OffloadJob& job) noexcept {
            auto& noted = static_cast<NotedJob&>(job);
            noted.ran->push_back(noted.number);
        };
        jobs[i].done = [](OffloadJob&) noexcept {};
    }
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(queue.try_submit(jobs[i]));
    }
    EXPECT_FALSE(queue.try_submit(jobs[3]));
    queue.submit_urgent(jobs[3]);
    queue.stop();
    queue.run_worker(OffloadLane::kUrgent);
    EXPECT_EQ(ran, (std::vector<int>{3}));
    queue.run_worker(OffloadLane::kBackground);
    EXPECT_EQ(ran, (std::vector<int>{3, 0, 1, 2}));
    EXPECT_TRUE(queue.collect());
    EXPECT_FALSE(queue.collect());
    EXPECT_TRUE(queue.try_submit(jobs[0])) << "all places are free again";
    ran.clear();
    queue.refuse();
    queue.submit_urgent(jobs[3]);
    queue.run_worker(OffloadLane::kBackground);
    queue.run_worker(OffloadLane::kUrgent);
    EXPECT_EQ(ran, (std::vector<int>{3})) << "a stopping queue refuses what may take long only";
    EXPECT_TRUE(queue.collect());
    set_this_shard(kNoShard);
}

}  // namespace
}  // namespace galgo::runtime

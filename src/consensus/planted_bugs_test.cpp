// Each planted bug is seen by the laws of the test network, within a few seeds; without any, the
// same runs are clean.
#include <gtest/gtest.h>

#include <string>

#include "net_test.hpp"

namespace galgo::consensus {
namespace {

/// The first broken law of a run, empty when there was none.
std::string first_violation(std::uint64_t seed, Mutations mutations) {
    TestNet net(3, seed, {.pipeline_max = 8});
    net.mutations = mutations;
    net.boot(/*finish_superblocks=*/!mutations.has(Mutation::kFrameBeforeSuperblock));
    const Faults faults{.loss_percent = 20, .double_percent = 10, .reorder = true};
    for (int i = 0; i < 3000 && net.violations.empty(); ++i) {
        const std::size_t failing = net.random()() % 300;
        if (mutations.has(Mutation::kReuseFailedOp) && failing == 0) {
            net.node(0).append_failures = 1;
        }
        net.random_event(faults, 10);
    }
    return net.violations.empty() ? std::string() : net.violations.front();
}

void expect_caught(Mutation mutation, std::initializer_list<std::string> as) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const std::string found = first_violation(seed, Mutations(mutation));
        if (!found.empty()) {
            EXPECT_TRUE(std::ranges::find(as, found) != as.end()) << found;
            return;
        }
    }
    ADD_FAILURE() << "not caught in 20 seeds";
}

TEST(PlantedBugs, NoneIsClean) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        EXPECT_EQ(first_violation(seed, Mutations()), "") << seed;
    }
}

TEST(PlantedBugs, AckBeforeAppend) {
    expect_caught(Mutation::kAckBeforeAppend,
                  {"acknowledged and not in the log", "committed with fewer copies than a quorum"});
}

TEST(PlantedBugs, FrameBeforeSuperblock) {
    expect_caught(Mutation::kFrameBeforeSuperblock, {"a frame of a view that is not durable"});
}

TEST(PlantedBugs, ApplyAcrossGap) {
    expect_caught(Mutation::kApplyAcrossGap,
                  {"carried out across a gap", "acknowledged and not in the log"});
}

TEST(PlantedBugs, ReuseFailedOp) {
    expect_caught(Mutation::kReuseFailedOp,
                  {"an op was given twice on a replica", "two entries committed under one op"});
}

TEST(PlantedBugs, QuorumOneShort) {
    expect_caught(Mutation::kQuorumOneShort, {"committed with fewer copies than a quorum"});
}

/// A primary that lost its disk begins a second log in the same view. Its backups hold two ops of
/// the first one; the third op of the second would fit behind them by its number alone.
std::string violation_after_a_wiped_primary(Mutations mutations) {
    TestNet net(3, /*seed=*/1, {.pipeline_max = 8});
    net.mutations = mutations;
    net.boot();
    for (int i = 0; i < 2; ++i) {
        EXPECT_TRUE(net.request());
        net.drain();
    }
    EXPECT_EQ(net.replica(0).commit(), OpNumber{2});
    EXPECT_EQ(net.replica(1).head(), OpNumber{2});
    net.wipe(0);
    for (int i = 0; i < 3; ++i) {
        EXPECT_TRUE(net.request());
    }
    net.drain();
    return net.violations.empty() ? std::string() : net.violations.front();
}

TEST(PlantedBugs, SkipParentCheck) {
    EXPECT_EQ(violation_after_a_wiped_primary(Mutations()), "");
    EXPECT_EQ(violation_after_a_wiped_primary(Mutations(Mutation::kSkipParentCheck)),
              "two entries committed under one op");
}

}  // namespace
}  // namespace galgo::consensus

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

TEST(PlantedBugs, AckByHighest) {
    expect_caught(Mutation::kAckByHighest,
                  {"acknowledged and not in the log", "committed with fewer copies than a quorum"});
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

// The core notices by itself: what is behind an entry in the pipeline, or behind the durable log,
// must be linked to it.
TEST(PlantedBugs, SkipParentCheck) {
    EXPECT_EQ(violation_after_a_wiped_primary(Mutations()), "");
    EXPECT_DEATH(
        static_cast<void>(violation_after_a_wiped_primary(Mutations(Mutation::kSkipParentCheck))),
        "check failed: .*parent");
}

/// A backup hears, by a heartbeat and beside a prepare, of another entry at its commit.
bool stops_at_another_commit(Mutations mutations) {
    TestNet net(3, /*seed=*/1);
    net.mutations = mutations;
    net.boot();
    EXPECT_TRUE(net.request());
    EXPECT_TRUE(net.settle());
    Head other = net.replica(1).commit_head();
    EXPECT_EQ(other.op, OpNumber{1});
    other.identity = Identity{5};
    const FrameHeader header{.cluster = kTestCluster,
                             .group = kTestGroup,
                             .incarnation = kTestIncarnation,
                             .view = ViewNumber{0},
                             .replica = ReplicaIndex{0}};
    net.step(1, Received{.peer = ReplicaIndex{0},
                         .frame = {.header = header,
                                   .payload = CommitFrame{.commit = other, .counter = 99}}});
    net.step(2, Received{.peer = ReplicaIndex{0},
                         .frame = {.header = header,
                                   .payload = PrepareFrame{.prepare = net.node(0).log[OpNumber{1}],
                                                           .commit = other}}});
    EXPECT_EQ(net.replica(1).fenced(), net.replica(2).fenced());
    return net.replica(1).fenced();
}

TEST(PlantedBugs, BelieveCommitNumber) {
    EXPECT_TRUE(stops_at_another_commit(Mutations()));
    EXPECT_FALSE(stops_at_another_commit(Mutations(Mutation::kBelieveCommitNumber)));
}

TEST(PlantedBugs, EmptyIsFresh) {
    for (const Mutations mutations : {Mutations(), Mutations(Mutation::kEmptyIsFresh)}) {
        PipelinePool pool;
        const ReplicaOptions options{.replica_count = 3};
        Replica replica(pool, options, kTestGroup, kTestIncarnation, mutations);
        EffectList effects;
        replica.step(Boot{}, effects);
        EXPECT_NE(replica.fenced(), mutations.has(Mutation::kEmptyIsFresh));
    }
}

/// Backup 1 learns that op 3 is committed while it appends it, then hears of another commit.
OpNumber carried_out_after_a_fence(Mutations mutations) {
    TestNet net(3, /*seed=*/1);
    net.mutations = mutations;
    net.boot();
    EXPECT_TRUE(net.request());
    EXPECT_TRUE(net.settle());
    net.keep_sent = true;
    EXPECT_TRUE(net.request());
    const Frame prepare = net.sent.back().frame;
    net.flying().clear();
    Frame heartbeat = prepare;
    heartbeat.payload = CommitFrame{.commit = net.replica(0).log_head(), .counter = 100};
    Frame other = heartbeat;
    std::get<CommitFrame>(other.payload).commit.identity = Identity{1};
    for (const Frame& frame : {prepare, heartbeat, other}) {
        net.step(1, Received{.peer = ReplicaIndex{0}, .frame = frame});
    }
    EXPECT_TRUE(net.replica(1).fenced());
    net.end_append(1);
    return net.replica(1).commit();
}

TEST(PlantedBugs, GoOnWhenFenced) {
    EXPECT_EQ(carried_out_after_a_fence(Mutations()), OpNumber{1});
    EXPECT_EQ(carried_out_after_a_fence(Mutations(Mutation::kGoOnWhenFenced)), OpNumber{2});
}

TEST(PlantedBugs, CommitFailedAppend) {
    for (const Mutations mutations : {Mutations(), Mutations(Mutation::kCommitFailedAppend)}) {
        const bool planted = mutations.has(Mutation::kCommitFailedAppend);
        TestNet net(1, /*seed=*/1);
        net.mutations = mutations;
        net.boot();
        net.node(0).append_failures = 1;
        EXPECT_TRUE(net.request());
        net.end_append(0);
        EXPECT_EQ(net.node(0).committed.size(), planted ? 1u : 0u);
        EXPECT_EQ(net.abandoned.size(), planted ? 0u : 1u);
        EXPECT_EQ(net.violations.empty(), !planted);
    }
}

}  // namespace
}  // namespace galgo::consensus

// Normal operation of three (and five) replicas: agreement under faults, the
// primary's and the backup's failed appends, boot.
#include <gtest/gtest.h>

#include "net_test.hpp"

namespace galgo::consensus {
namespace {

TEST(ClusterOfThree, CommitsWithAMajorityAndTellsTheBackups) {
    TestNet net(3, 1);
    net.boot();
    EXPECT_TRUE(net.replica(0).admits());
    EXPECT_FALSE(net.replica(1).admits());
    ASSERT_TRUE(net.request());
    EXPECT_EQ(net.flying().size(), 2u);
    net.end_append(0);
    EXPECT_EQ(net.replica(0).commit(), OpNumber{0});
    net.deliver(0);  // prepare to 1
    EXPECT_EQ(net.flying().size(), 1u) << "nothing is acknowledged before it is durable";
    net.end_append(1);
    net.deliver(1);  // its acknowledgement
    EXPECT_EQ(net.replica(0).commit(), OpNumber{1});
    EXPECT_EQ(net.answered, 1u);
    EXPECT_EQ(net.replica(1).commit(), OpNumber{0}) << "it is not told yet";
    net.drain();
    net.tick(net.node(0).options.heartbeat_ticks);
    net.drain();
    EXPECT_EQ(net.replica(1).commit(), OpNumber{1});
    EXPECT_EQ(net.replica(2).commit(), OpNumber{1});
    expect_lawful(net);
}

TEST(ClusterOfThree, TheCommitNumberTravelsWithTheNextPrepare) {
    TestNet net(3, 1);
    net.boot();
    net.request();
    net.drain();
    EXPECT_EQ(net.replica(1).commit(), OpNumber{0});
    net.request();
    net.drain();
    EXPECT_EQ(net.replica(1).commit(), OpNumber{1});
    EXPECT_EQ(net.replica(0).commit(), OpNumber{2});
    expect_lawful(net);
}

TEST(ClusterOfThree, ABackupsMajorityCommitsButThePrimaryCarriesOutWhatItHolds) {
    TestNet net(3, 1);
    net.boot();
    net.request();
    net.deliver(0);
    net.deliver(0);
    net.end_append(1);
    net.end_append(2);
    net.deliver(0);
    net.deliver(0);
    EXPECT_EQ(net.replica(0).commit_max(), OpNumber{1});
    EXPECT_EQ(net.replica(0).commit(), OpNumber{0});
    EXPECT_EQ(net.marks.count(Mark::kCommitBeforeOwnAppend), 1u);
    EXPECT_EQ(net.marks.count(Mark::kCommitWaitsForOwnLog), 1u);
    net.end_append(0);
    EXPECT_EQ(net.replica(0).commit(), OpNumber{1});
    expect_lawful(net);
}

TEST(ClusterOfThree, OneBackupCountsOnceWhateverComesTwice) {
    TestNet net(5, 1);
    net.boot();
    net.request();
    net.end_append(0);
    net.deliver(0);
    net.end_append(1);
    const TestNet::Flying ok = net.flying().back();
    net.flying().push_back(ok);
    net.flying().push_back(ok);
    for (int i = 0; i < 3; ++i) {
        net.deliver(net.flying().size() - 1);
    }
    EXPECT_EQ(net.replica(0).commit(), OpNumber{0});
    net.drain();
    EXPECT_EQ(net.replica(0).commit(), OpNumber{1});
    expect_lawful(net);
}

TEST(ClusterOfThree, AcknowledgesWhenEverythingBeforeIsDurableToo) {
    TestNet net(3, 1, {.pipeline_max = 8});
    net.boot();
    net.request();
    net.request();
    net.lose_to(ReplicaIndex{2});
    net.deliver(0);
    net.deliver(0);
    net.end_append(1, 1);
    EXPECT_TRUE(net.flying().empty());
    EXPECT_EQ(net.marks.count(Mark::kAppendsEndedOutOfOrder), 1u);
    net.end_append(1, 0);
    ASSERT_EQ(net.flying().size(), 1u) << "one acknowledgement for both";
    const auto& ok = std::get<PrepareOkFrame>(net.flying()[0].frame.payload);
    EXPECT_EQ(ok.durable.op, OpNumber{2});
    net.drain();
    EXPECT_EQ(net.replica(0).commit(), OpNumber{2});
    expect_lawful(net);
}

TEST(ClusterOfThree, SilenceIsSuspectedOnceAndForgivenWhenHeard) {
    TestNet net(3, 1, {.election_ticks = 100});
    net.boot();
    net.tick(60);
    net.drain();
    EXPECT_FALSE(net.replica(1).primary_suspected());
    for (int i = 0; i < 100; ++i) {
        net.tick();
        net.flying().clear();
    }
    EXPECT_TRUE(net.replica(1).primary_suspected());
    EXPECT_TRUE(net.replica(2).primary_suspected());
    EXPECT_FALSE(net.replica(0).primary_suspected());
    net.tick(50);
    EXPECT_EQ(net.marks.count(Mark::kPrimarySuspected), 2u);
    net.drain();
    EXPECT_FALSE(net.replica(1).primary_suspected());
    EXPECT_TRUE(has_note(net.node(1), NoteKind::kPrimaryHeardAgain));
    // A prepare is as good as a heartbeat.
    for (int i = 0; i < 3; ++i) {
        for (int t = 0; t < 90; ++t) {
            net.tick();
            net.flying().clear();
        }
        net.request();
        net.drain();
    }
    EXPECT_FALSE(net.replica(1).primary_suspected());
    EXPECT_EQ(net.marks.count(Mark::kPrimarySuspected), 2u);
}

TEST(ClusterOfThree, AnOldHeartbeatIsNoSignOfLife) {
    TestNet net(3, 1, {.election_ticks = 100});
    net.boot();
    net.tick();
    const TestNet::Flying heartbeat = net.flying()[0];
    net.drain();
    for (int i = 0; i < 101; ++i) {
        net.tick();
        net.flying().clear();
        net.flying().push_back(heartbeat);
        net.drain();
    }
    EXPECT_TRUE(net.replica(1).primary_suspected());
    EXPECT_GT(net.marks.count(Mark::kHeartbeatStale), 0u);
}

TEST(ClusterOfThree, NothingIsSentOrAdmittedBeforeTheViewIsDurable) {
    TestNet net(3, 1);
    net.boot(/*finish_superblocks=*/false);
    EXPECT_EQ(net.replica(0).status(), ReplicaStatus::kBooting);
    EXPECT_FALSE(net.request());
    net.tick(10);
    EXPECT_TRUE(net.flying().empty());
    net.end_persist(0, false);
    EXPECT_FALSE(net.request());
    EXPECT_FALSE(net.node(0).persisting.has_value());
    net.tick(1);
    ASSERT_TRUE(net.node(0).persisting.has_value()) << "tried again";
    net.end_persist(0, false);
    net.tick(1);
    EXPECT_FALSE(net.node(0).persisting.has_value()) << "later and later";
    net.tick(1);
    ASSERT_TRUE(net.node(0).persisting.has_value());
    net.end_persist(0, true);
    EXPECT_TRUE(net.request());
    net.end_persist(1, true);
    EXPECT_TRUE(net.node(2).persisting.has_value());
    net.drain();
    EXPECT_EQ(net.replica(2).head(), OpNumber{0}) << "it is not ready";
    net.end_persist(2, true);
    EXPECT_TRUE(net.settle());
    EXPECT_EQ(net.marks.count(Mark::kSuperblockRetried), 2u);
    expect_lawful(net);
}

TEST(ClusterOfThree, ASuperblockIsTriedForAsLongAsItTakes) {
    TestNet net(3, 1);
    net.boot(/*finish_superblocks=*/false);
    for (int failures = 1; failures <= 600; ++failures) {
        ASSERT_TRUE(net.node(0).persisting.has_value()) << failures;
        net.end_persist(0, false);
        ASSERT_FALSE(net.node(0).persisting.has_value());
        for (int tick = 0; tick < 64 && !net.node(0).persisting.has_value(); ++tick) {
            net.tick();
        }
    }
    net.end_persist(0, true);
    EXPECT_TRUE(net.replica(0).admits());
    EXPECT_EQ(net.marks.count(Mark::kSuperblockRetried), 600u);
}

TEST(ClusterOfThree, OnlyTheSuperblockThatWasAskedForCounts) {
    TestNet net(3, 1);
    net.boot(/*finish_superblocks=*/false);
    SuperblockState other = *net.node(0).persisting;
    other.log_view = ViewNumber{1};
    EXPECT_DEATH(net.step(0, SuperblockDone{.state = other, .written = true}), "check failed");
    net.end_persist(0, true);
    EXPECT_DEATH(net.step(0, SuperblockDone{.state = *net.node(0).superblock, .written = true}),
                 "check failed");
}

TEST(ClusterOfThree, APrimaryWhoseAppendFailedIsFencedAndSilent) {
    TestNet net(3, 1);
    net.boot();
    net.request();
    net.request();
    net.request();
    net.node(0).append_failures = 1;
    net.end_append(0, 1);  // op 2
    EXPECT_TRUE(net.replica(0).fenced());
    ASSERT_EQ(net.abandoned.size(), 2u);
    EXPECT_EQ(net.abandoned[0].head.op, OpNumber{2});
    EXPECT_EQ(net.abandoned[0].error, ErrorCode::kTransientNotCommitted);
    EXPECT_EQ(net.abandoned[1].head.op, OpNumber{3});
    EXPECT_FALSE(net.request());
    net.drain();
    EXPECT_EQ(net.replica(0).commit(), OpNumber{1}) << "what is before the hole is committed";
    EXPECT_EQ(net.answered, 1u);
    EXPECT_EQ(net.replica(0).head(), OpNumber{3}) << "no number is given again";
    net.flying().clear();
    net.tick(600);
    EXPECT_TRUE(std::ranges::none_of(
        net.flying(), [](const auto& flying) { return flying.from == ReplicaIndex{0}; }));
    EXPECT_TRUE(net.replica(1).primary_suspected());
    EXPECT_EQ(net.abandoned.size(), 2u);
    expect_lawful(net);
}

TEST(ClusterOfThree, ABackupWhoseAppendFailedIsFencedAndTheOthersGoOn) {
    TestNet net(3, 1);
    net.boot();
    net.request();
    net.node(2).append_failures = 1;
    net.drain();
    EXPECT_TRUE(net.replica(2).fenced());
    EXPECT_TRUE(has_note(net.node(2), NoteKind::kAppendFailed));
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(net.request());
        net.drain();
    }
    EXPECT_EQ(net.replica(0).commit(), OpNumber{6});
    EXPECT_EQ(net.replica(2).commit(), OpNumber{0});
    EXPECT_EQ(net.node(2).log.size(), 0u);
    EXPECT_TRUE(net.abandoned.empty());
    expect_lawful(net);
}

TEST(ClusterOfThree, ABackupHoldsNoMoreThanAPipeline) {
    TestNet net(3, 1, {.pipeline_max = kPipelineMax});
    net.boot();
    for (std::size_t i = 0; i < kPipelineMax; ++i) {
        ASSERT_TRUE(net.request());
    }
    EXPECT_FALSE(net.request());
    EXPECT_EQ(net.marks.count(Mark::kPipelineFull), 1u);
    // Backup 2 appends nothing; the others go on, until it has a pipeline full of appends.
    const auto run = [&] {
        while (!net.flying().empty() || !net.node(0).appending.empty() ||
               !net.node(1).appending.empty()) {
            while (!net.node(0).appending.empty()) {
                net.end_append(0);
            }
            while (!net.node(1).appending.empty()) {
                net.end_append(1);
            }
            if (!net.flying().empty()) {
                net.deliver(0);
            }
        }
    };
    run();
    EXPECT_EQ(net.replica(0).commit(), OpNumber{kPipelineMax});
    EXPECT_EQ(net.node(2).appending.size(), kPipelineMax);
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(net.request());
        run();
    }
    EXPECT_EQ(net.node(2).appending.size(), kPipelineMax);
    EXPECT_EQ(net.replica(2).in_flight(), kPipelineMax);
    EXPECT_TRUE(net.settle());
    expect_lawful(net);
}

TEST(ClusterOfThree, StampsRiseAndDoNotRunAhead) {
    TestNet net(3, 1, {.stamp_ahead_max_us = 10});
    net.boot();
    ASSERT_TRUE(net.request(0, 1000));
    ASSERT_TRUE(net.request(0, 1000));
    EXPECT_EQ(net.replica(0).last_timestamp(), Timestamp{1001});
    EXPECT_EQ(net.marks.count(Mark::kStampClamped), 1u);
    ASSERT_TRUE(net.request(0, 992));  // 1002: 10 ahead
    EXPECT_FALSE(net.request(0, 992));
    EXPECT_EQ(net.marks.count(Mark::kStampTooFarAhead), 1u);
    EXPECT_TRUE(net.request(0, 993));
    EXPECT_EQ(net.replica(0).last_timestamp(), Timestamp{1003});
}

TEST(ClusterOfThree, AnEarlierLifeTakesNoPart) {
    PipelinePool pool;
    const ReplicaOptions options{.cluster = kTestCluster, .replica_count = 3};
    const SuperblockState stored{.cluster = kTestCluster, .replica_count = 3};
    for (const bool with_log : {true, false}) {
        Replica replica(pool, options, kTestGroup, kTestIncarnation);
        EffectList effects;
        Boot boot{.superblock = stored};
        if (with_log) {
            boot.log.head = {.op = OpNumber{3}, .identity = Identity{3}};
        }
        replica.step(boot, effects);
        ASSERT_EQ(effects.view().size(), 1u);
        EXPECT_EQ(std::get<Note>(effects.view()[0]).kind, NoteKind::kRecoveryNeeded);
        EXPECT_EQ(replica.status(), ReplicaStatus::kRecovering);
        effects.clear();
        replica.step(ClientRequest{.token = Token{1}}, effects);
        EXPECT_TRUE(std::holds_alternative<Reject>(effects.view()[0]));
        effects.clear();
        replica.step(Tick{.now = TickCount{1000}}, effects);
        EXPECT_TRUE(effects.empty());
    }
}

// Seed 9 of the simulator: a backup hears of commits ahead of what it has, and its entries say so.
TEST(ClusterOfThree, AnEntryMayKnowOfCommitsBehindTheEndOfItsLog) {
    PipelinePool pool;
    const ReplicaOptions options{.replica = ReplicaIndex{1}, .replica_count = 3};
    Replica replica(pool, options, kTestGroup, kTestIncarnation);
    EffectList effects;
    const Head fifth{.op = OpNumber{5}, .identity = Identity{55}};
    replica.step(Boot{.superblock = SuperblockState{.replica = ReplicaIndex{1}, .replica_count = 3},
                      .log = {.head = {.op = OpNumber{2}, .identity = Identity{7}},
                              .commit = fifth,
                              .last_timestamp = Timestamp{1}}},
                 effects);
    EXPECT_EQ(replica.status(), ReplicaStatus::kRecovering);
    EXPECT_EQ(replica.commit_head(), (Head{.op = OpNumber{2}, .identity = Identity{7}}));
    EXPECT_EQ(replica.commit_max_head(), fifth);
    EXPECT_EQ(replica.head(), OpNumber{2});
}

// A commit is known with its identity from the first moment on.
TEST(ClusterOfThree, WhatIsCommittedIsKnownByItsIdentityAfterAStart) {
    PipelinePool pool;
    const ReplicaOptions options{.replica_count = 3};
    const Head first{.op = OpNumber{1}, .identity = Identity{11}};
    const Head second{.op = OpNumber{2}, .identity = Identity{22}};
    const Head ninth{.op = OpNumber{9}, .identity = Identity{99}};
    Boot boot{.superblock = SuperblockState{.replica_count = 3, .commit_max = ninth},
              .log = {.head = second, .commit = first}};
    {
        Replica replica(pool, options, kTestGroup, kTestIncarnation);
        EffectList effects;
        replica.step(boot, effects);
        EXPECT_EQ(replica.commit_head(), first);
        EXPECT_EQ(replica.commit_max_head(), ninth) << "the superblock knew more";
    }
    boot.log.commit = {.op = OpNumber{2}, .identity = Identity{23}};
    Replica replica(pool, options, kTestGroup, kTestIncarnation);
    EffectList effects;
    replica.step(boot, effects);
    ASSERT_EQ(effects.view().size(), 1u);
    EXPECT_EQ(std::get<Fatal>(effects.view()[0]).reason, FatalReason::kBadLog);
    EXPECT_TRUE(replica.fenced());
}

// Nothing on the disk may be a replica that never was, or one that lost all it promised. Only
// somebody else knows which.
TEST(ClusterOfThree, AnEmptyReplicaIsAMemberOnlyWhenItIsSaidToBeFresh) {
    PipelinePool pool;
    const ReplicaOptions options{.cluster = kTestCluster, .replica_count = 3};
    const LogSummary some{.head = {.op = OpNumber{3}, .identity = Identity{3}}};
    for (const Boot& boot : {Boot{}, Boot{.log = some}, Boot{.log = some, .fresh = true}}) {
        Replica replica(pool, options, kTestGroup, kTestIncarnation);
        EffectList effects;
        replica.step(boot, effects);
        ASSERT_EQ(effects.view().size(), 1u);
        EXPECT_EQ(std::get<Fatal>(effects.view()[0]).reason, FatalReason::kNoSuperblock);
        EXPECT_TRUE(replica.fenced());
        effects.clear();
        replica.step(ClientRequest{.token = Token{1}}, effects);
        EXPECT_TRUE(std::holds_alternative<Reject>(effects.view()[0]));
        effects.clear();
        replica.step(Tick{.now = TickCount{1000}}, effects);
        EXPECT_TRUE(effects.empty());
    }
    Replica fresh(pool, options, kTestGroup, kTestIncarnation);
    EffectList effects;
    fresh.step(Boot{.fresh = true}, effects);
    EXPECT_TRUE(std::holds_alternative<PersistSuperblock>(effects.view()[0]));
    // A superblock says more than the word of others.
    Replica again(pool, options, kTestGroup, kTestIncarnation);
    effects.clear();
    again.step(Boot{.superblock = SuperblockState{.cluster = kTestCluster, .replica_count = 3},
                    .fresh = true},
               effects);
    EXPECT_EQ(again.status(), ReplicaStatus::kRecovering);
}

TEST(ClusterOfThree, AStrangersSuperblockIsFatal) {
    PipelinePool pool;
    const ReplicaOptions options{.cluster = kTestCluster, .replica_count = 3};
    const SuperblockState good{.cluster = kTestCluster, .replica_count = 3};
    std::vector<SuperblockState> bad(4, good);
    bad[0].cluster = ClusterId{u128{1}};
    bad[1].replica = ReplicaIndex{1};
    bad[2].replica_count = 5;
    bad[3].log_view = ViewNumber{1};
    for (const SuperblockState& stored : bad) {
        Replica replica(pool, options, kTestGroup, kTestIncarnation);
        EffectList effects;
        replica.step(Boot{.superblock = stored}, effects);
        ASSERT_EQ(effects.view().size(), 1u);
        EXPECT_TRUE(std::holds_alternative<Fatal>(effects.view()[0]));
        EXPECT_TRUE(replica.fenced());
        EXPECT_FALSE(replica.admits());
        effects.clear();
        replica.step(Tick{.now = TickCount{1000}}, effects);
        EXPECT_TRUE(effects.empty());
    }
}

TEST(ClusterOfThree, ReadAnswersThatNobodyWantsAreIgnored) {
    TestNet net(3, 1);
    net.boot();
    net.step(0, ReadDone{.op = OpNumber{5}});
    EXPECT_EQ(net.marks.count(Mark::kReadNotWanted), 1u);
    EXPECT_TRUE(net.flying().empty());
}

// Random events under loss, doubling and reordering; then no faults, and all agree.
void run_seed(std::uint64_t seed, std::uint8_t replicas) {
    std::mt19937_64 draw(seed);
    const Faults faults{.loss_percent = static_cast<unsigned>(draw() % 30),
                        .double_percent = static_cast<unsigned>(draw() % 30),
                        .reorder = draw() % 4 != 0};
    const auto request_percent = static_cast<unsigned>(1 + draw() % 20);
    const std::uint8_t pipelines[] = {1, 4, 32, kPipelineMax};
    TestNet net(replicas, seed,
                {.pipeline_max = pipelines[draw() % 4],
                 .resend_per_tick_max = static_cast<std::uint8_t>(1 + draw() % 16)});
    net.random_ticks = draw() % 2 == 0;
    net.boot();
    for (int i = 0; i < 4000; ++i) {
        net.random_event(faults, request_percent);
        ASSERT_TRUE(net.violations.empty()) << net.violations.front() << ", seed " << seed;
    }
    ASSERT_TRUE(net.settle()) << "no agreement, seed " << seed;
    const OpNumber head = net.replica(0).head();
    ASSERT_GT(head, OpNumber{0});
    EXPECT_EQ(net.answered, head.value());
    for (std::uint8_t i = 0; i < replicas; ++i) {
        ASSERT_EQ(net.node(i).committed, net.node(0).committed) << "seed " << seed;
        EXPECT_EQ(net.node(i).committed.size(), head.value());
        EXPECT_TRUE(net.node(i).fatals.empty());
        EXPECT_EQ(net.replica(i).in_flight(), 0u);
        for (const Note& note : net.node(i).notes) {
            EXPECT_TRUE(note.kind != NoteKind::kFrameRefused ||
                        note.reason == Refusal::kPipelineFull)
                << "seed " << seed;
        }
    }
    ASSERT_TRUE(net.violations.empty()) << net.violations.front() << ", seed " << seed;
}

TEST(ClusterLaws, ThreeAgreeUnderFaults) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        run_seed(seed, 3);
    }
}

TEST(ClusterLaws, OtherSizesAgreeUnderFaults) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        run_seed(1000 + seed, 2);
        run_seed(2000 + seed, 5);
    }
    run_seed(31, 31);
}

}  // namespace
}  // namespace galgo::consensus

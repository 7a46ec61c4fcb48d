// Frames that are refused: each reason once, and random frames without any reason to be trusted.
#include <gtest/gtest.h>

#include <functional>

#include "net_test.hpp"

namespace galgo::consensus {
namespace {

/// Three replicas with two ops committed everywhere but for the tail: op 3 is on its way.
struct RefusalTest : testing::Test {
    TestNet net{3, 1};
    Frame prepare;  ///< op 3, as backup 1 would take it
    Frame ok;       ///< as the primary would take it from backup 1
    Frame heartbeat;

    RefusalTest() {
        net.boot();
        net.request();
        net.request();
        EXPECT_TRUE(net.settle());
        net.keep_sent = true;
        net.request();
        prepare = net.sent.back().frame;
        net.flying().clear();
        const Head head = net.replica(0).log_head();
        ok = {
            .header = {.cluster = kTestCluster,
                       .group = kTestGroup,
                       .incarnation = kTestIncarnation,
                       .view = ViewNumber{0},
                       .replica = ReplicaIndex{1}},
            .payload = PrepareOkFrame{.durable = head, .received = head.op, .commit = OpNumber{2}}};
        heartbeat = ok;
        heartbeat.header.replica = ReplicaIndex{0};
        heartbeat.payload = CommitFrame{.commit = net.replica(0).commit_head(), .counter = 100};
    }

    /// Why replica `to` refuses it; kNone when it does not. A refused frame changes nothing.
    Refusal reason(std::uint8_t to, std::uint8_t from, const Frame& frame) {
        TestNet::Node& node = net.node(to);
        node.notes.clear();
        const Head head = node.replica->log_head();
        const OpNumber commit = node.replica->commit();
        const std::size_t flying = net.flying().size();
        net.step(to, Received{.peer = ReplicaIndex{from}, .frame = frame});
        for (const Note& note : node.notes) {
            if (note.kind == NoteKind::kFrameRefused) {
                EXPECT_EQ(node.replica->log_head(), head);
                EXPECT_EQ(node.replica->commit(), commit);
                EXPECT_EQ(net.flying().size(), flying);
                EXPECT_EQ(note.peer, ReplicaIndex{from});
                return note.reason;
            }
        }
        return Refusal::kNone;
    }
    Frame with(Frame frame, const std::function<void(Frame&)>& change) {
        change(frame);
        return frame;
    }
    Frame with_prepare(const std::function<void(Prepare&)>& change) {
        Frame frame = prepare;
        Prepare& fields = std::get<PrepareFrame>(frame.payload).prepare;
        change(fields);
        return frame;
    }
    Frame sealed(const std::function<void(Prepare&)>& change) {
        return with_prepare([&](Prepare& fields) {
            change(fields);
            fields.identity = compute_identity(kTestGroup, kTestIncarnation, fields);
        });
    }
    Frame with_ok(const std::function<void(PrepareOkFrame&)>& change) {
        Frame frame = ok;
        change(std::get<PrepareOkFrame>(frame.payload));
        return frame;
    }
};

TEST_F(RefusalTest, WhatIsRightIsTaken) {
    EXPECT_EQ(reason(1, 0, heartbeat), Refusal::kNone);
    EXPECT_EQ(reason(1, 0, prepare), Refusal::kNone);
    EXPECT_EQ(reason(0, 1, ok), Refusal::kNone);
}

TEST_F(RefusalTest, TheHeaderMustBeThatOfThePeerAndTheGroup) {
    for (Frame* frame : {&prepare, &heartbeat, &ok}) {
        const std::uint8_t to = frame == &ok ? 0 : 1;
        const std::uint8_t from = frame == &ok ? 1 : 0;
        EXPECT_EQ(reason(to, 2, *frame), Refusal::kWrongSender);
        EXPECT_EQ(
            reason(to, to, with(*frame, [&](Frame& f) { f.header.replica = ReplicaIndex{to}; })),
            Refusal::kWrongSender)
            << "its own";
        EXPECT_EQ(reason(to, 3, with(*frame, [](Frame& f) { f.header.replica = ReplicaIndex{3}; })),
                  Refusal::kUnknownReplica);
        EXPECT_EQ(
            reason(to, 255, with(*frame, [](Frame& f) { f.header.replica = ReplicaIndex{255}; })),
            Refusal::kUnknownReplica);
        EXPECT_EQ(
            reason(to, from, with(*frame, [](Frame& f) { f.header.replica = ReplicaIndex{200}; })),
            Refusal::kUnknownReplica);
        EXPECT_EQ(
            reason(to, from, with(*frame, [](Frame& f) { f.header.cluster = ClusterId{u128{1}}; })),
            Refusal::kOtherCluster);
        EXPECT_EQ(reason(to, from, with(*frame, [](Frame& f) { f.header.group = GroupId{1}; })),
                  Refusal::kOtherGroup);
        EXPECT_EQ(
            reason(to, from, with(*frame, [](Frame& f) { f.header.incarnation = Incarnation{1}; })),
            Refusal::kOtherGroup);
    }
}

TEST_F(RefusalTest, ViewsMustBeEqual) {
    const Frame newer = with(prepare, [](Frame& f) { f.header.view = ViewNumber{3}; });
    EXPECT_EQ(reason(1, 0, newer), Refusal::kNewerView);
    EXPECT_EQ(net.replica(1).newer_view(), ViewNumber{3});
    EXPECT_EQ(net.node(1).notes.front().kind, NoteKind::kNewerViewSeen);
    EXPECT_EQ(reason(1, 0, newer), Refusal::kNewerView);
    EXPECT_EQ(net.node(1).notes.front().kind, NoteKind::kFrameRefused) << "said once";
    EXPECT_EQ(net.replica(1).view(), ViewNumber{0});

    PipelinePool pool;
    const ReplicaOptions options{
        .cluster = kTestCluster, .replica = ReplicaIndex{1}, .replica_count = 3};
    Replica recovering(pool, options, kTestGroup, kTestIncarnation);
    EffectList effects;
    recovering.step(Boot{.superblock = SuperblockState{.cluster = kTestCluster,
                                                       .replica = ReplicaIndex{1},
                                                       .replica_count = 3,
                                                       .view = ViewNumber{6}}},
                    effects);
    effects.clear();
    recovering.step(Received{.peer = ReplicaIndex{0}, .frame = prepare}, effects);
    EXPECT_EQ(std::get<Note>(effects.view()[0]).reason, Refusal::kNotNormal);
}

TEST_F(RefusalTest, RolesMustFit) {
    const auto from_two = [](Frame& f) { f.header.replica = ReplicaIndex{2}; };
    EXPECT_EQ(reason(1, 2, with(prepare, from_two)), Refusal::kNotFromPrimary);
    EXPECT_EQ(reason(1, 2, with(heartbeat, from_two)), Refusal::kNotFromPrimary);
    EXPECT_EQ(reason(0, 2, with(prepare, from_two)), Refusal::kNotForPrimary);
    EXPECT_EQ(reason(0, 2, with(heartbeat, from_two)), Refusal::kNotForPrimary);
    EXPECT_EQ(reason(1, 2, with(ok, from_two)), Refusal::kNotForBackup);
}

TEST_F(RefusalTest, PreparesMustFollowAndBeWhatTheySay) {
    EXPECT_EQ(reason(1, 0, with_prepare([](Prepare& p) { p.op = OpNumber{0}; })),
              Refusal::kMalformed);
    EXPECT_EQ(reason(1, 0, with_prepare([](Prepare& p) { p.body = BodyDigest{1}; })),
              Refusal::kIdentity);
    EXPECT_EQ(reason(1, 0, with_prepare([](Prepare& p) { p.timestamp = p.timestamp.next(); })),
              Refusal::kIdentity);
    EXPECT_EQ(reason(1, 0, sealed([](Prepare& p) { p.parent = Identity{1}; })),
              Refusal::kOtherParent);
    EXPECT_EQ(net.marks.count(Mark::kPrepareOtherParent), 1u);
    EXPECT_EQ(reason(1, 0, sealed([](Prepare& p) { p.timestamp = Timestamp{1}; })),
              Refusal::kMalformed);
    const Timestamp last = net.replica(1).last_timestamp();
    EXPECT_EQ(reason(1, 0, sealed([&](Prepare& p) { p.timestamp = last; })), Refusal::kMalformed)
        << "stamps rise";
    Frame contradiction = prepare;
    std::get<PrepareFrame>(contradiction.payload).commit = {.op = OpNumber{3},
                                                            .identity = Identity{1}};
    EXPECT_EQ(reason(1, 0, contradiction), Refusal::kMalformed);
    EXPECT_EQ(reason(1, 0, sealed([](Prepare& p) {
                         p.op = OpNumber{2};
                         p.body = BodyDigest{4};
                     })),
              Refusal::kOtherIdentity);
    EXPECT_EQ(reason(1, 0, prepare), Refusal::kNone);
    EXPECT_EQ(reason(1, 0, sealed([](Prepare& p) { p.body = BodyDigest{4}; })),
              Refusal::kOtherIdentity);
    EXPECT_EQ(net.replica(1).head(), OpNumber{3});
    EXPECT_EQ(net.node(1).appending.size(), 1u);
}

TEST_F(RefusalTest, AcknowledgementsMustNameWhatWasPrepared) {
    EXPECT_EQ(reason(0, 1, with_ok([](PrepareOkFrame& f) { f.durable.identity = Identity{1}; })),
              Refusal::kOtherIdentity);
    EXPECT_EQ(reason(0, 1, with_ok([](PrepareOkFrame& f) {
                         f.durable.op = OpNumber{4};
                         f.received = OpNumber{4};
                     })),
              Refusal::kBeyondHead);
    EXPECT_EQ(reason(0, 1, with_ok([](PrepareOkFrame& f) { f.received = OpNumber{4}; })),
              Refusal::kBeyondHead);
    EXPECT_EQ(reason(0, 1, with_ok([](PrepareOkFrame& f) { f.received = OpNumber{2}; })),
              Refusal::kMalformed);
    EXPECT_EQ(reason(0, 1, with_ok([](PrepareOkFrame& f) { f.commit = OpNumber{4}; })),
              Refusal::kMalformed);
    EXPECT_EQ(net.replica(0).commit_max(), OpNumber{2});
    EXPECT_EQ(reason(0, 1, with_ok([](PrepareOkFrame& f) {
                         f.durable = {.op = OpNumber{1}, .identity = Identity{1}};
                         f.commit = OpNumber{0};
                     })),
              Refusal::kNone);
    EXPECT_EQ(net.marks.count(Mark::kAckStale), 1u);
}

TEST_F(RefusalTest, AnotherCommittedEntryFencesTheBackup) {
    Frame other = heartbeat;
    std::get<CommitFrame>(other.payload).commit.identity = Identity{1};
    EXPECT_EQ(reason(1, 0, other), Refusal::kOtherIdentity);
    ASSERT_EQ(net.node(1).fatals.size(), 1u);
    EXPECT_EQ(net.node(1).fatals[0].reason, FatalReason::kDiverged);
    EXPECT_EQ(net.node(1).fatals[0].op, OpNumber{2});
    EXPECT_TRUE(net.replica(1).fenced());
    EXPECT_EQ(reason(1, 0, prepare), Refusal::kNotNormal);
}

// A commit is (op, identity) in a prepare too, whether the prepare is known here or leaves a gap.
TEST_F(RefusalTest, AnotherCommittedEntryInAPrepareFencesTheBackup) {
    const Head other{.op = OpNumber{2}, .identity = Identity{1}};
    const Frame known = std::find_if(net.sent.begin(), net.sent.end(), [](const auto& flying) {
                            return flying.to == ReplicaIndex{1};
                        })->frame;
    const auto says = [&](Frame frame) {
        std::get<PrepareFrame>(frame.payload).commit = other;
        return frame;
    };
    Frame gap = with(says(prepare),
                     [](Frame& f) { std::get<PrepareFrame>(f.payload).prepare.op = OpNumber{9}; });
    net.step(1, Received{.peer = ReplicaIndex{0}, .frame = gap});
    net.step(2, Received{.peer = ReplicaIndex{0}, .frame = says(known)});
    for (const std::size_t backup : {std::size_t{1}, std::size_t{2}}) {
        ASSERT_EQ(net.node(backup).fatals.size(), 1u) << backup;
        EXPECT_EQ(net.node(backup).fatals[0].reason, FatalReason::kDiverged);
        EXPECT_EQ(net.node(backup).fatals[0].op, OpNumber{2});
        EXPECT_TRUE(net.replica(backup).fenced());
        EXPECT_EQ(net.replica(backup).commit(), OpNumber{2});
        EXPECT_TRUE(net.node(backup).appending.empty()) << "nothing is built on it";
    }
}

// A commit beyond the end of the log is remembered with its identity: the entry that comes there
// must be it.
TEST_F(RefusalTest, ACommitBeyondTheHeadIsHeldAgainstTheEntryThatComes) {
    const Prepare& third = std::get<PrepareFrame>(prepare.payload).prepare;
    for (const bool same : {true, false}) {
        const std::size_t backup = same ? 1 : 2;
        Frame ahead = heartbeat;
        std::get<CommitFrame>(ahead.payload).commit = {
            .op = OpNumber{3}, .identity = same ? third.identity : Identity{1}};
        net.step(backup, Received{.peer = ReplicaIndex{0}, .frame = ahead});
        EXPECT_EQ(net.replica(backup).commit_max(), OpNumber{3});
        EXPECT_EQ(net.replica(backup).commit(), OpNumber{2});
        net.step(backup, Received{.peer = ReplicaIndex{0}, .frame = prepare});
        EXPECT_EQ(net.replica(backup).fenced(), !same);
        EXPECT_EQ(net.node(backup).appending.size(), same ? 1u : 0u);
        EXPECT_EQ(net.replica(backup).head(), OpNumber{same ? 3u : 2u});
    }
    EXPECT_EQ(net.node(2).fatals.at(0).reason, FatalReason::kDiverged);
    // And the same op under two identities, wherever it lies.
    Frame twice = heartbeat;
    auto& commit = std::get<CommitFrame>(twice.payload).commit;
    commit = {.op = OpNumber{50}, .identity = Identity{50}};
    net.step(1, Received{.peer = ReplicaIndex{0}, .frame = twice});
    EXPECT_FALSE(net.replica(1).fenced());
    commit.identity = Identity{51};
    net.step(1, Received{.peer = ReplicaIndex{0}, .frame = twice});
    EXPECT_TRUE(net.replica(1).fenced());
    // It was about to carry out op 3, which is known to be committed, as soon as its append ends.
    const std::size_t flying = net.flying().size();
    net.end_append(1);
    EXPECT_EQ(net.replica(1).commit(), OpNumber{2}) << "whose log it holds is not known any more";
    EXPECT_EQ(net.node(1).committed.size(), 2u);
    EXPECT_EQ(net.flying().size(), flying) << "and says nothing";
}

TEST_F(RefusalTest, NothingAPeerSaysStopsAReplica) {
    std::mt19937_64 random(20260918);
    const auto number = [&]() -> std::uint64_t {
        switch (random() % 4) {
            case 0:
                return random() % 6;
            case 1:
                return ~std::uint64_t{0} - random() % 3;
            default:
                return random();
        }
    };
    const auto identity = [&] {
        const Prepare& known = std::get<PrepareFrame>(prepare.payload).prepare;
        return random() % 2 == 0 ? (random() % 2 == 0 ? known.identity : known.parent)
                                 : Identity{number()};
    };
    for (int i = 0; i < 200'000; ++i) {
        Frame frame = ok;
        if (random() % 10 == 0) {
            frame.header.view = ViewNumber{static_cast<std::uint32_t>(number())};
        }
        const auto peer = static_cast<std::uint8_t>(random() % 4);
        frame.header.replica =
            ReplicaIndex{random() % 10 == 0 ? static_cast<std::uint8_t>(number()) : peer};
        switch (random() % 3) {
            case 0:
                frame.payload =
                    PrepareFrame{.prepare = {.op = OpNumber{number()},
                                             .timestamp = Timestamp{number()},
                                             .parent = identity(),
                                             .body = BodyDigest{number()},
                                             .identity = identity()},
                                 .commit = {.op = OpNumber{number()}, .identity = identity()}};
                break;
            case 1:
                frame.payload =
                    PrepareOkFrame{.durable = {.op = OpNumber{number()}, .identity = identity()},
                                   .received = OpNumber{number()},
                                   .commit = OpNumber{number()},
                                   .gap = random() % 2 == 0};
                break;
            default:
                frame.payload =
                    CommitFrame{.commit = {.op = OpNumber{number()}, .identity = identity()},
                                .counter = number()};
                break;
        }
        net.step(random() % 3, Received{.peer = ReplicaIndex{peer}, .frame = frame});
        net.flying().clear();
        if (i % 100 == 0) {
            net.tick();
        }
    }
    EXPECT_EQ(net.replica(0).head(), OpNumber{3});
}

}  // namespace
}  // namespace galgo::consensus

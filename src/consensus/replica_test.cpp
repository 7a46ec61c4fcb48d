// A group of one: order, refusals, failed appends.
#include "consensus/replica.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace galgo::consensus {
namespace {

constexpr GroupId kGroup{5};

struct Single {
    explicit Single(std::uint8_t pipeline_max, LogSummary log = {})
        : options{.pipeline_max = pipeline_max}, replica(pool, options, kGroup, Incarnation{1}) {
        EffectList effects;
        replica.step(Boot{.log = log}, effects);
        EXPECT_TRUE(effects.empty());
    }

    Effect request(std::uint64_t token, std::uint64_t wall) {
        EffectList effects;
        replica.step(
            ClientRequest{
                .token = Token{token}, .wall = Timestamp{wall}, .body = BodyDigest{token}},
            effects);
        EXPECT_EQ(effects.view().size(), 1u);
        if (const auto* append = std::get_if<Append>(&effects.view()[0])) {
            appends.push_back(append->prepare);
        }
        return effects.view()[0];
    }
    /// Commits and abandons, without the notes.
    std::vector<Effect> done(std::uint64_t op, bool durable) {
        Identity identity;
        for (const Prepare& prepare : appends) {
            identity = prepare.op == OpNumber{op} ? prepare.identity : identity;
        }
        EffectList effects;
        replica.step(AppendDone{.op = OpNumber{op},
                                .identity = identity,
                                .status = durable ? AppendStatus::kDurable : AppendStatus::kFailed},
                     effects);
        std::vector<Effect> out;
        for (const Effect& effect : effects.view()) {
            if (!std::holds_alternative<Note>(effect)) {
                out.push_back(effect);
            }
        }
        return out;
    }

    PipelinePool pool;
    ReplicaOptions options;
    Replica replica;
    std::vector<Prepare> appends;
};

struct ReplicaOfOne : testing::Test {
    Single one{4,
               {.head = {.op = OpNumber{7}, .identity = Identity{77}},
                .commit = {.op = OpNumber{7}, .identity = Identity{77}},
                .last_timestamp = Timestamp{1000}}};
};

TEST_F(ReplicaOfOne, CommitsInOrderWhateverOrderAppendsEnd) {
    const auto first = std::get<Append>(one.request(1, 2000));
    EXPECT_EQ(first.prepare.op, OpNumber{8});
    EXPECT_EQ(first.prepare.parent, Identity{77});
    const auto second = std::get<Append>(one.request(2, 1500));
    EXPECT_EQ(second.prepare.timestamp, Timestamp{2000});  // the clock stepped back
    EXPECT_EQ(second.prepare.parent, first.prepare.identity);
    EXPECT_EQ(std::get<Append>(one.request(3, 2500)).prepare.op, OpNumber{10});
    EXPECT_TRUE(one.done(10, true).empty());
    EXPECT_TRUE(one.done(9, true).empty());
    EXPECT_EQ(one.replica.commit(), OpNumber{7});
    const std::vector<Effect> effects = one.done(8, true);
    ASSERT_EQ(effects.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        const auto& commit = std::get<Commit>(effects[i]);
        EXPECT_EQ(commit.head.op, OpNumber{8 + i});
        EXPECT_EQ(commit.head, one.appends[i].head());
        EXPECT_EQ(commit.token, Token{1 + i});
    }
    EXPECT_EQ(one.replica.commit(), OpNumber{10});
    EXPECT_EQ(one.replica.in_flight(), 0u);
}

TEST_F(ReplicaOfOne, RefusesWhenThePipelineIsFull) {
    for (std::uint64_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(std::holds_alternative<Append>(one.request(i, 2000)));
    }
    const auto rejected = std::get<Reject>(one.request(9, 2000));
    EXPECT_EQ(rejected.error, ErrorCode::kTransientNotAccepted);
    EXPECT_EQ(rejected.token, Token{9});
    EXPECT_EQ(one.replica.head(), OpNumber{11});
    EXPECT_EQ(one.done(8, true).size(), 1u);
    EXPECT_EQ(std::get<Append>(one.request(9, 2000)).prepare.op, OpNumber{12});
}

TEST_F(ReplicaOfOne, AbandonsAFailedAppendAndNeverReusesItsNumber) {
    one.request(1, 2000);
    one.request(2, 2000);
    EXPECT_TRUE(one.done(9, true).empty());
    const std::vector<Effect> effects = one.done(8, false);
    ASSERT_EQ(effects.size(), 2u);
    EXPECT_EQ(std::get<Abandon>(effects[0]).error, ErrorCode::kIoError);
    EXPECT_EQ(std::get<Abandon>(effects[0]).token, Token{1});
    EXPECT_EQ(std::get<Commit>(effects[1]).token, Token{2});
    EXPECT_FALSE(one.replica.fenced());
    EXPECT_EQ(std::get<Append>(one.request(3, 2000)).prepare.op, OpNumber{10});
}

TEST_F(ReplicaOfOne, StopsOnAnAppendThatWasNeverAskedFor) {
    one.request(1, 2000);
    EXPECT_DEATH(one.done(9, true), "check failed");
    one.appends.back().identity = Identity{3};
    EXPECT_DEATH(one.done(8, true), "check failed");
}

TEST_F(ReplicaOfOne, NeedsNoTimeAndListensToNobody) {
    EXPECT_FALSE(one.replica.wants_ticks());
    EffectList effects;
    one.replica.step(Tick{.now = TickCount{1'000'000}}, effects);
    EXPECT_TRUE(effects.empty());
    for (const std::uint8_t peer : {std::uint8_t{0}, std::uint8_t{1}, std::uint8_t{255}}) {
        effects.clear();
        one.replica.step(
            Received{.peer = ReplicaIndex{peer},
                     .frame = {.header = {.group = kGroup,
                                          .incarnation = Incarnation{1},
                                          .replica = ReplicaIndex{peer}},
                               .payload = CommitFrame{.commit = {.op = OpNumber{100}}}}},
            effects);
        ASSERT_EQ(effects.view().size(), 1u);
        EXPECT_EQ(std::get<Note>(effects.view()[0]).kind, NoteKind::kFrameRefused);
    }
    EXPECT_EQ(one.replica.commit(), OpNumber{7});
}

TEST(ReplicaOfOneLaws, RandomAppendOrderKeepsTheLaws) {
    const std::uint64_t seed = 20260918;
    std::mt19937_64 random(seed);
    Single one(kPipelineMax);
    std::vector<Prepare> pending;
    OpNumber committed{0};
    Timestamp last{0};
    Identity parent{0};
    for (int i = 0; i < 100'000; ++i) {
        EffectList effects;
        if (pending.empty() || random() % 2 == 0) {
            one.replica.step(
                ClientRequest{.token = Token{random()}, .wall = Timestamp{random() % 1'000'000}},
                effects);
        } else {
            const std::size_t pick = random() % pending.size();
            const Prepare prepare = pending[pick];
            pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(pick));
            one.replica.step(AppendDone{.op = prepare.op,
                                        .identity = prepare.identity,
                                        .status = random() % 8 != 0 ? AppendStatus::kDurable
                                                                    : AppendStatus::kFailed},
                             effects);
        }
        for (const Effect& effect : effects.view()) {
            if (const auto* append = std::get_if<Append>(&effect)) {
                ASSERT_GE(append->prepare.timestamp, last);
                ASSERT_EQ(append->prepare.parent, parent);
                last = append->prepare.timestamp;
                parent = append->prepare.identity;
                pending.push_back(append->prepare);
            } else if (const auto* commit = std::get_if<Commit>(&effect)) {
                ASSERT_EQ(commit->head.op, committed.next());
                committed = commit->head.op;
            } else if (const auto* abandon = std::get_if<Abandon>(&effect)) {
                ASSERT_EQ(abandon->head.op, committed.next());
                committed = abandon->head.op;
            }
        }
        ASSERT_EQ(one.replica.commit(), committed);
    }
}

}  // namespace
}  // namespace galgo::consensus

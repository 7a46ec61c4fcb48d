#include "consensus/group.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace galgo::consensus {
namespace {

Effect only(const EffectList& effects) {
    EXPECT_EQ(effects.view().size(), 1u);
    return effects.view()[0];
}

struct GroupTest : testing::Test {
    PipelinePool pool;
    Group group{pool, {.head = OpNumber{7}, .last_timestamp = Timestamp{1000}, .pipeline_max = 4}};

    Effect request(std::uint64_t token, std::uint64_t wall) {
        EffectList effects;
        group.step(Request{Token{token}, Timestamp{wall}}, effects);
        return only(effects);
    }
    std::vector<Effect> done(std::uint64_t op, bool durable) {
        EffectList effects;
        group.step(AppendDone{OpNumber{op}, durable}, effects);
        return {effects.view().begin(), effects.view().end()};
    }
};

TEST_F(GroupTest, CommitsInOrderWhateverOrderAppendsEnd) {
    EXPECT_EQ(request(1, 2000).op, OpNumber{8});
    EXPECT_EQ(request(2, 1500).timestamp, Timestamp{2000});  // the clock stepped back
    EXPECT_EQ(request(3, 2500).op, OpNumber{10});
    EXPECT_TRUE(done(10, true).empty());
    EXPECT_TRUE(done(9, true).empty());
    EXPECT_EQ(group.commit(), OpNumber{7});
    const std::vector<Effect> effects = done(8, true);
    ASSERT_EQ(effects.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(effects[i].kind, EffectKind::kCommit);
        EXPECT_EQ(effects[i].op, OpNumber{8 + i});
        EXPECT_EQ(effects[i].token, Token{1 + i});
    }
    EXPECT_EQ(group.commit(), OpNumber{10});
    EXPECT_EQ(group.in_flight(), 0u);
}

TEST_F(GroupTest, RefusesWhenThePipelineIsFull) {
    for (std::uint64_t i = 0; i < 4; ++i) {
        EXPECT_EQ(request(i, 2000).kind, EffectKind::kAppend);
    }
    const Effect rejected = request(9, 2000);
    EXPECT_EQ(rejected.kind, EffectKind::kReject);
    EXPECT_EQ(rejected.error, ErrorCode::kTransientNotAccepted);
    EXPECT_EQ(group.head(), OpNumber{11});
    EXPECT_EQ(done(8, true).size(), 1u);
    EXPECT_EQ(request(9, 2000).op, OpNumber{12});
}

TEST_F(GroupTest, AbandonsAFailedAppendAndNeverReusesItsNumber) {
    request(1, 2000);
    request(2, 2000);
    EXPECT_TRUE(done(9, true).empty());
    const std::vector<Effect> effects = done(8, false);
    ASSERT_EQ(effects.size(), 2u);
    EXPECT_EQ(effects[0].kind, EffectKind::kAbandon);
    EXPECT_EQ(effects[0].error, ErrorCode::kIoError);
    EXPECT_EQ(effects[1].kind, EffectKind::kCommit);
    EXPECT_EQ(request(3, 2000).op, OpNumber{10});
}

TEST_F(GroupTest, StopsOnAnAppendThatWasNeverAskedFor) {
    request(1, 2000);
    EXPECT_DEATH(done(9, true), "check failed");
}

TEST(Group, RandomAppendOrderKeepsTheLaws) {
    const std::uint64_t seed = 20260918;
    std::mt19937_64 random(seed);
    PipelinePool pool;
    Group group(pool, {.pipeline_max = kPipelineMax});
    std::vector<OpNumber> pending;
    OpNumber committed{0};
    Timestamp last{0};
    for (int i = 0; i < 100'000; ++i) {
        EffectList effects;
        if (pending.empty() || random() % 2 == 0) {
            group.step(Request{Token{random()}, Timestamp{random() % 1'000'000}}, effects);
        } else {
            const std::size_t pick = random() % pending.size();
            const OpNumber op = pending[pick];
            pending.erase(pending.begin() + static_cast<std::ptrdiff_t>(pick));
            group.step(AppendDone{op, random() % 8 != 0}, effects);
        }
        for (const Effect& effect : effects.view()) {
            if (effect.kind == EffectKind::kAppend) {
                ASSERT_GE(effect.timestamp, last);
                last = effect.timestamp;
                pending.push_back(effect.op);
            } else if (effect.kind != EffectKind::kReject) {
                ASSERT_EQ(effect.op, committed.next());
                committed = effect.op;
            }
        }
        ASSERT_EQ(group.commit(), committed);
    }
}

}  // namespace
}  // namespace galgo::consensus

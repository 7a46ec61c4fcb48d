// Quorums, heads, and that promises cannot be made without proofs.
#include "consensus/quorum.hpp"

#include <gtest/gtest.h>

#include <array>
#include <concepts>
#include <type_traits>

#include "consensus/durability.hpp"
#include "consensus/frames.hpp"
#include "consensus/head.hpp"
#include "consensus/pipeline.hpp"

namespace galgo::consensus {
namespace {

TEST(Quorum, MajoritiesOfEveryClusterSize) {
    // By number of replicas, from 1.
    constexpr std::array<std::uint8_t, 31> kMajority{1,  2,  2,  3,  3,  4,  4,  5,  5,  6,  6,
                                                     7,  7,  8,  8,  9,  9,  10, 10, 11, 11, 12,
                                                     12, 13, 13, 14, 14, 15, 15, 16, 16};
    for (std::uint8_t count = 1; count <= 31; ++count) {
        ASSERT_TRUE(replica_count_supported(count));
        const Quorums quorums = quorums_of(count);
        EXPECT_EQ(quorums.replication, kMajority[count - 1U]) << int{count};
        EXPECT_EQ(quorums.view_change, kMajority[count - 1U]) << int{count};
        EXPECT_GT(quorums.replication + quorums.view_change, count);
        EXPECT_LE(quorums.replication, count);
    }
    EXPECT_FALSE(replica_count_supported(0));
    EXPECT_FALSE(replica_count_supported(32));
    EXPECT_FALSE(replica_count_supported(255));
    EXPECT_DEATH(static_cast<void>(quorums_of(32)), "check failed");
    EXPECT_DEATH(static_cast<void>(quorums_of(0)), "check failed");
}

TEST(ReplicaSet, HoldsEveryReplicaAndNoOther) {
    ReplicaSet set;
    EXPECT_TRUE(set.empty());
    set.add(ReplicaIndex{0});
    set.add(ReplicaIndex{30});
    EXPECT_EQ(set.count(), 2u);
    EXPECT_TRUE(set.contains(ReplicaIndex{30}));
    EXPECT_FALSE(set.contains(ReplicaIndex{31}));
    EXPECT_FALSE(set.contains(ReplicaIndex{255}));
    set.remove(ReplicaIndex{30});
    EXPECT_FALSE(set.contains(ReplicaIndex{30}));
}

TEST(Head, IdentityCoversEveryField) {
    const GroupId group{1};
    const Incarnation incarnation{2};
    const Prepare base{
        .op = OpNumber{3}, .timestamp = Timestamp{4}, .parent = Identity{5}, .body = BodyDigest{6}};
    const Identity identity = compute_identity(group, incarnation, base);
    EXPECT_EQ(identity, compute_identity(group, incarnation, base));
    EXPECT_NE(identity, compute_identity(GroupId{9}, incarnation, base));
    EXPECT_NE(identity, compute_identity(group, Incarnation{9}, base));
    Prepare other = base;
    other.op = OpNumber{9};
    EXPECT_NE(identity, compute_identity(group, incarnation, other));
    other = base;
    other.timestamp = Timestamp{9};
    EXPECT_NE(identity, compute_identity(group, incarnation, other));
    other = base;
    other.parent = Identity{9};
    EXPECT_NE(identity, compute_identity(group, incarnation, other));
    other = base;
    other.body = BodyDigest{9};
    EXPECT_NE(identity, compute_identity(group, incarnation, other));
    other = base;
    other.identity = Identity{9};  // not part of itself
    EXPECT_EQ(identity, compute_identity(group, incarnation, other));
}

TEST(Head, TakesOnlyWhatFollows) {
    LogHead primary;
    const Prepare first = primary.extend(GroupId{1}, Incarnation{0}, Timestamp{10}, BodyDigest{1});
    const Prepare second = primary.extend(GroupId{1}, Incarnation{0}, Timestamp{11}, BodyDigest{2});
    EXPECT_EQ(second.parent, first.identity);
    EXPECT_EQ(primary.get(), second.head());

    LogHead backup;
    EXPECT_EQ(backup.link(second), LogHead::Link::kGap);
    EXPECT_EQ(backup.link(first), LogHead::Link::kFollows);
    backup.advance(first);
    EXPECT_EQ(backup.link(first), LogHead::Link::kKnown);
    Prepare stranger = second;
    stranger.parent = Identity{12345};
    EXPECT_EQ(backup.link(stranger), LogHead::Link::kOtherParent);
    EXPECT_DEATH(backup.advance(stranger), "check failed");
    backup.advance(second);
    EXPECT_EQ(backup.get(), primary.get());
    stranger.op = OpNumber{~std::uint64_t{0}};
    EXPECT_EQ(backup.link(stranger), LogHead::Link::kGap);
}

// A promise needs a proof, and a proof comes only from the write that was asked for and ended well.
template <class View, class Entry>
concept CanAcknowledge = requires(const FrameMaker& maker, View view, Entry entry) {
    { maker.make_prepare_ok(view, entry, OpNumber{}, OpNumber{}, false) };
};
template <class View>
concept CanPrepare = requires(const FrameMaker& maker, View view) {
    { maker.make_prepare(view, Prepare{}, Head{}) };
};
template <class View>
concept CanHeartbeat = requires(const FrameMaker& maker, View view) {
    { maker.make_commit(view, Head{}, std::uint64_t{}) };
};
/// Whoever holds a pipeline can look at the state of an entry, and not set it.
template <class P>
concept StateCanBeSet =
    requires(P& pipeline) { pipeline.find(OpNumber{})->state = AppendState::kDurable; };

static_assert(CanAcknowledge<DurableView, DurableEntry>);
static_assert(!CanAcknowledge<ViewNumber, DurableEntry>);
static_assert(!CanAcknowledge<DurableView, Head>);
static_assert(!CanAcknowledge<DurableView, Prepare>);
static_assert(!CanAcknowledge<DurableView, AppendDone>);
static_assert(CanPrepare<DurableView> && !CanPrepare<ViewNumber> && !CanPrepare<SuperblockState>);
static_assert(CanHeartbeat<DurableView> && !CanHeartbeat<ViewNumber>);

static_assert(!std::is_default_constructible_v<DurableView>);
static_assert(!std::is_constructible_v<DurableView, SuperblockState>);
static_assert(!std::is_constructible_v<DurableView, ViewNumber>);
static_assert(!std::is_aggregate_v<DurableView> && !std::is_aggregate_v<DurableEntry>);
static_assert(!std::is_default_constructible_v<DurableEntry>);
static_assert(!std::is_constructible_v<DurableEntry, Head>);
static_assert(!std::is_constructible_v<DurableEntry, AppendDone>);
static_assert(!std::is_default_constructible_v<OutgoingFrame>);
static_assert(!std::is_constructible_v<OutgoingFrame, Frame>);
static_assert(!std::is_aggregate_v<OutgoingFrame>);
static_assert(std::same_as<decltype(std::declval<const OutgoingFrame&>().values()), const Frame&>);

static_assert(!std::is_constructible_v<DurableView, SuperblockDone>);
static_assert(!std::is_constructible_v<DurableView, Boot>);
static_assert(!std::is_constructible_v<DurableEntry, Boot>);
static_assert(!std::is_constructible_v<DurableLog, Head>);
static_assert(!StateCanBeSet<Pipeline>);

TEST(Durability, OnlyTheSuperblockThatWasAskedForProvesItsView) {
    const SuperblockState third{.view = ViewNumber{3}, .log_view = ViewNumber{2}};
    SuperblockWrites writes;
    writes.recovered(Boot{});
    EXPECT_FALSE(writes.proof().has_value());
    EXPECT_DEATH(static_cast<void>(writes.ended({.state = third, .written = true})),
                 "check failed");
    writes.asked(third);
    EXPECT_TRUE(writes.under_way());
    EXPECT_DEATH(writes.asked(third), "check failed");
    EXPECT_FALSE(writes.ended({.state = third, .written = false}));
    EXPECT_FALSE(writes.proof().has_value());
    writes.asked(third);
    SuperblockState other = third;
    other.commit_max = {.op = OpNumber{1}, .identity = Identity{1}};
    EXPECT_DEATH(static_cast<void>(writes.ended({.state = other, .written = true})),
                 "check failed");
    EXPECT_TRUE(writes.ended({.state = third, .written = true}));
    ASSERT_TRUE(writes.proof().has_value());
    EXPECT_EQ(writes.proof()->view(), ViewNumber{3});
    EXPECT_DEATH(writes.recovered(Boot{}), "check failed");

    SuperblockWrites later;
    later.recovered(Boot{.superblock = third});
    EXPECT_EQ(later.proof()->view(), ViewNumber{3});
}

TEST(Durability, AFailedAppendProvesNothing) {
    Pipeline pipeline;
    LogHead head;
    const Prepare first = head.extend(GroupId{1}, Incarnation{0}, Timestamp{1}, BodyDigest{1});
    const Prepare second = head.extend(GroupId{1}, Incarnation{0}, Timestamp{1}, BodyDigest{2});
    pipeline.push(first, Token{});
    pipeline.push(second, Token{});
    DurableLog log(Boot{});
    EXPECT_FALSE(log.extend(pipeline));
    pipeline.record({.op = first.op, .identity = first.identity, .status = AppendStatus::kFailed});
    pipeline.record(
        {.op = second.op, .identity = second.identity, .status = AppendStatus::kDurable});
    EXPECT_FALSE(log.extend(pipeline));
    EXPECT_EQ(log.op(), OpNumber{0});
}

TEST(Durability, AnEntryProvesALogOnlyWhereItIsLinkedToIt) {
    LogHead head;
    const Prepare first = head.extend(GroupId{1}, Incarnation{0}, Timestamp{1}, BodyDigest{1});
    const Prepare second = head.extend(GroupId{1}, Incarnation{0}, Timestamp{2}, BodyDigest{2});
    const auto durable = [](const Prepare& prepare) {
        return AppendDone{
            .op = prepare.op, .identity = prepare.identity, .status = AppendStatus::kDurable};
    };
    Pipeline pipeline;
    pipeline.push(first, Token{});
    pipeline.push(second, Token{});
    pipeline.record(durable(first));
    pipeline.record(durable(second));
    // The op fits, the log is another one.
    DurableLog other(Boot{.log = {.head = {.op = OpNumber{0}, .identity = Identity{9}}}});
    EXPECT_DEATH(other.extend(pipeline), "check failed");
    DurableLog second_only(Boot{.log = {.head = {.op = OpNumber{1}, .identity = Identity{9}}}});
    EXPECT_DEATH(second_only.extend(pipeline), "check failed");
    DurableLog log(Boot{});
    EXPECT_TRUE(log.extend(pipeline));
    EXPECT_EQ(log.proof().head(), second.head());
    // What is behind it stays linked when the front is gone.
    const Prepare third = head.extend(GroupId{1}, Incarnation{0}, Timestamp{3}, BodyDigest{3});
    pipeline.pop_front();
    pipeline.pop_front();
    Prepare stranger = third;
    stranger.parent = first.identity;
    pipeline.push(stranger, Token{});
    pipeline.record(durable(stranger));
    EXPECT_DEATH(log.extend(pipeline), "check failed");
    Pipeline linked;
    linked.push(second, Token{});
    EXPECT_DEATH(linked.push(stranger, Token{}), "check failed");
    linked.push(third, Token{});
    linked.record(durable(third));
    EXPECT_TRUE(log.extend(linked));
    EXPECT_EQ(log.op(), OpNumber{3});
}

}  // namespace
}  // namespace galgo::consensus

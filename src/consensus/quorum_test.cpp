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

// A promise needs a proof, and a proof comes only from an event that says that a write ended well.
template <class View, class Entry>
concept CanAcknowledge = requires(const FrameMaker& maker, View view, Entry entry) {
    { maker.make_prepare_ok(view, entry, OpNumber{}, OpNumber{}, false) };
};
template <class View>
concept CanPrepare = requires(const FrameMaker& maker, View view) {
    { maker.make_prepare(view, Prepare{}, OpNumber{}) };
};
template <class View>
concept CanHeartbeat = requires(const FrameMaker& maker, View view) {
    { maker.make_commit(view, Head{}, std::uint64_t{}) };
};
template <class Proof, class From>
concept ProvenBy = requires(From from) {
    { Proof::proven_by(from) };
};

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

static_assert(ProvenBy<DurableView, SuperblockDone> && ProvenBy<DurableView, Boot>);
static_assert(!ProvenBy<DurableView, SuperblockState> && !ProvenBy<DurableView, AppendDone>);
static_assert(ProvenBy<DurableEntry, Boot> && !ProvenBy<DurableEntry, Head>);

TEST(Durability, AFailedWriteProvesNothing) {
    EXPECT_FALSE(DurableView::proven_by(SuperblockDone{.state = {}, .written = false}).has_value());
    EXPECT_FALSE(DurableView::proven_by(Boot{}).has_value());
    const auto view = DurableView::proven_by(SuperblockDone{
        .state = {.view = ViewNumber{3}, .log_view = ViewNumber{2}}, .written = true});
    ASSERT_TRUE(view.has_value());
    EXPECT_EQ(view->view(), ViewNumber{3});
    EXPECT_EQ(view->log_view(), ViewNumber{2});

    Pipeline pipeline;
    LogHead head;
    const Prepare first = head.extend(GroupId{1}, Incarnation{0}, Timestamp{1}, BodyDigest{1});
    const Prepare second = head.extend(GroupId{1}, Incarnation{0}, Timestamp{1}, BodyDigest{2});
    pipeline.push(first, Token{});
    pipeline.push(second, Token{});
    const DurableEntry start = DurableEntry::proven_by(Boot{});
    EXPECT_FALSE(pipeline.durable_after(start).has_value());
    pipeline.record({.op = first.op, .identity = first.identity, .status = AppendStatus::kFailed});
    pipeline.record(
        {.op = second.op, .identity = second.identity, .status = AppendStatus::kDurable});
    EXPECT_FALSE(pipeline.durable_after(start).has_value());
}

}  // namespace
}  // namespace galgo::consensus

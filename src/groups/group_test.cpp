// Laws of the assignment: complete, disjoint, balanced, sticky, deterministic; and the generation
// rule.
#include "groups/group.hpp"

#include <algorithm>
#include <random>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace galgo::groups {
namespace {

using testing::ElementsAre;

ClientId client(std::uint32_t number) {
    return ClientId(u128{number});
}

PartitionId partition(std::uint32_t index) {
    return PartitionId(index);
}

std::vector<std::uint32_t> partitions_of(const Group& group, std::uint32_t number) {
    std::vector<std::uint32_t> result;
    for (const PartitionId id : group.find_member(client(number))->partitions) {
        result.push_back(id.value());
    }
    return result;
}

std::vector<std::size_t> shares(const Group& group) {
    std::vector<std::size_t> result;
    for (const Member& member : group.members()) {
        result.push_back(member.partitions.size());
    }
    return result;
}

TEST(Group, StartsEmpty) {
    const Group group(4);
    EXPECT_EQ(group.generation(), Generation(0));
    EXPECT_EQ(group.member_count(), 0U);
    EXPECT_EQ(group.owner_of(partition(0)), nullptr);
    EXPECT_EQ(group.find_member(client(1)), nullptr);
    group.check_invariants();
}

TEST(Group, TwoJoinsOverFourPartitionsGiveTwoEach) {
    Group group(4);
    EXPECT_TRUE(group.join(client(1)));
    EXPECT_THAT(partitions_of(group, 1), ElementsAre(0, 1, 2, 3));
    EXPECT_TRUE(group.join(client(2)));
    EXPECT_THAT(partitions_of(group, 1), ElementsAre(0, 1));
    EXPECT_THAT(partitions_of(group, 2), ElementsAre(2, 3));
    EXPECT_TRUE(group.owns(client(2), partition(3)));
    EXPECT_FALSE(group.owns(client(1), partition(3)));
    EXPECT_FALSE(group.owns(client(1), partition(4))) << "beyond the partition count";
    EXPECT_EQ(group.generation(), Generation(2));
}

TEST(Group, SevenPartitionsThreeJoinsThenTheSecondLeaves) {
    Group group(7);
    group.join(client(1));
    group.join(client(2));
    EXPECT_THAT(shares(group), ElementsAre(4, 3));
    group.join(client(3));
    EXPECT_THAT(shares(group), ElementsAre(3, 2, 2));
    EXPECT_TRUE(group.leave(client(2)));
    EXPECT_THAT(shares(group), ElementsAre(4, 3));
    EXPECT_EQ(group.members()[0].id, MemberId(0));
    EXPECT_EQ(group.members()[1].id, MemberId(2));
    group.check_invariants();
}

TEST(Group, JoinIsIdempotentAndLeaveOfAStrangerChangesNothing) {
    Group group(3);
    group.join(client(1));
    const Group before = group;
    EXPECT_FALSE(group.join(client(1)));
    EXPECT_FALSE(group.leave(client(9)));
    EXPECT_FALSE(group.set_partition_count(3));
    EXPECT_EQ(group, before);
}

TEST(Group, LowestFreeSlotIsUsedAgain) {
    Group group(2);
    for (std::uint32_t i = 1; i <= 3; ++i) {
        group.join(client(i));
    }
    group.leave(client(1));
    group.leave(client(2));
    group.join(client(7));
    EXPECT_EQ(group.find_member(client(7))->id, MemberId(0));
    group.join(client(8));
    EXPECT_EQ(group.find_member(client(8))->id, MemberId(1));
    EXPECT_EQ(group.find_member(client(3))->id, MemberId(2));
}

TEST(Group, IdleMemberTakesOverWhenAnOwnerLeaves) {
    Group group(2);
    for (std::uint32_t i = 1; i <= 4; ++i) {
        group.join(client(i));
    }
    EXPECT_THAT(shares(group), ElementsAre(1, 1, 0, 0));
    const auto kept = partitions_of(group, 2);
    group.leave(client(1));
    EXPECT_THAT(shares(group), ElementsAre(1, 1, 0));
    EXPECT_EQ(partitions_of(group, 2), kept);
    EXPECT_THAT(partitions_of(group, 3), ElementsAre(0));
}

TEST(Group, PartitionCountFollowsTheTopic) {
    Group group(2);
    group.join(client(1));
    group.join(client(2));
    EXPECT_TRUE(group.set_partition_count(6));
    EXPECT_THAT(shares(group), ElementsAre(3, 3));
    EXPECT_TRUE(group.set_partition_count(0));
    EXPECT_THAT(shares(group), ElementsAre(0, 0));
    EXPECT_EQ(group.generation(), Generation(4));
    EXPECT_TRUE(group.remove_all_members());
    EXPECT_FALSE(group.remove_all_members());
    EXPECT_EQ(group.generation(), Generation(5));
    group.check_invariants();
}

TEST(Group, RestoredIsEqualAndGoesOnTheSameWay) {
    Group group(5);
    group.join(client(1));
    group.join(client(2));
    group.join(client(3));
    group.leave(client(2));
    std::optional<Group> again =
        Group::restored(5, group.generation(), {group.members().begin(), group.members().end()});
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(*again, group);
    again->join(client(4));
    group.join(client(4));
    EXPECT_EQ(*again, group);
}

TEST(Group, RestoringDamagedMembersGivesNothing) {
    const auto member = [](std::uint32_t slot, std::uint32_t who, std::vector<PartitionId> owned) {
        return Member{.id = MemberId(slot), .client = client(who), .partitions = std::move(owned)};
    };
    const auto restore = [](std::vector<Member> members) {
        return Group::restored(2, Generation(1), std::move(members)).has_value();
    };
    const PartitionId p0(0);
    const PartitionId p1(1);
    EXPECT_TRUE(restore({}));
    EXPECT_TRUE(restore({member(0, 1, {p0}), member(1, 2, {p1})}));
    EXPECT_FALSE(restore({member(0, 1, {p0})})) << "incomplete";
    EXPECT_FALSE(restore({member(0, 1, {p0, p1}), member(1, 2, {p1})})) << "two owners";
    EXPECT_FALSE(restore({member(0, 1, {p0, p1}), member(1, 2, {})})) << "unbalanced";
    EXPECT_FALSE(restore({member(1, 1, {p0}), member(0, 2, {p1})})) << "slots not ascending";
    EXPECT_FALSE(restore({member(0, 1, {p0}), member(1, 1, {p1})})) << "client twice";
    EXPECT_FALSE(restore({member(0, 1, {p1, p0})})) << "partitions not ascending";
    EXPECT_FALSE(restore({member(0, 1, {p0, p0})})) << "partition twice";
    EXPECT_FALSE(restore({member(0, 1, {p0, PartitionId(2)})})) << "no such partition";
}

/// Partitions that kept a living owner must not have moved more than balance asks for.
std::size_t moved(const Group& before, const Group& after) {
    std::size_t count = 0;
    const std::uint32_t partitions = std::min(before.partition_count(), after.partition_count());
    for (std::uint32_t index = 0; index < partitions; ++index) {
        const Member* old_owner = before.owner_of(partition(index));
        if (old_owner == nullptr || after.find_member(old_owner->client) == nullptr) {
            continue;
        }
        count += after.owns(old_owner->client, partition(index)) ? 0U : 1U;
    }
    return count;
}

class GroupLaws : public testing::TestWithParam<std::uint32_t> {};

TEST_P(GroupLaws, HoldOverRandomChanges) {
    std::mt19937 random(GetParam());
    const auto below = [&](std::uint32_t bound) {
        return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random);
    };
    Group group(below(20));
    Group twin = group;
    std::set<std::uint32_t> model;
    Generation expected;
    for (int step = 0; step < 400; ++step) {
        const Group before = group;
        const std::uint32_t who = below(12);
        bool changed = false;
        std::size_t moves_allowed = 0;
        switch (below(5)) {
            case 0:
            case 1:
                changed = group.join(client(who));
                twin.join(client(who));
                EXPECT_EQ(changed, model.insert(who).second);
                // Only what the newcomer needs may leave its owner.
                moves_allowed = group.find_member(client(who))->partitions.size();
                break;
            case 2:
            case 3:
                changed = group.leave(client(who));
                twin.leave(client(who));
                EXPECT_EQ(changed, model.erase(who) == 1);
                moves_allowed = 0;
                break;
            default: {
                const std::uint32_t count = below(20);
                changed = group.set_partition_count(count);
                twin.set_partition_count(count);
                EXPECT_EQ(changed, count != before.partition_count());
                // A shrinking topic may take more from one member than from another.
                moves_allowed = count < before.partition_count() ? count : 0;
                break;
            }
        }
        if (changed) {
            expected = expected.next();
        } else {
            EXPECT_EQ(group, before);
        }
        ASSERT_EQ(group.generation(), expected);
        ASSERT_EQ(group.member_count(), model.size());
        group.check_invariants();
        ASSERT_LE(moved(before, group), moves_allowed) << "seed " << GetParam() << " step " << step;
        ASSERT_EQ(group, twin);
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GroupLaws, testing::Range(1U, 41U));

}  // namespace
}  // namespace galgo::groups

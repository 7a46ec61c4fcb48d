// Bodies of the reads, byte for byte where they are short, and what they say about absent targets
// and rights.
#include "metadata/read_replies.hpp"

#include "gmock/gmock.h"
#include "test_node.hpp"
#include "wire/reply_decoders.hpp"

namespace galgo::metadata::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using O = Operation;
using E = ErrorCode;

constexpr model::UserId kRoot = model::kRootUserId;
constexpr model::UserId kStranger{77};

class ReadReplies : public testing::Test {
 protected:
    ReadReplies() {
        node_.login({.client = client(1)});
        node_.request(O::kCreateStream, create_stream("s"));
        node_.request(O::kCreateTopic, create_topic(id(0), "t", 2));
        node_.request(O::kCreateTopic, create_topic(id(0), "u", 1));
        node_.request(O::kCreateStream, create_stream("empty"));
        node_.request(O::kCreateConsumerGroup, create_group(id(0), id(0), "g"));
        stats(0, 0).store({.message_count = 10,
                           .size_bytes = 1000,
                           .offset_first = 2,
                           .offset_current = 11,
                           .segment_count = 3});
        stats(0, 1).store({.message_count = 1, .size_bytes = 50, .segment_count = 1});
        stats(1, 0).store({.message_count = 7, .size_bytes = 700, .segment_count = 1});
    }
    const State& state() const { return node_.state(); }
    PartitionStats& stats(std::uint32_t topic, std::size_t partition) {
        return *state().find_topic(id(0), id(topic))->partitions[partition].stats;
    }

    Node node_;
};

TEST_F(ReadReplies, StreamShowsTheSumsOfItsTopics) {
    const ReplyBody body = *get_stream_reply(state(), kRoot, named("s"));
    const auto record = *wire::decode_stream(body);
    ASSERT_TRUE(record.has_value());
    EXPECT_EQ(record->topics_count, 2U);
    EXPECT_EQ(record->messages_count, 18U);
    EXPECT_EQ(record->size_bytes, 1750U);
    EXPECT_THAT(*get_stream_reply(state(), kRoot, id(9)), IsEmpty());
    EXPECT_EQ(get_stream_reply(state(), kStranger, id(0)).error().code, E::kUnauthorized);
    EXPECT_THAT(*get_stream_reply(state(), kStranger, id(9)), IsEmpty()) << "not found wins";
}

TEST_F(ReadReplies, StreamsFollowOneAnotherById) {
    const ReplyBody body = *get_streams_reply(state(), kRoot);
    // id, created_at, topics, size, messages, name, options: 4 + 8 + 4 + 8 + 8 + 1 + name + 4
    ASSERT_THAT(body, SizeIs(37 + 1 + 37 + 5));
    EXPECT_EQ(load<std::uint32_t>(body, 0), 0U);
    EXPECT_EQ(load<std::uint32_t>(body, 38), 1U);
    EXPECT_EQ(as_text(ConstBytes(body).subspan(38 + 33, 5)), "empty");
    EXPECT_EQ(get_streams_reply(state(), kStranger).error().code, E::kUnauthorized);
    EXPECT_THAT(*get_streams_reply(State{}, kRoot), IsEmpty());
}

TEST_F(ReadReplies, TopicShowsItsPartitions) {
    const ReplyBody body = *get_topic_reply(state(), kRoot, id(0), named("t"));
    const auto details = *wire::decode_topic_details(body);
    ASSERT_TRUE(details.has_value());
    EXPECT_EQ(details->topic.messages_count, 11U);
    EXPECT_EQ(details->topic.size_bytes, 1050U);
    ASSERT_THAT(details->partitions, SizeIs(2));
    EXPECT_EQ(details->partitions[0].current_offset, Offset(11));
    EXPECT_EQ(details->partitions[0].segments_count, 3U);
    EXPECT_EQ(details->partitions[0].messages_count, 10U);
    EXPECT_THAT(*get_topic_reply(state(), kRoot, id(9), id(0)), IsEmpty());
    EXPECT_THAT(*get_topic_reply(state(), kRoot, id(0), id(9)), IsEmpty());
    EXPECT_EQ(get_topic_reply(state(), kStranger, id(0), id(0)).error().code, E::kUnauthorized);
}

TEST_F(ReadReplies, TopicsHaveACountInFront) {
    EXPECT_EQ(load<std::uint32_t>(*get_topics_reply(state(), kRoot, id(0)), 0), 2U);
    EXPECT_THAT(*get_topics_reply(state(), kRoot, id(1)),
                ElementsAre(std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}));
    EXPECT_THAT(*get_topics_reply(state(), kStranger, named("none")), SizeIs(4));
    EXPECT_EQ(get_topics_reply(state(), kStranger, id(0)).error().code, E::kUnauthorized);
}

TEST_F(ReadReplies, GroupsAndTheirMembers) {
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    ByteWriter expected;
    for (const std::uint32_t value : {0U, 2U, 1U}) {  // id, partitions, members
        expected.put<std::uint32_t>(value);
    }
    expected.put<std::uint8_t>(1);
    expected.put_text("g");
    EXPECT_EQ(as_text(*get_groups_reply(state(), kRoot, id(0), id(0))), as_text(expected.bytes()));
    for (const std::uint32_t value : {0U, 2U, 0U, 1U}) {  // member, count, partitions
        expected.put<std::uint32_t>(value);
    }
    EXPECT_EQ(as_text(*get_group_reply(state(), kRoot, id(0), id(0), named("g"))),
              as_text(expected.bytes()));
    EXPECT_THAT(*get_group_reply(state(), kRoot, id(0), id(0), id(5)), IsEmpty());
    EXPECT_EQ(get_group_reply(state(), kRoot, id(5), id(0), id(0)).error().code,
              E::kStreamIdNotFound);
    EXPECT_EQ(get_groups_reply(state(), kRoot, id(0), id(5)).error().code, E::kTopicIdNotFound);
    EXPECT_EQ(get_groups_reply(state(), kStranger, id(0), id(0)).error().code, E::kUnauthorized);
}

TEST_F(ReadReplies, SyncGivesGenerationAndPartitionsToMembersOnly) {
    EXPECT_THAT(sync_group_reply(state(), client(1), id(0), id(0), id(0)), IsEmpty());
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    const auto sync =
        *wire::decode_sync_reply(sync_group_reply(state(), client(1), id(0), id(0), named("g")));
    ASSERT_TRUE(sync.has_value());
    EXPECT_EQ(sync->generation, 1U);
    EXPECT_THAT(sync->partitions, ElementsAre(model::PartitionId(0), model::PartitionId(1)));
    EXPECT_THAT(sync_group_reply(state(), client(2), id(0), id(0), id(0)), IsEmpty());
    EXPECT_THAT(sync_group_reply(state(), client(1), id(9), id(0), id(0)), IsEmpty());
}

TEST_F(ReadReplies, UserShowsItsPermissions) {
    model::Permissions permissions{.global = {.read_streams = true}, .streams = {}};
    const ApplyOutcome created = node_.request(O::kCreateUser, create_user("alice", permissions));
    node_.request(O::kCreateUser, create_user("bob", {}, wire::UserStatus::kInactive));
    const ReplyBody alice = *get_user_reply(state(), kRoot, named("alice"));
    EXPECT_EQ(alice, created.payload) << "CreateUser answers with the same record";
    // id, created_at, status, name, options, then flag, length and permissions
    constexpr std::size_t kRecord = 4 + 8 + 1 + 1 + 5 + 4;
    ASSERT_THAT(alice, SizeIs(kRecord + 1 + 4 + 11));
    EXPECT_EQ(load<std::uint32_t>(alice, 0), 1U);
    EXPECT_EQ(load<std::uint64_t>(alice, 4),
              state().users().find(model::UserId(1))->created_at.value());
    EXPECT_EQ(alice[12], std::byte{1});
    EXPECT_EQ(alice[kRecord], std::byte{1});
    EXPECT_EQ(load<std::uint32_t>(alice, kRecord + 1), 11U);
    EXPECT_EQ(alice[kRecord + 5 + 5], std::byte{1}) << "read_streams";

    const ReplyBody bob = *get_user_reply(state(), kRoot, id(2));
    ASSERT_THAT(bob, SizeIs(4 + 8 + 1 + 1 + 3 + 4 + 4));
    EXPECT_EQ(bob[12], std::byte{2});
    EXPECT_EQ(load<std::uint32_t>(bob, bob.size() - 4), 0U) << "no permissions";

    EXPECT_THAT(*get_user_reply(state(), kRoot, named("nobody")), IsEmpty());
    EXPECT_THAT(*get_user_reply(state(), model::UserId(1), named("nobody")), IsEmpty())
        << "not found wins";
    EXPECT_EQ(*get_user_reply(state(), model::UserId(1), named("alice")), alice) << "oneself";
    EXPECT_EQ(get_user_reply(state(), model::UserId(1), id(0)).error().code, E::kUnauthorized);
}

TEST_F(ReadReplies, UsersFollowOneAnotherById) {
    node_.request(O::kCreateUser, create_user("alice"));
    const ReplyBody users = *get_users_reply(state(), kRoot);
    ASSERT_THAT(users, SizeIs(2 * (4 + 8 + 1 + 1 + 4) + 4 + 5));
    EXPECT_EQ(load<std::uint32_t>(users, 0), 0U);
    EXPECT_EQ(load<std::uint64_t>(users, 4), 1U) << "root is created at a constant moment";
    EXPECT_EQ(load<std::uint32_t>(users, 22), 1U);
    EXPECT_EQ(get_users_reply(state(), model::UserId(1)).error().code, E::kUnauthorized);
    EXPECT_EQ(get_users_reply(state(), model::kNoUserId).error().code, E::kUnauthenticated);
}

TEST_F(ReadReplies, TokensAreOnesOwnAndShowNoHash) {
    node_.request(O::kCreateUser, create_user("alice"));
    const Node::Who alice{.client = client(7), .user = model::UserId(1)};
    node_.login(alice);
    node_.request(O::kCreatePersonalAccessToken, create_token("z"), alice,
                  {.token_hash = token_hash(1)});
    node_.request(O::kCreatePersonalAccessToken, create_token("a", 1000), alice,
                  {.token_hash = token_hash(2)});
    ByteWriter expected;
    expected.put<std::uint8_t>(1);
    expected.put_text("a");
    expected.put<std::uint64_t>(node_.now().value() + 1000);
    expected.put<std::uint8_t>(1);
    expected.put_text("z");
    expected.put<std::uint64_t>(0);
    EXPECT_EQ(as_text(get_tokens_reply(state(), model::UserId(1))), as_text(expected.bytes()));
    EXPECT_THAT(get_tokens_reply(state(), kRoot), IsEmpty());
    EXPECT_THAT(get_tokens_reply(state(), kStranger), IsEmpty());
}

TEST_F(ReadReplies, TotalsOfTheNode) {
    EXPECT_EQ(totals_of(state()), (Totals{.size_bytes = 1750,
                                          .message_count = 18,
                                          .segment_count = 5,
                                          .stream_count = 2,
                                          .topic_count = 2,
                                          .partition_count = 3,
                                          .group_count = 1}));
}

}  // namespace
}  // namespace galgo::metadata::test

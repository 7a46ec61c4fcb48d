// Every operation of the metadata log with its results, the changes it reports, and the cases of
// public bug reports that concern ids, groups and purges.
#include "metadata/apply.hpp"

#include <algorithm>

#include "gmock/gmock.h"
#include "test_node.hpp"
#include "wire/header.hpp"
#include "wire/reply_decoders.hpp"

namespace galgo::metadata::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using O = Operation;
using E = ErrorCode;

constexpr model::UserId kStranger{77};  // no such user: no rights at all

std::vector<ChangeKind> kinds(const ApplyOutcome& outcome) {
    std::vector<ChangeKind> result;
    for (const Change& change : outcome.changes) {
        result.push_back(change.kind);
    }
    return result;
}

Login root_login(const Node& node) {
    return login_by_password(*node.state().users().find(model::kRootUserId));
}

/// Stream "s" (0) with topic "t" (0) of 3 partitions and group "g" (0); clients 1 and 2 are logged
/// in.
class ApplyTest : public testing::Test {
 protected:
    ApplyTest() {
        node_.login({.client = client(1)});
        node_.login({.client = client(2)});
        EXPECT_EQ(node_.result(O::kCreateStream, create_stream("s")), E::kOk);
        EXPECT_EQ(node_.result(O::kCreateTopic, create_topic(id(0), "t", 3)), E::kOk);
        EXPECT_EQ(node_.result(O::kCreateConsumerGroup, create_group(id(0), id(0), "g")), E::kOk);
    }

    const Topic& topic(std::uint32_t stream, std::uint32_t number) const {
        return *node_.state().find_topic(id(stream), id(number));
    }
    const ConsumerGroup& group() const { return *node_.state().find_group(id(0), id(0), id(0)); }

    Node node_;
};

TEST_F(ApplyTest, ErrorsOfEveryOperation) {
    node_.request(O::kCreateStream, create_stream("other"));
    node_.request(O::kCreateTopic, create_topic(id(0), "u", 0));
    struct Case {
        O operation;
        Bytes body;
        E expected;
    };
    const Case cases[] = {
        {O::kCreateStream, create_stream("s"), E::kStreamNameAlreadyExists},
        {O::kUpdateStream, update_stream(id(9), "x"), E::kStreamIdNotFound},
        {O::kUpdateStream, update_stream(named("none"), "x"), E::kStreamIdNotFound},
        {O::kUpdateStream, update_stream(id(0), "other"), E::kStreamNameAlreadyExists},
        {O::kUpdateStream, update_stream(id(0), "s"), E::kOk},
        {O::kDeleteStream, stream_body(id(9)), E::kStreamIdNotFound},
        {O::kPurgeStream, stream_body(named("S")), E::kStreamIdNotFound},
        {O::kCreateTopic, create_topic(id(9), "t", 1), E::kStreamIdNotFound},
        {O::kCreateTopic, create_topic(named("s"), "t", 1), E::kTopicNameAlreadyExists},
        {O::kCreateTopic, create_topic(named("s"), "v", 1001), E::kTooManyPartitions},
        {O::kUpdateTopic, update_topic(id(9), id(0), "x"), E::kStreamIdNotFound},
        {O::kUpdateTopic, update_topic(id(0), id(9), "x"), E::kTopicIdNotFound},
        {O::kUpdateTopic, update_topic(id(0), id(0), "u"), E::kTopicNameAlreadyExists},
        {O::kUpdateTopic, update_topic(id(0), id(0), "t"), E::kOk},
        {O::kDeleteTopic, topic_body(id(9), id(0)), E::kStreamIdNotFound},
        {O::kDeleteTopic, topic_body(id(0), named("none")), E::kTopicIdNotFound},
        {O::kPurgeTopic, topic_body(id(9), id(0)), E::kStreamIdNotFound},
        {O::kPurgeTopic, topic_body(id(0), id(9)), E::kTopicIdNotFound},
        {O::kCreatePartitions, partitions_body(id(0), id(0), 0), E::kTooManyPartitions},
        {O::kCreatePartitions, partitions_body(id(0), id(0), 1001), E::kTooManyPartitions},
        {O::kCreatePartitions, partitions_body(id(9), id(0), 1), E::kStreamIdNotFound},
        {O::kCreatePartitions, partitions_body(id(0), id(9), 1), E::kTopicIdNotFound},
        {O::kDeletePartitions, partitions_body(id(0), id(0), 0), E::kTooManyPartitions},
        {O::kDeletePartitions, partitions_body(id(0), id(0), 1001), E::kTooManyPartitions},
        {O::kDeletePartitions, partitions_body(id(9), id(0), 1), E::kStreamIdNotFound},
        {O::kDeletePartitions, partitions_body(id(0), id(9), 1), E::kTopicIdNotFound},
        {O::kDeletePartitions, partitions_body(id(0), id(0), 4), E::kInvalidPartitionsCount},
        {O::kCreateConsumerGroup, create_group(id(9), id(0), "h"), E::kStreamIdNotFound},
        {O::kCreateConsumerGroup, create_group(id(0), id(9), "h"), E::kTopicIdNotFound},
        {O::kCreateConsumerGroup, create_group(id(0), id(0), "g"),
         E::kConsumerGroupNameAlreadyExists},
        {O::kDeleteConsumerGroup, group_body(id(9), id(0), id(0)), E::kStreamIdNotFound},
        {O::kDeleteConsumerGroup, group_body(id(0), id(9), id(0)), E::kTopicIdNotFound},
        {O::kDeleteConsumerGroup, group_body(id(0), id(0), id(9)), E::kConsumerGroupIdNotFound},
        {O::kJoinConsumerGroup, group_body(id(9), id(0), id(0)), E::kStreamIdNotFound},
        {O::kJoinConsumerGroup, group_body(id(0), id(9), id(0)), E::kTopicIdNotFound},
        {O::kJoinConsumerGroup, group_body(id(0), id(0), named("nope")),
         E::kConsumerGroupIdNotFound},
        {O::kLeaveConsumerGroup, group_body(id(9), id(0), id(0)), E::kStreamIdNotFound},
        {O::kLeaveConsumerGroup, group_body(id(0), id(9), id(0)), E::kTopicIdNotFound},
        {O::kLeaveConsumerGroup, group_body(id(0), id(0), named("nope")),
         E::kConsumerGroupIdNotFound},
        {O::kLeaveConsumerGroup, group_body(id(0), id(0), named("g")),
         E::kConsumerGroupMemberNotFound},
    };
    for (const Case& one : cases) {
        const OpNumber revision = node_.state().metadata_revision();
        const ApplyOutcome outcome = node_.request(one.operation, one.body);
        SCOPED_TRACE(testing::Message() << "operation " << static_cast<int>(one.operation)
                                        << " case " << &one - cases);
        EXPECT_EQ(outcome.result, one.expected);
        EXPECT_THAT(outcome.payload, IsEmpty());
        if (one.expected != E::kOk) {
            EXPECT_THAT(outcome.changes, IsEmpty());
            EXPECT_EQ(node_.state().metadata_revision(), revision) << "a refusal changes nothing";
        }
    }
}

TEST_F(ApplyTest, WithoutRightsNotFoundComesBeforeUnauthorized) {
    const Node::Who stranger{.client = client(2), .user = kStranger};
    const std::pair<O, Bytes> denied[] = {
        {O::kCreateStream, create_stream("x")},
        {O::kUpdateStream, update_stream(id(0), "x")},
        {O::kDeleteStream, stream_body(id(0))},
        {O::kPurgeStream, stream_body(id(0))},
        {O::kCreateTopic, create_topic(id(0), "x", 1)},
        {O::kUpdateTopic, update_topic(id(0), id(0), "x")},
        {O::kDeleteTopic, topic_body(id(0), id(0))},
        {O::kPurgeTopic, topic_body(id(0), id(0))},
        {O::kCreatePartitions, partitions_body(id(0), id(0), 1)},
        {O::kDeletePartitions, partitions_body(id(0), id(0), 1)},
        {O::kCreateConsumerGroup, create_group(id(0), id(0), "x")},
        {O::kDeleteConsumerGroup, group_body(id(0), id(0), id(0))},
        {O::kJoinConsumerGroup, group_body(id(0), id(0), id(0))},
        {O::kLeaveConsumerGroup, group_body(id(0), id(0), id(0))},
        // A group that does not exist is not given away.
        {O::kJoinConsumerGroup, group_body(id(0), id(0), id(9))},
    };
    for (const auto& [operation, body] : denied) {
        const ApplyOutcome outcome = node_.request(operation, body, stranger);
        EXPECT_EQ(outcome.result, E::kUnauthorized) << static_cast<int>(operation);
        EXPECT_THAT(outcome.changes, IsEmpty());
    }
    EXPECT_EQ(node_.result(O::kDeleteStream, stream_body(id(9)), stranger), E::kStreamIdNotFound);
    EXPECT_EQ(node_.result(O::kDeleteTopic, topic_body(id(0), id(9)), stranger),
              E::kTopicIdNotFound);
    EXPECT_EQ(node_.result(O::kJoinConsumerGroup, group_body(id(0), id(9), id(0)), stranger),
              E::kTopicIdNotFound);
}

TEST_F(ApplyTest, CreationsAnswerWithTheFullRecord) {
    const ApplyOutcome stream = node_.request(O::kCreateStream, create_stream("orders"));
    const auto stream_record = *wire::decode_stream(stream.payload);
    ASSERT_TRUE(stream_record.has_value());
    EXPECT_EQ(stream_record->id, model::StreamId(1));
    EXPECT_EQ(stream_record->name, "orders");
    EXPECT_EQ(stream_record->created_at, node_.now());
    EXPECT_EQ(stream_record->topics_count, 0U);
    EXPECT_EQ(
        stream.changes,
        (std::vector<Change>{{.kind = ChangeKind::kStreamCreated, .stream = model::StreamId(1)}}));

    const ApplyOutcome created = node_.request(O::kCreateTopic, create_topic(id(1), "eu", 2));
    const auto details = *wire::decode_topic_details(created.payload);
    ASSERT_TRUE(details.has_value());
    EXPECT_EQ(details->topic.id, model::TopicId(0));
    EXPECT_EQ(details->topic.name, "eu");
    EXPECT_EQ(details->topic.message_expiry_us, model::kNeverExpires);
    EXPECT_THAT(details->partitions, SizeIs(2));
    EXPECT_EQ(details->partitions[1].id, model::PartitionId(1));
    EXPECT_EQ(details->partitions[1].segments_count, 1U);
    EXPECT_THAT(kinds(created),
                ElementsAre(ChangeKind::kTopicCreated, ChangeKind::kPartitionCreated,
                            ChangeKind::kPartitionCreated));
    EXPECT_EQ(
        created.changes[2].partition,
        model::pack_partition_key(model::StreamId(1), model::TopicId(0), model::PartitionId(1)));
    EXPECT_EQ(created.changes[2].incarnation, Incarnation(node_.op().value()));

    // id 1, 3 partitions, no members, name.
    const ApplyOutcome added =
        node_.request(O::kCreateConsumerGroup, create_group(named("s"), named("t"), "h"));
    ByteWriter expected;
    expected.put<std::uint32_t>(1);
    expected.put<std::uint32_t>(3);
    expected.put<std::uint32_t>(0);
    expected.put<std::uint8_t>(1);
    expected.put_text("h");
    EXPECT_EQ(as_text(added.payload), as_text(expected.bytes()));
}

TEST_F(ApplyTest, TopicOptionsAreKeptInTwoBlocks) {
    wire::OptionBlockBuilder options;
    options.put_string("durability", "Persisted");
    options.put_u64("segment_size", std::uint64_t{2} << 20U);
    EXPECT_EQ(node_.result(O::kCreateTopic, create_topic(id(0), "o", 1, options.encode())), E::kOk);
    const Topic& row = topic(0, 1);
    EXPECT_EQ(row.options.values.durability, model::Durability::kPersisted);
    EXPECT_EQ(row.options.values.segment_size_bytes, std::uint64_t{2} << 20U);
    const auto named_block = *wire::OptionBlock::parse(row.options.explicit_block);
    const auto derived_block = *wire::OptionBlock::parse(row.options.derived_block);
    EXPECT_EQ(as_text(named_block.find("durability")->value), "persisted") << "canonical";
    EXPECT_FALSE(derived_block.find("durability").has_value());
    EXPECT_TRUE(derived_block.find("message_expiry").has_value());

    wire::OptionBlockBuilder update;
    update.put_string("message_expiry", "1 h");
    const ApplyOutcome updated =
        node_.request(O::kUpdateTopic, update_topic(id(0), named("o"), "renamed", update.encode()));
    EXPECT_EQ(updated.result, E::kOk);
    EXPECT_THAT(kinds(updated), ElementsAre(ChangeKind::kTopicUpdated));
    EXPECT_EQ(topic(0, 1).name, "renamed");
    EXPECT_EQ(topic(0, 1).options.values.message_expiry_us, 3'600'000'000U);
    EXPECT_EQ(topic(0, 1).options.values.durability, model::Durability::kPersisted);
    EXPECT_EQ(node_.state().find_topic(id(0), named("o")), nullptr);
    EXPECT_NE(node_.state().find_topic(id(0), named("renamed")), nullptr);

    wire::OptionBlockBuilder too_small;
    too_small.put_u64("max_topic_size", std::uint64_t{1} << 20U);  // below its own segment size
    EXPECT_EQ(
        node_.result(O::kUpdateTopic, update_topic(id(0), id(1), "again", too_small.encode())),
        E::kInvalidTopicSize);
    EXPECT_EQ(topic(0, 1).name, "renamed") << "a refused update renames nothing";
}

TEST_F(ApplyTest, FreedIdsAreReusedLowestFirstAndGroupIdsNever) {
    for (const char* name : {"b", "c"}) {
        node_.request(O::kCreateStream, create_stream(name));
        node_.request(O::kCreateTopic, create_topic(id(0), name, 1));
        node_.request(O::kCreateConsumerGroup, create_group(id(0), id(0), name));
    }
    EXPECT_EQ(node_.result(O::kDeleteStream, stream_body(named("b"))), E::kOk);
    EXPECT_EQ(node_.result(O::kDeleteTopic, topic_body(id(0), named("b"))), E::kOk);
    EXPECT_EQ(node_.result(O::kDeleteConsumerGroup, group_body(id(0), id(0), named("c"))), E::kOk);
    node_.request(O::kCreateStream, create_stream("d"));
    node_.request(O::kCreateTopic, create_topic(id(0), "d", 1));
    node_.request(O::kCreateConsumerGroup, create_group(id(0), id(0), "c"));

    PartitionStatsRegistry registry;
    const State again = node_.replayed(registry);  // "restart"
    EXPECT_EQ(digest(again), digest(node_.state()));
    for (const State* state : {&node_.state(), &again}) {
        EXPECT_EQ(state->find_stream(named("s"))->id, model::StreamId(0));
        EXPECT_EQ(state->find_stream(named("c"))->id, model::StreamId(2));
        EXPECT_EQ(state->find_stream(named("d"))->id, model::StreamId(1));
        EXPECT_EQ(state->find_stream(named("b")), nullptr);
        EXPECT_EQ(state->find_topic(id(0), named("d"))->id, model::TopicId(1));
        EXPECT_EQ(state->find_topic(id(0), named("c"))->id, model::TopicId(2));
        EXPECT_EQ(state->find_group(id(0), id(0), named("c"))->id, model::GroupId(3));
        EXPECT_EQ(state->find_group(id(0), id(0), id(2)), nullptr);
    }
}

TEST_F(ApplyTest, PartitionsGrowAndShrinkAtTheEnd) {
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    const ApplyOutcome grown =
        node_.request(O::kCreatePartitions, partitions_body(id(0), id(0), 2));
    EXPECT_EQ(grown.result, E::kOk);
    EXPECT_THAT(kinds(grown),
                ElementsAre(ChangeKind::kPartitionCreated, ChangeKind::kPartitionCreated,
                            ChangeKind::kGroupChanged));
    EXPECT_EQ(topic(0, 0).partition_count(), 5U);
    EXPECT_THAT(group().assignment.members()[0].partitions, SizeIs(5));
    const Incarnation newest = topic(0, 0).partitions[4].incarnation;
    EXPECT_GT(newest, topic(0, 0).partitions[2].incarnation);
    EXPECT_EQ(node_.registry().size(), 5U);

    const ApplyOutcome shrunk =
        node_.request(O::kDeletePartitions, partitions_body(id(0), id(0), 3));
    EXPECT_EQ(shrunk.result, E::kOk);
    ASSERT_THAT(shrunk.changes, SizeIs(4));
    EXPECT_EQ(shrunk.changes[0].partition,
              model::pack_partition_key({}, {}, model::PartitionId(4)));
    EXPECT_EQ(shrunk.changes[0].incarnation_before, newest);
    EXPECT_EQ(topic(0, 0).partition_count(), 2U);
    EXPECT_EQ(node_.registry().size(), 2U);
    EXPECT_EQ(node_.result(O::kDeletePartitions, partitions_body(id(0), id(0), 2)), E::kOk);
    EXPECT_EQ(topic(0, 0).partition_count(), 0U);
    EXPECT_THAT(group().assignment.members()[0].partitions, IsEmpty());
}

TEST_F(ApplyTest, PurgeBeginsANewLifeWithZeroCountersAtOnce) {
    node_.request(O::kCreateTopic, create_topic(id(0), "t2", 1));
    topic(0, 0).partitions[0].stats->store({.message_count = 10, .size_bytes = 1000});
    topic(0, 1).partitions[0].stats->store({.message_count = 7, .size_bytes = 700});
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    const Incarnation before = topic(0, 0).partitions[0].incarnation;
    const groups::Generation generation = group().assignment.generation();

    const ApplyOutcome purged = node_.request(O::kPurgeTopic, topic_body(id(0), id(0)));
    EXPECT_EQ(purged.result, E::kOk);
    ASSERT_THAT(purged.changes, SizeIs(3));
    EXPECT_EQ(purged.changes[0].kind, ChangeKind::kPartitionPurged);
    EXPECT_EQ(purged.changes[0].incarnation_before, before);
    EXPECT_EQ(purged.changes[0].incarnation, Incarnation(node_.op().value()));
    EXPECT_EQ(topic(0, 0).partitions[0].incarnation, Incarnation(node_.op().value()));
    EXPECT_EQ(topic(0, 0).partitions[0].stats->load(), PartitionCounters{});
    EXPECT_EQ(topic(0, 0).partitions[0].stats,
              node_.other_copy().find_topic(id(0), id(0))->partitions[0].stats)
        << "both copies share the line";
    EXPECT_EQ(topic(0, 1).partitions[0].stats->load().message_count, 7U);
    EXPECT_EQ(group().assignment.generation(), generation) << "memberships stay";
    EXPECT_EQ(node_.registry().size(), 4U);

    const ApplyOutcome all = node_.request(O::kPurgeStream, stream_body(id(0)));
    EXPECT_EQ(all.result, E::kOk);
    EXPECT_THAT(all.changes, SizeIs(4));
    EXPECT_EQ(topic(0, 1).partitions[0].stats->load(), PartitionCounters{});
}

TEST_F(ApplyTest, DeletingAStreamListsEverythingThatGoes) {
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    EXPECT_THAT(*node_.state().memberships_of(client(1)), SizeIs(1));
    const ApplyOutcome deleted = node_.request(O::kDeleteStream, stream_body(named("s")));
    EXPECT_THAT(kinds(deleted),
                ElementsAre(ChangeKind::kGroupDeleted, ChangeKind::kPartitionDeleted,
                            ChangeKind::kPartitionDeleted, ChangeKind::kPartitionDeleted,
                            ChangeKind::kTopicDeleted, ChangeKind::kStreamDeleted));
    EXPECT_EQ(node_.state().memberships_of(client(1)), nullptr);
    EXPECT_EQ(node_.registry().size(), 0U);
    EXPECT_NE(node_.state().sessions().find(client(1)), nullptr);
}

TEST_F(ApplyTest, GroupMembersShareAndLeave) {
    const Bytes body = group_body(named("s"), named("t"), named("g"));
    const ApplyOutcome joined = node_.request(O::kJoinConsumerGroup, body);
    EXPECT_EQ(joined.result, E::kOk);
    EXPECT_THAT(joined.payload, IsEmpty());
    EXPECT_THAT(kinds(joined), ElementsAre(ChangeKind::kGroupChanged));
    const ApplyOutcome repeated = node_.request(O::kJoinConsumerGroup, body);
    EXPECT_EQ(repeated.result, E::kOk);
    EXPECT_THAT(repeated.changes, IsEmpty()) << "idempotent";
    EXPECT_EQ(node_.result(O::kJoinConsumerGroup, body, {.client = client(2)}), E::kOk);
    EXPECT_EQ(group().assignment.member_count(), 2U);
    EXPECT_EQ(node_.result(O::kLeaveConsumerGroup, body), E::kOk);
    EXPECT_EQ(node_.result(O::kLeaveConsumerGroup, body), E::kConsumerGroupMemberNotFound);
    EXPECT_THAT(group().assignment.find_member(client(2))->partitions, SizeIs(3));
    EXPECT_EQ(node_.state().memberships_of(client(1)), nullptr);
}

TEST_F(ApplyTest, OnlyALivingSessionCanJoin) {
    const Bytes body = group_body(id(0), id(0), id(0));
    const Result<Admitted> join =
        admit(node_.state(), {.operation = O::kJoinConsumerGroup, .body = body});
    EXPECT_EQ(node_.commit_as(*join, {.client = client(9)}, SessionId(1)).result,
              E::kUnauthenticated);
    const SessionId old_epoch = node_.state().sessions().find(client(1))->epoch;
    node_.login({.client = client(1)});
    EXPECT_EQ(node_.commit_as(*join, {.client = client(1)}, old_epoch).result, E::kUnauthenticated);
    EXPECT_EQ(group().assignment.member_count(), 0U);
}

TEST_F(ApplyTest, LogoutEndsSessionAndMemberships) {
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    const SessionId epoch = node_.state().sessions().find(client(1))->epoch;
    EXPECT_THAT(
        node_.commit_as(make_logout(), {.client = client(1)}, SessionId(epoch.value() - 1)).changes,
        IsEmpty())
        << "an older epoch";
    const ApplyOutcome out = node_.commit(make_logout(), {.client = client(1)});
    EXPECT_THAT(kinds(out), ElementsAre(ChangeKind::kGroupChanged, ChangeKind::kSessionEnded));
    EXPECT_EQ(out.changes[1].session, epoch);
    EXPECT_EQ(group().assignment.member_count(), 0U);
    EXPECT_EQ(node_.state().sessions().find(client(1)), nullptr);
    EXPECT_EQ(node_.table()
                  .classify(client(1), epoch, RequestNumber(99), LogOperation::kCreateStream, 0)
                  .verdict,
              ClientTable::Verdict::kNoSession);
    const ApplyOutcome twice = node_.commit(make_logout(), {.client = client(1)});
    EXPECT_EQ(twice.result, E::kOk);
    EXPECT_THAT(twice.changes, IsEmpty());
}

TEST_F(ApplyTest, RegisterAgainEndsTheOldEpochAndItsMemberships) {
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    const ApplyOutcome again = node_.commit(make_register(root_login(node_)), {});
    EXPECT_THAT(kinds(again), ElementsAre(ChangeKind::kGroupChanged, ChangeKind::kSessionEnded,
                                          ChangeKind::kSessionStarted));
    const auto login = *wire::decode_login_reply(again.payload);
    EXPECT_EQ(login.session, SessionId(node_.op().value()));
    EXPECT_EQ(login.user, model::kRootUserId);
    EXPECT_EQ(login.protocol_version, wire::kProtocolVersion);
    EXPECT_EQ(group().assignment.member_count(), 0U);
    EXPECT_EQ(node_.try_login({.client = client(5), .user = kStranger}), E::kInvalidCredentials);
}

TEST_F(ApplyTest, ResetEndsAllSessionsAndKeepsEverythingElse) {
    node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
    const groups::Generation before = group().assignment.generation();
    const ApplyOutcome reset = node_.commit(make_reset_sessions(7), {.client = ClientId{}});
    EXPECT_THAT(kinds(reset), ElementsAre(ChangeKind::kGroupChanged, ChangeKind::kSessionEnded,
                                          ChangeKind::kSessionEnded));
    EXPECT_EQ(node_.state().sessions().size(), 0U);
    EXPECT_EQ(node_.state().sessions().sessions_max(), 7U) << "the bound comes from the log";
    EXPECT_EQ(node_.table().client_count(), 0U);
    EXPECT_EQ(group().assignment.member_count(), 0U);
    EXPECT_GT(group().assignment.generation(), before);
    EXPECT_EQ(topic(0, 0).partition_count(), 3U);
}

TEST(ApplySessions, FullTableEvictsTheOneThatCommittedLongestAgo) {
    Node node({.sessions_max = 2});
    node.login({.client = client(1)});
    node.login({.client = client(2)});
    node.request(O::kCreateStream, create_stream("s"), {.client = client(1)});
    const ApplyOutcome third = node.commit(make_register(root_login(node)), {.client = client(3)});
    EXPECT_THAT(kinds(third), ElementsAre(ChangeKind::kSessionEnded, ChangeKind::kSessionStarted));
    EXPECT_EQ(third.changes[0].client, client(2));
    EXPECT_NE(node.state().sessions().find(client(1)), nullptr);
    EXPECT_EQ(node.table().client_count(), 2U);
}

TEST(ApplyRoot, IsCreatedOnceWithAllRights) {
    Node node;
    EXPECT_EQ(node.commit(make_create_root("iggy", "phc"), {}).result, E::kOk);
    const User* root = node.state().find_user_by_name("iggy");
    ASSERT_NE(root, nullptr);
    EXPECT_EQ(root->id, model::kRootUserId);
    EXPECT_EQ(root->password_hash, "phc");
    EXPECT_EQ(root->created_at, Timestamp(1));
    EXPECT_TRUE(root->permissions->global.manage_users);
    EXPECT_EQ(node.commit(make_create_root("other", "x"), {}).result, E::kUserAlreadyExists);
    EXPECT_EQ(node.state().find_user(id(0))->name, "iggy");
    EXPECT_EQ(node.state().find_user_by_name("other"), nullptr);
}

TEST(ApplyLimits, TopicsPerStreamAndPartitionsPerTopic) {
    Node node;
    node.login({});
    node.request(O::kCreateStream, create_stream("s"));
    PartitionStatsRegistry registry;
    State state = node.replayed(registry);
    OpNumber op = node.op();
    const auto run = [&](Operation operation, const Bytes& body) {
        op = op.next();
        const Admitted admitted = *admit(state, {.operation = operation, .body = body});
        return apply(state, registry,
                     {.operation = admitted.operation,
                      .op = op,
                      .timestamp = Timestamp(1),
                      .body = admitted.body})
            .result;
    };
    for (std::uint32_t i = 0; i < model::kTopicCountMax; ++i) {
        ASSERT_EQ(run(O::kCreateTopic, create_topic(id(0), std::to_string(i), 0)), E::kOk);
    }
    EXPECT_EQ(run(O::kCreateTopic, create_topic(id(0), "one more", 0)), E::kTooManyTopics);
    EXPECT_EQ(run(O::kDeleteTopic, topic_body(id(0), id(100))), E::kOk);
    EXPECT_EQ(run(O::kCreateTopic, create_topic(id(0), "one more", 0)), E::kOk);
    for (std::uint32_t i = 0; i < 20; ++i) {
        ASSERT_EQ(run(O::kCreatePartitions, partitions_body(id(0), id(0), 1000)), E::kOk);
    }
    // Admission bounds one request; the id space bounds the topic, whatever the log says.
    op = op.next();
    const Bytes all = partitions_body(id(0), id(0), model::kPartitionIdMax - 20'000 + 1);
    EXPECT_EQ(apply(state, registry,
                    {.operation = LogOperation::kCreatePartitions,
                     .op = op,
                     .timestamp = Timestamp(1),
                     .body = all})
                  .result,
              E::kPartitionIdSpaceExhausted);
    EXPECT_EQ(state.find_topic(id(0), id(0))->partition_count(), 20'000U);
    state.check_invariants();
}

TEST(ApplyLog, ForeignEntriesAreRefusedNotTrusted) {
    Node node;
    node.login({});
    for (int value = 0; value < 256; ++value) {
        const LogOperation operation{static_cast<std::uint8_t>(value)};
        if (operation == LogOperation::kLogout || operation == LogOperation::kResetSessions) {
            continue;  // their bodies are empty
        }
        const ApplyOutcome outcome = node.commit({.operation = operation, .body = {}}, {});
        EXPECT_EQ(outcome.result, E::kInvalidCommand) << value;
        EXPECT_THAT(outcome.changes, IsEmpty());
    }
}

TEST(ApplyRepeated, CommittedRepliesAreReplayed) {
    Node node;
    node.login({});
    const SessionId epoch = node.state().sessions().find(client(1))->epoch;
    node.request(O::kCreateStream, create_stream("s"));
    const RequestNumber first(node.op().value());
    node.request(O::kCreateStream, create_stream("s"));  // refused, and committed all the same
    const RequestNumber second(node.op().value());
    for (const RequestNumber request : {first, second}) {
        const auto found =
            node.table().classify(client(1), epoch, request, LogOperation::kCreateStream, 0);
        EXPECT_EQ(found.verdict, ClientTable::Verdict::kReplay);
        EXPECT_EQ(as_text(found.reply), "reply");
    }
}

}  // namespace
}  // namespace galgo::metadata::test

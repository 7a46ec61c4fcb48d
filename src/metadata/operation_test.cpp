// Admission: what is undecodable or out of its static bounds never enters the log.
#include "metadata/operation.hpp"

#include "gmock/gmock.h"
#include "test_node.hpp"

namespace galgo::metadata::test {
namespace {

using O = Operation;
using E = ErrorCode;

E admission(O operation, const Bytes& body) {
    const Sealed sealed{.password_hash = "hash", .verified_hash = "old"};
    const Result<Admitted> admitted =
        admit(State{}, {.operation = operation, .body = body, .sealed = &sealed});
    return admitted.has_value() ? E::kOk : admitted.error().code;
}

Bytes options(const wire::OptionBlockBuilder& builder) {
    return builder.encode();
}

struct Sample {
    O operation;
    Bytes body;
};

model::Permissions some_permissions() {
    model::Permissions permissions{.global = {.read_streams = true}, .streams = {}};
    permissions.streams[model::StreamId(3)].topics[model::TopicId(4)].poll_messages = true;
    return permissions;
}

bool own_form(O operation) {
    return operation == O::kCreateTopic || carries_secret(operation);
}

std::vector<Sample> samples() {
    wire::OptionBlockBuilder update;
    update.put_u64("message_expiry", 5);
    wire::OptionBlockBuilder create;
    create.put_string("durability", "replicated");
    create.put_string("consumer_offset_durability", "replicated");
    return {
        {O::kCreateStream, create_stream("abc")},
        {O::kUpdateStream, update_stream(named("abc"), "def")},
        {O::kDeleteStream, stream_body(named("abc"))},
        {O::kPurgeStream, stream_body(id(1))},
        {O::kCreateTopic, create_topic(id(1), "topic", 3, options(create))},
        {O::kUpdateTopic, update_topic(id(1), named("t"), "topic", options(update))},
        {O::kDeleteTopic, topic_body(id(1), named("topic"))},
        {O::kPurgeTopic, topic_body(named("s"), id(2))},
        {O::kCreatePartitions, partitions_body(id(1), id(2), 1)},
        {O::kDeletePartitions, partitions_body(id(1), id(2), 1000)},
        {O::kCreateConsumerGroup, create_group(id(1), id(2), "group")},
        {O::kDeleteConsumerGroup, group_body(id(1), id(2), named("group"))},
        {O::kJoinConsumerGroup, group_body(id(1), id(2), id(3))},
        {O::kLeaveConsumerGroup, group_body(id(1), id(2), id(3))},
        {O::kCreateUser, create_user("alice", some_permissions())},
        {O::kUpdateUser, rename_user(named("alice"), "bob")},
        {O::kDeleteUser, user_body(named("alice"))},
        {O::kChangePassword, change_password(id(1))},
        {O::kUpdatePermissions, update_permissions(id(1), some_permissions())},
        {O::kCreatePersonalAccessToken, create_token("token", 5)},
        {O::kDeletePersonalAccessToken, delete_token("token")},
    };
}

TEST(Admit, WholeBodiesEnterAsTheyAreAndTruncatedOnesNever) {
    for (const Sample& sample : samples()) {
        SCOPED_TRACE(static_cast<int>(sample.operation));
        const Sealed sealed{.password_hash = "hash", .verified_hash = "old"};
        const Result<Admitted> admitted =
            admit(State{}, {.operation = sample.operation, .body = sample.body, .sealed = &sealed});
        ASSERT_TRUE(admitted.has_value());
        EXPECT_EQ(static_cast<int>(admitted->operation), static_cast<int>(sample.operation));
        if (!own_form(sample.operation)) {
            EXPECT_EQ(admitted->body, sample.body);
        }
        // An option block runs to the end: cut between two entries it is a shorter block, not a
        // broken one.
        const bool has_options =
            sample.operation == O::kCreateTopic || sample.operation == O::kUpdateTopic;
        std::size_t accepted = 0;
        for (std::size_t size = 0; size < sample.body.size(); ++size) {
            const E code = admission(
                sample.operation,
                {sample.body.begin(), sample.body.begin() + static_cast<std::ptrdiff_t>(size)});
            if (code == E::kOk) {
                ++accepted;
            } else {
                EXPECT_EQ(code, E::kInvalidCommand) << size;
            }
        }
        EXPECT_LE(accepted, has_options ? 2U : 0U);
    }
}

TEST(Admit, BoundsAndOptions) {
    EXPECT_EQ(admission(O::kCreateTopic, create_topic(id(0), "t", 0)), E::kOk);
    EXPECT_EQ(admission(O::kCreateTopic, create_topic(id(0), "t", 1000)), E::kOk);
    EXPECT_EQ(admission(O::kCreateTopic, create_topic(id(0), "t", 1001)), E::kTooManyPartitions);
    EXPECT_EQ(admission(O::kCreatePartitions, partitions_body(id(0), id(0), 0)),
              E::kTooManyPartitions);
    EXPECT_EQ(admission(O::kDeletePartitions, partitions_body(id(0), id(0), 1001)),
              E::kTooManyPartitions);

    wire::OptionBlockBuilder unknown;
    unknown.put_bool("enforce_fsync", true);
    EXPECT_EQ(admission(O::kCreateTopic, create_topic(id(0), "t", 1, options(unknown))),
              E::kUnsupportedOptionKey);
    wire::OptionBlockBuilder wrong;
    wrong.put_u64("segment_size", 1000);
    EXPECT_EQ(admission(O::kCreateTopic, create_topic(id(0), "t", 1, options(wrong))),
              E::kInvalidOptionValue);
    wire::OptionBlockBuilder small;
    small.put_u64("max_topic_size", 4096);
    EXPECT_EQ(admission(O::kCreateTopic, create_topic(id(0), "t", 1, options(small))),
              E::kInvalidTopicSize);
    wire::OptionBlockBuilder fixed;
    fixed.put_string("durability", "persisted");
    EXPECT_EQ(admission(O::kUpdateTopic, update_topic(id(0), id(0), "t", options(fixed))),
              E::kUnsupportedOptionKey);
    wire::OptionBlockBuilder odd;
    odd.put_string("compression_algorithm", "zip");
    EXPECT_EQ(admission(O::kUpdateTopic, update_topic(id(0), id(0), "t", options(odd))),
              E::kInvalidOptionValue);
    const Bytes block = options(fixed);
    EXPECT_EQ(
        admission(O::kCreateStream, body_of(wire::CreateStreamRequest{
                                        .name = "s", .options = *wire::OptionBlock::parse(block)})),
        E::kUnsupportedOptionKey);
    EXPECT_EQ(
        admission(O::kUpdateStream,
                  body_of(wire::UpdateStreamRequest{
                      .stream = id(0), .name = "s", .options = *wire::OptionBlock::parse(block)})),
        E::kUnsupportedOptionKey);
}

TEST(Admit, WhatIsBehindABodyDoesNotEnterTheLog) {
    for (const Sample& sample : samples()) {
        SCOPED_TRACE(static_cast<int>(sample.operation));
        Bytes prolonged = sample.body;
        prolonged.insert(prolonged.end(), 1000, std::byte{1});
        const Sealed sealed{.password_hash = "hash"};
        const Result<Admitted> admitted =
            admit(State{}, {.operation = sample.operation, .body = prolonged, .sealed = &sealed});
        if (admitted.has_value()) {  // bodies that end with options refuse it
            EXPECT_LT(admitted->body.size(), sample.body.size() + 100);
        } else {
            EXPECT_EQ(admitted.error().code, E::kInvalidCommand);
        }
    }
}

TEST(Admit, SecretsEnterTheLogSealedOrNotAtAll) {
    const Bytes user = create_user("alice");
    const Bytes password = change_password(named("alice"));
    const Bytes token = create_token("laptop", 77);
    for (const auto& [operation, body] :
         {std::pair(O::kCreateUser, user), std::pair(O::kChangePassword, password),
          std::pair(O::kCreatePersonalAccessToken, token)}) {
        EXPECT_EQ(admit(State{}, {.operation = operation, .body = body}).error().code,
                  E::kFeatureUnavailable);
        const Sealed sealed{.password_hash = "$new$", .verified_hash = "$old$", .token_hash = {}};
        const Admitted admitted =
            *admit(State{}, {.operation = operation, .body = body, .sealed = &sealed});
        const std::string_view in_log = as_text(admitted.body);
        EXPECT_EQ(in_log.find("password"), std::string_view::npos);
        EXPECT_EQ(in_log.find("another"), std::string_view::npos);
        // The stamp of a body with a password in it would help to guess the password.
        EXPECT_EQ(admitted.keeps_checksum, operation == O::kCreatePersonalAccessToken);
    }
}

TEST(Admit, WhatTheEdgeSawNoRightForIsRefusedOrAskedForAgain) {
    Node node;
    const Node::Who root{};
    node.login(root);
    EXPECT_EQ(node.result(O::kCreateUser, create_user("alice"), root), E::kOk);
    const Node::Who alice{.client = client(2), .user = model::UserId(1)};
    const auto refusal = [&](O operation, const Bytes& body, Node::Who who) {
        const Sealed nothing;
        const Result<Admitted> admitted =
            admit(node.state(),
                  {.operation = operation, .body = body, .user = who.user, .sealed = &nothing});
        return admitted.has_value() ? E::kOk : admitted.error().code;
    };
    EXPECT_EQ(refusal(O::kCreateUser, create_user("bob"), alice), E::kUnauthorized);
    EXPECT_EQ(refusal(O::kCreateUser, create_user("bob"), root), E::kTransientNotAccepted);
    EXPECT_EQ(refusal(O::kChangePassword, change_password(id(0)), alice), E::kUnauthorized);
    EXPECT_EQ(refusal(O::kChangePassword, change_password(id(1)), alice), E::kTransientNotAccepted);
    EXPECT_EQ(refusal(O::kChangePassword, change_password(id(1)), root), E::kTransientNotAccepted);
    EXPECT_EQ(refusal(O::kChangePassword, change_password(id(9)), alice), E::kOk) << "not found";
    // Without the right nothing of the body is looked at.
    const Bytes noise(2 * kUserBodyBytesMax, std::byte{7});
    EXPECT_EQ(refusal(O::kCreateUser, noise, alice), E::kUnauthorized);
    EXPECT_EQ(refusal(O::kUpdatePermissions, noise, alice), E::kUnauthorized);
    EXPECT_EQ(refusal(O::kUpdatePermissions, noise, root), E::kInvalidCommand);
}

TEST(Admit, UsersAndTokens) {
    const auto user_with = [](std::string_view password) {
        return body_of(
            wire::CreateUserRequest{.username = "alice", .password = password, .options = {}});
    };
    const std::string longest(100, 'p');
    EXPECT_EQ(admission(O::kCreateUser, user_with("ppp")), E::kOk);
    EXPECT_EQ(admission(O::kCreateUser, user_with(longest)), E::kOk);
    EXPECT_EQ(admission(O::kCreateUser, user_with("pp")), E::kInvalidPassword);
    EXPECT_EQ(admission(O::kCreateUser, user_with(longest + "p")), E::kInvalidPassword);
    EXPECT_EQ(admission(O::kChangePassword,
                        body_of(wire::ChangePasswordRequest{
                            .user = id(0), .current_password = "", .new_password = "pp"})),
              E::kInvalidPassword);
    wire::OptionBlockBuilder some;
    some.put_bool("admin", true);
    const Bytes block = options(some);
    EXPECT_EQ(admission(O::kCreateUser, body_of(wire::CreateUserRequest{
                                            .username = "alice",
                                            .password = "password",
                                            .options = *wire::OptionBlock::parse(block)})),
              E::kUnsupportedOptionKey);
    EXPECT_EQ(
        admission(O::kUpdateUser, body_of(wire::UpdateUserRequest{
                                      .user = id(1), .options = *wire::OptionBlock::parse(block)})),
        E::kUnsupportedOptionKey);

    model::Permissions huge;
    for (std::uint32_t i = 0; i < 100'000; ++i) {
        huge.streams[model::StreamId(i)].read_stream = true;
    }
    EXPECT_EQ(admission(O::kUpdatePermissions, update_permissions(id(1), huge)),
              E::kInvalidCommand);
    EXPECT_EQ(admission(O::kCreateUser, create_user("alice", huge)), E::kInvalidCommand);
    // wire: the flag means "present" only as 1.
    EXPECT_EQ(admission(O::kUpdatePermissions,
                        {std::byte{1}, std::byte{4}, {}, {}, {}, {}, std::byte{2}, std::byte{9}}),
              E::kOk);
}

TEST(Admit, OtherOperationsAreNotServedHere) {
    for (const O operation :
         {O::kNone, O::kRegister, O::kNonReplicated, O::kLogout, O::kCreateTopicWithAssignments,
          O::kTruncatePartition, O::kDeleteSegments, O::kSendMessages, Operation{200}}) {
        EXPECT_EQ(admission(operation, create_stream("s")), E::kFeatureUnavailable)
            << static_cast<int>(operation);
    }
}

TEST(Admit, ViewOfALogEntryCarriesEverything) {
    const Bytes body = create_stream("s");
    wire::PrepareHeader header;
    header.operation = O::kCreateStream;
    header.op = OpNumber(5);
    header.timestamp = Timestamp(6);
    header.client = client(3);
    header.session = SessionId(4);
    header.request = RequestNumber(8);
    header.request_checksum = 9;
    header.user = model::UserId(2);
    const PrepareView prepare = view_prepare(header, body);
    EXPECT_EQ(prepare.operation, LogOperation::kCreateStream);
    EXPECT_EQ(prepare.op, OpNumber(5));
    EXPECT_EQ(prepare.timestamp, Timestamp(6));
    EXPECT_EQ(prepare.client, client(3));
    EXPECT_EQ(prepare.session, SessionId(4));
    EXPECT_EQ(prepare.request, RequestNumber(8));
    EXPECT_TRUE(prepare.request_checksum == 9);
    EXPECT_EQ(prepare.user, model::UserId(2));
    EXPECT_EQ(prepare.body.data(), body.data());
}

}  // namespace
}  // namespace galgo::metadata::test

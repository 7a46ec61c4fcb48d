// Every command x every single permission x granted or not.
//
// What is expected is written down here from the published rules of the protocol and shares nothing
// with the code: neither the command table nor model::Rule. Each command is asked in every way in
// which this module answers it: authorise(), the operation taken through admission and log, the
// function that makes the reply of a read. Each is asked with every grant: one permission alone,
// all but one, one on another stream or topic, none, no record. What is granted must work, not
// only pass.
#include <array>
#include <functional>
#include <set>
#include <string>

#include "gmock/gmock.h"
#include "metadata/authorise.hpp"
#include "metadata/read_replies.hpp"
#include "test_node.hpp"
#include "wire/command_table.hpp"

namespace galgo::metadata::test {
namespace {

using C = wire::CommandCode;
using O = Operation;
using E = ErrorCode;
using P = model::Permissions;

// ---- permissions, one by one

/// A permission by its level (G global, S of a stream, T of a topic) and name.
struct Bit {
    std::string_view name;
    /// A reference into the record; the stream and the topic count from their level on.
    std::function<bool&(P&, model::StreamId, model::TopicId)> in;
};

Bit global(std::string_view name, bool model::GlobalPermissions::* member) {
    return {name, [member](P& all, auto, auto) -> bool& { return all.global.*member; }};
}
Bit of_stream(std::string_view name, bool model::StreamPermissions::* member) {
    return {name,
            [member](P& all, auto stream, auto) -> bool& { return all.streams[stream].*member; }};
}
Bit of_topic(std::string_view name, bool model::TopicPermissions::* member) {
    return {name, [member](P& all, auto stream, auto topic) -> bool& {
                return all.streams[stream].topics[topic].*member;
            }};
}

const std::array kBits{
    global("G.manage_servers", &model::GlobalPermissions::manage_servers),
    global("G.read_servers", &model::GlobalPermissions::read_servers),
    global("G.manage_users", &model::GlobalPermissions::manage_users),
    global("G.read_users", &model::GlobalPermissions::read_users),
    global("G.manage_streams", &model::GlobalPermissions::manage_streams),
    global("G.read_streams", &model::GlobalPermissions::read_streams),
    global("G.manage_topics", &model::GlobalPermissions::manage_topics),
    global("G.read_topics", &model::GlobalPermissions::read_topics),
    global("G.poll_messages", &model::GlobalPermissions::poll_messages),
    global("G.send_messages", &model::GlobalPermissions::send_messages),
    of_stream("S.manage_stream", &model::StreamPermissions::manage_stream),
    of_stream("S.read_stream", &model::StreamPermissions::read_stream),
    of_stream("S.manage_topics", &model::StreamPermissions::manage_topics),
    of_stream("S.read_topics", &model::StreamPermissions::read_topics),
    of_stream("S.poll_messages", &model::StreamPermissions::poll_messages),
    of_stream("S.send_messages", &model::StreamPermissions::send_messages),
    of_topic("T.manage_topic", &model::TopicPermissions::manage_topic),
    of_topic("T.read_topic", &model::TopicPermissions::read_topic),
    of_topic("T.poll_messages", &model::TopicPermissions::poll_messages),
    of_topic("T.send_messages", &model::TopicPermissions::send_messages),
};

constexpr model::StreamId kStream{0};
constexpr model::StreamId kOtherStream{1};
constexpr model::TopicId kTopic{0};
constexpr model::TopicId kOtherTopic{1};

// ---- expectations

using Names = std::set<std::string_view>;

Names operator+(Names left, const Names& right) {
    left.insert(right.begin(), right.end());
    return left;
}

/// wire: permission rules of the reference server. Any one of the names suffices.
struct Rules {
    Names server_read{"G.manage_servers", "G.read_servers"};
    Names users_read{"G.manage_users", "G.read_users"};
    Names users_manage{"G.manage_users"};
    Names streams_read{"G.manage_streams", "G.read_streams"};
    Names stream_read = streams_read + Names{"S.manage_stream", "S.read_stream"};
    Names streams_manage{"G.manage_streams"};
    Names stream_manage = streams_manage + Names{"S.manage_stream"};
    Names topics_read{"G.read_streams",  "G.manage_streams", "G.manage_topics", "G.read_topics",
                      "S.manage_stream", "S.read_stream",    "S.manage_topics", "S.read_topics"};
    Names topic_read = topics_read + Names{"T.manage_topic", "T.read_topic"};
    Names topics_manage{"G.manage_streams", "G.manage_topics", "S.manage_stream",
                        "S.manage_topics"};
    Names topic_manage = topics_manage + Names{"T.manage_topic"};
    Names topic_poll{"G.poll_messages",  "G.read_topics",   "G.manage_topics", "G.read_streams",
                     "G.manage_streams", "S.poll_messages", "S.manage_stream", "S.read_stream",
                     "S.manage_topics",  "S.read_topics",   "T.manage_topic",  "T.read_topic",
                     "T.poll_messages"};
    Names topic_send{"G.send_messages", "G.manage_streams", "G.manage_topics", "S.send_messages",
                     "S.manage_stream", "S.manage_topics",  "T.manage_topic",  "T.send_messages"};
    Names anyone{};  ///< who is logged in
};

const Rules kRules;

/// Whom the commands about a user are about.
enum class Whom : std::uint8_t { kAnother, kOneself };

struct Command {
    C code{};
    const Names& needs;
    Whom whom = Whom::kAnother;
    O operation = O::kNonReplicated;  ///< of those that go through the metadata log
    std::function<Bytes()> body{};
    /// Of reads that this module answers: the reply for this user.
    std::function<Result<ReplyBody>(const State&, model::UserId)> read{};
};

// The subject is user 1, another is user 2.
constexpr model::UserId kSubject{1};
constexpr model::UserId kAnother{2};

/// wire: command catalogue of iggy_binary_protocol 0.11.0.
std::vector<Command> commands() {
    const Rules& r = kRules;
    const Identifier s = id(kStream.value());
    const Identifier t = id(kTopic.value());
    const Identifier g = id(0);
    const auto write = [](C code, const Names& needs, O operation, const Bytes& body,
                          Whom whom = Whom::kAnother) {
        return Command{
            .code = code, .needs = needs, .whom = whom, .operation = operation, .body = [body] {
                return body;
            }};
    };
    const auto read = [](C code, const Names& needs,
                         std::function<Result<ReplyBody>(const State&, model::UserId)> reply,
                         Whom whom = Whom::kAnother) {
        return Command{.code = code, .needs = needs, .whom = whom, .read = std::move(reply)};
    };
    const auto elsewhere = [](C code, const Names& needs) {
        return Command{.code = code, .needs = needs};
    };
    using St = const State&;
    using U = model::UserId;
    return {
        elsewhere(C::kPing, r.anyone),
        elsewhere(C::kGetStats, r.server_read),
        elsewhere(C::kGetSnapshot, r.server_read),
        elsewhere(C::kGetClusterMetadata, r.anyone),
        elsewhere(C::kDescribeOptions, r.anyone),
        elsewhere(C::kAttachConsumerSession, r.anyone),
        elsewhere(C::kGetMe, r.anyone),
        elsewhere(C::kGetClient, r.server_read),
        elsewhere(C::kGetClients, r.server_read),
        read(C::kGetUser, r.users_read, [](St st, U u) { return get_user_reply(st, u, id(2)); }),
        read(
            C::kGetUser, r.anyone, [](St st, U u) { return get_user_reply(st, u, id(1)); },
            Whom::kOneself),
        read(C::kGetUsers, r.users_read, [](St st, U u) { return get_users_reply(st, u); }),
        write(C::kCreateUser, r.users_manage, O::kCreateUser, create_user("fresh")),
        write(C::kDeleteUser, r.users_manage, O::kDeleteUser, user_body(id(2))),
        write(C::kDeleteUser, r.users_manage, O::kDeleteUser, user_body(id(1)), Whom::kOneself),
        write(C::kUpdateUser, r.users_manage, O::kUpdateUser, rename_user(id(2), "fresh")),
        write(C::kUpdateUser, r.users_manage, O::kUpdateUser, rename_user(id(1), "fresh"),
              Whom::kOneself),
        write(C::kUpdatePermissions, r.users_manage, O::kUpdatePermissions,
              update_permissions(id(2), {})),
        write(C::kUpdatePermissions, r.users_manage, O::kUpdatePermissions,
              update_permissions(id(1), model::all_permissions()), Whom::kOneself),
        write(C::kChangePassword, r.users_manage, O::kChangePassword, change_password(id(2))),
        write(C::kChangePassword, r.anyone, O::kChangePassword, change_password(id(1)),
              Whom::kOneself),
        elsewhere(C::kLoginUser, r.anyone),
        elsewhere(C::kLogoutUser, r.anyone),
        elsewhere(C::kLoginRegister, r.anyone),
        read(C::kGetPersonalAccessTokens, r.anyone,
             [](St st, U u) { return Result<ReplyBody>(get_tokens_reply(st, u)); }),
        write(C::kCreatePersonalAccessToken, r.anyone, O::kCreatePersonalAccessToken,
              create_token("fresh")),
        write(C::kDeletePersonalAccessToken, r.anyone, O::kDeletePersonalAccessToken,
              delete_token("mine")),
        elsewhere(C::kLoginWithPersonalAccessToken, r.anyone),
        elsewhere(C::kLoginRegisterWithPersonalAccessToken, r.anyone),
        elsewhere(C::kPollMessages, r.topic_poll),
        elsewhere(C::kSendMessages, r.topic_send),
        elsewhere(C::kFlushUnsavedBuffer, r.anyone),
        elsewhere(C::kGetPollRouting, r.topic_poll),
        elsewhere(C::kPollMessagesOnPrimary, r.topic_poll),
        elsewhere(C::kGetConsumerOffset, r.topic_poll),
        elsewhere(C::kStoreConsumerOffset, r.topic_poll),
        elsewhere(C::kDeleteConsumerOffset, r.topic_poll),
        elsewhere(C::kGetConsumerOffsetRouting, r.topic_poll),
        read(C::kGetStream, r.stream_read, [s](St st, U u) { return get_stream_reply(st, u, s); }),
        read(C::kGetStreams, r.streams_read, [](St st, U u) { return get_streams_reply(st, u); }),
        write(C::kCreateStream, r.streams_manage, O::kCreateStream, create_stream("fresh")),
        write(C::kDeleteStream, r.stream_manage, O::kDeleteStream, stream_body(s)),
        write(C::kUpdateStream, r.stream_manage, O::kUpdateStream, update_stream(s, "fresh")),
        write(C::kPurgeStream, r.stream_manage, O::kPurgeStream, stream_body(s)),
        read(C::kGetTopic, r.topic_read,
             [s, t](St st, U u) { return get_topic_reply(st, u, s, t); }),
        read(C::kGetTopics, r.topics_read, [s](St st, U u) { return get_topics_reply(st, u, s); }),
        write(C::kCreateTopic, r.topics_manage, O::kCreateTopic, create_topic(s, "fresh", 1)),
        write(C::kDeleteTopic, r.topic_manage, O::kDeleteTopic, topic_body(s, t)),
        write(C::kUpdateTopic, r.topic_manage, O::kUpdateTopic, update_topic(s, t, "fresh")),
        write(C::kPurgeTopic, r.topic_manage, O::kPurgeTopic, topic_body(s, t)),
        write(C::kCreatePartitions, r.topic_manage, O::kCreatePartitions, partitions_body(s, t, 1)),
        write(C::kDeletePartitions, r.topic_manage, O::kDeletePartitions, partitions_body(s, t, 1)),
        elsewhere(C::kDeleteSegments, r.topic_manage),
        read(C::kGetConsumerGroup, r.topic_read,
             [s, t, g](St st, U u) { return get_group_reply(st, u, s, t, g); }),
        read(C::kGetConsumerGroups, r.topic_read,
             [s, t](St st, U u) { return get_groups_reply(st, u, s, t); }),
        write(C::kCreateConsumerGroup, r.topic_read, O::kCreateConsumerGroup,
              create_group(s, t, "fresh")),
        write(C::kDeleteConsumerGroup, r.topic_read, O::kDeleteConsumerGroup, group_body(s, t, g)),
        write(C::kJoinConsumerGroup, r.topic_read, O::kJoinConsumerGroup, group_body(s, t, g)),
        write(C::kLeaveConsumerGroup, r.topic_read, O::kLeaveConsumerGroup, group_body(s, t, g)),
        elsewhere(C::kSyncConsumerGroup, r.anyone),
    };
}

// ---- grants

struct Grant {
    std::string name;
    std::optional<P> permissions;
    Names names;  ///< that hold for the targets of the commands
};

Names all_names() {
    Names names;
    for (const Bit& bit : kBits) {
        names.insert(bit.name);
    }
    return names;
}

P all_bits(model::StreamId stream, model::TopicId topic) {
    P all;
    for (const Bit& bit : kBits) {
        bit.in(all, stream, topic) = true;
    }
    return all;
}

std::vector<Grant> grants() {
    std::vector<Grant> all;
    all.push_back({.name = "no record", .permissions = {}, .names = {}});
    P nothing;
    nothing.streams[kStream].topics[kTopic];
    all.push_back({.name = "a record without a right", .permissions = nothing, .names = {}});
    for (const Bit& bit : kBits) {
        Grant one{.name = "only ", .permissions = P{}, .names = {bit.name}};
        one.name += bit.name;
        bit.in(*one.permissions, kStream, kTopic) = true;
        all.push_back(std::move(one));

        Grant others{
            .name = "all but ", .permissions = all_bits(kStream, kTopic), .names = all_names()};
        others.name += bit.name;
        bit.in(*others.permissions, kStream, kTopic) = false;
        others.names.erase(bit.name);
        all.push_back(std::move(others));
    }
    for (const Bit& bit : kBits) {
        if (bit.name.starts_with("G.")) {
            continue;
        }
        Grant there{.name = "on another stream ", .permissions = P{}, .names = {}};
        there.name += bit.name;
        bit.in(*there.permissions, kOtherStream, kTopic) = true;
        all.push_back(std::move(there));
    }
    for (const Bit& bit : kBits) {
        if (!bit.name.starts_with("T.")) {
            continue;
        }
        Grant there{.name = "on another topic ", .permissions = P{}, .names = {}};
        there.name += bit.name;
        bit.in(*there.permissions, kStream, kOtherTopic) = true;
        all.push_back(std::move(there));
    }
    return all;
}

bool is_expected_to_pass(const Command& command, const Grant& grant) {
    return command.needs.empty() || std::ranges::any_of(command.needs, [&](std::string_view name) {
               return grant.names.contains(name);
           });
}

/// A node with two streams, two topics and a group, whose subject has the grant (and joined the
/// group before, has a token, and knows everybody's password).
class Subject {
 public:
    explicit Subject(const std::optional<P>& permissions) {
        node_.login({});
        node_.request(O::kCreateUser, create_user("subject", model::all_permissions()));
        node_.request(O::kCreateUser, create_user("another"));
        node_.login(who_);
        for (const std::string_view stream : {"s", "other"}) {
            node_.request(O::kCreateStream, create_stream(stream));
            node_.request(O::kCreateTopic, create_topic(named(stream), "t", 2));
            node_.request(O::kCreateTopic, create_topic(named(stream), "other", 2));
        }
        node_.request(O::kCreateConsumerGroup, create_group(id(0), id(0), "g"));
        EXPECT_EQ(node_.result(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)), who_),
                  E::kOk);
        EXPECT_EQ(node_.result(O::kCreatePersonalAccessToken, create_token("mine"), who_,
                               {.token_hash = token_hash(1)}),
                  E::kOk);
        EXPECT_EQ(node_.result(O::kUpdatePermissions, update_permissions(id(1), permissions)),
                  E::kOk);
    }
    [[nodiscard]] const State& state() const { return node_.state(); }
    E request(const Command& command) {
        return node_.result(
            command.operation, command.body(), who_,
            {.password_hash = "hash", .verified_hash = "hash", .token_hash = token_hash(2)});
    }

 private:
    Node node_;
    Node::Who who_{.client = client(2), .user = kSubject};
};

E code_of(const auto& result) {
    return result.has_value() ? E::kOk : result.error().code;
}

TEST(PermissionMatrix, NamesEveryCommandAndEveryPermission) {
    std::set<C> known;
    for (const Command& command : commands()) {
        known.insert(command.code);
        const wire::CommandRow* row = wire::find_command(command.code);
        ASSERT_NE(row, nullptr);
        // What goes through the metadata log is asked as it goes there.
        EXPECT_EQ(row->kind == wire::CommandKind::kMetadata, command.body != nullptr) << row->name;
        if (command.body != nullptr) {
            EXPECT_EQ(row->operation, command.operation) << row->name;
        }
    }
    for (const wire::CommandRow& row : wire::kCommandTable) {
        EXPECT_TRUE(known.contains(row.code)) << row.name;
    }
    // All there are: every permission of the whole record is one of the bits.
    P all = all_bits(kStream, kTopic);
    EXPECT_EQ(all.global, model::all_permissions().global);
    EXPECT_EQ(all_names().size(), kBits.size());
    static_assert(sizeof(model::GlobalPermissions) == 10);
    static_assert(sizeof(model::TopicPermissions) == 4);
    static_assert(offsetof(model::StreamPermissions, topics) == 8);  // six and padding
}

TEST(PermissionMatrix, TheQuestionAtTheEdge) {
    const std::vector<Command> all = commands();
    for (const Grant& grant : grants()) {
        const Subject subject(grant.permissions);
        for (const Command& command : all) {
            const Target target{.stream = kStream,
                                .topic = kTopic,
                                .user = command.whom == Whom::kOneself ? kSubject : kAnother};
            const E expected = is_expected_to_pass(command, grant) ? E::kOk : E::kUnauthorized;
            const std::string_view name = wire::find_command(command.code)->name;
            EXPECT_EQ(code_of(authorise(subject.state(), kSubject, command.code, target)), expected)
                << name << ", " << grant.name;
            EXPECT_EQ(code_of(authorise(subject.state(), model::kRootUserId, command.code, target)),
                      E::kOk)
                << name;
            if (command.body != nullptr) {
                EXPECT_EQ(code_of(authorise(subject.state(), kSubject, command.operation, target)),
                          expected)
                    << name << ", " << grant.name;
            }
        }
    }
}

TEST(PermissionMatrix, Reads) {
    const std::vector<Command> all = commands();
    for (const Grant& grant : grants()) {
        const Subject subject(grant.permissions);
        for (const Command& command : all) {
            if (command.read == nullptr) {
                continue;
            }
            const Result<ReplyBody> reply = command.read(subject.state(), kSubject);
            const E expected = is_expected_to_pass(command, grant) ? E::kOk : E::kUnauthorized;
            EXPECT_EQ(code_of(reply), expected)
                << wire::find_command(command.code)->name << ", " << grant.name;
            EXPECT_FALSE(reply.has_value() && reply->empty()) << "nothing was found";
        }
    }
}

TEST(PermissionMatrix, OperationsOfTheLog) {
    const std::vector<Command> all = commands();
    for (const Grant& grant : grants()) {
        for (const Command& command : all) {
            if (command.body == nullptr) {
                continue;
            }
            Subject subject(grant.permissions);
            const E expected = is_expected_to_pass(command, grant) ? E::kOk : E::kUnauthorized;
            EXPECT_EQ(subject.request(command), expected)
                << wire::find_command(command.code)->name << ", " << grant.name;
        }
    }
}

}  // namespace
}  // namespace galgo::metadata::test

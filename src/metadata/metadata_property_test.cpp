// Random operations: both copies and a replay stay equal, names and ids follow a simple model, a
// snapshot gives the same state back, and damaged snapshots are refused without harm.
#include <map>
#include <random>
#include <set>

#include "crypto/hash.hpp"
#include "gmock/gmock.h"
#include "metadata/read_replies.hpp"
#include "test_node.hpp"

namespace galgo::metadata::test {
namespace {

using O = Operation;
using E = ErrorCode;

constexpr std::uint32_t kSessionsMax = 4;

/// Names by id, with the lowest free id next: what a stream table must do.
struct NameModel {
    std::map<std::uint32_t, std::string> names;

    std::uint32_t vacant() const {
        std::uint32_t number = 0;
        while (names.contains(number)) {
            ++number;
        }
        return number;
    }
    bool has(const std::string& name) const {
        return std::ranges::any_of(names, [&](const auto& row) { return row.second == name; });
    }
};

class RandomOperations : public testing::TestWithParam<std::uint32_t> {
 protected:
    std::uint32_t below(std::uint32_t bound) {
        return std::uniform_int_distribution<std::uint32_t>(0, bound - 1)(random_);
    }
    std::string name() { return std::string(1, static_cast<char>('a' + below(6))); }

    void step(Node& node) {
        const Node::Who who{.client = client(below(5))};
        const Identifier stream = id(below(4));
        const Identifier topic = id(below(3));
        const Identifier group = id(below(3));
        switch (below(26)) {
            case 16:
            case 17:
            case 18:
            case 19:
            case 20:
            case 21:
            case 22:
            case 23:
                user_step(node, who);
                break;
            case 24:
                node.advance_clock(below(20'000));
                node.commit(make_expire_tokens(below(3)), {});
                break;
            case 0: {
                const std::string wanted = name();
                const E expected = streams_.has(wanted) ? E::kStreamNameAlreadyExists : E::kOk;
                ASSERT_EQ(node.result(O::kCreateStream, create_stream(wanted), who), expected);
                if (expected == E::kOk) {
                    streams_.names[streams_.vacant()] = wanted;
                }
                break;
            }
            case 1: {
                const bool known = streams_.names.contains(stream.number());
                ASSERT_EQ(node.result(O::kDeleteStream, stream_body(stream), who),
                          known ? E::kOk : E::kStreamIdNotFound);
                streams_.names.erase(stream.number());
                break;
            }
            case 2: {
                const std::string wanted = name();
                const auto row = streams_.names.find(stream.number());
                const bool taken =
                    streams_.has(wanted) && (row == streams_.names.end() || row->second != wanted);
                const E expected = row == streams_.names.end() ? E::kStreamIdNotFound
                                   : taken                     ? E::kStreamNameAlreadyExists
                                                               : E::kOk;
                ASSERT_EQ(node.result(O::kUpdateStream, update_stream(stream, wanted), who),
                          expected);
                if (expected == E::kOk) {
                    row->second = wanted;
                }
                break;
            }
            case 3:
                node.request(O::kPurgeStream, stream_body(stream), who);
                break;
            case 4:
            case 5:
                node.request(O::kCreateTopic, create_topic(stream, name(), below(5)), who);
                break;
            case 6:
                node.request(O::kDeleteTopic, topic_body(stream, topic), who);
                break;
            case 7: {
                wire::OptionBlockBuilder options;
                options.put_u64("message_expiry", below(3));
                if (below(2) == 0) {
                    options.put_string("compression_algorithm", "gzip");
                }
                node.request(O::kUpdateTopic, update_topic(stream, topic, name(), options.encode()),
                             who);
                break;
            }
            case 8:
                node.request(O::kCreatePartitions, partitions_body(stream, topic, 1 + below(3)),
                             who);
                break;
            case 9:
                node.request(O::kDeletePartitions, partitions_body(stream, topic, 1 + below(3)),
                             who);
                break;
            case 10:
                node.request(O::kCreateConsumerGroup, create_group(stream, topic, name()), who);
                break;
            case 11:
                node.request(O::kDeleteConsumerGroup, group_body(stream, topic, group), who);
                break;
            case 12:
            case 13:
                node.request(O::kJoinConsumerGroup, group_body(stream, topic, group), who);
                break;
            case 14:
                node.request(O::kLeaveConsumerGroup, group_body(stream, topic, group), who);
                break;
            default:
                switch (below(8)) {
                    case 0:
                        node.commit(make_logout(), who);
                        break;
                    case 1:
                        node.commit(
                            below(4) == 0 ? make_reset_sessions(kSessionsMax) : make_logout(), who);
                        break;
                    default:
                        node.try_login(who);
                        break;
                }
                break;
        }
    }

    model::Permissions random_permissions() {
        model::Permissions permissions;
        permissions.global.manage_users = below(3) == 0;
        permissions.global.manage_streams = below(3) == 0;
        for (std::uint32_t i = below(3); i > 0; --i) {
            model::StreamPermissions& stream = permissions.streams[model::StreamId(below(4))];
            stream.read_topics = below(2) == 0;
            stream.topics[model::TopicId(below(3))].manage_topic = below(2) == 0;
        }
        return permissions;
    }

    /// Users 0..5 and their tokens; also as another user than root, who may do less.
    void user_step(Node& node, Node::Who who) {
        if (const Session* session = node.state().sessions().find(who.client)) {
            who.user = session->user;
        }
        const Identifier user = id(below(6));
        const std::string wanted = "user-" + name();
        switch (below(11)) {
            case 0:
            case 1: {
                const bool may = node.state().allows(who.user, model::Rule::kUsersManage);
                const bool taken = users_.has(wanted);
                const E expected = !may ? E::kUnauthorized : taken ? E::kUserAlreadyExists : E::kOk;
                ASSERT_EQ(
                    node.result(O::kCreateUser, create_user(wanted, random_permissions()), who),
                    expected);
                if (expected == E::kOk) {
                    users_.names[users_.vacant()] = wanted;
                }
                break;
            }
            case 2: {
                const bool may = node.state().allows(who.user, model::Rule::kUsersManage);
                const E expected = !may                                   ? E::kUnauthorized
                                   : user.number() == 0                   ? E::kCannotDeleteUser
                                   : users_.names.contains(user.number()) ? E::kOk
                                                                          : E::kResourceNotFound;
                ASSERT_EQ(node.result(O::kDeleteUser, user_body(user), who), expected);
                if (expected == E::kOk) {
                    users_.names.erase(user.number());
                }
                break;
            }
            case 3:
                // Root stays active, or nobody can do anything any more.
                node.request(
                    O::kUpdateUser,
                    set_status(id(1 + below(5)), below(2) == 0 ? wire::UserStatus::kActive
                                                               : wire::UserStatus::kInactive),
                    who);
                break;
            case 4:
                node.request(
                    O::kUpdatePermissions,
                    update_permissions(
                        user, below(4) == 0 ? std::nullopt : std::optional(random_permissions())),
                    who);
                break;
            case 5: {
                const std::string hash = std::to_string(below(3));
                node.request(O::kChangePassword, change_password(user), who,
                             {.password_hash = hash,
                              .verified_hash = below(3) == 0 ? "wrong" : password_of(node, user)});
                break;
            }
            case 6:
            case 7:
                node.request(O::kCreatePersonalAccessToken, create_token(name(), below(3) * 10'000),
                             who, {.token_hash = token_hash(below(1000))});
                break;
            case 8:
                node.request(O::kDeletePersonalAccessToken, delete_token(name()), who);
                break;
            default: {
                const model::UserId login(below(6));
                const User* row = node.state().users().find(login);
                const bool active = row != nullptr && row->status == wire::UserStatus::kActive;
                const Session* known = node.state().sessions().find(who.client);
                const bool foreign = known != nullptr && known->user != login;
                ASSERT_EQ(node.try_login({.client = who.client, .user = login}),
                          !active   ? E::kInvalidCredentials
                          : foreign ? E::kUnauthenticated
                                    : E::kOk);
                break;
            }
        }
    }

    static std::string password_of(const Node& node, Identifier user) {
        const User* row = node.state().find_user(user);
        return row == nullptr ? "" : row->password_hash;
    }

    void check(const State& state) const {
        ASSERT_EQ(state.users().size(), users_.names.size());
        for (const auto& [number, bearer] : users_.names) {
            ASSERT_NE(state.find_user_by_name(bearer), nullptr);
            ASSERT_EQ(state.find_user_by_name(bearer)->id, model::UserId(number));
        }
        ASSERT_EQ(state.streams().size(), streams_.names.size());
        for (const auto& [number, bearer] : streams_.names) {
            const Stream* by_id = state.find_stream(id(number));
            ASSERT_NE(by_id, nullptr);
            ASSERT_EQ(by_id->name, bearer);
            ASSERT_EQ(state.find_stream(named(bearer)), by_id);
        }
    }

    std::mt19937 random_{GetParam()};
    NameModel streams_;
    NameModel users_{.names = {{0, "iggy"}}};
};

TEST_P(RandomOperations, KeepCopiesReplaysAndSnapshotsEqual) {
    Node node({.sessions_max = kSessionsMax});
    node.login({});
    const int snapshot_at = static_cast<int>(below(600));
    std::vector<std::byte> snapshot;
    for (int i = 0; i < 600; ++i) {
        if (i == snapshot_at) {
            snapshot = encode_snapshot(node.state());
        }
        ASSERT_NO_FATAL_FAILURE(step(node)) << "seed " << GetParam() << " step " << i;
        ASSERT_NO_FATAL_FAILURE(check(node.state()));
    }
    {  // a snapshot and the log behind it come to the same as the whole log
        PartitionStatsRegistry registry;
        Result<State> early = decode_snapshot(snapshot, registry, {.sessions_max = kSessionsMax});
        ASSERT_TRUE(early.has_value());
        node.replay_behind(*early, registry);
        early->check_invariants();
        EXPECT_EQ(encode_snapshot(*early), encode_snapshot(node.state()));
        EXPECT_EQ(registry.size(), node.registry().size());
    }
    PartitionStatsRegistry registry;
    const State replayed = node.replayed(registry);
    replayed.check_invariants();
    EXPECT_EQ(digest(replayed), digest(node.state()));
    EXPECT_EQ(registry.size(), node.registry().size());
    EXPECT_EQ(registry.size(), totals_of(replayed).partition_count) << "no line is left behind";

    const std::vector<std::byte> bytes = encode_snapshot(node.state());
    PartitionStatsRegistry other;
    Result<State> restored = decode_snapshot(bytes, other, {.sessions_max = kSessionsMax});
    ASSERT_TRUE(restored.has_value());
    restored->check_invariants();
    EXPECT_EQ(encode_snapshot(*restored), bytes);
    EXPECT_EQ(other.size(), registry.size());
    for (const Stream& stream : node.state().streams().rows()) {
        for (const Topic& topic : stream.topics.rows()) {
            EXPECT_EQ(
                restored->find_topic(id(stream.id.value()), named(topic.name))->options.values,
                topic.options.values);
        }
    }
    for (const User& user : node.state().users().rows()) {
        const User* same = restored->users().find(user.id);
        ASSERT_NE(same, nullptr);
        EXPECT_EQ(same->permissions, user.permissions);
        EXPECT_EQ(same->tokens, user.tokens);
        for (const auto& [token_name, token] : user.tokens) {
            const std::optional<TokenRow> row = restored->find_token(token.hash);
            ASSERT_TRUE(row.has_value());
            EXPECT_EQ(row->name, token_name);
            EXPECT_EQ(row->user.id, user.id);
        }
    }

    // A restart: nothing of the connections that were is left, and everything else is.
    node.commit(make_reset_sessions(kSessionsMax), {});
    EXPECT_EQ(node.state().sessions().size(), 0U);
    for (std::uint32_t i = 0; i < 5; ++i) {
        EXPECT_EQ(node.state().memberships_of(client(i)), nullptr);
    }
    for (const Stream& stream : node.state().streams().rows()) {
        for (const Topic& topic : stream.topics.rows()) {
            for (const auto& [number, group] : topic.groups) {
                EXPECT_EQ(group.assignment.member_count(), 0U);
            }
        }
    }
    ASSERT_NO_FATAL_FAILURE(check(node.state()));
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomOperations, testing::Range(1U, 9U));

class SnapshotTest : public testing::Test {
 protected:
    SnapshotTest() {
        node_.login({.client = client(1)});
        node_.login({.client = client(2)});
        node_.request(O::kCreateStream, create_stream("s"));
        node_.request(O::kCreateStream, create_stream("gone"));
        node_.request(O::kCreateStream, create_stream("t"));
        node_.request(O::kDeleteStream, stream_body(named("gone")));
        node_.request(O::kCreateTopic, create_topic(id(0), "topic", 3));
        node_.request(O::kCreateConsumerGroup, create_group(id(0), id(0), "g"));
        node_.request(O::kJoinConsumerGroup, group_body(id(0), id(0), id(0)));
        model::Permissions permissions{.global = {.read_streams = true}, .streams = {}};
        permissions.streams[model::StreamId(2)].topics[model::TopicId(1)].send_messages = true;
        node_.request(O::kCreateUser, create_user("alice", permissions));
        node_.request(O::kCreateUser, create_user("bob", {}, wire::UserStatus::kInactive));
        node_.login({.client = client(3), .user = model::UserId(1)});
        node_.request(O::kCreatePersonalAccessToken, create_token("forever"),
                      {.client = client(3), .user = model::UserId(1)},
                      {.token_hash = token_hash(1)});
        node_.request(O::kCreatePersonalAccessToken, create_token("an hour", 3'600'000'000),
                      {.client = client(3), .user = model::UserId(1)},
                      {.token_hash = token_hash(2)});
        bytes_ = encode_snapshot(node_.state());
    }

    static void seal(std::vector<std::byte>& bytes) {
        const std::size_t size = bytes.size() - 8;
        store<std::uint64_t>(bytes, size, crypto::xxh3_64(ConstBytes(bytes).first(size)));
    }

    Node node_;
    std::vector<std::byte> bytes_;
};

TEST_F(SnapshotTest, GoesOnLikeTheOriginal) {
    PartitionStatsRegistry registry;
    Result<State> restored = decode_snapshot(bytes_, registry);
    ASSERT_TRUE(restored.has_value());
    node_.request(O::kCreateStream, create_stream("new"));
    const Admitted admitted =
        *admit(node_.state(), {.operation = O::kCreateStream, .body = create_stream("new")});
    const ApplyOutcome outcome = apply(*restored, registry,
                                       {.operation = admitted.operation,
                                        .op = node_.op(),
                                        .timestamp = node_.now(),
                                        .client = client(1),
                                        .session = node_.state().sessions().find(client(1))->epoch,
                                        .body = admitted.body});
    EXPECT_EQ(outcome.result, E::kOk);
    EXPECT_EQ(restored->find_stream(named("new"))->id, model::StreamId(1));
    EXPECT_EQ(digest(*restored), digest(node_.state()));
}

TEST_F(SnapshotTest, ASmallerSessionTableBootsAndShrinksWithTheNextLogin) {
    PartitionStatsRegistry registry;
    Result<State> restored = decode_snapshot(bytes_, registry, {.sessions_max = 1});
    ASSERT_TRUE(restored.has_value());
    EXPECT_EQ(restored->sessions().size(), 3U);
    const Admitted login =
        make_register(login_by_password(*node_.state().users().find(model::kRootUserId)));
    const ApplyOutcome outcome = apply(*restored, registry,
                                       {.operation = login.operation,
                                        .op = node_.op().next(),
                                        .timestamp = node_.now(),
                                        .client = client(4),
                                        .body = login.body});
    EXPECT_EQ(outcome.result, E::kOk);
    EXPECT_EQ(restored->sessions().size(), 1U);
    restored->check_invariants();
}

TEST_F(SnapshotTest, TruncatedOrProlongedIsRefused) {
    for (std::size_t size = 0; size < bytes_.size(); ++size) {
        PartitionStatsRegistry registry;
        const Result<State> restored = decode_snapshot(ConstBytes(bytes_).first(size), registry);
        ASSERT_FALSE(restored.has_value()) << size;
        EXPECT_EQ(restored.error().code, E::kStateFileCorrupted);
    }
    bytes_.push_back(std::byte{0});
    PartitionStatsRegistry registry;
    EXPECT_FALSE(decode_snapshot(bytes_, registry).has_value());
}

TEST_F(SnapshotTest, EveryFlippedBitIsRefused) {
    for (std::size_t position = 0; position < bytes_.size(); ++position) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            std::vector<std::byte> damaged = bytes_;
            damaged[position] ^= std::byte{static_cast<unsigned char>(1U << bit)};
            PartitionStatsRegistry registry;
            const Result<State> restored = decode_snapshot(damaged, registry);
            ASSERT_FALSE(restored.has_value()) << position;
            ASSERT_EQ(restored.error().code, E::kStateFileCorrupted);
        }
    }
}

/// Whoever can make a checksum can still not make a state that breaks its own rules.
TEST_F(SnapshotTest, ForgedBytesAreRefusedOrGiveAConsistentState) {
    for (std::size_t position = 0; position + 8 < bytes_.size(); ++position) {
        for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
            std::vector<std::byte> forged = bytes_;
            forged[position] ^= std::byte{static_cast<unsigned char>(flip)};
            seal(forged);
            PartitionStatsRegistry registry;
            const Result<State> restored = decode_snapshot(forged, registry);
            if (restored.has_value()) {
                restored->check_invariants();
                EXPECT_EQ(encode_snapshot(*restored), forged) << position;
            }
        }
    }
}

TEST_F(SnapshotTest, AnotherVersionIsNamedAsSuch) {
    bytes_[4] = std::byte{3};
    seal(bytes_);
    PartitionStatsRegistry registry;
    const Result<State> restored = decode_snapshot(bytes_, registry);
    ASSERT_FALSE(restored.has_value());
    EXPECT_EQ(restored.error().code, E::kInvalidVersion);
    EXPECT_EQ(restored.error().detail, 3U);
}

TEST_F(SnapshotTest, EqualStatesFromUnequalLogsHaveEqualRows) {
    // The same tokens, made in another order and with one in between that is gone again.
    Node other;
    for (const std::uint32_t number : {1U, 2U}) {
        other.login({.client = client(number)});
    }
    const Node::Who root{.client = client(1)};
    Node mirror;
    for (const std::uint32_t number : {1U, 2U}) {
        mirror.login({.client = client(number)});
    }
    other.request(O::kCreatePersonalAccessToken, create_token("a"), root,
                  {.token_hash = token_hash(1)});
    other.request(O::kCreatePersonalAccessToken, create_token("b"), root,
                  {.token_hash = token_hash(2)});
    mirror.request(O::kCreatePersonalAccessToken, create_token("b"), root,
                   {.token_hash = token_hash(2)});
    mirror.request(O::kCreatePersonalAccessToken, create_token("a"), root,
                   {.token_hash = token_hash(1)});
    EXPECT_EQ(encode_snapshot(other.state()), encode_snapshot(mirror.state()));
    EXPECT_EQ(digest(other.state()), digest(mirror.state()));
}

TEST_F(SnapshotTest, DigestSeesEverySmallDifference) {
    const std::uint64_t before = digest(node_.state());
    node_.request(O::kPurgeTopic, topic_body(id(0), id(0)));
    EXPECT_NE(digest(node_.state()), before);
}

}  // namespace
}  // namespace galgo::metadata::test

// Users, permissions, passwords and access tokens: results, changes, who may what, and what ends
// with whom.
#include <algorithm>

#include "gmock/gmock.h"
#include "metadata/apply.hpp"
#include "test_node.hpp"
#include "wire/replies.hpp"

namespace galgo::metadata::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using O = Operation;
using E = ErrorCode;

constexpr std::uint64_t kForever = ~std::uint64_t{0};

std::vector<ChangeKind> kinds(const ApplyOutcome& outcome) {
    std::vector<ChangeKind> result;
    for (const Change& change : outcome.changes) {
        result.push_back(change.kind);
    }
    return result;
}

/// Root is client 1; "alice" (1) without rights is client 2; "admin" (2), who manages users, is
/// client 3.
class UsersTest : public testing::Test {
 protected:
    UsersTest() {
        node_.login(root_);
        EXPECT_EQ(node_.result(O::kCreateUser, create_user("alice")), E::kOk);
        EXPECT_EQ(
            node_.result(O::kCreateUser,
                         create_user("admin", model::Permissions{.global = {.manage_users = true},
                                                                 .streams = {}})),
            E::kOk);
        node_.login(alice_);
        node_.login(admin_);
    }

    const User* user(std::uint32_t number) const {
        return node_.state().users().find(model::UserId(number));
    }
    E create_token_as(Node::Who who, std::string_view name, std::uint32_t hash,
                      std::uint64_t lifetime_us = 0) {
        return node_.result(O::kCreatePersonalAccessToken, create_token(name, lifetime_us), who,
                            {.token_hash = token_hash(hash)});
    }

    /// As it was admitted while the user had no token yet.
    static Admitted admitted_token(std::string_view name, std::uint32_t hash) {
        const Sealed sealed{.token_hash = token_hash(hash)};
        return *admit(State{}, {.operation = O::kCreatePersonalAccessToken,
                                .body = create_token(name),
                                .sealed = &sealed,
                                .tokens_per_user_max = Node::kTokensPerUserMax});
    }

    /// A request of alice that was let in under `session`, with all that the edge may add.
    E late_for_alice(O operation, const Bytes& body, SessionId session) {
        const Sealed sealed{
            .password_hash = "new", .verified_hash = "hash", .token_hash = token_hash(9)};
        const Admitted admitted = *admit(
            node_.state(),
            {.operation = operation, .body = body, .user = model::UserId(1), .sealed = &sealed});
        return node_.commit_as(admitted, alice_, session).result;
    }

    Node node_;
    Node::Who root_{.client = client(1)};
    Node::Who alice_{.client = client(2), .user = model::UserId(1)};
    Node::Who admin_{.client = client(3), .user = model::UserId(2)};
};

TEST_F(UsersTest, ErrorsOfEveryOperation) {
    struct Case {
        O operation;
        Bytes body;
        E expected;
    };
    const std::string longest(50, 'n');
    const Case cases[] = {
        {O::kCreateUser, create_user("alice"), E::kUserAlreadyExists},
        {O::kCreateUser, create_user("ab"), E::kInvalidUsername},
        {O::kCreateUser, create_user(longest + "n"), E::kInvalidUsername},
        {O::kCreateUser, create_user("abc"), E::kOk},
        {O::kCreateUser, create_user(longest), E::kOk},
        {O::kUpdateUser, rename_user(id(9), "carol"), E::kResourceNotFound},
        {O::kUpdateUser, rename_user(named("nobody"), "carol"), E::kResourceNotFound},
        {O::kUpdateUser, rename_user(id(1), "ab"), E::kInvalidUsername},
        {O::kUpdateUser, rename_user(id(1), "admin"), E::kUserAlreadyExists},
        {O::kUpdateUser, rename_user(id(1), "alice"), E::kOk},
        {O::kDeleteUser, user_body(id(9)), E::kResourceNotFound},
        {O::kDeleteUser, user_body(id(0)), E::kCannotDeleteUser},
        {O::kDeleteUser, user_body(named("iggy")), E::kCannotDeleteUser},
        {O::kUpdatePermissions, update_permissions(id(9), {}), E::kResourceNotFound},
        {O::kUpdatePermissions, update_permissions(id(0), {}), E::kCannotChangePermissions},
        {O::kChangePassword, change_password(id(9)), E::kResourceNotFound},
        {O::kDeletePersonalAccessToken, delete_token("none"), E::kResourceNotFound},
    };
    for (const Case& one : cases) {
        SCOPED_TRACE(&one - cases);
        const ApplyOutcome outcome = node_.request(one.operation, one.body);
        EXPECT_EQ(outcome.result, one.expected);
        if (one.expected != E::kOk) {
            EXPECT_THAT(outcome.changes, IsEmpty());
            EXPECT_THAT(outcome.payload, IsEmpty());
        }
    }
}

TEST_F(UsersTest, WithoutTheRightOnlyAChangeOfPasswordTellsWhoExists) {
    for (const Identifier& target : {id(0), id(1), id(9), named("admin"), named("nobody")}) {
        EXPECT_EQ(node_.result(O::kDeleteUser, user_body(target), alice_), E::kUnauthorized);
        EXPECT_EQ(node_.result(O::kUpdateUser, rename_user(target, "carol"), alice_),
                  E::kUnauthorized);
        EXPECT_EQ(node_.result(O::kUpdatePermissions, update_permissions(target, {}), alice_),
                  E::kUnauthorized);
    }
    for (const std::string_view name : {"alice", "admin", "free"}) {
        EXPECT_EQ(node_.result(O::kCreateUser, create_user(name), alice_), E::kUnauthorized);
    }
    // wire: no right is needed for oneself, so the target comes first.
    for (const Identifier& target : {id(0), named("admin")}) {
        EXPECT_EQ(node_.result(O::kChangePassword, change_password(target), alice_),
                  E::kUnauthorized);
    }
    for (const Identifier& target : {id(9), named("nobody")}) {
        EXPECT_EQ(node_.result(O::kChangePassword, change_password(target), alice_),
                  E::kResourceNotFound);
    }
    EXPECT_EQ(node_.result(O::kCreateUser, create_user("carol"), admin_), E::kOk);
    EXPECT_EQ(node_.result(O::kDeleteUser, user_body(named("carol")), admin_), E::kOk);
}

TEST_F(UsersTest, CreatedUserHasLowestFreeIdStampAndPermissions) {
    EXPECT_EQ(node_.result(O::kDeleteUser, user_body(id(1))), E::kOk);
    model::Permissions permissions{.global = {.read_servers = true}, .streams = {}};
    permissions.streams[model::StreamId(4)];  // present, with nothing in it
    const ApplyOutcome out = node_.request(O::kCreateUser, create_user("carol", permissions));
    EXPECT_THAT(kinds(out), ElementsAre(ChangeKind::kUserCreated));
    ASSERT_NE(user(1), nullptr);
    EXPECT_EQ(user(1)->name, "carol");
    EXPECT_EQ(user(1)->created_at, node_.now());
    EXPECT_EQ(user(1)->created_op, node_.op());
    EXPECT_EQ(user(1)->password_hash, "hash");
    EXPECT_EQ(user(1)->permissions, permissions);
    EXPECT_EQ(node_.state().find_user_by_name("alice"), nullptr);
}

TEST_F(UsersTest, PermissionsCountFromTheNextOperationOn) {
    EXPECT_EQ(node_.result(O::kCreateStream, create_stream("s"), alice_), E::kUnauthorized);
    const model::Permissions streams{.global = {.manage_streams = true}, .streams = {}};
    EXPECT_EQ(node_.result(O::kUpdatePermissions, update_permissions(id(1), streams), admin_),
              E::kOk);
    EXPECT_EQ(node_.result(O::kCreateStream, create_stream("s"), alice_), E::kOk);
    EXPECT_EQ(node_.result(O::kUpdatePermissions, update_permissions(named("alice"), {})), E::kOk);
    EXPECT_EQ(user(1)->permissions, std::nullopt);
    EXPECT_EQ(node_.result(O::kDeleteStream, stream_body(named("s")), alice_), E::kUnauthorized);
}

TEST_F(UsersTest, RootMayBeRenamedAndDeactivatedButKeepsItsRights) {
    EXPECT_EQ(node_.result(O::kUpdateUser, rename_user(id(0), "boss"), admin_), E::kOk);
    EXPECT_EQ(node_.state().find_user_by_name("boss")->id, model::kRootUserId);
    EXPECT_EQ(node_.state().find_user_by_name("iggy"), nullptr);
    const ApplyOutcome out =
        node_.request(O::kUpdateUser, set_status(id(0), wire::UserStatus::kInactive), admin_);
    EXPECT_THAT(kinds(out), ElementsAre(ChangeKind::kSessionEnded, ChangeKind::kUserUpdated));
    EXPECT_EQ(node_.try_login(root_), E::kInvalidCredentials);
    // What it had on its way and what the server proposes is root's, active or not.
    EXPECT_TRUE(node_.state().allows(model::kRootUserId, model::Rule::kUsersManage));
    EXPECT_EQ(node_.result(O::kCreateStream, create_stream("late"), root_), E::kOk);
    EXPECT_EQ(node_.result(O::kDeleteUser, user_body(id(0)), admin_), E::kCannotDeleteUser);
    EXPECT_EQ(node_.result(O::kUpdatePermissions, update_permissions(id(0), {}), admin_),
              E::kCannotChangePermissions);
    EXPECT_EQ(user(0)->permissions, model::all_permissions());
    EXPECT_EQ(node_.result(O::kUpdateUser, set_status(id(0), wire::UserStatus::kActive), admin_),
              E::kOk);
    EXPECT_EQ(node_.try_login(root_), E::kOk);
}

TEST_F(UsersTest, DeletionAndDeactivationEndSessionsMembershipsAndTokens) {
    const model::Permissions read{.global = {.read_topics = true}, .streams = {}};
    node_.request(O::kUpdatePermissions, update_permissions(id(1), read));
    node_.request(O::kCreateStream, create_stream("s"));
    node_.request(O::kCreateTopic, create_topic(id(0), "t", 1));
    node_.request(O::kCreateConsumerGroup, create_group(id(0), id(0), "g"));
    const Bytes join = group_body(id(0), id(0), id(0));
    EXPECT_EQ(node_.result(O::kJoinConsumerGroup, join, alice_), E::kOk);
    EXPECT_EQ(create_token_as(alice_, "laptop", 1), E::kOk);

    const ApplyOutcome off =
        node_.request(O::kUpdateUser, set_status(id(1), wire::UserStatus::kInactive));
    EXPECT_THAT(kinds(off), ElementsAre(ChangeKind::kGroupChanged, ChangeKind::kSessionEnded,
                                        ChangeKind::kUserUpdated));
    EXPECT_EQ(node_.state().find_group(id(0), id(0), id(0))->assignment.member_count(), 0U);
    EXPECT_EQ(node_.try_login(alice_), E::kInvalidCredentials);
    EXPECT_TRUE(node_.state().find_token(token_hash(1)).has_value()) << "kept for its return";

    node_.request(O::kUpdateUser, set_status(id(1), wire::UserStatus::kActive));
    node_.login(alice_);
    EXPECT_EQ(node_.result(O::kJoinConsumerGroup, join, alice_), E::kOk);
    const ApplyOutcome gone = node_.request(O::kDeleteUser, user_body(named("alice")));
    EXPECT_THAT(kinds(gone), ElementsAre(ChangeKind::kGroupChanged, ChangeKind::kSessionEnded,
                                         ChangeKind::kUserDeleted));
    EXPECT_FALSE(node_.state().find_token(token_hash(1)).has_value());
    EXPECT_EQ(node_.state().sessions().find(alice_.client), nullptr);
}

/// What was on its way when a user was deleted must not act with the rights of the next one that
/// has the same id.
TEST_F(UsersTest, AnIdThatIsUsedAgainInheritsNothing) {
    const SessionId old_session = node_.state().sessions().find(alice_.client)->epoch;
    const Login old_login = login_by_password(*user(1));
    node_.request(O::kDeleteUser, user_body(id(1)));
    node_.request(O::kCreateUser, create_user("mallory", model::all_permissions()));
    ASSERT_EQ(user(1)->name, "mallory");
    const auto late = [&](O operation, const Bytes& body) {
        return late_for_alice(operation, body, old_session);
    };
    EXPECT_EQ(late(O::kCreateStream, create_stream("s")), E::kUnauthorized);
    EXPECT_EQ(late(O::kChangePassword, change_password(id(1))), E::kUnauthorized);
    EXPECT_EQ(late(O::kCreatePersonalAccessToken, create_token("t")), E::kUnauthenticated);
    EXPECT_EQ(late(O::kDeletePersonalAccessToken, delete_token("t")), E::kUnauthenticated);
    EXPECT_EQ(node_.commit(make_register(old_login), alice_).result, E::kInvalidCredentials);
    EXPECT_EQ(node_
                  .commit(make_register({.user = model::UserId(1),
                                         .user_created = old_login.user_created,
                                         .token = token_hash(9)}),
                          alice_)
                  .result,
              E::kInvalidPersonalAccessToken);
    EXPECT_EQ(node_.state().find_user_of_session(model::UserId(1), old_session), nullptr);
    node_.login(alice_);
    const SessionId new_session = node_.state().sessions().find(alice_.client)->epoch;
    EXPECT_EQ(node_.state().find_user_of_session(model::UserId(1), new_session), user(1));
}

/// A login takes tens of milliseconds between the look at the hash and the log.
TEST_F(UsersTest, ALoginThatWasVerifiedAgainstTheOldPasswordIsRefusedAfterTheChange) {
    const Node::Who laptop{.client = client(8), .user = model::UserId(1)};
    EXPECT_EQ(create_token_as(alice_, "laptop", 1), E::kOk);
    const Login late = login_by_password(*user(1));
    // The same password again has another salt.
    EXPECT_EQ(node_.result(O::kChangePassword, change_password(id(1)), alice_,
                           {.password_hash = "salted", .verified_hash = "hash"}),
              E::kOk);
    const ApplyOutcome refused = node_.commit(make_register(late), laptop);
    EXPECT_EQ(refused.result, E::kInvalidCredentials);
    EXPECT_THAT(refused.changes, IsEmpty());
    EXPECT_EQ(node_.state().sessions().find(laptop.client), nullptr);
    EXPECT_EQ(node_.try_login(laptop), E::kOk);
    EXPECT_EQ(node_.try_login(laptop, token_hash(1)), E::kOk) << "tokens are not passwords";
}

TEST_F(UsersTest, WhatADeactivatedUserHadOnItsWayIsRefused) {
    const SessionId session = node_.state().sessions().find(alice_.client)->epoch;
    node_.request(O::kUpdatePermissions, update_permissions(id(1), model::all_permissions()));
    EXPECT_EQ(node_.state().find_user_of_session(model::UserId(1), session), user(1));
    node_.request(O::kUpdateUser, set_status(id(1), wire::UserStatus::kInactive));
    EXPECT_EQ(node_.state().find_user_of_session(model::UserId(1), session), nullptr);
    const auto late = [&](O operation, const Bytes& body) {
        return late_for_alice(operation, body, session);
    };
    EXPECT_EQ(late(O::kCreateStream, create_stream("s")), E::kUnauthorized);
    EXPECT_EQ(late(O::kChangePassword, change_password(id(1))), E::kUnauthorized);
    EXPECT_EQ(late(O::kCreatePersonalAccessToken, create_token("t")), E::kUnauthenticated);
    EXPECT_EQ(user(1)->password_hash, "hash");
}

/// wire: permissions name ids. They stay when what they name is deleted, and count for what has the
/// id next.
TEST_F(UsersTest, PermissionsNameIdsAndOutliveWhatTheyName) {
    model::Permissions reader;
    reader.streams[model::StreamId(0)].read_stream = true;
    reader.streams[model::StreamId(1)].manage_stream = true;
    EXPECT_EQ(node_.result(O::kUpdatePermissions, update_permissions(id(1), reader)), E::kOk)
        << "before there is a stream";
    EXPECT_EQ(node_.result(O::kCreateStream, create_stream("s")), E::kOk);
    const auto may = [&](model::Rule rule, std::uint32_t stream) {
        return node_.state().allows(model::UserId(1), rule, model::StreamId(stream));
    };
    EXPECT_TRUE(may(model::Rule::kStreamRead, 0));
    EXPECT_EQ(node_.result(O::kDeleteStream, stream_body(id(0)), alice_), E::kUnauthorized);
    EXPECT_EQ(node_.result(O::kDeleteStream, stream_body(id(0))), E::kOk);
    EXPECT_EQ(user(1)->permissions, reader);
    EXPECT_EQ(node_.result(O::kCreateStream, create_stream("another")), E::kOk);
    EXPECT_TRUE(may(model::Rule::kStreamRead, 0));
    EXPECT_EQ(node_.result(O::kCreateStream, create_stream("hers")), E::kOk);
    EXPECT_EQ(node_.result(O::kDeleteStream, stream_body(named("another")), alice_),
              E::kUnauthorized);
    EXPECT_EQ(node_.result(O::kDeleteStream, stream_body(named("hers")), alice_), E::kOk);
}

TEST_F(UsersTest, PasswordChangesAgainstTheOneThatWasVerified) {
    const Sealed good{.password_hash = "new", .verified_hash = "hash"};
    EXPECT_EQ(node_.result(O::kChangePassword, change_password(id(1)), alice_,
                           {.password_hash = "", .verified_hash = "hash"}),
              E::kInvalidCredentials)
        << "the current one was wrong";
    EXPECT_EQ(user(1)->password_hash, "hash");
    EXPECT_EQ(node_.result(O::kChangePassword, change_password(id(1)), alice_, good), E::kOk)
        << "one's own needs no right";
    EXPECT_EQ(user(1)->password_hash, "new");
    EXPECT_EQ(node_.result(O::kChangePassword, change_password(id(1)), admin_, good),
              E::kInvalidCredentials)
        << "verified against what it was before";
    EXPECT_EQ(node_.result(O::kChangePassword, change_password(named("alice")), admin_,
                           {.password_hash = "newer", .verified_hash = "new"}),
              E::kOk);
    EXPECT_EQ(node_.state().sessions().find(alice_.client), nullptr) << "somebody else changed it";
}

TEST_F(UsersTest, AChangedPasswordEndsAllSessionsOfTheUserButTheOneThatAsked) {
    const Node::Who laptop{.client = client(8), .user = model::UserId(1)};
    node_.login(laptop);
    EXPECT_EQ(node_.result(O::kChangePassword, change_password(id(1)), laptop,
                           {.password_hash = "", .verified_hash = "hash"}),
              E::kInvalidCredentials);
    EXPECT_EQ(node_.state().sessions().size(), 4U) << "a refusal ends nothing";

    const ApplyOutcome own = node_.request(O::kChangePassword, change_password(id(1)), laptop,
                                           {.password_hash = "new", .verified_hash = "hash"});
    EXPECT_THAT(kinds(own), ElementsAre(ChangeKind::kSessionEnded, ChangeKind::kUserUpdated));
    EXPECT_EQ(own.changes[0].client, alice_.client);
    const Session* kept = node_.state().sessions().find(laptop.client);
    ASSERT_NE(kept, nullptr);
    EXPECT_EQ(node_.table()
                  .classify(laptop.client, kept->epoch, RequestNumber(node_.op().value()),
                            LogOperation::kChangePassword, 0)
                  .verdict,
              ClientTable::Verdict::kReplay)
        << "the answer can be asked for again";

    node_.login(alice_);
    const ApplyOutcome others = node_.request(O::kChangePassword, change_password(id(1)), admin_,
                                              {.password_hash = "newer", .verified_hash = "new"});
    EXPECT_THAT(kinds(others), ElementsAre(ChangeKind::kSessionEnded, ChangeKind::kSessionEnded,
                                           ChangeKind::kUserUpdated));
    EXPECT_THAT(node_.state().sessions().clients_of(model::UserId(1)), IsEmpty());
    EXPECT_NE(node_.state().sessions().find(admin_.client), nullptr);
    EXPECT_NE(node_.state().sessions().find(root_.client), nullptr);
}

TEST_F(UsersTest, TokensAreNamedOnceAUserAndFoundByHash) {
    EXPECT_EQ(create_token_as(alice_, "laptop", 1), E::kOk);
    EXPECT_EQ(create_token_as(alice_, "laptop", 2), E::kPersonalAccessTokenAlreadyExists);
    EXPECT_EQ(create_token_as(alice_, "other", 1), E::kPersonalAccessTokenAlreadyExists)
        << "a hash names one token";
    EXPECT_EQ(create_token_as(admin_, "laptop", 3), E::kOk) << "names are per user";
    const std::optional<TokenRow> row = node_.state().find_token(token_hash(3));
    ASSERT_TRUE(row.has_value());
    EXPECT_EQ(row->user.name, "admin");
    EXPECT_EQ(row->name, "laptop");
    EXPECT_FALSE(node_.state().find_token(token_hash(2)).has_value());
    EXPECT_EQ(node_.result(O::kDeletePersonalAccessToken, delete_token("laptop"), alice_), E::kOk);
    EXPECT_FALSE(node_.state().find_token(token_hash(1)).has_value());
    EXPECT_TRUE(node_.state().find_token(token_hash(3)).has_value());
    EXPECT_EQ(create_token_as(alice_, "laptop", 4), E::kOk) << "the name is free again";
}

TEST_F(UsersTest, TokensOfAUserAreBoundedInLogOrder) {
    for (std::uint32_t i = 0; i < Node::kTokensPerUserMax; ++i) {
        EXPECT_EQ(create_token_as(alice_, "token " + std::to_string(i), i), E::kOk);
    }
    // Admitted while there was room for one more: both were on their way.
    const Admitted early = admitted_token("one more", 77);
    EXPECT_EQ(node_.commit(early, alice_).result, E::kPersonalAccessTokensLimitReached);
    EXPECT_EQ(create_token_as(alice_, "token 0", 8), E::kPersonalAccessTokensLimitReached)
        << "wire: the limit comes before the name";
    EXPECT_THAT(user(1)->tokens, SizeIs(Node::kTokensPerUserMax));
    EXPECT_EQ(create_token_as(admin_, "mine", 9), E::kOk);
}

TEST_F(UsersTest, ExpiredTokensDoNotCountAtTheBound) {
    create_token_as(alice_, "first", 1, 10'000);
    create_token_as(alice_, "second", 2, 10'000);
    create_token_as(alice_, "stays", 3);
    EXPECT_EQ(create_token_as(alice_, "first", 4), E::kPersonalAccessTokensLimitReached);
    node_.advance_clock(100'000);
    EXPECT_EQ(create_token_as(alice_, "endless", 4, kForever - 1),
              E::kInvalidPersonalAccessTokenExpiry);
    EXPECT_THAT(user(1)->tokens, SizeIs(3)) << "a refusal removes nothing";
    EXPECT_EQ(create_token_as(alice_, "first", 4), E::kOk) << "the name of an expired one";
    EXPECT_THAT(user(1)->tokens, SizeIs(2)) << "the other one made room too";
    EXPECT_EQ(create_token_as(alice_, "another", 5), E::kOk);
    EXPECT_EQ(create_token_as(alice_, "one more", 6), E::kPersonalAccessTokensLimitReached);
    EXPECT_FALSE(node_.state().find_token(token_hash(1)).has_value());
    EXPECT_TRUE(node_.state().find_token(token_hash(4)).has_value());
}

TEST_F(UsersTest, ExpiryCountsFromTheStampOfTheOperation) {
    EXPECT_EQ(create_token_as(alice_, "never", 1, kForever), E::kOk);
    EXPECT_EQ(create_token_as(alice_, "default", 2, 0), E::kOk);
    EXPECT_EQ(create_token_as(alice_, "short", 3, 5000), E::kOk);
    EXPECT_EQ(user(1)->tokens.find("never")->second.expiry_at, std::nullopt);
    EXPECT_EQ(user(1)->tokens.find("default")->second.expiry_at, std::nullopt);
    EXPECT_EQ(user(1)->tokens.find("short")->second.expiry_at, node_.now().plus(5000));
    EXPECT_EQ(create_token_as(admin_, "endless", 4, kForever - 1),
              E::kInvalidPersonalAccessTokenExpiry);
}

TEST_F(UsersTest, ExpiredTokensAreRemovedOldestFirstAndAreInNobodysWay) {
    create_token_as(admin_, "first", 1, 10'000);
    create_token_as(alice_, "second", 2, 11'000);
    create_token_as(alice_, "stays", 3);
    EXPECT_FALSE(node_.state().has_expired_tokens(node_.now()));
    EXPECT_THAT(node_.commit(make_expire_tokens(9), {}).changes, IsEmpty());
    node_.advance_clock(100'000);
    EXPECT_TRUE(node_.state().has_expired_tokens(node_.now()));
    // Its name is free although nobody has removed it; the bound does not count it twice.
    EXPECT_EQ(create_token_as(alice_, "second", 4, 1'000'000), E::kOk);
    EXPECT_FALSE(node_.state().find_token(token_hash(2)).has_value());
    EXPECT_THAT(node_.commit(make_expire_tokens(1), {}).changes, SizeIs(1));
    EXPECT_FALSE(node_.state().find_token(token_hash(1)).has_value());
    EXPECT_FALSE(node_.state().has_expired_tokens(node_.now()));
    EXPECT_THAT(user(1)->tokens, SizeIs(2));
    node_.advance_clock(2'000'000);
    EXPECT_THAT(node_.commit(make_expire_tokens(0), {}).changes, IsEmpty());
    EXPECT_THAT(node_.commit(make_expire_tokens(5), {}).changes, SizeIs(1));
}

TEST_F(UsersTest, LoginByTokenHoldsWhenItIsLoggedNotWhenItWasLookedUp) {
    create_token_as(alice_, "laptop", 1, 10'000);
    const Node::Who again{.client = client(8), .user = model::UserId(1)};
    EXPECT_EQ(node_.try_login(again, token_hash(1)), E::kOk);
    EXPECT_EQ(node_.try_login(again, token_hash(2)), E::kInvalidPersonalAccessToken) << "unknown";
    EXPECT_EQ(node_.try_login(admin_, token_hash(1)), E::kInvalidPersonalAccessToken)
        << "another's";
    node_.advance_clock(10'000);
    EXPECT_EQ(node_.try_login(again, token_hash(1)), E::kInvalidPersonalAccessToken) << "expired";
    EXPECT_NE(node_.state().sessions().find(again.client), nullptr)
        << "a refused login leaves the session alone";
}

TEST_F(UsersTest, NobodyTakesTheClientIdOfAnotherUser) {
    EXPECT_EQ(node_.try_login({.client = alice_.client, .user = model::UserId(2)}),
              E::kUnauthenticated);
    EXPECT_EQ(node_.state().sessions().find(alice_.client)->user, model::UserId(1));
    node_.commit(make_logout(), alice_);
    EXPECT_EQ(node_.try_login({.client = alice_.client, .user = model::UserId(2)}), E::kOk);
}

/// There was no bit for a password, and before that no more than the user.
TEST_F(UsersTest, RegisterOfAnOlderLogHasNoPassword) {
    ByteWriter body;
    body.put<std::uint32_t>(1);
    body.put<std::uint64_t>(user(1)->created_op.value());
    const auto with_flags = [&](std::uint8_t flags) {
        ByteWriter whole = body;
        whole.put<std::uint8_t>(flags);
        return Admitted{.operation = LogOperation::kRegister, .body = std::move(whole).take()};
    };
    const Node::Who other{.client = client(7), .user = model::UserId(1)};
    EXPECT_EQ(node_.commit(with_flags(4), other).result, E::kInvalidCommand);
    EXPECT_EQ(node_.commit(with_flags(2), other).result, E::kInvalidCommand) << "cut";
    EXPECT_EQ(node_.commit(with_flags(0), other).result, E::kOk);
}

TEST_F(UsersTest, RegisterOfTheOldestLogNamesTheUserAlone) {
    ByteWriter body;
    body.put<std::uint32_t>(1);
    EXPECT_EQ(node_
                  .commit({.operation = LogOperation::kRegister, .body = std::move(body).take()},
                          {.client = client(9), .user = model::UserId(1)})
                  .result,
              E::kOk);
    EXPECT_EQ(node_.state().sessions().find(client(9))->user, model::UserId(1));
}

/// wire: nobody can be shown a token twice; the repetition is told that it exists.
TEST_F(UsersTest, RepeatedCreationOfATokenIsRefusedAndARepeatedRefusalIsRepeated) {
    const auto replay = [&](LogOperation operation) {
        const Session session = *node_.state().sessions().find(alice_.client);
        const ClientTable::Classification known = node_.table().classify(
            alice_.client, session.epoch, RequestNumber(node_.op().value()), operation, 0);
        EXPECT_EQ(known.verdict, ClientTable::Verdict::kReplay);
        return std::vector<std::byte>(known.reply.begin(), known.reply.end());
    };
    const auto exists = wire::rejection_body(E::kPersonalAccessTokenAlreadyExists);
    EXPECT_EQ(create_token_as(alice_, "laptop", 1), E::kOk);
    EXPECT_TRUE(std::ranges::equal(replay(LogOperation::kCreatePersonalAccessToken), exists));
    EXPECT_EQ(node_.result(O::kDeletePersonalAccessToken, delete_token("laptop"), alice_), E::kOk);
    EXPECT_EQ(as_text(replay(LogOperation::kDeletePersonalAccessToken)), "reply")
        << "other replies are kept as they were";
}

TEST_F(UsersTest, BodiesOfAForeignLogAreRefusedWithoutATrace) {
    for (const LogOperation operation :
         {LogOperation::kCreateUser, LogOperation::kUpdateUser, LogOperation::kDeleteUser,
          LogOperation::kChangePassword, LogOperation::kUpdatePermissions,
          LogOperation::kCreatePersonalAccessToken, LogOperation::kDeletePersonalAccessToken,
          LogOperation::kExpireTokens, LogOperation::kRegister}) {
        for (std::size_t size = 0; size < 3; ++size) {
            const ApplyOutcome out = node_.commit(
                {.operation = operation, .body = std::vector<std::byte>(size, std::byte{0xFF})},
                root_);
            EXPECT_EQ(out.result, E::kInvalidCommand) << static_cast<int>(operation);
            EXPECT_THAT(out.changes, IsEmpty());
        }
    }
}

TEST(ReplyBody, FramesResultsAndPayloads) {
    const ApplyOutcome done{.payload = {std::byte{7}}};
    EXPECT_THAT(reply_body(LogOperation::kCreateStream, done),
                ElementsAre(std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{7}));
    EXPECT_THAT(reply_body(LogOperation::kLogout, ApplyOutcome{}), IsEmpty());
    const ApplyOutcome refused{.result = E::kUserAlreadyExists};
    EXPECT_TRUE(std::ranges::equal(reply_body(LogOperation::kCreateUser, refused),
                                   wire::rejection_body(E::kUserAlreadyExists)));
}

}  // namespace
}  // namespace galgo::metadata::test

#include "shard/session.hpp"

#include <gtest/gtest.h>

#include "metadata/apply.hpp"
#include "metadata/operation.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {
namespace {

constexpr ClientId kClient{7};
constexpr model::UserId kUser{1};

void start(metadata::Sessions& table, ClientId client, SessionId epoch) {
    table.start(client, {.epoch = epoch, .user = kUser, .last_commit = OpNumber{epoch.value()}});
}

TEST(SessionIndex, BindsThePublishedSession) {
    metadata::Sessions published(4);
    SessionIndex index;
    Session session;
    start(published, kClient, SessionId{10});
    ASSERT_TRUE(index.bind(session, kClient, SessionId{10}, kUser, published));
    EXPECT_TRUE(session.bound);
    EXPECT_TRUE(session.authenticated);
    EXPECT_EQ(session.epoch, SessionId{10});
    index.end(kClient, SessionId{9});
    EXPECT_TRUE(session.bound) << "an older one ended";
    index.end(kClient, SessionId{10});
    EXPECT_FALSE(session.bound);
    EXPECT_FALSE(session.authenticated);
}

// Two connections log in with one client id: the word that the first session ended is there before
// its answer.
TEST(SessionIndex, ASessionThatEndedBeforeItsAnswerIsNotBound) {
    metadata::Sessions published(4);
    SessionIndex index;
    Session first;
    Session second;
    start(published, kClient, SessionId{10});
    published.end(kClient);
    start(published, kClient, SessionId{11});
    index.end(kClient, SessionId{10});
    EXPECT_FALSE(index.bind(first, kClient, SessionId{10}, kUser, published));
    EXPECT_FALSE(first.bound);
    EXPECT_FALSE(first.authenticated);
    EXPECT_TRUE(index.bind(second, kClient, SessionId{11}, kUser, published));
    EXPECT_FALSE(index.bind(first, kClient, SessionId{10}, kUser, published));
    EXPECT_TRUE(second.bound);
    index.end(kClient, SessionId{11});
    EXPECT_FALSE(second.bound) << "the other one did not take its place";
}

// The table was full and pushed it out.
TEST(SessionIndex, ASessionThatWasPushedOutIsNotBound) {
    metadata::Sessions published(4);
    SessionIndex index;
    Session session;
    EXPECT_FALSE(index.bind(session, kClient, SessionId{10}, kUser, published));
    EXPECT_FALSE(session.bound);
}

/// A state with root (user 0), which is what a shard has published.
class SessionRefreshTest : public testing::Test {
 protected:
    SessionRefreshTest() { apply(metadata::make_create_root("iggy", "hash")); }

    metadata::ApplyOutcome apply(const metadata::Admitted& admitted, ClientId client = {},
                                 SessionId session = {}) {
        return metadata::apply(published_, registry_,
                               {.operation = admitted.operation,
                                .op = published_.op().next(),
                                .timestamp = Timestamp(1000),
                                .client = client,
                                .session = session,
                                .user = model::kRootUserId,
                                .body = admitted.body});
    }
    SessionId login(ClientId client) {
        apply(metadata::make_register(
                  metadata::login_by_password(*published_.users().find(model::kRootUserId))),
              client);
        return published_.sessions().find(client)->epoch;
    }
    void bind(Session& session, ClientId client) {
        ASSERT_TRUE(
            index_.bind(session, client, login(client), model::kRootUserId, published_.sessions()));
    }
    void refresh(Session& session) { index_.refresh(session, published_); }

    metadata::PartitionStatsRegistry registry_;
    metadata::State published_;
    SessionIndex index_;
};

TEST_F(SessionRefreshTest, WhatIsPublishedKeepsItsBinding) {
    Session session;
    refresh(session);
    EXPECT_FALSE(session.bound) << "nobody logged in";
    bind(session, kClient);
    login(ClientId{8});
    refresh(session);
    refresh(session);
    EXPECT_TRUE(session.bound);
}

// The word of the end (SessionEnded) is not there yet.
TEST_F(SessionRefreshTest, AnEndedSessionIsUnboundBeforeTheWordOfIt) {
    Session session;
    bind(session, kClient);
    refresh(session);
    apply(metadata::make_logout(), kClient, session.epoch);
    refresh(session);
    EXPECT_FALSE(session.bound);
    EXPECT_FALSE(session.authenticated);
    EXPECT_EQ(session.user, model::kNoUserId);
}

TEST_F(SessionRefreshTest, ALaterLoginOfTheSameClientUnbindsTheFirst) {
    Session first;
    bind(first, kClient);
    login(kClient);
    refresh(first);
    EXPECT_FALSE(first.bound);
}

TEST_F(SessionRefreshTest, AChangedPasswordUnbindsTheOtherConnectionsOfTheUser) {
    Session asking;
    Session other;
    bind(asking, kClient);
    bind(other, ClientId{8});
    ByteWriter body;
    wire::ChangePasswordRequest{.user = wire::Identifier::numbered(0),
                                .current_password = "password",
                                .new_password = "another"}
        .encode(body);
    const metadata::Sealed sealed{.password_hash = "new", .verified_hash = "hash"};
    const Result<metadata::Admitted> change =
        metadata::admit(published_, {.operation = wire::Operation::kChangePassword,
                                     .body = body.bytes(),
                                     .user = model::kRootUserId,
                                     .sealed = &sealed});
    ASSERT_TRUE(change.has_value());
    EXPECT_EQ(apply(*change, kClient, asking.epoch).result, ErrorCode::kOk);
    refresh(asking);
    refresh(other);
    EXPECT_TRUE(asking.bound);
    EXPECT_FALSE(other.bound);
}

}  // namespace
}  // namespace galgo::shard

#include "shard/session.hpp"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace galgo::shard

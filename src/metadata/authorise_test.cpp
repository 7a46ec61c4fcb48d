#include "metadata/authorise.hpp"

#include "gmock/gmock.h"
#include "test_node.hpp"
#include "wire/command_table.hpp"

namespace galgo::metadata::test {
namespace {

using C = wire::CommandCode;
using O = Operation;
using E = ErrorCode;

class AuthoriseTest : public testing::Test {
 protected:
    AuthoriseTest() {
        node_.login({});
        model::Permissions some;
        some.streams[model::StreamId(1)].topics[model::TopicId(2)].poll_messages = true;
        node_.request(O::kCreateUser, create_user("poller", some));
        node_.request(O::kCreateUser, create_user("nothing"));
        model::Permissions all = model::all_permissions();
        node_.request(O::kCreateUser, create_user("retired", all, wire::UserStatus::kInactive));
    }
    E answer(std::uint32_t user, C command, const Target& target = {}) {
        const Status status = authorise(node_.state(), model::UserId(user), command, target);
        return status.has_value() ? E::kOk : status.error().code;
    }

    Node node_;
};

TEST_F(AuthoriseTest, EveryCommandFollowsItsRow) {
    for (const wire::CommandRow& row : wire::kCommandTable) {
        SCOPED_TRACE(row.name);
        EXPECT_EQ(answer(0, row.code), E::kOk) << "root";
        const bool free = row.access == wire::Access::kAnyone;
        const bool open = free || row.access == wire::Access::kAuthenticated;
        EXPECT_EQ(answer(2, row.code), open ? E::kOk : E::kUnauthorized);
        EXPECT_EQ(answer(3, row.code), free ? E::kOk : E::kUnauthenticated) << "inactive";
        EXPECT_EQ(answer(77, row.code), free ? E::kOk : E::kUnauthenticated) << "unknown";
        EXPECT_EQ(answer(model::kNoUserId.value(), row.code), free ? E::kOk : E::kUnauthenticated);
        if (row.operation != O::kNonReplicated && row.operation != O::kRegister) {
            const Status by_operation = authorise(node_.state(), model::UserId(2), row.operation);
            EXPECT_EQ(by_operation.has_value(), open);
        }
    }
    EXPECT_EQ(answer(0, C{999}), E::kInvalidCommand);
    EXPECT_FALSE(authorise(node_.state(), model::kRootUserId, O::kNonReplicated).has_value());
}

TEST_F(AuthoriseTest, RightsReachAsFarAsTheirTarget) {
    const Target here{.stream = model::StreamId(1), .topic = model::TopicId(2)};
    const Target there{.stream = model::StreamId(1), .topic = model::TopicId(3)};
    EXPECT_EQ(answer(1, C::kPollMessages, here), E::kOk);
    EXPECT_EQ(answer(1, C::kGetConsumerOffset, here), E::kOk);
    EXPECT_EQ(answer(1, C::kPollMessages, there), E::kUnauthorized);
    EXPECT_EQ(answer(1, C::kSendMessages, here), E::kUnauthorized);
    EXPECT_EQ(answer(1, C::kGetTopic, here), E::kUnauthorized);
}

TEST_F(AuthoriseTest, OneselfNeedsNoRight) {
    EXPECT_EQ(answer(2, C::kGetUser, {.user = model::UserId(2)}), E::kOk);
    EXPECT_EQ(answer(2, C::kChangePassword, {.user = model::UserId(2)}), E::kOk);
    EXPECT_EQ(answer(2, C::kGetUser, {.user = model::UserId(1)}), E::kUnauthorized);
    EXPECT_EQ(answer(2, C::kUpdateUser, {.user = model::UserId(2)}), E::kUnauthorized);
}

}  // namespace
}  // namespace galgo::metadata::test

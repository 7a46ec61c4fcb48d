// The check order of repeated requests, the ring of replies, and its bounds; sessions and slots
// beside it.
#include "metadata/client_table.hpp"

#include <iterator>
#include <map>
#include <random>
#include <ranges>
#include <string>

#include "gtest/gtest.h"
#include "metadata/sessions.hpp"
#include "metadata/slot_table.hpp"

namespace galgo::metadata {
namespace {

using Verdict = ClientTable::Verdict;

constexpr ClientId kClient{u128{7}};
constexpr SessionId kEpoch{10};
constexpr model::UserId kUser{0};
constexpr auto kCreate = LogOperation::kCreateStream;
constexpr auto kDelete = LogOperation::kDeleteStream;

RequestNumber number(std::uint64_t value) {
    return RequestNumber(value);
}

class ClientTableTest : public testing::Test {
 protected:
    ClientTableTest() { table_.start_session(kClient, kEpoch, kUser); }

    Verdict verdict(std::uint64_t request, u128 checksum = 0,
                    LogOperation operation = kCreate) const {
        return table_.classify(kClient, kEpoch, number(request), operation, checksum).verdict;
    }
    std::string replay(std::uint64_t request) const {
        return std::string(
            as_text(table_.classify(kClient, kEpoch, number(request), kCreate, 0).reply));
    }
    void record(std::uint64_t request, std::string_view reply, u128 checksum = 0) {
        ++op_;
        table_.record(kClient, kEpoch, number(request), kCreate, checksum, OpNumber(op_),
                      as_bytes(reply));
    }

    ClientTable table_{100};
    std::uint64_t op_ = kEpoch.value();
};

TEST_F(ClientTableTest, SessionIsCheckedFirst) {
    EXPECT_EQ(table_.classify(ClientId(u128{8}), kEpoch, number(1), kCreate, 0).verdict,
              Verdict::kNoSession);
    EXPECT_EQ(table_.classify(kClient, SessionId(9), number(1), kCreate, 0).verdict,
              Verdict::kSessionTooLow);
    EXPECT_EQ(table_.classify(kClient, SessionId(11), number(1), kCreate, 0).verdict,
              Verdict::kDrop);
    EXPECT_EQ(table_.classify(kClient, kEpoch, number(1), kCreate, 0).verdict, Verdict::kExecute);
}

TEST_F(ClientTableTest, GapsAreFineAndRepetitionsReplayTheSameBytes) {
    record(3, "three");
    record(9, "nine");
    EXPECT_EQ(verdict(10), Verdict::kExecute);
    EXPECT_EQ(verdict(9), Verdict::kReplay);
    EXPECT_EQ(replay(9), "nine");
    EXPECT_EQ(replay(3), "three");
    EXPECT_EQ(table_.classify(kClient, kEpoch, number(3), kCreate, 0).op, OpNumber(11));
    EXPECT_EQ(table_.classify(kClient, kEpoch, number(9), kCreate, 0).op, OpNumber(12));
    EXPECT_EQ(verdict(5), Verdict::kApplied) << "below the watermark, never seen as metadata";
}

TEST_F(ClientTableTest, OtherStampsUnderAKnownNumberAreDropped) {
    record(1, "one", 111);
    record(2, "two", 222);
    EXPECT_EQ(verdict(2, 222), Verdict::kReplay);
    EXPECT_EQ(verdict(2, 223), Verdict::kDrop);
    EXPECT_EQ(verdict(1, 112), Verdict::kDrop);
    EXPECT_EQ(verdict(2, 0), Verdict::kReplay) << "unstamped";
}

// Requests with a password in them are kept without a stamp.
TEST_F(ClientTableTest, AnotherOperationUnderAKnownNumberIsDroppedStampedOrNot) {
    record(1, "one");
    record(2, "two", 222);
    for (const std::uint64_t request : {std::uint64_t{1}, std::uint64_t{2}}) {
        for (const u128 checksum : {u128{0}, u128{222}}) {
            EXPECT_EQ(verdict(request, checksum, kCreate), Verdict::kReplay);
            EXPECT_EQ(verdict(request, checksum, kDelete), Verdict::kDrop);
        }
    }
    EXPECT_EQ(verdict(3, 0, kDelete), Verdict::kExecute);
    record(3, std::string(101, 'x'));
    EXPECT_EQ(verdict(3, 0, kCreate), Verdict::kApplied);
    EXPECT_EQ(verdict(3, 0, kDelete), Verdict::kDrop) << "the watermark knows it without a reply";
}

TEST_F(ClientTableTest, RingKeepsFiveReplies) {
    for (std::uint64_t i = 1; i <= 6; ++i) {
        record(i, "x");
    }
    EXPECT_EQ(verdict(1), Verdict::kApplied);
    for (std::uint64_t i = 2; i <= 6; ++i) {
        EXPECT_EQ(verdict(i), Verdict::kReplay) << i;
    }
    EXPECT_EQ(table_.reply_bytes(), 5U);
}

TEST_F(ClientTableTest, AllRepliesTogetherStayInTheirBudget) {
    constexpr ClientId kOther{u128{8}};
    table_.start_session(kOther, SessionId(11), kUser);
    record(1, std::string(60, 'a'));
    table_.record(kOther, SessionId(11), number(1), kCreate, 0, OpNumber(++op_),
                  as_bytes(std::string(30, 'b')));
    EXPECT_EQ(table_.reply_bytes(), 90U);
    table_.record(kOther, SessionId(11), number(2), kCreate, 0, OpNumber(++op_),
                  as_bytes(std::string(30, 'c')));
    EXPECT_EQ(table_.reply_bytes(), 60U);
    EXPECT_EQ(verdict(1), Verdict::kApplied) << "the oldest of all went, whoever's it was";
    EXPECT_EQ(table_.classify(kOther, SessionId(11), number(1), kCreate, 0).verdict,
              Verdict::kReplay);
    record(2, std::string(101, 'd'));
    EXPECT_EQ(table_.reply_bytes(), 0U) << "larger than the whole budget: not kept";
    EXPECT_EQ(verdict(2), Verdict::kApplied);
    EXPECT_EQ(verdict(3), Verdict::kExecute);
}

TEST_F(ClientTableTest, EndedAndRenewedSessionsForget) {
    record(1, "one");
    table_.start_session(kClient, SessionId(20), kUser);
    EXPECT_EQ(verdict(1), Verdict::kSessionTooLow);
    EXPECT_EQ(table_.classify(kClient, SessionId(20), number(1), kCreate, 0).verdict,
              Verdict::kExecute);
    EXPECT_EQ(table_.reply_bytes(), 0U);
    record(2, "for the old epoch");
    EXPECT_EQ(table_.classify(kClient, SessionId(20), number(2), kCreate, 0).verdict,
              Verdict::kExecute);
    table_.end_session(kClient);
    table_.end_session(kClient);
    EXPECT_EQ(table_.client_count(), 0U);
    EXPECT_EQ(verdict(1), Verdict::kNoSession);
    record(3, "nobody");
    EXPECT_EQ(table_.client_count(), 0U);
}

TEST(Sessions, TheOneThatCommittedLongestAgoGoesFirst) {
    Sessions sessions(2);
    const ClientId a(u128{1});
    const ClientId b(u128{2});
    sessions.start(a, {.epoch = SessionId(1), .user = kUser, .last_commit = OpNumber(1)});
    EXPECT_FALSE(sessions.next_evicted().has_value());
    sessions.start(b, {.epoch = SessionId(2), .user = kUser, .last_commit = OpNumber(2)});
    EXPECT_EQ(sessions.next_evicted(), a);
    sessions.touch(a, OpNumber(3));
    sessions.touch(ClientId(u128{9}), OpNumber(4));
    EXPECT_EQ(sessions.next_evicted(), b);
    sessions.end(b);
    EXPECT_FALSE(sessions.next_evicted().has_value());
    EXPECT_EQ(sessions.find(b), nullptr);
    EXPECT_EQ(sessions.find(a)->last_commit, OpNumber(3));
}

struct Row {
    model::StreamId id;
    int value = 0;
};

TEST(SlotTable, LowestFreeIdIsUsedAgain) {
    SlotTable<model::StreamId, Row> table;
    const auto add = [&](int value) {
        return table.insert(Row{.id = table.vacant_id(), .value = value}).id.value();
    };
    EXPECT_EQ(add(10), 0U);
    EXPECT_EQ(add(11), 1U);
    EXPECT_EQ(add(12), 2U);
    EXPECT_EQ(add(13), 3U);
    table.erase(model::StreamId(2));
    table.erase(model::StreamId(1));
    EXPECT_EQ(table.size(), 2U);
    EXPECT_EQ(table.find(model::StreamId(1)), nullptr);
    EXPECT_EQ(table.find(model::StreamId(99)), nullptr);
    EXPECT_EQ(add(21), 1U);
    EXPECT_EQ(add(22), 2U);
    EXPECT_EQ(add(24), 4U);
    std::vector<int> values;
    for (const Row& row : table.rows()) {
        values.push_back(row.value);
    }
    EXPECT_EQ(values, (std::vector<int>{10, 21, 22, 13, 24}));
}

TEST(SlotTable, ShrinksAtTheEndAndRestoresWithHoles) {
    SlotTable<model::StreamId, Row> table;
    table.restore(Row{.id = model::StreamId(3), .value = 3});
    EXPECT_EQ(table.size(), 1U);
    EXPECT_EQ(table.vacant_id(), model::StreamId(0));
    table.erase(model::StreamId(3));
    EXPECT_TRUE(table.empty());
    EXPECT_EQ(table.end_id(), model::StreamId(0));
    EXPECT_EQ(table.vacant_id(), model::StreamId(0));
}

TEST(SlotTable, RandomCallsFollowAMap) {
    std::mt19937 random(7);
    SlotTable<model::StreamId, Row> table;
    std::map<std::uint32_t, int> model;
    for (int i = 0; i < 20'000; ++i) {
        std::uint32_t vacant = 0;
        while (model.contains(vacant)) {
            ++vacant;
        }
        ASSERT_EQ(table.vacant_id().value(), vacant);
        ASSERT_EQ(table.size(), model.size());
        const std::uint32_t end = model.empty() ? 0 : model.rbegin()->first + 1;
        ASSERT_EQ(table.end_id().value(), end);
        const std::uint32_t kind = random() % 16;
        if (kind == 0) {
            const std::uint32_t at = end + random() % 40;
            table.restore(Row{.id = model::StreamId(at), .value = i});
            model[at] = i;
        } else if (kind < 8 || model.empty()) {
            table.insert(Row{.id = table.vacant_id(), .value = i});
            model[vacant] = i;
        } else {
            const auto victim =
                std::next(model.begin(), static_cast<std::ptrdiff_t>(random() % model.size()));
            table.erase(model::StreamId(victim->first));
            model.erase(victim);
        }
        if (i % 50 == 0) {
            std::map<std::uint32_t, int> seen;
            for (const Row& row : table.rows()) {
                ASSERT_TRUE(seen.empty() || seen.rbegin()->first < row.id.value());
                seen[row.id.value()] = row.value;
            }
            ASSERT_EQ(seen, model);
        }
    }
}

TEST(SlotTable, AHighIdIsCheap) {
    SlotTable<model::StreamId, Row> table;
    table.restore(Row{.id = model::StreamId(model::kStreamCountMax - 1), .value = 1});
    EXPECT_EQ(std::ranges::distance(table.rows()), 1);
    EXPECT_EQ(table.insert(Row{.id = model::StreamId(0), .value = 2}).value, 2);
    table.erase(model::StreamId(model::kStreamCountMax - 1));
    EXPECT_EQ(table.end_id(), model::StreamId(1));
}

}  // namespace
}  // namespace galgo::metadata

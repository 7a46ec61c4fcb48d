#include "partitions/retry_table.hpp"

#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "coro/ready_queue.hpp"

namespace galgo::partitions {
namespace {

using Found = RetryTable::Found;

RetryTable::Send send_of(std::uint64_t request, std::uint64_t checksum = 7,
                         std::uint64_t session = 3, std::uint64_t partition = 1) {
    return {.partition = PartitionKey{partition},
            .incarnation = Incarnation{1},
            .producer = {.session = SessionId{session}, .request = RequestNumber{request}},
            .checksum = checksum};
}

struct RetryTableTest : testing::Test {
    void confirm(const RetryTable::Send& send, std::uint64_t base) {
        RetryTable::Begun begun = table.begin(send);
        ASSERT_EQ(begun.found, Found::kNew);
        begun.pending.confirm(Offset{base});
    }
    /// The first confirmation, or what else is found; nothing stays behind.
    std::optional<std::uint64_t> answer(const RetryTable::Send& send) {
        const RetryTable::Begun begun = table.begin(send);
        return begun.found == Found::kConfirmed ? std::optional(begun.base.value()) : std::nullopt;
    }

    coro::ReadyQueue ready;
    RetryTable table{ready, {.bytes_max = 64 * kKiB}};
};

TEST_F(RetryTableTest, ARepeatIsAnsweredWithTheFirstConfirmation) {
    confirm(send_of(1), 10);
    confirm(send_of(2), 11);
    EXPECT_EQ(answer(send_of(1)), 10U);
    EXPECT_EQ(answer(send_of(2)), 11U);
    EXPECT_EQ(answer(send_of(1)), 10U);
    EXPECT_EQ(table.answered(), 3U);
}

TEST_F(RetryTableTest, EveryPartOfASendTellsItFromAnother) {
    confirm(send_of(1), 10);
    EXPECT_EQ(answer(send_of(1, 8)), std::nullopt);
    EXPECT_EQ(answer(send_of(2)), std::nullopt);
    EXPECT_EQ(answer(send_of(1, 7, 4)), std::nullopt);
    EXPECT_EQ(answer(send_of(1, 7, 3, 2)), std::nullopt);
    RetryTable::Send other_life = send_of(1);
    other_life.incarnation = Incarnation{2};
    EXPECT_EQ(answer(other_life), std::nullopt);
    EXPECT_EQ(answer(send_of(1)), std::nullopt) << "offsets of the other life were kept";
    EXPECT_EQ(table.answered(), 0U);
}

TEST_F(RetryTableTest, NobodyAndNoNumberAreNotRemembered) {
    for (const RetryTable::Send& send : {send_of(0), send_of(1, 7, 0)}) {
        confirm(send, 10);
        EXPECT_EQ(answer(send), std::nullopt);
    }
    EXPECT_EQ(table.window_count(), 0U);
    EXPECT_EQ(table.bytes(), 0U);
}

TEST_F(RetryTableTest, AFailedSendLeavesNoTrace) {
    {
        const RetryTable::Begun begun = table.begin(send_of(1));
        EXPECT_EQ(table.begin(send_of(1)).found, Found::kInFlight);
    }
    confirm(send_of(1), 12);
    EXPECT_EQ(answer(send_of(1)), 12U);
}

TEST_F(RetryTableTest, TheLastSixtyFourAreRemembered) {
    for (std::uint64_t request = 1; request <= 200; ++request) {
        confirm(send_of(request), 1000 + request);
        const std::uint64_t oldest = request <= 64 ? 1 : request - 63;
        for (const std::uint64_t known : {oldest, (oldest + request) / 2, request}) {
            ASSERT_EQ(answer(send_of(known)), 1000 + known) << request;
        }
        ASSERT_EQ(table.window_count(), 1U);
    }
    EXPECT_EQ(answer(send_of(136)), std::nullopt);
}

TEST_F(RetryTableTest, SendsOnTheirWayAreNotReplacedByLaterOnes) {
    std::vector<RetryTable::Begun> begun;
    for (std::uint64_t request = 1; request <= 64; ++request) {
        begun.push_back(table.begin(send_of(request)));
        ASSERT_EQ(begun.back().found, Found::kNew);
    }
    EXPECT_EQ(table.begin(send_of(65)).found, Found::kFull);
    begun[40].pending.confirm(Offset{41});
    confirm(send_of(65), 66);
    EXPECT_EQ(answer(send_of(65)), 66U);
    EXPECT_EQ(table.begin(send_of(1)).found, Found::kInFlight);
    begun.clear();
    EXPECT_EQ(answer(send_of(65)), 66U);
}

TEST_F(RetryTableTest, ASessionsEndForgetsItAndNobodyElse) {
    confirm(send_of(1, 7, 3, 1), 10);
    confirm(send_of(1, 7, 3, 2), 20);
    confirm(send_of(1, 7, 4, 1), 30);
    RetryTable::Begun late = table.begin(send_of(2, 7, 3, 1));
    table.end_session(SessionId{3});
    table.end_session(SessionId{5});  // of which nothing is known
    EXPECT_EQ(table.window_count(), 1U);
    late.pending.confirm(Offset{11});
    EXPECT_EQ(table.window_count(), 1U);
    EXPECT_EQ(answer(send_of(1, 7, 4, 1)), 30U);
    EXPECT_EQ(answer(send_of(1, 7, 3, 1)), std::nullopt);
    table.end_session(SessionId{3});
    table.end_session(SessionId{4});
    EXPECT_EQ(table.bytes(), 0U);
}

TEST_F(RetryTableTest, MemoryIsBoundedAndWhatIsUsedStays) {
    confirm(send_of(1, 7, 1), 1);
    RetryTable::Begun on_its_way = table.begin(send_of(1, 7, 2));
    for (std::uint64_t session = 3; session < 5000; ++session) {
        confirm(send_of(1, 7, session), session);
        ASSERT_LE(table.bytes(), 64 * kKiB);
        ASSERT_EQ(answer(send_of(1, 7, 1)), 1U) << session;
    }
    EXPECT_EQ(table.begin(send_of(1, 7, 2)).found, Found::kInFlight);
    EXPECT_EQ(answer(send_of(1, 7, 3)), std::nullopt);
    EXPECT_EQ(answer(send_of(1, 7, 4999)), 4999U);
}

// What a purge frees is counted once, or the count wraps and every window seems too much.
TEST_F(RetryTableTest, LivesOneAfterTheOtherTakeNoMoreMemoryThanTheFirst) {
    std::size_t first = 0;
    for (std::uint64_t life = 1; life <= 100; ++life) {
        for (std::uint64_t request = 1; request <= 10; ++request) {
            RetryTable::Send send = send_of(request);
            send.incarnation = Incarnation{life};
            confirm(send, 1000 * life + request);
            ASSERT_EQ(answer(send), 1000 * life + request);
        }
        first = life == 1 ? table.bytes() : first;
        ASSERT_EQ(table.bytes(), first) << "life " << life;
        ASSERT_EQ(table.window_count(), 1U);
    }
    RetryTable::Send other = send_of(1, 7, 4);
    other.incarnation = Incarnation{100};
    confirm(other, 1);
    EXPECT_EQ(answer(other), 1U);
    table.end_session(SessionId{3});
    table.end_session(SessionId{4});
    EXPECT_EQ(table.bytes(), 0U);
}

}  // namespace
}  // namespace galgo::partitions

#include "metadata/client_table_snapshot.hpp"

#include <random>

#include "crypto/hash.hpp"
#include "gmock/gmock.h"
#include "test_node.hpp"

namespace galgo::metadata::test {
namespace {

using E = ErrorCode;
using Verdict = ClientTable::Verdict;

void seal(Bytes& bytes) {
    const std::size_t size = bytes.size() - 8;
    store<std::uint64_t>(bytes, size, crypto::xxh3_64(ConstBytes(bytes).first(size)));
}

/// Three clients; the first has more requests than replies are kept.
class ClientTableSnapshot : public testing::Test {
 protected:
    ClientTableSnapshot() {
        for (const std::uint32_t number : {1U, 2U, 3U}) {
            table_.start_session(client(number), SessionId(10 + number), model::UserId(number));
        }
        for (std::uint64_t request = 1; request <= 7; ++request) {
            record(1, request * 2);
        }
        record(3, 5);
        bytes_ = encode_client_table(table_);
    }
    void record(std::uint32_t number, std::uint64_t request) {
        table_.record(client(number), SessionId(10 + number), RequestNumber(request),
                      LogOperation::kCreateStream, request + 100, OpNumber(++op_),
                      as_bytes("reply " + std::to_string(request)));
    }

    ClientTable table_;
    std::uint64_t op_ = 20;
    Bytes bytes_;
};

TEST_F(ClientTableSnapshot, GivesTheSameAnswers) {
    ClientTable restored;
    ASSERT_TRUE(decode_client_table(bytes_, restored).has_value());
    EXPECT_EQ(encode_client_table(restored), bytes_);
    EXPECT_EQ(restored.client_count(), 3U);
    EXPECT_EQ(restored.reply_bytes(), table_.reply_bytes());
    for (std::uint32_t number = 1; number <= 4; ++number) {
        for (std::uint64_t request = 1; request <= 16; ++request) {
            for (const u128 checksum : {u128{0}, u128{request + 100}, u128{1}}) {
                for (const auto operation :
                     {LogOperation::kCreateStream, LogOperation::kDeleteStream}) {
                    const auto was = table_.classify(client(number), SessionId(10 + number),
                                                     RequestNumber(request), operation, checksum);
                    const auto is = restored.classify(client(number), SessionId(10 + number),
                                                      RequestNumber(request), operation, checksum);
                    EXPECT_EQ(is.verdict, was.verdict);
                    EXPECT_EQ(as_text(is.reply), as_text(was.reply));
                    EXPECT_EQ(is.op, was.op);
                }
            }
        }
    }
    // Both go on alike.
    restored.record(client(1), SessionId(11), RequestNumber(20), LogOperation::kCreateStream, 0,
                    OpNumber(30), as_bytes("next"));
    table_.record(client(1), SessionId(11), RequestNumber(20), LogOperation::kCreateStream, 0,
                  OpNumber(30), as_bytes("next"));
    restored.end_session(client(3));
    table_.end_session(client(3));
    EXPECT_EQ(encode_client_table(restored), encode_client_table(table_));
}

TEST_F(ClientTableSnapshot, ASmallerTableKeepsTheNewestReplies) {
    ClientTable small(std::string_view("reply 5").size());
    ASSERT_TRUE(decode_client_table(bytes_, small).has_value());
    EXPECT_EQ(small.client_count(), 3U);
    EXPECT_EQ(
        small.classify(client(3), SessionId(13), RequestNumber(5), LogOperation::kCreateStream, 0)
            .verdict,
        Verdict::kReplay);
    EXPECT_EQ(
        small.classify(client(1), SessionId(11), RequestNumber(14), LogOperation::kCreateStream, 0)
            .verdict,
        Verdict::kApplied);
}

TEST_F(ClientTableSnapshot, DamageIsRefusedAndLeavesTheTableEmpty) {
    for (std::size_t size = 0; size < bytes_.size(); ++size) {
        ClientTable table;
        ASSERT_FALSE(decode_client_table(ConstBytes(bytes_).first(size), table).has_value());
    }
    for (std::size_t position = 0; position < bytes_.size(); ++position) {
        for (const unsigned flip : {0x01U, 0x80U, 0xFFU}) {
            Bytes damaged = bytes_;
            damaged[position] ^= std::byte{static_cast<unsigned char>(flip)};
            ClientTable table;
            const Status plain = decode_client_table(damaged, table);
            ASSERT_FALSE(plain.has_value());
            EXPECT_EQ(plain.error().code, E::kStateFileCorrupted);
            EXPECT_EQ(table.client_count(), 0U);
            seal(damaged);  // forged: refused, or a table that is written as it was read
            if (position + 8 < bytes_.size() && decode_client_table(damaged, table).has_value()) {
                EXPECT_EQ(encode_client_table(table), damaged) << position;
            } else {
                EXPECT_EQ(table.client_count(), 0U);
                EXPECT_EQ(table.reply_bytes(), 0U);
            }
        }
    }
    Bytes newer = bytes_;
    newer[4] = std::byte{2};
    seal(newer);
    ClientTable table;
    EXPECT_EQ(decode_client_table(newer, table).error().code, E::kInvalidVersion);
}

}  // namespace
}  // namespace galgo::metadata::test

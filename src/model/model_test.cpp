#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

#include "model/ids.hpp"
#include "model/permissions.hpp"
#include "model/text.hpp"
#include "model/topic_options.hpp"
#include "model/units_text.hpp"

namespace galgo::model {
namespace {

constexpr std::uint64_t kMaxU64 = std::numeric_limits<std::uint64_t>::max();

TEST(PartitionKeyTest, PacksTheVectorsOfTheReference) {
    const auto pack = [](std::uint32_t stream, std::uint32_t topic, std::uint32_t partition) {
        return pack_partition_key(StreamId(stream), TopicId(topic), PartitionId(partition)).value();
    };
    EXPECT_EQ(pack(0, 0, 1), 1U);
    EXPECT_EQ(pack(1, 0, 0), 0x1'0000'0000U);
    EXPECT_EQ(pack(0, 1, 0), 0x10'0000U);
    EXPECT_EQ(pack(7, 3, 42), 0x7'0030'002aU);
    EXPECT_EQ(pack(1048575, 4095, 999999), 0xf'ffff'ffff'423fU);
    const PartitionAddress back = unpack_partition_key(PartitionKey(0xf'ffff'ffff'423fU));
    EXPECT_EQ(back.stream.value(), 1048575U);
    EXPECT_EQ(back.topic.value(), 4095U);
    EXPECT_EQ(back.partition.value(), 999999U);
}

TEST(PartitionKeyTest, RefusesIdsOutOfRange) {
    EXPECT_DEATH((void)pack_partition_key(StreamId(kStreamCountMax), TopicId(0), PartitionId(0)),
                 "");
    EXPECT_DEATH((void)pack_partition_key(StreamId(0), TopicId(kTopicCountMax), PartitionId(0)),
                 "");
    EXPECT_DEATH((void)pack_partition_key(StreamId(0), TopicId(0), PartitionId(kPartitionIdMax)),
                 "");
}

TEST(ByteSizeTest, AcceptsBothFamiliesOfUnits) {
    EXPECT_EQ(parse_byte_size("4096"), 4096U);
    EXPECT_EQ(parse_byte_size(" 1 GiB "), 1ULL << 30U);
    EXPECT_EQ(parse_byte_size("2 MB"), 2'000'000U);
    EXPECT_EQ(parse_byte_size("1.5kib"), 1536U);
    EXPECT_EQ(parse_byte_size("10 b"), 10U);
    EXPECT_EQ(parse_byte_size("0"), 0U);
    EXPECT_EQ(parse_byte_size("Unlimited"), 0U);
    EXPECT_EQ(parse_byte_size("none"), 0U);
    EXPECT_EQ(parse_byte_size("18446744073709551615"), kMaxU64);
}

TEST(ByteSizeTest, RefusesNonsense) {
    for (const char* text :
         {"", " ", "GiB", "1 XB", "-1", "1.", ".5", "1 GiB x", "1 1", "1.5.5",
          "18446744073709551616", "16384 PiB", "99999999999999999999999999999999999999999"}) {
        EXPECT_EQ(parse_byte_size(text).error().code, ErrorCode::kInvalidSizeBytes) << text;
    }
}

TEST(DurationTest, AcceptsOneOrMoreParts) {
    EXPECT_EQ(parse_duration_us("500ms"), 500'000U);
    EXPECT_EQ(parse_duration_us("1 m"), 60'000'000U);
    EXPECT_EQ(parse_duration_us("7 days"), 604'800'000'000U);
    EXPECT_EQ(parse_duration_us("1h 30m"), 5'400'000'000U);
    EXPECT_EQ(parse_duration_us("1H30M"), 5'400'000'000U);
    EXPECT_EQ(parse_duration_us("1500 ns"), 1U);
    EXPECT_EQ(parse_duration_us("1.5 s"), 1'500'000U);
    EXPECT_EQ(parse_duration_us("0"), 0U);
    EXPECT_EQ(parse_duration_us("disabled"), 0U);
}

TEST(DurationTest, RefusesNonsense) {
    for (const char* text : {"", "5", "s", "1 parsec", "1 s x", "99999999999999 years", "1s,2s"}) {
        EXPECT_EQ(parse_duration_us(text).error().code, ErrorCode::kInvalidNumberValue) << text;
    }
}

TEST(ExpiryTest, KnowsNeverAndDefault) {
    EXPECT_EQ(parse_expiry_us("never_expire"), kNeverExpires);
    EXPECT_EQ(parse_expiry_us("none"), kNeverExpires);
    EXPECT_EQ(parse_expiry_us("server_default"), 0U);
    EXPECT_EQ(parse_expiry_us("1 day"), 86'400'000'000U);
    EXPECT_EQ(parse_expiry_us("4294967295 s"), 4'294'967'295'000'000U);
    EXPECT_FALSE(parse_expiry_us("4294967296 s").has_value());
}

TEST(Utf8Test, FollowsTheStandard) {
    EXPECT_TRUE(is_valid_utf8(""));
    EXPECT_TRUE(is_valid_utf8("plain ascii text of some length"));
    EXPECT_TRUE(is_valid_utf8("gr\xC3\xBC\xC3\x9F"));
    EXPECT_TRUE(is_valid_utf8("\xF0\x9F\x98\x80"));
    EXPECT_TRUE(is_valid_utf8("\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF"));
    for (const char* text : {"\x80", "\xC0\x80", "\xC1\xBF", "\xC3", "\xE0\x9F\xBF", "\xED\xA0\x80",
                             "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
                             "abcdefgh\xFF", "\xE2\x82", "\xE2\x28\xA1"}) {
        EXPECT_FALSE(is_valid_utf8(text));
    }
}

TEST(PermissionsTest, NothingAllowsNothing) {
    for (int rule = 0; rule <= static_cast<int>(Rule::kTopicSend); ++rule) {
        EXPECT_FALSE(allows(Permissions{}, static_cast<Rule>(rule)));
        EXPECT_TRUE(allows(all_permissions(), static_cast<Rule>(rule)));
    }
}

TEST(PermissionsTest, GlobalBits) {
    Permissions read_streams{.global = {.read_streams = true}, .streams = {}};
    EXPECT_TRUE(allows(read_streams, Rule::kStreamsRead));
    EXPECT_TRUE(allows(read_streams, Rule::kTopicPoll));
    EXPECT_FALSE(allows(read_streams, Rule::kTopicSend));
    EXPECT_FALSE(allows(read_streams, Rule::kStreamManage));
    Permissions read_topics{.global = {.read_topics = true}, .streams = {}};
    EXPECT_FALSE(allows(read_topics, Rule::kStreamRead));
    EXPECT_TRUE(allows(read_topics, Rule::kTopicsRead));
    Permissions send{.global = {.send_messages = true}, .streams = {}};
    EXPECT_TRUE(allows(send, Rule::kTopicSend));
    EXPECT_FALSE(allows(send, Rule::kTopicPoll));
    Permissions servers{.global = {.read_servers = true}, .streams = {}};
    EXPECT_TRUE(allows(servers, Rule::kServerRead));
    EXPECT_FALSE(allows(servers, Rule::kUsersRead));
}

TEST(PermissionsTest, StreamAndTopicBitsStayLocal) {
    Permissions permissions;
    permissions.streams[StreamId(3)].read_stream = true;
    permissions.streams[StreamId(4)].topics[TopicId(7)].send_messages = true;
    EXPECT_TRUE(allows(permissions, Rule::kStreamRead, StreamId(3)));
    EXPECT_TRUE(allows(permissions, Rule::kTopicPoll, StreamId(3), TopicId(1)));
    EXPECT_FALSE(allows(permissions, Rule::kTopicSend, StreamId(3), TopicId(1)));
    EXPECT_FALSE(allows(permissions, Rule::kStreamsRead, StreamId(3)));
    EXPECT_FALSE(allows(permissions, Rule::kStreamRead, StreamId(4)));
    EXPECT_TRUE(allows(permissions, Rule::kTopicSend, StreamId(4), TopicId(7)));
    EXPECT_FALSE(allows(permissions, Rule::kTopicSend, StreamId(4), TopicId(8)));
    EXPECT_FALSE(allows(permissions, Rule::kTopicRead, StreamId(4), TopicId(7)));
}

// The table of the protocol, read literally: one list of bits for each level of each rule.
using G = GlobalPermissions;
using S = StreamPermissions;
using T = TopicPermissions;
struct RuleRow {
    Rule rule;
    std::vector<bool G::*> global;
    std::vector<bool S::*> stream;
    std::vector<bool T::*> topic;
};

std::vector<RuleRow> rule_table() {
    const std::vector<bool G::*> read_topics = {&G::read_streams, &G::manage_streams,
                                                &G::manage_topics, &G::read_topics};
    const std::vector<bool S::*> stream_read_topics = {&S::manage_stream, &S::read_stream,
                                                       &S::manage_topics, &S::read_topics};
    return {
        {Rule::kServerRead, {&G::manage_servers, &G::read_servers}, {}, {}},
        {Rule::kUsersRead, {&G::manage_users, &G::read_users}, {}, {}},
        {Rule::kUsersManage, {&G::manage_users}, {}, {}},
        {Rule::kStreamsRead, {&G::manage_streams, &G::read_streams}, {}, {}},
        {Rule::kStreamRead,
         {&G::manage_streams, &G::read_streams},
         {&S::manage_stream, &S::read_stream},
         {}},
        {Rule::kStreamsManage, {&G::manage_streams}, {}, {}},
        {Rule::kStreamManage, {&G::manage_streams}, {&S::manage_stream}, {}},
        {Rule::kTopicsRead, read_topics, stream_read_topics, {}},
        {Rule::kTopicRead, read_topics, stream_read_topics, {&T::manage_topic, &T::read_topic}},
        {Rule::kTopicsManage,
         {&G::manage_streams, &G::manage_topics},
         {&S::manage_stream, &S::manage_topics},
         {}},
        {Rule::kTopicManage,
         {&G::manage_streams, &G::manage_topics},
         {&S::manage_stream, &S::manage_topics},
         {&T::manage_topic}},
        {Rule::kTopicPoll,
         {&G::poll_messages, &G::read_topics, &G::manage_topics, &G::read_streams,
          &G::manage_streams},
         {&S::poll_messages, &S::manage_stream, &S::read_stream, &S::manage_topics,
          &S::read_topics},
         {&T::manage_topic, &T::read_topic, &T::poll_messages}},
        {Rule::kTopicSend,
         {&G::send_messages, &G::manage_streams, &G::manage_topics},
         {&S::send_messages, &S::manage_stream, &S::manage_topics},
         {&T::manage_topic, &T::send_messages}},
    };
}

template <class Bits>
bool any_of(const std::vector<bool Bits::*>& named, const Bits& bits) {
    for (const auto bit : named) {
        if (bits.*bit) {
            return true;
        }
    }
    return false;
}

bool allows_by_table(const RuleRow& row, const Permissions& permissions, StreamId stream,
                     TopicId topic) {
    if (any_of(row.global, permissions.global)) {
        return true;
    }
    for (const auto& [stream_id, on_stream] : permissions.streams) {
        if (stream_id != stream) {
            continue;
        }
        if (any_of(row.stream, on_stream)) {
            return true;
        }
        for (const auto& [topic_id, on_topic] : on_stream.topics) {
            if (topic_id == topic && any_of(row.topic, on_topic)) {
                return true;
            }
        }
    }
    return false;
}

constexpr bool G::* kGlobalBits[] = {
    &G::manage_servers, &G::read_servers,  &G::manage_users, &G::read_users,    &G::manage_streams,
    &G::read_streams,   &G::manage_topics, &G::read_topics,  &G::poll_messages, &G::send_messages};
constexpr bool S::* kStreamBits[] = {&S::manage_stream, &S::read_stream,   &S::manage_topics,
                                     &S::read_topics,   &S::poll_messages, &S::send_messages};
constexpr bool T::* kTopicBits[] = {&T::manage_topic, &T::read_topic, &T::poll_messages,
                                    &T::send_messages};

TEST(PermissionsTest, EachBitAloneAllowsWhatTheTableSays) {
    const auto table = rule_table();
    ASSERT_EQ(table.size(), static_cast<std::size_t>(Rule::kTopicSend) + 1);
    for (const RuleRow& row : table) {
        const auto expect_same = [&](const Permissions& permissions) {
            for (const std::uint32_t stream : {1U, 2U}) {
                for (const std::uint32_t topic : {1U, 2U}) {
                    EXPECT_EQ(allows(permissions, row.rule, StreamId(stream), TopicId(topic)),
                              allows_by_table(row, permissions, StreamId(stream), TopicId(topic)))
                        << static_cast<int>(row.rule);
                }
            }
        };
        for (const auto bit : kGlobalBits) {
            Permissions permissions;
            permissions.global.*bit = true;
            expect_same(permissions);
        }
        for (const auto bit : kStreamBits) {
            Permissions permissions;
            permissions.streams[StreamId(1)].*bit = true;
            expect_same(permissions);
        }
        for (const auto bit : kTopicBits) {
            Permissions permissions;
            permissions.streams[StreamId(1)].topics[TopicId(1)].*bit = true;
            expect_same(permissions);
        }
    }
}

TEST(PermissionsTest, RandomPermissionsAgreeWithTheTable) {
    const auto table = rule_table();
    for (std::uint32_t seed = 0; seed < 2000; ++seed) {
        std::mt19937 random(seed);
        const auto one_in = [&](unsigned n) { return random() % n == 0; };
        Permissions permissions;
        for (const auto bit : kGlobalBits) {
            permissions.global.*bit = one_in(20);
        }
        for (std::uint32_t stream = 0; stream < 3; ++stream) {
            if (one_in(3)) {
                continue;
            }
            for (const auto bit : kStreamBits) {
                permissions.streams[StreamId(stream)].*bit = one_in(10);
            }
            for (std::uint32_t topic = 0; topic < 3; ++topic) {
                for (const auto bit : kTopicBits) {
                    permissions.streams[StreamId(stream)].topics[TopicId(topic)].*bit = one_in(5);
                }
            }
        }
        for (const RuleRow& row : table) {
            for (std::uint32_t stream = 0; stream < 4; ++stream) {
                for (std::uint32_t topic = 0; topic < 4; ++topic) {
                    ASSERT_EQ(allows(permissions, row.rule, StreamId(stream), TopicId(topic)),
                              allows_by_table(row, permissions, StreamId(stream), TopicId(topic)))
                        << "seed " << seed << " rule " << static_cast<int>(row.rule);
                }
            }
        }
    }
}

}  // namespace
}  // namespace galgo::model

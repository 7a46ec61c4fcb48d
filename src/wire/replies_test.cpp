#include "wire/replies.hpp"

#include <gtest/gtest.h>

#include "wire/detail/test_support.hpp"
#include "wire/reply_decoders.hpp"

namespace galgo::wire {
namespace {

template <class Put>
std::string hex_of(Put put) {
    ByteWriter writer;
    put(writer);
    return to_hex(writer.bytes());
}
std::string hex(std::string_view text) {
    return to_hex(from_hex(text));
}

ReplyHeader reply(Operation operation, ErrorCode status = ErrorCode::kOk) {
    return ReplyHeader{.operation = operation, .status = status};
}

TEST(ResultSectionTest, SuccessAndRejection) {
    EXPECT_EQ(to_hex(kResultOk), "00000000");
    EXPECT_EQ(to_hex(rejection_body(ErrorCode::kStreamIdNotFound)), "0100000000000000f1030000");
    const auto body = from_hex("00000000 aa");
    const auto ok = reply_payload(reply(Operation::kCreateStream), body);
    ASSERT_TRUE(ok.has_value());
    EXPECT_EQ(to_hex(*ok), "aa");
    EXPECT_EQ(
        reply_payload(reply(Operation::kCreateStream), rejection_body(ErrorCode::kStreamIdNotFound))
            .error()
            .code,
        ErrorCode::kStreamIdNotFound);
    EXPECT_EQ(reply_payload(reply(Operation::kCreateStream), {}).error().code,
              ErrorCode::kInvalidCommand)
        << "an empty body is no success of a framed operation";
    EXPECT_FALSE(reply_payload(reply(Operation::kCreateStream), from_hex("0100000000000000")));
    EXPECT_FALSE(reply_payload(reply(Operation::kCreateStream), from_hex("ffffffff00000000")));
    EXPECT_EQ(reply_payload(reply(Operation::kNonReplicated), from_hex("01"))->size(), 1U);
    EXPECT_EQ(reply_payload(reply(Operation::kLogout), {})->size(), 0U);
    EXPECT_EQ(
        reply_payload(reply(Operation::kCreateStream, ErrorCode::kUnauthorized), {}).error().code,
        ErrorCode::kUnauthorized);
}

TEST(RepliesTest, StatsLayout) {
    ByteWriter writer;
    const CacheMetric metric{.stream = model::StreamId(1), .hits = 2, .hit_ratio = 0.5F};
    put_stats(writer, {.process_id = 7,
                       .cpu_usage_percent = 1.5F,
                       .run_time_us = 36,
                       .start_time_us = 44,
                       .streams_count = 76,
                       .segments_count = 88,
                       .messages_count = 92,
                       .consumer_groups_count = 104,
                       .hostname = "h",
                       .os_name = "o",
                       .os_version = "v",
                       .kernel_version = "k",
                       .server_version = "s",
                       .server_version_number = 11'000,
                       .cache_metrics = {&metric, 1},
                       .threads_count = 3,
                       .free_disk_bytes = 4,
                       .total_disk_bytes = 5});
    const ConstBytes bytes = writer.bytes();
    EXPECT_EQ(load<std::uint64_t>(bytes, 36), 36U);
    EXPECT_EQ(load<std::uint64_t>(bytes, 44), 44U);
    EXPECT_EQ(load<std::uint32_t>(bytes, 76), 76U);
    EXPECT_EQ(load<std::uint32_t>(bytes, 88), 88U);
    EXPECT_EQ(load<std::uint64_t>(bytes, 92), 92U);
    EXPECT_EQ(load<std::uint32_t>(bytes, 104), 104U);
    EXPECT_EQ(to_hex(bytes.subspan(108, 5)), hex("01000000 68"));
    EXPECT_EQ(bytes.size(), 108U + 5 * 5 + 4 + 4 + 32 + 4 + 8 + 8);
    EXPECT_EQ(load<std::uint32_t>(bytes, 108 + 25), 11'000U);
}

TEST(RepliesTest, ClusterMetadata) {
    const ClusterNode node{
        .name = "n", .ip = "127.0.0.1", .tcp_port = 8090, .websocket_port = 8092};
    EXPECT_EQ(hex_of([&](ByteWriter& to) { put_cluster_metadata(to, "c", {&node, 1}); }),
              hex("01000000 63 01000000 01000000 6e 09000000 3132372e302e302e31"
                  "9a1f 0000 0000 9c1f 00 00"));
}

TEST(RepliesTest, OptionCatalogue) {
    ByteWriter writer;
    put_option_catalogue(writer, describe_topic_options());
    EXPECT_EQ(load<std::uint32_t>(writer.bytes(), 0), 9U);
    EXPECT_EQ(hex_of([](ByteWriter& to) { put_option_catalogue(to, {}); }), "00000000");
    const OptionDescription one{
        .key = "k", .kind = ValueKind::kBool, .default_value = from_hex("00"), .description = "d"};
    EXPECT_EQ(hex_of([&](ByteWriter& to) { put_option_catalogue(to, {&one, 1}); }),
              hex("01000000 01 6b 03 01000000 00 01000000 64"));
}

TEST(RepliesTest, ClientRecords) {
    const ClientGroup group{model::StreamId(1), model::TopicId(2), model::GroupId(3)};
    EXPECT_EQ(hex_of([&](ByteWriter& to) {
                  put_client_details(to,
                                     {.connection = model::ConnectionId(5),
                                      .user = model::kNoUserId,
                                      .transport = Transport::kWebSocket,
                                      .address = "a:1"},
                                     {&group, 1});
              }),
              hex("05000000 ffffffff 04 03000000 613a31 01000000 01000000 02000000 03000000"));
}

TEST(RepliesTest, StreamAndTopicDetailsRoundTrip) {
    ByteWriter stream_body;
    const auto options = from_hex("0201000000610301000000 01");
    put_stream_record(stream_body, {.id = model::StreamId(3),
                                    .created_at = Timestamp(4),
                                    .topics_count = 5,
                                    .size_bytes = 6,
                                    .messages_count = 7,
                                    .name = "s",
                                    .options = options});
    const auto stream = decode_stream(stream_body.bytes());
    ASSERT_TRUE(stream && *stream);
    EXPECT_EQ((*stream)->id, model::StreamId(3));
    EXPECT_EQ((*stream)->name, "s");
    EXPECT_EQ((*stream)->options.size(), options.size());
    EXPECT_FALSE(decode_stream({})->has_value());

    ByteWriter body;
    put_topic_record(body, {.id = model::TopicId(1),
                            .created_at = Timestamp(2),
                            .partitions_count = 2,
                            .message_expiry_us = 3,
                            .compression = model::CompressionAlgorithm::kGzip,
                            .max_topic_size_bytes = 4,
                            .size_bytes = 5,
                            .messages_count = 6,
                            .name = "t",
                            .explicit_options = options,
                            .derived_options = {}});
    for (std::uint32_t i = 0; i < 2; ++i) {
        put_partition_record(body, {.id = model::PartitionId(i),
                                    .created_at = Timestamp(9),
                                    .segments_count = 1,
                                    .current_offset = Offset(10 + i),
                                    .size_bytes = 11,
                                    .messages_count = 12});
    }
    EXPECT_EQ(body.size(), 49U + 2 + 4 + options.size() + 4 + 2 * kPartitionRecordSize);
    const auto topic = decode_topic_details(body.bytes());
    ASSERT_TRUE(topic && *topic);
    EXPECT_EQ((*topic)->topic.compression, model::CompressionAlgorithm::kGzip);
    EXPECT_EQ((*topic)->topic.max_topic_size_bytes, 4U);
    ASSERT_EQ((*topic)->partitions.size(), 2U);
    EXPECT_EQ((*topic)->partitions[1].current_offset, Offset(11));
    for (std::size_t size = 1; size < body.size(); ++size) {
        EXPECT_FALSE(decode_topic_details(body.bytes().first(size)).has_value()) << size;
    }
    EXPECT_FALSE(decode_topic_details({})->has_value());
}

TEST(RepliesTest, SendConfirmationGolden) {
    const auto body = send_confirmation_body({.base_offset = Offset(42)});
    EXPECT_EQ(to_hex(body), hex("01000000 000000000000000000000000 2a00000000000000"));
    const auto decoded = decode_send_confirmation(body);
    ASSERT_TRUE(decoded && *decoded);
    EXPECT_EQ((*decoded)->base_offset, Offset(42));
    EXPECT_FALSE(decode_send_confirmation({})->has_value());
    EXPECT_FALSE(decode_send_confirmation(from_hex("00000000"))->has_value());
    EXPECT_FALSE(decode_send_confirmation(from_hex("0100")).has_value());
    EXPECT_FALSE(decode_send_confirmation(from_hex("01000000 00")).has_value());
}

TEST(RepliesTest, OffsetsGroupsAndSync) {
    ByteWriter offset;
    put_consumer_offset(offset, {model::PartitionId(1), Offset(2), Offset(3)});
    EXPECT_EQ(to_hex(offset.bytes()), hex("01000000 0200000000000000 0300000000000000"));
    const auto decoded = decode_consumer_offset(offset.bytes());
    ASSERT_TRUE(decoded && *decoded);
    EXPECT_EQ((*decoded)->stored_offset, Offset(3));
    EXPECT_FALSE(decode_consumer_offset({})->has_value());
    EXPECT_FALSE(decode_consumer_offset(from_hex("01000000")).has_value());

    const std::array partitions{model::PartitionId(4), model::PartitionId(5)};
    EXPECT_EQ(hex_of([&](ByteWriter& to) {
                  put_group_record(to, {model::GroupId(1), 2, 1, "g"});
                  put_group_member(to, model::MemberId(9), partitions);
              }),
              hex("01000000 02000000 01000000 01 67 09000000 02000000 04000000 05000000"));

    ByteWriter sync;
    put_sync_reply(sync, 7, partitions);
    const auto synced = decode_sync_reply(sync.bytes());
    ASSERT_TRUE(synced && *synced);
    EXPECT_EQ((*synced)->generation, 7U);
    EXPECT_EQ((*synced)->partitions.size(), 2U);
    EXPECT_FALSE(decode_sync_reply({})->has_value());
    EXPECT_FALSE(decode_sync_reply(from_hex("0700000000000000 ffffffff 00000000")).has_value());
}

TEST(RepliesTest, UsersAndTokens) {
    const UserRecord user{.id = model::UserId(1),
                          .created_at = Timestamp(2),
                          .status = UserStatus::kActive,
                          .username = "u",
                          .options = {}};
    EXPECT_EQ(hex_of([&](ByteWriter& to) { put_user_details(to, user, nullptr); }),
              hex("01000000 0200000000000000 01 01 75 00000000 00000000"));
    const model::Permissions permissions;
    EXPECT_EQ(hex_of([&](ByteWriter& to) { put_user_details(to, user, &permissions); }),
              hex("01000000 0200000000000000 01 01 75 00000000 01 0b000000"
                  "0000000000000000000000"));
    EXPECT_EQ(hex_of([](ByteWriter& to) { put_token_record(to, "ci", std::nullopt); }),
              hex("02 6369 0000000000000000"));
    EXPECT_EQ(hex_of([](ByteWriter& to) { put_token_record(to, "ci", Timestamp(9)); }),
              hex("02 6369 0900000000000000"));
    EXPECT_EQ(hex_of([](ByteWriter& to) { put_token_secret(to, "abc"); }), hex("03 616263"));
}

TEST(RepliesTest, Routing) {
    EXPECT_EQ(hex_of([](ByteWriter& to) {
                  put_routing(to, {.client = ClientId(1),
                                   .session = SessionId(2),
                                   .metadata_watermark = 3,
                                   .primary = {.name = "n", .ip = "i", .tcp_port = 1}});
              }),
              hex("01000000000000000000000000000000 0200000000000000 0300000000000000"
                  "01000000 6e 01000000 69 0100 0000 0000 0000 00 00"));
}

TEST(RepliesTest, LoginReplyTruncations) {
    ByteWriter writer;
    put_login_reply(writer, {.session = SessionId(1), .server_version = "1.0"});
    const ConstBytes payload = writer.bytes().subspan(4);
    EXPECT_TRUE(decode_login_reply(payload).has_value());
    for (std::size_t size = 0; size < payload.size(); ++size) {
        EXPECT_FALSE(decode_login_reply(payload.first(size)).has_value()) << size;
    }
    std::vector<std::byte> zero_session = copy_of(payload);
    zero_session[4] = std::byte{0};
    EXPECT_FALSE(decode_login_reply(zero_session).has_value());
}

}  // namespace
}  // namespace galgo::wire

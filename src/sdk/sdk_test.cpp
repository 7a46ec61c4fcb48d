// Addresses, statistics and the patched request bodies.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "sdk/address.hpp"
#include "sdk/stats.hpp"
#include "sdk/targets.hpp"
#include "wire/message_requests.hpp"
#include "wire/replies.hpp"

namespace galgo::sdk {
namespace {

TEST(Address, ReadsNamesAndLiterals) {
    EXPECT_EQ(parse_address("127.0.0.1:8090"), (Address{.host = "127.0.0.1", .port = 8090}));
    EXPECT_EQ(parse_address("localhost:1"), (Address{.host = "localhost", .port = 1}));
    EXPECT_EQ(parse_address("[::1]:65535"), (Address{.host = "::1", .port = 65535}));
    EXPECT_EQ(to_string(Address{.host = "::1", .port = 80}), "[::1]:80");
    EXPECT_EQ(to_string(Address{.host = "a.b", .port = 80}), "a.b:80");
}

TEST(Address, RefusesOtherText) {
    for (const char* text : {"", ":", "host", ":80", "host:", "host:0", "host:65536", "host:-1",
                             "host:8x", "host: 8", "::1:80", "[]:80", "[::1:80", "::1]:80"}) {
        const Result<Address> address = parse_address(text);
        ASSERT_FALSE(address.has_value()) << text;
        EXPECT_EQ(address.error().code, ErrorCode::kInvalidServerAddress) << text;
    }
}

const PartitionRef kPartition{.stream = wire::Identifier::named("orders"),
                              .topic = wire::Identifier::numbered(7),
                              .partition = model::PartitionId(3)};

TEST(SendTarget, PatchesTheCount) {
    SendTarget target(kPartition);
    for (const std::uint32_t count : {1U, 1000U, 0xFFFF'FFFFU}) {
        const auto request = wire::SendMessagesRequest::decode(target.metadata_for(count));
        ASSERT_TRUE(request.has_value());
        EXPECT_EQ(request->messages_count, count);
        EXPECT_EQ(request->stream, kPartition.stream);
        EXPECT_EQ(request->topic, kPartition.topic);
        EXPECT_EQ(request->partitioning.kind, wire::PartitioningKind::kPartition);
        EXPECT_EQ(request->partitioning.partition, kPartition.partition);
    }
}

TEST(PollTarget, PatchesTheTail) {
    const wire::ConsumerRef consumer{.id = wire::Identifier::numbered(9)};
    PollTarget target(consumer, kPartition);
    for (const bool auto_commit : {true, false}) {
        const PollSpec spec{
            .strategy = {.kind = wire::PollingKind::kOffset, .value = 0x0123'4567'89AB'CDEF},
            .count = 77,
            .auto_commit = auto_commit};
        const auto request = wire::PollMessagesRequest::decode(target.body_for(spec));
        ASSERT_TRUE(request.has_value());
        EXPECT_EQ(request->consumer, consumer);
        EXPECT_EQ(request->stream, kPartition.stream);
        EXPECT_EQ(request->partition, kPartition.partition);
        EXPECT_EQ(request->strategy, spec.strategy);
        EXPECT_EQ(request->count, spec.count);
        EXPECT_EQ(request->auto_commit, auto_commit);
    }
}

TEST(Stats, RoundTripAndTruncation) {
    ByteWriter writer;
    wire::put_stats(writer, {.process_id = 42,
                             .memory_usage_bytes = 1,
                             .run_time_us = 2,
                             .read_bytes = 3,
                             .written_bytes = 4,
                             .messages_size_bytes = 5,
                             .streams_count = 6,
                             .topics_count = 7,
                             .partitions_count = 8,
                             .segments_count = 9,
                             .messages_count = 10,
                             .clients_count = 11,
                             .consumer_groups_count = 12,
                             .hostname = "here",
                             .server_version = "0.1.0"});
    const Result<Stats> stats = decode_stats(writer.bytes());
    ASSERT_TRUE(stats.has_value());
    EXPECT_EQ(stats->process_id, 42U);
    EXPECT_EQ(stats->written_bytes, 4U);
    EXPECT_EQ(stats->segments_count, 9U);
    EXPECT_EQ(stats->messages_count, 10U);
    EXPECT_EQ(stats->groups_count, 12U);
    EXPECT_EQ(stats->hostname, "here");
    EXPECT_EQ(stats->server_version, "0.1.0");
    EXPECT_FALSE(decode_stats(writer.bytes().first(100)).has_value());
    EXPECT_FALSE(decode_stats({}).has_value());
}

}  // namespace
}  // namespace galgo::sdk

#include "wire/requests.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "wire/detail/test_support.hpp"
#include "wire/message_requests.hpp"
#include "wire/permissions.hpp"

namespace galgo::wire {
namespace {

// Every body once: its bytes, a decode-encode round, and how many of its last bytes may miss
// without a defect (an option block that is not there is an empty one).
struct BodyCase {
    std::string name;
    std::vector<std::byte> bytes;
    std::function<std::optional<std::vector<std::byte>>(ConstBytes)> again;
    std::size_t optional_tail = 0;
};

template <class T>
BodyCase body_case(std::string name, const T& request, std::size_t optional_tail = 0) {
    ByteWriter writer;
    request.encode(writer);
    return {std::move(name), std::move(writer).take(),
            [](ConstBytes bytes) -> std::optional<std::vector<std::byte>> {
                const auto decoded = T::decode(bytes);
                if (!decoded) {
                    EXPECT_EQ(decoded.error().code, ErrorCode::kInvalidCommand);
                    return std::nullopt;
                }
                ByteWriter to;
                decoded->encode(to);
                return std::move(to).take();
            },
            optional_tail};
}

model::Permissions some_permissions() {
    model::Permissions permissions{.global = {.read_servers = true, .send_messages = true},
                                   .streams = {}};
    permissions.streams[model::StreamId(1)].read_stream = true;
    permissions.streams[model::StreamId(2)].topics[model::TopicId(3)].poll_messages = true;
    permissions.streams[model::StreamId(2)].topics[model::TopicId(4)].manage_topic = true;
    return permissions;
}

std::vector<BodyCase> all_bodies() {
    static const std::vector<std::byte> option_bytes = [] {
        OptionBlockBuilder builder;
        builder.put_string("durability", "replicated");
        return builder.encode();
    }();
    const OptionBlock options = OptionBlock::parse(option_bytes).value();
    const std::size_t tail = option_bytes.size();
    const Identifier number = Identifier::numbered(7);
    const Identifier name = Identifier::named("orders");
    static const std::vector<std::byte> kinds = from_hex("01 64");
    const LoginPrefix prefix{.protocol_version = 11264, .sdk_name = "rust-sdk", .sdk_version = "1"};
    const GetConsumerOffsetRequest target{.consumer = {.kind = ConsumerKind::kGroup, .id = name},
                                          .stream = number,
                                          .topic = name,
                                          .partition = model::PartitionId(9)};
    std::vector<BodyCase> cases;
    cases.push_back(body_case("login", LoginRequest{prefix, "user", "password", "ctx"}));
    cases.push_back(body_case("token login", TokenLoginRequest{prefix, "token", ""}));
    cases.push_back(body_case("snapshot", GetSnapshotRequest{SnapshotCompression::kXz, kinds}));
    cases.push_back(body_case("describe", DescribeOptionsRequest{OptionScope::kUser}));
    cases.push_back(body_case("client", GetClientRequest{model::ConnectionId(5)}));
    cases.push_back(body_case(
        "attach", AttachConsumerSessionRequest{ClientId(u128{1} << 100U), SessionId(2), 3}));
    cases.push_back(body_case("stream", StreamRequest{name}));
    cases.push_back(body_case("create stream", CreateStreamRequest{"s", options}, tail));
    cases.push_back(body_case("update stream", UpdateStreamRequest{number, "s", options}, tail));
    cases.push_back(body_case("topic", TopicRequest{number, name}));
    cases.push_back(body_case("create topic", CreateTopicRequest{number, 3, "t", options}, tail));
    cases.push_back(
        body_case("update topic", UpdateTopicRequest{number, name, "t", options}, tail));
    cases.push_back(body_case("partitions", PartitionsRequest{number, name, 1000}));
    cases.push_back(
        body_case("segments", DeleteSegmentsRequest{number, name, model::PartitionId(1), 2}));
    cases.push_back(body_case("group", GroupRequest{number, name, number}));
    cases.push_back(body_case("create group", CreateGroupRequest{number, name, "g"}));
    cases.push_back(body_case("user", UserRequest{name}));
    cases.push_back(body_case(
        "create user",
        CreateUserRequest{"bob", "secret", UserStatus::kInactive, some_permissions(), options},
        tail));
    cases.push_back(body_case(
        "update user", UpdateUserRequest{number, "bob", UserStatus::kActive, options}, tail));
    cases.push_back(body_case("permissions", UpdatePermissionsRequest{number, some_permissions()}));
    cases.push_back(body_case("password", ChangePasswordRequest{number, "old", "new"}));
    cases.push_back(body_case("create token", CreateTokenRequest{"ci", 60'000'000}));
    cases.push_back(body_case("delete token", DeleteTokenRequest{"ci"}));
    cases.push_back(body_case("poll", PollMessagesRequest{.consumer = target.consumer,
                                                          .stream = number,
                                                          .topic = name,
                                                          .partition = std::nullopt,
                                                          .strategy = {PollingKind::kTimestamp, 5},
                                                          .count = 10,
                                                          .auto_commit = true}));
    cases.push_back(body_case("get offset", target));
    cases.push_back(body_case("store offset",
                              StoreConsumerOffsetRequest{target, Offset(77), OffsetAck::kNone}));
    cases.push_back(
        body_case("delete offset", DeleteConsumerOffsetRequest{target, OffsetAck::kQuorum}));
    cases.push_back(
        body_case("flush", FlushUnsavedBufferRequest{number, name, model::PartitionId(0), true}));
    return cases;
}

TEST(RequestBodiesTest, RoundTrip) {
    for (const BodyCase& body : all_bodies()) {
        const auto again = body.again(body.bytes);
        ASSERT_TRUE(again.has_value()) << body.name;
        EXPECT_EQ(to_hex(*again), to_hex(body.bytes)) << body.name;
    }
}

TEST(RequestBodiesTest, EveryTruncationIsAnError) {
    for (const BodyCase& body : all_bodies()) {
        for (std::size_t size = 0; size < body.bytes.size(); ++size) {
            const bool complete = size == body.bytes.size() - body.optional_tail;
            EXPECT_EQ(body.again(ConstBytes(body.bytes).first(size)).has_value(), complete)
                << body.name << " cut to " << size;
        }
    }
}

TEST(RequestBodiesTest, TrailingBytesAreToleratedButBehindOptions) {
    for (const BodyCase& body : all_bodies()) {
        std::vector<std::byte> longer = body.bytes;
        longer.push_back(std::byte{0xaa});
        EXPECT_EQ(body.again(longer).has_value(), body.optional_tail == 0) << body.name;
    }
}

TEST(RequestBodiesTest, RandomBytesNeverCrashAndWhatDecodesIsStable) {
    Random random(42);
    const std::vector<BodyCase> bodies = all_bodies();
    for (int round = 0; round < 30'000; ++round) {
        const BodyCase& body = bodies[random.below(bodies.size())];
        std::vector<std::byte> bytes = body.bytes;
        if (random.below(4) == 0) {
            bytes.resize(random.below(80));
            for (std::byte& byte : bytes) {
                byte = static_cast<std::byte>(random.next());
            }
        } else {
            for (std::uint64_t i = 0; i <= random.below(3); ++i) {
                bytes[random.below(bytes.size())] = static_cast<std::byte>(random.below(256));
            }
        }
        const auto again = body.again(bytes);
        if (again) {
            const auto twice = body.again(*again);
            ASSERT_TRUE(twice.has_value()) << body.name << to_hex(bytes);
            EXPECT_EQ(to_hex(*twice), to_hex(*again)) << body.name;
        }
    }
}

TEST(RequestBodiesTest, CreateTopicGolden) {
    const auto body = from_hex(
        "01 04 00 00 00 00 01 00 00 00 02 74 31 02 1a 00"
        "00 00 63 6f 6e 73 75 6d 65 72 5f 6f 66 66 73 65"
        "74 5f 64 75 72 61 62 69 6c 69 74 79 02 0a 00 00"
        "00 72 65 70 6c 69 63 61 74 65 64 02 0a 00 00 00"
        "64 75 72 61 62 69 6c 69 74 79 02 0a 00 00 00 72"
        "65 70 6c 69 63 61 74 65 64");
    ASSERT_EQ(body.size(), 89U);
    const auto request = CreateTopicRequest::decode(body);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->stream.number(), 0U);
    EXPECT_EQ(request->partitions_count, 1U);
    EXPECT_EQ(request->name, "t1");
    EXPECT_EQ(as_text(request->options.find("durability")->value), "replicated");
    ByteWriter again;
    request->encode(again);
    EXPECT_EQ(to_hex(again.bytes()), to_hex(body));
    ByteWriter stream;
    CreateStreamRequest{.name = "s1", .options = {}}.encode(stream);
    EXPECT_EQ(to_hex(stream.bytes()), "027331");
}

TEST(RequestBodiesTest, PollGolden) {
    ByteWriter body;
    PollMessagesRequest{
        .consumer = {.kind = ConsumerKind::kConsumer, .id = Identifier::numbered(1)},
        .stream = Identifier::numbered(0),
        .topic = Identifier::numbered(0),
        .partition = model::PartitionId(0),
        .strategy = {.kind = PollingKind::kNext, .value = 0},
        .count = 10,
        .auto_commit = true}
        .encode(body);
    EXPECT_EQ(to_hex(body.bytes()),
              to_hex(from_hex("01 01 04 01000000 01 04 00000000 01 04 00000000"
                              "01 00000000 05 0000000000000000 0a000000 01")));
}

TEST(PrimitivesTest, IdentifierBounds) {
    const auto decodes = [](std::string_view hex) {
        return StreamRequest::decode(from_hex(hex)).has_value();
    };
    EXPECT_TRUE(decodes("01 04 00000000"));
    EXPECT_TRUE(decodes("02 01 61"));
    EXPECT_FALSE(decodes("01 03 000000"));
    EXPECT_FALSE(decodes("01 05 0000000000"));
    EXPECT_FALSE(decodes("02 00"));
    EXPECT_FALSE(decodes("02 01 ff"));
    EXPECT_FALSE(decodes("00 04 00000000"));
    EXPECT_FALSE(decodes("03 04 00000000"));
    const std::string longest(255, 'x');
    ByteWriter writer;
    put_identifier(writer, Identifier::named(longest));
    EXPECT_EQ(StreamRequest::decode(writer.bytes())->stream.name(), longest);
}

TEST(PrimitivesTest, PartitionFlagCountsOnlyAsOne) {
    const auto set_bytes = from_hex("01 05000000");
    FieldReader set(set_bytes);
    EXPECT_EQ(set.optional_partition(), model::PartitionId(5));
    for (const char* hex : {"00 05000000", "02 05000000", "ff 05000000"}) {
        const auto bytes = from_hex(hex);
        FieldReader reader(bytes);
        EXPECT_EQ(reader.optional_partition(), std::nullopt);
        EXPECT_FALSE(reader.failed());
    }
}

TEST(PrimitivesTest, PartitioningShapes) {
    const auto decodes = [](std::string_view hex) {
        const auto bytes = from_hex(hex);
        FieldReader reader(bytes);
        (void)reader.partitioning();
        return !reader.failed();
    };
    EXPECT_TRUE(decodes("01 00"));
    EXPECT_FALSE(decodes("01 01 00"));
    EXPECT_TRUE(decodes("02 04 01000000"));
    EXPECT_FALSE(decodes("02 03 010000"));
    EXPECT_TRUE(decodes("03 01 61"));
    EXPECT_FALSE(decodes("03 00"));
    EXPECT_FALSE(decodes("03 02 61"));
    EXPECT_FALSE(decodes("04 00"));
}

TEST(RequestBodiesTest, EnumsOutOfRangeAreRefused) {
    const auto poll = [](int strategy) {
        auto bytes = from_hex(
            "01 01 04 01000000 01 04 00000000 01 04 00000000"
            "01 00000000 05 0000000000000000 0a000000 01");
        bytes[24] = static_cast<std::byte>(strategy);
        return PollMessagesRequest::decode(bytes).has_value();
    };
    EXPECT_FALSE(poll(0));
    EXPECT_TRUE(poll(1));
    EXPECT_FALSE(poll(6));
    EXPECT_FALSE(DescribeOptionsRequest::decode(from_hex("00")).has_value());
    EXPECT_FALSE(DescribeOptionsRequest::decode(from_hex("04")).has_value());
    EXPECT_FALSE(GetSnapshotRequest::decode(from_hex("00 00")).has_value());
    EXPECT_FALSE(GetSnapshotRequest::decode(from_hex("07 00")).has_value());
    EXPECT_FALSE(GetSnapshotRequest::decode(from_hex("01 01 07")).has_value());
    EXPECT_TRUE(GetSnapshotRequest::decode(from_hex("01 02 06 64")).has_value());
}

TEST(RequestBodiesTest, SendMetadataMustCoverItsFieldsExactly) {
    const auto decodes = [](int length, int count) {
        auto bytes = from_hex("16000000 01 04 00000000 01 04 00000000 02 04 00000000 02000000");
        bytes[0] = static_cast<std::byte>(length);
        bytes[22] = static_cast<std::byte>(count);
        return SendMessagesRequest::decode(bytes).has_value();
    };
    EXPECT_TRUE(decodes(22, 1));
    EXPECT_FALSE(decodes(22, 0));
    EXPECT_FALSE(decodes(21, 1));
    EXPECT_FALSE(decodes(23, 1));
}

TEST(PermissionsCodecTest, RoundTripAndExactSize) {
    ByteWriter writer;
    put_permissions(writer, some_permissions());
    const auto decoded = decode_permissions(writer.bytes());
    ASSERT_TRUE(decoded.has_value());
    EXPECT_TRUE(*decoded == some_permissions());
    for (std::size_t size = 0; size < writer.size(); ++size) {
        EXPECT_FALSE(decode_permissions(writer.bytes().first(size)).has_value()) << size;
    }
    std::vector<std::byte> longer = copy_of(writer.bytes());
    longer.push_back(std::byte{0});
    EXPECT_FALSE(decode_permissions(longer).has_value());
    ByteWriter none;
    put_permissions(none, {});
    EXPECT_EQ(to_hex(none.bytes()), "0000000000000000000000");
}

TEST(PermissionsCodecTest, AnyNonzeroByteIsTrue) {
    auto bytes = from_hex("ff 00 00 00 00 00 00 00 00 02 00");
    const auto decoded = decode_permissions(bytes);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_TRUE(decoded->global.manage_servers);
    EXPECT_TRUE(decoded->global.send_messages);
    EXPECT_FALSE(decoded->global.read_servers);
}

}  // namespace
}  // namespace galgo::wire

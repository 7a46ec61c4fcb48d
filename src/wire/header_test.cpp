#include "wire/header.hpp"

#include <gtest/gtest.h>

#include "crypto/hash.hpp"
#include "wire/command_table.hpp"
#include "wire/detail/test_support.hpp"
#include "wire/message_requests.hpp"
#include "wire/placement.hpp"
#include "wire/prepare.hpp"
#include "wire/replies.hpp"
#include "wire/reply_decoders.hpp"
#include "wire/requests.hpp"

namespace galgo::wire {
namespace {

const ClientId kClient{u128{0x0102030405060708ULL} << 64U | 0x090a0b0c0d0e0f10ULL};
constexpr std::string_view kClientRow = "10 0f 0e 0d 0c 0b 0a 09 08 07 06 05 04 03 02 01";

std::vector<std::byte> request_frame(RequestHeader header, ConstBytes body) {
    header.size = static_cast<std::uint32_t>(kHeaderSize + body.size());
    std::vector<std::byte> frame(kHeaderSize);
    encode_request_header(frame, header);
    frame.insert(frame.end(), body.begin(), body.end());
    return frame;
}

Golden login_frame() {
    return Golden(290)
        .row(0x30, "22 01 00 00 00 00 00 00 00 00 00 00 05 00 00 00")
        .row(0x80, kClientRow)
        .row(0x90, "95 80 3f 2a 3c 20 de 8f 00 00 00 00 00 00 00 00")
        .row(0xb0, "01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
        .row(0x100, "00 2c 00 00 08 72 75 73 74 2d 73 64 6b 06 30 2e")
        .row(0x110, "31 31 2e 30 04 69 67 67 79 04 69 67 67 79 00 00")
        .row(0x120, "00 00");
}

TEST(HashTest, MatchesTheProtocol) {
    EXPECT_EQ(crypto::xxh3_64({}), 0x2d06800538d394c2U);
    EXPECT_EQ(crypto::xxh3_64(as_bytes("abc")), 0x78af5f94892f3950U);
    EXPECT_EQ(crypto::xxh32(as_bytes("abc")), 0x32d153ffU);
}

TEST(RequestHeaderTest, LoginGolden) {
    ByteWriter body;
    LoginRequest{.prefix = {.protocol_version = kProtocolVersion,
                            .sdk_name = "rust-sdk",
                            .sdk_version = "0.11.0"},
                 .username = "iggy",
                 .password = "iggy",
                 .context = {}}
        .encode(body);
    const RequestHeader header{.operation = Operation::kRegister,
                               .client = kClient,
                               .request_checksum = crypto::xxh3_64(body.bytes())};
    const std::vector<std::byte> frame = request_frame(header, body.bytes());
    EXPECT_EQ(to_hex(frame), login_frame().hex());

    const DecodedRequestHeader decoded =
        decode_request_header(ConstBytes(frame).first(kHeaderSize), kMaxFrameBytesDefault);
    EXPECT_EQ(decoded.fault, HeaderFault::kNone);
    EXPECT_EQ(decoded.header.body_size(), 34U);
    EXPECT_TRUE(decoded.header.client == kClient);
    EXPECT_TRUE(decoded.header.request_checksum == u128{0x8fde203c2a3f8095ULL});
    const auto login = LoginRequest::decode(ConstBytes(frame).subspan(kHeaderSize));
    ASSERT_TRUE(login.has_value());
    EXPECT_EQ(login->prefix.sdk_name, "rust-sdk");
    EXPECT_EQ(login->username, "iggy");
    // A password body is no token body by accident: "iggy" is the token, then the context length is
    // nonsense.
    EXPECT_FALSE(TokenLoginRequest::decode(ConstBytes(frame).subspan(kHeaderSize)).has_value());
}

TEST(RequestHeaderTest, TokenBodyIsNoPasswordBody) {
    ByteWriter body;
    TokenLoginRequest{.prefix = {.protocol_version = 1, .sdk_name = "a", .sdk_version = "b"},
                      .token = "secret",
                      .context = {}}
        .encode(body);
    EXPECT_FALSE(LoginRequest::decode(body.bytes()).has_value());
    const auto token = TokenLoginRequest::decode(body.bytes());
    ASSERT_TRUE(token.has_value());
    EXPECT_EQ(token->token, "secret");
    EXPECT_TRUE(LoginPrefix::decode(body.bytes()).has_value());
    EXPECT_FALSE(LoginPrefix::decode(body.bytes().first(5)).has_value());
}

TEST(RequestHeaderTest, PingGolden) {
    const std::vector<std::byte> frame = request_frame({.operation = Operation::kNonReplicated,
                                                        .code = CommandCode::kPing,
                                                        .client = kClient,
                                                        .session = SessionId(2),
                                                        .request = RequestNumber(1)},
                                                       {});
    EXPECT_EQ(to_hex(frame), Golden(256)
                                 .row(0x30, "00 01 00 00 00 00 00 00 00 00 00 00 05 00 00 00")
                                 .row(0x80, kClientRow)
                                 .row(0xa0, "00 00 00 00 00 00 00 00 01 00 00 00 00 00 00 00")
                                 .row(0xb0, "02 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00")
                                 .row(0xc0, "00 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00")
                                 .hex());
    const DecodedRequestHeader decoded = decode_request_header(frame, kMaxFrameBytesDefault);
    EXPECT_EQ(decoded.fault, HeaderFault::kNone);
    EXPECT_EQ(decoded.header.code, CommandCode::kPing);
    EXPECT_EQ(decoded.header.session, SessionId(2));
    EXPECT_EQ(decoded.header.request, RequestNumber(1));
}

HeaderFault fault_of(RequestHeader header) {
    std::vector<std::byte> bytes(kHeaderSize);
    encode_request_header(bytes, header);
    return decode_request_header(bytes, 1000).fault;
}

TEST(RequestHeaderTest, NamesEachFault) {
    const RequestHeader ping{.operation = Operation::kNonReplicated,
                             .code = CommandCode::kPing,
                             .client = kClient,
                             .session = SessionId(2),
                             .request = RequestNumber(1)};
    EXPECT_EQ(fault_of(ping), HeaderFault::kNone);

    RequestHeader header = ping;
    header.size = 1000;
    EXPECT_EQ(fault_of(header), HeaderFault::kNone);
    header.size = 1001;
    EXPECT_EQ(fault_of(header), HeaderFault::kSize);

    header = ping;
    header.client = ClientId(0);
    EXPECT_EQ(fault_of(header), HeaderFault::kClientZero);

    header = ping;
    header.session = SessionId(0);
    header.request = RequestNumber(0);
    EXPECT_EQ(fault_of(header), HeaderFault::kNone) << "reads need no session";
    header.operation = Operation::kCreateStream;
    EXPECT_EQ(fault_of(header), HeaderFault::kSessionOrRequest);
    header.session = SessionId(1);
    EXPECT_EQ(fault_of(header), HeaderFault::kSessionOrRequest);
    header.request = RequestNumber(1);
    EXPECT_EQ(fault_of(header), HeaderFault::kNone);
    header.operation = Operation::kRegister;
    EXPECT_EQ(fault_of(header), HeaderFault::kSessionOrRequest);

    for (const int value : {0, 4, 63, 69, 127, 150, 159, 163, 255}) {
        header.operation = static_cast<Operation>(value);
        EXPECT_EQ(fault_of(header), HeaderFault::kUnknownOperation) << value;
    }
    for (int value = 64; value <= 68; ++value) {
        header.operation = static_cast<Operation>(value);
        EXPECT_EQ(fault_of(header), HeaderFault::kInternalOperation) << value;
    }

    std::vector<std::byte> bytes(kHeaderSize);
    encode_request_header(bytes, ping);
    bytes[60] = std::byte{8};
    EXPECT_EQ(decode_request_header(bytes, 1000).fault, HeaderFault::kCommand);
    bytes[49] = std::byte{0};
    EXPECT_EQ(decode_request_header(bytes, 1000).fault, HeaderFault::kSize);
}

TEST(ReplyHeaderTest, LoginReplyGolden) {
    const Golden request = login_frame();
    const RequestHeader asked =
        decode_request_header(request.bytes().first(kHeaderSize), kMaxFrameBytesDefault).header;
    ByteWriter body;
    put_login_reply(body, {.user = model::UserId(0),
                           .session = SessionId(2),
                           .protocol_version = kProtocolVersion,
                           .server_version = kProtocolVersionText});
    ReplyHeader header = reply_to(asked);
    header.size = static_cast<std::uint32_t>(kHeaderSize + body.size());
    header.op = 2;
    header.commit = 2;
    std::vector<std::byte> frame(kHeaderSize);
    encode_reply_header(frame, header);
    frame.insert(frame.end(), body.bytes().begin(), body.bytes().end());
    EXPECT_EQ(to_hex(frame), Golden(283)
                                 .row(0x30, "1b 01 00 00 00 00 00 00 00 00 00 00 08 00 00 00")
                                 .row(0x80, "95 80 3f 2a 3c 20 de 8f 00 00 00 00 00 00 00 00")
                                 .row(0xa0, kClientRow)
                                 .row(0xb0, "02 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00")
                                 .row(0xd0, "01 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00")
                                 .row(0x100, "00 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00")
                                 .row(0x110, "00 2c 00 00 06 30 2e 31 31 2e 30")
                                 .hex());

    const auto decoded = decode_reply_header(frame);
    ASSERT_TRUE(decoded.has_value());
    const auto payload = reply_payload(*decoded, ConstBytes(frame).subspan(kHeaderSize));
    ASSERT_TRUE(payload.has_value());
    const auto login = decode_login_reply(*payload);
    ASSERT_TRUE(login.has_value());
    EXPECT_EQ(login->session, SessionId(2));
    EXPECT_EQ(login->server_version, "0.11.0");
    EXPECT_EQ(decoded->commit, 2U);
}

TEST(ReplyHeaderTest, RoundTripKeepsEveryField) {
    const ReplyHeader header{.size = 256,
                             .operation = Operation::kSendMessages,
                             .status = ErrorCode::kUnauthorized,
                             .client = kClient,
                             .request = RequestNumber(7),
                             .request_checksum = 8,
                             .cluster = 9,
                             .op = 10,
                             .commit = 11,
                             .timestamp = 12,
                             .view = 13,
                             .replica = 14};
    std::vector<std::byte> bytes(kHeaderSize);
    encode_reply_header(bytes, header);
    const auto decoded = decode_reply_header(bytes);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(decoded->status, ErrorCode::kUnauthorized);
    EXPECT_EQ(decoded->request, RequestNumber(7));
    EXPECT_TRUE(decoded->request_checksum == u128{8} && decoded->cluster == u128{9});
    EXPECT_EQ(decoded->op, 10U);
    EXPECT_EQ(decoded->commit, 11U);
    EXPECT_EQ(decoded->timestamp, 12U);
    EXPECT_EQ(decoded->view, 13U);
    EXPECT_EQ(decoded->replica, 14U);
    EXPECT_EQ(reply_payload(*decoded, {}).error().code, ErrorCode::kUnauthorized);
    bytes[208] = std::byte{99};
    EXPECT_FALSE(decode_reply_header(bytes).has_value());
}

TEST(EvictionTest, IncompatibleProtocolGolden) {
    std::vector<std::byte> frame(kHeaderSize);
    encode_eviction(frame, {.client = kClient,
                            .reason = EvictionReason::kIncompatibleProtocol,
                            .version_max = kProtocolVersion,
                            .version_min = kProtocolVersionMin});
    EXPECT_EQ(to_hex(frame), Golden(256)
                                 .row(0x30, "00 01 00 00 00 00 00 00 00 00 00 00 0d 00 00 00")
                                 .row(0x80, kClientRow)
                                 .row(0x90, "00 2c 00 00 00 2c 00 00 00 00 00 00 00 00 00 00")
                                 .row(0xf0, "00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 0e")
                                 .hex());
    const auto decoded = decode_eviction(frame);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_EQ(eviction_error(decoded->reason), ErrorCode::kIncompatibleProtocolVersion);
    EXPECT_FALSE(decode_reply_header(frame).has_value());
    EXPECT_EQ(eviction_error(static_cast<EvictionReason>(200)), ErrorCode::kUnauthenticated);
}

TEST(VersionTest, GateAcceptsTheSameMinorOnly) {
    EXPECT_TRUE(is_compatible_version(pack_version(0, 11, 0)));
    EXPECT_TRUE(is_compatible_version(pack_version(0, 11, 9)));
    EXPECT_FALSE(is_compatible_version(pack_version(0, 10, 9)));
    EXPECT_FALSE(is_compatible_version(pack_version(0, 12, 0)));
    EXPECT_FALSE(is_compatible_version(0));
}

TEST(CommandTableTest, CodesAndOperationsAgree) {
    EXPECT_EQ(kCommandTable.size(), 55U);
    for (const CommandRow& row : kCommandTable) {
        EXPECT_EQ(find_command(row.code), &row);
        EXPECT_TRUE(is_known_operation(row.operation)) << row.name;
        EXPECT_FALSE(is_internal_operation(row.operation)) << row.name;
        EXPECT_EQ(row.kind == CommandKind::kMetadata, is_metadata_operation(row.operation));
        EXPECT_EQ(row.kind == CommandKind::kPartition, is_partition_operation(row.operation));
    }
    EXPECT_EQ(find_command(CommandCode{999}), nullptr);
    EXPECT_EQ(find_command(Operation::kCreateTopic)->code, CommandCode::kCreateTopic);
    EXPECT_EQ(find_command(Operation::kRegister)->code, CommandCode::kLoginRegister);
    EXPECT_EQ(find_command(Operation::kNonReplicated), nullptr);
    EXPECT_EQ(find_command(Operation::kTruncatePartition), nullptr);
}

TEST(CommandTableTest, ResultFraming) {
    EXPECT_TRUE(is_result_framed(Operation::kRegister));
    EXPECT_TRUE(is_result_framed(Operation::kCreateStream));
    EXPECT_TRUE(is_result_framed(Operation::kTruncatePartition));
    EXPECT_TRUE(is_result_framed(Operation::kStoreConsumerOffset));
    EXPECT_FALSE(is_result_framed(Operation::kDeleteSegments));
    EXPECT_FALSE(is_result_framed(Operation::kSendMessages));
    EXPECT_FALSE(is_result_framed(Operation::kLogout));
    EXPECT_FALSE(is_result_framed(Operation::kNonReplicated));
}

TEST(PlacementTest, MatchesTheVectorsOfTheReference) {
    struct Vector {
        std::uint64_t key;
        std::uint32_t hash;
        std::array<std::uint16_t, 5> shards;  // of 2, 3, 4, 8, 16
    };
    constexpr std::array<std::uint16_t, 5> kCounts{2, 3, 4, 8, 16};
    for (const Vector& v :
         {Vector{0x0, 0x63852afc, {1, 1, 1, 5, 5}}, Vector{0x1, 0x53075d44, {1, 0, 3, 7, 7}},
          Vector{0x2, 0xc61fa2f4, {1, 1, 3, 7, 15}},
          Vector{0x100000000, 0x3ad85688, {0, 1, 0, 0, 8}},
          Vector{0x100000, 0x3af90404, {1, 1, 1, 1, 9}},
          Vector{0x70030002a, 0x75ed3ed1, {1, 0, 1, 5, 13}},
          Vector{0xfffffffff423f, 0xc7de0406, {0, 1, 2, 6, 14}}}) {
        EXPECT_EQ(partition_hash(PartitionKey(v.key)), v.hash);
        for (std::size_t i = 0; i < kCounts.size(); ++i) {
            EXPECT_EQ(shard_of(PartitionKey(v.key), kCounts[i]).value(), v.shards[i]);
        }
    }
    EXPECT_EQ(shard_of(PartitionKey(77), 1), ShardIndex(0));
}

TEST(PrepareTest, RoundTripAndDamage) {
    PrepareHeader header{.parent = 1,
                         .operation = Operation::kCreateTopic,
                         .view = ViewNumber(2),
                         .op = OpNumber(3),
                         .commit = OpNumber(4),
                         .timestamp = Timestamp(5),
                         .group = 6,
                         .client = kClient,
                         .session = SessionId(7),
                         .request = RequestNumber(8),
                         .request_checksum = 9,
                         .user = model::UserId(10)};
    std::vector<std::byte> bytes(kPrepareHeaderSize);
    encode_prepare_header(bytes, header, as_bytes("body"));
    EXPECT_EQ(header.size, 260U);
    const auto decoded = decode_prepare_header(bytes);
    ASSERT_TRUE(decoded.has_value());
    EXPECT_TRUE(*decoded == header);
    EXPECT_TRUE(prepare_body_matches(*decoded, as_bytes("body")));
    EXPECT_FALSE(prepare_body_matches(*decoded, as_bytes("bodY")));
    EXPECT_FALSE(prepare_body_matches(*decoded, as_bytes("bod")));
    EXPECT_FALSE(decode_prepare_header(ConstBytes(bytes).first(255)).has_value());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] ^= std::byte{0x10};
        EXPECT_FALSE(decode_prepare_header(bytes).has_value()) << i;
        bytes[i] ^= std::byte{0x10};
    }
    std::vector<std::byte> zeros(kPrepareHeaderSize);
    EXPECT_FALSE(decode_prepare_header(zeros).has_value());
}

}  // namespace
}  // namespace galgo::wire

// Fuzzes a whole frame: the three header shapes, and the body by the decoder that its operation and
// code choose. Laws: nothing crashes; what decodes encodes to bytes that decode again to the same
// bytes.
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "wire/command_table.hpp"
#include "wire/header.hpp"
#include "wire/message_requests.hpp"
#include "wire/prepare.hpp"
#include "wire/reply_decoders.hpp"
#include "wire/requests.hpp"

namespace galgo::wire {
namespace {

bool same(ConstBytes left, ConstBytes right) {
    return left.size() == right.size() &&
           std::equal(left.begin(), left.end(), right.begin(), right.end());
}

template <class T>
void round_trip(ConstBytes body) {
    const auto decoded = T::decode(body);
    if (!decoded) {
        GALGO_CHECK(decoded.error().code == ErrorCode::kInvalidCommand);
        return;
    }
    ByteWriter first;
    decoded->encode(first);
    const auto again = T::decode(first.bytes());
    GALGO_CHECK(again.has_value());
    ByteWriter second;
    again->encode(second);
    GALGO_CHECK(same(first.bytes(), second.bytes()));
}

void decode_body(CommandCode code, ConstBytes body) {
    using enum CommandCode;
    switch (code) {
        case kGetSnapshot:
            return round_trip<GetSnapshotRequest>(body);
        case kDescribeOptions:
            return round_trip<DescribeOptionsRequest>(body);
        case kAttachConsumerSession:
            return round_trip<AttachConsumerSessionRequest>(body);
        case kGetClient:
            return round_trip<GetClientRequest>(body);
        case kGetUser:
        case kDeleteUser:
            return round_trip<UserRequest>(body);
        case kCreateUser:
            return round_trip<CreateUserRequest>(body);
        case kUpdateUser:
            return round_trip<UpdateUserRequest>(body);
        case kUpdatePermissions:
            return round_trip<UpdatePermissionsRequest>(body);
        case kChangePassword:
            return round_trip<ChangePasswordRequest>(body);
        case kLoginRegister:
            round_trip<TokenLoginRequest>(body);
            return round_trip<LoginRequest>(body);
        case kCreatePersonalAccessToken:
            return round_trip<CreateTokenRequest>(body);
        case kDeletePersonalAccessToken:
            return round_trip<DeleteTokenRequest>(body);
        case kPollMessages:
        case kGetPollRouting:
        case kPollMessagesOnPrimary:
            return round_trip<PollMessagesRequest>(body);
        case kSendMessages:
            if (const auto send = SendMessagesRequest::decode(body)) {
                GALGO_CHECK(send->batch_position + send->batch.size() == body.size());
                (void)BatchView::validate(send->batch);
            }
            return;
        case kFlushUnsavedBuffer:
            return round_trip<FlushUnsavedBufferRequest>(body);
        case kGetConsumerOffset:
        case kGetConsumerOffsetRouting:
            return round_trip<GetConsumerOffsetRequest>(body);
        case kStoreConsumerOffset:
            return round_trip<StoreConsumerOffsetRequest>(body);
        case kDeleteConsumerOffset:
            return round_trip<DeleteConsumerOffsetRequest>(body);
        case kGetStream:
        case kDeleteStream:
        case kPurgeStream:
        case kGetTopics:
            return round_trip<StreamRequest>(body);
        case kCreateStream:
            return round_trip<CreateStreamRequest>(body);
        case kUpdateStream:
            return round_trip<UpdateStreamRequest>(body);
        case kGetTopic:
        case kDeleteTopic:
        case kPurgeTopic:
        case kGetConsumerGroups:
            return round_trip<TopicRequest>(body);
        case kCreateTopic:
            return round_trip<CreateTopicRequest>(body);
        case kUpdateTopic:
            return round_trip<UpdateTopicRequest>(body);
        case kCreatePartitions:
        case kDeletePartitions:
            return round_trip<PartitionsRequest>(body);
        case kDeleteSegments:
            return round_trip<DeleteSegmentsRequest>(body);
        case kCreateConsumerGroup:
            return round_trip<CreateGroupRequest>(body);
        case kGetConsumerGroup:
        case kDeleteConsumerGroup:
        case kJoinConsumerGroup:
        case kLeaveConsumerGroup:
        case kSyncConsumerGroup:
            return round_trip<GroupRequest>(body);
        default:
            return;
    }
}

void decode_reply(ConstBytes frame) {
    const auto header = decode_reply_header(frame);
    if (!header) {
        return;
    }
    const auto payload = reply_payload(*header, frame.subspan(kHeaderSize));
    if (!payload) {
        return;
    }
    (void)decode_login_reply(*payload);
    (void)decode_stream(*payload);
    (void)decode_topic_details(*payload);
    (void)decode_send_confirmation(*payload);
    (void)decode_consumer_offset(*payload);
    (void)decode_sync_reply(*payload);
}

void run(ConstBytes frame) {
    if (frame.size() < kHeaderSize) {
        return;
    }
    const ConstBytes bytes = frame.first(kHeaderSize);
    const ConstBytes body = frame.subspan(kHeaderSize);
    (void)decode_prepare_header(bytes);
    (void)decode_eviction(bytes);
    decode_reply(frame);
    const DecodedRequestHeader decoded = decode_request_header(bytes, kMaxFrameBytesDefault);
    if (decoded.fault != HeaderFault::kNone) {
        return;
    }
    std::array<std::byte, kHeaderSize> encoded{};
    encode_request_header(encoded, decoded.header);
    GALGO_CHECK(decode_request_header(encoded, kMaxFrameBytesDefault).fault == HeaderFault::kNone);
    if (decoded.header.operation == Operation::kNonReplicated) {
        decode_body(decoded.header.code, body);
    } else if (const CommandRow* row = find_command(decoded.header.operation)) {
        decode_body(row->code, body);
    }
}

}  // namespace
}  // namespace galgo::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    galgo::wire::run(std::as_bytes(std::span(data, size)));
    return 0;
}

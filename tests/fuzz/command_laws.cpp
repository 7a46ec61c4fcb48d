// The laws of request bodies.
#include "command_laws.hpp"

#include <algorithm>
#include <type_traits>

#include "base/check.hpp"
#include "metadata/apply.hpp"
#include "metadata/operation.hpp"
#include "wire/batch.hpp"
#include "wire/command_table.hpp"
#include "wire/message_requests.hpp"
#include "wire/requests.hpp"

namespace galgo::wire {
namespace {

bool same(ConstBytes left, ConstBytes right) {
    return left.size() == right.size() &&
           std::equal(left.begin(), left.end(), right.begin(), right.end());
}

bool begins_with(ConstBytes bytes, ConstBytes begin) {
    return bytes.size() >= begin.size() && same(bytes.first(begin.size()), begin);
}

template <class T, class... Types>
constexpr bool kIsOneOf = (std::is_same_v<T, Types> || ...);

/// The others are lenient: permissions have several encodings of the same rights, some fields count
/// only when another one says so, and a flag has 255 ways to be set.
template <class T>
constexpr bool kHasOneEncoding =
    !kIsOneOf<T, CreateUserRequest, UpdateUserRequest, UpdatePermissionsRequest,
              PollMessagesRequest, GetConsumerOffsetRequest, StoreConsumerOffsetRequest,
              DeleteConsumerOffsetRequest, FlushUnsavedBufferRequest>;

/// Always true, so that decode_body can return it.
template <class T>
bool round_trip(ConstBytes body) {
    const auto decoded = T::decode(body);
    if (!decoded) {
        GALGO_CHECK(decoded.error().code == ErrorCode::kInvalidCommand);
        return true;
    }
    ByteWriter first;
    decoded->encode(first);
    if (kHasOneEncoding<T>) {
        GALGO_CHECK(begins_with(body, first.bytes()));
    }
    const auto again = T::decode(first.bytes());
    GALGO_CHECK(again.has_value());
    ByteWriter second;
    again->encode(second);
    GALGO_CHECK(same(first.bytes(), second.bytes()));
    return true;
}

/// False: no decoder is known for the code.
bool decode_body(CommandCode code, ConstBytes body) {
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
        case kLoginRegisterWithPersonalAccessToken:
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
                ByteWriter metadata;
                send->encode_metadata(metadata);
                GALGO_CHECK(same(metadata.bytes(), body.first(send->batch_position)));
                (void)BatchView::validate(send->batch);
            }
            return true;
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
        case kPing:
        case kGetStats:
        case kGetClusterMetadata:
        case kGetMe:
        case kGetClients:
        case kGetUsers:
        case kLoginUser:
        case kLogoutUser:
        case kGetPersonalAccessTokens:
        case kLoginWithPersonalAccessToken:
        case kGetStreams:
            return true;  // no body, or refused unread
    }
    return false;
}

/// Does the log keep the body byte for byte, if nothing is behind its last field?
bool is_logged_as_it_is(Operation operation) {
    switch (operation) {
        case Operation::kCreateTopic:        // options are resolved
        case Operation::kUpdateUser:         // lenient, see kHasOneEncoding
        case Operation::kUpdatePermissions:  // lenient
            return false;
        default:
            return !metadata::carries_secret(operation);
    }
}

/// What enters the metadata log: the body, bounded; without a secret, and none without its Sealed.
void check_admission(Operation operation, ConstBytes body) {
    const metadata::State state;
    const metadata::Sealed sealed{
        .password_hash = "new hash", .verified_hash = "old hash", .token_hash = {}};
    const auto admitted =
        metadata::admit(state, {.operation = operation, .body = body, .sealed = &sealed});
    if (metadata::carries_secret(operation)) {
        GALGO_CHECK(!metadata::admit(state, {.operation = operation, .body = body}).has_value());
    }
    if (!admitted) {
        return;
    }
    GALGO_CHECK(static_cast<std::uint8_t>(admitted->operation) ==
                static_cast<std::uint8_t>(operation));
    GALGO_CHECK(!is_logged_as_it_is(operation) || begins_with(body, admitted->body));
    metadata::State applied;
    metadata::PartitionStatsRegistry registry;
    const auto outcome = metadata::apply(applied, registry,
                                         {.operation = admitted->operation,
                                          .op = OpNumber(1),
                                          .timestamp = Timestamp(1),
                                          .user = model::kRootUserId,
                                          .body = admitted->body});
    // What is admitted can be read when it is applied.
    GALGO_CHECK(outcome.result != ErrorCode::kInvalidCommand);
}

}  // namespace

void check_command(CommandCode code, ConstBytes body) {
    const CommandRow* row = find_command(code);
    GALGO_CHECK(decode_body(code, body) == (row != nullptr));
    if (row != nullptr && row->kind == CommandKind::kMetadata) {
        check_admission(row->operation, body);
    }
}

}  // namespace galgo::wire

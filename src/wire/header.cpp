// Codec of the frame headers.
#include "wire/header.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "wire/detail/header_layout.hpp"

namespace galgo::wire {
namespace {

using namespace detail;

void encode_common(MutableBytes to, Command command, std::uint32_t size) noexcept {
    GALGO_CHECK(to.size() == kHeaderSize);
    GALGO_CHECK(size >= kHeaderSize);
    std::ranges::fill(to, std::byte{0});
    store<std::uint32_t>(to, kSize, size);
    store<std::uint8_t>(to, kCommand, static_cast<std::uint8_t>(command));
}

HeaderFault check_request(const RequestHeader& header, std::uint8_t command,
                          std::uint32_t max_frame_bytes) noexcept {
    if (header.size < kHeaderSize || header.size > max_frame_bytes) {
        return HeaderFault::kSize;
    }
    if (command != static_cast<std::uint8_t>(Command::kRequest)) {
        return HeaderFault::kCommand;
    }
    if (!is_known_operation(header.operation)) {
        return HeaderFault::kUnknownOperation;
    }
    if (is_internal_operation(header.operation)) {
        return HeaderFault::kInternalOperation;
    }
    if (header.client.value() == 0) {
        return HeaderFault::kClientZero;
    }
    const bool has_session = header.session.value() != 0;
    const bool has_request = header.request.value() != 0;
    if (header.operation == Operation::kRegister) {
        return has_session || has_request ? HeaderFault::kSessionOrRequest : HeaderFault::kNone;
    }
    if (header.operation != Operation::kNonReplicated && !(has_session && has_request)) {
        return HeaderFault::kSessionOrRequest;
    }
    return HeaderFault::kNone;
}

}  // namespace

DecodedRequestHeader decode_request_header(ConstBytes bytes,
                                           std::uint32_t max_frame_bytes) noexcept {
    GALGO_CHECK(bytes.size() == kHeaderSize);
    DecodedRequestHeader decoded;
    RequestHeader& header = decoded.header;
    header.size = load<std::uint32_t>(bytes, kSize);
    header.operation = static_cast<Operation>(load<std::uint8_t>(bytes, request::kOperation));
    header.code = static_cast<CommandCode>(load<std::uint32_t>(bytes, request::kCode));
    header.client = ClientId(load<u128>(bytes, request::kClient));
    header.session = SessionId(load<std::uint64_t>(bytes, request::kSession));
    header.request = RequestNumber(load<std::uint64_t>(bytes, request::kRequest));
    header.request_checksum = load<u128>(bytes, request::kRequestChecksum);
    header.cluster = load<u128>(bytes, kCluster);
    header.timestamp = load<std::uint64_t>(bytes, request::kTimestamp);
    header.user_id = load<std::uint32_t>(bytes, request::kUserId);
    decoded.fault = check_request(header, load<std::uint8_t>(bytes, kCommand), max_frame_bytes);
    return decoded;
}

void encode_request_header(MutableBytes to, const RequestHeader& header) noexcept {
    encode_common(to, Command::kRequest, header.size);
    store<u128>(to, kCluster, header.cluster);
    store<u128>(to, request::kClient, header.client.value());
    store<u128>(to, request::kRequestChecksum, header.request_checksum);
    store<std::uint64_t>(to, request::kTimestamp, header.timestamp);
    store<std::uint64_t>(to, request::kRequest, header.request.value());
    store<std::uint8_t>(to, request::kOperation, static_cast<std::uint8_t>(header.operation));
    store<std::uint64_t>(to, request::kSession, header.session.value());
    store<std::uint32_t>(to, request::kUserId, header.user_id);
    if (header.operation == Operation::kNonReplicated) {
        store<std::uint32_t>(to, request::kCode, static_cast<std::uint32_t>(header.code));
    }
}

ReplyHeader reply_to(const RequestHeader& request) noexcept {
    return ReplyHeader{.operation = request.operation,
                       .client = request.client,
                       .request = request.request,
                       .request_checksum = request.request_checksum,
                       .cluster = request.cluster,
                       .timestamp = request.timestamp};
}

void encode_reply_header(MutableBytes to, const ReplyHeader& header) noexcept {
    GALGO_DCHECK(header.status == ErrorCode::kOk || header.size == kHeaderSize);
    encode_common(to, Command::kReply, header.size);
    store<u128>(to, kCluster, header.cluster);
    store<std::uint32_t>(to, kView, header.view);
    store<std::uint8_t>(to, kReplica, header.replica);
    store<u128>(to, reply::kRequestChecksum, header.request_checksum);
    store<u128>(to, reply::kClient, header.client.value());
    store<std::uint64_t>(to, reply::kOp, header.op);
    store<std::uint64_t>(to, reply::kCommit, header.commit);
    store<std::uint64_t>(to, reply::kTimestamp, header.timestamp);
    store<std::uint64_t>(to, reply::kRequest, header.request.value());
    store<std::uint8_t>(to, reply::kOperation, static_cast<std::uint8_t>(header.operation));
    store<std::uint32_t>(to, reply::kStatus, static_cast<std::uint32_t>(header.status));
}

void encode_eviction(MutableBytes to, const EvictionHeader& eviction) noexcept {
    encode_common(to, Command::kEviction, static_cast<std::uint32_t>(kHeaderSize));
    store<u128>(to, eviction::kClient, eviction.client.value());
    store<std::uint32_t>(to, eviction::kVersionMax, eviction.version_max);
    store<std::uint32_t>(to, eviction::kVersionMin, eviction.version_min);
    store<std::uint8_t>(to, eviction::kReason, static_cast<std::uint8_t>(eviction.reason));
}

ErrorCode eviction_error(EvictionReason reason) noexcept {
    switch (reason) {
        case EvictionReason::kClientReleaseTooLow:
        case EvictionReason::kClientReleaseTooHigh:
        case EvictionReason::kInvalidRequestOperation:
        case EvictionReason::kInvalidRequestBody:
        case EvictionReason::kInvalidRequestBodySize:
            return ErrorCode::kInvalidCommand;
        case EvictionReason::kInvalidCredentials:
            return ErrorCode::kInvalidCredentials;
        case EvictionReason::kInvalidToken:
            return ErrorCode::kInvalidPersonalAccessToken;
        case EvictionReason::kStaleClient:
            return ErrorCode::kStaleClient;
        case EvictionReason::kIncompatibleProtocol:
            return ErrorCode::kIncompatibleProtocolVersion;
        case EvictionReason::kMalformedLogin:
            return ErrorCode::kInvalidFormat;
        case EvictionReason::kNoSession:
        case EvictionReason::kSessionTooLow:
        case EvictionReason::kSessionReleaseMismatch:
        case EvictionReason::kUserInactive:
        case EvictionReason::kSessionError:
            return ErrorCode::kUnauthenticated;
    }
    return ErrorCode::kUnauthenticated;
}

Command header_command(ConstBytes bytes) noexcept {
    GALGO_CHECK(bytes.size() >= kHeaderSize);
    return static_cast<Command>(load<std::uint8_t>(bytes, kCommand));
}

Result<ReplyHeader> decode_reply_header(ConstBytes bytes) noexcept {
    GALGO_CHECK(bytes.size() >= kHeaderSize);
    ReplyHeader header{
        .size = load<std::uint32_t>(bytes, kSize),
        .operation = static_cast<Operation>(load<std::uint8_t>(bytes, reply::kOperation)),
        .status = static_cast<ErrorCode>(load<std::uint32_t>(bytes, reply::kStatus)),
        .client = ClientId(load<u128>(bytes, reply::kClient)),
        .request = RequestNumber(load<std::uint64_t>(bytes, reply::kRequest)),
        .request_checksum = load<u128>(bytes, reply::kRequestChecksum),
        .cluster = load<u128>(bytes, kCluster),
        .op = load<std::uint64_t>(bytes, reply::kOp),
        .commit = load<std::uint64_t>(bytes, reply::kCommit),
        .timestamp = load<std::uint64_t>(bytes, reply::kTimestamp),
        .view = load<std::uint32_t>(bytes, kView),
        .replica = load<std::uint8_t>(bytes, kReplica)};
    if (header_command(bytes) != Command::kReply || header.size < kHeaderSize ||
        !is_known_operation(header.operation)) {
        return fail(ErrorCode::kInvalidCommand);
    }
    return header;
}

Result<EvictionHeader> decode_eviction(ConstBytes bytes) noexcept {
    GALGO_CHECK(bytes.size() >= kHeaderSize);
    if (header_command(bytes) != Command::kEviction) {
        return fail(ErrorCode::kInvalidCommand);
    }
    return EvictionHeader{
        .client = ClientId(load<u128>(bytes, eviction::kClient)),
        .reason = static_cast<EvictionReason>(load<std::uint8_t>(bytes, eviction::kReason)),
        .version_max = load<std::uint32_t>(bytes, eviction::kVersionMax),
        .version_min = load<std::uint32_t>(bytes, eviction::kVersionMin)};
}

}  // namespace galgo::wire

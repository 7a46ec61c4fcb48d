#include "metadata/operation.hpp"

#include <utility>

#include "metadata/detail/log_bodies.hpp"
#include "wire/primitives.hpp"
#include "wire/requests.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::metadata {
namespace {

Status admit_partition_count(std::uint32_t count, std::uint32_t count_min) noexcept {
    if (count < count_min || count > model::kPartitionsPerRequestMax) {
        return fail(ErrorCode::kTooManyPartitions, count);
    }
    return {};
}

Result<std::vector<std::byte>> admit_create_topic(ConstBytes body) {
    GALGO_TRY_ASSIGN(const auto request, wire::CreateTopicRequest::decode(body));
    GALGO_TRY(admit_partition_count(request.partitions_count, 0));
    GALGO_TRY_ASSIGN(const auto options,
                     wire::resolve_topic_options(request.options, request.partitions_count));
    return detail::encode_create_topic({.stream = request.stream,
                                        .partition_count = request.partitions_count,
                                        .name = request.name,
                                        .explicit_block = options.explicit_block,
                                        .derived_block = options.derived_block});
}

/// Checks what does not depend on the state. Ok: the client's body may enter the log as it is.
Status check_body(wire::Operation operation, ConstBytes body) {
    switch (operation) {
        case wire::Operation::kCreateStream: {
            GALGO_TRY_ASSIGN(const auto request, wire::CreateStreamRequest::decode(body));
            return wire::refuse_options(request.options);
        }
        case wire::Operation::kUpdateStream: {
            GALGO_TRY_ASSIGN(const auto request, wire::UpdateStreamRequest::decode(body));
            return wire::refuse_options(request.options);
        }
        case wire::Operation::kDeleteStream:
        case wire::Operation::kPurgeStream:
            GALGO_TRY(wire::StreamRequest::decode(body));
            return {};
        case wire::Operation::kUpdateTopic: {
            GALGO_TRY_ASSIGN(const auto request, wire::UpdateTopicRequest::decode(body));
            return wire::validate_topic_update(request.options);
        }
        case wire::Operation::kDeleteTopic:
        case wire::Operation::kPurgeTopic:
            GALGO_TRY(wire::TopicRequest::decode(body));
            return {};
        case wire::Operation::kCreatePartitions:
        case wire::Operation::kDeletePartitions: {
            GALGO_TRY_ASSIGN(const auto request, wire::PartitionsRequest::decode(body));
            return admit_partition_count(request.partitions_count, 1);
        }
        case wire::Operation::kCreateConsumerGroup:
            GALGO_TRY(wire::CreateGroupRequest::decode(body));
            return {};
        case wire::Operation::kDeleteConsumerGroup:
        case wire::Operation::kJoinConsumerGroup:
        case wire::Operation::kLeaveConsumerGroup:
            GALGO_TRY(wire::GroupRequest::decode(body));
            return {};
        default:
            return fail(ErrorCode::kFeatureUnavailable);
    }
}

}  // namespace

Result<Admitted> admit(const Command& command) {
    const LogOperation operation{static_cast<std::uint8_t>(command.operation)};
    if (command.operation == wire::Operation::kCreateTopic) {
        GALGO_TRY_ASSIGN(auto body, admit_create_topic(command.body));
        return Admitted{.operation = operation, .body = std::move(body)};
    }
    GALGO_TRY(check_body(command.operation, command.body));
    return Admitted{.operation = operation, .body = {command.body.begin(), command.body.end()}};
}

Admitted make_register(model::UserId user) {
    ByteWriter body;
    body.put<std::uint32_t>(user.value());
    return {.operation = LogOperation::kRegister, .body = std::move(body).take()};
}

Admitted make_logout() {
    return {.operation = LogOperation::kLogout, .body = {}};
}

Admitted make_reset_sessions() {
    return {.operation = LogOperation::kResetSessions, .body = {}};
}

Admitted make_create_root(std::string_view name, std::string_view password_hash) {
    ByteWriter body;
    wire::put_name(body, name);
    wire::put_str32(body, password_hash);
    return {.operation = LogOperation::kCreateRoot, .body = std::move(body).take()};
}

PrepareView view_prepare(const wire::PrepareHeader& header, ConstBytes body) noexcept {
    return PrepareView{.operation = LogOperation{static_cast<std::uint8_t>(header.operation)},
                       .op = header.op,
                       .timestamp = header.timestamp,
                       .client = header.client,
                       .session = header.session,
                       .request = header.request,
                       .request_checksum = header.request_checksum,
                       .user = header.user,
                       .body = body};
}

}  // namespace galgo::metadata

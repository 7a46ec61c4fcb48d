#include "metadata/operation.hpp"

#include <utility>

#include "base/check.hpp"
#include "crypto/sha256.hpp"
#include "metadata/authorise.hpp"
#include "metadata/detail/log_bodies.hpp"
#include "wire/permissions.hpp"
#include "wire/primitives.hpp"
#include "wire/requests.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::metadata {
namespace {

using Body = std::vector<std::byte>;

template <class Request>
Body encoded(const Request& request) {
    ByteWriter to;
    request.encode(to);
    return std::move(to).take();
}

/// For requests without any bound of their own.
template <class Request>
Result<Body> admit_plain(ConstBytes body) {
    GALGO_TRY_ASSIGN(const auto request, Request::decode(body));
    return encoded(request);
}

/// For requests whose resource has no options.
template <class Request>
Result<Body> admit_without_options(ConstBytes body) {
    GALGO_TRY_ASSIGN(const auto request, Request::decode(body));
    GALGO_TRY(wire::refuse_options(request.options));
    return encoded(request);
}

Status admit_partition_count(std::uint32_t count, std::uint32_t count_min) noexcept {
    if (count < count_min || count > model::kPartitionsPerRequestMax) {
        return fail(ErrorCode::kTooManyPartitions, count);
    }
    return {};
}

Result<Body> admit_create_topic(ConstBytes body) {
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

Result<Body> admit_update_topic(ConstBytes body) {
    GALGO_TRY_ASSIGN(const auto request, wire::UpdateTopicRequest::decode(body));
    GALGO_TRY(wire::validate_topic_update(request.options));
    return encoded(request);
}

Result<Body> admit_partitions(ConstBytes body) {
    GALGO_TRY_ASSIGN(const auto request, wire::PartitionsRequest::decode(body));
    GALGO_TRY(admit_partition_count(request.partitions_count, 1));
    return encoded(request);
}

/// A password that no login would accept is not set in the first place.
Status admit_password(std::string_view password) noexcept {
    if (!model::is_legal_password(password)) {
        return fail(ErrorCode::kInvalidPassword);
    }
    return {};
}

/// A record of permissions may be long: only for those who manage users it is decoded at all.
Status admit_permissions(const State& state, const Command& command) noexcept {
    if (!state.allows(command.user, model::Rule::kUsersManage)) {
        return fail(ErrorCode::kUnauthorized);
    }
    if (command.body.size() > kUserBodyBytesMax) {
        return fail(ErrorCode::kInvalidCommand);
    }
    return {};
}

Result<Body> admit_create_user(const State& state, const Command& command) {
    GALGO_TRY(admit_permissions(state, command));
    GALGO_TRY_ASSIGN(const auto request, wire::CreateUserRequest::decode(command.body));
    GALGO_TRY(wire::refuse_options(request.options));
    GALGO_TRY(admit_password(request.password));
    const Sealed& sealed = *command.sealed;
    if (sealed.password_hash.empty()) {  // the right came after the edge had looked
        return fail(ErrorCode::kTransientNotAccepted);
    }
    ByteWriter permissions;
    if (request.permissions.has_value()) {
        wire::put_permissions(permissions, *request.permissions);
    }
    return detail::encode_create_user({.name = request.username,
                                       .password_hash = sealed.password_hash,
                                       .status = request.status,
                                       .permissions = permissions.bytes()});
}

Result<Body> admit_update_permissions(const State& state, const Command& command) {
    GALGO_TRY(admit_permissions(state, command));
    return admit_plain<wire::UpdatePermissionsRequest>(command.body);
}

Result<Body> admit_change_password(const State& state, const Command& command) {
    GALGO_TRY_ASSIGN(const auto request, wire::ChangePasswordRequest::decode(command.body));
    GALGO_TRY(admit_password(request.new_password));
    const Sealed& sealed = *command.sealed;
    if (const User* user = state.find_user(request.user);
        user != nullptr && sealed.verified_hash.empty()) {
        GALGO_TRY(authorise(state, command.user, command.operation, {.user = user->id}));
        // The user came, or the right, after the edge had looked.
        return fail(ErrorCode::kTransientNotAccepted);
    }
    return detail::encode_change_password({.user = request.user,
                                           .verified_hash = sealed.verified_hash,
                                           .password_hash = sealed.password_hash});
}

/// How many tokens there are is not looked at: that depends on what has expired, and so on the
/// stamp of the prepare.
Result<Body> admit_create_token(const Command& command) {
    GALGO_TRY_ASSIGN(const auto request, wire::CreateTokenRequest::decode(command.body));
    return detail::encode_create_token({.name = request.name,
                                        .lifetime_us = request.expiry_us,
                                        .tokens_max = command.tokens_per_user_max,
                                        .hash = command.sealed->token_hash});
}

Result<Body> admit_body(const State& state, const Command& command) {
    const ConstBytes body = command.body;
    switch (command.operation) {
        case wire::Operation::kCreateStream:
            return admit_without_options<wire::CreateStreamRequest>(body);
        case wire::Operation::kUpdateStream:
            return admit_without_options<wire::UpdateStreamRequest>(body);
        case wire::Operation::kDeleteStream:
        case wire::Operation::kPurgeStream:
            return admit_plain<wire::StreamRequest>(body);
        case wire::Operation::kCreateTopic:
            return admit_create_topic(body);
        case wire::Operation::kUpdateTopic:
            return admit_update_topic(body);
        case wire::Operation::kDeleteTopic:
        case wire::Operation::kPurgeTopic:
            return admit_plain<wire::TopicRequest>(body);
        case wire::Operation::kCreatePartitions:
        case wire::Operation::kDeletePartitions:
            return admit_partitions(body);
        case wire::Operation::kCreateConsumerGroup:
            return admit_plain<wire::CreateGroupRequest>(body);
        case wire::Operation::kDeleteConsumerGroup:
        case wire::Operation::kJoinConsumerGroup:
        case wire::Operation::kLeaveConsumerGroup:
            return admit_plain<wire::GroupRequest>(body);
        case wire::Operation::kCreateUser:
            return admit_create_user(state, command);
        case wire::Operation::kUpdateUser:
            return admit_without_options<wire::UpdateUserRequest>(body);
        case wire::Operation::kDeleteUser:
            return admit_plain<wire::UserRequest>(body);
        case wire::Operation::kChangePassword:
            return admit_change_password(state, command);
        case wire::Operation::kUpdatePermissions:
            return admit_update_permissions(state, command);
        case wire::Operation::kCreatePersonalAccessToken:
            return admit_create_token(command);
        case wire::Operation::kDeletePersonalAccessToken:
            return admit_plain<wire::DeleteTokenRequest>(body);
        default:
            return fail(ErrorCode::kFeatureUnavailable);
    }
}

}  // namespace

Result<Admitted> admit(const State& state, const Command& command) {
    if (carries_secret(command.operation) && command.sealed == nullptr) {
        return fail(ErrorCode::kFeatureUnavailable);
    }
    GALGO_TRY_ASSIGN(auto body, admit_body(state, command));
    return Admitted{.operation = LogOperation{static_cast<std::uint8_t>(command.operation)},
                    .body = std::move(body),
                    .keeps_checksum = command.operation != wire::Operation::kCreateUser &&
                                      command.operation != wire::Operation::kChangePassword};
}

PasswordDigest digest_of_password(const User& user) noexcept {
    return crypto::sha256(as_bytes(user.password_hash));
}

Login login_by_password(const User& user) noexcept {
    return {.user = user.id,
            .user_created = user.created_op,
            .token = {},
            .password = digest_of_password(user)};
}

Admitted make_register(const Login& login) {
    GALGO_CHECK(login.token.has_value() || login.password.has_value());
    return {.operation = LogOperation::kRegister, .body = detail::encode_register(login)};
}

Admitted make_logout() {
    return {.operation = LogOperation::kLogout, .body = {}};
}

Admitted make_reset_sessions(std::uint32_t sessions_max) {
    GALGO_CHECK(sessions_max > 0);
    ByteWriter body;
    body.put<std::uint32_t>(sessions_max);
    return {.operation = LogOperation::kResetSessions, .body = std::move(body).take()};
}

Admitted make_expire_tokens(std::uint32_t count_max) {
    ByteWriter body;
    body.put<std::uint32_t>(count_max);
    return {.operation = LogOperation::kExpireTokens, .body = std::move(body).take()};
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

// Users and their access tokens. Where the right to manage users is needed it comes before the
// target: who lacks it does not learn which users exist. Two commands differ, as on the wire:
// ChangePassword here and GetUser (read_replies.cpp) need no right for oneself, so they look for
// the target first and tell everybody when there is none. Root (id 0) can be neither deleted nor
// restricted, so its id is never given to anybody else.
#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "metadata/detail/applier.hpp"
#include "metadata/detail/log_bodies.hpp"
#include "metadata/detail/records.hpp"
#include "wire/permissions.hpp"
#include "wire/requests.hpp"

namespace galgo::metadata {
namespace {

Status check_username(std::string_view name) noexcept {
    if (name.size() < model::kUsernameSizeMin || name.size() > model::kUsernameSizeMax) {
        return fail(ErrorCode::kInvalidUsername);
    }
    return {};
}

/// When a token of this lifetime ends. Error: kInvalidPersonalAccessTokenExpiry, beyond the end of
/// time.
Result<std::optional<Timestamp>> token_expiry(Timestamp now, std::uint64_t lifetime_us) noexcept {
    constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
    if (lifetime_us == 0 || lifetime_us == kMax) {
        return std::optional<Timestamp>();
    }
    if (lifetime_us > kMax - now.value()) {
        return fail(ErrorCode::kInvalidPersonalAccessTokenExpiry);
    }
    return now.plus(lifetime_us);
}

}  // namespace

Result<Applier::Payload> Applier::create_user() {
    GALGO_TRY_ASSIGN(const auto body, detail::decode_create_user(prepare_.body));
    GALGO_TRY(require(model::Rule::kUsersManage));
    GALGO_TRY(check_username(body.name));
    if (state_.user_names_.find(body.name).has_value()) {
        return fail(ErrorCode::kUserAlreadyExists);
    }
    const model::UserId id = state_.users_.vacant_id();
    if (id.value() >= kUserCountMax) {
        return fail(ErrorCode::kUsersLimitReached);
    }
    std::optional<model::Permissions> permissions;
    if (!body.permissions.empty()) {
        GALGO_TRY_ASSIGN(permissions, wire::decode_permissions(body.permissions));
    }
    const User& user = state_.users_.insert(User{.id = id,
                                                 .name = std::string(body.name),
                                                 .created_at = prepare_.timestamp,
                                                 .created_op = prepare_.op,
                                                 .status = body.status,
                                                 .password_hash = std::string(body.password_hash),
                                                 .permissions = std::move(permissions)});
    state_.user_names_.insert(body.name, id);
    changed({.kind = ChangeKind::kUserCreated, .user = id});
    return detail::user_details(user);
}

Result<Applier::Payload> Applier::update_user() {
    GALGO_TRY_ASSIGN(const auto request, wire::UpdateUserRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(User* const user, managed_user(request.user));
    if (request.username.has_value()) {
        GALGO_TRY(check_username(*request.username));
        const std::optional<model::UserId> bearer = state_.user_names_.find(*request.username);
        if (bearer.has_value() && *bearer != user->id) {
            return fail(ErrorCode::kUserAlreadyExists);
        }
        state_.user_names_.erase(user->name);
        user->name = *request.username;
        state_.user_names_.insert(*request.username, user->id);
    }
    if (request.status.has_value()) {
        user->status = *request.status;
        if (user->status == wire::UserStatus::kInactive) {
            end_sessions_of(user->id);
        }
    }
    changed({.kind = ChangeKind::kUserUpdated, .user = user->id});
    return Payload{};
}

Result<Applier::Payload> Applier::delete_user() {
    GALGO_TRY_ASSIGN(const auto request, wire::UserRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(User* const user, managed_user(request.user));
    if (user->id == model::kRootUserId) {
        return fail(ErrorCode::kCannotDeleteUser);
    }
    end_sessions_of(user->id);
    while (!user->tokens.empty()) {
        state_.erase_token(*user, user->tokens.begin()->first);
    }
    const model::UserId id = user->id;
    state_.user_names_.erase(user->name);
    state_.users_.erase(id);
    changed({.kind = ChangeKind::kUserDeleted, .user = id});
    return Payload{};
}

Result<Applier::Payload> Applier::update_permissions() {
    GALGO_TRY_ASSIGN(auto request, wire::UpdatePermissionsRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(User* const user, managed_user(request.user));
    if (user->id == model::kRootUserId) {
        return fail(ErrorCode::kCannotChangePermissions);
    }
    user->permissions = std::move(request.permissions);
    changed({.kind = ChangeKind::kUserUpdated, .user = user->id});
    return Payload{};
}

/// Anybody may change the own password. The verified hash makes it compare-and-swap: of two changes
/// that were verified against the same password the second one fails, and so does one whose user is
/// another by now. Whoever logged in with the old password (or a token) has to log in again, but
/// for the client that asks: it knows the new one, and its answer must reach it.
Result<Applier::Payload> Applier::change_password() {
    GALGO_TRY_ASSIGN(const auto body, detail::decode_change_password(prepare_.body));
    User* const user = state_.find_user_row(body.user);
    if (user == nullptr) {
        return fail(ErrorCode::kResourceNotFound);
    }
    if (user->id != prepare_.user || acting_user() == nullptr) {
        GALGO_TRY(require(model::Rule::kUsersManage));
    }
    if (body.password_hash.empty() || body.verified_hash != user->password_hash) {
        return fail(ErrorCode::kInvalidCredentials);
    }
    user->password_hash = body.password_hash;
    for (const ClientId client : state_.sessions_.clients_of(user->id)) {
        if (client != prepare_.client) {
            end_session(client);
        }
    }
    changed({.kind = ChangeKind::kUserUpdated, .user = user->id});
    return Payload{};
}

/// The payload is empty: the token is added at the edge, which alone knows it.
Result<Applier::Payload> Applier::create_token() {
    GALGO_TRY_ASSIGN(const auto body, detail::decode_create_token(prepare_.body));
    User* const user = acting_user();
    if (user == nullptr) {
        return fail(ErrorCode::kUnauthenticated);
    }
    // Tokens that have expired and were not removed yet are in nobody's way.
    const auto is_live = [&](const auto& token) {
        return !token.second.expired(prepare_.timestamp);
    };
    if (std::cmp_greater_equal(std::ranges::count_if(user->tokens, is_live), body.tokens_max)) {
        return fail(ErrorCode::kPersonalAccessTokensLimitReached);
    }
    const auto bearer = user->tokens.find(body.name);
    if ((bearer != user->tokens.end() && is_live(*bearer)) ||
        state_.token_hashes_.contains(body.hash)) {
        return fail(ErrorCode::kPersonalAccessTokenAlreadyExists);
    }
    GALGO_TRY_ASSIGN(const auto expiry_at, token_expiry(prepare_.timestamp, body.lifetime_us));
    erase_expired_tokens(*user);
    state_.insert_token(*user, body.name, {.hash = body.hash, .expiry_at = expiry_at});
    changed({.kind = ChangeKind::kTokensChanged, .user = user->id});
    return Payload{};
}

Result<Applier::Payload> Applier::delete_token() {
    GALGO_TRY_ASSIGN(const auto request, wire::DeleteTokenRequest::decode(prepare_.body));
    User* const user = acting_user();
    if (user == nullptr) {
        return fail(ErrorCode::kUnauthenticated);
    }
    if (!user->tokens.contains(request.name)) {
        return fail(ErrorCode::kResourceNotFound);
    }
    state_.erase_token(*user, request.name);
    changed({.kind = ChangeKind::kTokensChanged, .user = user->id});
    return Payload{};
}

Result<Applier::Payload> Applier::expire_tokens() {
    wire::FieldReader body(prepare_.body);
    const std::uint32_t count_max = body.u32();
    GALGO_TRY(body.finish(true));
    for (std::uint32_t i = 0; i < count_max && state_.has_expired_tokens(prepare_.timestamp); ++i) {
        const State::TokenAddress address = state_.token_expiries_.begin()->second;
        state_.erase_token(*state_.users_.find(address.user), address.name);
        changed({.kind = ChangeKind::kTokensChanged, .user = address.user});
    }
    return Payload{};
}

/// So that a user's rows stay within the bound, however late the server removes them.
void Applier::erase_expired_tokens(User& user) {
    for (auto token = user.tokens.begin(); token != user.tokens.end();) {
        const auto next = std::next(token);
        if (token->second.expired(prepare_.timestamp)) {
            state_.erase_token(user, token->first);
        }
        token = next;
    }
}

void Applier::end_sessions_of(model::UserId user) {
    for (const ClientId client : state_.sessions_.clients_of(user)) {
        end_session(client);
    }
}

Result<User*> Applier::managed_user(const wire::Identifier& id) {
    GALGO_TRY(require(model::Rule::kUsersManage));
    User* const user = state_.find_user_row(id);
    if (user == nullptr) {
        return fail(ErrorCode::kResourceNotFound);
    }
    return user;
}

}  // namespace galgo::metadata

#include "metadata/apply.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "metadata/client_table.hpp"
#include "metadata/detail/applier.hpp"
#include "metadata/detail/log_bodies.hpp"
#include "wire/header.hpp"
#include "wire/primitives.hpp"
#include "wire/replies.hpp"

namespace galgo::metadata {
namespace {

bool is_session_change(const Change& change) noexcept {
    return change.kind == ChangeKind::kSessionStarted || change.kind == ChangeKind::kSessionEnded;
}

/// Asked for by a client under its session (as opposed to login, logout and what the server
/// proposes).
bool is_client_operation(LogOperation operation) noexcept {
    return operation >= LogOperation::kCreateStream &&
           operation <= LogOperation::kLeaveConsumerGroup;
}

// wire: the root user of the reference server is created at this constant moment.
constexpr Timestamp kRootCreatedAt{1};

}  // namespace

ApplyOutcome apply(State& state, PartitionStatsRegistry& registry, const PrepareView& prepare) {
    return Applier(state, registry, prepare).run();
}

std::vector<std::byte> reply_body(LogOperation operation, const ApplyOutcome& outcome) {
    if (operation == LogOperation::kLogout) {
        return {};
    }
    if (outcome.result != ErrorCode::kOk) {
        const auto rejection = wire::rejection_body(outcome.result);
        return {rejection.begin(), rejection.end()};
    }
    std::vector<std::byte> body;
    body.reserve(wire::kResultOk.size() + outcome.payload.size());
    body.insert(body.end(), wire::kResultOk.begin(), wire::kResultOk.end());
    body.insert(body.end(), outcome.payload.begin(), outcome.payload.end());
    return body;
}

void record_commit(ClientTable& table, const PrepareView& prepare, const ApplyOutcome& outcome,
                   ConstBytes reply) {
    for (const Change& change : outcome.changes) {
        if (change.kind == ChangeKind::kSessionEnded) {
            table.end_session(change.client);
        } else if (change.kind == ChangeKind::kSessionStarted) {
            table.start_session(change.client, change.session, change.user);
        }
    }
    if (prepare.operation == LogOperation::kCreatePersonalAccessToken &&
        outcome.result == ErrorCode::kOk) {
        // wire: nobody can show the token a second time, so a repetition finds that it exists.
        const auto exists = wire::rejection_body(ErrorCode::kPersonalAccessTokenAlreadyExists);
        table.record(prepare.client, prepare.session, prepare.request, prepare.operation,
                     prepare.request_checksum, prepare.op, exists);
    } else if (is_client_operation(prepare.operation)) {
        table.record(prepare.client, prepare.session, prepare.request, prepare.operation,
                     prepare.request_checksum, prepare.op, reply);
    }
}

bool may_be_logged(const ClientTable& table, const PrepareView& prepare) noexcept {
    using Verdict = ClientTable::Verdict;
    const Verdict verdict = table
                                .classify(prepare.client, prepare.session, prepare.request,
                                          prepare.operation, prepare.request_checksum)
                                .verdict;
    // Its session may have ended while it was on its way.
    return !is_client_operation(prepare.operation) || verdict == Verdict::kExecute ||
           verdict == Verdict::kNoSession || verdict == Verdict::kSessionTooLow;
}

ApplyOutcome Applier::run() {
    // Numbers of appends that failed are not used again, so the log may have gaps.
    GALGO_CHECK(prepare_.op > state_.op_);
    state_.op_ = prepare_.op;
    Result<Payload> result = execute();
    if (!result.has_value()) {
        GALGO_CHECK(changes_.empty());
    }
    if (!std::ranges::all_of(changes_, is_session_change)) {
        state_.metadata_revision_ = prepare_.op;
    }
    const Session* session = state_.sessions_.find(prepare_.client);
    if (is_client_operation(prepare_.operation) && session != nullptr &&
        session->epoch == prepare_.session) {
        state_.sessions_.touch(prepare_.client, prepare_.op);
    }
    ApplyOutcome outcome;
    if (result.has_value()) {
        outcome.payload = *std::move(result);
        outcome.changes = std::move(changes_);
    } else {
        outcome.result = result.error().code;
    }
    return outcome;
}

Result<Applier::Payload> Applier::execute() {
    switch (prepare_.operation) {
        case LogOperation::kRegister:
            return register_client();
        case LogOperation::kLogout:
            return logout();
        case LogOperation::kCreateStream:
            return create_stream();
        case LogOperation::kUpdateStream:
            return update_stream();
        case LogOperation::kDeleteStream:
            return delete_stream();
        case LogOperation::kPurgeStream:
            return purge_stream();
        case LogOperation::kCreateTopic:
            return create_topic();
        case LogOperation::kUpdateTopic:
            return update_topic();
        case LogOperation::kDeleteTopic:
            return delete_topic();
        case LogOperation::kPurgeTopic:
            return purge_topic();
        case LogOperation::kCreatePartitions:
            return create_partitions();
        case LogOperation::kDeletePartitions:
            return delete_partitions();
        case LogOperation::kCreateConsumerGroup:
            return create_group();
        case LogOperation::kDeleteConsumerGroup:
            return delete_group();
        case LogOperation::kJoinConsumerGroup:
            return join_group();
        case LogOperation::kLeaveConsumerGroup:
            return leave_group();
        case LogOperation::kCreateUser:
            return create_user();
        case LogOperation::kUpdateUser:
            return update_user();
        case LogOperation::kDeleteUser:
            return delete_user();
        case LogOperation::kChangePassword:
            return change_password();
        case LogOperation::kUpdatePermissions:
            return update_permissions();
        case LogOperation::kCreatePersonalAccessToken:
            return create_token();
        case LogOperation::kDeletePersonalAccessToken:
            return delete_token();
        case LogOperation::kCreateRoot:
            return create_root();
        case LogOperation::kExpireTokens:
            return expire_tokens();
        case LogOperation::kResetSessions:
            return reset_sessions();
    }
    return fail(ErrorCode::kInvalidCommand);  // a number from a foreign log
}

Result<Applier::Payload> Applier::register_client() {
    GALGO_TRY_ASSIGN(const auto body, detail::decode_register(prepare_.body));
    const model::UserId user_id = body.user;
    const User* user = state_.users_.find(user_id);
    if (user == nullptr || user->status != wire::UserStatus::kActive ||
        body.user_created.value_or(user->created_op) != user->created_op) {
        // Gone since the credentials were checked.
        return fail(body.token.has_value() ? ErrorCode::kInvalidPersonalAccessToken
                                           : ErrorCode::kInvalidCredentials);
    }
    if (body.password.has_value() && *body.password != digest_of_password(*user)) {
        return fail(ErrorCode::kInvalidCredentials);  // changed since it was shown
    }
    if (body.token.has_value()) {
        const std::optional<TokenRow> row = state_.find_token(*body.token);
        if (!row.has_value() || row->user.id != user_id || row->token.expired(prepare_.timestamp)) {
            return fail(ErrorCode::kInvalidPersonalAccessToken);
        }
    }
    if (const Session* known = state_.sessions_.find(prepare_.client); known != nullptr) {
        if (known->user != user_id) {
            return fail(ErrorCode::kUnauthenticated);  // nobody ends another user's session
        }
        end_session(prepare_.client);
    }
    while (const std::optional<ClientId> oldest = state_.sessions_.next_evicted()) {
        end_session(*oldest);
    }
    const SessionId epoch(prepare_.op.value());
    state_.sessions_.start(prepare_.client,
                           {.epoch = epoch, .user = user_id, .last_commit = prepare_.op});
    changed({.kind = ChangeKind::kSessionStarted,
             .client = prepare_.client,
             .session = epoch,
             .user = user_id});
    ByteWriter reply;
    wire::put_login_reply(reply, {.user = user_id,
                                  .session = epoch,
                                  .protocol_version = wire::kProtocolVersion,
                                  .server_version = wire::kProtocolVersionText});
    const ConstBytes payload = reply.bytes().subspan(wire::kResultOk.size());
    return Payload(payload.begin(), payload.end());
}

/// A logout of an older epoch than the present one changes nothing: the client has logged in again.
Result<Applier::Payload> Applier::logout() {
    const Session* session = state_.sessions_.find(prepare_.client);
    if (session != nullptr && session->epoch == prepare_.session) {
        end_session(prepare_.client);
    }
    return Payload{};
}

Result<Applier::Payload> Applier::reset_sessions() {
    wire::FieldReader body(prepare_.body);
    const std::uint32_t sessions_max = body.u32();
    GALGO_TRY(body.finish(true));
    if (sessions_max == 0) {
        return fail(ErrorCode::kInvalidCommand);
    }
    while (state_.sessions_.size() > 0) {
        end_session(state_.sessions_.by_client().begin()->first);
    }
    state_.sessions_.set_sessions_max(sessions_max);
    return Payload{};
}

Result<Applier::Payload> Applier::create_root() {
    wire::FieldReader body(prepare_.body);
    const std::string_view name = body.name();
    const std::string_view password_hash = body.str32();
    GALGO_TRY(body.finish(true));
    if (!state_.users_.empty()) {
        return fail(ErrorCode::kUserAlreadyExists);
    }
    state_.users_.insert(User{.id = model::kRootUserId,
                              .name = std::string(name),
                              .created_at = kRootCreatedAt,
                              .created_op = prepare_.op,
                              .status = wire::UserStatus::kActive,
                              .password_hash = std::string(password_hash),
                              .permissions = model::all_permissions()});
    state_.user_names_.insert(name, model::kRootUserId);
    changed({.kind = ChangeKind::kUserCreated, .user = model::kRootUserId});
    return Payload{};
}

void Applier::end_session(ClientId client) {
    const Session session = *state_.sessions_.find(client);
    if (const auto groups = state_.memberships_.find(client); groups != state_.memberships_.end()) {
        for (const GroupAddress& address : groups->second) {
            Topic* topic = state_.streams_.find(address.stream)->topics.find(address.topic);
            const bool left = topic->groups.at(address.group).assignment.leave(client);
            GALGO_CHECK(left);
            changed({.kind = ChangeKind::kGroupChanged,
                     .stream = address.stream,
                     .topic = address.topic,
                     .group = address.group});
        }
        state_.memberships_.erase(groups);
    }
    state_.sessions_.end(client);
    changed({.kind = ChangeKind::kSessionEnded,
             .client = client,
             .session = session.epoch,
             .user = session.user});
}

User* Applier::acting_user() {
    User* const user = state_.users_.find(prepare_.user);
    const bool is_root = prepare_.user == model::kRootUserId;
    return is_root || state_.find_user_of_session(prepare_.user, prepare_.session) != nullptr
               ? user
               : nullptr;
}

Status Applier::require(model::Rule rule, model::StreamId stream, model::TopicId topic) {
    const bool is_root = prepare_.user == model::kRootUserId;
    if (!is_root &&
        (acting_user() == nullptr || !state_.allows(prepare_.user, rule, stream, topic))) {
        return fail(ErrorCode::kUnauthorized);
    }
    return {};
}

Result<Stream*> Applier::stream_target(const wire::Identifier& stream, model::Rule rule) {
    Stream* row = state_.find_stream_row(stream);
    if (row == nullptr) {
        return fail(ErrorCode::kStreamIdNotFound);
    }
    GALGO_TRY(require(rule, row->id));
    return row;
}

Result<Applier::TopicTarget> Applier::topic_target(const wire::Identifier& stream,
                                                   const wire::Identifier& topic,
                                                   model::Rule rule) {
    Stream* stream_row = state_.find_stream_row(stream);
    if (stream_row == nullptr) {
        return fail(ErrorCode::kStreamIdNotFound);
    }
    Topic* topic_row = stream_row->find_topic(topic);
    if (topic_row == nullptr) {
        return fail(ErrorCode::kTopicIdNotFound);
    }
    GALGO_TRY(require(rule, stream_row->id, topic_row->id));
    return TopicTarget{.stream = stream_row, .topic = topic_row};
}

}  // namespace galgo::metadata

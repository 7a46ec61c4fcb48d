// Login and logout. A login verifies the credentials (a password on the offload thread, a token by
// its hash in the published metadata), then registers the client in the metadata log; the session
// number is the position of that Register. Which of the two a body is tells only its shape.
#include "crypto/password.hpp"
#include "crypto/sha256.hpp"
#include "observe/log.hpp"
#include "shard/handlers/handlers.hpp"
#include "wire/replies.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {

using coro::Task;
using wire::EvictionReason;

namespace {

struct Credentials {
    std::string phc;  ///< what to verify against; empty for those who cannot log in
    std::string password;
    metadata::Login login{.user = model::kNoUserId, .user_created = {}, .token = {}};
    bool acceptable = false;  ///< known, active and of legal length
};

/// Unknown users, inactive ones and passwords of illegal length are verified all the same, against
/// the empty string, which costs as much as a hash and matches nothing: nobody can tell them from a
/// wrong password, neither by the answer nor by its time.
Credentials look_up(const Services& services, const wire::LoginRequest& request) {
    Credentials credentials{.password = std::string(request.password)};
    const metadata::User* user = services.metadata.state().find_user_by_name(request.username);
    if (user != nullptr && model::is_legal_password(request.password) &&
        user->status == wire::UserStatus::kActive) {
        credentials.phc = user->password_hash;
        credentials.login = metadata::login_by_password(*user);
        credentials.acceptable = true;
    }
    return credentials;
}

/// Who holds the token. Unknown and expired ones look the same.
std::expected<metadata::Login, EvictionReason> verify_token(
    const Services& services, const wire::TokenLoginRequest& request) {
    const metadata::TokenHash hash = crypto::sha256(as_bytes(request.token));
    const std::optional<metadata::TokenRow> row = services.metadata.state().find_token(hash);
    if (!row.has_value() || row->token.expired(services.loop.wall_now())) {
        return std::unexpected(EvictionReason::kInvalidToken);
    }
    if (row->user.status != wire::UserStatus::kActive) {
        return std::unexpected(EvictionReason::kUserInactive);
    }
    return metadata::Login{
        .user = row->user.id, .user_created = row->user.created_op, .token = hash};
}

struct Refusal {
    std::optional<EvictionReason> eviction;
    ErrorCode status = ErrorCode::kOk;  ///< without an eviction: the server is busy
};

/// Whom the credentials in the body stand for.
Task<std::expected<metadata::Login, Refusal>> verify(Services& services, ConstBytes body) {
    EvictionReason reason = EvictionReason::kMalformedLogin;
    if (const Result<wire::LoginRequest> request = wire::LoginRequest::decode(body);
        request.has_value()) {
        const Credentials credentials = look_up(services, *request);
        const Result<bool> verified = co_await runtime::offload(services.offload, [&credentials] {
            return crypto::verify_password(credentials.phc, credentials.password);
        });
        if (!verified.has_value()) {
            co_return std::unexpected(Refusal{.eviction = {}, .status = verified.error().code});
        }
        if (*verified && credentials.acceptable) {
            co_return credentials.login;
        }
        reason = EvictionReason::kInvalidCredentials;
    }
    // wire: wrong credentials may still be a token that happens to have their shape.
    const Result<wire::TokenLoginRequest> by_token = wire::TokenLoginRequest::decode(body);
    if (!by_token.has_value()) {
        co_return std::unexpected(Refusal{.eviction = reason});
    }
    const std::expected<metadata::Login, EvictionReason> login = verify_token(services, *by_token);
    if (!login.has_value()) {
        co_return std::unexpected(Refusal{.eviction = login.error()});
    }
    co_return *login;
}

void fill_login_reply(const Services& services, const net::Frame& frame, const Session& session,
                      std::uint64_t commit, net::Reply& reply) {
    reply.start_frame(frame.header);
    reply.header.op = session.epoch.value();
    reply.header.commit = commit;
    ByteWriter body;
    wire::put_login_reply(body, {.user = session.user,
                                 .session = session.epoch,
                                 .protocol_version = wire::kProtocolVersion,
                                 .server_version = services.node.server_version});
    reply.append(body.bytes());
}

}  // namespace

Task<void> handle_register(Services& services, Session& session, net::Frame& frame,
                           net::Reply& reply) {
    const wire::RequestHeader& header = frame.header;
    const Result<wire::LoginPrefix> prefix = wire::LoginPrefix::decode(frame.body.bytes());
    if (!prefix.has_value()) {
        reply.set_eviction(header.client, EvictionReason::kMalformedLogin);
        co_return;
    }
    if (!wire::is_compatible_version(prefix->protocol_version)) {
        reply.set_eviction(header.client, EvictionReason::kIncompatibleProtocol);
        reply.eviction.version_max = wire::kProtocolVersion;
        reply.eviction.version_min = wire::kProtocolVersionMin;
        co_return;
    }
    const std::expected<metadata::Login, Refusal> verified =
        co_await verify(services, frame.body.bytes());
    if (!verified.has_value()) {
        if (verified.error().eviction.has_value()) {
            reply.set_eviction(header.client, *verified.error().eviction);
        } else {
            reply.set_status(header, verified.error().status);
        }
        co_return;
    }
    // Another connection may have ended it meanwhile.
    services.sessions.refresh(session, services.metadata.state());
    if (session.bound) {
        // The connection keeps its binding; the credentials were checked and that is all.
        fill_login_reply(services, frame, session, session.epoch.value(), reply);
        co_return;
    }
    const MetadataReply registered =
        co_await services.router.register_client(header.client, *verified);
    if (registered.eviction.has_value()) {
        reply.set_eviction(header.client, *registered.eviction);
        co_return;
    }
    if (!registered.body.empty()) {  // not accepted now: a result entry, the client asks again
        reply.start_frame(header);
        reply.header.commit = registered.commit.value();
        reply.append(registered.body);
        co_return;
    }
    if (!services.sessions.bind(session, header.client, SessionId{registered.op.value()},
                                verified->user, services.metadata.state().sessions())) {
        reply.set_eviction(header.client, EvictionReason::kNoSession);
        co_return;
    }
    fill_login_reply(services, frame, session, registered.commit.value(), reply);
}

Task<void> handle_logout(Services& services, Session& session, net::Frame& frame,
                         net::Reply& reply) {
    const ClientId client = session.client;
    const SessionId epoch = session.epoch;
    const MetadataReply ended = co_await services.router.end_session(client, epoch);
    if (ended.status != ErrorCode::kOk) {
        reply.set_status(frame.header, ended.status);
        co_return;
    }
    services.sessions.unbind(session);
    reply.start_frame(frame.header);
    reply.header.commit = ended.commit.value();
}

}  // namespace galgo::shard

// Login and logout. A login verifies the credentials on the offload thread, then registers the
// client in the metadata log; the session number is the position of that Register.
#include "crypto/password.hpp"
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
    model::UserId user = model::kNoUserId;
    bool acceptable = false;  ///< known, active and of legal length
};

/// Unknown users, inactive ones and passwords of illegal length are verified all the same, against
/// the empty string, which costs as much as a hash and matches nothing: nobody can tell them from a
/// wrong password, neither by the answer nor by its time.
Credentials look_up(const Services& services, const wire::LoginRequest& request) {
    Credentials credentials{.password = std::string(request.password)};
    const metadata::User* user = services.metadata.state().find_user_by_name(request.username);
    const bool legal = request.password.size() >= model::kPasswordSizeMin &&
                       request.password.size() <= model::kPasswordSizeMax;
    if (user != nullptr && legal && user->status == wire::UserStatus::kActive) {
        credentials.phc = user->password_hash;
        credentials.user = user->id;
        credentials.acceptable = true;
    }
    return credentials;
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
    const Result<wire::LoginRequest> request = wire::LoginRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        // A login by token has this shape; there are no tokens in this version.
        const bool by_token = wire::TokenLoginRequest::decode(frame.body.bytes()).has_value();
        reply.set_eviction(header.client, by_token ? EvictionReason::kInvalidToken
                                                   : EvictionReason::kMalformedLogin);
        co_return;
    }
    const Credentials credentials = look_up(services, *request);
    const Result<bool> verified = co_await runtime::offload(services.offload, [&credentials] {
        return crypto::verify_password(credentials.phc, credentials.password);
    });
    if (!verified.has_value()) {
        reply.set_status(header, verified.error().code);
        co_return;
    }
    if (!*verified || !credentials.acceptable) {
        reply.set_eviction(header.client, EvictionReason::kInvalidCredentials);
        co_return;
    }
    if (session.bound) {
        // The connection keeps its binding; the credentials were checked and that is all.
        fill_login_reply(services, frame, session, session.epoch.value(), reply);
        co_return;
    }
    const MetadataReply registered =
        co_await services.router.register_client(header.client, credentials.user);
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
                                credentials.user, services.metadata.state().sessions())) {
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

// Users whose password comes with the request: it is hashed on the offload thread, and the log gets
// the hash. For those who have no right nothing is computed; the metadata plane is asked all the
// same, because the request may be the repetition of one that was carried out.
#include "crypto/password.hpp"
#include "metadata/authorise.hpp"
#include "shard/handlers/handlers.hpp"
#include "shard/handlers/metadata_write.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

/// Of a CreateUser body.
Result<std::string> password_of_new_user(ConstBytes body) {
    if (body.size() > metadata::kUserBodyBytesMax) {
        return fail(ErrorCode::kInvalidCommand);
    }
    GALGO_TRY_ASSIGN(const auto request, wire::CreateUserRequest::decode(body));
    if (!model::is_legal_password(request.password)) {
        return fail(ErrorCode::kInvalidPassword);
    }
    return std::string(request.password);
}

/// What change_password finds out off the loop.
struct PasswordChange {
    std::string verified_hash;  ///< of the user that was looked up
    std::string current;
    std::string wanted;
};

/// The new hash; empty when the current password is wrong.
Result<std::string> verify_and_hash(const PasswordChange& change) {
    if (!crypto::verify_password(change.verified_hash, change.current)) {
        return std::string();
    }
    return crypto::hash_password(change.wanted);
}

/// `hash()` on the offload thread. Errors: those of the hash; 58, the thread is busy.
template <class Hash>
Task<Result<std::string>> hash_offloaded(Services& services, Hash hash) {
    Result<Result<std::string>> hashed =
        co_await runtime::offload(services.offload, std::move(hash));
    if (!hashed.has_value()) {
        co_return std::unexpected(hashed.error());
    }
    co_return *std::move(hashed);
}

}  // namespace

Task<void> handle_create_user(Services& services, Session& session, net::Frame& frame,
                              net::Reply& reply) {
    const wire::RequestHeader header = frame.header;
    const bool allowed =
        metadata::authorise(services.metadata.state(), session.user, wire::CommandCode::kCreateUser)
            .has_value();
    std::string password;
    if (allowed) {
        Result<std::string> wanted = password_of_new_user(frame.body.bytes());
        if (!wanted.has_value()) {
            reply.set_status(header, wanted.error().code);
            co_return;
        }
        password = *std::move(wanted);
    }
    MetadataCommand command = metadata_command(session, frame);
    metadata::Sealed& sealed = command.sealed.emplace();
    if (allowed) {
        Result<std::string> hash = co_await hash_offloaded(
            services, [&password] { return crypto::hash_password(password); });
        if (!hash.has_value()) {
            reply.set_status(header, hash.error().code);
            co_return;
        }
        sealed.password_hash = *std::move(hash);
    }
    const MetadataReply result = co_await services.router.metadata(std::move(command));
    fill_metadata_reply(header, result, reply);
}

Task<void> handle_change_password(Services& services, Session& session, net::Frame& frame,
                                  net::Reply& reply) {
    const wire::RequestHeader header = frame.header;
    const Result<wire::ChangePasswordRequest> request =
        wire::ChangePasswordRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(header, request.error().code);
        co_return;
    }
    if (!model::is_legal_password(request->new_password)) {
        reply.set_status(header, ErrorCode::kInvalidPassword);
        co_return;
    }
    metadata::Sealed sealed;
    // Nobody of that name: the log says so, there is nothing to verify.
    const metadata::User* user = services.metadata.state().find_user(request->user);
    if (user != nullptr &&
        metadata::authorise(services.metadata.state(), session.user,
                            wire::CommandCode::kChangePassword, {.user = user->id})
            .has_value()) {
        const PasswordChange change{.verified_hash = user->password_hash,
                                    .current = std::string(request->current_password),
                                    .wanted = std::string(request->new_password)};
        Result<std::string> hash =
            co_await hash_offloaded(services, [&change] { return verify_and_hash(change); });
        if (!hash.has_value()) {
            reply.set_status(header, hash.error().code);
            co_return;
        }
        sealed.verified_hash = change.verified_hash;
        sealed.password_hash = *std::move(hash);
    }
    MetadataCommand command = metadata_command(session, frame);
    command.sealed = std::move(sealed);
    const MetadataReply result = co_await services.router.metadata(std::move(command));
    fill_metadata_reply(header, result, reply);
}

}  // namespace galgo::shard

// Access tokens: made here, where the client is, which alone is ever told; the log gets the hash. A
// repeated request finds that the token exists, because nobody can show it again.
#include <algorithm>

#include "crypto/random.hpp"
#include "crypto/sha256.hpp"
#include "shard/handlers/handlers.hpp"
#include "shard/handlers/metadata_write.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

constexpr std::size_t kTokenSize = 64;  // 381 bits

}  // namespace

Task<void> handle_create_token(Services& services, Session& session, net::Frame& frame,
                               net::Reply& reply) {
    const std::string token = crypto::random_alphanumeric(kTokenSize);
    MetadataCommand command = metadata_command(session, frame);
    command.sealed.emplace().token_hash = crypto::sha256(as_bytes(token));
    const MetadataReply result = co_await services.router.metadata(std::move(command));
    fill_metadata_reply(frame.header, result, reply);
    const bool created = !result.drop && !result.eviction.has_value() &&
                         result.status == ErrorCode::kOk &&
                         std::ranges::equal(result.body, wire::kResultOk);
    if (created) {
        ByteWriter secret;
        wire::put_token_secret(secret, token);
        reply.append(secret.bytes());
    }
}

}  // namespace galgo::shard

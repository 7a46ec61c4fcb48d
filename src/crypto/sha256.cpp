#include "crypto/sha256.hpp"

#include <nettle/hmac.h>
#include <nettle/sha2.h>

namespace galgo::crypto {

static_assert(kSha256Size == SHA256_DIGEST_SIZE);

Sha256Digest sha256(ConstBytes bytes) noexcept {
    sha256_ctx context;
    sha256_init(&context);
    sha256_update(&context, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
    Sha256Digest digest;
    sha256_digest(&context, digest.size(), reinterpret_cast<std::uint8_t*>(digest.data()));
    return digest;
}

Sha256Digest hmac_sha256(ConstBytes key, ConstBytes message) noexcept {
    hmac_sha256_ctx context;
    hmac_sha256_set_key(&context, key.size(), reinterpret_cast<const std::uint8_t*>(key.data()));
    hmac_sha256_update(&context, message.size(),
                       reinterpret_cast<const std::uint8_t*>(message.data()));
    Sha256Digest digest;
    hmac_sha256_digest(&context, digest.size(), reinterpret_cast<std::uint8_t*>(digest.data()));
    return digest;
}

}  // namespace galgo::crypto

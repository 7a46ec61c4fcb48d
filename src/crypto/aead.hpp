// AES-256-GCM (NIST SP 800-38D): what encryption at rest is made of. A nonce must never come twice
// under one key; with that the tag proves that neither the bytes nor `associated` were changed.
//
// One object is used by one thread at a time. Two calls of the allocator when it is made, none
// afterwards. The library is GnuTLS (docs/adr/0008-encryption-at-rest.md says why).
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "base/bytes.hpp"

namespace galgo::crypto {

inline constexpr std::size_t kAeadKeySize = 32;
inline constexpr std::size_t kAeadNonceSize = 12;
inline constexpr std::size_t kAeadTagSize = 16;

using AeadKey = std::array<std::byte, kAeadKeySize>;
using AeadNonce = std::array<std::byte, kAeadNonceSize>;

class Aes256Gcm {
 public:
    /// False: the library was told to refuse the algorithm, or computes it wrongly. Asked once,
    /// before anything is encrypted.
    [[nodiscard]] static bool is_available() noexcept;
    /// Expands `key`. Aborts when there is no memory, or when the algorithm is not available.
    explicit Aes256Gcm(const AeadKey& key) noexcept;
    Aes256Gcm(Aes256Gcm&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Aes256Gcm& operator=(Aes256Gcm&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~Aes256Gcm();

    /// `sealed` gets the ciphertext and the tag: 16 bytes more than `plain`, apart from it.
    void seal(const AeadNonce& nonce, ConstBytes associated, ConstBytes plain,
              MutableBytes sealed) noexcept;
    /// The opposite; `plain` has 16 bytes less than `sealed`. False when the tag does not fit: what
    /// `plain` holds then is nobody's business.
    [[nodiscard]] bool open(const AeadNonce& nonce, ConstBytes associated, ConstBytes sealed,
                            MutableBytes plain) noexcept;

 private:
    void* handle_ = nullptr;
};

}  // namespace galgo::crypto

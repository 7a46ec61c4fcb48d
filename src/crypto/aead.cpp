#include "crypto/aead.hpp"

#include <gnutls/crypto.h>

#include "base/check.hpp"

namespace galgo::crypto {

namespace {

gnutls_aead_cipher_hd_t of(void* handle) noexcept {
    return static_cast<gnutls_aead_cipher_hd_t>(handle);
}

}  // namespace

Aes256Gcm::Aes256Gcm(const AeadKey& key) noexcept {
    AeadKey copy = key;  // the library's type has no const
    const gnutls_datum_t datum{.data = reinterpret_cast<unsigned char*>(copy.data()),
                               .size = kAeadKeySize};
    gnutls_aead_cipher_hd_t handle = nullptr;
    GALGO_CHECK(gnutls_aead_cipher_init(&handle, GNUTLS_CIPHER_AES_256_GCM, &datum) == 0);
    handle_ = handle;
    gnutls_memset(copy.data(), 0, copy.size());
}

bool Aes256Gcm::is_available() noexcept {
    AeadKey key{};
    const gnutls_datum_t datum{.data = reinterpret_cast<unsigned char*>(key.data()),
                               .size = kAeadKeySize};
    gnutls_aead_cipher_hd_t handle = nullptr;
    if (gnutls_aead_cipher_init(&handle, GNUTLS_CIPHER_AES_256_GCM, &datum) != 0) {
        return false;
    }
    const AeadNonce nonce{};
    std::byte tag[kAeadTagSize];
    std::size_t size = sizeof(tag);
    const int result = gnutls_aead_cipher_encrypt(handle, nonce.data(), nonce.size(), nullptr, 0,
                                                  kAeadTagSize, nullptr, 0, tag, &size);
    gnutls_aead_cipher_deinit(handle);
    // Test case 13 of the GCM specification: nothing under a key of zeros.
    return result == 0 && size == sizeof(tag) && tag[0] == std::byte{0x53} &&
           tag[15] == std::byte{0x8b};
}

Aes256Gcm::~Aes256Gcm() {
    if (handle_ != nullptr) {
        gnutls_aead_cipher_deinit(of(handle_));
    }
}

void Aes256Gcm::seal(const AeadNonce& nonce, ConstBytes associated, ConstBytes plain,
                     MutableBytes sealed) noexcept {
    GALGO_CHECK(sealed.size() == plain.size() + kAeadTagSize);
    std::size_t size = sealed.size();
    const int result = gnutls_aead_cipher_encrypt(
        of(handle_), nonce.data(), nonce.size(), associated.data(), associated.size(), kAeadTagSize,
        plain.data(), plain.size(), sealed.data(), &size);
    GALGO_CHECK(result == 0 && size == sealed.size());
}

bool Aes256Gcm::open(const AeadNonce& nonce, ConstBytes associated, ConstBytes sealed,
                     MutableBytes plain) noexcept {
    GALGO_CHECK(sealed.size() == plain.size() + kAeadTagSize);
    std::size_t size = plain.size();
    return gnutls_aead_cipher_decrypt(of(handle_), nonce.data(), nonce.size(), associated.data(),
                                      associated.size(), kAeadTagSize, sealed.data(), sealed.size(),
                                      plain.data(), &size) == 0 &&
           size == plain.size();
}

}  // namespace galgo::crypto

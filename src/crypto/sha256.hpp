// SHA-256: how the server remembers access tokens without knowing them. A plain hash, no password
// hash (crypto/password.hpp): what goes in must be hard to guess already. HMAC-SHA256: how one key
// gives many (and none of them tells of the others).
//
// Any thread, no allocation, no shared state.
#pragma once

#include <array>
#include <cstddef>

#include "base/bytes.hpp"

namespace galgo::crypto {

inline constexpr std::size_t kSha256Size = 32;
using Sha256Digest = std::array<std::byte, kSha256Size>;

[[nodiscard]] Sha256Digest sha256(ConstBytes bytes) noexcept;
/// RFC 2104.
[[nodiscard]] Sha256Digest hmac_sha256(ConstBytes key, ConstBytes message) noexcept;

}  // namespace galgo::crypto

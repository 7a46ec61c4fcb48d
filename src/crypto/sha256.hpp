// SHA-256: how the server remembers access tokens without knowing them. A plain hash, no password
// hash (crypto/password.hpp): what goes in must be hard to guess already.
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

}  // namespace galgo::crypto

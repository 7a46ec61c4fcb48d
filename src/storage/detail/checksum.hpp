// XXH3-64 over one or two ranges, as used by the formats of this module.
#pragma once

#include <xxhash.h>

#include <cstdint>

#include "base/bytes.hpp"

namespace galgo::storage::detail {

[[nodiscard]] inline std::uint64_t checksum(ConstBytes bytes, std::uint64_t seed = 0) noexcept {
    return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

/// Both parts hashed one after the other and bound together; cheaper than a streaming state for a small
/// header in front of a body.
[[nodiscard]] inline std::uint64_t checksum2(ConstBytes head, ConstBytes body, std::uint64_t seed) noexcept {
    const std::uint64_t inner = body.empty() ? 0 : checksum(body, seed);
    return checksum(head, seed ^ (inner * 0x9E3779B97F4A7C15ULL + body.size()));
}

}  // namespace galgo::storage::detail

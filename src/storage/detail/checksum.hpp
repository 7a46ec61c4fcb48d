// Checksums of the formats of this module: XXH3-64, and a bound form that ties a record to its
// place.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/bytes.hpp"
#include "crypto/hash.hpp"

namespace galgo::storage::detail {

[[nodiscard]] inline std::uint64_t checksum(ConstBytes bytes) noexcept {
    return crypto::xxh3_64(bytes);
}

/// XXH3-64 of (seed u64, XXH3-64 of the body u64, head); `head` is at most 112 bytes.
[[nodiscard]] inline std::uint64_t bound_checksum(ConstBytes head, ConstBytes body,
                                                  std::uint64_t seed) noexcept {
    std::byte bytes[128];
    GALGO_DCHECK(head.size() <= sizeof(bytes) - 16);
    store<std::uint64_t>(bytes, 0, seed);
    store<std::uint64_t>(bytes, 8, body.empty() ? 0 : crypto::xxh3_64(body));
    std::memcpy(bytes + 16, head.data(), head.size());
    return crypto::xxh3_64(ConstBytes(bytes, 16 + head.size()));
}

}  // namespace galgo::storage::detail

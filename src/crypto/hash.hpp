// Hashes that are no secrets: checksums of frames and records (XXH3 of 64 bits, default secret,
// seed 0; XXH32, seed 0) and the routing hash (MurmurHash3 x86 of 32 bits). Results are the same on
// every machine; they stand on the wire and on disk.
//
// Any thread, no allocation, no shared state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"

namespace galgo::crypto {

/// XXH3-64 of `bytes`, seed 0.
[[nodiscard]] std::uint64_t xxh3_64(ConstBytes bytes) noexcept;

/// XXH3-64 of bytes that come in pieces (or are hashed in slices, yielding in between): the digest
/// equals xxh3_64 of all of them in a row. About 600 bytes; copyable at any point.
class Xxh3Stream {
 public:
    Xxh3Stream() noexcept { reset(); }
    void reset() noexcept;
    void update(ConstBytes bytes) noexcept;
    /// Digest of what came so far; more may follow.
    [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
    alignas(64) std::byte state_[576];  ///< XXH3_state_t, which only hash.cpp knows
};

/// XXH32 of `bytes`, seed 0.
[[nodiscard]] std::uint32_t xxh32(ConstBytes bytes) noexcept;

/// MurmurHash3_x86_32 of at most 4 GiB.
[[nodiscard]] std::uint32_t murmur3_32(ConstBytes bytes, std::uint32_t seed = 0) noexcept;

}  // namespace galgo::crypto

// Hashes that are no secrets: checksums of frames and records (XXH3 of 64 bits, default secret,
// seed 0; XXH32, seed 0) and the routing hash (MurmurHash3 x86 of 32 bits). Results are the same on
// every machine; they stand on the wire and on disk.
//
// Any thread, no allocation, no shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.hpp"

namespace galgo::crypto {

/// XXH3-64 of `bytes`, seed 0.
[[nodiscard]] std::uint64_t xxh3_64(ConstBytes bytes) noexcept;

/// XXH3-64 of bytes that come in pieces (or are hashed in slices, yielding in between): the digest
/// equals xxh3_64 of all of them in a row. About 600 bytes; copyable at any point. The library
/// wants its state on a cache line, but a type that asks for more than new gives is not safe in a
/// coroutine (the frame does not keep the promise): so the state is aligned within its storage, at
/// run time.
class Xxh3Stream {
 public:
    Xxh3Stream() noexcept { reset(); }
    Xxh3Stream(const Xxh3Stream& other) noexcept;
    Xxh3Stream& operator=(const Xxh3Stream& other) noexcept;
    ~Xxh3Stream() = default;
    void reset() noexcept;
    void update(ConstBytes bytes) noexcept;
    /// Digest of what came so far; more may follow.
    [[nodiscard]] std::uint64_t digest() const noexcept;

 private:
    static constexpr std::size_t kStateSize = 576;  ///< XXH3_state_t, which only hash.cpp knows
    static constexpr std::size_t kStateAlignment = 64;

    [[nodiscard]] const std::byte* state() const noexcept {
        const auto address = reinterpret_cast<std::uintptr_t>(storage_);
        return storage_ + (-address & (kStateAlignment - 1));
    }
    [[nodiscard]] std::byte* state() noexcept {
        return const_cast<std::byte*>(std::as_const(*this).state());
    }

    alignas(8) std::byte storage_[kStateSize + kStateAlignment - 8];
};

/// XXH32 of `bytes`, seed 0.
[[nodiscard]] std::uint32_t xxh32(ConstBytes bytes) noexcept;

/// MurmurHash3_x86_32 of at most 4 GiB.
[[nodiscard]] std::uint32_t murmur3_32(ConstBytes bytes, std::uint32_t seed = 0) noexcept;

}  // namespace galgo::crypto

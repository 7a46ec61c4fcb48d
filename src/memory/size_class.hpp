// The 28 block sizes of the buffer pool, 4 KiB to 512 MiB, all multiples of a page: doubling up to
// 512 KiB, finer steps between powers of two above. A block is less than twice what was asked for
// (page rounding aside).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/check.hpp"
#include "base/units.hpp"

namespace galgo::memory {

inline constexpr std::size_t kPageBytes = 4096;

inline constexpr std::array<std::uint32_t, 28> kSizeClassBytes = [] {
    constexpr std::array<std::uint32_t, 28> kInKiB = {
        4,     8,     16,    32,     64,     128,    256,    512,   768,   1024,
        1536,  2048,  4096,  6144,   8192,   10240,  12288,  16384, 24576, 32768,
        49152, 65536, 98304, 131072, 196608, 262144, 393216, 524288};
    std::array<std::uint32_t, 28> bytes{};
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = kInKiB[i] * 1024;
    }
    return bytes;
}();
inline constexpr std::size_t kSizeClassCount = kSizeClassBytes.size();
/// The largest block; a larger request is refused.
inline constexpr std::size_t kBlockBytesMax = kSizeClassBytes.back();
static_assert(kBlockBytesMax == 512 * kMiB);
static_assert(std::ranges::is_sorted(kSizeClassBytes));
static_assert(std::ranges::all_of(kSizeClassBytes, [](auto b) { return b % kPageBytes == 0; }));

/// Index of the smallest class of at least `bytes` (0 counts as 1). `bytes` is at most
/// kBlockBytesMax.
[[nodiscard]] constexpr std::size_t size_class_of(std::size_t bytes) noexcept {
    GALGO_DCHECK(bytes <= kBlockBytesMax);
    if (bytes <= 512 * kKiB) {  // the doubling part: class = ceil(log2(pages))
        return static_cast<std::size_t>(
            std::bit_width((std::max<std::size_t>(bytes, 1) - 1) >> 12));
    }
    const auto found = std::ranges::lower_bound(kSizeClassBytes, bytes);
    return static_cast<std::size_t>(found - kSizeClassBytes.begin());
}

}  // namespace galgo::memory

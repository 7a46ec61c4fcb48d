// The layout that model_storage.hpp describes: magic numbers, places, checksums. For its sources.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "crypto/hash.hpp"
#include "sim/disk.hpp"

namespace galgo::sim::model_layout {

inline constexpr std::uint32_t kBatchMagic = 0x31544247;
inline constexpr std::uint32_t kMarkMagic = 0x314b4d47;
inline constexpr std::uint32_t kSuperblockMagic = 0x31425347;
inline constexpr std::size_t kBatchHead = 64;
inline constexpr std::size_t kBatchTrailer = 16;  // sequence, hash
inline constexpr std::size_t kBatchBytesMax = SectorDisk::kWriteSectorsMax * kSectorBytes;
inline constexpr std::uint32_t kMarkFirst = 8;
inline constexpr std::uint32_t kMarkCopies = 2;
inline constexpr std::uint32_t kSuperblockCopies = 4;
inline constexpr std::uint32_t kAllocation = 64;
inline constexpr std::size_t kPlacesMax = 1U << 16U;

inline std::uint64_t hash_but_last_8(ConstBytes bytes) noexcept {
    return crypto::xxh3_64(bytes.first(bytes.size() - 8));
}
inline bool hash_matches(ConstBytes bytes) noexcept {
    return load<std::uint64_t>(bytes, bytes.size() - 8) == hash_but_last_8(bytes);
}
inline void seal(MutableBytes bytes) noexcept {
    store<std::uint64_t>(bytes, bytes.size() - 8, hash_but_last_8(bytes));
}
inline bool all_zero(ConstBytes bytes) noexcept {
    return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

}  // namespace galgo::sim::model_layout

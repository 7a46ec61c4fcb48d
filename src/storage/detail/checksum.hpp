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

/// Small files of one value: the kind is under the checksum, so that a file of one kind does not
/// verify under the name of another.
enum class FileKind : std::uint32_t {
    kConsumerOffset = 0x324f4347,         ///< "GCO2"
    kGroupOffset = 0x324f4747,            ///< "GGO2"
    kOffsetMark = 0x324d4f47,             ///< "GOM2"
    kUnboundConsumerOffset = 0x314f4347,  ///< "GCO1"
    kUnboundGroupOffset = 0x314f4747,     ///< "GGO1"
    kUnboundOffsetMark = 0x314d4f47,      ///< "GOM1"
    kIncarnation = 0x31434e47,            ///< "GNC1"
    kRetained = 0x31545247,               ///< "GRT1"
};

/// XXH3-64 of (kind u32, value u64).
[[nodiscard]] inline std::uint64_t kind_checksum(FileKind kind, std::uint64_t value) noexcept {
    std::byte bytes[12];
    store<std::uint32_t>(bytes, 0, static_cast<std::uint32_t>(kind));
    store<std::uint64_t>(bytes, 4, value);
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

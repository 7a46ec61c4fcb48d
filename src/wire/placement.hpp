// Which shard of this process owns a partition. A pure function of the key and the shard count:
// nothing on disk depends on it, so the count may change from one start to the next.
#pragma once

#include <cstdint>

#include "base/check.hpp"
#include "base/ids.hpp"

namespace galgo::wire {

/// MurmurHash3 (x86, 32 bits, seed 0) of the 8 little-endian bytes of `key`.
[[nodiscard]] constexpr std::uint32_t partition_hash(PartitionKey key) noexcept {
    constexpr auto rotate_left = [](std::uint32_t value, unsigned bits) constexpr {
        return value << bits | value >> (32U - bits);
    };
    std::uint32_t hash = 0;
    for (const std::uint32_t half : {static_cast<std::uint32_t>(key.value()),
                                     static_cast<std::uint32_t>(key.value() >> 32U)}) {
        const std::uint32_t mixed = rotate_left(half * 0xcc9e'2d51U, 15) * 0x1b87'3593U;
        hash = rotate_left(hash ^ mixed, 13) * 5U + 0xe654'6b64U;
    }
    hash ^= 8U;  // length of the input
    hash = (hash ^ hash >> 16U) * 0x85eb'ca6bU;
    hash = (hash ^ hash >> 13U) * 0xc2b2'ae35U;
    return hash ^ hash >> 16U;
}

/// Owner of `key` among `shard_count` shards: the upper half of the hash, modulo the count.
[[nodiscard]] constexpr ShardIndex shard_of(PartitionKey key, std::uint16_t shard_count) noexcept {
    GALGO_CHECK(shard_count > 0);
    return ShardIndex(static_cast<std::uint16_t>((partition_hash(key) >> 16U) % shard_count));
}

}  // namespace galgo::wire

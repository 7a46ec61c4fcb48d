// DataKey: the key of encryption at rest, system.encryption.key. It encrypts nothing itself: every
// opening of a partition's log has a key of its own, derived from it, from the partition and its
// life, and from a salt that is drawn then. So no nonce comes twice, not even after a backup was
// brought back. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.hpp"

namespace galgo::storage {

inline constexpr std::size_t kDataKeyBytes = 32;
inline constexpr std::size_t kSaltBytes = 16;
using KeyBytes = std::array<std::byte, kDataKeyBytes>;
using Salt = std::array<std::byte, kSaltBytes>;
using KeyCheck = std::array<std::byte, 16>;

class DataKey {
 public:
    explicit DataKey(const KeyBytes& key) noexcept;

    /// Names the key without telling it: the first 8 bytes of SHA-256("galgo key" || key).
    [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
    /// HMAC-SHA256(key, "galgo check"), the first 16 bytes: whoever has it, has the key.
    [[nodiscard]] KeyCheck check() const noexcept;
    /// HMAC-SHA256(key, "galgo batches" || salt || partition u64 || incarnation u64)
    [[nodiscard]] KeyBytes batch_key(const Salt& salt, PartitionKey partition,
                                     Incarnation incarnation) const noexcept;

 private:
    KeyBytes key_;
    std::uint64_t id_;
};

}  // namespace galgo::storage

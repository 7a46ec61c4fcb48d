#include "storage/data_key.hpp"

#include <algorithm>
#include <string_view>

#include "base/bytes.hpp"
#include "crypto/aead.hpp"
#include "crypto/sha256.hpp"

namespace galgo::storage {

static_assert(kDataKeyBytes == crypto::kAeadKeySize && kDataKeyBytes == crypto::kSha256Size);

namespace {

constexpr std::string_view kIdLabel = "galgo key";
constexpr std::string_view kCheckLabel = "galgo check";
constexpr std::string_view kBatchLabel = "galgo batches";

std::uint64_t id_of(const KeyBytes& key) noexcept {
    std::array<std::byte, kIdLabel.size() + kDataKeyBytes> named{};
    std::ranges::copy(as_bytes(kIdLabel), named.begin());
    std::ranges::copy(key, named.begin() + kIdLabel.size());
    return load<std::uint64_t>(crypto::sha256(named), 0);
}

}  // namespace

DataKey::DataKey(const KeyBytes& key) noexcept : key_(key), id_(id_of(key)) {}

KeyCheck DataKey::check() const noexcept {
    const crypto::Sha256Digest digest = crypto::hmac_sha256(key_, as_bytes(kCheckLabel));
    KeyCheck check{};
    std::copy_n(digest.begin(), check.size(), check.begin());
    return check;
}

KeyBytes DataKey::batch_key(const Salt& salt, PartitionKey partition,
                            Incarnation incarnation) const noexcept {
    std::array<std::byte, kBatchLabel.size() + kSaltBytes + 16> message{};
    std::ranges::copy(as_bytes(kBatchLabel), message.begin());
    std::ranges::copy(salt, message.begin() + kBatchLabel.size());
    const MutableBytes to(message);
    store<std::uint64_t>(to, kBatchLabel.size() + kSaltBytes, partition.value());
    store<std::uint64_t>(to, kBatchLabel.size() + kSaltBytes + 8, incarnation.value());
    return crypto::hmac_sha256(key_, message);
}

}  // namespace galgo::storage

#include "storage/detail/retained_file.hpp"

#include <cstring>

#include "storage/detail/checksum.hpp"

namespace galgo::storage::detail {

namespace {

constexpr std::size_t kCheckAt = kRetainedBytes - 8;

/// XXH3-64 of (kind u32, the bytes before it).
std::uint64_t checksum_of(ConstBytes bytes) noexcept {
    std::byte hashed[4 + kCheckAt];
    store<std::uint32_t>(hashed, 0, static_cast<std::uint32_t>(FileKind::kRetained));
    std::memcpy(hashed + 4, bytes.data(), kCheckAt);
    return checksum(hashed);
}

}  // namespace

void encode_retained(MutableBytes bytes, const Retained& retained, PartitionKey partition,
                     Incarnation incarnation) noexcept {
    store<std::uint64_t>(bytes, 0, retained.low.value());
    store<std::uint64_t>(bytes, 8, retained.wanted.value());
    store<std::uint64_t>(bytes, 16, partition.value());
    store<std::uint64_t>(bytes, 24, incarnation.value());
    store<std::uint64_t>(bytes, kCheckAt, checksum_of(bytes));
}

std::optional<Retained> decode_retained(ConstBytes bytes, PartitionKey partition,
                                        Incarnation incarnation) noexcept {
    if (bytes.size() != kRetainedBytes ||
        load<std::uint64_t>(bytes, kCheckAt) != checksum_of(bytes) ||
        load<std::uint64_t>(bytes, 16) != partition.value() ||
        load<std::uint64_t>(bytes, 24) != incarnation.value()) {
        return std::nullopt;
    }
    return Retained{.low = Offset(load<std::uint64_t>(bytes, 0)),
                    .wanted = Offset(load<std::uint64_t>(bytes, 8))};
}

}  // namespace galgo::storage::detail

// Bytes of the metadata log.
#include "storage/wal_format.hpp"

#include <array>
#include <format>

#include "crypto/hash.hpp"
#include "storage/detail/paths.hpp"

namespace galgo::storage {

namespace {

constexpr std::uint32_t kFileMagic = 0x31465747;   // "GWF1"
constexpr std::uint32_t kBatchMagic = 0x31425747;  // "GWB1"
constexpr std::uint16_t kVersion = 1;
constexpr std::string_view kPrefix = "journal.wal.";
constexpr std::size_t kDigits = 10;

// Byte positions: checksum, magic and version stand at the same place in both headers.
enum At : std::size_t {
    kAtChecksum = 0,
    kAtMagic = 8,
    kAtVersion = 12,
    kAtKind = 14,
    // file
    kAtGeneration = 16,
    kAtRegionBytes = 24,
    kAtSaltDigest = 32,
    // batch
    kAtSequence = 16,
    kAtOpFirst = 24,
    kAtOpLast = 32,
    kAtEntryCount = 40,
    kAtSizeBytes = 44,
    kAtBodyChecksum = 48,
    kAtOpBefore = 56,
};

std::uint64_t sealed_checksum(ConstBytes bytes, const WalSeal& seal) {
    std::array<std::byte, 16> mixed{};
    store<std::uint64_t>(MutableBytes(mixed), 0, seal.salt);
    store<std::uint64_t>(MutableBytes(mixed), 8, seal.generation);
    crypto::Xxh3Stream hash;
    hash.update(mixed);
    hash.update(bytes);
    return hash.digest();
}

std::uint64_t salt_digest(std::uint64_t salt) {
    std::array<std::byte, 8> bytes{};
    store<std::uint64_t>(MutableBytes(bytes), 0, salt);
    return crypto::xxh3_64(bytes);
}

}  // namespace

std::string wal_path(const std::string& directory, std::uint64_t generation) {
    return std::format("{}/{}{:0{}}", directory, kPrefix, generation, kDigits);
}

std::optional<std::uint64_t> wal_generation(std::string_view file_name) {
    return detail::numbered(file_name, kPrefix, kDigits);
}

std::vector<std::byte> encode_wal_header(const WalSeal& seal, std::uint64_t region_bytes) {
    std::vector<std::byte> block(kWalBlockBytes);
    store<std::uint32_t>(block, kAtMagic, kFileMagic);
    store<std::uint16_t>(block, kAtVersion, kVersion);
    store<std::uint64_t>(block, kAtGeneration, seal.generation);
    store<std::uint64_t>(block, kAtRegionBytes, region_bytes);
    store<std::uint64_t>(block, kAtSaltDigest, salt_digest(seal.salt));
    store<std::uint64_t>(block, kAtChecksum, crypto::xxh3_64(ConstBytes(block).subspan(kAtMagic)));
    return block;
}

Result<std::uint64_t> decode_wal_header(ConstBytes block, const WalSeal& seal) {
    if (block.size() < kWalBlockBytes || load<std::uint32_t>(block, kAtMagic) != kFileMagic) {
        return fail(ErrorCode::kInvalidFormat);
    }
    block = block.first(kWalBlockBytes);
    if (load<std::uint64_t>(block, kAtChecksum) != crypto::xxh3_64(block.subspan(kAtMagic))) {
        return fail(ErrorCode::kInvalidFormat);
    }
    if (load<std::uint16_t>(block, kAtVersion) != kVersion) {
        return fail(ErrorCode::kInvalidVersion);
    }
    const std::uint64_t region_bytes = load<std::uint64_t>(block, kAtRegionBytes);
    if (load<std::uint64_t>(block, kAtGeneration) != seal.generation ||
        load<std::uint64_t>(block, kAtSaltDigest) != salt_digest(seal.salt) ||
        region_bytes % kWalBlockBytes != 0 || region_bytes < kWalRegionBytesMin ||
        region_bytes > kWalRegionBytesMax) {
        return fail(ErrorCode::kStateFileCorrupted);
    }
    return region_bytes;
}

void seal_wal_batch(MutableBytes batch, const WalBatch& facts, const WalSeal& seal) {
    GALGO_CHECK(batch.size() == facts.padded_bytes());
    store<std::uint32_t>(batch, kAtMagic, kBatchMagic);
    store<std::uint16_t>(batch, kAtVersion, kVersion);
    store<std::uint16_t>(batch, kAtKind, static_cast<std::uint16_t>(facts.kind));
    store<std::uint64_t>(batch, kAtSequence, facts.sequence);
    store<std::uint64_t>(batch, kAtOpFirst, facts.op_first.value());
    store<std::uint64_t>(batch, kAtOpLast, facts.op_last.value());
    store<std::uint32_t>(batch, kAtEntryCount, facts.entry_count);
    store<std::uint32_t>(batch, kAtSizeBytes, facts.size_bytes);
    store<std::uint64_t>(batch, kAtBodyChecksum,
                         crypto::xxh3_64(ConstBytes(batch).subspan(kWalBatchHeaderBytes)));
    store<std::uint64_t>(batch, kAtOpBefore, facts.op_before.value());
    store<std::uint64_t>(
        batch, kAtChecksum,
        sealed_checksum(ConstBytes(batch).subspan(kAtMagic, kWalBatchHeaderBytes - kAtMagic),
                        seal));
}

std::optional<WalBatch> decode_wal_batch(ConstBytes region, std::size_t position,
                                         const WalSeal& seal) {
    if (position + kWalBlockBytes > region.size()) {
        return std::nullopt;
    }
    const ConstBytes rest = region.subspan(position);
    if (load<std::uint32_t>(rest, kAtMagic) != kBatchMagic ||
        load<std::uint16_t>(rest, kAtVersion) != kVersion ||
        load<std::uint64_t>(rest, kAtChecksum) !=
            sealed_checksum(rest.subspan(kAtMagic, kWalBatchHeaderBytes - kAtMagic), seal)) {
        return std::nullopt;
    }
    const WalBatch batch{.kind = static_cast<WalBatchKind>(load<std::uint16_t>(rest, kAtKind)),
                         .sequence = load<std::uint64_t>(rest, kAtSequence),
                         .op_before = OpNumber(load<std::uint64_t>(rest, kAtOpBefore)),
                         .op_first = OpNumber(load<std::uint64_t>(rest, kAtOpFirst)),
                         .op_last = OpNumber(load<std::uint64_t>(rest, kAtOpLast)),
                         .entry_count = load<std::uint32_t>(rest, kAtEntryCount),
                         .size_bytes = load<std::uint32_t>(rest, kAtSizeBytes)};
    if (batch.kind > WalBatchKind::kMark || batch.size_bytes < kWalBatchHeaderBytes ||
        batch.size_bytes > rest.size() || batch.padded_bytes() > rest.size() ||
        load<std::uint64_t>(rest, kAtBodyChecksum) !=
            crypto::xxh3_64(rest.first(batch.padded_bytes()).subspan(kWalBatchHeaderBytes))) {
        return std::nullopt;
    }
    return batch;
}

}  // namespace galgo::storage

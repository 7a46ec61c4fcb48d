// Bytes of the metadata log (docs/formats/wal.md): the header block of a generation file and the
// batches behind it. A file has two regions of equal size with equal content; positions below are
// within a region. Pure.
//
// A batch is one group commit: a header of 64 bytes, entries back to back, zeros up to a multiple
// of 4 KiB. Its checksums cover all of it, and are mixed with the directory's salt and the file's
// generation: bytes that a client sent, or that another file held, never pass for a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"

namespace galgo::storage {

inline constexpr std::size_t kWalBlockBytes = 4096;
inline constexpr std::size_t kWalBatchHeaderBytes = 64;
/// An entry above that is damage.
inline constexpr std::uint32_t kWalEntryBytesMax = 64 * 1024 * 1024;
/// A region above that is damage.
inline constexpr std::uint64_t kWalRegionBytesMax = 2ULL * kWalEntryBytesMax;
inline constexpr std::uint64_t kWalRegionBytesMin = 2 * kWalBlockBytes;

/// What every checksum of a file is mixed with.
struct WalSeal {
    std::uint64_t salt = 0;
    std::uint64_t generation = 0;
};

[[nodiscard]] constexpr std::size_t padded_to_blocks(std::size_t bytes) noexcept {
    return (bytes + kWalBlockBytes - 1) / kWalBlockBytes * kWalBlockBytes;
}

enum class WalBatchKind : std::uint16_t {
    kEntries = 0,
    kMark = 1,  ///< no entries: says that everything before it is stable
};

struct WalBatch {
    WalBatchKind kind = WalBatchKind::kEntries;
    std::uint64_t sequence = 0;  ///< from 1, without gaps, over all generations
    OpNumber op_before;          ///< the last op of the log before this batch
    OpNumber op_first;           ///< of the entries; of a mark op_before
    OpNumber op_last;            ///< of the entries; of a mark op_before
    std::uint32_t entry_count = 0;
    std::uint32_t size_bytes = 0;  ///< header and entries

    [[nodiscard]] std::size_t padded_bytes() const noexcept { return padded_to_blocks(size_bytes); }
};

[[nodiscard]] std::string wal_path(const std::string& directory, std::uint64_t generation);
/// The generation of a file name, if it is one of the log.
[[nodiscard]] std::optional<std::uint64_t> wal_generation(std::string_view file_name);

[[nodiscard]] std::vector<std::byte> encode_wal_header(const WalSeal& seal,
                                                       std::uint64_t region_bytes);
/// The region size. Errors: kInvalidFormat damaged; kInvalidVersion whole, of another version;
/// kStateFileCorrupted whole, of another directory or generation.
[[nodiscard]] Result<std::uint64_t> decode_wal_header(ConstBytes block, const WalSeal& seal);

/// `batch` is the whole padded batch with the entries at 64; fills its header.
void seal_wal_batch(MutableBytes batch, const WalBatch& facts, const WalSeal& seal);
/// The batch that begins at `region[position]`, when all of it verifies.
[[nodiscard]] std::optional<WalBatch> decode_wal_batch(ConstBytes region, std::size_t position,
                                                       const WalSeal& seal);

}  // namespace galgo::storage

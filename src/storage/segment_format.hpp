// Names and index entries of segments, docs/formats/segment.md and index.md. Pure.
//
// A segment is `{start:020}.log`: whole batches as they stand on the wire, one behind the other,
// and `{start:020}.index`: 24-byte entries that name the position of some of them. `start` is the
// first offset the segment may hold. An entry is written when the log is stable up to the end of
// its batch, and has a check of its own that binds it to its segment: one that verifies proves what
// stood in the log. One that does not says nothing, and is derived again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/units.hpp"

namespace galgo::storage {

inline constexpr std::size_t kIndexEntryBytes = 24;
/// An entry is added when at least that much log lies behind the one before.
inline constexpr std::uint64_t kIndexStrideBytes = 64 * kKiB;
/// No entry names a batch behind it.
inline constexpr std::uint64_t kIndexPositionMax = 0xffff'ffff;

struct IndexEntry {
    Offset offset;        ///< base offset of the batch at `position`
    Timestamp timestamp;  ///< its base timestamp
    std::uint64_t position = 0;

    bool operator==(const IndexEntry&) const noexcept = default;
};

/// Of all entries of one segment in one life of a partition.
[[nodiscard]] std::uint64_t index_seed(PartitionKey partition, Incarnation incarnation,
                                       Offset start) noexcept;
/// Writes 24 bytes. The position is at most kIndexPositionMax.
void encode_index_entry(MutableBytes to, const IndexEntry& entry, std::uint64_t seed) noexcept;
/// Empty when the 24 bytes do not verify.
[[nodiscard]] std::optional<IndexEntry> decode_index_entry(ConstBytes from,
                                                           std::uint64_t seed) noexcept;
/// An entry of data format 2, which had no check. It may say anything.
[[nodiscard]] IndexEntry decode_unchecked_entry(ConstBytes from) noexcept;

inline constexpr std::string_view kLogExtension = ".log";
inline constexpr std::string_view kIndexExtension = ".index";

/// "00000000000000000042.log"
[[nodiscard]] std::string segment_file_name(Offset start, std::string_view extension);
/// The start of a name that ends in `extension` and has 20 digits in front; empty otherwise.
[[nodiscard]] std::optional<Offset> parse_segment_file_name(std::string_view name,
                                                            std::string_view extension) noexcept;

}  // namespace galgo::storage

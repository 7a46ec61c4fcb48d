// Small parts that the files of recovery share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/units.hpp"
#include "storage/segment_format.hpp"
#include "storage/segment_reader.hpp"
#include "wire/batch.hpp"

namespace galgo::storage::detail {

/// The file in the directory of a log that takes no more messages, in later runs too.
inline constexpr std::string_view kFencedName = "fenced";
/// First window of a walk over a log.
inline constexpr std::size_t kRecoveryWindowBytes = 64 * kKiB;
inline constexpr Offset kNoBytes{~std::uint64_t{0}};  ///< of SegmentCursor::next: headers only

[[nodiscard]] inline Offset end_of(const wire::BatchHeader& header) noexcept {
    return Offset(header.base_offset + header.message_count);
}

[[nodiscard]] inline bool names(const IndexEntry& entry, const wire::BatchHeader& header) noexcept {
    return entry.offset.value() == header.base_offset &&
           entry.timestamp.value() == header.base_timestamp_us;
}

[[nodiscard]] inline IndexEntry entry_of(const SegmentStep& step) noexcept {
    return {.offset = Offset(step.header.base_offset),
            .timestamp = Timestamp(step.header.base_timestamp_us),
            .position = step.position};
}

/// The bytes of `entries` as an index file has them.
[[nodiscard]] inline std::vector<std::byte> encode_entries(std::span<const IndexEntry> entries,
                                                           std::uint64_t seed) {
    std::vector<std::byte> bytes(entries.size() * kIndexEntryBytes);
    for (std::size_t i = 0; i < entries.size(); ++i) {
        encode_index_entry(MutableBytes(bytes).subspan(i * kIndexEntryBytes), entries[i], seed);
    }
    return bytes;
}

}  // namespace galgo::storage::detail

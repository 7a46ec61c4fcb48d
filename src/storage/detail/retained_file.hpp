// Format of the file "retained" of a partition's directory: where the log begins, once its oldest
// segments have been given up. docs/formats/retained.md.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "base/bytes.hpp"
#include "base/ids.hpp"

namespace galgo::storage::detail {

inline constexpr std::string_view kRetainedName = "retained";
inline constexpr std::size_t kRetainedBytes = 40;

struct Retained {
    Offset low;     ///< start of the first segment that stays
    Offset wanted;  ///< segments that end at or before it may go as soon as no consumer needs them
};

/// `bytes`: kRetainedBytes of them.
void encode_retained(MutableBytes bytes, const Retained& retained, PartitionKey partition,
                     Incarnation incarnation) noexcept;
/// Nothing when they do not verify, or are of another partition or life.
[[nodiscard]] std::optional<Retained> decode_retained(ConstBytes bytes, PartitionKey partition,
                                                      Incarnation incarnation) noexcept;

}  // namespace galgo::storage::detail

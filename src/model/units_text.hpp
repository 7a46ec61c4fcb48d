// Sizes and durations as people write them, in configuration files and topic options.
//   size      "4096", "1 GiB", "1.5MB", "64 mib": decimal units are powers of 1000, binary of 1024
//   duration  "500ms", "1 h 30 m", "7 days", "1h30m"; a bare number has no unit and is refused, but
//   for 0
// Letter case does not matter, so "M" is a minute. Results that do not fit 64 bits are refused.
// Pure, no allocation.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.hpp"

namespace galgo::model {

/// Bytes. "0", "unlimited" and "none" give 0. Error: kInvalidSizeBytes.
[[nodiscard]] Result<std::uint64_t> parse_byte_size(std::string_view text) noexcept;

/// Microseconds, parts below one are cut. "0", "unlimited", "disabled" and "none" give 0.
/// Error: kInvalidNumberValue.
[[nodiscard]] Result<std::uint64_t> parse_duration_us(std::string_view text) noexcept;

/// An expiry in microseconds: "none", "unlimited", "never_expire" (and "never") give kNeverExpires,
/// "default" and "server_default" give 0, else a duration of at most 2^32 - 1 seconds.
/// Error: kInvalidNumberValue.
[[nodiscard]] Result<std::uint64_t> parse_expiry_us(std::string_view text) noexcept;

}  // namespace galgo::model

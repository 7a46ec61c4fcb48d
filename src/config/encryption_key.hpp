// The text of system.encryption.key.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace galgo::config {

/// The 32 bytes that `text` is the base64 of; empty when it is none of 32 bytes.
[[nodiscard]] std::optional<std::array<std::byte, 32>> decode_encryption_key(
    std::string_view text) noexcept;

}  // namespace galgo::config

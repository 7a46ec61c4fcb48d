// Small text tools that more than one codec needs. Pure, no allocation.
#pragma once

#include <string_view>

namespace galgo::model {

/// True if `text` is well-formed UTF-8 (no overlong forms, no surrogates, at most U+10FFFF).
[[nodiscard]] bool is_valid_utf8(std::string_view text) noexcept;

/// Compares ASCII letters without regard to case.
[[nodiscard]] bool equals_ignoring_case(std::string_view left, std::string_view right) noexcept;

/// `text` without blanks and tabs at both ends.
[[nodiscard]] std::string_view trimmed(std::string_view text) noexcept;

}  // namespace galgo::model

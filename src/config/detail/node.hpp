// A value as it was written, before its property gives it a type: what the TOML reader and the
// environment hand to detail/assign.cpp. Keeps toml++ out of every other file.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace galgo::config::detail {

struct Node {
    enum class Kind : std::uint8_t {
        kBool,
        kInteger,
        kOther,  ///< a float or a date: no property takes one
        kString,
        kText,  ///< from the environment: untyped, the property decides
        kArray,
        kTable,
    };
    Kind kind = Kind::kTable;
    std::string name;  ///< in its table; may be a dotted path
    bool boolean = false;
    std::int64_t integer = 0;
    std::string text;         ///< kString and kText; for kOther what to show
    std::vector<Node> items;  ///< of an array or a table
};

/// The value in one line, at most about 80 bytes, control characters escaped.
[[nodiscard]] std::string show(const Node& node);

/// `text` as a TOML basic string with its quotes.
[[nodiscard]] std::string quoted(std::string_view text);

/// `text` with its control characters escaped: keys and parser messages may hold line breaks.
[[nodiscard]] std::string one_line(std::string_view text);

/// Parses TOML; the root is a table. The error is "line 3: ..." and names what was expected.
/// Nesting is bounded, so that no input can exhaust the stack.
[[nodiscard]] std::expected<Node, std::string> read_toml(std::string_view toml);

}  // namespace galgo::config::detail

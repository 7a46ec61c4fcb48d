// The property table: each key of the configuration is declared there once, with its type, default,
// bounds and meaning. Parser, environment, printer and reference page all come from it.
#pragma once

#include <cstdint>
#include <expected>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/config.hpp"
#include "config/detail/node.hpp"

namespace galgo::config::detail {

enum class Kind : std::uint8_t {
    kBool,
    kCount,
    kOptionalCount,
    kSize,
    kOptionalSize,
    kDuration,
    kExpiry,
    kString,
    kSecret,  ///< a string that is never shown
    kStrings,
    kCPUAllocation,
    kTables,  ///< an array of tables
};

/// Where a value goes. The alternative agrees with the kind.
using FieldRef =
    std::variant<bool*, std::uint64_t*, std::optional<std::uint64_t>*, std::string*,
                 std::vector<std::string>*, Expiry*, CPUAllocation*, std::vector<ClusterNode>*,
                 std::vector<AdvertisedAddress>*, std::vector<HTTPConfig::TrustedIssuer>*>;

/// Inclusive, in bytes, nanoseconds or a plain count.
struct Bounds {
    std::uint64_t min = 0;
    std::uint64_t max = std::numeric_limits<std::uint64_t>::max();
};

/// How a property reaches its value.
struct Field {
    FieldRef (*of)(Config&);
    bool is_acted_upon = true;  ///< false: read, checked, printed and not yet acted upon

    FieldRef operator()(Config& config) const { return of(config); }
};

struct Property {
    std::string_view key;
    Kind kind;
    std::string_view fallback;  ///< the default, written as in an environment variable
    std::string_view description;
    Field field;
    Bounds bounds = {};
    bool (*bounded_when)(const Config&) = nullptr;  ///< bounds hold only then; null = always
};

/// In the order of the printed file: the keys of one table stand together, parents first.
[[nodiscard]] std::span<const Property> properties() noexcept;
[[nodiscard]] const Property* find_property(std::string_view key) noexcept;

/// Keys that moved to a topic option or went away; matching also whatever is nested below.
struct RelocatedKey {
    std::string_view key;
    std::string_view option;  ///< empty = removed
};
[[nodiscard]] std::span<const RelocatedKey> relocated_keys() noexcept;

/// "http.cors.enabled" -> "IGGY_HTTP_CORS_ENABLED"
[[nodiscard]] std::string variable_name(std::string_view key);

using Warnings = std::vector<std::string>;

/// Puts `node` into the field. The error says what would be allowed ("must be ...").
/// Unknown keys of table elements become warnings.
[[nodiscard]] std::expected<void, std::string> assign(Kind kind, const FieldRef& field,
                                                      const Node& node, Warnings& warnings);

/// The value as a TOML literal; empty for an unset optional. Not for kTables.
[[nodiscard]] std::string literal(Kind kind, const FieldRef& field);

/// "must be in 1..=127", from the bounds.
[[nodiscard]] std::string bounds_text(Kind kind, const Bounds& bounds);

// Arrays of tables (detail/element.cpp).
[[nodiscard]] std::expected<void, std::string> assign_elements(const FieldRef& field,
                                                               const Node& node,
                                                               Warnings& warnings);
/// "[[cluster.nodes]]" and so on; empty when there are none.
[[nodiscard]] std::string print_elements(std::string_view key, const FieldRef& field);
/// Path of the element's field that the tail of a variable name means ("PORTS_TCP" -> "ports.tcp").
[[nodiscard]] std::optional<std::string> element_path(const FieldRef& field, std::string_view tail);

/// Up to three of `candidates` that are near `name`, nearest first.
[[nodiscard]] std::vector<std::string> nearest(std::string_view name,
                                               const std::vector<std::string>& candidates);

/// A broken rule. `value` is empty when the key's own value is meant.
struct Violation {
    std::string key;
    std::string value;
    std::string requirement;
};
/// Bounds and rules between keys; then what this version does not have.
[[nodiscard]] std::optional<Violation> validate(const Config& config);

}  // namespace galgo::config::detail

// From a written value to a typed field and back. A variable of the environment carries no type:
// the property decides, so that a secret made of digits stays a string.
#include <algorithm>
#include <charconv>
#include <format>
#include <utility>

#include "config/detail/property.hpp"
#include "config/print.hpp"
#include "model/text.hpp"
#include "model/units_text.hpp"

namespace galgo::config::detail {
namespace {

using Outcome = std::expected<void, std::string>;
using NodeKind = Node::Kind;

constexpr std::uint64_t kNsPerUs = 1000;
constexpr std::uint64_t kU64Max = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kListItemsMax = 256;

Outcome refuse(std::string requirement) {
    return std::unexpected(std::move(requirement));
}

bool is_text(const Node& node) {
    return node.kind == NodeKind::kString || node.kind == NodeKind::kText;
}

std::optional<std::uint64_t> parse_u64(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return std::nullopt;
    }
    return value;
}

/// A number written as such, or by the environment.
std::optional<std::uint64_t> whole_number(const Node& node) {
    if (node.kind == NodeKind::kInteger && node.integer >= 0) {
        return static_cast<std::uint64_t>(node.integer);
    }
    if (node.kind == NodeKind::kText) {
        return parse_u64(model::trimmed(node.text));
    }
    return std::nullopt;
}

std::optional<std::uint64_t> byte_size(const Node& node) {
    if (is_text(node)) {
        const auto size = model::parse_byte_size(node.text);
        return size ? std::optional(*size) : std::nullopt;
    }
    return whole_number(node);
}

std::optional<std::uint64_t> to_ns(std::uint64_t microseconds) {
    if (microseconds > kU64Max / kNsPerUs) {
        return std::nullopt;
    }
    return microseconds * kNsPerUs;
}

std::optional<std::uint64_t> duration_ns(const Node& node) {
    if (is_text(node)) {
        if (model::equals_ignoring_case(model::trimmed(node.text), "off")) {
            return 0;
        }
        const auto microseconds = model::parse_duration_us(node.text);
        return microseconds ? to_ns(*microseconds) : std::nullopt;
    }
    // A bare number has no unit; zero needs none.
    return whole_number(node) == 0 ? std::optional<std::uint64_t>(0) : std::nullopt;
}

std::optional<Expiry> expiry(const Node& node) {
    if (!is_text(node)) {
        return std::nullopt;
    }
    const std::string_view text = model::trimmed(node.text);
    const auto is = [text](std::string_view word) {
        return model::equals_ignoring_case(text, word);
    };
    if (is("default") || is("server_default")) {
        return Expiry{.kind = Expiry::Kind::kServerDefault};
    }
    if (is("none") || is("unlimited") || is("never_expire") || is("never")) {
        return Expiry{};
    }
    const auto microseconds = model::parse_duration_us(text);
    constexpr std::uint64_t kExpiryMaxUs = 4'294'967'295ULL * 1'000'000;
    if (!microseconds || *microseconds > kExpiryMaxUs) {
        return std::nullopt;
    }
    return Expiry{.kind = Expiry::Kind::kAfter, .after_ns = *microseconds * kNsPerUs};
}

/// `[a, "b, c", d]`; commas inside double quotes belong to the item.
std::optional<std::vector<std::string>> split_list(std::string_view text) {
    text = model::trimmed(text);
    if (text.size() < 2 || text.front() != '[' || text.back() != ']') {
        return std::nullopt;
    }
    text = text.substr(1, text.size() - 2);
    std::vector<std::string> items;
    if (model::trimmed(text).empty()) {
        return items;
    }
    std::size_t begin = 0;
    bool in_quotes = false;
    for (std::size_t i = 0; i <= text.size(); ++i) {
        if (i < text.size() && text[i] == '"') {
            in_quotes = !in_quotes;
        }
        if (i < text.size() && (text[i] != ',' || in_quotes)) {
            continue;
        }
        std::string_view item = model::trimmed(text.substr(begin, i - begin));
        if (item.size() >= 2 && item.front() == '"' && item.back() == '"') {
            item = item.substr(1, item.size() - 2);
        }
        items.emplace_back(item);
        begin = i + 1;
    }
    if (in_quotes) {
        return std::nullopt;
    }
    return items;
}

std::optional<std::vector<std::string>> strings(const Node& node) {
    if (node.kind == NodeKind::kText) {
        return split_list(node.text);
    }
    if (node.kind != NodeKind::kArray) {
        return std::nullopt;
    }
    std::vector<std::string> items;
    for (const Node& item : node.items) {
        if (item.kind != NodeKind::kString) {
            return std::nullopt;
        }
        items.push_back(item.text);
    }
    return items;
}

Outcome assign_bool(bool& field, const Node& node) {
    if (node.kind == NodeKind::kBool) {
        field = node.boolean;
        return {};
    }
    if (node.kind == NodeKind::kText) {
        const std::string_view text = model::trimmed(node.text);
        if (model::equals_ignoring_case(text, "true") ||
            model::equals_ignoring_case(text, "false")) {
            field = model::equals_ignoring_case(text, "true");
            return {};
        }
    }
    return refuse("must be true or false");
}

Outcome assign_cpu_allocation(CPUAllocation& field, const Node& node) {
    std::string text;
    if (node.kind == NodeKind::kInteger) {
        text = std::to_string(node.integer);
    } else if (is_text(node)) {
        text = node.text;
    }
    auto allocation = parse_cpu_allocation(text);
    if (!allocation) {
        return refuse(std::move(allocation.error()));
    }
    field = *allocation;
    return {};
}

/// Stores what was parsed, or says what would be allowed.
template <class T, class Value>
Outcome store(T& field, std::optional<Value> value, std::string_view requirement) {
    if (!value) {
        return refuse(std::string(requirement));
    }
    field = std::move(*value);
    return {};
}

constexpr std::string_view kCountText = "must be a whole number, 0 or more";
constexpr std::string_view kSizeText = R"(must be a size such as "64 MiB", or a number of bytes)";
constexpr std::string_view kDurationText =
    R"(must be a duration with a unit, such as "30s" or "1h 30m")";
constexpr std::string_view kExpiryText =
    R"(must be a duration of at most 4294967295 s such as "1h", "never_expire" or "server_default")";
constexpr std::string_view kListText =
    R"(must be a list of strings such as ["a", "b"], 256 at most)";

}  // namespace

Outcome assign(Kind kind, const FieldRef& field, const Node& node, Warnings& warnings) {
    switch (kind) {
        case Kind::kBool:
            return assign_bool(*std::get<bool*>(field), node);
        case Kind::kCount:
            return store(*std::get<std::uint64_t*>(field), whole_number(node), kCountText);
        case Kind::kOptionalCount:
            return store(*std::get<std::optional<std::uint64_t>*>(field), whole_number(node),
                         kCountText);
        case Kind::kSize:
            return store(*std::get<std::uint64_t*>(field), byte_size(node), kSizeText);
        case Kind::kOptionalSize:
            return store(*std::get<std::optional<std::uint64_t>*>(field), byte_size(node),
                         kSizeText);
        case Kind::kDuration:
            return store(*std::get<std::uint64_t*>(field), duration_ns(node), kDurationText);
        case Kind::kExpiry:
            return store(*std::get<Expiry*>(field), expiry(node), kExpiryText);
        case Kind::kString:
        case Kind::kSecret:
            if (!is_text(node)) {
                return refuse("must be a string");
            }
            *std::get<std::string*>(field) = node.text;
            return {};
        case Kind::kStrings: {
            auto list = strings(node);
            if (list && list->size() > kListItemsMax) {
                list.reset();
            }
            return store(*std::get<std::vector<std::string>*>(field), std::move(list), kListText);
        }
        case Kind::kCPUAllocation:
            return assign_cpu_allocation(*std::get<CPUAllocation*>(field), node);
        case Kind::kTables:
            return assign_elements(field, node, warnings);
    }
    return refuse("has a kind that is not known");
}

std::string literal(Kind kind, const FieldRef& field) {
    switch (kind) {
        case Kind::kBool:
            return *std::get<bool*>(field) ? "true" : "false";
        case Kind::kCount:
            return std::to_string(*std::get<std::uint64_t*>(field));
        case Kind::kSize:
            return quoted(format_byte_size(*std::get<std::uint64_t*>(field)));
        case Kind::kOptionalCount: {
            const auto& value = *std::get<std::optional<std::uint64_t>*>(field);
            return value ? std::to_string(*value) : "";
        }
        case Kind::kOptionalSize: {
            const auto& value = *std::get<std::optional<std::uint64_t>*>(field);
            return value ? quoted(format_byte_size(*value)) : "";
        }
        case Kind::kDuration:
            return quoted(format_duration(*std::get<std::uint64_t*>(field)));
        case Kind::kExpiry: {
            const Expiry& value = *std::get<Expiry*>(field);
            switch (value.kind) {
                case Expiry::Kind::kNever:
                    return R"("never_expire")";
                case Expiry::Kind::kServerDefault:
                    return R"("server_default")";
                case Expiry::Kind::kAfter:
                    return quoted(format_duration(value.after_ns));
            }
            return "";
        }
        case Kind::kString:
            return quoted(*std::get<std::string*>(field));
        case Kind::kSecret:
            return R"("******")";
        case Kind::kStrings: {
            std::string text = "[";
            for (const std::string& item : *std::get<std::vector<std::string>*>(field)) {
                text += (text.size() > 1 ? ", " : "") + quoted(item);
            }
            return text + "]";
        }
        case Kind::kCPUAllocation:
            return cpu_allocation_literal(*std::get<CPUAllocation*>(field));
        case Kind::kTables:
            return "[...]";
    }
    return "";
}

std::string bounds_text(Kind kind, const Bounds& bounds) {
    const auto show_bound = [kind](std::uint64_t value) {
        switch (kind) {
            case Kind::kSize:
            case Kind::kOptionalSize:
                return format_byte_size(value);
            case Kind::kDuration:
                return format_duration(value);
            default:
                return std::to_string(value);
        }
    };
    const bool has_unit = kind != Kind::kCount && kind != Kind::kOptionalCount;
    const std::string low =
        has_unit && bounds.min == 1 ? "more than 0" : "at least " + show_bound(bounds.min);
    if (bounds.max == kU64Max) {
        return "must be " + low;
    }
    if (bounds.min == 0) {
        return "must be at most " + show_bound(bounds.max);
    }
    if (has_unit) {
        return std::format("must be {} and at most {}", low, show_bound(bounds.max));
    }
    return std::format("must be in {}..={}", bounds.min, bounds.max);
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        switch (c) {
            case '"':
                out += "\\\"";
                break;
            case '\\':
                out += "\\\\";
                break;
            case '\n':
                out += "\\n";
                break;
            case '\t':
                out += "\\t";
                break;
            case '\r':
                out += "\\r";
                break;
            default:
                if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
                    out += std::format("\\u{:04X}", static_cast<unsigned>(c));
                } else {
                    out += c;
                }
        }
    }
    return out + "\"";
}

std::string one_line(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            out += std::format("\\u{:04X}", static_cast<unsigned>(c));
        } else {
            out += c;
        }
    }
    return out;
}

std::string show(const Node& node) {
    constexpr std::size_t kShownMax = 80;
    switch (node.kind) {
        case NodeKind::kBool:
            return node.boolean ? "true" : "false";
        case NodeKind::kInteger:
            return std::to_string(node.integer);
        case NodeKind::kOther:
            return node.text;
        case NodeKind::kString:
        case NodeKind::kText:
            return quoted(node.text.size() <= kShownMax ? node.text
                                                        : node.text.substr(0, kShownMax) + "...");
        case NodeKind::kArray:
            return "[...]";
        case NodeKind::kTable:
            return "{...}";
    }
    return "";
}

}  // namespace galgo::config::detail

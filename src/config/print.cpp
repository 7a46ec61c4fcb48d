#include "config/print.hpp"

#include <array>
#include <format>
#include <string_view>

#include "config/detail/property.hpp"

namespace galgo::config {
namespace {

using detail::Kind;

__extension__ using Wide = unsigned __int128;

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

constexpr std::array kBinaryUnits{Unit{"PiB", 1ULL << 50}, Unit{"TiB", 1ULL << 40},
                                  Unit{"GiB", 1ULL << 30}, Unit{"MiB", 1ULL << 20},
                                  Unit{"KiB", 1ULL << 10}};
constexpr std::array kDecimalUnits{Unit{"PB", 1'000'000'000'000'000},
                                   Unit{"TB", 1'000'000'000'000},
                                   Unit{"GB", 1'000'000'000},
                                   Unit{"MB", 1'000'000},
                                   Unit{"KB", 1'000},
                                   Unit{"B", 1}};

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
// A month is 30.44 days, a year 365.25 days, as the reader has them.
constexpr std::array kDurationUnits{Unit{"year", 31'557'600}, Unit{"month", 2'630'016},
                                    Unit{"day", 86'400}};
constexpr std::array kClockUnits{Unit{"h", 3'600 * kNsPerSecond},
                                 Unit{"m", 60 * kNsPerSecond},
                                 Unit{"s", kNsPerSecond},
                                 Unit{"ms", 1'000'000},
                                 Unit{"us", 1'000},
                                 Unit{"ns", 1}};

/// With at most two digits behind the point, or nothing when that would not be exact.
std::string exact_decimal(std::uint64_t bytes) {
    for (const Unit& unit : kDecimalUnits) {
        const Wide hundredths = Wide{bytes % unit.factor} * 100;
        if (bytes < unit.factor || hundredths % unit.factor != 0) {
            continue;
        }
        std::string text = std::to_string(bytes / unit.factor);
        if (hundredths != 0) {
            text += std::format(".{:02}", static_cast<std::uint64_t>(hundredths / unit.factor));
            text.erase(text.find_last_not_of('0') + 1);
        }
        return std::format("{} {}", text, unit.name);
    }
    return "";
}

std::string exact_binary(std::uint64_t bytes) {
    for (const Unit& unit : kBinaryUnits) {
        if (bytes >= unit.factor && bytes % unit.factor == 0) {
            return std::format("{} {}", bytes / unit.factor, unit.name);
        }
    }
    return "";
}

std::string_view table_of(std::string_view key) {
    return key.substr(0, key.rfind('.'));
}

std::string_view type_name(Kind kind) {
    switch (kind) {
        case Kind::kBool:
            return "bool";
        case Kind::kCount:
        case Kind::kOptionalCount:
            return "number";
        case Kind::kSize:
        case Kind::kOptionalSize:
            return "size";
        case Kind::kDuration:
            return "duration";
        case Kind::kExpiry:
            return "expiry";
        case Kind::kString:
            return "string";
        case Kind::kSecret:
            return "secret";
        case Kind::kStrings:
            return "list of strings";
        case Kind::kCPUAllocation:
            return "string or number";
        case Kind::kTables:
            return "list of tables";
    }
    return "";
}

}  // namespace

std::string format_byte_size(std::uint64_t bytes) {
    if (bytes == 0) {
        return "0 B";
    }
    std::string binary = exact_binary(bytes);
    std::string decimal = exact_decimal(bytes);
    return !binary.empty() && binary.size() <= decimal.size() ? binary : decimal;
}

std::string format_duration(std::uint64_t nanoseconds) {
    if (nanoseconds == 0) {
        return "0s";
    }
    std::string text;
    const auto add = [&text](std::uint64_t count, std::string_view unit, bool plural) {
        if (count != 0) {
            text += std::format("{}{}{}{}", text.empty() ? "" : " ", count, unit,
                                plural && count > 1 ? "s" : "");
        }
    };
    std::uint64_t seconds = nanoseconds / kNsPerSecond;
    for (const Unit& unit : kDurationUnits) {
        add(seconds / unit.factor, unit.name, true);
        seconds %= unit.factor;
    }
    std::uint64_t rest = seconds * kNsPerSecond + nanoseconds % kNsPerSecond;
    for (const Unit& unit : kClockUnits) {
        add(rest / unit.factor, unit.name, false);
        rest %= unit.factor;
    }
    return text;
}

std::string print_config(const Config& config) {
    Config scratch = config;  // the table hands out mutable fields
    std::string out;
    std::string_view table;
    for (const detail::Property& property : detail::properties()) {
        const detail::FieldRef field = property.field(scratch);
        if (property.kind == Kind::kTables) {
            out += detail::print_elements(property.key, field);
            continue;
        }
        const std::string text =
            property.kind == Kind::kSecret ? "" : detail::literal(property.kind, field);
        if (text.empty()) {
            continue;
        }
        if (table_of(property.key) != table) {
            table = table_of(property.key);
            out += std::format("{}[{}]\n", out.empty() ? "" : "\n", table);
        }
        out += std::format("{} = {}\n", property.key.substr(table.size() + 1), text);
    }
    return out;
}

std::string print_reference() {
    std::string out =
        "| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";
    for (const detail::Property& property : detail::properties()) {
        const bool is_bounded =
            property.bounds.min != 0 || property.bounds.max != detail::Bounds{}.max;
        std::string allowed =
            is_bounded ? detail::bounds_text(property.kind, property.bounds).substr(8) : "";
        const bool has_default = !property.fallback.empty();
        out += std::format(
            "| `{}` | {} | {} | {} | {}{} |\n", property.key, type_name(property.kind),
            has_default ? std::format("`{}`", property.fallback) : "", allowed,
            property.description, property.field.is_acted_upon ? "" : " Not yet acted upon.");
    }
    return out;
}

}  // namespace galgo::config

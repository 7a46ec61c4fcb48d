// Parsers of sizes and durations. Fractions are carried as an integer and a power of ten, so that
// "1.5 GiB" is exact and no floating point rounds a bound.
#include "model/units_text.hpp"

#include <array>
#include <cstddef>
#include <limits>
#include <optional>

#include "model/text.hpp"
#include "model/topic_options.hpp"

namespace galgo::model {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kFractionDigitsMax = 15;

struct Unit {
    std::string_view name;
    std::uint64_t factor;
};

constexpr std::uint64_t kDecimal = 1000;
constexpr std::uint64_t kBinary = 1024;
constexpr std::array kSizeUnits{
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", kDecimal},
    Unit{"kb", kDecimal},
    Unit{"m", kDecimal* kDecimal},
    Unit{"mb", kDecimal* kDecimal},
    Unit{"g", kDecimal* kDecimal* kDecimal},
    Unit{"gb", kDecimal* kDecimal* kDecimal},
    Unit{"t", kDecimal* kDecimal* kDecimal* kDecimal},
    Unit{"tb", kDecimal* kDecimal* kDecimal* kDecimal},
    Unit{"p", kDecimal* kDecimal* kDecimal* kDecimal* kDecimal},
    Unit{"pb", kDecimal* kDecimal* kDecimal* kDecimal* kDecimal},
    Unit{"ki", kBinary},
    Unit{"kib", kBinary},
    Unit{"mi", kBinary* kBinary},
    Unit{"mib", kBinary* kBinary},
    Unit{"gi", kBinary* kBinary* kBinary},
    Unit{"gib", kBinary* kBinary* kBinary},
    Unit{"ti", kBinary* kBinary* kBinary* kBinary},
    Unit{"tib", kBinary* kBinary* kBinary* kBinary},
    Unit{"pi", kBinary* kBinary* kBinary* kBinary* kBinary},
    Unit{"pib", kBinary* kBinary* kBinary* kBinary* kBinary},
};

// Nanoseconds. A month is 30.44 days, a year 365.25 days, as in the notation of the reference.
constexpr std::uint64_t kNsPerUs = 1000;
constexpr std::uint64_t kNsPerMs = 1000 * kNsPerUs;
constexpr std::uint64_t kNsPerSecond = 1000 * kNsPerMs;
constexpr std::uint64_t kNsPerMinute = 60 * kNsPerSecond;
constexpr std::uint64_t kNsPerHour = 60 * kNsPerMinute;
constexpr std::uint64_t kNsPerDay = 24 * kNsPerHour;
constexpr std::uint64_t kNsPerMonth = 2'630'016 * kNsPerSecond;
constexpr std::uint64_t kNsPerYear = 31'557'600 * kNsPerSecond;
constexpr std::array kDurationUnits{
    Unit{"ns", 1},
    Unit{"nsec", 1},
    Unit{"nanos", 1},
    Unit{"us", kNsPerUs},
    Unit{"usec", kNsPerUs},
    Unit{"micros", kNsPerUs},
    Unit{"ms", kNsPerMs},
    Unit{"msec", kNsPerMs},
    Unit{"millis", kNsPerMs},
    Unit{"s", kNsPerSecond},
    Unit{"sec", kNsPerSecond},
    Unit{"secs", kNsPerSecond},
    Unit{"second", kNsPerSecond},
    Unit{"seconds", kNsPerSecond},
    Unit{"m", kNsPerMinute},
    Unit{"min", kNsPerMinute},
    Unit{"mins", kNsPerMinute},
    Unit{"minute", kNsPerMinute},
    Unit{"minutes", kNsPerMinute},
    Unit{"h", kNsPerHour},
    Unit{"hr", kNsPerHour},
    Unit{"hrs", kNsPerHour},
    Unit{"hour", kNsPerHour},
    Unit{"hours", kNsPerHour},
    Unit{"d", kNsPerDay},
    Unit{"day", kNsPerDay},
    Unit{"days", kNsPerDay},
    Unit{"w", 7 * kNsPerDay},
    Unit{"wk", 7 * kNsPerDay},
    Unit{"wks", 7 * kNsPerDay},
    Unit{"week", 7 * kNsPerDay},
    Unit{"weeks", 7 * kNsPerDay},
    Unit{"month", kNsPerMonth},
    Unit{"months", kNsPerMonth},
    Unit{"y", kNsPerYear},
    Unit{"yr", kNsPerYear},
    Unit{"yrs", kNsPerYear},
    Unit{"year", kNsPerYear},
    Unit{"years", kNsPerYear},
};

constexpr bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// A decimal number: `digits` / 10^fraction_digits.
struct Decimal {
    Wide digits = 0;
    std::uint64_t divisor = 1;
};

/// Takes digits and an optional fraction from the front of `text`.
std::optional<Decimal> take_decimal(std::string_view& text) noexcept {
    Decimal number;
    std::size_t position = 0;
    const auto push = [&number](char c) {
        number.digits = number.digits * 10 + static_cast<unsigned>(c - '0');
        return number.digits <= Wide{kMax} * 1'000'000'000'000'000ULL;
    };
    while (position < text.size() && is_digit(text[position])) {
        if (!push(text[position++])) {
            return std::nullopt;
        }
    }
    if (position == 0) {
        return std::nullopt;
    }
    if (position < text.size() && text[position] == '.') {
        const std::size_t fraction_begin = ++position;
        while (position < text.size() && is_digit(text[position])) {
            if (position - fraction_begin >= kFractionDigitsMax || !push(text[position++])) {
                return std::nullopt;
            }
            number.divisor *= 10;
        }
        if (position == fraction_begin) {
            return std::nullopt;
        }
    }
    text.remove_prefix(position);
    return number;
}

template <std::size_t N>
std::optional<std::uint64_t> take_unit(std::string_view& text,
                                       const std::array<Unit, N>& units) noexcept {
    std::size_t size = 0;
    while (size < text.size() && is_letter(text[size])) {
        ++size;
    }
    const std::string_view name = text.substr(0, size);
    for (const Unit& unit : units) {
        if (equals_ignoring_case(unit.name, name)) {
            text.remove_prefix(size);
            return unit.factor;
        }
    }
    return std::nullopt;
}

std::optional<std::uint64_t> scale(const Decimal& number, std::uint64_t factor) noexcept {
    // Split so that the product cannot pass 128 bits: digits <= 2^64 * 10^15, factor <= 2^63.
    const Wide whole = number.digits / number.divisor;
    const Wide part = number.digits % number.divisor;
    if (whole > kMax) {
        return std::nullopt;
    }
    const Wide total = whole * factor + part * factor / number.divisor;
    if (total > kMax) {
        return std::nullopt;
    }
    return static_cast<std::uint64_t>(total);
}

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) noexcept {
    for (const std::string_view word : words) {
        if (equals_ignoring_case(word, text)) {
            return true;
        }
    }
    return false;
}

constexpr std::array<std::string_view, 2> kSizeZeroWords{"unlimited", "none"};
constexpr std::array<std::string_view, 4> kDurationZeroWords{"0", "unlimited", "disabled", "none"};
constexpr std::array<std::string_view, 4> kNeverWords{"none", "unlimited", "never_expire", "never"};
constexpr std::array<std::string_view, 2> kDefaultWords{"default", "server_default"};

}  // namespace

Result<std::uint64_t> parse_byte_size(std::string_view text) noexcept {
    text = trimmed(text);
    if (is_one_of(text, kSizeZeroWords)) {
        return std::uint64_t{0};
    }
    const std::optional<Decimal> number = take_decimal(text);
    if (!number) {
        return fail(ErrorCode::kInvalidSizeBytes);
    }
    text = trimmed(text);
    const std::optional<std::uint64_t> factor = take_unit(text, kSizeUnits);
    if (!factor || !text.empty()) {
        return fail(ErrorCode::kInvalidSizeBytes);
    }
    const std::optional<std::uint64_t> bytes = scale(*number, *factor);
    if (!bytes) {
        return fail(ErrorCode::kInvalidSizeBytes);
    }
    return *bytes;
}

Result<std::uint64_t> parse_duration_us(std::string_view text) noexcept {
    text = trimmed(text);
    if (is_one_of(text, kDurationZeroWords)) {
        return std::uint64_t{0};
    }
    if (text.empty()) {
        return fail(ErrorCode::kInvalidNumberValue);
    }
    Wide total_ns = 0;
    while (!text.empty()) {
        const std::optional<Decimal> number = take_decimal(text);
        if (!number) {
            return fail(ErrorCode::kInvalidNumberValue);
        }
        text = trimmed(text);
        const std::optional<std::uint64_t> factor = take_unit(text, kDurationUnits);
        if (!factor) {
            return fail(ErrorCode::kInvalidNumberValue);
        }
        const Wide whole = number->digits / number->divisor;
        if (whole > kMax) {
            return fail(ErrorCode::kInvalidNumberValue);
        }
        total_ns += whole * *factor + number->digits % number->divisor * *factor / number->divisor;
        if (total_ns / kNsPerUs > kMax) {
            return fail(ErrorCode::kInvalidNumberValue);
        }
        text = trimmed(text);
    }
    return static_cast<std::uint64_t>(total_ns / kNsPerUs);
}

Result<std::uint64_t> parse_expiry_us(std::string_view text) noexcept {
    text = trimmed(text);
    if (is_one_of(text, kNeverWords)) {
        return kNeverExpires;
    }
    if (is_one_of(text, kDefaultWords)) {
        return std::uint64_t{0};
    }
    GALGO_TRY_ASSIGN(const std::uint64_t expiry_us, parse_duration_us(text));
    constexpr std::uint64_t kSecondsMax = std::numeric_limits<std::uint32_t>::max();
    if (expiry_us / 1'000'000 > kSecondsMax) {
        return fail(ErrorCode::kInvalidNumberValue);
    }
    return expiry_us;
}

}  // namespace galgo::model

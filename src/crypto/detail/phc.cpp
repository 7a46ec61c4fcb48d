#include "crypto/detail/phc.hpp"

#include <charconv>
#include <span>

namespace galgo::crypto::internal {

namespace {

constexpr std::size_t kSaltBytesMin = 8;
constexpr std::size_t kHashBytesMin = 16;
constexpr std::size_t kPhcCharactersMax = 256;
constexpr std::string_view kPrefix = "$argon2id$v=19$";
constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void append_base64(std::string& text, const PhcField& field) {
    std::uint32_t bits = 0;
    int bit_count = 0;
    for (const std::uint8_t byte : std::span(field.bytes).first(field.size)) {
        bits = (bits << 8) | byte;
        for (bit_count += 8; bit_count >= 6;) {
            bit_count -= 6;
            text.push_back(kBase64[(bits >> bit_count) & 63]);
        }
    }
    if (bit_count > 0) {
        text.push_back(kBase64[(bits << (6 - bit_count)) & 63]);
    }
}

std::optional<PhcField> parse_base64(std::string_view text) noexcept {
    PhcField field;
    std::uint32_t bits = 0;
    int bit_count = 0;
    for (const char character : text) {
        const std::size_t value = kBase64.find(character);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        bits = (bits << 6) | static_cast<std::uint32_t>(value);
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            if (field.size == field.bytes.size()) {
                return std::nullopt;
            }
            field.bytes[field.size++] = static_cast<std::uint8_t>(bits >> bit_count);
        }
    }
    // Left-over bits: none, or 2 or 4 that are zero; 6 would be a character too many.
    if (bit_count >= 6 || (bits & ((1U << bit_count) - 1)) != 0) {
        return std::nullopt;
    }
    return field;
}

/// Takes `name` and the number behind it off the front of `text`.
std::optional<std::uint32_t> take_number(std::string_view& text, std::string_view name) noexcept {
    if (!text.starts_with(name)) {
        return std::nullopt;
    }
    text.remove_prefix(name.size());
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || (text.front() == '0' && end - text.data() > 1)) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

}  // namespace

std::optional<Phc> parse_phc(std::string_view text) noexcept {
    if (text.size() > kPhcCharactersMax || !text.starts_with(kPrefix)) {
        return std::nullopt;
    }
    text.remove_prefix(kPrefix.size());
    const auto memory_kib = take_number(text, "m=");
    const auto passes = take_number(text, ",t=");
    const auto lanes = take_number(text, ",p=");
    if (!memory_kib || !passes || !lanes || !text.starts_with('$')) {
        return std::nullopt;
    }
    const PasswordCost cost{.memory_kib = *memory_kib, .passes = *passes, .lanes = *lanes};
    if (cost.lanes < 1 || cost.lanes > kPasswordCostMax.lanes || cost.passes < 1 ||
        cost.passes > kPasswordCostMax.passes || cost.memory_kib < 8 * cost.lanes ||
        cost.memory_kib > kPasswordCostMax.memory_kib) {
        return std::nullopt;
    }
    text.remove_prefix(1);
    const std::size_t dollar = text.find('$');
    if (dollar == std::string_view::npos) {
        return std::nullopt;
    }
    const auto salt = parse_base64(text.substr(0, dollar));
    const auto hash = parse_base64(text.substr(dollar + 1));
    if (!salt || !hash || salt->size < kSaltBytesMin || hash->size < kHashBytesMin) {
        return std::nullopt;
    }
    return Phc{.cost = cost, .salt = *salt, .hash = *hash};
}

std::string format_phc(const Phc& phc) {
    std::string text(kPrefix);
    text += "m=" + std::to_string(phc.cost.memory_kib) + ",t=" + std::to_string(phc.cost.passes) +
            ",p=" + std::to_string(phc.cost.lanes) + "$";
    append_base64(text, phc.salt);
    text += '$';
    append_base64(text, phc.hash);
    return text;
}

}  // namespace galgo::crypto::internal

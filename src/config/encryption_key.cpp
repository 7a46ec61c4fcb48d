#include "config/encryption_key.hpp"

#include <cstdint>

namespace galgo::config {

std::optional<std::array<std::byte, 32>> decode_encryption_key(std::string_view text) noexcept {
    constexpr std::string_view kAlphabet =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    constexpr std::size_t kDigits = 43;
    if (text.size() != kDigits + 1 || text.back() != '=') {
        return std::nullopt;
    }
    std::array<std::byte, 32> key{};
    std::size_t filled = 0;
    std::uint32_t bits = 0;
    std::uint32_t bit_count = 0;
    for (const char digit : text.substr(0, kDigits)) {
        const std::size_t value = kAlphabet.find(digit);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        bits = (bits << 6U) | static_cast<std::uint32_t>(value);
        bit_count += 6;
        if (bit_count >= 8) {
            bit_count -= 8;
            key[filled++] = static_cast<std::byte>((bits >> bit_count) & 0xffU);
        }
    }
    return key;
}

}  // namespace galgo::config

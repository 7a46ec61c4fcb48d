// Helpers of the wire tests: hexadecimal golden bytes, and frames given as rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"

namespace galgo::wire {

/// Bytes of "01 ff  20..."; blanks do not matter.
inline std::vector<std::byte> from_hex(std::string_view text) {
    std::vector<std::byte> bytes;
    int high = -1;
    for (const char c : text) {
        int digit = -1;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if (c >= 'a' && c <= 'f') {
            digit = c - 'a' + 10;
        }
        if (digit < 0) {
            continue;
        }
        if (high < 0) {
            high = digit;
        } else {
            bytes.push_back(static_cast<std::byte>(high * 16 + digit));
            high = -1;
        }
    }
    return bytes;
}

inline std::string to_hex(ConstBytes bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        const auto value = std::to_integer<unsigned>(byte);
        text += kDigits[value >> 4U];
        text += kDigits[value & 15U];
    }
    return text;
}

/// `size` zero bytes with rows laid over them.
class Golden {
 public:
    explicit Golden(std::size_t size) : bytes_(size) {}
    Golden& row(std::size_t at, std::string_view hex) {
        const std::vector<std::byte> bytes = from_hex(hex);
        std::copy(bytes.begin(), bytes.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(at));
        return *this;
    }
    [[nodiscard]] ConstBytes bytes() const { return bytes_; }
    [[nodiscard]] std::string hex() const { return to_hex(bytes_); }

 private:
    std::vector<std::byte> bytes_;
};

inline std::vector<std::byte> copy_of(ConstBytes bytes) {
    return {bytes.begin(), bytes.end()};
}

/// A small reproducible generator (splitmix64).
class Random {
 public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        state_ += 0x9E37'79B9'7F4A'7C15ULL;
        std::uint64_t z = state_;
        z = (z ^ z >> 30U) * 0xBF58'476D'1CE4'E5B9ULL;
        z = (z ^ z >> 27U) * 0x94D0'49BB'1331'11EBULL;
        return z ^ z >> 31U;
    }
    std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
    std::uint64_t state_;
};

}  // namespace galgo::wire

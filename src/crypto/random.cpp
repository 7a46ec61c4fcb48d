#include "crypto/random.hpp"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <string_view>

#include "base/check.hpp"

namespace galgo::crypto {

void random_bytes(MutableBytes bytes) noexcept {
    while (!bytes.empty()) {
        const ssize_t got = ::getrandom(bytes.data(), bytes.size(), 0);
        if (got < 0) {
            GALGO_CHECK(errno == EINTR);
            continue;
        }
        bytes = bytes.subspan(static_cast<std::size_t>(got));
    }
}

std::uint64_t random_u64() noexcept {
    std::uint64_t value = 0;
    random_bytes(std::as_writable_bytes(std::span(&value, 1)));
    return value;
}

std::string random_alphanumeric(std::size_t length) {
    constexpr std::string_view kAlphabet =
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // Bytes from here on are thrown away, or the first characters would be likelier.
    constexpr std::size_t kFairBytes = 256 / kAlphabet.size() * kAlphabet.size();

    std::string text;
    text.reserve(length);
    std::array<std::byte, 64> pool{};
    while (text.size() < length) {
        random_bytes(pool);
        for (const std::byte value : pool) {
            if (std::to_integer<std::size_t>(value) < kFairBytes && text.size() < length) {
                text.push_back(kAlphabet[std::to_integer<std::size_t>(value) % kAlphabet.size()]);
            }
        }
    }
    return text;
}

}  // namespace galgo::crypto

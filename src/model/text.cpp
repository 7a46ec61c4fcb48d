// Text tools; the UTF-8 check has a fast path of eight ASCII bytes at a time, because names are
// ASCII.
#include "model/text.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace galgo::model {
namespace {

constexpr char lower(char c) noexcept {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Length of the well-formed sequence at the start of `bytes`, 0 if there is none.
std::size_t sequence_size(const unsigned char* bytes, std::size_t available) noexcept {
    const unsigned lead = bytes[0];
    if (lead < 0x80) {
        return 1;
    }
    std::size_t size = 0;
    unsigned second_min = 0x80;
    unsigned second_max = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) {
        size = 2;
    } else if (lead >= 0xE0 && lead <= 0xEF) {
        size = 3;
        second_min = lead == 0xE0 ? 0xA0 : 0x80;
        second_max = lead == 0xED ? 0x9F : 0xBF;
    } else if (lead >= 0xF0 && lead <= 0xF4) {
        size = 4;
        second_min = lead == 0xF0 ? 0x90 : 0x80;
        second_max = lead == 0xF4 ? 0x8F : 0xBF;
    }
    if (size == 0 || size > available || bytes[1] < second_min || bytes[1] > second_max) {
        return 0;
    }
    for (std::size_t i = 2; i < size; ++i) {
        if ((bytes[i] & 0xC0U) != 0x80U) {
            return 0;
        }
    }
    return size;
}

}  // namespace

bool is_valid_utf8(std::string_view text) noexcept {
    const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
    std::size_t position = 0;
    while (position < text.size()) {
        if (text.size() - position >= sizeof(std::uint64_t)) {
            std::uint64_t word = 0;
            std::memcpy(&word, bytes + position, sizeof(word));
            if ((word & 0x8080'8080'8080'8080ULL) == 0) {
                position += sizeof(word);
                continue;
            }
        }
        const std::size_t size = sequence_size(bytes + position, text.size() - position);
        if (size == 0) {
            return false;
        }
        position += size;
    }
    return true;
}

bool equals_ignoring_case(std::string_view left, std::string_view right) noexcept {
    if (left.size() != right.size()) {
        return false;
    }
    for (std::size_t i = 0; i < left.size(); ++i) {
        if (lower(left[i]) != lower(right[i])) {
            return false;
        }
    }
    return true;
}

std::string_view trimmed(std::string_view text) noexcept {
    constexpr std::string_view kBlank = " \t";
    const std::size_t first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) {
        return {};
    }
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

}  // namespace galgo::model

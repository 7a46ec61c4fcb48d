// Names and index entries of segments.
#include "storage/segment_format.hpp"

#include <algorithm>
#include <charconv>
#include <format>

namespace galgo::storage {

namespace {
constexpr std::size_t kDigits = 20;
}  // namespace

void encode_index_entry(MutableBytes to, const IndexEntry& entry) noexcept {
    store<std::uint64_t>(to, 0, entry.offset.value());
    store<std::uint64_t>(to, 8, entry.timestamp.value());
    store<std::uint64_t>(to, 16, entry.position);
}

IndexEntry decode_index_entry(ConstBytes from) noexcept {
    return {.offset = Offset(load<std::uint64_t>(from, 0)),
            .timestamp = Timestamp(load<std::uint64_t>(from, 8)),
            .position = load<std::uint64_t>(from, 16)};
}

std::string segment_file_name(Offset start, std::string_view extension) {
    return std::format("{:020}{}", start.value(), extension);
}

std::optional<Offset> parse_segment_file_name(std::string_view name,
                                              std::string_view extension) noexcept {
    if (name.size() != kDigits + extension.size() || !name.ends_with(extension)) {
        return std::nullopt;
    }
    const std::string_view digits = name.substr(0, kDigits);
    if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) {
        return std::nullopt;
    }
    std::uint64_t start = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + kDigits, start);
    if (error != std::errc{}) {
        return std::nullopt;  // above 2^64
    }
    return Offset(start);
}

}  // namespace galgo::storage

// Names and index entries of segments.
#include "storage/segment_format.hpp"

#include <algorithm>
#include <charconv>
#include <format>

#include "base/check.hpp"
#include "storage/detail/checksum.hpp"

namespace galgo::storage {

namespace {

constexpr std::size_t kDigits = 20;

// Of an index entry.
constexpr std::size_t kPositionAt = 16;
constexpr std::size_t kCheckAt = 20;

std::uint32_t check_of(ConstBytes entry, std::uint64_t seed) noexcept {
    return static_cast<std::uint32_t>(detail::bound_checksum(entry, {}, seed));
}

}  // namespace

std::uint64_t index_seed(PartitionKey partition, Incarnation incarnation, Offset start) noexcept {
    std::byte bytes[24];
    store<std::uint64_t>(bytes, 0, partition.value());
    store<std::uint64_t>(bytes, 8, incarnation.value());
    store<std::uint64_t>(bytes, 16, start.value());
    return detail::checksum(bytes);
}

void encode_index_entry(MutableBytes to, const IndexEntry& entry, std::uint64_t seed) noexcept {
    GALGO_DCHECK(entry.position <= kIndexPositionMax);
    store<std::uint64_t>(to, 0, entry.offset.value());
    store<std::uint64_t>(to, 8, entry.timestamp.value());
    store<std::uint32_t>(to, kPositionAt, static_cast<std::uint32_t>(entry.position));
    store<std::uint32_t>(to, kCheckAt, check_of(to.first(kCheckAt), seed));
}

std::optional<IndexEntry> decode_index_entry(ConstBytes from, std::uint64_t seed) noexcept {
    if (load<std::uint32_t>(from, kCheckAt) != check_of(from.first(kCheckAt), seed)) {
        return std::nullopt;
    }
    return IndexEntry{.offset = Offset(load<std::uint64_t>(from, 0)),
                      .timestamp = Timestamp(load<std::uint64_t>(from, 8)),
                      .position = load<std::uint32_t>(from, kPositionAt)};
}

IndexEntry decode_unchecked_entry(ConstBytes from) noexcept {
    return {.offset = Offset(load<std::uint64_t>(from, 0)),
            .timestamp = Timestamp(load<std::uint64_t>(from, 8)),
            .position = load<std::uint64_t>(from, kPositionAt)};
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

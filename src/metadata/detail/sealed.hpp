// The frame that all snapshot encodings of this module share, little-endian: magic u32, version
// u16, 0 u16, content, XXH3-64 of all before. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "crypto/hash.hpp"

namespace galgo::metadata::detail {

struct SealedKind {
    std::uint32_t magic = 0;
    std::uint16_t version = 0;
};

inline constexpr std::size_t kSealedHeadSize = 8;
inline constexpr std::size_t kSealedChecksumSize = 8;

/// The head of a frame; the content follows, then seal().
[[nodiscard]] inline ByteWriter begin_sealed(SealedKind kind) {
    ByteWriter to;
    to.put<std::uint32_t>(kind.magic);
    to.put<std::uint16_t>(kind.version);
    to.put<std::uint16_t>(0);
    return to;
}

[[nodiscard]] inline std::vector<std::byte> seal(ByteWriter to) {
    to.put<std::uint64_t>(crypto::xxh3_64(to.bytes()));
    return std::move(to).take();
}

/// The error of damage at `position` of the frame.
[[nodiscard]] inline std::unexpected<Error> corrupted(std::size_t position) {
    return fail(ErrorCode::kStateFileCorrupted, static_cast<std::uint32_t>(position));
}

/// The content, borrowed. Errors: kStateFileCorrupted with the position; kInvalidVersion, whole but
/// of another version.
[[nodiscard]] inline Result<ConstBytes> open_sealed(ConstBytes bytes, SealedKind kind) {
    if (bytes.size() < kSealedHeadSize + kSealedChecksumSize ||
        load<std::uint32_t>(bytes, 0) != kind.magic) {
        return corrupted(0);
    }
    const ConstBytes covered = bytes.first(bytes.size() - kSealedChecksumSize);
    if (load<std::uint64_t>(bytes, covered.size()) != crypto::xxh3_64(covered)) {
        return corrupted(covered.size());
    }
    if (const auto version = load<std::uint16_t>(bytes, 4); version != kind.version) {
        return fail(ErrorCode::kInvalidVersion, version);
    }
    if (load<std::uint16_t>(bytes, 6) != 0) {
        return corrupted(6);
    }
    return covered.subspan(kSealedHeadSize);
}

}  // namespace galgo::metadata::detail

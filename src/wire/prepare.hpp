// Our own header in front of an entry of a replicated log: what was asked, by whom, at which
// position. Never on the client protocol. 256 bytes, so that an entry is header + body like every
// other frame.
//
//     0 checksum u64: XXH3-64 of bytes 8..255     80 client u128
//     8 checksum_body u64: XXH3-64 of the body    96 session u64
//    16 parent u64: checksum of the entry before 104 request u64
//    24 magic u32, 28 version u16, 30 operation u8, 31 reserved
//    32 size u32: header and body                112 request_checksum u64
//    36 view u32                                 120 user_id u32, 124 reserved
//    40 op u64      56 timestamp u64 us          128 reserved, 0
//    48 commit u64  64 group u64    72 reserved
//
// Entries form a chain by `parent`. Pure; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "model/ids.hpp"
#include "wire/codes.hpp"

namespace galgo::wire {

inline constexpr std::size_t kPrepareHeaderSize = 256;

struct PrepareHeader {
    std::uint64_t checksum = 0;       ///< set by encode_prepare_header
    std::uint64_t checksum_body = 0;  ///< set by encode_prepare_header
    std::uint64_t parent = 0;
    std::uint32_t size = kPrepareHeaderSize;  ///< set by encode_prepare_header
    Operation operation = Operation::kNone;
    ViewNumber view;
    OpNumber op;
    OpNumber commit;
    Timestamp timestamp;
    std::uint64_t group = 0;  ///< partition key, or the id of the metadata group
    ClientId client;
    SessionId session;
    RequestNumber request;
    std::uint64_t request_checksum = 0;
    model::UserId user;

    [[nodiscard]] std::uint32_t body_size() const noexcept {
        return size - static_cast<std::uint32_t>(kPrepareHeaderSize);
    }
    bool operator==(const PrepareHeader&) const noexcept = default;
};

/// Completes size and checksums of `header` for `body` and writes all 256 bytes of `to`.
void encode_prepare_header(MutableBytes to, PrepareHeader& header, ConstBytes body) noexcept;

/// Checks magic, version, checksum and size of the first 256 bytes. Error: kInvalidFormat.
[[nodiscard]] Result<PrepareHeader> decode_prepare_header(ConstBytes bytes) noexcept;

/// Does `body` have the size and checksum that `header` names?
[[nodiscard]] bool prepare_body_matches(const PrepareHeader& header, ConstBytes body) noexcept;

}  // namespace galgo::wire

// The 256-byte frame headers that clients and server exchange: request, reply, eviction.
//
// A frame is one header and its body; `size` counts both. Bytes 0..61 are common to the three
// shapes:
//   0 checksum u128 | 16 checksum_body u128 | 32 cluster u128 | 48 size u32 | 52 view u32 | 56
//   release u32 60 command u8 | 61 replica u8 | 62 reserved
// The shapes from byte 128 on are listed in detail/header_layout.hpp. The two checksums
// are zero on these frames and nobody verifies them; only `request_checksum` covers a request body.
// All functions are pure and allocate nothing. wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "wire/codes.hpp"

namespace galgo::wire {

inline constexpr std::size_t kHeaderSize = 256;
/// Default bound of one frame, header included.
inline constexpr std::uint32_t kMaxFrameBytesDefault = 64U * 1024U * 1024U;

/// major << 20 | minor << 10 | patch.
[[nodiscard]] constexpr std::uint32_t pack_version(std::uint32_t major, std::uint32_t minor,
                                                   std::uint32_t patch) noexcept {
    return major << 20U | minor << 10U | patch;
}
/// The protocol this server speaks, and its name in the login reply.
inline constexpr std::uint32_t kProtocolVersion = pack_version(0, 11, 0);
inline constexpr std::uint32_t kProtocolVersionMin = kProtocolVersion & ~std::uint32_t{0x3FF};
inline constexpr const char* kProtocolVersionText = "0.11.0";
static_assert(kProtocolVersion == 11264);

/// The gate of a login: same minor as ours or older, but not older than the accepted minimum.
[[nodiscard]] constexpr bool is_compatible_version(std::uint32_t client_version) noexcept {
    return client_version >= kProtocolVersionMin &&
           (client_version >> 10U) <= (kProtocolVersion >> 10U);
}

struct RequestHeader {
    std::uint32_t size = kHeaderSize;  ///< header and body
    Operation operation = Operation::kNone;
    CommandCode code{};  ///< counts for kNonReplicated only; may be an unknown number
    ClientId client;
    SessionId session;
    RequestNumber request;
    u128 request_checksum = 0;  ///< 0 = unstamped, else XXH3-64 of the body
    u128 cluster = 0;
    std::uint64_t timestamp = 0;
    std::uint32_t user_id = 0;  ///< ignored by a server

    [[nodiscard]] std::uint32_t body_size() const noexcept {
        return size - static_cast<std::uint32_t>(kHeaderSize);
    }
};

/// What is wrong with a request header. Only kSize and kCommand say that the stream cannot be read
/// on (close the connection); after the others the body may be skipped and the next frame read.
enum class HeaderFault : std::uint8_t {
    kNone,
    kSize,     ///< below 256 or above the bound
    kCommand,  ///< not a request
    kUnknownOperation,
    kInternalOperation,  ///< 64..68, which no client may send
    kClientZero,
    kSessionOrRequest,  ///< Register with a session or number, or another write without
};

struct DecodedRequestHeader {
    RequestHeader header;  ///< fields as they stand in the bytes, whatever the fault
    HeaderFault fault = HeaderFault::kNone;
};

/// Decodes and checks. `bytes` has exactly kHeaderSize bytes; `max_frame_bytes` bounds the whole
/// frame.
[[nodiscard]] DecodedRequestHeader decode_request_header(ConstBytes bytes,
                                                         std::uint32_t max_frame_bytes) noexcept;

/// Writes all kHeaderSize bytes of `to`.
void encode_request_header(MutableBytes to, const RequestHeader& header) noexcept;

struct ReplyHeader {
    std::uint32_t size = kHeaderSize;
    Operation operation = Operation::kNone;
    ErrorCode status = ErrorCode::kOk;  ///< not kOk: the body must be empty
    ClientId client;
    RequestNumber request;
    u128 request_checksum = 0;  ///< echo of the request's
    u128 cluster = 0;
    std::uint64_t op = 0;      ///< log position of a committed op
    std::uint64_t commit = 0;  ///< committed metadata position: monotone, never overstated
    std::uint64_t timestamp = 0;
    std::uint32_t view = 0;
    std::uint8_t replica = 0;

    [[nodiscard]] std::uint32_t body_size() const noexcept {
        return size - static_cast<std::uint32_t>(kHeaderSize);
    }
};

/// A reply to `request` with its echoed fields filled in and an empty body.
[[nodiscard]] ReplyHeader reply_to(const RequestHeader& request) noexcept;

/// Writes all kHeaderSize bytes of `to`.
void encode_reply_header(MutableBytes to, const ReplyHeader& header) noexcept;

struct EvictionHeader {
    ClientId client;
    EvictionReason reason = EvictionReason::kNoSession;
    std::uint32_t version_max = 0;  ///< both only for kIncompatibleProtocol
    std::uint32_t version_min = 0;
};

/// Writes a whole eviction frame, kHeaderSize bytes.
void encode_eviction(MutableBytes to, const EvictionHeader& eviction) noexcept;

// --- client side ---

/// The error a client raises for an eviction.
[[nodiscard]] ErrorCode eviction_error(EvictionReason reason) noexcept;

/// Command byte of any header.
[[nodiscard]] Command header_command(ConstBytes bytes) noexcept;

/// Decodes a reply. Errors: kInvalidCommand (other command, unknown operation, size below 256).
[[nodiscard]] Result<ReplyHeader> decode_reply_header(ConstBytes bytes) noexcept;

/// Decodes an eviction. Error: kInvalidCommand.
[[nodiscard]] Result<EvictionHeader> decode_eviction(ConstBytes bytes) noexcept;

}  // namespace galgo::wire

// The bounds of client connections as values, and what is counted of them.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/units.hpp"

namespace galgo::net {

/// What a peer has to send of a frame, or to take of a reply, in each progress timeout (or the rest
/// of it, when that is less): about 1 KiB/s by default.
inline constexpr std::size_t kProgressBytesMin = 32 * 1024;

struct ConnectionOptions {
    /// Of a whole frame, header included, after login.
    std::uint32_t frame_bytes_max = 64U << 20U;
    /// Before login: bytes of a whole frame, and how long one may take from its first byte on.
    std::uint32_t anonymous_frame_bytes_max = 16 * 1024;
    std::uint64_t anonymous_frame_timeout_ns = 10 * kSecond;
    /// Before login: bytes that all peers of one shard together may have outside the pool, when it
    /// has no room. Whose bytes do not fit any more is closed. The logins of the most connections
    /// fit, a chunk of each does not.
    std::uint32_t anonymous_heap_bytes_max = 4U << 20U;
    /// How long a peer may take for the header of a frame (after login), and for each
    /// kProgressBytesMin of its body or of a reply.
    std::uint64_t progress_timeout_ns = 30 * kSecond;
    /// Of one shard.
    std::uint32_t connections_max = 10'000;
    /// When so many are open, a new one takes the place of the anonymous one that has been silent
    /// longest, if it has for so long. There is no other timeout before the first byte of a frame:
    /// clients may connect early and log in late.
    std::uint64_t silent_ns_min = 10 * kSecond;
    /// From this body size on, a body is received straight into one buffer of its size.
    std::uint32_t direct_body_bytes = 16 * 1024;
};

/// Counted by the shard alone, read by anyone.
struct ConnectionCounters {
    std::atomic<std::uint64_t> open{0};       ///< now
    std::atomic<std::uint64_t> accepted{0};   ///< taken over, since the start
    std::atomic<std::uint64_t> refused{0};    ///< closed at once because too many were open
    std::atomic<std::uint64_t> displaced{0};  ///< anonymous and silent, closed for a new one
    std::atomic<std::uint64_t> frames_in{0};
    std::atomic<std::uint64_t> frames_out{0};
    std::atomic<std::uint64_t> bytes_in{0};
    std::atomic<std::uint64_t> bytes_out{0};
    std::atomic<std::uint64_t> protocol_errors{0};  ///< closed for a frame that cannot be
    std::atomic<std::uint64_t> timeouts{0};  ///< a frame or reply was too slow, or had no memory
    std::atomic<std::uint64_t> memory_waits{0};          ///< frames that waited for a free buffer
    std::atomic<std::uint64_t> anonymous_heap_bytes{0};  ///< now, see ConnectionOptions

    static void add(std::atomic<std::uint64_t>& counter, std::uint64_t count = 1) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    }
    static void subtract(std::atomic<std::uint64_t>& counter, std::uint64_t count) noexcept {
        counter.store(counter.load(std::memory_order_relaxed) - count, std::memory_order_relaxed);
    }
};

}  // namespace galgo::net

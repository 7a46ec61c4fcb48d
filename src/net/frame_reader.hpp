// FrameReader: cuts the byte stream of one socket into request frames.
//
// The header, and bodies below direct_body_bytes, come through chunks that the backend lends; a
// larger body goes straight into one pool buffer of exactly its size (what came with the head is
// copied in front). A chunk is held only while it is being taken apart, never across a wait: the
// bytes of a frame that is not complete move on into the header field or the body's buffer, and
// what lies behind them, before the reader waits for the body's buffer or the connection for its
// handler, into memory of its own (the pool's, or when that has none the heap's, at most one chunk
// a connection; of peers without a login anonymous_heap_bytes_max a shard, and one more is closed).
// Otherwise as many peers as the shard has chunks could stop its receiving. Between frames nothing
// is held. Bytes from the peer decide nothing but their own connection's fate.
//
// Limits: ConnectionOptions. No memory: waits (1 ms doubling to 50 ms) as long as the frame's time
// lasts. One coroutine uses it, on the shard of the connection.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/intrusive_list.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "net/connection_options.hpp"
#include "net/connection_sink.hpp"
#include "runtime/loop.hpp"

namespace galgo::net {

enum class ReadEnd : std::uint8_t {
    kFrame,     ///< a whole frame is there
    kClosed,    ///< the peer closed, the connection failed, or interrupt() was called
    kProtocol,  ///< a frame that cannot be: size, command or client
    kTimeout,   ///< a started frame came too slowly, or no memory was free for it (in time)
};

/// A peer whose next frame has not begun, in a list of such peers.
struct SilentPeer : ListLink<> {
    Instant since{0};
};

class FrameReader {
 public:
    /// All references outlive the reader; the socket is not owned.
    FrameReader(runtime::Loop& loop, memory::BufferPool& pool, const ConnectionOptions& options,
                ConnectionCounters& counters, runtime::SocketHandle socket) noexcept;
    FrameReader(const FrameReader&) = delete;
    FrameReader& operator=(const FrameReader&) = delete;
    ~FrameReader();

    /// Waits for the next frame, without a bound as long as it has not begun, and fills `frame`.
    /// With its first byte `silence` leaves the list that it may be in. After any other end than
    /// kFrame the stream cannot be read on.
    [[nodiscard]] coro::Task<ReadEnd> read(bool authenticated, SilentPeer& silence, Frame& frame);
    /// Ends waits of the reader that are not I/O; whoever calls it also shuts the socket down.
    void interrupt() noexcept { sleeper_.interrupt(); }

 private:
    coro::Task<ReadEnd> read_header(bool authenticated, SilentPeer& silence);
    coro::Task<ReadEnd> read_body(bool authenticated, std::size_t size, memory::BufRef& body);
    coro::Task<ReadEnd> read_direct(bool authenticated, MutableBytes into);
    coro::Task<ReadEnd> acquire(bool authenticated, std::size_t bytes, memory::BufRef& into);
    coro::Task<ReadEnd> next_chunk(Instant deadline);
    std::size_t take(MutableBytes into) noexcept;
    [[nodiscard]] bool put_leftover_aside(bool authenticated) noexcept;
    void drop_source() noexcept;
    void start_clock(bool authenticated) noexcept;
    void renew_clock(bool authenticated) noexcept;
    void count_progress(bool authenticated, std::size_t bytes) noexcept;
    [[nodiscard]] static memory::AcquireClass admission(bool authenticated) noexcept;

    runtime::Loop& loop_;
    memory::BufferPool& pool_;
    const ConnectionOptions& options_;
    ConnectionCounters& counters_;
    runtime::SocketHandle socket_;
    runtime::Sleeper sleeper_;
    ConstBytes waiting_;            ///< received and not taken yet; lies in one of the next three
    runtime::ReceivedChunk chunk_;  ///< data is null when none is held
    memory::BufRef leftover_;
    std::unique_ptr<std::byte[]> leftover_on_heap_;
    std::size_t anonymous_heap_bytes_ = 0;  ///< of those, counted as such
    Instant deadline_{0};                   ///< of the frame that has begun, or of its next step
    std::size_t progress_bytes_ = 0;        ///< of the body, since the deadline was set
    std::array<std::byte, wire::kHeaderSize> header_;
};

}  // namespace galgo::net

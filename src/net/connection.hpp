// Connection: the life of one plaintext TCP connection on its shard. Reads a frame, hands it to the
// sink, sends the reply, and so on until the peer goes, breaks a rule, stands still, or someone
// interrupts.
//
// run() is spawned by ConnectionSet; the object lives in that coroutine's frame. A small request in
// steady state allocates nothing: reply, header field and iovec array are used again, coroutine
// frames come from the frame pool.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/intrusive_list.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "net/connection_options.hpp"
#include "net/connection_sink.hpp"
#include "net/frame_reader.hpp"
#include "net/reply.hpp"
#include "runtime/loop.hpp"

namespace galgo::net {

class Connection : public ListLink<> {
 public:
    /// Of a connection without a login, while its next frame has not begun.
    struct Silence : SilentPeer {
        explicit Silence(Connection& of) noexcept : connection(of) {}
        Connection& connection;
    };
    struct Environment {
        runtime::Loop& loop;
        memory::BufferPool& pool;
        ConnectionSink& sink;
        const ConnectionOptions& options;
        ConnectionCounters& counters;
        IntrusiveList<SilentPeer>& silent;  ///< Silence objects, the longest silent first
    };

    /// Takes the socket over. All of `environment` outlives the connection.
    Connection(const Environment& environment, runtime::SocketHandle socket, ConnectionFacts facts);

    /// From on_opened to on_closed. The socket is closed when it ends.
    coro::Task<void> run();
    /// Makes run() end soon: an idle read and a pending send end at once, a handler is waited for
    /// and its reply is not sent. May be called at any time and again.
    void interrupt() noexcept;

    [[nodiscard]] const std::string& peer() const noexcept { return facts_.peer; }

 private:
    coro::Task<void> serve();
    coro::Task<bool> send_reply();
    coro::Task<bool> send_parts();
    void gather_reply();
    void trim_reply() noexcept;
    void close() noexcept;

    Environment environment_;
    runtime::SocketHandle socket_;
    ConnectionFacts facts_;
    FrameReader reader_;
    Silence silence_{*this};
    std::unique_ptr<ConnectionContext> context_;
    bool interrupted_ = false;
    Reply reply_;
    std::vector<iovec> parts_;
    std::array<std::byte, wire::kHeaderSize> header_{};
};

}  // namespace galgo::net

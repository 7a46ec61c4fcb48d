// The door from the transports to the rest of the server: whoever reads frames (TCP now; TLS,
// WebSocket and QUIC below the same door later) hands them to one ConnectionSink a shard.
// shard/dispatch implements it.
//
// Called on the shard that holds the connection. Frames of one connection arrive one at a time, in
// order; the next one is read when on_frame has ended, so replies leave in request order.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/ids.hpp"
#include "coro/task.hpp"
#include "memory/buffer.hpp"
#include "model/ids.hpp"
#include "net/reply.hpp"
#include "wire/header.hpp"

namespace galgo::net {

// wire: transport codes of the client record, iggy_binary_protocol 0.11.0.
enum class Transport : std::uint8_t { kTcp = 1, kQuic = 2, kHttp = 3, kWebSocket = 4 };

struct Frame {
    wire::RequestHeader header;
    wire::HeaderFault fault =
        wire::HeaderFault::kNone;  ///< never kSize, kCommand or kClientZero: those close
    memory::BufRef body;           ///< header.body_size() bytes, contiguous
};

/// What the sink keeps for one connection, and what it tells the transport about it.
class ConnectionContext {
 public:
    ConnectionContext() = default;
    ConnectionContext(const ConnectionContext&) = delete;
    ConnectionContext& operator=(const ConnectionContext&) = delete;
    virtual ~ConnectionContext() = default;

    /// Lifts the bounds of anonymous peers: frames of 16 KiB, 10 s for a started frame, and a place
    /// only as long as nobody needs it who is less silent.
    bool authenticated = false;
};

struct ConnectionFacts {
    model::ConnectionId id;
    Transport transport = Transport::kTcp;
    std::string peer;  ///< "127.0.0.1:54321"
};

class ConnectionSink {
 public:
    virtual ~ConnectionSink() = default;

    virtual std::unique_ptr<ConnectionContext> on_opened(const ConnectionFacts& facts) = 0;
    /// Handles one frame and fills `reply`.
    virtual coro::Task<void> on_frame(ConnectionContext& context, Frame frame, Reply& reply) = 0;
    /// The connection is gone: ends its session. The context is destroyed afterwards.
    virtual coro::Task<void> on_closed(ConnectionContext& context) = 0;
};

}  // namespace galgo::net

// ConnectionSet: all client connections of one shard. Bounds their number, counts, and ends them
// together.
//
// At the bound a new connection takes the place of the anonymous one that has been silent longest,
// so that sockets which only stand open cannot lock clients out; whoever logged in keeps its place.
// The one that has to go is open for another turn or two.
//
// Used on its shard's thread; counters() may be read by any. The sink, the pool and the loop
// outlive it. stop() has ended before it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/intrusive_list.hpp"
#include "coro/scope.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "net/connection.hpp"
#include "net/connection_options.hpp"
#include "net/connection_sink.hpp"
#include "observe/log.hpp"
#include "runtime/loop.hpp"

namespace galgo::net {

class ConnectionSet : public coro::Anchored {
 public:
    ConnectionSet(runtime::Loop& loop, memory::BufferPool& pool, ConnectionSink& sink,
                  ConnectionOptions options);

    /// Takes the socket over in any case: false = closed at once, because connections_max are open
    /// and none can be displaced, or stop() was called. The caller never closes it.
    bool adopt(runtime::SocketHandle socket, ConnectionFacts facts);

    /// Interrupts all and waits until the last has called on_closed. Takes no more afterwards.
    coro::Task<void> stop();

    [[nodiscard]] const ConnectionCounters& counters() const noexcept { return counters_; }
    [[nodiscard]] std::size_t open_count() const noexcept { return open_count_; }
    [[nodiscard]] const ConnectionOptions& options() const noexcept { return options_; }

 private:
    static coro::Task<void> serve(coro::Anchor<ConnectionSet> set, runtime::SocketHandle socket,
                                  ConnectionFacts facts);
    bool displace_one(const ConnectionFacts& newcomer);
    void count_open(std::size_t count) noexcept;

    runtime::Loop& loop_;
    memory::BufferPool& pool_;
    ConnectionSink& sink_;
    ConnectionOptions options_;
    ConnectionCounters counters_;
    std::size_t open_count_ = 0;
    IntrusiveList<Connection> connections_;
    IntrusiveList<SilentPeer> silent_;
    observe::RateLimit log_limit_{1};
    coro::Scope scope_;
};

}  // namespace galgo::net

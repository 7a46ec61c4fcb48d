// TcpListener: one listening socket and its accept loop, on shard 0.
//
// A failed accept never ends the loop and never makes it spin: out of descriptors or kernel memory
// is counted, logged once a second at most, and followed by a pause of 100 ms; the peer waits in
// the backlog.
#pragma once

#include <cstdint>

#include "base/unique_function.hpp"
#include "coro/scope.hpp"
#include "coro/task.hpp"
#include "observe/log.hpp"
#include "runtime/io.hpp"
#include "runtime/loop.hpp"

namespace galgo::net {

class TcpListener : public coro::Anchored {
 public:
    /// Takes over the socket of one accepted connection. Runs on the listener's shard; must not
    /// wait.
    using OnAccept =
        UniqueFunction<void(runtime::SocketHandle socket, runtime::SocketAddress peer)>;

    explicit TcpListener(runtime::Loop& loop) noexcept;
    ~TcpListener();

    /// Binds and listens; port 0 takes a free one. While the address is in use it tries again for
    /// 10 s. Errors: os_errno of bind or listen, ECANCELED after stop(). Once.
    coro::Task<Status> listen(runtime::SocketAddress address);
    /// What it is bound to; empty before listen().
    [[nodiscard]] runtime::SocketAddress address() const { return address_; }
    /// Accepts from now on. After listen() succeeded, once.
    void start(OnAccept on_accept);
    /// Accepts no more, waits for the accept loop and closes the socket.
    coro::Task<void> stop();

    /// Accepts that failed for lack of descriptors or memory, or for an unforeseen reason.
    [[nodiscard]] std::uint64_t failure_count() const noexcept { return failure_count_; }

 private:
    static coro::Task<void> accept_loop(coro::Anchor<TcpListener> listener);
    void report_failure(std::int32_t os_errno);

    runtime::Loop& loop_;
    runtime::SocketHandle socket_ = runtime::kNoSocket;
    runtime::SocketAddress address_;
    OnAccept on_accept_;
    runtime::IoOp* pending_ = nullptr;  ///< the accept that waits
    bool stopping_ = false;
    std::uint64_t failure_count_ = 0;
    observe::RateLimit log_limit_{1};
    runtime::Sleeper sleeper_;
    coro::Scope scope_;
};

}  // namespace galgo::net

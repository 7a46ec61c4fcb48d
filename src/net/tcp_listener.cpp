#include "net/tcp_listener.hpp"

#include <cerrno>
#include <utility>

#include "base/check.hpp"
#include "base/units.hpp"
#include "runtime/io_await.hpp"

namespace galgo::net {

using coro::Anchor;
using coro::Task;
using runtime::SocketHandle;

namespace {

constexpr std::uint64_t kListenRetryNs = 100 * kMillisecond;
constexpr std::uint64_t kListenPatienceNs = 10 * kSecond;
constexpr std::uint64_t kAcceptPauseNs = 100 * kMillisecond;

/// The peer went before it was accepted, or a signal came: nothing is wrong with the listener.
bool is_harmless(std::int32_t os_errno) noexcept {
    return os_errno == ECONNABORTED || os_errno == EINTR || os_errno == EPROTO ||
           os_errno == ECONNRESET;
}

}  // namespace

TcpListener::TcpListener(runtime::Loop& loop) noexcept
    : loop_(loop), sleeper_(loop), scope_(loop.ready()) {}

TcpListener::~TcpListener() {
    if (socket_ != runtime::kNoSocket) {
        loop_.io().close_socket(socket_);
    }
}

Task<Status> TcpListener::listen(runtime::SocketAddress address) {
    GALGO_CHECK(socket_ == runtime::kNoSocket);
    const Instant give_up = loop_.io().now().plus(kListenPatienceNs);
    for (;;) {
        const Result<SocketHandle> socket = loop_.io().listen(address);
        if (socket.has_value()) {
            socket_ = *socket;
            address_ = loop_.io().local_address(socket_);
            co_return Status{};
        }
        if (socket.error().os_errno != EADDRINUSE || loop_.now() >= give_up) {
            co_return std::unexpected(socket.error());
        }
        const bool slept = co_await sleeper_.sleep_for(kListenRetryNs);
        if (!slept) {
            co_return fail_os(ECANCELED);
        }
    }
}

void TcpListener::start(OnAccept on_accept) {
    GALGO_CHECK(socket_ != runtime::kNoSocket);
    GALGO_CHECK(!on_accept_);
    on_accept_ = std::move(on_accept);
    scope_.spawn(&TcpListener::accept_loop, Anchor<TcpListener>(*this));
}

Task<void> TcpListener::accept_loop(Anchor<TcpListener> listener) {
    runtime::IoBackend& io = listener->loop_.io();
    while (!listener->stopping_) {
        const std::int32_t result =
            co_await runtime::io_await([listener = &*listener](runtime::IoOp& op) {
                listener->pending_ = &op;
                listener->loop_.io().accept(op, listener->socket_);
            });
        listener->pending_ = nullptr;
        if (result >= 0) {
            const SocketHandle socket{result};
            if (listener->stopping_) {
                io.close_socket(socket);
                co_return;
            }
            listener->on_accept_(socket, io.peer_address(socket));
            continue;
        }
        if (listener->stopping_) {
            co_return;
        }
        if (!is_harmless(-result)) {
            listener->report_failure(-result);
            (void)co_await listener->sleeper_.sleep_for(kAcceptPauseNs);
        }
    }
}

void TcpListener::report_failure(std::int32_t os_errno) {
    ++failure_count_;
    if (log_limit_.allow(loop_.now())) {
        observe::log_warn(
            "net", "cannot accept connections",
            {{"address", address_.ip},
             {"port", address_.port},
             {"error", to_string(Error{.code = ErrorCode::kIoError, .os_errno = os_errno})},
             {"failures", failure_count_}});
    }
}

Task<void> TcpListener::stop() {
    stopping_ = true;
    sleeper_.interrupt();
    if (pending_ != nullptr) {
        loop_.io().cancel(*pending_);
    }
    co_await scope_.close();
    if (socket_ != runtime::kNoSocket) {
        loop_.io().close_socket(std::exchange(socket_, runtime::kNoSocket));
    }
}

}  // namespace galgo::net

#include "http/http_server.hpp"

#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/intrusive_list.hpp"
#include "coro/scope.hpp"
#include "http/request_parser.hpp"
#include "http/response.hpp"
#include "http/router.hpp"
#include "net/connection_options.hpp"
#include "net/tcp_listener.hpp"
#include "net/timed_io.hpp"

namespace galgo::http {

using coro::Anchor;
using coro::Task;
using net::TimedResult;
using runtime::SocketHandle;

namespace {

constexpr std::uint64_t kChunkRetryNs = kMillisecond;
constexpr std::uint64_t kLingerNs = kSecond;
constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

Response failure_response(unsigned status) {
    switch (status) {
        case 413:
            return text_response(413, "The request body is too large.");
        case 431:
            return text_response(431, "The request headers are too large.");
        case 501:
            return text_response(501, "The only transfer coding understood is \"chunked\".");
        default:
            return text_response(400, "The request is malformed.");
    }
}

/// One connection; lives in the frame of its coroutine.
struct Link : ListLink<> {
    Link(const HttpOptions& options, SocketHandle handle)
        : socket(handle),
          parser({.header_bytes_max = options.header_bytes_max,
                  .body_bytes_max = options.body_bytes_max}) {}

    SocketHandle socket;
    RequestParser parser;
    std::string out;
    bool interrupted = false;
};

}  // namespace

class HttpServer::Impl : public coro::Anchored {
 public:
    Impl(runtime::Loop& loop, Backend& backend, HttpOptions options)
        : loop_(loop),
          options_(std::move(options)),
          router_(backend, options_),
          listener_(loop),
          scope_(loop.ready()) {}

    Task<Status> listen(runtime::SocketAddress address) {
        const Status status = co_await listener_.listen(std::move(address));
        router_.set_loopback(is_loopback_ip(listener_.address().ip));
        co_return status;
    }
    [[nodiscard]] runtime::SocketAddress address() const { return listener_.address(); }
    void start() {
        listener_.start(
            [this](SocketHandle socket, const runtime::SocketAddress&) { adopt(socket); });
    }
    Task<void> stop() {
        co_await listener_.stop();
        links_.for_each([this](Link& link) {
            link.interrupted = true;
            loop_.io().shutdown_socket(link.socket);
        });
        co_await scope_.close();
    }
    [[nodiscard]] std::size_t open_count() const noexcept { return scope_.inside(); }
    [[nodiscard]] std::uint64_t request_count() const noexcept { return request_count_; }

 private:
    void adopt(SocketHandle socket) {
        if (scope_.inside() >= options_.connections_max) {
            loop_.io().close_socket(socket);
            return;
        }
        scope_.spawn(&Impl::serve, Anchor<Impl>(*this), socket);
    }

    static Task<void> serve(Anchor<Impl> server, SocketHandle socket) {
        Link link(server->options_, socket);
        server->links_.push_back(link);
        co_await server->serve_requests(link);
        link.unlink();
        server->loop_.io().shutdown_socket(socket);
        server->loop_.io().close_socket(socket);
    }

    Task<void> serve_requests(Link& link) {
        while (!link.interrupted) {
            const bool received = co_await receive_request(link);
            if (!received) {
                co_return;
            }
            ++request_count_;
            const bool is_failed = link.parser.advance() == ParseState::kFailed;
            const Request& request = link.parser.request();
            const bool keep_alive = !is_failed && request.keep_alive;
            const Response response = is_failed ? failure_response(link.parser.failure_status())
                                                : router_.answer(request);
            link.out.clear();
            render(response,
                   {.omit_body = !is_failed && request.method == "HEAD", .keep_alive = keep_alive},
                   link.out);
            const bool sent = co_await send(link, link.out);
            link.out = {};
            if (!sent) {
                co_return;
            }
            if (!keep_alive) {
                co_await linger(link);
                co_return;
            }
            link.parser.next();
        }
    }

    /// True: the parser holds a whole request or knows what is wrong. False: the connection is
    /// over.
    Task<bool> receive_request(Link& link) {
        Instant header_deadline{0};
        Instant body_deadline{0};
        for (;;) {
            const ParseState state = link.parser.advance();
            if (state == ParseState::kComplete || state == ParseState::kFailed) {
                co_return true;
            }
            Instant deadline = loop_.now().plus(options_.idle_timeout_ns);
            if (state == ParseState::kNeedBody) {
                if (link.parser.take_expects_continue()) {
                    const bool sent = co_await send(link, kContinue);
                    if (!sent) {
                        co_return false;
                    }
                }
                if (body_deadline == Instant{0}) {
                    body_deadline = loop_.now().plus(options_.progress_timeout_ns);
                }
                deadline = body_deadline;
            } else if (link.parser.has_begun()) {
                if (header_deadline == Instant{0}) {
                    header_deadline = loop_.now().plus(options_.header_timeout_ns);
                }
                deadline = header_deadline;
            }
            const bool received = co_await receive(link, deadline, Received::kParse);
            if (!received) {
                co_return false;
            }
        }
    }

    /// The peer may still be sending what nobody reads; closing now could take our answer from it.
    Task<void> linger(Link& link) {
        const Instant deadline = loop_.now().plus(kLingerNs);
        bool received = true;
        while (received && !link.interrupted) {
            received = co_await receive(link, deadline, Received::kDrop);
        }
    }

    enum class Received : std::uint8_t { kParse, kDrop };
    Task<bool> receive(Link& link, Instant deadline, Received what) {
        for (;;) {
            const TimedResult result = co_await net::timed_io(
                loop_, deadline,
                [&](runtime::IoOp& op) { loop_.io().receive_any(op, link.socket); });
            if (result.value > 0) {
                if (what == Received::kParse) {
                    link.parser.append(result.chunk.bytes());
                }
                loop_.io().return_chunk(result.chunk);
                co_return true;
            }
            // Without a chunk the receive ends before its timer can, so the time is looked at here.
            const bool again = result.value == -ENOBUFS || result.value == -EINTR;
            const bool late = result.timed_out || loop_.now() >= deadline;
            if (!again || late || link.interrupted) {
                co_return false;
            }
            co_await loop_.sleep_for(kChunkRetryNs);
        }
    }

    /// `text` stays where it is until this has ended. A send that was cancelled for its deadline
    /// may have sent a part: that is progress when it is enough, as for the replies of
    /// net::Connection.
    Task<bool> send(Link& link, std::string_view text) {
        std::size_t taken = 0;  // since the deadline was set
        Instant deadline = loop_.now().plus(options_.progress_timeout_ns);
        while (!text.empty()) {
            const std::array<iovec, 1> parts{
                iovec{.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()}};
            const TimedResult result = co_await net::timed_io(
                loop_, deadline,
                [&](runtime::IoOp& op) { loop_.io().send(op, link.socket, parts); });
            if (result.value == -EINTR) {
                continue;
            }
            if (result.value <= 0) {
                co_return false;
            }
            const auto sent = static_cast<std::size_t>(result.value);
            text.remove_prefix(sent);
            taken += sent;
            if (taken >= net::kProgressBytesMin) {
                taken = 0;
                deadline = loop_.now().plus(options_.progress_timeout_ns);
            }
        }
        co_return true;
    }

    runtime::Loop& loop_;
    HttpOptions options_;
    Router router_;
    net::TcpListener listener_;
    std::uint64_t request_count_ = 0;
    IntrusiveList<Link> links_;
    coro::Scope scope_;
};

HttpServer::HttpServer(runtime::Loop& loop, Backend& backend, HttpOptions options)
    : impl_(std::make_unique<Impl>(loop, backend, std::move(options))) {}

HttpServer::~HttpServer() = default;

Task<Status> HttpServer::listen(runtime::SocketAddress address) {
    const Status status = co_await impl_->listen(std::move(address));
    co_return status;
}

runtime::SocketAddress HttpServer::address() const {
    return impl_->address();
}

void HttpServer::start() {
    impl_->start();
}

Task<void> HttpServer::stop() {
    co_await impl_->stop();
}

std::size_t HttpServer::open_count() const noexcept {
    return impl_->open_count();
}

std::uint64_t HttpServer::request_count() const noexcept {
    return impl_->request_count();
}

}  // namespace galgo::http

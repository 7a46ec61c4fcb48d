#include "net/connection.hpp"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "net/timed_io.hpp"

namespace galgo::net {

using coro::Task;

namespace {

constexpr std::size_t kPartsMax = 1024;  // of one send, see IoBackend::send
// What an idle connection may keep of its last replies.
constexpr std::size_t kHeadBytesKept = 16 * kKiB;
constexpr std::size_t kSlicesKept = 64;

iovec part_of(ConstBytes bytes) noexcept {
    return {.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
}

/// Drops `sent` bytes from the front of parts[first...]; returns the first part with bytes left.
std::size_t advance(std::span<iovec> parts, std::size_t first, std::size_t sent) noexcept {
    while (sent != 0) {
        GALGO_CHECK(first < parts.size());
        iovec& part = parts[first];
        if (sent < part.iov_len) {
            part.iov_base = static_cast<std::byte*>(part.iov_base) + sent;
            part.iov_len -= sent;
            return first;
        }
        sent -= part.iov_len;
        ++first;
    }
    return first;
}

}  // namespace

Connection::Connection(const Environment& environment, runtime::SocketHandle socket,
                       ConnectionFacts facts)
    : environment_(environment),
      socket_(socket),
      facts_(std::move(facts)),
      reader_(environment.loop, environment.pool, environment.options, environment.counters,
              socket) {}

Task<void> Connection::run() {
    context_ = environment_.sink.on_opened(facts_);
    GALGO_CHECK(context_ != nullptr);
    co_await serve();
    // The peer learns at once that it is over; ending its session may take longer.
    close();
    co_await environment_.sink.on_closed(*context_);
}

void Connection::interrupt() noexcept {
    interrupted_ = true;
    reader_.interrupt();
    if (socket_ != runtime::kNoSocket) {
        environment_.loop.io().shutdown_socket(socket_);
    }
}

Task<void> Connection::serve() {
    ConnectionCounters& counters = environment_.counters;
    while (!interrupted_) {
        Frame frame;
        if (!context_->authenticated) {
            silence_.since = environment_.loop.now();
            environment_.silent.push_back(silence_);
        }
        const ReadEnd end = co_await reader_.read(context_->authenticated, silence_, frame);
        silence_.unlink();
        if (end != ReadEnd::kFrame) {
            if (end == ReadEnd::kProtocol) {
                ConnectionCounters::add(counters.protocol_errors);
            } else if (end == ReadEnd::kTimeout) {
                ConnectionCounters::add(counters.timeouts);
            }
            co_return;
        }
        if (interrupted_) {
            co_return;
        }
        ConnectionCounters::add(counters.frames_in);
        reply_.clear();
        co_await environment_.sink.on_frame(*context_, std::move(frame), reply_);
        if (interrupted_) {
            co_return;
        }
        const bool sent = co_await send_reply();
        if (!sent) {
            co_return;
        }
        trim_reply();
    }
}

Task<bool> Connection::send_reply() {
    if (reply_.kind == ReplyKind::kNothing) {
        co_return true;
    }
    gather_reply();
    const bool sent = co_await send_parts();
    reply_.slices.clear();
    if (sent) {
        ConnectionCounters::add(environment_.counters.frames_out);
    }
    co_return sent;
}

void Connection::gather_reply() {
    parts_.clear();
    parts_.push_back(part_of(header_));
    if (reply_.kind == ReplyKind::kEviction) {
        wire::encode_eviction(header_, reply_.eviction);
        return;
    }
    const std::size_t size = wire::kHeaderSize + reply_.body_size();
    GALGO_CHECK(size <= std::numeric_limits<std::uint32_t>::max());
    reply_.header.size = static_cast<std::uint32_t>(size);
    wire::encode_reply_header(header_, reply_.header);
    if (!reply_.head.empty()) {
        parts_.push_back(part_of(reply_.head));
    }
    for (const memory::BufRef& slice : reply_.slices) {
        if (slice.size() != 0) {
            parts_.push_back(part_of(slice.bytes()));
        }
    }
}

/// Sends all parts. A send that was cancelled for its deadline may have sent some: that is
/// progress when it is enough. A peer that takes a few bytes now and then must not hold a large
/// reply, and with it the pool, for ever.
Task<bool> Connection::send_parts() {
    runtime::Loop& loop = environment_.loop;
    const std::uint64_t timeout_ns = environment_.options.progress_timeout_ns;
    std::size_t first = 0;
    std::size_t taken = 0;  // since the deadline was set
    Instant deadline = loop.now().plus(timeout_ns);
    while (first < parts_.size()) {
        const std::span<const iovec> parts = std::span<const iovec>(parts_).subspan(
            first, std::min(kPartsMax, parts_.size() - first));
        const TimedResult result = co_await timed_io(
            loop, deadline, [&](runtime::IoOp& op) { loop.io().send(op, socket_, parts); });
        if (result.value == -EINTR) {
            continue;
        }
        if (result.value <= 0) {
            if (result.timed_out) {
                ConnectionCounters::add(environment_.counters.timeouts);
            }
            co_return false;
        }
        const auto sent = static_cast<std::size_t>(result.value);
        ConnectionCounters::add(environment_.counters.bytes_out, sent);
        first = advance(parts_, first, sent);
        taken += sent;
        if (taken >= kProgressBytesMin) {
            taken = 0;
            deadline = loop.now().plus(timeout_ns);
        }
    }
    co_return true;
}

/// A vector that is assigned {} keeps its memory: it takes another one.
void Connection::trim_reply() noexcept {
    reply_.clear();
    if (reply_.head.capacity() > kHeadBytesKept) {
        reply_.head = std::vector<std::byte>();
    }
    if (reply_.slices.capacity() > kSlicesKept) {
        reply_.slices = std::vector<memory::BufRef>();
        parts_ = std::vector<iovec>();
    }
}

void Connection::close() noexcept {
    environment_.loop.io().shutdown_socket(socket_);
    environment_.loop.io().close_socket(socket_);
    socket_ = runtime::kNoSocket;
}

}  // namespace galgo::net

// The connection over real sockets, and the promise that a small request allocates nothing.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "base/this_shard.hpp"
#include "coro/frame_pool.hpp"
#include "net/detail/test_support.hpp"
#include "net/tcp_listener.hpp"
#include "runtime_uring/uring_backend.hpp"
#include "runtime_uring/uring_group.hpp"

namespace {
thread_local bool g_counts_allocations = false;
std::atomic<std::uint64_t> g_allocation_count{0};
}  // namespace

// Through malloc, so that the sanitizer goes on watching.
void* operator new(std::size_t bytes) {
    if (g_counts_allocations) {
        g_allocation_count.fetch_add(1, std::memory_order_relaxed);
    }
    void* memory = std::malloc(bytes);
    if (memory == nullptr) {
        std::abort();
    }
    return memory;
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace galgo::net {
namespace {

using testing::frame;
using testing::pattern;

/// Echoes; keeps no lists, so that it allocates nothing either.
class PlainSink final : public ConnectionSink {
 public:
    std::unique_ptr<ConnectionContext> on_opened(const ConnectionFacts&) override {
        auto context = std::make_unique<ConnectionContext>();
        context->authenticated = true;
        return context;
    }
    coro::Task<void> on_frame(ConnectionContext&, Frame received, Reply& reply) override {
        reply.start_frame(received.header);
        if (received.body) {
            reply.slices.push_back(std::move(received.body));
        }
        co_return;
    }
    coro::Task<void> on_closed(ConnectionContext&) override { co_return; }
};

void send_all(int fd, ConstBytes bytes) {
    while (!bytes.empty()) {
        const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
        ASSERT_GT(sent, 0);
        bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
}
/// Receives one reply and returns its body.
testing::Bytes receive_reply(int fd) {
    testing::Bytes header(wire::kHeaderSize);
    EXPECT_EQ(::recv(fd, header.data(), header.size(), MSG_WAITALL), ssize_t{wire::kHeaderSize});
    const auto decoded = wire::decode_reply_header(header);
    EXPECT_TRUE(decoded.has_value());
    testing::Bytes body(decoded.has_value() ? decoded->body_size() : 0);
    if (!body.empty()) {
        EXPECT_EQ(::recv(fd, body.data(), body.size(), MSG_WAITALL), std::ssize(body));
    }
    return body;
}

void run_client(std::uint16_t port, std::atomic<int>& phase) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    for (const std::size_t size : {std::size_t{0}, std::size_t{20'000}, std::size_t{5'000'000}}) {
        // From a thread of its own: a large reply may start before the request is out.
        std::thread sender([&] { send_all(fd, frame(size, size)); });
        const testing::Bytes body = receive_reply(fd);
        sender.join();
        EXPECT_EQ(body, pattern(size, size));
    }
    testing::Bytes pipelined;
    for (std::uint64_t i = 0; i < 100; ++i) {
        testing::append_frame(pipelined, i, i);
    }
    send_all(fd, pipelined);
    for (std::uint64_t i = 0; i < 100; ++i) {
        EXPECT_EQ(receive_reply(fd), pattern(i, i));
    }
    const testing::Bytes small = frame(300, 1);
    for (int i = 0; i < 600; ++i) {
        if (i == 100) {
            phase = 1;  // from here on the server counts
        }
        send_all(fd, small);
        EXPECT_EQ(receive_reply(fd).size(), 300u);
    }
    phase = 2;
    ::close(fd);
}

TEST(ConnectionOverUring, EchoesAndAllocatesNothingForASmallRequest) {
    set_this_shard(ShardIndex{0});
    runtime_uring::UringGroup group(1);
    auto io = runtime_uring::UringBackend::create(group, ShardIndex{0});
    ASSERT_TRUE(io.has_value()) << "io_uring is needed for this test";
    runtime::Loop loop(**io, {});
    memory::BufferPool pool({.budget_bytes = 64 * kMiB});
    PlainSink sink;
    ConnectionSet set(loop, pool, sink, {});
    coro::Scope scope(loop.ready());
    const auto run_until = [&](const auto& done) {
        const Instant end = (*io)->now().plus(60 * kSecond);
        while (!done() && (*io)->now() < end) {
            loop.run_turn();
        }
        return done();
    };

    TcpListener listener(loop);
    struct Start {
        static coro::Task<void> listen(coro::Anchor<TcpListener> to) {
            const Status status = co_await to->listen({.ip = "127.0.0.1", .port = 0});
            EXPECT_TRUE(status.has_value());
        }
        static coro::Task<void> stop(coro::Anchor<TcpListener> from,
                                     coro::Anchor<ConnectionSet> connections) {
            co_await from->stop();
            co_await connections->stop();
        }
    };
    scope.spawn(&Start::listen, coro::Anchor(listener));
    ASSERT_TRUE(run_until([&] { return scope.inside() == 0; }));
    listener.start([&](runtime::SocketHandle socket, const runtime::SocketAddress& peer) {
        EXPECT_EQ(peer.ip, "127.0.0.1");
        EXPECT_TRUE(set.adopt(socket, {}));
    });

    std::atomic<int> phase{0};
    std::thread client(run_client, listener.address().port, std::ref(phase));
    EXPECT_TRUE(run_until([&] { return phase == 1; }));
    const std::uint64_t frames_before = coro::frames_allocated_outside_lists();
    g_counts_allocations = true;
    EXPECT_TRUE(run_until([&] { return phase == 2; }));
    g_counts_allocations = false;
    client.join();
    // The address sanitizer is to see each coroutine frame by itself, so there they are not pooled.
    const std::uint64_t frames = coro::frames_allocated_outside_lists() - frames_before;
    EXPECT_EQ(g_allocation_count.load(), frames);
#if !__has_feature(address_sanitizer)
    EXPECT_EQ(frames, 0u);
#endif
    EXPECT_EQ(set.counters().frames_in.load(), 703u);

    scope.spawn(&Start::stop, coro::Anchor(listener), coro::Anchor(set));
    EXPECT_TRUE(run_until([&] { return scope.inside() == 0; }));
    EXPECT_EQ(set.open_count(), 0u);
    EXPECT_EQ(pool.stats().in_use_bytes, 0u);
    pool.stop_shard();
    set_this_shard(kNoShard);
}

}  // namespace
}  // namespace galgo::net

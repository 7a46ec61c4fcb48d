// What the tests of this module share: a server and a client process on one simulated network, a
// sink that echoes, and client moves.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "memory/buffer_pool.hpp"
#include "net/connection_set.hpp"
#include "net/timed_io.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "wire/header.hpp"

namespace galgo::net::testing {

using coro::Task;
using runtime::SocketHandle;
using runtime_sim::Node;
using runtime_sim::TestWorld;
using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::size_t size, std::uint64_t seed) {
    Bytes bytes(size);
    std::uint64_t x = seed * 0x9E3779B97F4A7C15ULL + 1;
    for (std::byte& b : bytes) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        b = static_cast<std::byte>(x >> 56U);
    }
    return bytes;
}

inline wire::RequestHeader request_header(std::size_t body_bytes, std::uint64_t number) {
    wire::RequestHeader header;
    header.size = static_cast<std::uint32_t>(wire::kHeaderSize + body_bytes);
    header.operation = wire::Operation::kNonReplicated;
    header.client = ClientId{7};
    header.request = RequestNumber{number};
    return header;
}

inline void append_header(Bytes& to, const wire::RequestHeader& header) {
    to.resize(to.size() + wire::kHeaderSize);
    wire::encode_request_header(MutableBytes(to).last(wire::kHeaderSize), header);
}

inline void append_frame(Bytes& to, std::size_t body_bytes, std::uint64_t number) {
    append_header(to, request_header(body_bytes, number));
    const Bytes body = pattern(body_bytes, number);
    to.insert(to.end(), body.begin(), body.end());
}

inline Bytes frame(std::size_t body_bytes, std::uint64_t number) {
    Bytes bytes;
    append_frame(bytes, body_bytes, number);
    return bytes;
}

struct EchoContext final : ConnectionContext {
    std::uint64_t frames = 0;
};

/// Answers each frame with its own body as one slice, and checks the body against pattern().
class EchoSink final : public ConnectionSink {
 public:
    std::unique_ptr<ConnectionContext> on_opened(const ConnectionFacts& facts) override {
        ++opened;
        last_peer = facts.peer;
        auto context = std::make_unique<EchoContext>();
        context->authenticated = authenticated;
        last = context.get();
        return context;
    }
    Task<void> on_frame(ConnectionContext& context, Frame frame, Reply& reply) override {
        ++static_cast<EchoContext&>(context).frames;
        numbers.push_back(frame.header.request.value());
        faults.push_back(frame.fault);
        EXPECT_EQ(frame.body.size(), frame.header.body_size());
        if (frame.header.body_size() == 0) {
            EXPECT_FALSE(frame.body);
        } else if (check_bodies) {
            const Bytes expected = pattern(frame.body.size(), frame.header.request.value());
            EXPECT_TRUE(std::ranges::equal(frame.body.bytes(), expected));
        }
        if (delay_ns != 0) {
            co_await loop->sleep_for(delay_ns);
        }
        if (evict) {
            reply.set_eviction(frame.header.client, wire::EvictionReason::kNoSession);
            co_return;
        }
        reply.start_frame(frame.header);
        reply.append(as_bytes(head));
        for (std::size_t i = 0; i < copies && frame.body; ++i) {
            reply.slices.push_back(frame.body);
        }
        if (hold) {
            held.push_back(std::move(frame.body));
        }
    }
    Task<void> on_closed(ConnectionContext&) override {
        ++closed;
        co_return;
    }

    runtime::Loop* loop = nullptr;
    bool authenticated = true;
    bool check_bodies = true;
    bool evict = false;
    bool hold = false;
    std::size_t copies = 1;
    std::uint64_t delay_ns = 0;
    std::string head;
    int opened = 0;
    int closed = 0;
    std::string last_peer;
    EchoContext* last = nullptr;
    std::vector<std::uint64_t> numbers;
    std::vector<wire::HeaderFault> faults;
    std::vector<memory::BufRef> held;
};

/// A server node with a ConnectionSet and a client node.
class NetWorld {
 public:
    explicit NetWorld(std::uint64_t seed, ConnectionOptions options = {},
                      std::uint64_t pool_bytes = 16 * kMiB)
        : world(seed),
          server(world.add_node()),
          client(world.add_node()),
          pool({.budget_bytes = pool_bytes}),
          set(*server.loop, pool, sink, options) {
        sink.loop = server.loop.get();
        listener = *server.io->listen({.ip = server.ip, .port = 8090});
    }
    NetWorld(const NetWorld&) = delete;
    NetWorld& operator=(const NetWorld&) = delete;
    ~NetWorld() {
        stop();
        sink.held.clear();
        server.io->close_socket(listener);
        EXPECT_EQ(set.open_count(), 0u);
        EXPECT_EQ(sink.opened, sink.closed);
        EXPECT_EQ(pool.stats().in_use_bytes, 0u);
        EXPECT_EQ(server.io->free_chunk_count(), 64u);
    }

    void stop() { world.run(server, set.stop()); }

    /// Connects and has the set adopt the other end.
    SocketHandle connect() {
        const SocketHandle socket = world.run(client, connect_task(*this));
        return socket;
    }
    /// Connects `count`, which join `sockets`, and has the set adopt the other ends in one turn.
    /// How many did it keep?
    std::size_t connect_at_once(std::size_t count, std::vector<SocketHandle>& sockets) {
        return world.run(client, connect_at_once_task(*this, count, sockets));
    }
    [[nodiscard]] bool adopted() const noexcept { return adopted_; }

    bool send(SocketHandle socket, ConstBytes bytes) {
        return world.run(client, send_task(*client.io, socket, bytes));
    }
    /// Receives until `bytes` came or the stream ended.
    Bytes receive(SocketHandle socket, std::size_t bytes) {
        return world.run(client, receive_task(*client.io, socket, bytes));
    }
    /// The answer to frame(body_bytes, number): is it what the sink makes of it?
    ::testing::AssertionResult expect_reply(SocketHandle socket, std::size_t body_bytes,
                                            std::uint64_t number) {
        const Bytes header = receive(socket, wire::kHeaderSize);
        if (header.size() != wire::kHeaderSize) {
            return ::testing::AssertionFailure() << "header ends after " << header.size();
        }
        const auto decoded = wire::decode_reply_header(header);
        if (!decoded.has_value() || decoded->request.value() != number) {
            return ::testing::AssertionFailure() << "not the reply to " << number;
        }
        const ConstBytes head = as_bytes(sink.head);
        Bytes expected(head.begin(), head.end());
        for (std::size_t i = 0; i < sink.copies; ++i) {
            const Bytes body = pattern(body_bytes, number);
            expected.insert(expected.end(), body.begin(), body.end());
        }
        if (decoded->body_size() != expected.size() ||
            receive(socket, expected.size()) != expected) {
            return ::testing::AssertionFailure() << "wrong body of the reply to " << number;
        }
        return ::testing::AssertionSuccess();
    }
    /// Has the server closed without another byte?
    bool closed_silently(SocketHandle socket) { return receive(socket, 1).empty(); }
    /// Borrows all receive chunks of the server and keeps them.
    void take_chunks() {
        const SocketHandle socket = world.run(client, take_chunks_task(*this));
        client.io->close_socket(socket);
    }
    void return_chunks() {
        for (const runtime::ReceivedChunk& chunk : std::exchange(chunks_, {})) {
            server.io->return_chunk(chunk);
        }
    }
    void close(SocketHandle socket) {
        client.io->close_socket(socket);
        world.run_for(10 * kMillisecond);
    }

    TestWorld world;
    Node& server;
    Node& client;
    memory::BufferPool pool;
    EchoSink sink;
    ConnectionSet set;
    SocketHandle listener;

 private:
    static Task<std::int32_t> accept_task(runtime::IoBackend& io, SocketHandle listener) {
        const std::int32_t result =
            co_await runtime::io_await([&](runtime::IoOp& op) { io.accept(op, listener); });
        co_return result;
    }
    struct Pair {
        SocketHandle client;
        SocketHandle server;
    };
    static Task<Pair> pair_task(NetWorld& net) {
        const runtime::SocketAddress address{.ip = net.server.ip, .port = 8090};
        const std::int32_t from = co_await runtime::io_await(
            [&](runtime::IoOp& op) { net.client.io->connect(op, address); });
        EXPECT_GE(from, 0);
        const std::int32_t to = co_await accept_task(*net.server.io, net.listener);
        EXPECT_GE(to, 0);
        co_return Pair{.client = SocketHandle{from}, .server = SocketHandle{to}};
    }
    static Task<SocketHandle> connect_task(NetWorld& net) {
        const Pair pair = co_await pair_task(net);
        net.adopted_ =
            net.set.adopt(pair.server, {.id = model::ConnectionId{++net.next_id_}, .peer = "peer"});
        co_return pair.client;
    }
    static Task<std::size_t> connect_at_once_task(NetWorld& net, std::size_t count,
                                                  std::vector<SocketHandle>& sockets) {
        std::vector<SocketHandle> accepted;
        for (std::size_t i = 0; i < count; ++i) {
            const Pair pair = co_await pair_task(net);
            sockets.push_back(pair.client);
            accepted.push_back(pair.server);
        }
        std::size_t kept = 0;
        for (const SocketHandle socket : accepted) {
            kept +=
                net.set.adopt(socket, {.id = model::ConnectionId{++net.next_id_}, .peer = "peer"})
                    ? 1U
                    : 0U;
        }
        co_return kept;
    }
    static Task<SocketHandle> take_chunks_task(NetWorld& net) {
        const Pair pair = co_await pair_task(net);
        const Bytes byte(1);
        while (net.server.io->free_chunk_count() != 0) {
            const bool sent = co_await send_task(*net.client.io, pair.client, byte);
            EXPECT_TRUE(sent);
            const TimedResult result = co_await timed_io(
                *net.server.loop, runtime::kNever,
                [&](runtime::IoOp& op) { net.server.io->receive_any(op, pair.server); });
            EXPECT_EQ(result.value, 1);
            net.chunks_.push_back(result.chunk);
        }
        net.server.io->close_socket(pair.server);
        co_return pair.client;
    }
    static Task<bool> send_task(runtime::IoBackend& io, SocketHandle socket, ConstBytes bytes) {
        const std::array<iovec, 1> parts{
            iovec{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()}};
        const std::int32_t result =
            co_await runtime::io_await([&](runtime::IoOp& op) { io.send(op, socket, parts); });
        co_return result == static_cast<std::int32_t>(bytes.size());
    }
    static Task<Bytes> receive_task(runtime::IoBackend& io, SocketHandle socket,
                                    std::size_t bytes) {
        Bytes into(bytes);
        std::size_t filled = 0;
        while (filled < bytes) {
            const MutableBytes rest = MutableBytes(into).subspan(filled);
            const std::int32_t result = co_await runtime::io_await(
                [&](runtime::IoOp& op) { io.receive(op, socket, rest); });
            if (result <= 0) {
                break;
            }
            filled += static_cast<std::size_t>(result);
        }
        into.resize(filled);
        co_return into;
    }

    bool adopted_ = false;
    std::uint32_t next_id_ = 0;
    std::vector<runtime::ReceivedChunk> chunks_;
};

}  // namespace galgo::net::testing

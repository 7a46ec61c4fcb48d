#include "runtime_sim/sim_network.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"

namespace galgo::runtime_sim {
namespace {

using coro::Task;
using runtime::IoOp;
using runtime::SocketAddress;
using runtime::SocketHandle;

/// One operation by hand: what it completed with.
struct TestOp : IoOp {
    TestOp() {
        complete = [](IoOp& op, std::int32_t value) noexcept {
            auto& self = static_cast<TestOp&>(op);
            self.result = value;
            ++self.completions;
        };
    }
    std::int32_t result = 1 << 30;
    int completions = 0;
};

struct Pair {
    SocketHandle client;
    SocketHandle server;
};

class SimNetworkTest : public testing::Test {
 protected:
    void finish(TestOp& op) {
        EXPECT_TRUE(world_.run_until([&] { return op.completions != 0; }));
    }
    Pair connect() {
        const auto listener = server_.io->listen({.ip = server_.ip, .port = 0});
        EXPECT_TRUE(listener.has_value());
        listener_ = *listener;
        address_ = server_.io->local_address(*listener);
        EXPECT_NE(address_.port, 0);
        TestOp accepting;
        TestOp connecting;
        server_.io->accept(accepting, *listener);
        client_.io->connect(connecting, address_);
        finish(connecting);
        finish(accepting);
        EXPECT_GE(connecting.result, 0);
        EXPECT_GE(accepting.result, 0);
        return {SocketHandle{connecting.result}, SocketHandle{accepting.result}};
    }
    std::int32_t receive(Node& node, SocketHandle socket, std::string& text) {
        TestOp op;
        std::vector<std::byte> into(1024);
        node.io->receive(op, socket, into);
        finish(op);
        if (op.result > 0) {
            text += as_text(ConstBytes(into).first(static_cast<std::size_t>(op.result)));
        }
        return op.result;
    }
    std::int32_t send(Node& node, SocketHandle socket, std::string text) {
        TestOp op;
        const iovec part{.iov_base = text.data(), .iov_len = text.size()};
        node.io->send(op, socket, {&part, 1});
        finish(op);
        return op.result;
    }

    TestWorld world_{99};
    Node& server_ = world_.add_node();
    Node& client_ = world_.add_node();
    SocketHandle listener_;
    SocketAddress address_;
};

Task<bool> send_all(runtime::IoBackend& io, SocketHandle socket,
                    const std::vector<std::byte>& data) {
    for (std::size_t at = 0; at < data.size();) {
        // Two parts a send, of uneven sizes.
        const std::size_t size = std::min<std::size_t>(70'001, data.size() - at);
        const std::size_t first = size / 3;
        auto* base = const_cast<std::byte*>(data.data()) + at;
        const iovec parts[2] = {{.iov_base = base, .iov_len = first},
                                {.iov_base = base + first, .iov_len = size - first}};
        const std::int32_t sent =
            co_await runtime::io_await([&](IoOp& op) { io.send(op, socket, parts); });
        if (sent != static_cast<std::int32_t>(size)) {
            co_return false;
        }
        at += size;
    }
    io.close_socket(socket);
    co_return true;
}
Task<bool> receive_all(runtime::IoBackend& io, SocketHandle socket, std::vector<std::byte>& data) {
    std::vector<std::byte> into(5000);
    for (;;) {
        const std::int32_t count =
            co_await runtime::io_await([&](IoOp& op) { io.receive(op, socket, into); });
        if (count <= 0) {
            co_return count == 0;
        }
        data.insert(data.end(), into.begin(), into.begin() + count);
    }
}
Task<bool> transfer(runtime::IoBackend& from, runtime::IoBackend& to, Pair pair,
                    const std::vector<std::byte>& data, std::vector<std::byte>& arrived) {
    auto [sent, received] = co_await coro::all(send_all(from, pair.client, data),
                                               receive_all(to, pair.server, arrived));
    co_return sent&& received;
}

TEST_F(SimNetworkTest, StreamStaysWholeUnderSegmentation) {
    const Pair pair = connect();
    std::vector<std::byte> data(1'000'000);
    for (std::byte& byte : data) {
        byte = static_cast<std::byte>(world_.random().below(256));
    }
    std::vector<std::byte> arrived;
    ASSERT_TRUE(world_.run(client_, transfer(*client_.io, *server_.io, pair, data, arrived)));
    EXPECT_EQ(arrived, data);
}

TEST_F(SimNetworkTest, BackPressure) {
    world_.network().options().socket_buffer_bytes = 10'000;
    const Pair pair = connect();
    std::string text(30'000, 'x');
    TestOp sending;
    const iovec part{.iov_base = text.data(), .iov_len = text.size()};
    client_.io->send(sending, pair.client, {&part, 1});
    world_.run_for(kSecond);
    EXPECT_EQ(sending.completions, 0);
    std::string got;
    while (got.size() < 30'000) {
        ASSERT_GT(receive(server_, pair.server, got), 0);
    }
    finish(sending);
    EXPECT_EQ(sending.result, 30'000);
    EXPECT_EQ(got, text);
}

TEST_F(SimNetworkTest, Addresses) {
    const Pair pair = connect();
    EXPECT_EQ(client_.io->peer_address(pair.client).port, address_.port);
    EXPECT_EQ(client_.io->peer_address(pair.client).ip, "127.0.0.1");
    EXPECT_EQ(server_.io->peer_address(pair.server).port,
              client_.io->local_address(pair.client).port);
    EXPECT_EQ(server_.io->peer_address(pair.server).ip, "127.0.0.2");
    EXPECT_EQ(server_.io->listen(address_).error().os_errno, EADDRINUSE);
    EXPECT_EQ(server_.io->listen({.ip = "0.0.0.0", .port = address_.port}).error().os_errno,
              EADDRINUSE);
    server_.io->close_socket(listener_);
    EXPECT_TRUE(server_.io->listen(address_).has_value());
}

TEST_F(SimNetworkTest, RefusedWhereNobodyListens) {
    TestOp op;
    client_.io->connect(op, {.ip = "127.0.0.1", .port = 1});
    EXPECT_EQ(op.completions, 0);
    finish(op);
    EXPECT_EQ(op.result, -ECONNREFUSED);
}

TEST_F(SimNetworkTest, ResetReachesBothEnds) {
    const Pair pair = connect();
    TestOp waiting;
    std::byte byte{};
    server_.io->receive(waiting, pair.server, {&byte, 1});
    world_.run_for(kMillisecond);
    EXPECT_EQ(waiting.completions, 0);
    world_.network().reset_connection(pair.client);
    finish(waiting);
    EXPECT_EQ(waiting.result, -ECONNRESET);
    std::string text;
    EXPECT_EQ(receive(client_, pair.client, text), -ECONNRESET);
    EXPECT_EQ(send(client_, pair.client, "x"), -ECONNRESET);
}

TEST_F(SimNetworkTest, CloseCompletesWhatIsPending) {
    const Pair pair = connect();
    TestOp receiving;
    TestOp accepting;
    std::byte byte{};
    server_.io->receive(receiving, pair.server, {&byte, 1});
    server_.io->accept(accepting, listener_);
    world_.run_for(kMillisecond);
    server_.io->close_socket(pair.server);
    server_.io->close_socket(listener_);
    EXPECT_EQ(receiving.completions, 0);  // never inside a call
    finish(receiving);
    finish(accepting);
    EXPECT_EQ(receiving.result, -ECANCELED);
    EXPECT_EQ(accepting.result, -ECANCELED);
    std::string text;
    EXPECT_EQ(receive(client_, pair.client, text), 0);
    EXPECT_EQ(receive(server_, pair.server, text), -EBADF);
    server_.io->close_socket(pair.server);
    EXPECT_EQ(send(client_, pair.client, "into the void"), 13);
    world_.run_for(kMillisecond);
    EXPECT_EQ(send(client_, pair.client, "x"), -ECONNRESET);
}

TEST_F(SimNetworkTest, CloseWithUnreadBytesResetsThePeer) {
    const Pair pair = connect();
    EXPECT_EQ(send(client_, pair.client, "unread"), 6);
    EXPECT_EQ(send(server_, pair.server, "answer"), 6);
    world_.run_for(kMillisecond);
    server_.io->close_socket(pair.server);
    world_.run_for(kMillisecond);
    std::string text;
    while (text.size() < 6) {
        ASSERT_GT(receive(client_, pair.client, text), 0);
    }
    EXPECT_EQ(text, "answer");
    EXPECT_EQ(receive(client_, pair.client, text), -ECONNRESET);
}

TEST_F(SimNetworkTest, ShutdownEndsBothDirections) {
    const Pair pair = connect();
    EXPECT_EQ(send(client_, pair.client, "last"), 4);
    TestOp waiting;
    std::byte byte{};
    client_.io->receive(waiting, pair.client, {&byte, 1});
    world_.run_for(kMillisecond);
    client_.io->shutdown_socket(pair.client);
    finish(waiting);
    EXPECT_EQ(waiting.result, 0);
    EXPECT_EQ(send(client_, pair.client, "x"), -EPIPE);
    std::string text;
    while (receive(server_, pair.server, text) > 0) {
    }
    EXPECT_EQ(text, "last");
}

TEST_F(SimNetworkTest, ChunksAreLentAndRunOut) {
    const Pair pair = connect();
    const std::size_t all = server_.io->free_chunk_count();
    TestOp idle;
    server_.io->receive_any(idle, pair.server);
    world_.run_for(kMillisecond);
    EXPECT_EQ(server_.io->free_chunk_count(), all);  // an idle connection holds none
    EXPECT_EQ(send(client_, pair.client, std::string(2000, 'c')), 2000);
    finish(idle);
    ASSERT_GT(idle.result, 0);
    EXPECT_EQ(idle.chunk.size_bytes, static_cast<std::uint32_t>(idle.result));
    EXPECT_EQ(idle.chunk.bytes()[0], std::byte{'c'});
    EXPECT_EQ(server_.io->free_chunk_count(), all - 1);

    std::vector<runtime::ReceivedChunk> held{idle.chunk};
    for (std::int32_t result = 1; result != -ENOBUFS;) {
        EXPECT_EQ(send(client_, pair.client, "more"), 4);
        TestOp op;
        server_.io->receive_any(op, pair.server);
        finish(op);
        result = op.result;
        if (result > 0) {
            held.push_back(op.chunk);
        }
    }
    EXPECT_EQ(held.size(), all);
    for (const auto& chunk : held) {
        server_.io->return_chunk(chunk);
    }
    TestOp again;
    server_.io->receive_any(again, pair.server);
    finish(again);
    EXPECT_GT(again.result, 0);
    server_.io->return_chunk(again.chunk);
}

TEST_F(SimNetworkTest, CancelOfAWaitingReceive) {
    const Pair pair = connect();
    TestOp waiting;
    std::byte byte{};
    server_.io->receive(waiting, pair.server, {&byte, 1});
    world_.run_for(kMillisecond);
    server_.io->cancel(waiting);
    EXPECT_TRUE(waiting.in_flight);
    finish(waiting);
    EXPECT_EQ(waiting.result, -ECANCELED);
    server_.io->cancel(waiting);  // over: nothing happens
    EXPECT_EQ(waiting.completions, 1);
}

TEST_F(SimNetworkTest, BlockedWayDeliversAfterHealing) {
    const Pair pair = connect();
    world_.network().set_blocked("127.0.0.1", "127.0.0.2", true);
    EXPECT_EQ(send(client_, pair.client, "one "), 4);
    TestOp waiting;
    std::vector<std::byte> into(1);
    server_.io->receive(waiting, pair.server, into);
    world_.run_for(kSecond);
    EXPECT_EQ(waiting.completions, 0);
    TestOp connecting;
    client_.io->connect(connecting, address_);
    finish(connecting);
    EXPECT_EQ(connecting.result, -ETIMEDOUT);
    world_.network().set_blocked("127.0.0.2", "127.0.0.1", false);
    EXPECT_EQ(send(client_, pair.client, "two"), 3);
    finish(waiting);
    std::string text(as_text(into));
    while (text.size() < 7) {
        ASSERT_GT(receive(server_, pair.server, text), 0);
    }
    EXPECT_EQ(text, "one two");
}

TEST_F(SimNetworkTest, AcceptedSocketWorksOnAnotherShard) {
    Node& second = world_.add_shard(server_);
    EXPECT_EQ(second.shard, ShardIndex{1});
    const Pair pair = connect();
    EXPECT_EQ(send(client_, pair.client, "hello"), 5);
    std::string text;
    while (text.size() < 5) {
        ASSERT_GT(receive(second, pair.server, text), 0);
    }
    EXPECT_EQ(text, "hello");
}

TEST_F(SimNetworkTest, KilledProcessClosesItsSockets) {
    const Pair pair = connect();
    world_.kill(server_);
    std::string text;
    EXPECT_EQ(receive(client_, pair.client, text), 0);
    TestOp op;
    client_.io->connect(op, address_);
    finish(op);
    EXPECT_EQ(op.result, -ECONNREFUSED);
}

}  // namespace
}  // namespace galgo::runtime_sim

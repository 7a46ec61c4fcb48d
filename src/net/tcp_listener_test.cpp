#include "net/tcp_listener.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"

namespace galgo::net {
namespace {

using coro::Task;
using runtime::SocketHandle;
using runtime_sim::Node;
using runtime_sim::TestWorld;

Task<std::int32_t> connect(runtime::IoBackend& io, runtime::SocketAddress address) {
    const std::int32_t result =
        co_await runtime::io_await([&](runtime::IoOp& op) { io.connect(op, address); });
    co_return result;
}

struct Accepted {
    std::vector<SocketHandle> sockets;
    std::vector<std::string> peers;
};

class TcpListenerTest : public ::testing::Test {
 protected:
    void start(TcpListener& listener) {
        listener.start([this](SocketHandle socket, const runtime::SocketAddress& peer) {
            accepted_.sockets.push_back(socket);
            accepted_.peers.push_back(peer.ip);
        });
    }
    void TearDown() override {
        for (const SocketHandle socket : accepted_.sockets) {
            server_.io->close_socket(socket);
        }
    }

    TestWorld world_{1};
    Node& server_ = world_.add_node();
    Node& client_ = world_.add_node();
    Accepted accepted_;
};

TEST_F(TcpListenerTest, AcceptsUntilStopped) {
    TcpListener listener(*server_.loop);
    ASSERT_TRUE(world_.run(server_, listener.listen({.ip = server_.ip, .port = 0})));
    EXPECT_NE(listener.address().port, 0);
    start(listener);
    for (int i = 0; i < 5; ++i) {
        const std::int32_t socket = world_.run(client_, connect(*client_.io, listener.address()));
        ASSERT_GE(socket, 0);
        client_.io->close_socket(SocketHandle{socket});
    }
    world_.run_for(kSecond);
    EXPECT_EQ(accepted_.sockets.size(), 5u);
    EXPECT_EQ(accepted_.peers, std::vector<std::string>(5, client_.ip));
    const runtime::SocketAddress address = listener.address();
    world_.run(server_, listener.stop());
    EXPECT_EQ(world_.run(client_, connect(*client_.io, address)), -ECONNREFUSED);
}

TEST_F(TcpListenerTest, WaitsForAnAddressInUse) {
    const runtime::SocketAddress address{.ip = server_.ip, .port = 8090};
    const SocketHandle other = *server_.io->listen(address);
    TcpListener listener(*server_.loop);
    const Status refused = world_.run(server_, listener.listen(address));
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().os_errno, EADDRINUSE);
    EXPECT_GE(world_.clock().now().value(), 10 * kSecond);
    server_.io->close_socket(other);
    EXPECT_TRUE(world_.run(server_, listener.listen(address)));
    world_.run(server_, listener.stop());
}

TEST_F(TcpListenerTest, OutOfDescriptorsPausesAndGoesOn) {
    TcpListener listener(*server_.loop);
    ASSERT_TRUE(world_.run(server_, listener.listen({.ip = server_.ip, .port = 0})));
    for (std::uint64_t i = 0; i < 20; ++i) {
        server_.io->fail_submission(i, i % 2 == 0 ? EMFILE : ENOBUFS);
    }
    server_.io->fail_submission(20, ECONNABORTED);
    start(listener);
    const std::int32_t socket = world_.run(client_, connect(*client_.io, listener.address()));
    ASSERT_GE(socket, 0);
    world_.run_for(kSecond);
    EXPECT_TRUE(accepted_.sockets.empty());
    EXPECT_GE(listener.failure_count(), 9u);
    EXPECT_LE(listener.failure_count(), 11u);  // it does not spin
    world_.run_for(2 * kSecond);
    EXPECT_EQ(accepted_.sockets.size(), 1u);
    EXPECT_EQ(listener.failure_count(), 20u);
    client_.io->close_socket(SocketHandle{socket});
    world_.run(server_, listener.stop());
}

TEST_F(TcpListenerTest, StopDuringAPauseAndWithoutStart) {
    TcpListener paused(*server_.loop);
    ASSERT_TRUE(world_.run(server_, paused.listen({.ip = server_.ip, .port = 0})));
    server_.io->fail_submission(0, ENFILE);
    start(paused);
    world_.run_for(10 * kMillisecond);
    EXPECT_EQ(paused.failure_count(), 1u);
    world_.run(server_, paused.stop());
    TcpListener idle(*server_.loop);
    ASSERT_TRUE(world_.run(server_, idle.listen({.ip = server_.ip, .port = 0})));
    world_.run(server_, idle.stop());
}

}  // namespace
}  // namespace galgo::net

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "runtime/mesh.hpp"
#include "runtime_uring/pinning.hpp"
#include "test_loop_test.hpp"

namespace galgo::runtime_uring {
namespace {

using coro::Anchor;
using coro::Task;
using runtime::io_await;
using runtime::IoOp;
using runtime::kNoSocket;
using runtime::ReceivedChunk;
using runtime::SocketAddress;
using runtime::SocketHandle;

// An awaiter whose chunk is needed too.
struct Received {
    std::int32_t result;
    ReceivedChunk chunk;
};
Task<Received> receive_any(UringBackend& io, SocketHandle socket) {
    IoOp* submitted = nullptr;
    ReceivedChunk chunk;
    const std::int32_t result = co_await io_await([&](IoOp& op) {
        submitted = &op;
        io.receive_any(op, socket);
    });
    chunk = submitted->chunk;
    co_return Received{result, chunk};
}

Task<bool> receive_all(UringBackend& io, SocketHandle socket, MutableBytes into) {
    while (!into.empty()) {
        const std::int32_t got = co_await io_await([&](IoOp& op) { io.receive(op, socket, into); });
        if (got <= 0) {
            co_return false;
        }
        into = into.subspan(static_cast<std::size_t>(got));
    }
    co_return true;
}

// Echoes through small chunks until the peer ends.
Task<void> echo(Anchor<TestShard> s, SocketHandle socket) {
    UringBackend& io = s->io();
    for (;;) {
        const Received received = co_await receive_any(io, socket);
        if (received.result == -ENOBUFS) {
            co_await coro::yield_to(s->loop.ready());
            continue;
        }
        if (received.result <= 0) {
            break;
        }
        const std::array<iovec, 1> parts{iovec{received.chunk.data, received.chunk.size_bytes}};
        const std::int32_t sent = co_await io_await([&](IoOp& op) { io.send(op, socket, parts); });
        io.return_chunk(received.chunk);
        if (sent < 0) {
            break;
        }
    }
    io.close_socket(socket);
}

Task<void> client(Anchor<TestShard> s, SocketAddress address, int rounds, std::size_t size_bytes,
                  std::shared_ptr<int> finished) {
    UringBackend& io = s->io();
    const std::int32_t fd = co_await io_await([&](IoOp& op) { io.connect(op, address); });
    EXPECT_GE(fd, 0);
    if (fd < 0) {
        co_return;
    }
    const SocketHandle socket{fd};
    std::vector<std::byte> out(size_bytes);
    std::vector<std::byte> in(size_bytes);
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t i = 0; i < size_bytes; ++i) {
            out[i] = static_cast<std::byte>(i + static_cast<std::size_t>(round));
        }
        const std::size_t half = size_bytes / 2;
        const std::array<iovec, 2> parts{iovec{out.data(), half},
                                         iovec{out.data() + half, size_bytes - half}};
        const std::int32_t sent = co_await io_await([&](IoOp& op) { io.send(op, socket, parts); });
        EXPECT_EQ(sent, static_cast<std::int32_t>(size_bytes));
        const bool complete = co_await receive_all(io, socket, in);
        EXPECT_TRUE(complete);
        EXPECT_EQ(in, out);
    }
    io.shutdown_socket(socket);
    io.close_socket(socket);
    ++*finished;
}

Task<void> accept_once(Anchor<TestShard> s, SocketHandle listener,
                       std::shared_ptr<SocketHandle> out) {
    UringBackend& io = s->io();
    const std::int32_t fd = co_await io_await([&](IoOp& op) { io.accept(op, listener); });
    *out = SocketHandle{fd};
}

Task<void> connect_once(Anchor<TestShard> s, SocketAddress address,
                        std::shared_ptr<std::int32_t> out) {
    UringBackend& io = s->io();
    *out = co_await io_await([&](IoOp& op) { io.connect(op, address); });
}

TEST(UringSockets, AcceptedAndConnectedSocketsHaveTheirOptionsAndAddresses) {
    UringGroup group(1);
    TestShard shard(group);
    UringBackend& io = shard.io();
    const Result<SocketHandle> listener = io.listen({.ip = "127.0.0.1", .port = 0});
    ASSERT_TRUE(listener.has_value());
    const SocketAddress address = io.local_address(*listener);
    EXPECT_EQ(address.ip, "127.0.0.1");
    EXPECT_NE(address.port, 0);
    EXPECT_EQ(io.listen(address).error().os_errno, EADDRINUSE);
    EXPECT_EQ(io.listen({.ip = "localhost", .port = 0}).error().os_errno, EINVAL);
    auto accepted = std::make_shared<SocketHandle>(kNoSocket);
    auto connected = std::make_shared<std::int32_t>(-1);
    shard.scope.spawn(accept_once, Anchor(shard), *listener, accepted);
    shard.scope.spawn(connect_once, Anchor(shard), address, connected);
    ASSERT_TRUE(shard.run_to_end());
    ASSERT_GE(accepted->value(), 0);
    ASSERT_GE(*connected, 0);
    for (const int fd : {accepted->value(), *connected}) {
        int on = 0;
        socklen_t bytes = sizeof(on);
        EXPECT_EQ(::getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &bytes), 0);
        EXPECT_EQ(on, 1);
    }
    // A peer whose host is gone is found out on the accepted side.
    const auto option_of = [&](int level, int name) {
        int value = -1;
        socklen_t bytes = sizeof(value);
        EXPECT_EQ(::getsockopt(accepted->value(), level, name, &value, &bytes), 0);
        return value;
    };
    EXPECT_EQ(option_of(SOL_SOCKET, SO_KEEPALIVE), 1);
    EXPECT_EQ(option_of(IPPROTO_TCP, TCP_KEEPIDLE), 10);
    EXPECT_EQ(option_of(IPPROTO_TCP, TCP_KEEPINTVL), 5);
    EXPECT_EQ(option_of(IPPROTO_TCP, TCP_KEEPCNT), 5);
    EXPECT_EQ(option_of(IPPROTO_TCP, TCP_USER_TIMEOUT), 36'000);
    EXPECT_EQ(io.peer_address(*accepted).port, io.local_address(SocketHandle{*connected}).port);
    io.close_socket(*accepted);
    io.close_socket(SocketHandle{*connected});
    io.close_socket(*listener);
    // Nobody listens there any more; and an address that is none.
    shard.scope.spawn(connect_once, Anchor(shard), address, connected);
    ASSERT_TRUE(shard.run_to_end());
    EXPECT_EQ(*connected, -ECONNREFUSED);
    shard.scope.spawn(connect_once, Anchor(shard), SocketAddress{.ip = "nowhere", .port = 1},
                      connected);
    ASSERT_TRUE(shard.run_to_end());
    EXPECT_EQ(*connected, -EINVAL);
}

struct PlainOp : IoOp {
    int completed = 0;
    std::int32_t result = 0;
    PlainOp() {
        complete = [](IoOp& op, std::int32_t value) noexcept {
            auto& self = static_cast<PlainOp&>(op);
            ++self.completed;
            self.result = value;
        };
    }
};

struct SocketPair {
    explicit SocketPair() { GALGO_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()) == 0); }
    SocketPair(const SocketPair&) = delete;
    SocketPair& operator=(const SocketPair&) = delete;
    ~SocketPair() {
        ::close(fds[0]);
        ::close(fds[1]);
    }
    std::array<int, 2> fds{};
};

void poll_until(UringBackend& io, const std::function<bool()>& done) {
    const Instant end = io.now().plus(10 * kSecond);
    while (!done() && io.now() < end) {
        (void)io.poll(io.now().plus(10 * kMillisecond));
    }
    EXPECT_TRUE(done());
}

TEST(UringSockets, ChunksRunOutAndComeBack) {
    UringGroup group(1);
    TestShard shard(group, ShardIndex{0}, {.chunk_count = 2, .chunk_bytes = 64});
    UringBackend& io = shard.io();
    SocketPair pair;
    const SocketHandle socket{pair.fds[0]};
    std::vector<char> text(200, 'x');
    ASSERT_EQ(::write(pair.fds[1], text.data(), text.size()), 200);
    std::array<PlainOp, 3> ops;
    for (PlainOp& op : ops) {
        io.receive_any(op, socket);
        poll_until(io, [&] { return op.completed == 1; });
    }
    EXPECT_EQ(ops[0].result, 64);
    EXPECT_EQ(ops[0].chunk.size_bytes, 64u);
    EXPECT_EQ(as_text(ops[0].chunk.bytes()), std::string(64, 'x'));
    EXPECT_EQ(ops[1].result, 64);
    EXPECT_EQ(ops[2].result, -ENOBUFS);
    EXPECT_EQ(io.chunks_lent(), 2u);
    io.return_chunk(ops[1].chunk);
    io.receive_any(ops[2], socket);
    poll_until(io, [&] { return ops[2].completed == 2; });
    EXPECT_EQ(ops[2].result, 64);
    io.return_chunk(ops[0].chunk);
    io.return_chunk(ops[2].chunk);
    // End of stream lends nothing.
    ::shutdown(pair.fds[1], SHUT_WR);
    io.receive_any(ops[0], socket);
    poll_until(io, [&] { return ops[0].completed == 2; });
    EXPECT_EQ(ops[0].result, 8);
    io.return_chunk(ops[0].chunk);
    io.receive_any(ops[0], socket);
    poll_until(io, [&] { return ops[0].completed == 3; });
    EXPECT_EQ(ops[0].result, 0);
    EXPECT_EQ(io.chunks_lent(), 0u);
}

TEST(UringSockets, CancelledAndShutDownReceivesComplete) {
    UringGroup group(1);
    TestShard shard(group);
    UringBackend& io = shard.io();
    SocketPair pair;
    std::array<std::byte, 16> bytes{};
    PlainOp cancelled;
    io.receive(cancelled, SocketHandle{pair.fds[0]}, bytes);
    (void)io.poll(Instant{0});
    EXPECT_EQ(cancelled.completed, 0);
    io.cancel(cancelled);
    EXPECT_EQ(cancelled.completed, 0);
    poll_until(io, [&] { return cancelled.completed == 1; });
    EXPECT_EQ(cancelled.result, -ECANCELED);
    io.cancel(cancelled);  // nothing is in flight: nothing happens

    PlainOp ended;
    io.receive_any(ended, SocketHandle{pair.fds[0]});
    (void)io.poll(Instant{0});
    io.shutdown_socket(SocketHandle{pair.fds[0]});
    poll_until(io, [&] { return ended.completed == 1; });
    EXPECT_EQ(ended.result, 0);
}

TEST(UringSockets, ShutdownCompletesWhatIsInFlight) {
    PlainOp receiving;
    PlainOp accepting;
    PlainOp late;
    std::array<std::byte, 16> bytes{};
    SocketPair pair;
    {
        UringGroup group(1);
        TestShard shard(group);
        UringBackend& io = shard.io();
        const Result<SocketHandle> listener = io.listen({.ip = "127.0.0.1", .port = 0});
        io.accept(accepting, *listener);
        io.receive(receiving, SocketHandle{pair.fds[0]}, bytes);
        io.shutdown();
        EXPECT_EQ(receiving.result, -ECANCELED);
        EXPECT_EQ(accepting.result, -ECANCELED);
        EXPECT_EQ(io.in_flight(), 0u);
        io.receive(late, SocketHandle{pair.fds[0]}, bytes);
        EXPECT_EQ(late.completed, 0);
        (void)io.poll(Instant{0});
        EXPECT_EQ(late.result, -ECANCELED);
        io.close_socket(*listener);
    }
    EXPECT_EQ(receiving.completed, 1);
    EXPECT_EQ(late.completed, 1);
}

// ---- two shards
// ------------------------------------------------------------------------------------

struct HandOver {
    static constexpr bool kShardPortable = true;
    SocketHandle socket;
};
using TestMesh = runtime::Mesh<HandOver, std::uint32_t>;

Task<void> accept_and_hand_over(Anchor<TestShard> s, std::reference_wrapper<TestMesh> mesh,
                                SocketHandle listener, int count) {
    UringBackend& io = s->io();
    for (int i = 0; i < count; ++i) {
        const std::int32_t fd = co_await io_await([&](IoOp& op) { io.accept(op, listener); });
        EXPECT_GE(fd, 0);
        if (i % 2 == 0) {
            EXPECT_TRUE(
                mesh.get().port(ShardIndex{0}).try_send(ShardIndex{1}, HandOver{SocketHandle{fd}}));
        } else {
            s->scope.spawn(echo, Anchor(*s), SocketHandle{fd});
        }
    }
}

TEST(UringSockets, EchoOverTwoShardsWithHandOver) {
    constexpr int kClients = 8;
    constexpr int kRounds = 50;
    const std::vector<int> cpus = allowed_cpus();
    UringGroup group(3);
    TestMesh mesh({.shard_count = 2, .lane_capacity = 16});
    std::atomic<std::uint16_t> port{0};
    std::atomic<int> handed_over{0};
    std::atomic<bool> stop{false};

    auto run_shard = [&](std::uint16_t index) {
        const ShardIndex self{index};
        ASSERT_TRUE(enter_shard_thread(self, cpus[index % cpus.size()]).has_value());
        TestShard shard(group, self, {}, {.busy_poll_ns = index == 0 ? 0U : 20'000U});
        auto& end = mesh.port(self);
        end.attach(shard.loop);
        SocketHandle listener = kNoSocket;
        if (index == 0) {
            listener = *shard.io().listen({.ip = "127.0.0.1", .port = 0});
            shard.scope.spawn(accept_and_hand_over, Anchor(shard), std::ref(mesh), listener,
                              kClients);
            port = shard.io().local_address(listener).port;
        }
        shard.loop.add_turn_start([&] {
            const std::size_t taken = end.drain(
                [&](ShardIndex from, HandOver&& message) {
                    ++handed_over;
                    shard.scope.spawn(echo, Anchor(shard), message.socket);
                    end.reply(from, 1U);
                },
                [](ShardIndex, std::uint32_t&&) {});
            if (stop && shard.scope.inside() == 0) {
                shard.loop.stop();
            }
            return taken != 0;
        });
        shard.loop.run();
        if (listener != kNoSocket) {
            shard.io().close_socket(listener);
        }
        EXPECT_EQ(shard.io().chunks_lent(), 0u);
    };
    std::thread shard_0(run_shard, std::uint16_t{0});
    std::thread shard_1(run_shard, std::uint16_t{1});
    while (port == 0) {
        std::this_thread::yield();
    }
    {
        TestShard clients(group, ShardIndex{2});
        auto finished = std::make_shared<int>(0);
        for (int i = 0; i < kClients; ++i) {
            const std::size_t size_bytes = i == 0 ? 300'000 : 128 + static_cast<std::size_t>(i);
            clients.scope.spawn(client, Anchor(clients),
                                SocketAddress{.ip = "127.0.0.1", .port = port}, kRounds, size_bytes,
                                finished);
        }
        EXPECT_TRUE(clients.run_to_end(60 * kSecond));
        EXPECT_EQ(*finished, kClients);
    }
    stop = true;
    group.wake(ShardIndex{0});  // from a thread that is no shard of theirs
    group.wake(ShardIndex{1});
    shard_0.join();
    shard_1.join();
    EXPECT_EQ(handed_over, kClients / 2);
    set_this_shard(kNoShard);
}

// A message to a sleeping shard wakes it: round trips take microseconds, not the timer's seconds.
TEST(UringWake, RoundTripsBetweenSleepingShards) {
    constexpr int kRounds = 200;
    UringGroup group(2);
    TestMesh mesh({.shard_count = 2, .lane_capacity = 16});
    std::atomic<int> ready{0};
    std::vector<std::uint64_t> round_trips;
    auto run_shard = [&](std::uint16_t index) {
        const ShardIndex self{index};
        const ShardIndex other{static_cast<std::uint16_t>(1 - index)};
        TestShard shard(group, self);
        auto& end = mesh.port(self);
        end.attach(shard.loop);
        Instant sent{0};
        int rounds = 0;
        auto ping = [&] {
            sent = shard.io().now();
            EXPECT_TRUE(end.try_send(other, HandOver{}));
        };
        shard.loop.add_turn_start([&] {
            return end.drain(
                       [&](ShardIndex from, HandOver&&) {
                           end.reply(from, 0U);
                           if (++rounds == kRounds) {
                               shard.loop.stop();
                           }
                       },
                       [&](ShardIndex, std::uint32_t&&) {
                           round_trips.push_back(shard.io().now().value() - sent.value());
                           if (++rounds == kRounds) {
                               shard.loop.stop();
                           } else {
                               ping();
                           }
                       }) != 0;
        });
        ++ready;
        while (ready != 2) {
            std::this_thread::yield();
        }
        if (index == 0) {
            ping();
        }
        shard.loop.run();
        if (index == 1) {  // the last reply may still owe its wake
            end.flush();
            (void)shard.io().poll(Instant{0});
        }
        EXPECT_GT(shard.loop.stats().sleeps.load(), 0u);
    };
    std::thread second(run_shard, std::uint16_t{1});
    std::thread first(run_shard, std::uint16_t{0});
    first.join();
    second.join();
    ASSERT_EQ(round_trips.size(), static_cast<std::size_t>(kRounds));
    std::sort(round_trips.begin(), round_trips.end());
    std::printf("wake round trip: p50 %lu us, p99 %lu us\n", round_trips[kRounds / 2] / 1000,
                round_trips[kRounds * 99 / 100] / 1000);
    EXPECT_LT(round_trips[kRounds / 2], 50 * kMillisecond);
}

TEST(UringWake, AWakeBeforeTheSleepIsKept) {
    UringGroup group(1);
    TestShard shard(group);
    UringBackend& io = shard.io();
    io.wake(ShardIndex{0});
    const Instant start = io.now();
    EXPECT_EQ(io.poll(start.plus(5 * kSecond)), 0u);
    EXPECT_LT(io.now().value() - start.value(), kSecond);
    group.wake(ShardIndex{0});
    EXPECT_EQ(io.poll(io.now().plus(5 * kSecond)), 0u);
    EXPECT_LT(io.now().value() - start.value(), 2 * kSecond);
    // And without one, poll keeps its time.
    const Instant before = io.now();
    EXPECT_EQ(io.poll(before.plus(20 * kMillisecond)), 0u);
    EXPECT_GE(io.now().value() - before.value(), 20 * kMillisecond);
}

// A shard's last turn sends its last message and queues the wake; then its ring goes.
TEST(UringWake, AShardThatEndsStillWakesOthers) {
    UringGroup group(2);
    TestShard sleeper(group, ShardIndex{0});
    {
        TestShard ending(group, ShardIndex{1});
        ending.io().wake(ShardIndex{0});
        ending.io().shutdown();
    }
    const Instant start = sleeper.io().now();
    EXPECT_EQ(sleeper.io().poll(start.plus(5 * kSecond)), 0u);
    EXPECT_LT(sleeper.io().now().value() - start.value(), kSecond);
}

TEST(UringBackend, AnIdlePollMakesNoSystemCall) {
    UringGroup group(1);
    TestShard shard(group);
    const std::uint64_t before = shard.io().enter_count();
    for (int i = 0; i < 100; ++i) {
        (void)shard.io().poll(Instant{0});
    }
    EXPECT_EQ(shard.io().enter_count(), before);
}

}  // namespace
}  // namespace galgo::runtime_uring

#include "net/detail/test_support.hpp"

namespace galgo::net {
namespace {

using namespace testing;

TEST(Connection, FrameCutAtEveryByte) {
    const Bytes whole = frame(33, 5);
    for (std::size_t cut = 1; cut < whole.size(); ++cut) {
        NetWorld net(cut);
        const SocketHandle socket = net.connect();
        ASSERT_TRUE(net.send(socket, ConstBytes(whole).first(cut)));
        net.world.run_for(2 * kMillisecond);
        EXPECT_TRUE(net.sink.numbers.empty());
        EXPECT_EQ(net.server.io->free_chunk_count(), 64u) << "a started frame holds a chunk";
        ASSERT_TRUE(net.send(socket, ConstBytes(whole).subspan(cut)));
        ASSERT_TRUE(net.expect_reply(socket, 33, 5)) << "cut at " << cut;
        net.close(socket);
    }
}

TEST(Connection, IdleHoldsNothingAndHasNoTimeout) {
    NetWorld net(1);
    net.sink.authenticated = false;
    const SocketHandle socket = net.connect();
    net.world.run_for(3600 * kSecond);
    EXPECT_EQ(net.pool.stats().in_use_bytes, 0u);
    EXPECT_EQ(net.server.io->free_chunk_count(), 64u);
    ASSERT_TRUE(net.send(socket, frame(10, 1)));
    EXPECT_TRUE(net.expect_reply(socket, 10, 1));
    net.world.run_for(3600 * kSecond);
    EXPECT_EQ(net.set.open_count(), 1u);
    EXPECT_EQ(net.set.counters().open.load(), 1u);
    EXPECT_EQ(net.sink.last_peer, "peer");
    net.close(socket);
    EXPECT_EQ(net.set.open_count(), 0u);
}

TEST(Connection, PipelinedFramesAreAnsweredInOrder) {
    NetWorld net(2);
    const SocketHandle socket = net.connect();
    Bytes bytes;
    for (std::uint64_t i = 1; i <= 20; ++i) {
        append_frame(bytes, i % 4 * 100, i);
    }
    net.sink.delay_ns = kMillisecond;
    ASSERT_TRUE(net.send(socket, bytes));
    for (std::uint64_t i = 1; i <= 20; ++i) {
        ASSERT_TRUE(net.expect_reply(socket, i % 4 * 100, i));
        EXPECT_EQ(net.server.io->free_chunk_count(), 64u) << "a waiting handler holds a chunk";
    }
    EXPECT_EQ(net.set.counters().frames_in.load(), 20u);
    EXPECT_EQ(net.set.counters().frames_out.load(), 20u);
    EXPECT_EQ(net.set.counters().bytes_in.load(), bytes.size());
    net.close(socket);
}

TEST(Connection, BodySizesAroundTheDirectLimit) {
    NetWorld net(3);
    net.sink.head = "head";
    const SocketHandle socket = net.connect();
    std::uint64_t number = 0;
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{4096}, std::size_t{16 * 1024 - 1},
          std::size_t{16 * 1024}, std::size_t{16 * 1024 + 1}, std::size_t{1024 * 1024}}) {
        ++number;
        // Two at once, so that a large body has a frame right behind it.
        Bytes bytes = frame(size, number);
        append_frame(bytes, 17, number + 1);
        ASSERT_TRUE(net.send(socket, bytes));
        ASSERT_TRUE(net.expect_reply(socket, size, number)) << size;
        ++number;
        ASSERT_TRUE(net.expect_reply(socket, 17, number));
    }
    net.close(socket);
}

TEST(Connection, WhatCannotBeAFrameCloses) {
    const auto refused = [](wire::RequestHeader header, bool authenticated,
                            std::uint8_t command = 5) {
        NetWorld net(4);
        net.sink.authenticated = authenticated;
        const SocketHandle socket = net.connect();
        Bytes bytes;
        append_header(bytes, request_header(0, 1));
        wire::RequestHeader patched = header;
        store<std::uint32_t>(bytes, 48, patched.size);
        store<std::uint8_t>(bytes, 60, command);
        store<std::uint8_t>(bytes, 176, static_cast<std::uint8_t>(patched.operation));
        store<u128>(bytes, 128, patched.client.value());
        EXPECT_TRUE(net.send(socket, bytes));
        const bool silent = net.closed_silently(socket);
        EXPECT_TRUE(net.sink.numbers.empty());
        EXPECT_EQ(net.set.counters().protocol_errors.load(), 1u);
        net.close(socket);
        return silent;
    };
    wire::RequestHeader header = request_header(0, 1);
    header.size = 255;
    EXPECT_TRUE(refused(header, true));
    header.size = (64U << 20U) + 1;
    EXPECT_TRUE(refused(header, true));
    header.size = 16 * 1024 + 1;
    EXPECT_TRUE(refused(header, false));
    header.size = 256;
    EXPECT_TRUE(refused(header, true, 8));
    header.client = ClientId{};
    EXPECT_TRUE(refused(header, true));
    header.operation = static_cast<wire::Operation>(99);
    EXPECT_TRUE(refused(header, true));
}

TEST(Connection, OtherFaultsGoToTheSink) {
    NetWorld net(5);
    const SocketHandle socket = net.connect();
    wire::RequestHeader header = request_header(0, 1);
    header.operation =
        wire::Operation::kRegister;  // with a request number: a fault of the second kind
    Bytes bytes;
    append_header(bytes, header);
    append_frame(bytes, 5, 2);
    ASSERT_TRUE(net.send(socket, bytes));
    ASSERT_TRUE(net.expect_reply(socket, 0, 1));
    ASSERT_TRUE(net.expect_reply(socket, 5, 2));
    ASSERT_EQ(net.sink.faults.size(), 2u);
    EXPECT_EQ(net.sink.faults[0], wire::HeaderFault::kSessionOrRequest);
    EXPECT_EQ(net.sink.faults[1], wire::HeaderFault::kNone);
    net.close(socket);
}

TEST(Connection, AnonymousFrameHasTenSecondsInAll) {
    NetWorld net(6);
    net.sink.authenticated = false;
    const SocketHandle socket = net.connect();
    const Bytes bytes = frame(1000, 1);
    for (int i = 0; i < 9; ++i) {
        ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(static_cast<std::size_t>(i), 1)));
        net.world.run_for(kSecond);
    }
    EXPECT_EQ(net.set.open_count(), 1u);
    net.world.run_for(2 * kSecond);
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_TRUE(net.closed_silently(socket));
    EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
    net.close(socket);
}

TEST(Connection, AnonymousFrameOfSixteenKibibytesIsFine) {
    NetWorld net(7);
    net.sink.authenticated = false;
    const SocketHandle socket = net.connect();
    ASSERT_TRUE(net.send(socket, frame(16 * 1024 - 256, 1)));
    EXPECT_TRUE(net.expect_reply(socket, 16 * 1024 - 256, 1));
    net.close(socket);
}

TEST(Connection, AuthenticatedFrameLivesOnProgress) {
    NetWorld net(8);
    const SocketHandle socket = net.connect();
    const Bytes bytes = frame(400'000, 1);
    std::size_t sent = 0;
    for (int i = 0; i < 5; ++i) {  // 100 s in all, each 40 kB within 30
        ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(sent, 40'000)));
        sent += 40'000;
        net.world.run_for(20 * kSecond);
        ASSERT_EQ(net.set.open_count(), 1u);
    }
    net.world.run_for(11 * kSecond);
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
    EXPECT_EQ(net.pool.stats().in_use_bytes, 0u);
    net.close(socket);
}

TEST(Connection, AuthenticatedFrameMayEndSlowlyWithinItsTime) {
    NetWorld net(21);
    const SocketHandle socket = net.connect();
    // 10 s for the header, then 25 s for a body that is less than one step.
    const Bytes bytes = frame(1000, 1);
    ASSERT_TRUE(net.send(socket, ConstBytes(bytes).first(100)));
    net.world.run_for(10 * kSecond);
    ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(100, 600)));
    net.world.run_for(25 * kSecond);
    ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(700)));
    EXPECT_TRUE(net.expect_reply(socket, 1000, 1));
    net.close(socket);
}

TEST(Connection, AuthenticatedFrameInCrumbsIsClosed) {
    // In its header, in a body that comes through chunks, in one that is received directly.
    struct Case {
        std::size_t body_bytes;
        std::size_t first_bytes;
    };
    constexpr std::array kCases{Case{1000, 10}, Case{1000, 300}, Case{1'000'000, 300}};
    for (const auto& [body_bytes, first_bytes] : kCases) {
        NetWorld net(22);
        const SocketHandle socket = net.connect();
        const Bytes bytes = frame(body_bytes, 1);
        ASSERT_TRUE(net.send(socket, ConstBytes(bytes).first(first_bytes)));
        int rounds = 0;
        for (; rounds < 60 && net.set.open_count() == 1; ++rounds) {
            ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(
                                             first_bytes + static_cast<std::size_t>(rounds), 1)));
            net.world.run_for(4 * kSecond);
        }
        EXPECT_EQ(rounds, 8) << body_bytes << ", " << first_bytes;
        EXPECT_EQ(net.set.open_count(), 0u);
        EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
        EXPECT_EQ(net.pool.stats().in_use_bytes, 0u);
        net.close(socket);
    }
}

TEST(Connection, PeerThatNeverReadsIsClosed) {
    NetWorld net(9);
    const SocketHandle socket = net.connect();
    ASSERT_TRUE(net.send(socket, frame(1024 * 1024, 1)));
    net.world.run_for(29 * kSecond);
    EXPECT_EQ(net.set.open_count(), 1u);
    EXPECT_GE(net.pool.stats().in_use_bytes, 1024u * 1024u);
    net.world.run_for(40 * kSecond);
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.pool.stats().in_use_bytes, 0u);
    EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
    net.close(socket);
}

TEST(Connection, PeerThatTakesCrumbsIsClosed) {
    NetWorld net(19);
    const SocketHandle socket = net.connect();
    ASSERT_TRUE(net.send(socket, frame(1024 * 1024, 1)));
    const Bytes header = net.receive(socket, wire::kHeaderSize);
    for (int i = 0; i < 60 && net.set.open_count() == 1; ++i) {
        net.world.run_for(5 * kSecond);
        const Bytes crumb = net.receive(socket, 1024);
    }
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.pool.stats().in_use_bytes, 0u);
    EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
    net.close(socket);
}

TEST(Connection, PeerThatReadsSlowlyIsServed) {
    NetWorld net(10);
    const SocketHandle socket = net.connect();
    ASSERT_TRUE(net.send(socket, frame(512 * 1024, 1)));
    const Bytes header = net.receive(socket, wire::kHeaderSize);
    Bytes body;
    while (body.size() < 512 * 1024) {  // each send is cut by its deadline at least once
        net.world.run_for(25 * kSecond);
        const Bytes part =
            net.receive(socket, std::min<std::size_t>(64 * 1024, 512 * 1024 - body.size()));
        ASSERT_FALSE(part.empty());
        body.insert(body.end(), part.begin(), part.end());
    }
    EXPECT_EQ(body, pattern(512 * 1024, 1));
    EXPECT_EQ(net.set.open_count(), 1u);
    net.close(socket);
}

TEST(Connection, MoreSlicesThanOneSendTakes) {
    NetWorld net(11);
    net.sink.copies = 2500;
    net.sink.head = "h";
    const SocketHandle socket = net.connect();
    ASSERT_TRUE(net.send(socket, frame(13, 1)));
    EXPECT_TRUE(net.expect_reply(socket, 13, 1));
    ASSERT_TRUE(net.send(socket, frame(7, 2)));
    EXPECT_TRUE(net.expect_reply(socket, 7, 2));
    net.close(socket);
}

TEST(Connection, EvictionIsAHeaderAndTheConnectionStays) {
    NetWorld net(12);
    net.sink.evict = true;
    const SocketHandle socket = net.connect();
    ASSERT_TRUE(net.send(socket, frame(5, 1)));
    const Bytes bytes = net.receive(socket, wire::kHeaderSize);
    ASSERT_EQ(bytes.size(), wire::kHeaderSize);
    const auto eviction = wire::decode_eviction(bytes);
    ASSERT_TRUE(eviction.has_value());
    EXPECT_EQ(eviction->reason, wire::EvictionReason::kNoSession);
    net.sink.evict = false;
    ASSERT_TRUE(net.send(socket, frame(5, 2)));
    EXPECT_TRUE(net.expect_reply(socket, 5, 2));
    net.close(socket);
}

// The handler is waited for, its reply is not sent.
TEST(Connection, StoppedWhileHandling) {
    NetWorld net(13);
    net.sink.delay_ns = kSecond;
    const SocketHandle busy = net.connect();
    ASSERT_TRUE(net.send(busy, frame(5, 1)));
    net.world.run_for(100 * kMillisecond);
    ASSERT_EQ(net.sink.numbers.size(), 1u);
    net.stop();
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.sink.closed, 1);
    EXPECT_TRUE(net.closed_silently(busy));
    net.close(busy);
}

TEST(Connection, PeerGoesWhileWeSend) {
    NetWorld net(15);
    const SocketHandle socket = net.connect();
    ASSERT_TRUE(net.send(socket, frame(1024 * 1024, 1)));
    EXPECT_EQ(net.receive(socket, 1000).size(), 1000u);
    net.close(socket);
    net.world.run_for(kSecond);
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.pool.stats().in_use_bytes, 0u);
}

TEST(Connection, StopEndsAllWhateverTheyDo) {
    NetWorld net(16);
    const SocketHandle idle = net.connect();
    const SocketHandle started = net.connect();
    const SocketHandle deaf = net.connect();
    ASSERT_TRUE(net.send(started, ConstBytes(frame(100, 1)).first(300)));
    ASSERT_TRUE(net.send(deaf, frame(1024 * 1024, 1)));
    net.world.run_for(kSecond);
    EXPECT_EQ(net.set.open_count(), 3u);
    net.stop();
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.sink.closed, 3);
    const SocketHandle late = net.connect();
    EXPECT_FALSE(net.adopted());
    EXPECT_TRUE(net.closed_silently(late));
    for (const SocketHandle socket : {idle, started, deaf, late}) {
        net.close(socket);
    }
}

TEST(ConnectionSet, RefusesBeyondItsBound) {
    NetWorld net(17, {.connections_max = 2});
    const SocketHandle a = net.connect();
    const SocketHandle b = net.connect();
    const SocketHandle c = net.connect();
    EXPECT_FALSE(net.adopted());
    EXPECT_TRUE(net.closed_silently(c));
    EXPECT_EQ(net.set.counters().refused.load(), 1u);
    EXPECT_EQ(net.set.counters().accepted.load(), 2u);
    net.close(a);
    const SocketHandle d = net.connect();
    EXPECT_TRUE(net.adopted());
    for (const SocketHandle socket : {b, c, d}) {
        net.close(socket);
    }
}

TEST(ConnectionSet, TheLongestSilentAnonymousMakesRoom) {
    NetWorld net(25, {.connections_max = 3});
    const SocketHandle logged_in = net.connect();
    net.sink.authenticated = false;
    const SocketHandle first = net.connect();
    net.world.run_for(kSecond);
    const SocketHandle second = net.connect();
    net.world.run_for(7 * kSecond);
    // It speaks, so that now the second has been silent longest.
    ASSERT_TRUE(net.send(first, frame(5, 1)));
    ASSERT_TRUE(net.expect_reply(first, 5, 1));
    net.world.run_for(kSecond);
    const SocketHandle refused = net.connect();
    EXPECT_FALSE(net.adopted()) << "nobody has been silent for 10 s";
    EXPECT_TRUE(net.closed_silently(refused));
    net.world.run_for(3 * kSecond);
    const SocketHandle third = net.connect();
    EXPECT_TRUE(net.adopted());
    EXPECT_TRUE(net.closed_silently(second));
    EXPECT_EQ(net.set.open_count(), 3u);
    EXPECT_EQ(net.set.counters().displaced.load(), 1u);
    EXPECT_EQ(net.set.counters().refused.load(), 1u);
    // A frame that has begun is not silence, and a login keeps its place for ever.
    net.world.run_for(20 * kSecond);
    ASSERT_TRUE(net.send(first, ConstBytes(frame(5, 2)).first(100)));
    net.world.run_for(10 * kMillisecond);
    const SocketHandle fourth = net.connect();
    EXPECT_TRUE(net.adopted());
    EXPECT_TRUE(net.closed_silently(third));
    const SocketHandle fifth = net.connect();
    EXPECT_FALSE(net.adopted());
    ASSERT_TRUE(net.send(first, ConstBytes(frame(5, 2)).subspan(100)));
    EXPECT_TRUE(net.expect_reply(first, 5, 2));
    ASSERT_TRUE(net.send(logged_in, frame(5, 3)));
    EXPECT_TRUE(net.expect_reply(logged_in, 5, 3));
    for (const SocketHandle socket : {logged_in, first, second, refused, third, fourth, fifth}) {
        net.close(socket);
    }
}

TEST(ConnectionSet, OneMakesRoomForEachOfOneTurn) {
    NetWorld net(26, {.connections_max = 3});
    net.sink.authenticated = false;
    std::vector<SocketHandle> sockets;
    for (int i = 0; i < 3; ++i) {
        sockets.push_back(net.connect());
    }
    net.world.run_for(10 * kSecond);
    EXPECT_EQ(net.connect_at_once(4, sockets), 3u);
    net.world.run_for(kSecond);
    EXPECT_EQ(net.set.open_count(), 3u);
    EXPECT_EQ(net.set.counters().displaced.load(), 3u);
    EXPECT_EQ(net.set.counters().refused.load(), 1u);
    for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(net.closed_silently(sockets[i]));
    }
    for (const SocketHandle socket : sockets) {
        net.close(socket);
    }
}

TEST(Connection, AnonymousPeersCannotAnnounceMuch) {
    NetWorld net(18);
    net.sink.authenticated = false;
    std::vector<SocketHandle> sockets;
    for (std::uint64_t i = 0; i < 8; ++i) {
        sockets.push_back(net.connect());
        Bytes bytes;
        append_header(bytes, request_header((64U << 20U) - 256, 1));
        ASSERT_TRUE(net.send(sockets.back(), bytes));
    }
    net.world.run_for(kSecond);
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.pool.stats().in_use_bytes, 0u);
    for (const SocketHandle socket : sockets) {
        net.close(socket);
    }
}

TEST(Connection, FullPoolIsBackPressure) {
    NetWorld net(19, {}, 4 * kMiB);
    std::vector<SocketHandle> sockets;
    for (std::uint64_t i = 0; i < 3; ++i) {
        sockets.push_back(net.connect());
    }
    // The first holds its buffer in the handler; what the others announce does not fit beside it.
    net.sink.hold = true;
    ASSERT_TRUE(net.send(sockets[0], frame(2 * 1024 * 1024, 1)));
    ASSERT_TRUE(net.expect_reply(sockets[0], 2 * 1024 * 1024, 1));
    net.sink.hold = false;
    Bytes head;
    append_header(head, request_header(2 * 1024 * 1024, 2));
    const Bytes body = pattern(2 * 1024 * 1024, 2);
    ASSERT_TRUE(net.send(sockets[1], head));
    net.world.run_for(5 * kSecond);
    EXPECT_GE(net.set.counters().memory_waits.load(), 1u);
    EXPECT_EQ(net.set.open_count(), 3u);
    net.sink.held.clear();
    ASSERT_TRUE(net.send(sockets[1], body));
    ASSERT_TRUE(net.expect_reply(sockets[1], 2 * 1024 * 1024, 2));
    // Nothing comes free for 30 s: the connection closes; small requests of others go on meanwhile.
    net.sink.hold = true;
    ASSERT_TRUE(net.send(sockets[0], frame(2 * 1024 * 1024, 3)));
    ASSERT_TRUE(net.expect_reply(sockets[0], 2 * 1024 * 1024, 3));
    net.sink.hold = false;
    ASSERT_TRUE(net.send(sockets[1], head));
    net.world.run_for(20 * kSecond);
    ASSERT_TRUE(net.send(sockets[2], frame(100, 4)));
    ASSERT_TRUE(net.expect_reply(sockets[2], 100, 4));
    EXPECT_EQ(net.set.open_count(), 3u);
    net.world.run_for(11 * kSecond);
    EXPECT_EQ(net.set.open_count(), 2u);
    EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
    // One that waits for memory can be stopped.
    ASSERT_TRUE(net.send(sockets[2], head));
    net.world.run_for(kSecond);
    net.stop();
    EXPECT_EQ(net.set.open_count(), 0u);
    for (const SocketHandle socket : sockets) {
        net.close(socket);
    }
}

TEST(Connection, ChunksOfAShardRunOut) {
    NetWorld net(20);
    std::vector<SocketHandle> sockets;
    for (std::uint64_t i = 0; i < 100; ++i) {
        sockets.push_back(net.connect());
    }
    // 100 pipelining peers and 64 chunks: all are answered.
    net.sink.delay_ns = 10 * kMillisecond;
    Bytes bytes = frame(100, 1);
    append_frame(bytes, 200, 2);
    for (const SocketHandle socket : sockets) {
        ASSERT_TRUE(net.send(socket, bytes));
    }
    for (const SocketHandle socket : sockets) {
        ASSERT_TRUE(net.expect_reply(socket, 100, 1));
        ASSERT_TRUE(net.expect_reply(socket, 200, 2));
    }
    for (const SocketHandle socket : sockets) {
        net.client.io->close_socket(socket);
    }
}

/// Takes all of the pool that peers may have.
std::vector<memory::BufRef> take_pool(NetWorld& net) {
    std::vector<memory::BufRef> taken;
    for (const std::size_t size : {std::size_t{kMiB}, std::size_t{64 * kKiB}, std::size_t{4096}}) {
        for (auto buffer = net.pool.acquire(size); buffer.has_value();
             buffer = net.pool.acquire(size)) {
            taken.push_back(std::move(*buffer));
        }
    }
    return taken;
}

// Who has no login holds what the pool gives and a bounded rest: whose bytes exceed it is closed.
TEST(Connection, AnonymousBytesOutsideThePoolAreBounded) {
    constexpr std::size_t kPart = 444;  // of a body, behind its header
    constexpr std::size_t kMost = 10 * kPart;
    NetWorld net(25, {.anonymous_heap_bytes_max = kMost}, 4 * kMiB);
    const auto heap_bytes = [&net] { return net.set.counters().anonymous_heap_bytes.load(); };
    std::vector<memory::BufRef> taken = take_pool(net);
    net.sink.authenticated = false;
    const Bytes bytes = frame(1000, 1);
    std::vector<SocketHandle> sockets;
    for (int i = 0; i < 30; ++i) {
        sockets.push_back(net.connect());
        ASSERT_TRUE(net.send(sockets.back(), ConstBytes(bytes).first(wire::kHeaderSize + kPart)));
    }
    net.world.run_for(kSecond);
    const std::size_t open = net.set.open_count();
    EXPECT_GE(open, 10u);
    EXPECT_EQ(open + net.set.counters().timeouts.load(), 30u);
    EXPECT_GE(net.set.counters().timeouts.load(), 10u);
    EXPECT_LE(heap_bytes(), kMost);
    EXPECT_GT(heap_bytes(), kMost - kPart);
    // Those who have logged in are known, and one chunk each is their bound.
    net.sink.authenticated = true;
    const std::uint64_t before = heap_bytes();
    sockets.push_back(net.connect());
    ASSERT_TRUE(net.send(sockets.back(), ConstBytes(bytes).first(wire::kHeaderSize + kPart)));
    net.world.run_for(kSecond);
    EXPECT_EQ(net.set.open_count(), open + 1);
    EXPECT_EQ(heap_bytes(), before);
    taken.clear();
    std::size_t answered = 0;
    for (const SocketHandle socket : sockets) {
        const bool sent = net.send(socket, ConstBytes(bytes).subspan(wire::kHeaderSize + kPart));
        answered += sent && net.expect_reply(socket, 1000, 1) ? 1U : 0U;
    }
    EXPECT_EQ(answered, open + 1);
    EXPECT_EQ(heap_bytes(), 0u);
    for (const SocketHandle socket : sockets) {
        net.client.io->close_socket(socket);
    }
}

// What lies behind a frame counts, too.
TEST(Connection, AnonymousFramesThatAreSentAheadAreBounded) {
    NetWorld net(26, {.anonymous_heap_bytes_max = wire::kHeaderSize}, 4 * kMiB);
    const auto heap_bytes = [&net] { return net.set.counters().anonymous_heap_bytes.load(); };
    const std::vector<memory::BufRef> taken = take_pool(net);
    net.sink.authenticated = false;
    net.sink.delay_ns = 100 * kMillisecond;
    Bytes frames;
    for (std::uint64_t number = 1; number <= 20; ++number) {
        append_frame(frames, 0, number);
    }
    const SocketHandle modest = net.connect();
    ASSERT_TRUE(net.send(modest, ConstBytes(frames).first(2 * wire::kHeaderSize)));
    EXPECT_TRUE(net.expect_reply(modest, 0, 1));
    EXPECT_TRUE(net.expect_reply(modest, 0, 2));
    EXPECT_EQ(heap_bytes(), 0u);
    const SocketHandle greedy = net.connect();
    ASSERT_TRUE(net.send(greedy, frames));
    net.world.run_for(5 * kSecond);
    EXPECT_EQ(net.set.open_count(), 1u);
    EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
    EXPECT_LT(net.set.counters().frames_in.load(), 20u);
    EXPECT_EQ(heap_bytes(), 0u);
    for (const SocketHandle socket : {modest, greedy}) {
        net.client.io->close_socket(socket);
    }
}

TEST(Connection, WaitForMemoryHoldsNoChunk) {
    NetWorld net(23, {}, 4 * kMiB);
    std::vector<memory::BufRef> taken = take_pool(net);
    // More peers than chunks, each with a part of its body behind the header.
    const Bytes bytes = frame(1000, 1);
    std::vector<SocketHandle> sockets;
    for (int i = 0; i < 100; ++i) {
        sockets.push_back(net.connect());
        ASSERT_TRUE(net.send(sockets.back(), ConstBytes(bytes).first(700)));
    }
    net.world.run_for(kSecond);
    EXPECT_EQ(net.set.counters().memory_waits.load(), 100u);
    EXPECT_EQ(net.server.io->free_chunk_count(), 64u) << "a wait for memory holds a chunk";
    // What needs no buffer goes on, and the wait for its handler holds no chunk either.
    const SocketHandle other = net.connect();
    net.sink.delay_ns = 100 * kMillisecond;
    Bytes small = frame(0, 2);
    append_frame(small, 0, 3);
    ASSERT_TRUE(net.send(other, small));
    net.world.run_for(50 * kMillisecond);
    EXPECT_EQ(net.server.io->free_chunk_count(), 64u) << "a waiting handler holds a chunk";
    EXPECT_TRUE(net.expect_reply(other, 0, 2));
    EXPECT_TRUE(net.expect_reply(other, 0, 3));
    // With memory again, nothing of what was put aside is lost.
    taken.clear();
    for (const SocketHandle socket : sockets) {
        ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(700)));
    }
    for (const SocketHandle socket : sockets) {
        ASSERT_TRUE(net.expect_reply(socket, 1000, 1));
    }
    sockets.push_back(other);
    for (const SocketHandle socket : sockets) {
        net.client.io->close_socket(socket);
    }
}

TEST(Connection, StartedFrameTimesOutWithoutChunksToo) {
    NetWorld net(24);
    net.sink.authenticated = false;
    const SocketHandle socket = net.connect();
    const Bytes bytes = frame(1000, 1);
    ASSERT_TRUE(net.send(socket, ConstBytes(bytes).first(100)));
    net.world.run_for(kMillisecond);
    net.take_chunks();
    ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(100, 100)));
    net.world.run_for(9 * kSecond);
    EXPECT_EQ(net.set.open_count(), 1u);
    net.world.run_for(2 * kSecond);
    EXPECT_EQ(net.set.open_count(), 0u);
    EXPECT_EQ(net.set.counters().timeouts.load(), 1u);
    net.return_chunks();
    net.close(socket);
}

class RandomSegments : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomSegments, EveryFrameArrivesWhole) {
    NetWorld net(GetParam());
    runtime_sim::SimRandom random(GetParam() * 77 + 1);
    net.sink.authenticated = random.percent(70);
    net.sink.delay_ns = random.percent(50) ? random.below(300'000) : 0;
    net.world.network().options().segment_bytes_max = random.between(1, 9000);
    const SocketHandle socket = net.connect();
    Bytes bytes;
    std::vector<std::size_t> sizes;
    for (std::uint64_t i = 0; i < 12; ++i) {
        const std::size_t size_max = net.sink.authenticated && random.percent(30) ? 60'000 : 2000;
        sizes.push_back(random.below(size_max));
        append_frame(bytes, sizes.back(), i + 1);
    }
    // Send in pieces, reading a reply as soon as its request is out, so that nobody blocks for
    // ever.
    std::size_t sent = 0;
    std::size_t complete = 0;
    std::size_t next_end = wire::kHeaderSize + sizes[0];
    while (sent < bytes.size()) {
        const std::size_t count =
            std::min<std::size_t>(random.between(1, 5000), bytes.size() - sent);
        ASSERT_TRUE(net.send(socket, ConstBytes(bytes).subspan(sent, count)));
        sent += count;
        while (complete < sizes.size() && sent >= next_end) {
            ASSERT_TRUE(net.expect_reply(socket, sizes[complete], complete + 1));
            ++complete;
            next_end += complete < sizes.size() ? wire::kHeaderSize + sizes[complete] : 0;
        }
    }
    EXPECT_EQ(complete, sizes.size());
    net.close(socket);
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSegments, ::testing::Range<std::uint64_t>(1, 60));

}  // namespace
}  // namespace galgo::net

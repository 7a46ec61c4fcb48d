// Fuzzes a client connection with any bytes, on the simulated network. The first byte is the seed
// of the world (how the stream is cut) and says whether the peer is logged in. Laws: nothing
// crashes or hangs; a frame's body has the size that its header says; at the end no buffer, chunk
// or connection is left.
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "memory/buffer_pool.hpp"
#include "net/connection_set.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"

namespace galgo::net {
namespace {

using coro::Task;
using runtime::SocketHandle;

class CheckingSink final : public ConnectionSink {
 public:
    explicit CheckingSink(bool authenticated) : authenticated_(authenticated) {}
    std::unique_ptr<ConnectionContext> on_opened(const ConnectionFacts&) override {
        auto context = std::make_unique<ConnectionContext>();
        context->authenticated = authenticated_;
        return context;
    }
    Task<void> on_frame(ConnectionContext&, Frame frame, Reply& reply) override {
        GALGO_CHECK(frame.body.size() == frame.header.body_size());
        GALGO_CHECK(frame.header.client.value() != 0);
        reply.start_frame(frame.header);
        if (frame.body) {
            reply.slices.push_back(std::move(frame.body));
        }
        co_return;
    }
    Task<void> on_closed(ConnectionContext&) override { co_return; }

 private:
    bool authenticated_;
};

Task<std::int32_t> connect(runtime::IoBackend& io, runtime::SocketAddress address) {
    const std::int32_t result =
        co_await runtime::io_await([&](runtime::IoOp& op) { io.connect(op, address); });
    co_return result;
}
Task<std::int32_t> accept(runtime::IoBackend& io, SocketHandle listener) {
    const std::int32_t result =
        co_await runtime::io_await([&](runtime::IoOp& op) { io.accept(op, listener); });
    co_return result;
}
Task<std::int32_t> send(runtime::IoBackend& io, SocketHandle socket, ConstBytes bytes) {
    const std::array<iovec, 1> parts{
        iovec{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()}};
    const std::int32_t result =
        co_await runtime::io_await([&](runtime::IoOp& op) { io.send(op, socket, parts); });
    co_return result;
}

void run(std::uint8_t seed, ConstBytes bytes) {
    runtime_sim::TestWorld world(std::uint64_t{seed} + 1);
    runtime_sim::Node& server = world.add_node();
    runtime_sim::Node& client = world.add_node();
    // One for all runs: making one reserves address space.
    static memory::BufferPool pool({.budget_bytes = 4 * kMiB});
    CheckingSink sink((seed & 1U) != 0);
    // Small, so that small inputs reach the direct path too.
    ConnectionSet set(*server.loop, pool, sink, {.direct_body_bytes = 512});
    const SocketHandle listener = *server.io->listen({.ip = server.ip, .port = 1});
    const std::int32_t near = world.run(client, connect(*client.io, {.ip = server.ip, .port = 1}));
    const std::int32_t far = world.run(server, accept(*server.io, listener));
    GALGO_CHECK(near >= 0 && far >= 0);
    GALGO_CHECK(set.adopt(SocketHandle{far}, {}));
    if (!bytes.empty()) {
        (void)world.run(client, send(*client.io, SocketHandle{near}, bytes));
    }
    world.run_for(10 * kMillisecond);
    if ((seed & 2U) != 0) {
        client.io->close_socket(SocketHandle{near});
        world.run_for(60 * kSecond);
        GALGO_CHECK(set.open_count() == 0);
    }
    world.run(server, set.stop());
    GALGO_CHECK(set.open_count() == 0);
    GALGO_CHECK(pool.stats().in_use_bytes == 0);
    GALGO_CHECK(server.io->free_chunk_count() == 64);
}

}  // namespace
}  // namespace galgo::net

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size != 0 && size < 32 * 1024) {
        galgo::net::run(
            data[0], galgo::ConstBytes(reinterpret_cast<const std::byte*>(data), size).subspan(1));
    }
    return 0;
}

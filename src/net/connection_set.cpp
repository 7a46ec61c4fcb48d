#include "net/connection_set.hpp"

#include <utility>

namespace galgo::net {

using coro::Anchor;
using coro::Task;

ConnectionSet::ConnectionSet(runtime::Loop& loop, memory::BufferPool& pool, ConnectionSink& sink,
                             ConnectionOptions options)
    : loop_(loop), pool_(pool), sink_(sink), options_(options), scope_(loop.ready()) {}

bool ConnectionSet::adopt(runtime::SocketHandle socket, ConnectionFacts facts) {
    if (scope_.closed() || open_count_ >= options_.connections_max) {
        ConnectionCounters::add(counters_.refused);
        loop_.io().close_socket(socket);
        return false;
    }
    ConnectionCounters::add(counters_.accepted);
    scope_.spawn(&ConnectionSet::serve, Anchor<ConnectionSet>(*this), socket, std::move(facts));
    return true;
}

Task<void> ConnectionSet::serve(Anchor<ConnectionSet> set, runtime::SocketHandle socket,
                                ConnectionFacts facts) {
    Connection connection({.loop = set->loop_,
                           .pool = set->pool_,
                           .sink = set->sink_,
                           .options = set->options_,
                           .counters = set->counters_},
                          socket, std::move(facts));
    set->connections_.push_back(connection);
    set->count_open(set->open_count_ + 1);
    co_await connection.run();
    connection.unlink();
    set->count_open(set->open_count_ - 1);
}

bool ConnectionSet::interrupt(model::ConnectionId connection) noexcept {
    bool found = false;
    connections_.for_each([&](Connection& candidate) {
        if (candidate.id() == connection) {
            candidate.interrupt();
            found = true;
        }
    });
    return found;
}

Task<void> ConnectionSet::stop() {
    connections_.for_each([](Connection& connection) { connection.interrupt(); });
    co_await scope_.close();
}

void ConnectionSet::count_open(std::size_t count) noexcept {
    open_count_ = count;
    counters_.open.store(count, std::memory_order_relaxed);
}

}  // namespace galgo::net

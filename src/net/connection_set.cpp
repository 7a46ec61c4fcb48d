#include "net/connection_set.hpp"

#include <utility>

namespace galgo::net {

using coro::Anchor;
using coro::Task;

ConnectionSet::ConnectionSet(runtime::Loop& loop, memory::BufferPool& pool, ConnectionSink& sink,
                             ConnectionOptions options)
    : loop_(loop), pool_(pool), sink_(sink), options_(options), scope_(loop.ready()) {}

bool ConnectionSet::adopt(runtime::SocketHandle socket, ConnectionFacts facts) {
    const bool is_full = open_count_ >= options_.connections_max;
    if (scope_.closed() || (is_full && !displace_one(facts))) {
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
                           .counters = set->counters_,
                           .silent = set->silent_},
                          socket, std::move(facts));
    set->connections_.push_back(connection);
    set->count_open(set->open_count_ + 1);
    co_await connection.run();
    connection.unlink();
    set->count_open(set->open_count_ - 1);
}

/// One leaves for each that comes while those that leave are still counted, so that without them
/// there are never more than the bound.
bool ConnectionSet::displace_one(const ConnectionFacts& newcomer) {
    const Instant now = loop_.now();
    const bool found =
        !silent_.empty() && silent_.front().since.plus(options_.silent_ns_min) <= now;
    if (!found) {
        return false;
    }
    const auto& oldest = static_cast<Connection::Silence&>(silent_.pop_front());
    ConnectionCounters::add(counters_.displaced);
    if (log_limit_.allow(now)) {
        observe::log_warn("net", "too many connections: closed one that never logged in",
                          {{"peer", oldest.connection.peer()},
                           {"silent_s", (now.value() - oldest.since.value()) / kSecond},
                           {"newcomer", newcomer.peer},
                           {"open", open_count_},
                           {"displaced", counters_.displaced.load(std::memory_order_relaxed)}});
    }
    oldest.connection.interrupt();
    return true;
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

// SimNetwork: opening, streams, faults, and what arrives when. See the header for the model.
#include "runtime_sim/sim_network.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace galgo::runtime_sim {

using runtime::SocketAddress;
using runtime::SocketHandle;

SimNetwork::SimNetwork(std::uint64_t seed, SimClock& clock, NetworkOptions options)
    : random_(seed), clock_(clock), options_(options) {
    clock_.add(*this);
}

SimNetwork::~SimNetwork() {
    clock_.remove(*this);
}

void SimNetwork::remove_user(SocketUser& user) {
    std::erase(users_, &user);
    for (auto& [id, socket] : sockets_) {
        std::erase_if(socket.waiters, [&](const Waiter& waiter) { return waiter.user == &user; });
    }
}

void SimNetwork::wake(std::uint32_t process, ShardIndex shard) {
    for (SocketUser* user : users_) {
        if (user->process() == process && user->shard() == shard) {
            user->wake_up();
        }
    }
}

// ---- opening
// -----------------------------------------------------------------------------------------

Result<SocketHandle> SimNetwork::listen(std::uint32_t process, const SocketAddress& address) {
    if (address.ip.empty()) {
        return fail_os(EINVAL);
    }
    SocketAddress bound = address;
    if (bound.port == 0) {
        bound.port = free_port();
    }
    const bool any = bound.ip == "0.0.0.0" || bound.ip == "::";
    for (const auto& [id, socket] : sockets_) {
        const bool other_any = socket.local.ip == "0.0.0.0" || socket.local.ip == "::";
        if (socket.listening && socket.local.port == bound.port &&
            (any || other_any || socket.local.ip == bound.ip)) {
            return fail_os(EADDRINUSE);
        }
    }
    const Id id = next_id_++;
    Socket& socket = sockets_[id];
    socket.process = process;
    socket.local = bound;
    socket.listening = true;
    return SocketHandle{id};
}

std::int32_t SimNetwork::try_accept(SocketHandle listener) {
    Socket* socket = find(listener);
    if (socket == nullptr) {
        return -ECANCELED;
    }
    if (!socket->listening || socket->shut) {
        return -EINVAL;
    }
    if (socket->backlog.empty()) {
        return kWouldBlock;
    }
    const Id id = socket->backlog.front();
    socket->backlog.pop_front();
    if (!socket->backlog.empty()) {
        notify(*socket);
    }
    return id;
}

std::int32_t SimNetwork::connect(std::uint32_t process, const std::string& from_ip,
                                 const SocketAddress& address) {
    if (is_blocked(from_ip, address.ip)) {
        return -ETIMEDOUT;
    }
    Socket* listener = find_listener(address);
    if (listener == nullptr || listener->shut || listener->backlog.size() >= options_.backlog_max) {
        return -ECONNREFUSED;
    }
    const Id client_id = next_id_++;
    const Id server_id = next_id_++;
    const SocketAddress client_address{.ip = from_ip, .port = free_port()};
    Socket& client = sockets_[client_id];
    client.process = process;
    client.local = client_address;
    client.peer_address = address;
    client.peer = server_id;
    Socket& server = sockets_[server_id];
    server.process = listener->process;
    server.local = address;
    server.peer_address = client_address;
    server.peer = client_id;
    listener->backlog.push_back(server_id);
    notify(*listener);
    return client_id;
}

// ---- streams
// -----------------------------------------------------------------------------------------

std::int32_t SimNetwork::try_receive(SocketHandle handle, MutableBytes into) {
    Socket* socket = find(handle);
    if (socket == nullptr) {
        return -ECANCELED;
    }
    if (socket->peer < 0) {
        return -ENOTCONN;
    }
    if (socket->shut) {
        return 0;
    }
    if (socket->arrived.empty()) {
        return socket->reset ? -ECONNRESET : socket->ended ? 0 : kWouldBlock;
    }
    if (into.empty()) {
        return -EINVAL;
    }
    std::size_t count = std::min(into.size(), socket->arrived.size());
    if (random_.percent(20)) {
        count = random_.between(1, count);
    }
    const auto end = socket->arrived.begin() + static_cast<std::ptrdiff_t>(count);
    std::copy(socket->arrived.begin(), end, into.begin());
    socket->arrived.erase(socket->arrived.begin(), end);
    if (Socket* sender = find(socket->peer); sender != nullptr) {
        notify(*sender);  // there is room again
    }
    return static_cast<std::int32_t>(count);
}

std::int32_t SimNetwork::try_send(SocketHandle handle, std::span<const iovec> parts,
                                  std::size_t skip, std::uint64_t operation) {
    Socket* socket = find(handle);
    if (socket == nullptr) {
        return -ECANCELED;
    }
    if (socket->peer < 0) {
        return -ENOTCONN;
    }
    if (socket->reset) {
        return -ECONNRESET;
    }
    if (socket->shut) {
        return -EPIPE;
    }
    if (socket->sending_operation != 0 && socket->sending_operation != operation) {
        return kWouldBlock;
    }
    socket->sending_operation = operation;
    Socket* peer = find(socket->peer);
    const std::size_t buffered =
        peer == nullptr ? 0 : peer->arrived.size() + peer->on_the_way_bytes;
    if (buffered >= options_.socket_buffer_bytes) {
        return kWouldBlock;
    }
    if (options_.reset_per_million != 0 && random_.below(1'000'000) < options_.reset_per_million) {
        reset_connection(handle);
        return -ECONNRESET;
    }
    const std::size_t room = options_.socket_buffer_bytes - buffered;
    const std::size_t limit = random_.between(1, std::min(room, options_.segment_bytes_max));
    std::vector<std::byte> segment;
    for (const iovec& part : parts) {
        if (skip >= part.iov_len) {
            skip -= part.iov_len;
            continue;
        }
        const auto* data = static_cast<const std::byte*>(part.iov_base) + skip;
        const std::size_t count = std::min(part.iov_len - skip, limit - segment.size());
        segment.insert(segment.end(), data, data + count);
        skip = 0;
        if (segment.size() == limit) {
            break;
        }
    }
    const std::size_t count = segment.size();
    schedule(socket->peer, handle.value(), ArrivalKind::kData, std::move(segment));
    return static_cast<std::int32_t>(count);
}

void SimNetwork::end_send(SocketHandle handle, std::uint64_t operation) {
    Socket* socket = find(handle);
    if (socket != nullptr && socket->sending_operation == operation) {
        socket->sending_operation = 0;
        notify(*socket);
    }
}

void SimNetwork::shutdown(SocketHandle handle) {
    Socket* socket = find(handle);
    if (socket == nullptr || socket->shut) {
        return;
    }
    socket->shut = true;
    socket->arrived.clear();
    if (socket->peer >= 0) {
        schedule(socket->peer, handle.value(), ArrivalKind::kEnd, {});
        if (Socket* peer = find(socket->peer); peer != nullptr) {
            notify(*peer);
        }
    }
    notify(*socket);
}

void SimNetwork::close(SocketHandle handle) {
    close_by_id(handle.value(), false);
}

void SimNetwork::close_by_id(Id id, bool abort) {
    auto node = sockets_.extract(id);
    if (node.empty()) {
        return;
    }
    Socket& socket = node.mapped();
    notify(socket);  // they find it gone
    for (const Id waiting : socket.backlog) {
        close_by_id(waiting, true);
    }
    if (Socket* peer = find(socket.peer); peer != nullptr) {
        abort = abort || !socket.arrived.empty();
        if (abort || !socket.shut) {
            schedule(socket.peer, id, abort ? ArrivalKind::kReset : ArrivalKind::kEnd, {});
        }
        notify(*peer);
    }
}

SocketAddress SimNetwork::local_address(SocketHandle handle) const {
    const Socket* socket = find(handle);
    return socket == nullptr ? SocketAddress{} : socket->local;
}

SocketAddress SimNetwork::peer_address(SocketHandle handle) const {
    const Socket* socket = find(handle);
    return socket == nullptr ? SocketAddress{} : socket->peer_address;
}

bool SimNetwork::is_open(SocketHandle handle) const {
    return find(handle) != nullptr;
}

void SimNetwork::wait(SocketHandle handle, SocketUser& user, std::uint64_t operation) {
    if (Socket* socket = find(handle); socket != nullptr) {
        socket->waiters.push_back({.user = &user, .operation = operation});
    }
}

// ---- faults
// ------------------------------------------------------------------------------------------

void SimNetwork::reset_connection(SocketHandle handle) {
    Socket* socket = find(handle);
    if (socket == nullptr || socket->peer < 0) {
        return;
    }
    socket->reset = true;
    notify(*socket);
    if (Socket* peer = find(socket->peer); peer != nullptr) {
        peer->reset = true;
        notify(*peer);
    }
}

void SimNetwork::set_blocked(const std::string& ip_a, const std::string& ip_b, bool blocked) {
    const auto link = std::minmax(ip_a, ip_b);
    if (blocked) {
        blocked_.insert({link.first, link.second});
        return;
    }
    blocked_.erase({link.first, link.second});
    // They keep their times, which are past, and so their order before all that was sent later.
    for (auto it = held_.begin(); it != held_.end();) {
        if (is_blocked(it->second.from_ip, it->second.to_ip)) {
            ++it;
        } else {
            arrivals_.insert(held_.extract(it++));
        }
    }
}

void SimNetwork::kill_process(std::uint32_t process) {
    std::vector<Id> doomed;
    for (const auto& [id, socket] : sockets_) {
        if (socket.process == process) {
            doomed.push_back(id);
        }
    }
    for (const Id id : doomed) {
        close_by_id(id, false);
    }
}

// ---- time
// --------------------------------------------------------------------------------------------

Instant SimNetwork::next_event() const {
    return arrivals_.empty() ? kNever : arrivals_.begin()->first.first;
}

std::uint64_t SimNetwork::draw_latency() {
    return std::max<std::uint64_t>(
        1, random_.between(options_.latency_min_ns, options_.latency_max_ns));
}

void SimNetwork::run_due() {
    while (!arrivals_.empty() && arrivals_.begin()->first.first <= clock_.now()) {
        auto node = arrivals_.extract(arrivals_.begin());
        if (is_blocked(node.mapped().from_ip, node.mapped().to_ip)) {
            held_.insert(std::move(node));
        } else {
            deliver(std::move(node.mapped()));
        }
    }
}

void SimNetwork::schedule(Id to, Id from, ArrivalKind kind, std::vector<std::byte> bytes) {
    Instant time = clock_.now().plus(draw_latency());
    Arrival arrival{.kind = kind, .to = to, .from = from, .bytes = std::move(bytes)};
    if (Socket* socket = find(to); socket != nullptr) {
        time = std::max(time, socket->last_arrival);  // a stream stays in order
        socket->last_arrival = time;
        socket->on_the_way_bytes += arrival.bytes.size();
        arrival.from_ip = socket->peer_address.ip;
        arrival.to_ip = socket->local.ip;
    }
    arrivals_.emplace(std::pair{time, arrival_sequence_++}, std::move(arrival));
}

void SimNetwork::deliver(Arrival arrival) {
    Socket* socket = find(arrival.to);
    if (socket == nullptr) {
        if (arrival.kind == ArrivalKind::kData && find(arrival.from) != nullptr) {
            schedule(arrival.from, arrival.to, ArrivalKind::kReset, {});
        }
        return;
    }
    socket->on_the_way_bytes -= arrival.bytes.size();
    switch (arrival.kind) {
        case ArrivalKind::kData:
            if (!socket->reset && !socket->shut) {
                socket->arrived.insert(socket->arrived.end(), arrival.bytes.begin(),
                                       arrival.bytes.end());
            } else if (Socket* sender = find(arrival.from); sender != nullptr) {
                notify(*sender);  // thrown away, so there is room
            }
            break;
        case ArrivalKind::kEnd:
            socket->ended = true;
            break;
        case ArrivalKind::kReset:
            socket->reset = true;
            break;
    }
    notify(*socket);
}

// ---- look-up
// -----------------------------------------------------------------------------------------

SimNetwork::Socket* SimNetwork::find(Id id) {
    const auto it = sockets_.find(id);
    return it == sockets_.end() ? nullptr : &it->second;
}
SimNetwork::Socket* SimNetwork::find(SocketHandle socket) {
    return find(socket.value());
}
const SimNetwork::Socket* SimNetwork::find(SocketHandle socket) const {
    const auto it = sockets_.find(socket.value());
    return it == sockets_.end() ? nullptr : &it->second;
}

void SimNetwork::notify(Socket& socket) {
    for (const Waiter& waiter : std::exchange(socket.waiters, {})) {
        waiter.user->retry(waiter.operation);
    }
}

bool SimNetwork::is_blocked(const std::string& ip_a, const std::string& ip_b) const {
    const auto link = std::minmax(ip_a, ip_b);
    return !blocked_.empty() && blocked_.contains({link.first, link.second});
}

std::uint16_t SimNetwork::free_port() {
    next_port_ =
        next_port_ == 65535 ? std::uint16_t{40000} : static_cast<std::uint16_t>(next_port_ + 1);
    return next_port_;
}

SimNetwork::Socket* SimNetwork::find_listener(const SocketAddress& address) {
    for (auto& [id, socket] : sockets_) {
        if (socket.listening && socket.local.port == address.port &&
            (socket.local.ip == address.ip || socket.local.ip == "0.0.0.0" ||
             socket.local.ip == "::")) {
            return &socket;
        }
    }
    return nullptr;
}

}  // namespace galgo::runtime_sim

// SimNetwork: byte streams between the backends of one world. Socket numbers are one space for all
// of them, as descriptors are within a process, so a socket accepted by one shard may be used by
// another.
//
// A send is cut into segments of seeded sizes; each arrives after a seeded latency, in order. What
// was sent and not yet read is bounded by the receiver's buffer: then a send waits (back-pressure).
// A peer that closed with unread bytes resets the connection, and so does data that arrives at a
// closed socket. What had arrived before a reset can still be read.
//
// The calls here try once and answer kWouldBlock; SimBackend waits and tries again when told.
// Errors are -errno. Single thread.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/units.hpp"
#include "runtime/io.hpp"
#include "runtime_sim/sim_clock.hpp"
#include "runtime_sim/sim_random.hpp"

namespace galgo::runtime_sim {

inline constexpr std::int32_t kWouldBlock = -EAGAIN;

struct NetworkOptions {
    std::uint64_t latency_min_ns = 10 * kMicrosecond;
    std::uint64_t latency_max_ns = 300 * kMicrosecond;
    std::size_t socket_buffer_bytes = 64 * kKiB;  ///< sent and not yet read, each direction
    std::size_t segment_bytes_max = 16 * kKiB;
    std::size_t backlog_max = 128;
    std::uint32_t reset_per_million = 0;  ///< of the segments sent: the connection breaks instead
};

/// What the network tells a backend.
class SocketUser {
 public:
    virtual ~SocketUser() = default;
    /// The operation that waited may get on now, or may not.
    virtual void retry(std::uint64_t operation) = 0;
    virtual void wake_up() = 0;
    /// Processes share nothing but the network; shards of a process can wake each other.
    [[nodiscard]] virtual std::uint32_t process() const = 0;
    [[nodiscard]] virtual ShardIndex shard() const = 0;
};

class SimNetwork final : public SimClock::Participant {
 public:
    SimNetwork(std::uint64_t seed, SimClock& clock, NetworkOptions options = {});
    SimNetwork(const SimNetwork&) = delete;
    SimNetwork& operator=(const SimNetwork&) = delete;
    ~SimNetwork() override;

    // ---- for tests
    // -----------------------------------------------------------------------------------
    [[nodiscard]] NetworkOptions& options() noexcept { return options_; }
    /// Both ends see ECONNRESET after what has arrived.
    void reset_connection(runtime::SocketHandle socket);
    /// Cuts or heals the way between two addresses: nothing arrives, connecting times out.
    void set_blocked(const std::string& ip_a, const std::string& ip_b, bool blocked);
    /// What the operating system does when a process dies: closes its sockets, peers are reset.
    void kill_process(std::uint32_t process);
    [[nodiscard]] std::size_t socket_count() const noexcept { return sockets_.size(); }

    // ---- for SimBackend
    // ------------------------------------------------------------------------------
    void add_user(SocketUser& user) { users_.push_back(&user); }
    void remove_user(SocketUser& user);
    void wake(std::uint32_t process, ShardIndex shard);

    [[nodiscard]] Result<runtime::SocketHandle> listen(std::uint32_t process,
                                                       const runtime::SocketAddress& address);
    [[nodiscard]] std::int32_t try_accept(runtime::SocketHandle listener);
    [[nodiscard]] std::int32_t connect(std::uint32_t process, const std::string& from_ip,
                                       const runtime::SocketAddress& address);
    [[nodiscard]] std::int32_t try_receive(runtime::SocketHandle socket, MutableBytes into);
    /// Takes what fits of the parts behind `skip` bytes; > 0, kWouldBlock or -errno. Sends of one
    /// socket go one after the other: `operation` holds the line from its first byte to end_send.
    [[nodiscard]] std::int32_t try_send(runtime::SocketHandle socket, std::span<const iovec> parts,
                                        std::size_t skip, std::uint64_t operation);
    void end_send(runtime::SocketHandle socket, std::uint64_t operation);
    void shutdown(runtime::SocketHandle socket);
    void close(runtime::SocketHandle socket);
    [[nodiscard]] bool is_open(runtime::SocketHandle socket) const;
    [[nodiscard]] runtime::SocketAddress local_address(runtime::SocketHandle socket) const;
    [[nodiscard]] runtime::SocketAddress peer_address(runtime::SocketHandle socket) const;
    /// user.retry(operation) at the next change of the socket, once.
    void wait(runtime::SocketHandle socket, SocketUser& user, std::uint64_t operation);
    /// Delivers what has arrived by now.
    void run_due();
    [[nodiscard]] std::uint64_t draw_latency();

    [[nodiscard]] Instant next_event() const override;
    [[nodiscard]] Instant sleeps_until() const override { return kNever; }

 private:
    using Id = std::int32_t;
    enum class ArrivalKind : std::uint8_t { kData, kEnd, kReset };
    struct Arrival {
        ArrivalKind kind;
        Id to;
        Id from;
        std::vector<std::byte> bytes{};
        std::string from_ip{};
        std::string to_ip{};
    };
    struct Waiter {
        SocketUser* user;
        std::uint64_t operation;
    };
    struct Socket {
        std::uint32_t process = 0;
        runtime::SocketAddress local;
        runtime::SocketAddress peer_address;
        bool listening = false;
        std::deque<Id> backlog;
        Id peer = -1;
        std::deque<std::byte> arrived;
        std::size_t on_the_way_bytes = 0;  ///< sent to this socket, not arrived
        Instant last_arrival{};            ///< of what is on the way to this socket
        bool ended = false;                ///< the peer sends no more
        bool reset = false;
        bool shut = false;
        std::uint64_t sending_operation = 0;
        std::vector<Waiter> waiters;
    };

    [[nodiscard]] Socket* find(runtime::SocketHandle socket);
    [[nodiscard]] const Socket* find(runtime::SocketHandle socket) const;
    [[nodiscard]] Socket* find(Id id);
    void notify(Socket& socket);
    void schedule(Id to, Id from, ArrivalKind kind, std::vector<std::byte> bytes);
    void deliver(Arrival arrival);
    void close_by_id(Id id, bool abort);
    [[nodiscard]] bool is_blocked(const std::string& ip_a, const std::string& ip_b) const;
    [[nodiscard]] std::uint16_t free_port();
    [[nodiscard]] Socket* find_listener(const runtime::SocketAddress& address);

    SimRandom random_;
    SimClock& clock_;
    NetworkOptions options_;
    std::vector<SocketUser*> users_;
    std::map<Id, Socket> sockets_;
    std::map<std::pair<Instant, std::uint64_t>, Arrival> arrivals_;  // by time, then as sent
    std::map<std::pair<Instant, std::uint64_t>, Arrival> held_;      // due, on a blocked way
    std::set<std::pair<std::string, std::string>> blocked_;
    std::uint64_t arrival_sequence_ = 0;
    Id next_id_ = 1000;  // never used again
    std::uint16_t next_port_ = 40000;
};

}  // namespace galgo::runtime_sim

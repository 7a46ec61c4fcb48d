// The network between the simulated nodes, and between clients and nodes. Frames travel as values
// (their byte form is the matter of the cluster module). A corrupted prepare arrives with a bit
// turned in its body or in a field that its identity covers; the seal of the other frames, and of
// what stands around a prepare, is taken for granted. A link keeps its order unless a frame is
// drawn to be reordered, and nothing keeps a frame from coming to a later life of its receiver.
//
// Packets come from a pool; when it is empty, what is sent is lost.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "consensus/frames.hpp"
#include "sim/entry.hpp"
#include "sim/faults.hpp"
#include "sim/schedule.hpp"
#include "sim/swarm.hpp"
#include "sim/workload.hpp"

namespace galgo::sim {

enum class PacketKind : std::uint8_t {
    kAsSent,
    kCorrupted,  ///< one bit of it is another
    kForged,     ///< nobody of the group sent it
};

struct Packet {
    PacketKind kind{};
    consensus::Frame frame{};
    LogEntry entry;  ///< beside a prepare
    std::uint8_t from = 0;
};

class Network {
 public:
    explicit Network(Schedule& schedule);

    void reset(const Swarm& swarm, FaultCounts& faults);
    /// No faults from now on.
    void set_healthy() noexcept;

    void send(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
              const LogEntry* entry);
    /// The packet of an event kFrame; valid until release().
    [[nodiscard]] const Packet& packet(std::uint32_t index) const noexcept {
        return packets_[index];
    }
    void release(std::uint32_t index) { free_.push_back(index); }

    void send_request(const ClientMessage& message, Time delay_min);
    void send_reply(const ClientMessage& message);
    [[nodiscard]] const ClientMessage& message(std::uint32_t index) const noexcept {
        return messages_[index];
    }
    void release_message(std::uint32_t index) { free_messages_.push_back(index); }

    /// Begins or ends a partition: one node is cut off, in both directions or in one.
    void cut();
    void heal_cut() noexcept;
    [[nodiscard]] Random& random() noexcept { return random_; }

 private:
    static constexpr std::uint32_t kPackets = 8192;

    void deliver(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
                 const LogEntry* entry, PacketKind kind);
    void corrupt(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
                 const LogEntry* entry);
    void forge(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
               const LogEntry* entry);
    void put_message(const ClientMessage& message, EventKind kind, Time delay);

    Schedule& schedule_;
    FaultCounts* faults_ = nullptr;
    NetworkOdds odds_;
    ClientOdds client_odds_;
    Random random_;
    std::vector<Packet> packets_;
    std::vector<std::uint32_t> free_;
    std::vector<ClientMessage> messages_;
    std::vector<std::uint32_t> free_messages_;
    std::array<std::array<Time, kNodesMax>, kNodesMax> last_arrival_{};
    std::array<std::array<bool, kNodesMax>, kNodesMax> cut_{};
    std::uint8_t nodes_ = 1;
};

}  // namespace galgo::sim

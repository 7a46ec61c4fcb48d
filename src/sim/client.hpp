// The clients of a run: each logs in, asks for one operation at a time, sends it again when no
// answer comes (often to another node), and now and then repeats an old request, as a client does
// whose connection was slow. What it may believe of the answers is for the checkers to say.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/checkers.hpp"
#include "sim/faults.hpp"
#include "sim/network.hpp"
#include "sim/schedule.hpp"
#include "sim/swarm.hpp"
#include "sim/workload.hpp"

namespace galgo::sim {

class Clients {
 public:
    Clients(const Workload& workload, Schedule& schedule, Network& network, Checkers& checkers);

    void reset(const Swarm& swarm, FaultCounts& faults);
    /// No faults from now on.
    void set_healthy() noexcept;
    /// Nothing new is asked for.
    void stop() noexcept { stopped_ = true; }
    /// Those that stopped ask again.
    void go_on();

    void on_timer(std::uint8_t client, std::uint32_t generation);
    void on_reply(const ClientMessage& reply);

    /// Since the last reset_progress() every client had `times` requests answered.
    [[nodiscard]] bool all_progressed(std::uint64_t times) const noexcept;
    void reset_progress() noexcept;

 private:
    static constexpr std::size_t kOld = 8;

    struct One {
        bool waiting = false;
        std::uint8_t node = 0;  ///< that answered last
        std::uint32_t generation = 0;
        SessionId session;
        RequestNumber last_request;
        ClientMessage pending;
        std::array<ClientMessage, kOld> old{};
        std::size_t old_count = 0;
        std::uint64_t answered = 0;
    };

    void begin_request(One& one, std::uint8_t number);
    void repeat_old(One& one);
    void send(One& one, std::uint8_t node);
    void set_timer(One& one, std::uint8_t number, Time delay);
    void finish(One& one, std::uint8_t number);
    [[nodiscard]] Time think();

    const Workload& workload_;
    Schedule& schedule_;
    Network& network_;
    Checkers& checkers_;
    FaultCounts* faults_ = nullptr;
    ClientOdds odds_;
    Random random_;
    std::array<One, kClientsMax> clients_;
    std::uint8_t count_ = 0;
    std::uint8_t nodes_ = 1;
    bool stopped_ = false;
};

}  // namespace galgo::sim

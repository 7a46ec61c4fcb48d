// One run: a cluster of one or three nodes, its clients and its faults, from one seed.
//
// Three phases. Safety: faults as the swarm has them, for a drawn time. Healing: no more faults,
// everything is started again, and within a bound every client must get answers and all replicas
// must be at the same op; where the core has no way back yet (a replica with an earlier life needs
// repair) and what is left is no quorum, the run ends as unavailable, which is expected. Power: all
// nodes lose power and recover; what was promised must be there.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sim/client.hpp"
#include "sim/node.hpp"

namespace galgo::sim {

enum class Verdict : std::uint8_t {
    kPassed,
    kUnavailable,  ///< expected: no quorum left, or a damaged disk refused
    kLiveness,
    kCorrectness,
};

struct RunOptions {
    Bug bug = Bug::kNone;
    bool log = false;
    std::uint8_t nodes = 0;  ///< 0: as the seed has it
};

struct RunResult {
    Verdict verdict = Verdict::kPassed;
    std::string failure;
    std::uint8_t nodes = 1;
    std::uint64_t ticks = 0;  ///< of all replicas
    std::uint64_t events = 0;
    std::uint64_t committed = 0;
    std::uint64_t acknowledged = 0;
    std::uint64_t trace = 0;
};

class Cluster {
 public:
    explicit Cluster(const Workload& workload);

    /// One run from the beginning. Counters of faults and marks go on from run to run.
    RunResult run(std::uint64_t seed, const RunOptions& options);
    [[nodiscard]] const Context& context() const noexcept { return context_; }
    /// Replica ticks of the run under way; for whoever watches from a crash hook.
    [[nodiscard]] std::uint64_t ticks() const noexcept { return ticks_; }

 private:
    void start(std::uint64_t seed, const RunOptions& options);
    void start_node(std::uint8_t node);
    void phase_safety();
    void phase_healing();
    void phase_power();
    /// One tick of virtual time: the events that are due in it.
    void tick();
    void schedule_tick(std::uint8_t node);
    void tick_node(std::uint8_t node);
    void handle(const Event& event);
    void handle_for_node(const Event& event);
    void log_event(const Event& event) const;
    void schedule_next(EventKind kind, std::uint8_t node, Time mean);
    void crash_by_time(std::uint8_t node);
    void restart_soon(std::uint8_t node);
    void defer(const Event& event);
    void resume(std::uint8_t node);
    void look_after_nodes();
    void mislead_a_backup();

    /// Of the highest view that a running node is in.
    [[nodiscard]] consensus::ReplicaIndex primary() const;
    [[nodiscard]] bool quorum_possible() const;
    [[nodiscard]] bool all_reach_the_end(bool but_starved) const;
    [[nodiscard]] bool starved(std::uint8_t node) const;
    [[nodiscard]] bool excused_by_starving(bool answered) const;
    [[nodiscard]] std::string describe_nodes() const;
    [[nodiscard]] bool ended() const noexcept { return context_.checkers.failed(); }

    Context context_;
    std::vector<std::unique_ptr<Node>> nodes_;
    Clients clients_;
    std::array<std::vector<Event>, kNodesMax> deferred_;  ///< of paused nodes
    std::array<std::int64_t, kNodesMax> departure_{};     ///< of a node's tick number from time
    Random fault_random_;
    std::uint8_t count_ = 1;
    std::uint64_t ticks_ = 0;
    std::uint64_t events_ = 0;
    Verdict verdict_ = Verdict::kPassed;
    std::string stuck_;  ///< kLiveness: how things stood
    bool healthy_ = false;
};

}  // namespace galgo::sim

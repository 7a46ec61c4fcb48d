// All parameters of a run, drawn from its seed. Each kind of fault is off in about half of the
// seeds, and its rate differs by orders of magnitude between the others: a bug that needs a quiet
// disk and a bad network gets its seeds as well as one that needs everything at once.
#pragma once

#include <cstdint>
#include <string>

#include "sim/disk.hpp"
#include "sim/random.hpp"
#include "sim/schedule.hpp"

namespace galgo::sim {

inline constexpr std::uint8_t kNodesMax = 3;
inline constexpr std::uint8_t kClientsMax = 8;

struct NetworkOdds {
    Odds delayed;
    Odds lost;
    Odds doubled;
    Odds reordered;
    Odds corrupted;
    Odds forged;  ///< a prepare of another log follows the frame
    Time latency_min = 50;
    Time latency_max = 1'000;
    Time delayed_max = 1'000'000;
};

struct ClientOdds {
    Odds request_lost;
    Odds request_doubled;
    Odds reply_lost;
    Odds old_request;
    Odds wrong_checksum;  ///< of a repeated old request
    Odds logout;
    Odds any_node;  ///< after a timeout; else the last one that answered
    Time think_min = 1'000;
    Time think_max = 100'000;
    Time timeout = 500'000;
};

struct Swarm {
    std::uint64_t seed = 0;
    std::uint8_t nodes = 1;
    std::uint8_t clients = 1;
    std::uint64_t ticks = 0;           ///< of virtual time, before the healing
    std::uint32_t log_sectors = 1024;  ///< so much log ends the phase with faults
    std::uint32_t sessions_max = 4;
    std::uint32_t reply_bytes_max = 4096;
    std::uint8_t pipeline_max = 32;
    std::uint8_t memory_entries = 127;  ///< committed ops whose bodies a node still has
    bool reset_sessions_at_boot = false;

    DiskOdds disk;
    NetworkOdds network;
    ClientOdds client;

    // Mean times between faults, per run; 0 = never.
    Time crash_mean = 0;
    std::uint64_t crash_boundary_mean = 0;  ///< effects and disk operations between two crashes
    std::uint32_t crashes_max = 0;          ///< of nodes with a part in the cluster
    bool crash_primary = false;
    Odds crash_of_power;
    Odds crash_in_boot;
    Odds disk_lost;  ///< between the death of a node and its next start; three nodes only
    Time restart_max = 1'000'000;
    Time pause_mean = 0;
    Time pause_max = 1'000'000;
    Time jump_mean = 0;
    Time rot_mean = 0;
    Time full_mean = 0;
    Time full_max = 2'000'000;
    Time partition_mean = 0;
    Time partition_max = 5'000'000;
    std::int64_t drift_ppm[kNodesMax] = {};
    std::int64_t offset_us[kNodesMax] = {};

    [[nodiscard]] std::string describe() const;
};

[[nodiscard]] Swarm draw_swarm(std::uint64_t seed);

}  // namespace galgo::sim

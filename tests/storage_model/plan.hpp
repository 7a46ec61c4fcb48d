// What one seed is like: how many partitions, how durable, how small their segments, which faults
// strike and how often. Each kind of trouble is off in a part of the seeds, so that no kind hides
// behind another.
#pragma once

#include <array>
#include <cstdint>

#include "base/units.hpp"
#include "plants.hpp"
#include "runtime_sim/sim_random.hpp"

namespace galgo::log_model {

enum class Operation : std::uint8_t {
    kAppend,
    kBurst,
    kRetry,
    kPoll,
    kStoreOffset,
    kDeleteOffset,
    kFlush,
    kClean,
    kDeleteSegments,
    kPurge,
    kHousekeeping,
    kJump,
    kEndSession,
    kStop,
    kKill,
    kPower,
    kFault,
    kHeal,
};

struct Weight {
    Operation operation;
    const char* name;
    std::uint32_t weight;  ///< in 10 000
};

inline constexpr std::array<Weight, 18> kWeights{{
    {Operation::kAppend, "append", 4000},
    {Operation::kBurst, "burst", 300},
    {Operation::kRetry, "retry", 400},
    {Operation::kPoll, "poll", 3400},
    {Operation::kStoreOffset, "store-offset", 500},
    {Operation::kDeleteOffset, "delete-offset", 80},
    {Operation::kFlush, "flush", 150},
    {Operation::kClean, "clean", 300},
    {Operation::kDeleteSegments, "delete-segments", 120},
    {Operation::kPurge, "purge", 15},
    {Operation::kHousekeeping, "housekeeping", 300},
    {Operation::kJump, "jump", 200},
    {Operation::kEndSession, "end-session", 35},
    {Operation::kStop, "stop", 20},
    {Operation::kKill, "kill", 25},
    {Operation::kPower, "power", 25},
    {Operation::kFault, "fault", 80},
    {Operation::kHeal, "heal", 50},
}};

struct Plan {
    explicit Plan(std::uint64_t seed) : random(seed * 0x9E3779B97F4A7C15ULL ^ 0x5EED) {
        partitions = 1 + random.below(3);
        journal_bytes = random.percent(50) ? 128 * kKiB : 256 * kKiB;
        expiry_us = random.percent(50) ? random.between(1'000'000, 20'000'000) : 0;
        size_max_bytes = random.percent(50) ? random.between(64 * kKiB, 512 * kKiB) : 0;
        held_back_max_ns = random.percent(30) ? random.between(1, 20) * kSecond : 0;
        bulk_permille = random.percent(50) ? 10 : 0;
        error_faults = random.percent(50);
        full_disk = random.percent(35);
        short_writes = random.percent(50);
        boot_faults = random.percent(25);
        crash_permille = random.percent(80) ? 5 : 0;
        power = random.percent(70);
    }

    runtime_sim::SimRandom random;
    std::uint64_t partitions;
    std::uint64_t journal_bytes;
    std::uint64_t expiry_us;
    std::uint64_t size_max_bytes;
    std::uint64_t held_back_max_ns;
    std::uint64_t bulk_permille;
    bool error_faults;
    bool full_disk;
    bool short_writes;
    bool boot_faults;
    std::uint64_t crash_permille;  ///< of the operations are cut off by a crash
    bool power;                    ///< some crashes are losses of power
};

}  // namespace galgo::log_model

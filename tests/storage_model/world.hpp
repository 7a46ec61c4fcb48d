// One shard of a simulated server without its network: pool, journal, partitions and trash on a
// simulated disk, and the part of the metadata log that they need (which life a partition is in).
// It can be stopped, killed and robbed of its power at any disk operation, and started again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/buffer_pool.hpp"
#include "model/ids.hpp"
#include "partitions/partition_table.hpp"
#include "runtime_sim/test_world.hpp"
#include "storage/journal_replay.hpp"
#include "storage/shard_journal.hpp"
#include "storage/trash.hpp"

namespace galgo::log_model {

/// A partition as the world knows it.
struct Place {
    PartitionKey key;
    Incarnation incarnation{1};
    partitions::PartitionOptions options;
    partitions::Counters counters;  ///< last published
};

class World {
 public:
    static constexpr std::uint32_t kConsumerOffsetsMax = 6;

    World(std::uint64_t seed, std::uint64_t journal_bytes, runtime_sim::DiskOptions disk);
    ~World();
    World(const World&) = delete;
    World& operator=(const World&) = delete;

    [[nodiscard]] runtime_sim::SimDisk& disk() noexcept { return *node_.disk; }
    [[nodiscard]] runtime_sim::SimBackend& io() noexcept { return *node_.io; }
    [[nodiscard]] runtime_sim::SimClock& clock() noexcept { return sim_.clock(); }
    [[nodiscard]] memory::BufferPool& pool() noexcept { return pool_; }
    [[nodiscard]] partitions::PartitionTable& table() noexcept { return *table_; }
    [[nodiscard]] coro::ReadyQueue& queue() noexcept { return node_.queue(); }
    [[nodiscard]] std::vector<Place>& places() noexcept { return places_; }
    [[nodiscard]] bool is_up() const noexcept { return table_ != nullptr; }
    [[nodiscard]] bool crashed() const noexcept { return node_.io->crashed(); }
    [[nodiscard]] bool recovered() const noexcept { return recovered_; }

    void add_partition(partitions::PartitionOptions options);

    /// Runs `task(args...)` until it ended (its value) or the process crashed (nothing).
    template <class Fn, class... Args>
    auto run(Fn task, Args&&... args) {
        return sim_.run_until_crash(node_, task(std::forward<Args>(args)...));
    }
    void run_for(std::uint64_t nanoseconds) { sim_.run_for(nanoseconds); }
    /// Until no disk operation is on its way.
    void settle();

    /// A start as the server makes it: journals are read, partitions opened, and the old journals
    /// go when nothing is left in them. An error: the process would have ended. Nothing: it
    /// crashed.
    std::optional<Status> start();
    /// The end of a process that was told to stop. Nothing: it crashed on the way.
    std::optional<Status> stop();
    /// Whatever runs is cut off; then the disk keeps what `kind` leaves.
    void kill(runtime_sim::CrashKind kind, runtime_sim::UnsyncedFate fate);

    coro::Task<Result<partitions::PartitionHandle>> open(std::size_t index);
    /// The life of the partition is over, and its messages with it.
    coro::Task<void> purge(std::size_t index, bool deleted);
    /// What a shard does once a second.
    coro::Task<void> housekeeping();

    [[nodiscard]] std::uint64_t trace_hash() const noexcept {
        return trace_hash_ ^ node_.io->trace_hash();
    }

 private:
    static coro::Task<Status> boot(World& world);
    static coro::Task<Status> shut_down(World& world);
    static coro::Task<void> shut_down_dead(World& world);
    coro::Task<void> finish_recovery();
    [[nodiscard]] std::vector<storage::LedgerRow> living(const storage::LedgerClaims& claims) const;

    runtime_sim::TestWorld sim_;
    runtime_sim::Node& node_;
    memory::BufferPool pool_;
    std::uint64_t journal_bytes_;
    std::vector<Place> places_;
    storage::Trash trash_{"/data/trash"};
    storage::JournalReplay replay_;
    std::unique_ptr<storage::ShardJournal> journal_;
    std::unique_ptr<partitions::PartitionTable> table_;
    storage::BootNumber boot_ = 1;  ///< of the machine: a loss of power begins another one
    bool recovered_ = false;
    bool ended_ = false;  ///< a killed process has let go of everything
    std::uint64_t trace_hash_ = 0;
};

}  // namespace galgo::log_model

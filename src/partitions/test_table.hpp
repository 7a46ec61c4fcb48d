// Partitions of one shard that share its journal, on the simulated disk: for the tests of this
// folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "memory/buffer_pool.hpp"
#include "model/ids.hpp"
#include "partitions/partition_table.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "wire/batch.hpp"

namespace galgo::partitions {

using coro::Task;

inline constexpr Incarnation kLife{1};

inline PartitionKey key_of(std::uint32_t partition) {
    return model::pack_partition_key(model::StreamId{0}, model::TopicId{0},
                                     model::PartitionId{partition});
}

struct TableRig {
    explicit TableRig(std::uint32_t offsets_max = 0)
        : node(world.add_node()),
          pool(memory::PoolOptions{.budget_bytes = 64 * kMiB}),
          consumer_offsets_max(offsets_max) {
        start();
    }
    ~TableRig() { stop(); }
    void start() { EXPECT_TRUE(world.run(node, boot(*this)).has_value()); }
    bool stop() {
        const bool clean = world.run(node, shut_down(*this)).has_value();
        world.kill(node);
        table.reset();
        journal.reset();
        return clean;
    }
    void restart(runtime_sim::CrashKind kind = runtime_sim::CrashKind::kPower) {
        stop();
        world.restart(node, kind, runtime_sim::UnsyncedFate::kLoseAll);
        start();
    }

    /// What is in flight is lost; the disk keeps what `kind` leaves. start() comes next. Idle files
    /// are let go first: a table cannot end while a file of it is open.
    void crash(runtime_sim::CrashKind kind) {
        for (int i = 0; i < 3; ++i) {
            table->rest();
            world.run_for(kSecond);
        }
        for (int i = 0; i < 8; ++i) {
            world.kill(node);
            journal->stop_waiting();
        }
        world.kill(node);
        table.reset();
        journal.reset();
        world.restart(node, kind, runtime_sim::UnsyncedFate::kLoseAll);
    }

    static Task<Status> boot(TableRig& rig) {
        runtime::IoBackend& io = *rig.node.io;
        GALGO_CO_TRY(co_await runtime::make_directories(io, "/data/state"));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, "/data"));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, "/"));
        GALGO_CO_TRY_ASSIGN(rig.replay,
                            co_await storage::replay_journals(io, "/data/state", rig.boot_number));
        rig.journal = std::make_unique<storage::ShardJournal>(
            io, rig.node.queue(),
            storage::JournalOptions{.directory = "/data/state",
                                    .epoch = rig.replay.next_epoch(),
                                    .first_sequence = rig.replay.next_sequence(),
                                    .file_bytes = 128 * kKiB,
                                    .files_max = 4,
                                    .boot = rig.boot_number});
        rig.node.loop->add_turn_end([journal = rig.journal.get()] { journal->end_of_turn(); });
        std::vector<storage::LedgerRow> claims;
        for (auto& [life, row] :
             co_await storage::load_ledgers(io, "/data/state", rig.boot_number)) {
            claims.push_back(row);
        }
        GALGO_CO_TRY(co_await rig.journal->open());
        rig.table = std::make_unique<PartitionTable>(
            *rig.node.loop, rig.pool, *rig.journal,
            TableOptions{.data_path = "/data",
                         .trash = rig.trash,
                         .consumer_offsets_max = rig.consumer_offsets_max,
                         .replay = &rig.replay,
                         .claims = std::move(claims),
                         .boot = rig.boot_number});
        co_return Status{};
    }
    static Task<Status> shut_down(TableRig& rig) {
        const Status closed = co_await rig.table->close_all();
        co_await rig.journal->close();
        co_return closed;
    }
    static Task<Result<Offset>> append(TableRig& rig, std::uint32_t partition, std::size_t bytes) {
        GALGO_CO_TRY_ASSIGN(PartitionHandle handle,
                            co_await rig.table->open(key_of(partition), kLife, rig.options,
                                                     [](const Counters&) {}));
        wire::BatchBuilder builder;
        builder.reset(1);
        const std::vector<std::byte> payload(bytes, std::byte{7});
        builder.add({.id = 1, .timestamp_us = 1, .payload = payload, .user_headers = {}});
        const ConstBytes built = builder.finish();
        memory::BufRef batch = *rig.pool.acquire(built.size());
        std::ranges::copy(built, batch.mutable_bytes().begin());
        Result<Offset> base =
            co_await handle->append({.batch = std::move(batch), .message_count = 1});
        co_return base;
    }
    Result<Offset> append_now(std::uint32_t partition, std::size_t bytes) {
        return world.run(node, append(*this, partition, bytes));
    }
    /// Messages that a poll of "next" brings, with or without a commit.
    static Task<Result<std::uint32_t>> poll_next(TableRig& rig, ConsumerKey consumer,
                                                 bool auto_commit) {
        GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await open(rig, kLife));
        GALGO_CO_TRY_ASSIGN(const PollResult polled,
                            co_await handle->poll({.consumer = consumer,
                                                   .strategy = {.kind = wire::PollingKind::kNext},
                                                   .count = 1,
                                                   .bytes_max = kMiB,
                                                   .auto_commit = auto_commit}));
        co_return polled.read.message_count;
    }
    Result<std::uint32_t> poll_now(ConsumerKey consumer, bool auto_commit = true) {
        return world.run(node, poll_next(*this, consumer, auto_commit));
    }
    /// Of partition 0; no `offset` deletes.
    static Task<Status> set_offset(TableRig& rig, ConsumerKey consumer,
                                   std::optional<Offset> offset) {
        GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await open(rig, kLife));
        if (offset.has_value()) {
            co_return co_await handle->store_offset(consumer, *offset);
        }
        co_return co_await handle->delete_offset(consumer);
    }
    Status set_now(ConsumerKey consumer, std::optional<Offset> offset) {
        return world.run(node, set_offset(*this, consumer, offset));
    }
    /// What partition 0 has stored for the consumer.
    std::optional<Offset> stored(ConsumerKey consumer) {
        const std::optional<PartitionHandle> open = table->find(key_of(0), kLife);
        const Result<std::optional<StoredOffset>> found =
            open.has_value() ? (*open)->stored_offset(consumer) : std::nullopt;
        return found.has_value() && found->has_value() ? std::optional((*found)->stored)
                                                       : std::nullopt;
    }
    static Task<Result<std::uint32_t>> count_of(TableRig& rig, std::uint32_t partition) {
        GALGO_CO_TRY_ASSIGN(PartitionHandle handle,
                            co_await rig.table->open(key_of(partition), kLife, rig.options,
                                                     [](const Counters&) {}));
        GALGO_CO_TRY_ASSIGN(const PollResult polled,
                            co_await handle->poll({.strategy = {.kind = wire::PollingKind::kFirst},
                                                   .count = 1000,
                                                   .bytes_max = 64 * kMiB}));
        co_return polled.read.message_count;
    }

    // ---- stored offsets, of partition 0
    static constexpr ConsumerKey kConsumer{.kind = wire::ConsumerKind::kConsumer, .id = 1};
    static Task<Result<PartitionHandle>> open(TableRig& rig, Incarnation life) {
        Result<PartitionHandle> handle =
            co_await rig.table->open(key_of(0), life, rig.options, [](const Counters&) {});
        co_return handle;
    }
    static Task<Status> store(TableRig& rig, std::uint64_t offset) {
        co_return co_await set_offset(rig, kConsumer, Offset{offset});
    }
    static Task<Status> forget(TableRig& rig) {
        co_return co_await set_offset(rig, kConsumer, std::nullopt);
    }
    /// As a group member or a consumer asks for what comes next.
    static Task<Result<std::uint32_t>> poll_next(TableRig& rig, Incarnation life) {
        GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await open(rig, life));
        GALGO_CO_TRY_ASSIGN(const PollResult polled,
                            co_await handle->poll({.consumer = kConsumer,
                                                   .strategy = {.kind = wire::PollingKind::kNext},
                                                   .count = 1000,
                                                   .bytes_max = 64 * kMiB,
                                                   .auto_commit = true}));
        co_return polled.read.message_count;
    }
    static Task<Result<std::optional<Offset>>> stored(TableRig& rig, Incarnation life) {
        GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await open(rig, life));
        GALGO_CO_TRY_ASSIGN(const std::optional<StoredOffset> found,
                            handle->stored_offset(kConsumer));
        co_return found.has_value() ? std::optional(found->stored) : std::nullopt;
    }
    std::optional<Offset> stored_now(Incarnation life = kLife) {
        const auto found = world.run(node, stored(*this, life));
        EXPECT_TRUE(found.has_value());
        return found.value_or(std::nullopt);
    }
    void checkpoint() { world.run(node, table->checkpoint()); }

    runtime_sim::TestWorld world{1};
    runtime_sim::Node& node;
    memory::BufferPool pool;
    std::uint32_t consumer_offsets_max;
    PartitionOptions options{.segment_size_bytes = 1 * kGiB,
                             .messages_required_to_save = 1'000'000,
                             .size_required_to_save_bytes = 1 * kGiB,
                             .persisted = true,
                             .offsets_persisted = true};
    storage::Trash trash{"/data/trash"};
    storage::JournalReplay replay;
    storage::BootNumber boot_number = 0;  ///< of the machine: 0 keeps no ledger
    std::unique_ptr<storage::ShardJournal> journal;
    std::unique_ptr<PartitionTable> table;
};

}  // namespace galgo::partitions

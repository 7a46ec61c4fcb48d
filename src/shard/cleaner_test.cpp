// Retention of a shard's partitions by the rules that their topics have at that moment.
#include "shard/cleaner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "memory/buffer_pool.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "shard/partition_owner.hpp"
#include "wire/batch.hpp"
#include "wire/options.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {
namespace {

using coro::Task;
using wire::Identifier;
using wire::Operation;

constexpr ShardIndex kShard{0};
constexpr std::size_t kPayloadBytes = 131'072;  // eight fill a segment of 1 MiB
constexpr std::uint64_t kSegmentBytes = 8 * (kPayloadBytes + wire::kBatchSizeMin);
constexpr std::uint64_t kNever = 0;

template <class Body>
std::vector<std::byte> encoded(const Body& body) {
    ByteWriter to;
    body.encode(to);
    return std::move(to).take();
}

/// A stream with one topic of two partitions.
struct CleanerRig {
    CleanerRig() : node(world.add_node()), pool(memory::PoolOptions{.budget_bytes = 64 * kMiB}) {
        EXPECT_TRUE(world.run(node, boot(*this)).has_value());
        EXPECT_EQ(world.run(node, change(*this, metadata::make_create_root("iggy", "hash"))),
                  ErrorCode::kOk);
        publish(Operation::kCreateStream,
                encoded(wire::CreateStreamRequest{.name = "s", .options = {}}));
        wire::OptionBlockBuilder options;
        options.put_u64("segment_size", 1 * kMiB);
        const std::vector<std::byte> block = options.encode();
        publish(Operation::kCreateTopic,
                encoded(wire::CreateTopicRequest{.stream = Identifier::numbered(0),
                                                 .partitions_count = 2,
                                                 .name = "t",
                                                 .options = *wire::OptionBlock::parse(block)}));
    }
    ~CleanerRig() {
        world.run(node, owner->table().close_all());
        world.run(node, journal->close());
        world.kill(node);
        table.reset();
        journal.reset();
    }

    static Task<Status> boot(CleanerRig& rig) {
        runtime::IoBackend& io = *rig.node.io;
        GALGO_CO_TRY(co_await runtime::make_directories(io, "/data/state"));
        GALGO_CO_TRY_ASSIGN(rig.replay, co_await storage::replay_journals(io, "/data/state"));
        rig.journal = std::make_unique<storage::ShardJournal>(
            io, rig.node.queue(),
            storage::JournalOptions{.directory = "/data/state",
                                    .epoch = rig.replay.next_epoch(),
                                    .first_sequence = rig.replay.next_sequence(),
                                    .file_bytes = 128 * kKiB,
                                    .files_max = 4});
        rig.node.loop->add_turn_end([journal = rig.journal.get()] { journal->end_of_turn(); });
        GALGO_CO_TRY(co_await rig.journal->open());
        rig.table = std::make_unique<partitions::PartitionTable>(
            *rig.node.loop, rig.pool, *rig.journal,
            partitions::TableOptions{
                .data_path = "/data", .trash = rig.trash, .replay = &rig.replay});
        rig.pair.attach(kShard, *rig.node.loop);
        rig.owner = std::make_unique<PartitionOwner>(*rig.table, MetadataReader(rig.pair, kShard));
        co_return Status{};
    }
    static Task<ErrorCode> change(CleanerRig& rig, metadata::Admitted admitted) {
        co_await rig.pair.until_writable(*rig.node.loop);
        rig.op = rig.op.next();
        const auto outcome = rig.pair.apply(
            {.prepare = {.operation = admitted.operation, .op = rig.op, .timestamp = Timestamp{1}},
             .body = admitted.body});
        rig.pair.publish();
        co_return outcome.result;
    }
    void publish(Operation operation, std::vector<std::byte> body) {
        Result<metadata::Admitted> admitted =
            metadata::admit(pair.read(kShard).state,
                            {.operation = operation, .body = body, .user = model::kRootUserId});
        ASSERT_TRUE(admitted.has_value());
        ASSERT_EQ(world.run(node, change(*this, *std::move(admitted))), ErrorCode::kOk);
    }
    void set_rules(std::uint64_t expiry_us, std::uint64_t size_max) {
        wire::OptionBlockBuilder options;
        options.put_u64("message_expiry", expiry_us);
        options.put_u64("max_topic_size", size_max);
        const std::vector<std::byte> block = options.encode();
        publish(Operation::kUpdateTopic,
                encoded(wire::UpdateTopicRequest{.stream = Identifier::numbered(0),
                                                 .topic = Identifier::numbered(0),
                                                 .name = "t",
                                                 .options = *wire::OptionBlock::parse(block)}));
    }
    PartitionRef ref(std::uint32_t partition) {
        const PartitionKey key = model::pack_partition_key(model::StreamId{0}, model::TopicId{0},
                                                           model::PartitionId{partition});
        return {.key = key,
                .incarnation = pair.read(kShard).state.find_partition(key)->incarnation};
    }
    static Task<Status> append(CleanerRig& rig, PartitionRef partition) {
        wire::BatchBuilder builder;
        builder.reset(1);
        const std::vector<std::byte> payload(kPayloadBytes, std::byte{7});
        builder.add({.id = 1, .timestamp_us = 1, .payload = payload, .user_headers = {}});
        const ConstBytes built = builder.finish();
        memory::BufRef batch = *rig.pool.acquire(built.size());
        std::ranges::copy(built, batch.mutable_bytes().begin());
        const Result<Offset> base =
            co_await rig.owner->append(partition, {.batch = std::move(batch), .message_count = 1});
        GALGO_CO_TRY(base);
        co_return Status{};
    }
    void send(std::uint32_t partition, int count) {
        for (int i = 0; i < count; ++i) {
            ASSERT_TRUE(world.run(node, append(*this, ref(partition))).has_value());
        }
    }
    void store(std::uint32_t partition, std::uint64_t offset) {
        ASSERT_TRUE(world
                        .run(node, owner->offset({.partition = ref(partition),
                                                  .action = OffsetAction::kStore,
                                                  .consumer = {.id = 1},
                                                  .offset = Offset(offset)}))
                        .has_value());
    }
    void remove(std::uint32_t partition, std::uint32_t count) {
        const PartitionRef target = ref(partition);
        const auto open = table->find(target.key, target.incarnation);
        ASSERT_TRUE(open.has_value());
        ASSERT_TRUE(world.run(node, (*open)->delete_segments(count)).has_value());
    }
    metadata::PartitionCounters counters(std::uint32_t partition) {
        return pair.read(kShard).state.find_partition(ref(partition).key)->stats->load();
    }
    Cleaner cleaner(CleanerOptions options = {}) {
        return {*node.loop, *table, MetadataReader(pair, kShard), options};
    }
    /// The loop looks at its clock when it has something to do.
    static Task<bool> pass_in_time(CleanerRig& rig, Cleaner& cleaner) {
        co_await rig.node.loop->sleep_for(kMillisecond);
        co_await cleaner.pass();
        co_return true;
    }
    void pass(Cleaner& cleaner) { EXPECT_TRUE(world.run(node, pass_in_time(*this, cleaner))); }

    runtime_sim::TestWorld world{1};
    runtime_sim::Node& node;
    memory::BufferPool pool;
    storage::Trash trash{"/data/trash"};
    storage::JournalReplay replay;
    metadata::PartitionStatsRegistry registry;
    MetadataPair pair{1, MetadataCopy{.state = metadata::State(), .registry = &registry}};
    OpNumber op;
    std::unique_ptr<storage::ShardJournal> journal;
    std::unique_ptr<partitions::PartitionTable> table;
    std::unique_ptr<PartitionOwner> owner;
};

TEST(Cleaner, TheRulesAreThoseOfTheMoment) {
    CleanerRig rig;
    rig.send(0, 9);
    rig.send(1, 9);
    rig.world.run_for(20 * kSecond);
    Cleaner cleaner = rig.cleaner();
    rig.pass(cleaner);
    EXPECT_EQ(rig.counters(0).offset_first, 0U);
    rig.set_rules(10'000'000, kNever);
    rig.pass(cleaner);
    for (std::uint32_t partition = 0; partition < 2; ++partition) {
        EXPECT_EQ(rig.counters(partition).message_count, 0U);
        EXPECT_EQ(rig.counters(partition).offset_current, 8U);
    }
    rig.send(0, 9);
    rig.set_rules(kNever, kNever);
    rig.world.run_for(20 * kSecond);
    rig.pass(cleaner);
    EXPECT_EQ(rig.counters(0).offset_first, 9U);
    EXPECT_EQ(rig.counters(0).message_count, 9U);
}

TEST(Cleaner, ATopicIsBoundedAsAWhole) {
    CleanerRig rig;
    rig.send(0, 8 * 20 + 1);
    rig.send(1, 8 * 2 + 1);
    rig.set_rules(kNever, 6 * kSegmentBytes);
    Cleaner cleaner = rig.cleaner();
    rig.pass(cleaner);
    // The one above its share gives all of it, in more than one step; the other is not touched.
    EXPECT_EQ(rig.counters(0).sealed_bytes, 4 * kSegmentBytes);
    EXPECT_EQ(rig.counters(1).sealed_bytes, 2 * kSegmentBytes);
    EXPECT_EQ(rig.counters(0).offset_first, 8U * 16);
    rig.pass(cleaner);
    EXPECT_EQ(rig.counters(0).sealed_bytes, 4 * kSegmentBytes);
}

TEST(Cleaner, WhatIsHeldBackIsCountedAndGivesWayInTime) {
    CleanerRig rig;
    rig.send(0, 17);
    rig.store(0, 8);
    rig.set_rules(10'000'000, kNever);
    rig.world.run_for(20 * kSecond);
    Cleaner cleaner = rig.cleaner({.held_back_max_ns = 60 * kSecond});
    rig.pass(cleaner);
    EXPECT_EQ(rig.counters(0).offset_first, 8U);
    EXPECT_EQ(cleaner.held_back_bytes(), kSegmentBytes);
    rig.world.run_for(60 * kSecond);
    rig.pass(cleaner);
    // The one message behind it is in a segment that was ended then, and has its own time.
    EXPECT_EQ(rig.counters(0).offset_first, 16U);
    EXPECT_EQ(cleaner.held_back_bytes(), kSegmentBytes / 8);
    rig.world.run_for(70 * kSecond);
    rig.pass(cleaner);
    EXPECT_EQ(cleaner.held_back_bytes(), 0U);
    EXPECT_EQ(rig.counters(0).message_count, 0U);
    EXPECT_EQ(rig.counters(0).offset_current, 16U);
}

TEST(Cleaner, OffItTakesWhatWasDeletedAlone) {
    CleanerRig rig;
    rig.send(0, 17);
    rig.store(0, 3);
    rig.set_rules(1'000'000, kSegmentBytes);
    rig.world.run_for(20 * kSecond);
    Cleaner cleaner = rig.cleaner({.enabled = false});
    rig.remove(0, 1);
    rig.pass(cleaner);
    EXPECT_EQ(rig.counters(0).offset_first, 0U);
    rig.store(0, 16);
    rig.pass(cleaner);
    EXPECT_EQ(rig.counters(0).offset_first, 8U);
}

Task<bool> run(Cleaner& cleaner) {
    co_await cleaner.run();
    co_return true;
}

Task<bool> stop_later(Cleaner& cleaner, CleanerRig& rig) {
    co_await rig.node.loop->sleep_for(9 * kSecond);
    EXPECT_EQ(rig.counters(0).message_count, 9U);
    co_await rig.node.loop->sleep_for(7 * kSecond);
    EXPECT_EQ(rig.counters(0).message_count, 0U);
    cleaner.stop();
    co_return true;
}

Task<bool> stop_when_full(Cleaner& cleaner, CleanerRig& rig) {
    co_await rig.node.loop->sleep_for(20 * kSecond);
    EXPECT_EQ(rig.counters(0).message_count, 9U);
    cleaner.set_urgent(true);
    co_await rig.node.loop->sleep_for(2 * kSecond);
    EXPECT_EQ(rig.counters(0).message_count, 0U);
    cleaner.stop();
    co_return true;
}

Task<bool> run_until_full(Cleaner& cleaner, CleanerRig& rig) {
    const auto [ran, stopped] = co_await coro::all(run(cleaner), stop_when_full(cleaner, rig));
    co_return ran&& stopped;
}

Task<bool> run_and_stop(Cleaner& cleaner, CleanerRig& rig) {
    const auto [ran, stopped] = co_await coro::all(run(cleaner), stop_later(cleaner, rig));
    co_return ran&& stopped;
}

TEST(Cleaner, PassesAtEachIntervalUntilItIsStopped) {
    CleanerRig rig;
    rig.send(0, 9);
    rig.set_rules(10'000'000, kNever);
    Cleaner cleaner = rig.cleaner({.interval_ns = 5 * kSecond});
    EXPECT_TRUE(rig.world.run(rig.node, run_and_stop(cleaner, rig)));
}

TEST(Cleaner, AFullDiskIsNoTimeToWait) {
    CleanerRig rig;
    rig.send(0, 9);
    rig.set_rules(10'000'000, kNever);
    Cleaner cleaner = rig.cleaner({.interval_ns = 3600 * kSecond});
    EXPECT_TRUE(rig.world.run(rig.node, run_until_full(cleaner, rig)));
}

}  // namespace
}  // namespace galgo::shard

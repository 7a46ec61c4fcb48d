// Retention of a partition on the simulated disk: expiry, size, deletes, and the consumers that
// hold them back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>

#include "memory/buffer_pool.hpp"
#include "model/ids.hpp"
#include "partitions/partition_table.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "wire/batch.hpp"

namespace galgo::partitions {
namespace {

using coro::Task;
using runtime_sim::CrashKind;

constexpr Incarnation kLife{1};
constexpr ConsumerKey kConsumer{.kind = wire::ConsumerKind::kConsumer, .id = 1};
constexpr ConsumerKey kGroup{.kind = wire::ConsumerKind::kGroup, .id = 1};
constexpr std::size_t kBatchBytes = 70'000;
constexpr std::uint64_t kSecondUs = 1'000'000;

/// One partition; eight messages of kBatchBytes fill a segment.
struct CleanRig {
    CleanRig() : node(world.add_node()), pool(memory::PoolOptions{.budget_bytes = 64 * kMiB}) {
        start();
    }
    ~CleanRig() { stop(); }
    void start() { ASSERT_TRUE(world.run(node, boot(*this)).has_value()); }
    void stop() {
        partition.reset();
        EXPECT_TRUE(world.run(node, table->close_all()).has_value());
        world.run(node, journal->close());
        world.kill(node);
        table.reset();
        journal.reset();
    }
    void restart() {
        stop();
        world.restart(node, CrashKind::kPower, runtime_sim::UnsyncedFate::kLoseAll);
        start();
    }

    static Task<Status> boot(CleanRig& rig) {
        runtime::IoBackend& io = *rig.node.io;
        GALGO_CO_TRY(co_await runtime::make_directories(io, "/data/state"));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, "/data"));
        GALGO_CO_TRY(co_await runtime::sync_directory(io, "/"));
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
        rig.table = std::make_unique<PartitionTable>(
            *rig.node.loop, rig.pool, *rig.journal,
            TableOptions{.data_path = "/data", .trash = rig.trash, .replay = &rig.replay});
        const PartitionKey key =
            model::pack_partition_key(model::StreamId{0}, model::TopicId{0}, model::PartitionId{0});
        GALGO_CO_TRY_ASSIGN(
            PartitionHandle opened,
            co_await rig.table->open(key, kLife, rig.options,
                                     [&rig](const Counters& now) { rig.counters = now; }));
        rig.partition.emplace(std::move(opened));
        co_return Status{};
    }
    static Task<Status> append(CleanRig& rig, std::size_t bytes) {
        wire::BatchBuilder builder;
        builder.reset(1);
        const std::vector<std::byte> payload(bytes, std::byte{7});
        builder.add({.id = 1, .timestamp_us = 1, .payload = payload, .user_headers = {}});
        const ConstBytes built = builder.finish();
        memory::BufRef batch = *rig.pool.acquire(built.size());
        std::ranges::copy(built, batch.mutable_bytes().begin());
        const Result<Offset> base =
            co_await (*rig.partition)->append({.batch = std::move(batch), .message_count = 1});
        GALGO_CO_TRY(base);
        co_return Status{};
    }
    void send(int count, std::size_t bytes = kBatchBytes) {
        for (int i = 0; i < count; ++i) {
            ASSERT_TRUE(world.run(node, append(*this, bytes)).has_value());
        }
    }
    /// The loop looks at its clock when it has something to do.
    static Task<Cleaned> clean_in_time(CleanRig& rig, RetentionRules rules,
                                       std::size_t segments_max) {
        co_await rig.node.loop->sleep_for(kMillisecond);
        co_return co_await (*rig.partition)->clean(rules, rig.node.loop->wall_now(), segments_max);
    }
    Cleaned clean(RetentionRules rules, std::size_t segments_max = 16) {
        const Cleaned cleaned = world.run(node, clean_in_time(*this, rules, segments_max));
        EXPECT_FALSE(cleaned.trim_error.has_value()) << to_string(*cleaned.trim_error);
        return cleaned;
    }
    void store(ConsumerKey consumer, std::uint64_t offset) {
        ASSERT_TRUE(
            world.run(node, (*partition)->store_offset(consumer, Offset(offset))).has_value());
    }
    void remove(std::uint32_t count) {
        ASSERT_TRUE(world.run(node, (*partition)->delete_segments(count)).has_value());
    }
    struct Polled {
        std::uint32_t count = 0;
        Offset first;
        Offset current;
    };
    Polled poll(wire::PollingStrategy strategy, ConsumerKey consumer = kConsumer) {
        const auto polled = world.run(node, (*partition)
                                                ->poll({.consumer = consumer,
                                                        .strategy = strategy,
                                                        .count = 2,
                                                        .bytes_max = 64 * kMiB}));
        EXPECT_TRUE(polled.has_value()) << to_string(polled.error());
        return polled.has_value() ? Polled{.count = polled->read.message_count,
                                           .first = polled->read.first,
                                           .current = polled->current_offset}
                                  : Polled{};
    }
    Offset first() { return counters.first_offset; }

    runtime_sim::TestWorld world{1};
    runtime_sim::Node& node;
    memory::BufferPool pool;
    PartitionOptions options{.segment_size_bytes = 8 * kBatchBytes,
                             .messages_required_to_save = 1'000'000,
                             .size_required_to_save_bytes = 1 * kGiB,
                             .persisted = true,
                             .offsets_persisted = true};
    storage::Trash trash{"/data/trash"};
    storage::JournalReplay replay;
    std::unique_ptr<storage::ShardJournal> journal;
    std::unique_ptr<PartitionTable> table;
    std::optional<PartitionHandle> partition;
    Counters counters;
};

TEST(Clean, ExpiredSegmentsGoAndAQuietPartitionEndsEmpty) {
    CleanRig rig;
    rig.send(10);
    const RetentionRules rules{.expiry_us = 10 * kSecondUs};
    EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 0U);
    rig.world.run_for(6 * kSecond);
    rig.send(8);  // offsets 10 to 17; 16 begins the third segment
    rig.world.run_for(5 * kSecond);
    EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 1U);
    EXPECT_EQ(rig.first(), Offset{8});
    EXPECT_EQ(rig.counters.current_offset, Offset{17});
    EXPECT_EQ(rig.counters.message_count, 10U);
    EXPECT_EQ(rig.poll({.kind = wire::PollingKind::kFirst}).first, Offset{8});
    rig.world.run_for(20 * kSecond);
    EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 2U);
    for (int start = 0; start < 2; ++start) {
        EXPECT_EQ(rig.counters.message_count, 0U);
        EXPECT_EQ(rig.counters.size_bytes, 0U);
        EXPECT_EQ(rig.counters.segment_count, 1U);
        EXPECT_EQ(rig.counters.current_offset, Offset{17});
        EXPECT_EQ(rig.poll({.kind = wire::PollingKind::kFirst}).count, 0U);
        EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 0U);
        rig.restart();
    }
    rig.send(1, 10);
    EXPECT_EQ(rig.poll({.kind = wire::PollingKind::kOffset, .value = 0}).first, Offset{18});
}

// iggy issues 1828, 2736: below what is retained a poll begins with what is.
TEST(Clean, DeletedSegmentsAreGoneForEveryStrategy) {
    CleanRig rig;
    rig.send(25);
    EXPECT_EQ(rig.counters.sealed_bytes, rig.counters.size_bytes / 25 * 24);
    rig.remove(0);
    EXPECT_EQ(rig.first(), Offset{0});
    rig.remove(1);
    EXPECT_EQ(rig.counters.message_count, 17U);
    EXPECT_EQ(rig.counters.sealed_bytes, rig.counters.size_bytes / 17 * 16);
    rig.store(kConsumer, 3);
    for (int start = 0; start < 2; ++start) {
        EXPECT_EQ(rig.first(), Offset{8});
        for (const CleanRig::Polled polled :
             {rig.poll({.kind = wire::PollingKind::kNext}),
              rig.poll({.kind = wire::PollingKind::kNext}, {.id = 2}),
              rig.poll({.kind = wire::PollingKind::kOffset, .value = 0}),
              rig.poll({.kind = wire::PollingKind::kTimestamp, .value = 0}),
              rig.poll({.kind = wire::PollingKind::kFirst})}) {
            EXPECT_EQ(polled.first, Offset{8});
            EXPECT_EQ(polled.count, 2U);
            EXPECT_EQ(polled.current, Offset{24});
        }
        rig.restart();
    }
}

TEST(Clean, TheSlowestConsumerHoldsBackAndLetsGo) {
    CleanRig rig;
    rig.send(25);
    rig.store(kConsumer, 3);
    rig.remove(1);
    EXPECT_EQ(rig.first(), Offset{0});
    Cleaned cleaned = rig.clean({});
    EXPECT_EQ(cleaned.held_back_bytes, rig.counters.size_bytes / 25 * 8);
    ASSERT_TRUE(cleaned.slowest.has_value());
    EXPECT_EQ(cleaned.slowest->consumer, kConsumer);
    EXPECT_EQ(cleaned.slowest->stored, Offset{3});
    rig.restart();  // it was acknowledged
    rig.store(kConsumer, 6);
    EXPECT_EQ(rig.clean({}).trimmed.segment_count, 0U);
    rig.store(kConsumer, 7);
    cleaned = rig.clean({});
    EXPECT_EQ(cleaned.trimmed.segment_count, 1U);
    EXPECT_EQ(cleaned.held_back_bytes, 0U);
    EXPECT_EQ(rig.first(), Offset{8});
    // Another one, of the other kind.
    rig.store(kGroup, 2);
    ASSERT_TRUE(rig.world.run(rig.node, (*rig.partition)->delete_offset(kConsumer)).has_value());
    rig.remove(1);
    EXPECT_EQ(rig.first(), Offset{8});
    rig.store(kGroup, 20);
    rig.remove(1);
    EXPECT_EQ(rig.first(), Offset{16});
    EXPECT_EQ(rig.clean({}).held_back_bytes, 0U);
    // Without any, nothing is held back: expiry takes what is left.
    ASSERT_TRUE(rig.world.run(rig.node, (*rig.partition)->delete_offset(kGroup)).has_value());
    rig.world.run_for(10 * kSecond);
    EXPECT_EQ(rig.clean({.expiry_us = kSecondUs}).trimmed.segment_count, 2U);
    EXPECT_EQ(rig.first(), Offset{25});
}

// The bound counts from when they are due, not from their age: a consumer has that time also when
// the messages are older than the bound before anybody looks, or a start lies in between.
TEST(Clean, HeldBackNoLongerThanTheServerAllows) {
    CleanRig rig;
    rig.send(17);
    rig.store(kConsumer, 0);
    rig.world.run_for(1000 * kSecond);
    const RetentionRules rules{.expiry_us = 10 * kSecondUs, .held_back_max_ns = 100 * kSecond};
    for (int start = 0; start < 2; ++start) {
        SCOPED_TRACE(start);
        const Cleaned cleaned = rig.clean(rules);
        EXPECT_EQ(cleaned.trimmed.segment_count, 0U);
        EXPECT_EQ(cleaned.held_back_bytes, rig.counters.sealed_bytes);
        rig.world.run_for(90 * kSecond);
        EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 0U);
        if (start == 0) {
            rig.restart();
        }
    }
    EXPECT_EQ(rig.counters.segment_count, 3U);  // nothing was ended meanwhile
    rig.world.run_for(10 * kSecond);
    Cleaned cleaned = rig.clean(rules);
    EXPECT_EQ(cleaned.trimmed.segment_count, 2U);
    EXPECT_EQ(cleaned.given_up_bytes, cleaned.trimmed.bytes);
    ASSERT_TRUE(cleaned.slowest.has_value());
    EXPECT_EQ(cleaned.slowest->consumer, kConsumer);
    EXPECT_EQ(rig.first(), Offset{16});
    const auto stored = (*rig.partition)->stored_offset(kConsumer);
    ASSERT_TRUE(stored.has_value() && stored->has_value());
    EXPECT_EQ((*stored)->stored, Offset{0});
    EXPECT_EQ((*stored)->current, Offset{16});
    // The one that was written was ended then, and has its own time.
    rig.clean(rules);
    rig.world.run_for(90 * kSecond);
    EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 0U);
    rig.world.run_for(20 * kSecond);
    EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 1U);
    EXPECT_EQ(rig.first(), Offset{17});
}

TEST(Clean, ATopicAboveItsSizeGivesItsOldestAFewAtATime) {
    CleanRig rig;
    rig.send(8 * 5 + 1);
    const std::uint64_t segment = rig.counters.sealed_bytes / 5;
    const RetentionRules rules{.size_max_bytes = 2 * segment, .topic_sealed_bytes = 5 * segment};
    Cleaned cleaned = rig.clean(rules, 2);
    EXPECT_EQ(cleaned.trimmed.segment_count, 2U);
    EXPECT_TRUE(cleaned.again);
    EXPECT_EQ(rig.first(), Offset{16});
    cleaned = rig.clean({.size_max_bytes = 2 * segment, .topic_sealed_bytes = 3 * segment}, 2);
    EXPECT_EQ(cleaned.trimmed.segment_count, 1U);
    EXPECT_FALSE(cleaned.again);
    EXPECT_EQ(rig.counters.sealed_bytes, 2 * segment);
}

// A file that cannot be read may be that of the slowest one: not even the first message goes.
TEST(Clean, AnOffsetThatNobodyKnowsHoldsBackAll) {
    for (const std::size_t bytes :
         {kBatchBytes, 8 * kBatchBytes}) {  // eight messages a segment, one
        SCOPED_TRACE(bytes);
        CleanRig rig;
        rig.send(17, bytes);
        rig.store(kConsumer, 16);
        rig.stop();
        ASSERT_TRUE(rig.node.disk->corrupt(
            "/data/streams/0/topics/0/partitions/0/offsets/consumers/1", 3, 1));
        rig.world.restart(rig.node, CrashKind::kProcess);
        rig.start();
        rig.remove(2);
        EXPECT_EQ(rig.first(), Offset{0});
        const Cleaned cleaned = rig.clean({});
        ASSERT_TRUE(cleaned.slowest.has_value());
        EXPECT_TRUE(cleaned.slowest->is_unknown);
        EXPECT_EQ(rig.first(), Offset{0});
        rig.store(kConsumer, 16);
        EXPECT_EQ(rig.clean({}).trimmed.segment_count, 2U);
    }
}

// A client that is told of an error asks again: that may not delete more than it asked for.
TEST(Clean, ARepeatedDeletionTakesNoMore) {
    CleanRig rig;
    rig.send(25);
    rig.node.disk->add_fault({.op = runtime_sim::DiskOp::kRename,
                              .path_contains = "retained.tmp",
                              .times = 1,
                              .error = EIO});
    EXPECT_FALSE(rig.world.run(rig.node, (*rig.partition)->delete_segments(1)).has_value());
    EXPECT_EQ(rig.first(), Offset{0});
    // The second write of the file is that of the trim: the deletion is noted already.
    rig.node.disk->add_fault({.op = runtime_sim::DiskOp::kRename,
                              .path_contains = "retained.tmp",
                              .skip = 1,
                              .times = 2,
                              .error = EIO});
    rig.remove(1);
    EXPECT_EQ(rig.first(), Offset{0});
    rig.remove(1);  // the same one
    EXPECT_EQ(rig.first(), Offset{0});
    EXPECT_EQ(rig.clean({}).trimmed.segment_count, 1U);
    EXPECT_EQ(rig.first(), Offset{8});
    rig.remove(1);
    EXPECT_EQ(rig.first(), Offset{16});
}

TEST(Clean, ALargeDeletionGoesOnBehindItsAnswer) {
    constexpr std::uint64_t kDeleted = 2 * kSegmentsAtATime + 3;
    CleanRig rig;
    rig.send(kDeleted + 2, 8 * kBatchBytes);
    rig.remove(kDeleted);
    EXPECT_EQ(rig.first(), Offset{kSegmentsAtATime});
    rig.world.run_for(kSecond);
    EXPECT_EQ(rig.first(), Offset{kDeleted});
}

TEST(Clean, AStopEndsALargeDeletionAndTheNextStartGoesOn) {
    constexpr std::uint64_t kDeleted = 4 * kSegmentsAtATime + 3;
    CleanRig rig;
    rig.send(kDeleted + 2, 8 * kBatchBytes);
    rig.remove(kDeleted);
    rig.restart();
    EXPECT_LT(rig.first(), Offset{kDeleted - 3});
    EXPECT_TRUE(rig.clean({}, 1).again);
    EXPECT_FALSE(rig.clean({}, 4 * kSegmentsAtATime).again);
    EXPECT_EQ(rig.first(), Offset{kDeleted});
}

TEST(Clean, ASegmentThatCannotBeEndedKeepsNoneFromGoing) {
    CleanRig rig;
    rig.send(17);
    rig.world.run_for(20 * kSecond);
    const RetentionRules rules{.expiry_us = 10 * kSecondUs};
    rig.node.disk->add_fault({.op = runtime_sim::DiskOp::kOpen,
                              .path_contains = "00000000000000000017.log",
                              .times = 1,
                              .error = EIO});
    const Cleaned cleaned = rig.clean(rules);
    EXPECT_TRUE(cleaned.roll_error.has_value());
    EXPECT_EQ(cleaned.trimmed.segment_count, 2U);
    EXPECT_EQ(rig.first(), Offset{16});
    EXPECT_EQ(rig.clean(rules).trimmed.segment_count, 1U);
    EXPECT_EQ(rig.first(), Offset{17});
}

TEST(Clean, ADamagedPartitionKeepsAll) {
    CleanRig rig;
    rig.send(17);
    rig.stop();
    rig.node.disk->write_file("/data/streams/0/topics/0/partitions/0/fenced", {});
    rig.world.restart(rig.node, CrashKind::kProcess);
    rig.start();
    rig.world.run_for(10 * kSecond);
    EXPECT_EQ(rig.clean({.expiry_us = 1}).trimmed.segment_count, 0U);
    EXPECT_FALSE(rig.world.run(rig.node, (*rig.partition)->delete_segments(1)).has_value());
    EXPECT_EQ(rig.first(), Offset{0});
}

}  // namespace
}  // namespace galgo::partitions

// Partitions of one shard that share its journal, on the simulated disk.
#include "partitions/partition_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "model/ids.hpp"
#include "partitions/offsets.hpp"
#include "test_table.hpp"

namespace galgo::partitions {
namespace {

using coro::Task;
using runtime_sim::DiskOp;

// The journal holds half a MiB. Nothing but its pressure flushes these partitions.
TEST(PartitionTable, APartitionThatCannotBeWrittenStopsNobody) {
    TableRig rig;
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(rig.append_now(0, 1000).has_value());
    }
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = "partitions/0/", .times = 1000});
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(rig.append_now(1, 20'000).has_value()) << i;
        ASSERT_TRUE(rig.append_now(2, 1000).has_value()) << i;
    }
    EXPECT_EQ(rig.table->faults().size(), 1U);
    EXPECT_FALSE(rig.append_now(0, 1000).has_value());
    rig.node.disk->clear_faults();
    rig.restart();
    EXPECT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 0)), 3U);
    EXPECT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 1)), 100U);
    EXPECT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 2)), 100U);
}

constexpr Incarnation kNextLife{2};

void put_messages(TableRig& rig, int count) {
    for (int i = 0; i < count; ++i) {
        ASSERT_TRUE(rig.append_now(0, 100).has_value());
    }
}

// A purge. The log had nothing to flush: the checkpoint has made the directory.
TEST(StoredOffsets, EndWithTheirLife) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
    ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 9)).has_value());
    rig.checkpoint();
    rig.world.run(rig.node, rig.table->retire(key_of(0), kNextLife, false));
    EXPECT_EQ(rig.stored_now(kNextLife), std::nullopt);
}

// The same, and a kill before it was carried out.
TEST(StoredOffsets, EndWithTheirLifeAfterAKill) {
    for (const bool is_retired : {true, false}) {  // else the directory is quarantined
        SCOPED_TRACE(is_retired);
        TableRig rig;
        ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
        ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 9)).has_value());
        rig.checkpoint();
        rig.crash(runtime_sim::CrashKind::kProcess);
        if (is_retired) {
            rig.trash.note_retired(key_of(0), kLife);
        }
        rig.start();
        EXPECT_EQ(rig.stored_now(kNextLife), std::nullopt);
        EXPECT_EQ(rig.node.disk->exists("/data/quarantine"), !is_retired);
    }
}

// A file that does not verify is not "nothing stored": its consumer would silently begin anew.
TEST(StoredOffsets, ADamagedFileIsAnErrorUntilTheConsumerDecides) {
    const std::string file = "/data/streams/0/topics/0/partitions/0/offsets/consumers/1";
    for (const bool stores : {true, false}) {
        for (const bool checkpoints : {true, false}) {
            SCOPED_TRACE(testing::Message() << stores << checkpoints);
            TableRig rig;
            ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
            ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 4)).has_value());
            const ConsumerKey other{.kind = wire::ConsumerKind::kConsumer, .id = 2};
            ASSERT_TRUE(rig.set_now(other, Offset{6}).has_value());
            rig.restart();
            ASSERT_TRUE(rig.world.run(rig.node, rig.replay.remove_files(*rig.node.io)).has_value());
            ASSERT_TRUE(rig.node.disk->corrupt(file, 3, 1));
            const auto damaged = rig.node.disk->read_file(file);
            for (int boot = 0; boot < 3; ++boot) {
                rig.restart();
                const auto stored = rig.world.run(rig.node, TableRig::stored(rig, kLife));
                ASSERT_FALSE(stored.has_value());
                EXPECT_EQ(stored.error().code, ErrorCode::kCannotReadConsumerOffsets);
                for (const bool auto_commit : {true, false}) {
                    const auto polled = rig.poll_now(TableRig::kConsumer, auto_commit);
                    ASSERT_FALSE(polled.has_value());
                    EXPECT_EQ(polled.error().code, ErrorCode::kCannotReadConsumerOffsets);
                }
                EXPECT_EQ(rig.stored(other), Offset{6});
                ASSERT_TRUE(rig.set_now(other, Offset{6}).has_value());
                rig.checkpoint();
                EXPECT_EQ(rig.node.disk->read_file(file), damaged);
            }
            const std::optional<Offset> chosen = stores ? std::optional(Offset{2}) : std::nullopt;
            ASSERT_TRUE(rig.set_now(TableRig::kConsumer, chosen).has_value());
            EXPECT_EQ(rig.stored_now(), chosen);
            EXPECT_EQ(*rig.poll_now(TableRig::kConsumer, false), 1U);
            if (checkpoints) {
                rig.checkpoint();
                rig.restart();
            } else {
                rig.crash(runtime_sim::CrashKind::kPower);
                rig.start();
            }
            EXPECT_EQ(rig.stored_now(), chosen);
            rig.checkpoint();
            EXPECT_EQ(rig.node.disk->read_file(file + ".damaged-1"), damaged);
            EXPECT_EQ(rig.node.disk->exists(file), stores);
            if (!stores) {
                EXPECT_EQ(rig.set_now(TableRig::kConsumer, std::nullopt).error().code,
                          ErrorCode::kConsumerOffsetNotFound);
            }
        }
    }
}

// At the bound of distinct consumers: its place is not given away, and counts once when it stores.
TEST(StoredOffsets, ADamagedFileKeepsItsPlace) {
    TableRig rig(2);
    ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
    ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 4)).has_value());
    rig.restart();
    ASSERT_TRUE(rig.world.run(rig.node, rig.replay.remove_files(*rig.node.io)).has_value());
    ASSERT_TRUE(
        rig.node.disk->corrupt("/data/streams/0/topics/0/partitions/0/offsets/consumers/1", 3, 1));
    rig.restart();
    const ConsumerKey second{.kind = wire::ConsumerKind::kConsumer, .id = 2};
    const ConsumerKey third{.kind = wire::ConsumerKind::kConsumer, .id = 3};
    ASSERT_TRUE(rig.set_now(second, Offset{6}).has_value());
    EXPECT_EQ(rig.set_now(third, Offset{6}).error().code, ErrorCode::kTooManyConsumerOffsets);
    ASSERT_TRUE(rig.set_now(TableRig::kConsumer, Offset{2}).has_value());
    EXPECT_EQ(rig.set_now(third, Offset{6}).error().code, ErrorCode::kTooManyConsumerOffsets);
    ASSERT_TRUE(rig.set_now(second, std::nullopt).has_value());
    EXPECT_TRUE(rig.set_now(third, Offset{6}).has_value());  // before any checkpoint
}

TEST(StoredOffsets, AFullDiskDoesNotKeepAPartitionFromOpening) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
    ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 4)).has_value());
    rig.crash(runtime_sim::CrashKind::kProcess);
    for (const char* name : {"consumers/1.tmp", ".log"}) {
        rig.node.disk->add_fault(
            {.op = DiskOp::kOpen, .path_contains = name, .times = 1000, .error = ENOSPC});
    }
    rig.start();
    EXPECT_EQ(rig.stored_now(), Offset{4});
    EXPECT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 0)), 10U);
    EXPECT_FALSE(rig.table->recovered());
    rig.world.run(rig.node, rig.table->complete_recovery());
    EXPECT_FALSE(rig.table->recovered());
    rig.node.disk->clear_faults();
    rig.world.run_for(2 * kSecond);
    rig.world.run(rig.node, rig.table->complete_recovery());
    EXPECT_TRUE(rig.table->recovered());
    ASSERT_TRUE(rig.world.run(rig.node, rig.replay.remove_files(*rig.node.io)).has_value());
    rig.crash(runtime_sim::CrashKind::kPower);
    rig.start();
    EXPECT_EQ(rig.stored_now(), Offset{4});
}

// A further raise whose change was not admitted: the commit of the one before takes nothing back.
TEST(StoredOffsets, ACommitLowersNothing) {
    Offsets offsets;
    const ConsumerKey consumer = TableRig::kConsumer;
    EXPECT_TRUE(offsets.raise(consumer, Offset{20}));
    offsets.note_op(consumer, Offset{20}, OpNumber{6});
    EXPECT_TRUE(offsets.raise(consumer, Offset{30}));
    offsets.confirm(consumer, Offset{20}, OpNumber{6});
    EXPECT_EQ(offsets.find(consumer), Offset{30});
    offsets.store(consumer, Offset{5}, OpNumber{7});  // what a client asks for is done
    EXPECT_EQ(offsets.find(consumer), Offset{5});
    offsets.confirm(consumer, Offset{40}, OpNumber{6});
    EXPECT_EQ(offsets.find(consumer), Offset{5});
}

// What the journal names last is what counts after a restart; so it is before it.
TEST(StoredOffsets, TheLaterOfTwoChangesWins) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
    const auto both = [](TableRig& r) -> Task<bool> {
        auto [stored, polled] =
            co_await coro::all(TableRig::store(r, 3), TableRig::poll_next(r, kLife));
        co_return stored.has_value() && polled.has_value() && *polled == 10;
    };
    EXPECT_TRUE(rig.world.run(rig.node, both(rig)));
    rig.world.run_for(kSecond);
    EXPECT_EQ(rig.stored_now(), Offset{9});
    rig.checkpoint();
    rig.crash(runtime_sim::CrashKind::kProcess);
    rig.start();
    EXPECT_EQ(rig.stored_now(), Offset{9});
    ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 5)).has_value());
    EXPECT_EQ(rig.stored_now(), Offset{5}) << "a later one may lower it";
}

// Commits go on although the files cannot be written: the journal must not fill with what nobody
// needs.
TEST(StoredOffsets, AConsumerHoldsOneRecord) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
    const std::uint64_t others = rig.journal->stats().live_record_count;
    rig.node.disk->add_fault(
        {.op = DiskOp::kOpen, .path_contains = "consumers/1.tmp", .times = 1000, .error = EACCES});
    for (std::uint64_t i = 0; i < 40; ++i) {
        ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, i % 10)).has_value());
        if (i % 7 == 0) {
            rig.checkpoint();
        }
        EXPECT_EQ(rig.journal->stats().live_record_count, others + 1);
    }
    rig.crash(runtime_sim::CrashKind::kProcess);
    rig.start();
    EXPECT_EQ(rig.stored_now(), Offset{9});
    rig.node.disk->clear_faults();
    ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 2)).has_value());
    rig.checkpoint();
    EXPECT_EQ(rig.journal->stats().live_record_count, 0U);
}

void lose_power_and_journals(TableRig& rig) {
    rig.crash(runtime_sim::CrashKind::kPower);
    for (const std::string& path : rig.node.disk->list_all()) {
        if (path.ends_with(".wal")) {
            ASSERT_GE(rig.node.disk->unlink(path), 0);
        }
    }
    rig.start();
}

// Their records are released then: the files have to be stable, and those that were deleted gone.
TEST(StoredOffsets, ACheckpointIsStableWithAllItsDirectories) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(put_messages(rig, 10));
    ASSERT_TRUE(rig.world.run(rig.node, TableRig::store(rig, 4)).has_value());
    rig.checkpoint();
    ASSERT_NO_FATAL_FAILURE(lose_power_and_journals(rig));
    EXPECT_EQ(rig.stored_now(), Offset{4});
    ASSERT_TRUE(rig.world.run(rig.node, TableRig::forget(rig)).has_value());
    rig.checkpoint();
    ASSERT_NO_FATAL_FAILURE(lose_power_and_journals(rig));
    EXPECT_EQ(rig.stored_now(), std::nullopt);
}

TEST(PartitionTable, PartitionsAtRestHoldNoFiles) {
    TableRig rig;
    const std::size_t before = rig.node.disk->open_file_count();
    for (std::uint32_t partition = 0; partition < 20; ++partition) {
        ASSERT_TRUE(rig.append_now(partition, 70'000).has_value());
    }
    rig.world.run_for(kSecond);
    EXPECT_GE(rig.node.disk->open_file_count(), before + 40);
    for (int i = 0; i < 3; ++i) {
        rig.table->rest();
        rig.world.run_for(kSecond);
    }
    EXPECT_LE(rig.node.disk->open_file_count(), before + 4) << "of the journal";
    EXPECT_TRUE(rig.append_now(3, 70'000).has_value());
}

ConsumerKey consumer(std::uint32_t id) {
    return {.kind = wire::ConsumerKind::kConsumer, .id = id};
}
ConsumerKey group(std::uint32_t id) {
    return {.kind = wire::ConsumerKind::kGroup, .id = id};
}

ErrorCode code_of(const auto& result) {
    return result.has_value() ? ErrorCode::kOk : result.error().code;
}

TEST(StoredOffsets, CommitsOfPollsAreBoundedAsStoresAre) {
    TableRig rig(3);
    ASSERT_TRUE(rig.append_now(0, 100).has_value());
    ASSERT_TRUE(rig.append_now(0, 100).has_value());
    for (const std::uint32_t id : {1U, 2U, 3U}) {
        EXPECT_EQ(*rig.poll_now(consumer(id)), 1U);
        EXPECT_EQ(rig.stored(consumer(id)), Offset{0});
    }
    EXPECT_EQ(code_of(rig.poll_now(consumer(4))), ErrorCode::kTooManyConsumerOffsets);
    EXPECT_EQ(code_of(rig.set_now(consumer(4), Offset{0})), ErrorCode::kTooManyConsumerOffsets);
    EXPECT_EQ(rig.stored(consumer(4)), std::nullopt);
    // Only new consumers are refused, and only a commit.
    EXPECT_EQ(*rig.poll_now(consumer(4), false), 1U);
    EXPECT_EQ(*rig.poll_now(consumer(1)), 1U);
    EXPECT_EQ(rig.stored(consumer(1)), Offset{1});
    EXPECT_EQ(*rig.poll_now(consumer(1)), 0U);
    // What is deleted makes room.
    EXPECT_TRUE(rig.set_now(consumer(2), std::nullopt).has_value());
    EXPECT_EQ(*rig.poll_now(consumer(4)), 1U);
    EXPECT_EQ(code_of(rig.poll_now(consumer(2))), ErrorCode::kTooManyConsumerOffsets);
}

// While the records of others are on their way, they have their places.
Task<std::size_t> store_side_by_side(TableRig& rig, std::vector<std::uint32_t> ids) {
    GALGO_CHECK(ids.size() == 5);
    const auto [a, b, c, d, e] =
        co_await coro::all(TableRig::set_offset(rig, consumer(ids[0]), Offset{0}),
                           TableRig::set_offset(rig, consumer(ids[1]), Offset{0}),
                           TableRig::set_offset(rig, consumer(ids[2]), Offset{0}),
                           TableRig::set_offset(rig, consumer(ids[3]), Offset{0}),
                           TableRig::set_offset(rig, consumer(ids[4]), Offset{0}));
    std::size_t stored = 0;
    for (const Status& status : {a, b, c, d, e}) {
        stored += status.has_value() ? 1 : 0;
        EXPECT_TRUE(status.has_value() || code_of(status) == ErrorCode::kTooManyConsumerOffsets);
    }
    co_return stored;
}

TEST(StoredOffsets, StoresSideBySideKeepTheBound) {
    TableRig rig(3);
    ASSERT_TRUE(rig.append_now(0, 100).has_value());
    ASSERT_TRUE(rig.set_now(consumer(1), Offset{0}).has_value());
    EXPECT_EQ(rig.world.run(rig.node, store_side_by_side(rig, {2, 3, 4, 5, 6})), 2U);
    // One of them twice, and those that have a place: no place more is needed.
    EXPECT_EQ(rig.world.run(rig.node, store_side_by_side(rig, {1, 2, 3, 1, 3})), 5U);
    ASSERT_TRUE(rig.set_now(consumer(2), std::nullopt).has_value());
    EXPECT_EQ(rig.world.run(rig.node, store_side_by_side(rig, {7, 7, 8, 9, 7})), 3U);
    // A store that failed gives its place back.
    ASSERT_TRUE(rig.set_now(consumer(7), std::nullopt).has_value());
    EXPECT_FALSE(rig.set_now(consumer(8), Offset{99}).has_value());
    EXPECT_TRUE(rig.set_now(consumer(9), Offset{0}).has_value());
}

TEST(StoredOffsets, ConsumersAndGroupsAreCountedEach) {
    TableRig rig(2);
    rig.options.offsets_persisted = true;
    ASSERT_TRUE(rig.append_now(0, 100).has_value());
    for (int run = 0; run < 2; ++run) {
        for (const std::uint32_t id : {1U, 2U}) {
            EXPECT_TRUE(rig.set_now(consumer(id), Offset{0}).has_value());
            EXPECT_TRUE(rig.set_now(group(id), Offset{0}).has_value());
        }
        EXPECT_EQ(code_of(rig.set_now(consumer(3), Offset{0})), ErrorCode::kTooManyConsumerOffsets);
        EXPECT_EQ(code_of(rig.set_now(group(3), Offset{0})), ErrorCode::kTooManyConsumerOffsets);
        rig.restart();  // and so are those that the files and journals tell of
        ASSERT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 0)), 1U);
        EXPECT_EQ(rig.stored(group(2)), Offset{0});
    }
}

TEST(StoredOffsets, OfGroupsThatAreGoneAreForgotten) {
    TableRig rig(2);
    rig.options.offsets_persisted = true;
    ASSERT_TRUE(rig.append_now(0, 100).has_value());
    EXPECT_TRUE(rig.set_now(consumer(1), Offset{0}).has_value());
    EXPECT_TRUE(rig.set_now(group(1), Offset{0}).has_value());
    EXPECT_TRUE(rig.set_now(group(2), Offset{0}).has_value());
    rig.restart();
    for (int run = 0; run < 2; ++run) {
        ASSERT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 0)), 1U);
        if (run == 0) {
            EXPECT_EQ(rig.stored(group(1)), Offset{0});
            (*rig.table->find(key_of(0), kLife))->forget_groups([](std::uint32_t id) {
                return id == 1;
            });
        }
        EXPECT_EQ(rig.stored(group(1)), std::nullopt);
        EXPECT_EQ(rig.stored(group(2)), Offset{0});
        EXPECT_EQ(rig.stored(consumer(1)), Offset{0});
        if (run == 0) {
            rig.world.run(rig.node, rig.table->checkpoint());
            rig.restart(runtime_sim::CrashKind::kProcess);  // its file is gone
        }
    }
    EXPECT_TRUE(rig.set_now(group(3), Offset{0}).has_value()) << "they count no more";
}

/// Ten messages, two in a segment; the log of the messages 4 and 5 is gone.
void lose_a_segment(TableRig& rig) {
    rig.options.segment_size_bytes = 2000;
    rig.options.messages_required_to_save = 1;
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(0, 1000).has_value());
    }
    rig.stop();
    ASSERT_EQ(
        rig.node.disk->unlink("/data/streams/0/topics/0/partitions/0/00000000000000000004.log"), 0);
    rig.world.restart(rig.node, runtime_sim::CrashKind::kProcess);
    rig.start();
}

Task<Result<storage::ReadSlices>> poll_by(TableRig& rig, wire::PollingStrategy strategy,
                                          std::uint32_t count) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await TableRig::open(rig, kLife));
    GALGO_CO_TRY_ASSIGN(PollResult polled, co_await handle->poll({.consumer = TableRig::kConsumer,
                                                                  .strategy = strategy,
                                                                  .count = count,
                                                                  .bytes_max = kMiB}));
    co_return std::move(polled.read);
}

// Who names an offset is told that it is lost. Others begin with what there is.
TEST(LostMessages, AreToldToPollsThatWantThem) {
    using wire::PollingKind;
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(lose_a_segment(rig));
    const auto poll = [&rig](PollingKind kind, std::uint64_t value, std::uint32_t count) {
        return rig.world.run(rig.node, poll_by(rig, {.kind = kind, .value = value}, count));
    };
    const auto expect_lost = [&](PollingKind kind, std::uint64_t value) {
        const Result<storage::ReadSlices> got = poll(kind, value, 100);
        ASSERT_FALSE(got.has_value());
        EXPECT_EQ(got.error().code, ErrorCode::kCannotReadMessage);
    };
    const auto expect_read = [&](const Result<storage::ReadSlices>& got, std::uint64_t first,
                                 std::uint32_t count) {
        ASSERT_TRUE(got.has_value()) << to_string(got.error());
        EXPECT_EQ(got->message_count, count);
        EXPECT_EQ(got->first, Offset{first});
    };
    expect_read(poll(PollingKind::kOffset, 0, 100), 0, 4);
    expect_read(poll(PollingKind::kOffset, 3, 100), 3, 1);
    expect_lost(PollingKind::kOffset, 4);
    expect_lost(PollingKind::kOffset, 5);
    expect_read(poll(PollingKind::kOffset, 6, 100), 6, 4);
    expect_read(poll(PollingKind::kFirst, 0, 100), 0, 4);
    expect_read(poll(PollingKind::kLast, 0, 3), 7, 3);
    expect_read(poll(PollingKind::kLast, 0, 5), 6, 4);  // begins in the hole
    expect_read(poll(PollingKind::kTimestamp, 0, 100), 0, 4);
    EXPECT_EQ(poll(PollingKind::kOffset, 10, 1)->message_count, 0U);

    expect_read(poll(PollingKind::kNext, 0, 100), 0, 4);  // nothing stored
    ASSERT_TRUE(rig.set_now(TableRig::kConsumer, Offset{3}).has_value());
    expect_lost(PollingKind::kNext, 0);
    EXPECT_FALSE(rig.poll_now(TableRig::kConsumer).has_value());
    EXPECT_EQ(rig.stored(TableRig::kConsumer), Offset{3}) << "an auto-commit has passed it";
    ASSERT_TRUE(rig.set_now(TableRig::kConsumer, Offset{5}).has_value());  // on purpose
    expect_read(poll(PollingKind::kNext, 0, 100), 6, 4);
}

}  // namespace
}  // namespace galgo::partitions

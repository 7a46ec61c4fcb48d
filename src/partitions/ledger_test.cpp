// The ledger of a table of partitions: what is taken away from outside is noticed at the next
// start.
#include "storage/ledger.hpp"

#include "test_table.hpp"

namespace galgo::partitions {
namespace {

using runtime_sim::CrashKind;

constexpr ConsumerKey kOther{.kind = wire::ConsumerKind::kGroup, .id = 2};
const std::string kPartition = "/data/streams/0/topics/0/partitions/0";

/// Ten messages and two stored offsets, in files that no journal backs.
void fill(TableRig& rig) {
    rig.boot_number = 1;
    rig.restart(CrashKind::kProcess);
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(0, 100).has_value());
    }
    ASSERT_TRUE(rig.set_now(TableRig::kConsumer, Offset{4}).has_value());
    ASSERT_TRUE(rig.set_now(kOther, Offset{6}).has_value());
    rig.checkpoint();
    rig.restart(CrashKind::kProcess);
    ASSERT_TRUE(
        rig.world
            .run(rig.node, rig.table->open(key_of(0), kLife, rig.options, [](const Counters&) {}))
            .has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.replay.remove_files(*rig.node.io)).has_value());
    ASSERT_EQ(rig.stored_now(), Offset{4});
}

/// Stopped, with its disk to be looked at; start() comes next.
void halt(TableRig& rig) {
    EXPECT_TRUE(rig.stop());
    rig.world.restart(rig.node, CrashKind::kProcess, runtime_sim::UnsyncedFate::kKeepAll);
}

ErrorCode stored_code(TableRig& rig) {
    const auto stored = rig.world.run(rig.node, TableRig::stored(rig, kLife));
    return stored.has_value() ? ErrorCode::kOk : stored.error().code;
}

TEST(PartitionLedger, TheFileOfAStoredOffsetThatIsGoneIsMissed) {
    for (const CrashKind kind : {CrashKind::kProcess, CrashKind::kPower}) {
        SCOPED_TRACE(static_cast<int>(kind));
        TableRig rig;
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        halt(rig);
        rig.boot_number += kind == CrashKind::kPower ? 1 : 0;
        ASSERT_GE(rig.node.disk->unlink(kPartition + "/offsets/consumers/1"), 0);
        for (int start = 0; start < 3; ++start) {
            rig.start();
            EXPECT_EQ(stored_code(rig), ErrorCode::kCannotReadConsumerOffsets);
            EXPECT_EQ(rig.stored(kOther), Offset{6});
            halt(rig);
        }
        rig.start();
        ASSERT_EQ(stored_code(rig), ErrorCode::kCannotReadConsumerOffsets);
        ASSERT_TRUE(rig.set_now(TableRig::kConsumer, Offset{5}).has_value());
        EXPECT_EQ(rig.stored_now(), Offset{5});
        rig.restart(kind);
        EXPECT_EQ(rig.stored_now(), Offset{5});
    }
}

// Whenever the process ends: before the file goes, behind it, before a ledger says so.
TEST(PartitionLedger, AnOffsetThatWasDeletedIsNotMissed) {
    for (const bool checkpoints : {true, false}) {
        for (const bool writes : {true, false}) {
            SCOPED_TRACE(testing::Message() << checkpoints << writes);
            TableRig rig;
            ASSERT_NO_FATAL_FAILURE(fill(rig));
            ASSERT_TRUE(rig.set_now(TableRig::kConsumer, std::nullopt).has_value());
            if (checkpoints) {
                rig.checkpoint();
            }
            if (writes) {
                rig.world.run(rig.node, rig.table->write_ledger());
            }
            rig.crash(CrashKind::kProcess);
            rig.start();
            EXPECT_EQ(stored_code(rig), ErrorCode::kOk);
            EXPECT_EQ(rig.stored_now(), std::nullopt);
        }
    }
}

// The ledger is not synced: after a loss of power an old one may name what was deleted since.
TEST(PartitionLedger, AnOldLedgerDoesNotMissWhatWasDeletedSince) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    rig.world.run(rig.node, rig.table->write_ledger());
    const auto old = rig.node.disk->read_file("/data/state/ledger-0");
    ASSERT_TRUE(rig.set_now(TableRig::kConsumer, std::nullopt).has_value());
    rig.checkpoint();
    halt(rig);
    for (const auto& entry : *rig.node.io->list_directory("/data/state")) {
        if (entry.name.starts_with("journal")) {  // used again, and so without the deletion
            ASSERT_GE(rig.node.disk->unlink("/data/state/" + entry.name), 0);
        }
    }
    rig.node.disk->write_file("/data/state/ledger-0", *old);
    ++rig.boot_number;
    rig.start();
    EXPECT_EQ(stored_code(rig), ErrorCode::kOk);
    EXPECT_EQ(rig.stored(kOther), Offset{6});
}

TEST(PartitionLedger, APartitionWithoutItsDirectoryIsMissed) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    halt(rig);
    for (const char* name :
         {"/00000000000000000000.log", "/00000000000000000000.index", "/incarnation",
          "/offsets/consumers/1", "/offsets/groups/2", "/offsets/checkpoint"}) {
        (void)rig.node.disk->unlink(kPartition + name);
    }
    for (int start = 0; start < 2; ++start) {
        rig.start();
        EXPECT_TRUE(rig.table->has_files(key_of(0), kLife));
        EXPECT_FALSE(rig.table->has_files(key_of(2), kLife));
        EXPECT_EQ(stored_code(rig), ErrorCode::kCannotReadConsumerOffsets);
        EXPECT_FALSE(rig.append_now(0, 100).has_value());
        EXPECT_TRUE(rig.append_now(1, 100).has_value());
        EXPECT_EQ(rig.table->faults().size(), 1U);
        halt(rig);
    }
    rig.start();
}

// A life that ends takes what is claimed of it along; the next one begins without.
TEST(PartitionLedger, TheNextLifeMissesNothing) {
    TableRig rig;
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    rig.trash.note_retired(key_of(0), kLife);
    rig.world.run(rig.node, rig.table->retire(key_of(0), kLife.next(), false));
    rig.crash(CrashKind::kProcess);
    rig.start();
    EXPECT_EQ(rig.stored_now(kLife.next()), std::nullopt);
    EXPECT_TRUE(rig.table->faults().empty());
}

// The journal file with the records of many batches is used again: from then on the ledger alone
// tells of them.
TEST(PartitionLedger, IsWrittenBeforeAJournalFileIsUsedAgain) {
    TableRig rig;
    rig.options.messages_required_to_save = 1;
    rig.options.persisted = false;
    rig.boot_number = 1;
    rig.restart(CrashKind::kProcess);
    std::uint64_t end = 0;
    for (int i = 0; i < 60; ++i) {  // of 30 kB each: a journal has 4 files of 128 KiB
        ASSERT_TRUE(rig.append_now(0, 30'000).has_value());
        ++end;
        rig.world.run_for(10 * kMillisecond);
    }
    rig.crash(CrashKind::kProcess);
    const auto claims =
        rig.world.run(rig.node, storage::load_ledgers(*rig.node.io, "/data/state", 1));
    ASSERT_EQ(claims.size(), 1U);
    EXPECT_GT(claims.begin()->second.written.files, Offset{end / 2});
    rig.start();
    EXPECT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 0)), end);
    EXPECT_TRUE(rig.table->faults().empty());
}

}  // namespace
}  // namespace galgo::partitions

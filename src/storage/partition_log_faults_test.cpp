// What a partition log keeps to when the disk or the journal does not: fences, pressure, idle
// files.
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

constexpr LogOptions kPersistedUntilAsked{
    .messages_required_to_save = 1'000'000, .size_required_to_save = 1 * kGiB, .persisted = true};

coro::Task<Status> append_two(Rig& rig) {
    auto [first, second] = co_await coro::all(rig.append(1, 100'000), rig.append(1, 100'000));
    co_return first.has_value() ? second : first;
}

/// What the stop says; the machine then ends as `kind` does.
Status stop_and_tell(Rig& rig, CrashKind kind) {
    const Status stopped = rig.world.run(rig.node, Rig::shut_down(rig));
    rig.destroy();
    rig.world.restart(rig.node, kind, UnsyncedFate::kLoseAll);
    return stopped;
}

TEST(PartitionLogStop, AFenceOfTheStartIsNoFailureOfTheStop) {
    Rig rig(40);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    ASSERT_TRUE(stop_and_tell(rig, CrashKind::kProcess).has_value());
    rig.node.disk->write_file(kTestLogDirectory + "/fenced", {});
    for (int i = 0; i < 2; ++i) {
        rig.start();
        ASSERT_TRUE(rig.log->fenced().has_value());
        EXPECT_TRUE(stop_and_tell(rig, CrashKind::kProcess).has_value());
    }
}

// The kernel calls pages clean on whose write-back a sync has failed: a later sync passes them.
TEST(PartitionLogStart, WritesAgainWhatAFailedSyncLeftInThePageCache) {
    for (const bool persisted : {false, true}) {
        for (const bool stops : {false, true}) {
            Rig rig(42, {.persisted = persisted});
            rig.start();
            ASSERT_TRUE(rig.append_now(2, 5'000).has_value());
            rig.restart();  // an index entry proves those
            for (int i = 0; i < 5; ++i) {
                ASSERT_TRUE(rig.append_now(2, 5'000).has_value());
            }
            rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = ".log"});
            EXPECT_FALSE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
            if (stops) {
                (void)stop_and_tell(rig, CrashKind::kProcess);
            } else {
                rig.crash(CrashKind::kProcess);
            }
            rig.start();
            rig.verify(true);
            rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
            rig.start();
            EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
            rig.verify(true);
            rig.stop();
        }
    }
}

TEST(PartitionLogStop, WhatTheJournalsHoldIsKept) {
    for (const bool persisted : {false, true}) {
        Rig rig(41, {.persisted = persisted});
        rig.start();
        const CrashKind end = persisted ? CrashKind::kPower : CrashKind::kProcess;
        rig.node.disk->add_fault(
            {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1000, .error = ENOSPC});
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(2, 100).has_value());
        }
        EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
        EXPECT_TRUE(stop_and_tell(rig, end).has_value());
        rig.start();  // the disk is still full: now it is the journals of an earlier run
        EXPECT_FALSE(rig.log->recovery_complete());
        EXPECT_TRUE(stop_and_tell(rig, end).has_value());
        rig.node.disk->clear_faults();
        rig.start();
        rig.verify(true);
        EXPECT_TRUE(rig.append_now(1, 100).has_value());
        rig.stop();
    }
}

// The write has failed for good; what was written before it can still be made stable.
TEST(PartitionLogStop, WhatWasWrittenBeforeAFenceIsSynced) {
    for (const bool rested : {false, true}) {
        Rig rig(42);
        rig.start();
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        rig.node.disk->add_fault(
            {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = EIO});
        EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
        ASSERT_EQ(rig.log->fenced()->retry, RetryClass::kNever);
        for (int i = 0; rested && i < 3; ++i) {  // it lets go of its files
            rig.log->rest();
            rig.world.run_for(kSecond);
        }
        EXPECT_TRUE(stop_and_tell(rig, CrashKind::kPower).has_value());
        rig.start();
        rig.verify(true);
        rig.stop();
    }
}

// The disk is full for what is still in memory; what was written before is made stable all the
// same.
TEST(PartitionLogStop, WhatWasWrittenBeforeAFullDiskIsSynced) {
    Rig rig(45);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1000, .error = ENOSPC});
    EXPECT_TRUE(stop_and_tell(rig, CrashKind::kPower).has_value());
    rig.node.disk->clear_faults();
    rig.start();
    EXPECT_EQ(rig.read_now(Offset{0}, 1)->message_count, 1U);
    rig.stop();
}

TEST(PartitionLogStop, AFailedSyncIsAFailureWhereNoJournalHelps) {
    for (const bool persisted : {false, true}) {
        for (const bool before : {false, true}) {
            Rig rig(43, {.persisted = persisted});
            rig.start();
            ASSERT_TRUE(rig.append_now(1, 100).has_value());
            ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
            rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = ".log", .times = 1});
            if (before) {
                EXPECT_FALSE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
            }
            EXPECT_EQ(stop_and_tell(rig, CrashKind::kPower).has_value(), persisted);
            rig.start();
            rig.verify(persisted);
            rig.stop();
        }
    }
}

// The kernel reports it once; the sync after it succeeds and has stored nothing.
TEST(PartitionLogFaults, ASyncThatFailedForRoomIsNotRepeated) {
    Rig rig(1, {.segment_size = 50'000, .persisted = true});
    rig.start();
    for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(rig.append_now(1, 10'000).has_value());
    }
    rig.node.disk->add_fault(
        {.op = DiskOp::kSync, .path_contains = ".log", .times = 1, .error = ENOSPC});
    const Status rolled = rig.world.run(rig.node, rig.log->force_flush());
    ASSERT_EQ(rig.node.disk->fault_count(), 1U);
    EXPECT_FALSE(rolled.has_value());
    ASSERT_TRUE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.log->fenced()->retry, RetryClass::kNever);
    rig.world.run_for(2 * kSecond);
    EXPECT_FALSE(rig.append_now(1, 10'000).has_value());
    EXPECT_EQ(rig.journal->stats().live_record_count, 8U);
    rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    rig.start();
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLogFaults, AFullDiskDoesNotReplaceAFailedSync) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Rig rig(seed, {.persisted = true});
        rig.start();
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = ".log", .times = 1});
        rig.node.disk->add_fault({.op = DiskOp::kWrite,
                                  .path_contains = ".log",
                                  .skip = 1,
                                  .times = 100,
                                  .error = ENOSPC});
        EXPECT_FALSE(rig.world.run(rig.node, append_two(rig)).has_value());
        rig.node.disk->clear_faults();
        ASSERT_TRUE(rig.log->fenced().has_value());
        EXPECT_EQ(rig.log->fenced()->retry, RetryClass::kNever) << "seed " << seed;
        rig.world.run_for(2 * kSecond);
        EXPECT_FALSE(rig.append_now(1, 10'000).has_value()) << "seed " << seed;
        rig.crash(CrashKind::kPower);
        rig.start();
        rig.verify(true);
        rig.stop();
    }
}

// Nothing but the pressure ever flushes this log: 4 MiB go through a journal of 1.5 MiB.
TEST(PartitionLogFaults, PressureReleasesTheJournalOfAPersistedLog) {
    Rig rig(2, kPersistedUntilAsked);
    rig.start();
    for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(rig.append_now(1, 20'000).has_value());
    }
    rig.verify(true);
    rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    rig.start();
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLogFaults, WrittenRecordsPinUntilTheyAreStable) {
    Rig rig(3, kPersistedUntilAsked);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 50'000).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
    for (int i = 0; i < 6; ++i) {
        ASSERT_TRUE(rig.append_now(1, 50'000).has_value());
    }
    EXPECT_TRUE(rig.log->pins_journal(1, 1)) << "written, and the tail begins there, too";
    EXPECT_TRUE(rig.log->pins_journal(2, 2));
    EXPECT_FALSE(rig.log->pins_journal(3, 9));
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
    ASSERT_TRUE(rig.append_now(1, 50'000).has_value());
    EXPECT_TRUE(rig.log->pins_journal(1, 1)) << "the tail does not";
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
    EXPECT_EQ(rig.journal->stats().live_record_count, 8U);
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->release_journal()).has_value());
    EXPECT_EQ(rig.journal->stats().live_record_count, 0U) << "with an empty tail";
    EXPECT_FALSE(rig.log->pins_journal(0, 9));
    rig.stop();
}

// A flush that ends while an earlier one is synced asks for a sync of its own.
TEST(PartitionLogFaults, WhatIsFlushedDuringASyncIsSynced) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Rig rig(seed, {.messages_required_to_save = 1, .persisted = true});
        rig.start();
        for (int i = 0; i < 20; ++i) {
            ASSERT_TRUE(rig.append_now(1, 1000).has_value());
        }
        rig.world.run_for(kSecond);
        EXPECT_EQ(rig.log->stats().unsynced_bytes, 0U) << "seed " << seed;
        EXPECT_EQ(rig.journal->stats().live_record_count, 0U) << "seed " << seed;
        rig.stop();
    }
}

TEST(PartitionLogFaults, ReleaseOfTheJournalIsTriedAgainWhenThereIsRoom) {
    Rig rig(4, kPersistedUntilAsked);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
    EXPECT_FALSE(rig.world.run(rig.node, rig.log->release_journal()).has_value());
    EXPECT_FALSE(rig.world.run(rig.node, rig.log->release_journal()).has_value());
    rig.world.run_for(kSecond + kMillisecond);
    EXPECT_TRUE(rig.world.run(rig.node, rig.log->release_journal()).has_value());
    EXPECT_FALSE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.journal->stats().live_record_count, 0U);
    rig.stop();
}

// All of it is known as stable then, also after a kill: damage is no trace of a crash.
TEST(PartitionLogFaults, ALogAtRestHasAnEntryOfItsLastBatch) {
    for (const bool persisted : {false, true}) {
        Rig rig(62, {.size_required_to_save = 1, .persisted = persisted});
        rig.start();
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(1, 5000).has_value());
        }
        for (int i = 0; i < 4; ++i) {
            rig.log->rest();
            rig.world.run_for(kSecond);
        }
        EXPECT_EQ(rig.context->files.open_count(), 0U);
        const auto index = *rig.node.disk->read_file(index_path(0));
        ASSERT_GE(index.size(), kIndexEntryBytes);
        const std::optional<IndexEntry> last = decode_index_entry(
            ConstBytes(index).subspan(index.size() - kIndexEntryBytes, kIndexEntryBytes),
            index_seed(kTestKey, rig.incarnation, Offset{0}));
        ASSERT_TRUE(last.has_value());
        EXPECT_EQ(last->offset, Offset{4});
        rig.crash(CrashKind::kProcess);
        rig.start();
        rig.verify(true);
    }
}

// What was taken when the segment began is there for all of it, and goes back with its end.
TEST(PartitionLogFaults, APreallocatedSegmentIsFilledOnAFullDisk) {
    constexpr std::uint64_t kSegment = 1 * kMiB;
    Rig rig(60, {.segment_size = kSegment, .size_required_to_save = 1, .preallocate = true});
    rig.start();
    runtime_sim::SimDisk& disk = *rig.node.disk;
    const std::uint64_t before = disk.used_bytes();
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    EXPECT_GE(disk.used_bytes(), before + kSegment);
    disk.set_capacity(disk.used_bytes() + 16 * kKiB);  // for its index
    for (int i = 0; i < 9; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value()) << i;
    }
    const Status refused = rig.append_now(1, 100'000);  // the last one passes the segment's size
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().os_errno, ENOSPC);
    disk.set_capacity(1ULL << 40);
    rig.world.run_for(2 * kSecond);
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    EXPECT_EQ(rig.log->segment_count(), 1U);
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    ASSERT_EQ(rig.log->segment_count(), 2U);
    const std::uint64_t used = disk.used_bytes();
    const auto rolled = rig.world.run(rig.node, rig.log->roll_by_age(Timestamp{~std::uint64_t{0}}));
    ASSERT_TRUE(rolled.has_value() && *rolled);
    EXPECT_LT(disk.used_bytes(), used - kSegment + 110'000 + 16 * kKiB);
    rig.restart();
    rig.verify(true);
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
}

// A topic of many partitions would fill the disk with what nobody has sent.
TEST(PartitionLogFaults, WhereThereIsLittleRoomASegmentIsNotPreallocated) {
    constexpr std::uint64_t kSegment = 4 * kMiB;
    for (const bool refuses : {false, true}) {
        SCOPED_TRACE(refuses);
        Rig rig(63, {.segment_size = kSegment, .size_required_to_save = 1, .preallocate = true});
        rig.start();
        runtime_sim::SimDisk& disk = *rig.node.disk;
        if (refuses) {
            disk.add_fault({.op = DiskOp::kAllocate, .times = 1, .error = ENOSPC});
        } else {
            disk.set_capacity(disk.used_bytes() + kSegment + 100 * kKiB);
        }
        const std::uint64_t before = disk.used_bytes();
        for (int i = 0; i < 10; ++i) {
            ASSERT_TRUE(rig.append_now(1, 100'000).has_value()) << i;
        }
        EXPECT_LT(disk.used_bytes(), before + 2 * kMiB);
        rig.restart();
        rig.verify(true);
    }
}

TEST(PartitionLogFaults, AFileSystemThatCannotPreallocateIsUsedWithout) {
    Rig rig(61, {.size_required_to_save = 1, .preallocate = true});
    rig.start();
    rig.node.disk->add_fault({.op = DiskOp::kAllocate, .times = 1, .error = EOPNOTSUPP});
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.restart();
    rig.verify(true);
}

TEST(PartitionLogFaults, ALogAtRestHoldsNoFile) {
    Rig rig(5);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());  // written, and nobody asks for a sync
    EXPECT_EQ(rig.context->files.open_count(), 2U);
    EXPECT_FALSE(rig.log->rest()) << "it was written since";
    EXPECT_TRUE(rig.log->rest()) << "a sync";
    rig.world.run_for(kSecond);
    EXPECT_EQ(rig.log->stats().unsynced_bytes, 0U);
    EXPECT_TRUE(rig.log->rest());
    EXPECT_FALSE(rig.log->rest());
    rig.world.run_for(kSecond);
    EXPECT_EQ(rig.context->files.open_count(), 0U);
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    rig.verify(true);
    rig.restart();
    rig.verify(true);
    rig.stop();
}

// Nor one that was only read, nor the entries of its index; both come back.
TEST(PartitionLogFaults, ALogThatWasReadAtRestHoldsNoFile) {
    Rig rig(6);
    rig.start();
    for (int i = 0; i < 300; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    rig.restart();
    ASSERT_TRUE(rig.read_now(Offset{150}, 1).has_value());
    EXPECT_GT(rig.context->files.open_count(), 0U);
    EXPECT_FALSE(rig.log->rest()) << "it was read since";
    EXPECT_TRUE(rig.log->rest());
    EXPECT_FALSE(rig.log->rest());
    rig.world.run_for(kSecond);
    EXPECT_EQ(rig.context->files.open_count(), 0U);
    const auto before =
        *rig.node.disk->read_file(kTestLogDirectory + "/00000000000000000000.index");
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    rig.verify(true);
    rig.restart();
    const auto after = *rig.node.disk->read_file(kTestLogDirectory + "/00000000000000000000.index");
    ASSERT_GT(after.size(), before.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin()));
    EXPECT_EQ(rig.log->recovery().rebuilt_index_count, 0U);
    rig.verify(true);
    rig.stop();
}

// kill -9 between the making of the directories and their syncs; then power, behind an append.
TEST(PartitionLogFaults, DirectoriesOfAKilledProcessAreSynced) {
    int ended = 0;
    for (std::uint64_t after = 1; after <= 60; ++after) {
        Rig rig(after, {.persisted = true});
        rig.start();
        rig.node.io->crash_after(after);
        const auto done = rig.world.run_until_crash(rig.node, rig.append(1, 100'000));
        ended += done.has_value() ? 1 : 0;
        rig.crash(CrashKind::kProcess);
        rig.start();
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
        rig.start();
        ASSERT_NO_FATAL_FAILURE(rig.verify(true)) << "killed behind " << after;
        rig.stop();
    }
    EXPECT_GT(ended, 0);
    EXPECT_LT(ended, 60);
}

}  // namespace
}  // namespace galgo::storage

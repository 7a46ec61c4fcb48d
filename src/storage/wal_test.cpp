// The metadata log on the simulated disk: group commit, torn tails, errors. Faults of every place
// are in metadata_faults_test.cpp, crashes with snapshots in metadata_files_test.cpp.
#include <gtest/gtest.h>

#include "observe/histogram.hpp"
#include "test_metadata.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::CrashKind;
using runtime_sim::DiskOp;

struct WalRig : MetadataRig {
    explicit WalRig(std::uint64_t seed) : MetadataRig(seed) {
        world.run(node, runtime::make_directories(*node.io, kMetadataDirectory));
        node.disk->sync_all();
        options.region_bytes = 16 * kWalBlockBytes;
    }
    [[nodiscard]] Wal& wal() const { return files->wal(); }
    [[nodiscard]] std::uint64_t region() const { return options.region_bytes; }
    Status try_append(std::uint64_t value) { return world.run(node, append_one(*this, value, 8)); }
};

const std::string kFirst = "/metadata/journal.wal.0000000001";

TEST(Wal, SurvivesPowerLossOnceAcknowledged) {
    WalRig rig(1);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t op = 1; op <= 5; ++op) {
        rig.append(op);
    }
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1, 2, 3, 4, 5}));
    EXPECT_FALSE(rig.wal().was_torn());
    EXPECT_EQ(rig.wal().healed_count(), 0U);
}

TEST(Wal, CommitsAGroupWithOneBarrier) {
    WalRig rig(2);
    ASSERT_EQ(rig.open(), "");
    const auto many = [](WalRig& r) -> Task<bool> {
        auto [a, b, c] =
            co_await coro::all(MetadataRig::append_one(r, 1, 10), MetadataRig::append_one(r, 2, 8),
                               MetadataRig::append_one(r, 3, 1000));
        co_return a.has_value() && b.has_value() && c.has_value();
    };
    EXPECT_TRUE(rig.world.run(rig.node, many(rig)));
    EXPECT_EQ(rig.wal().barrier_count(), 1U);
    EXPECT_EQ(rig.wal().batch_count(), 1U);
    EXPECT_EQ(rig.wal().entry_count(), 3U);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1, 2, 3}));
}

TEST(Wal, WithoutBarriersItCountsNone) {
    WalRig rig(2);
    rig.options.barriers = false;
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    EXPECT_EQ(rig.wal().barrier_count(), 0U);
    rig.crash(CrashKind::kProcess);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1}));
}

/// A batch of which neither copy was completed.
TEST(Wal, ATornTailEndsTheLogAndIsNotWrittenOver) {
    for (const std::size_t at : {0U, 20U, 64U, 200U, 4095U}) {
        WalRig rig(3);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        rig.drop();
        rig.world.restart(rig.node, CrashKind::kProcess);
        const std::uint64_t position = 2 * kWalBlockBytes + at;
        ASSERT_TRUE(rig.node.disk->corrupt(kFirst, position, 4));
        ASSERT_TRUE(rig.node.disk->corrupt(kFirst, rig.region() + position, 4));
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1}));
        EXPECT_TRUE(rig.wal().was_torn());
        const auto before = rig.node.disk->read_file(kFirst);
        rig.go_on();
        rig.append(22);
        EXPECT_EQ(rig.node.disk->read_file(kFirst), before);
        EXPECT_EQ(rig.wal().file_count(), 2U);
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 22}));
    }
}

TEST(Wal, AMarkTellsRotOfTheLastBatchFromATornOne) {
    WalRig rig(4);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.append(2);
    rig.wal().tick();  // it was written to since the last one
    rig.world.run_for(kMillisecond * 100);
    EXPECT_EQ(rig.wal().batch_count(), 2U);
    rig.wal().tick();
    rig.world.run_for(kMillisecond * 100);
    EXPECT_EQ(rig.wal().batch_count(), 3U);
    rig.wal().tick();
    rig.wal().tick();
    rig.world.run_for(kMillisecond * 100);
    EXPECT_EQ(rig.wal().batch_count(), 3U);
    rig.crash(CrashKind::kPower);
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        ASSERT_TRUE(
            rig.node.disk->corrupt(kFirst, copy * rig.region() + 2 * kWalBlockBytes + 70, 1));
    }
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find(kFirst), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("position 8192"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("restore the metadata directory"), std::string::npos) << refusal;
}

TEST(Wal, OneRottenCopyIsRestored) {
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        WalRig rig(5);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.drop();
        rig.world.restart(rig.node, CrashKind::kProcess);
        const auto whole = rig.node.disk->read_file(kFirst);
        ASSERT_TRUE(rig.node.disk->corrupt(kFirst, copy * rig.region() + kWalBlockBytes + 300, 1));
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1}));
        EXPECT_EQ(rig.wal().healed_count(), 1U);
        EXPECT_EQ(rig.node.disk->read_file(kFirst), whole);
    }
}

TEST(Wal, GoesOnInTheNextFile) {
    WalRig rig(6);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t op = 1; op <= 40; ++op) {
        rig.append(op);
    }
    EXPECT_EQ(rig.wal().file_count(), 3U);
    rig.append(41, 300'000);  // larger than a file
    rig.append(42);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state.size(), 42U);
    EXPECT_EQ(rig.state, rig.attempted);
}

TEST(Wal, AFullDiskRefusesUntilThereIsRoom) {
    WalRig rig(7);
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = "0000000002", .times = 1000, .error = ENOSPC});
    ASSERT_EQ(rig.open(), "");  // it goes without a reserve
    rig.append(1);
    for (std::uint64_t op = 2; op <= 15; ++op) {
        rig.append(op);  // what is made does not need room
    }
    rig.world.run_for(kSecond);  // the next file was tried
    EXPECT_FALSE(rig.wal().has_room(300));
    const Status refused = rig.try_append(16);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().os_errno, ENOSPC);
    EXPECT_FALSE(rig.wal().poisoned());
    rig.node.disk->clear_faults();
    (void)rig.wal().has_room(300);
    rig.world.run_for(kSecond);
    EXPECT_TRUE(rig.wal().has_room(300));
    rig.append(17);  // the number of what was refused is not given again
    rig.append(18);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    ASSERT_EQ(rig.state.size(), 18U);
    EXPECT_EQ(rig.state[14], 15U);
    EXPECT_EQ(rig.state[15], 0U);
    EXPECT_EQ(rig.state[16], 17U);
    EXPECT_EQ(rig.state[17], 18U);
}

// No number is spent on a file that cannot be opened: that is found out before it is needed.
TEST(Wal, ANextFileThatCannotBeOpenedIsNoRoom) {
    WalRig rig(14);
    rig.node.disk->add_fault({.op = DiskOp::kOpen,
                              .path_contains = "0000000002",
                              .skip = 1,  // it can be made
                              .times = 1000,
                              .error = EMFILE});
    ASSERT_EQ(rig.open(), "");  // it goes without a reserve
    rig.append(1);
    for (std::uint64_t op = 2; op <= 15; ++op) {
        rig.append(op);
    }
    rig.world.run_for(kSecond);
    EXPECT_FALSE(rig.wal().has_room(300));
    EXPECT_FALSE(rig.wal().poisoned());
    rig.node.disk->clear_faults();
    (void)rig.wal().has_room(300);
    rig.world.run_for(kSecond);
    EXPECT_TRUE(rig.wal().has_room(300));
    rig.append(16);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, rig.attempted);
}

// Once the larger one may have the name, the smaller one is not relied on.
TEST(Wal, AFileThatIsReplacedByALargerOneIsForgottenFirst) {
    for (const DiskOp op : {DiskOp::kRename, DiskOp::kSync}) {
        WalRig rig(15);
        ASSERT_EQ(rig.open(), "");
        for (std::uint64_t i = 1; i <= 10; ++i) {
            rig.append(i);
        }
        rig.world.run_for(kSecond);  // the next file is made ahead
        rig.node.disk->add_fault({.op = op,
                                  .path_contains = "metadata",
                                  .skip = op == DiskOp::kSync ? 1U : 0U,
                                  .times = 1});
        EXPECT_FALSE(
            rig.world.run(rig.node, MetadataRig::append_one(rig, 11, 300'000)).has_value());
        EXPECT_FALSE(rig.wal().poisoned());
        for (std::uint64_t i = 12; i <= 40; ++i) {
            rig.append(i);
        }
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state.size(), 40U);
        EXPECT_EQ(rig.state[10], 0U);
        EXPECT_EQ(rig.state[39], 40U);
    }
}

// What is queued behind a refused entry is tried for itself: the disk may have room for it.
TEST(Wal, ARefusedEntryLeavesNothingOfItself) {
    WalRig rig(13);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.node.disk->set_capacity(rig.node.disk->used_bytes() + 40 * kWalBlockBytes);
    const auto large_and_small = [](WalRig& r) -> Task<std::pair<bool, bool>> {
        auto [large, small] = co_await coro::all(MetadataRig::append_one(r, 2, 1'100'000),
                                                 MetadataRig::append_one(r, 3, 8));
        co_return std::pair(large.has_value(), small.has_value());
    };
    EXPECT_EQ(rig.world.run(rig.node, large_and_small(rig)), std::pair(false, true));
    EXPECT_FALSE(rig.wal().poisoned());
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1, 0, 3}));
}

TEST(Wal, RefusesToBeginAnewWhereEntriesHaveBeen) {
    WalRig rig(31);
    rig.options.required_by = "data is there";
    EXPECT_NE(rig.open().find("superblock is missing, but data is there"), std::string::npos);
    EXPECT_TRUE(rig.node.disk->list_all().size() <= 1) << "nothing was made";
    rig.options.required_by.clear();
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.drop();
    rig.world.restart(rig.node, CrashKind::kProcess);
    // Neither copy of the only entry: without the proof a write that was never acknowledged.
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        ASSERT_TRUE(rig.node.disk->corrupt(kFirst, copy * rig.region() + kWalBlockBytes + 70, 1));
    }
    const auto before = rig.node.disk->read_file(kFirst);
    rig.options.required_by = "data is there";
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find("have no entry at position 4096"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("but data is there"), std::string::npos) << refusal;
    EXPECT_EQ(rig.node.disk->read_file(kFirst), before);
    rig.options.required_by.clear();
    ASSERT_EQ(rig.open(), "");
    EXPECT_TRUE(rig.state.empty());
}

// What a killed process left in the page cache is on the disk before a start builds on it.
TEST(Wal, AStartWritesAgainWhatItFinds) {
    WalRig rig(32);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.crash(CrashKind::kProcess);
    rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = "journal.wal", .times = 1});
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find("cannot write the last batch of " + kFirst), std::string::npos)
        << refusal;
    rig.node.disk->clear_faults();
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1}));
    rig.crash(CrashKind::kPower, runtime_sim::UnsyncedFate::kLoseAll);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1}));
}

TEST(Wal, RecordsTheTimeOfBarriers) {
    observe::Histogram times;
    WalRig rig(33);
    ASSERT_EQ(rig.open(), "");
    rig.wal().measure_syncs(times);
    rig.append(1);
    EXPECT_EQ(times.count(), 1U);
    EXPECT_GT(times.sum(), 0U);
}

TEST(Wal, AFailedSyncOrWriteEndsAppends) {
    for (const DiskOp op : {DiskOp::kSync, DiskOp::kWrite}) {
        WalRig rig(8);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.node.disk->add_fault({.op = op, .path_contains = "journal.wal", .times = 1});
        EXPECT_FALSE(rig.try_append(2).has_value());
        EXPECT_TRUE(rig.wal().poisoned());
        EXPECT_FALSE(rig.try_append(3).has_value());
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_GE(rig.state.size(), 1U);
        EXPECT_LE(rig.state.size(), 2U);
    }
}

TEST(Wal, AMissingFileIsRefused) {
    WalRig rig(9);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.close();
    ASSERT_EQ(rig.node.disk->unlink(kFirst), 0);
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find(kFirst + " is missing"), std::string::npos) << refusal;
}

TEST(Wal, ClientBytesNeverPassForABatch) {
    // The body holds, at the start of a block, what was a batch of another directory.
    const WalSeal other{.salt = 78, .generation = 1};
    std::vector<std::byte> forged(kWalBlockBytes);
    seal_wal_batch(forged, {.sequence = 99, .size_bytes = kWalBlockBytes}, other);
    EXPECT_TRUE(decode_wal_batch(forged, 0, other).has_value());
    EXPECT_FALSE(decode_wal_batch(forged, 0, {.salt = 77, .generation = 1}).has_value());
    EXPECT_FALSE(decode_wal_batch(forged, 0, {.salt = 78, .generation = 2}).has_value());
}

}  // namespace
}  // namespace galgo::storage

// Starts of the metadata group's files on a disk that is in doubt: a sync failed and the process
// ended, so that the page cache shows what the disk does not have; a copy rotted unseen; files
// stand there that the superblock does not name. What a start has shown, and what was acknowledged
// before or behind it, is there after the next.
#include <gtest/gtest.h>

#include "test_restart.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

// ---- a failed sync, a restart, a power loss
// --------------------------------------------------------------------------------------------------

// One of the two syncs of an update fails, and the power goes in the middle of the next update.
TEST(MetadataRestart, AFailedSyncOfTheSuperblockIsNotBuiltUpon) {
    for (const Power& power : powers()) {
        for (const std::uint64_t half : {0ULL, 1ULL}) {
            for (std::uint64_t n = 0; n < 12; ++n) {
                RestartRig rig(power.seed);
                ASSERT_EQ(rig.open(), "");
                for (std::uint64_t op = 1; op <= 3; ++op) {
                    rig.append(op);
                }
                rig.world.run_for(kSecond);
                rig.disk().add_fault(
                    {.op = DiskOp::kSync, .path_contains = "superblock", .skip = half});
                ASSERT_FALSE(rig.try_append(4).has_value());
                rig.crash(CrashKind::kProcess);
                ASSERT_EQ(rig.open(), "");
                rig.go_on();
                for (std::uint64_t op = 4; op <= 6; ++op) {
                    rig.append(op);
                }
                rig.world.run_for(kSecond);
                rig.node.io->crash_after(n);
                (void)rig.world.run_until_crash(rig.node, MetadataRig::append_one(rig, 7, 8));
                rig.crash(CrashKind::kPower, power.fate);
                ASSERT_EQ(rig.open(), "") << "seed " << power.seed << " half " << half << " " << n;
                rig.state.resize(6);
                ASSERT_EQ(rig.state, (TestState{1, 2, 3, 4, 5, 6}));
            }
        }
    }
}

TEST(MetadataRestart, AFailedSyncOfASnapshotsSuperblockIsNotBuiltUpon) {
    for (const Power& power : powers()) {
        for (const std::uint64_t half : {0ULL, 1ULL}) {
            for (std::uint64_t n = 0; n < 14; ++n) {
                RestartRig rig(power.seed);
                ASSERT_EQ(rig.open(), "");
                for (std::uint64_t op = 1; op <= 5; ++op) {
                    rig.append(op);
                }
                rig.snapshot();
                rig.append(6);
                rig.disk().add_fault(
                    {.op = DiskOp::kSync, .path_contains = "superblock", .skip = half});
                ASSERT_FALSE(rig.try_snapshot().has_value());
                rig.crash(CrashKind::kProcess);
                ASSERT_EQ(rig.open(), "");
                rig.go_on();
                rig.append(7);
                rig.node.io->crash_after(n);
                (void)rig.world.run_until_crash(rig.node,
                                                MetadataRig::install(rig, rig.acknowledged));
                rig.crash(CrashKind::kPower, power.fate);
                ASSERT_EQ(rig.open(), "") << "seed " << power.seed << " half " << half << " " << n;
                ASSERT_EQ(rig.state, (TestState{1, 2, 3, 4, 5, 6, 7}));
            }
        }
    }
}

// The batch whose sync failed is whole in the page cache: the next start shows it.
TEST(MetadataRestart, AFailedSyncOfTheLogIsNotBuiltUpon) {
    for (const Power& power : powers()) {
        for (const bool one_copy : {false, true}) {
            RestartRig rig(power.seed);
            ASSERT_EQ(rig.open(), "");
            rig.append(1);
            // Without its second copy the batch is restored from the first.
            rig.disk().add_fault({.op = one_copy ? DiskOp::kWrite : DiskOp::kSync,
                                  .path_contains = "journal.wal.0000000001",
                                  .skip = one_copy ? 1U : 0U});
            ASSERT_FALSE(rig.try_append(2).has_value());
            rig.crash(CrashKind::kProcess);
            ASSERT_EQ(rig.open(), "");
            ASSERT_EQ(rig.state, (TestState{1, 2}));
            rig.go_on();
            for (std::uint64_t op = 3; op <= 5; ++op) {
                rig.append(op);
            }
            rig.crash(CrashKind::kPower, power.fate);
            ASSERT_EQ(rig.open(), "") << "seed " << power.seed;
            EXPECT_EQ(rig.state, (TestState{1, 2, 3, 4, 5}));
        }
    }
}

TEST(MetadataRestart, WhatAStartHasShownIsNotTakenBack) {
    for (const Power& power : powers()) {
        RestartRig rig(power.seed);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.disk().add_fault({.op = DiskOp::kSync, .path_contains = "journal.wal"});
        ASSERT_FALSE(rig.try_append(2).has_value());
        rig.crash(CrashKind::kProcess);
        ASSERT_EQ(rig.open(), "");
        rig.crash(CrashKind::kPower, power.fate);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 2})) << "seed " << power.seed;
    }
}

// A start whose own sync failed is repeated: that sync is not made good by another one.
TEST(MetadataRestart, AFailedSyncOfAStartIsNotBuiltUpon) {
    for (const Power& power : powers()) {
        for (const std::string path : {"superblock", "journal.wal"}) {
            for (std::uint64_t skip = 0; skip < 4; ++skip) {
                RestartRig rig(power.seed);
                ASSERT_EQ(rig.open(), "");
                for (std::uint64_t op = 1; op <= 4; ++op) {
                    rig.append(op);
                }
                rig.disk().add_fault({.op = DiskOp::kSync, .path_contains = path});
                (void)rig.try_append(5);
                rig.crash(CrashKind::kProcess);
                rig.disk().clear_faults();
                rig.disk().add_fault({.op = DiskOp::kSync, .path_contains = path, .skip = skip});
                const std::string first = rig.open();
                rig.disk().clear_faults();
                if (!first.empty()) {
                    ASSERT_EQ(rig.open(), "");
                }
                const TestState shown = rig.state;
                rig.crash(CrashKind::kPower, power.fate);
                ASSERT_EQ(rig.open(), "");
                EXPECT_EQ(rig.state, shown) << path << skip;
            }
        }
    }
}

// The copies are verified at a start only. One of them rots while the process runs, then the power
// goes at any operation of an update; then, for some, at any operation of the start behind it.
TEST(MetadataRestart, ACopyOfTheSuperblockRotsAndAnUpdateIsCutShort) {
    for (const Power& power : powers()) {
        for (std::uint64_t rotten = 0; rotten < kSuperblockCopies; ++rotten) {
            bool ended = false;
            for (std::uint64_t n = 0; !ended; ++n) {
                const std::string what = "seed " + std::to_string(power.seed) + " copy " +
                                         std::to_string(rotten) + " operation " + std::to_string(n);
                RestartRig rig(100 * power.seed + n);
                ASSERT_EQ(rig.open(), "");
                for (std::uint64_t op = 1; op <= 3; ++op) {
                    rig.append(op);
                }
                rig.world.run_for(kSecond);
                rig.disk().sync_all();
                ASSERT_TRUE(
                    rig.disk().corrupt(kSuperblockPath, rotten * kSuperblockCopyBytes + 50, 1));
                rig.node.io->crash_after(n);
                ended = rig.world.run_until_crash(rig.node, MetadataRig::append_one(rig, 4, 8))
                            .has_value();
                rig.crash(CrashKind::kPower, power.fate);
                const auto image = rig.image();
                ASSERT_EQ(rig.open(), "") << what;
                rig.state.resize(3);
                ASSERT_EQ(rig.state, (TestState{1, 2, 3})) << what;
                bool booted = power.seed < 3 || power.seed > 4;
                for (std::uint64_t at_start = 0; !booted; ++at_start) {
                    RestartRig other(at_start);
                    for (const auto& [path, content] : image) {
                        other.disk().write_file(path, content);
                    }
                    other.node.io->crash_after(at_start);
                    booted =
                        other.world.run_until_crash(other.node, boot(other, false)).has_value();
                    other.crash(CrashKind::kPower, UnsyncedFate::kRuin);
                    ASSERT_EQ(other.open(), "") << what << " of the start " << at_start;
                    other.state.resize(3);
                    ASSERT_EQ(other.state, (TestState{1, 2, 3})) << what;
                }
                EXPECT_TRUE(!ended || n > 6) << what;
            }
        }
    }
}

// ---- files above the last generation
// --------------------------------------------------------------------------------------------------

TEST(MetadataRestart, ABatchAboveTheLastGenerationIsRefused) {
    RestartRig rig(1);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t op = 1; op <= 3; ++op) {
        rig.append(op);
    }
    const std::vector<std::byte> superblock = *rig.disk().read_file(kSuperblockPath);
    rig.append(4);
    rig.append(5);
    rig.close();
    rig.disk().write_file(kSuperblockPath, superblock);
    // The first batch, and the header of a copy, are not needed to know that there was one.
    rig.corrupt_both(kSecondFile, kWalBlockBytes + 100);
    ASSERT_TRUE(rig.disk().corrupt(kSecondFile, 20, 1));
    const auto before = rig.image();
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find(kSecondFile), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("position 8192"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(kRestoreRemedy), std::string::npos) << refusal;
    EXPECT_EQ(rig.image(), before);
}

TEST(MetadataRestart, TheNextFileStaysWhenTheDiskIsFull) {
    for (const CrashKind kind : {CrashKind::kProcess, CrashKind::kPower}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        rig.world.run_for(kSecond);  // it is made ahead
        ASSERT_TRUE(rig.disk().exists(kSecondFile));
        rig.crash(kind);
        rig.disk().add_fault(
            {.op = DiskOp::kOpen, .path_contains = ".tmp", .times = 1000, .error = ENOSPC});
        ASSERT_EQ(rig.open(), "");
        ASSERT_TRUE(rig.disk().exists(kSecondFile));
        rig.go_on();
        for (std::uint64_t op = 3; op <= 5; ++op) {
            EXPECT_TRUE(rig.files->wal().has_room(300));
            rig.append(op);
        }
        EXPECT_EQ(rig.files->wal().file_count(), 2U);
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 2, 3, 4, 5}));
    }
}

// A torn batch takes the rest of its file away, wherever it stands: the next file is there before.
TEST(MetadataRestart, ATornBatchOnAFullDiskIsFollowedInTheReserve) {
    for (const std::uint64_t torn : {1ULL, 2ULL, 3ULL, 15ULL}) {
        RestartRig rig(1);
        rig.options.region_bytes = 16 * kWalBlockBytes;
        ASSERT_EQ(rig.open(), "");
        for (std::uint64_t op = 1; op <= torn; ++op) {
            rig.append(op);
        }
        rig.world.run_for(kSecond);
        rig.crash(CrashKind::kProcess);
        rig.corrupt_both(kFirstFile, torn * kWalBlockBytes + 70);
        rig.disk().set_capacity(rig.disk().used_bytes());
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state.size(), torn - 1);
        rig.go_on();
        EXPECT_TRUE(rig.files->wal().has_room(300));
        rig.append(100);
        rig.append(101);
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        ASSERT_EQ(rig.state.size(), torn + 1);
        EXPECT_EQ(rig.state.back(), 101U);
    }
}

TEST(MetadataRestart, TheReserveIsMadeAtAStartAndWhenItWasTaken) {
    RestartRig rig(1);
    ASSERT_EQ(rig.open(), "");
    EXPECT_TRUE(rig.disk().exists(kSecondFile));
    rig.close();
    ASSERT_EQ(rig.disk().unlink(kSecondFile), 0);
    rig.disk().sync_all();
    // A start does not fail for want of it.
    rig.disk().add_fault(
        {.op = DiskOp::kOpen, .path_contains = ".tmp", .times = 1000, .error = ENOSPC});
    ASSERT_EQ(rig.open(), "");
    EXPECT_FALSE(rig.disk().exists(kSecondFile));
    rig.close();
    rig.disk().clear_faults();
    ASSERT_EQ(rig.open(), "");
    EXPECT_TRUE(rig.disk().exists(kSecondFile));
    rig.go_on();
    for (std::uint64_t op = 1; op <= 4; ++op) {
        rig.append(op);
    }
    ASSERT_EQ(rig.files->wal().file_count(), 2U);
    rig.world.run_for(kSecond);
    EXPECT_TRUE(rig.disk().exists(wal_path(kMetadataDirectory, 3)));
}

TEST(MetadataRestart, ANextFileThatIsNotAsItWasMadeIsMadeAnew) {
    for (const std::uint64_t at : {20ULL, 4096ULL + 5, 4ULL * 4096 + 20, 8ULL * 4096 - 1}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        rig.world.run_for(kSecond);
        rig.crash(CrashKind::kProcess);
        const std::vector<std::byte> made = *rig.disk().read_file(kSecondFile);
        ASSERT_TRUE(rig.disk().corrupt(kSecondFile, at, 1));
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(*rig.disk().read_file(kSecondFile), made) << at;
        rig.go_on();
        for (std::uint64_t op = 3; op <= 5; ++op) {
            rig.append(op);
        }
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 2, 3, 4, 5}));
    }
}

TEST(MetadataRestart, ALargerNextFileThatFailsIsNotTakenForMade) {
    RestartRig rig(1);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.append(2);
    rig.world.run_for(kSecond);
    ASSERT_TRUE(rig.disk().exists(kSecondFile));
    // The larger file stands under the name already; only the directory was not synced.
    rig.disk().add_fault(
        {.op = DiskOp::kSync, .path_contains = kMetadataDirectory, .skip = 1, .times = 1});
    EXPECT_FALSE(rig.world.run(rig.node, MetadataRig::append_one(rig, 3, 100'000)).has_value());
    EXPECT_FALSE(rig.files->wal().poisoned());
    rig.append(4, 8);
    rig.append(5, 8);
    rig.append(6, 8);
    rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1, 2, 0, 4, 5, 6}));
}

// A superblock without a log is a first start only beside nothing that a log leaves.
TEST(MetadataRestart, ABatchBesideASuperblockThatNamesNoLogIsRefused) {
    RestartRig rig(1);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.crash(CrashKind::kProcess);
    const SuperblockCopy copy = encode_superblock({.salt = 77}, 1);
    std::vector<std::byte> superblock;
    for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
        superblock.insert(superblock.end(), copy.begin(), copy.end());
    }
    rig.disk().write_file(kSuperblockPath, superblock);
    const auto before = rig.image();
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find(kFirstFile), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("position 4096"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(kRestoreRemedy), std::string::npos) << refusal;
    EXPECT_EQ(rig.image(), before);
    // A file that was made when the first start ended is none.
    std::vector<std::byte> unused(2 * rig.region());
    const std::vector<std::byte> header =
        encode_wal_header({.salt = 77, .generation = 1}, rig.region());
    std::ranges::copy(header, unused.begin());
    std::ranges::copy(header, unused.begin() + static_cast<std::ptrdiff_t>(rig.region()));
    rig.disk().write_file(kFirstFile, unused);
    ASSERT_EQ(rig.open(), "");
    rig.go_on();
    rig.append(1);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1}));
}

// One bad sector of a file that was made ahead is no evidence: a batch has two copies.
TEST(MetadataRestart, AFileAboveTheLastThatCannotBeReadIsRefused) {
    for (const bool both : {false, true}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        rig.world.run_for(kSecond);
        rig.crash(CrashKind::kProcess);
        ASSERT_TRUE(rig.disk().make_unreadable(kSecondFile, kWalBlockBytes));
        if (both) {
            ASSERT_TRUE(rig.disk().make_unreadable(kSecondFile, rig.region() + kWalBlockBytes));
        }
        const auto before = rig.image();
        const std::string refusal = rig.open();
        if (!both) {
            ASSERT_EQ(refusal, "");
            EXPECT_EQ(rig.state, (TestState{1, 2}));
            continue;
        }
        EXPECT_NE(refusal.find(kSecondFile), std::string::npos) << refusal;
        EXPECT_NE(refusal.find("positions 4096 and 20480"), std::string::npos) << refusal;
        EXPECT_NE(refusal.find(kRestoreRemedy), std::string::npos) << refusal;
        EXPECT_EQ(rig.image(), before);
    }
}

// Who opens the files may have reasons of his own to refuse the start.
TEST(MetadataRestart, NothingIsDeletedBeforeTheStartIsAccepted) {
    RestartRig rig(1);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t value = 1; value <= 5; ++value) {
        rig.append(value);
        if (value % 2 == 0) {
            rig.snapshot();
        }
    }
    rig.close();
    const auto clean = rig.image();
    const std::vector<std::string> strays{snapshot_path(kMetadataDirectory, OpNumber{1}),
                                          snapshot_path(kMetadataDirectory, OpNumber{3}) + ".tmp",
                                          snapshot_path(kMetadataDirectory, OpNumber{4}) + ".tmp",
                                          wal_path(kMetadataDirectory, 2) + ".tmp",
                                          wal_path(kMetadataDirectory, 7),
                                          wal_path(kMetadataDirectory, 8) + ".tmp"};
    for (const std::string& stray : strays) {
        rig.disk().write_file(stray, std::vector<std::byte>(10));
    }
    const std::string foreign = kMetadataDirectory + "/notes.tmp";
    rig.disk().write_file(foreign, {});
    const auto before = rig.image();
    ASSERT_EQ(rig.open_only(), "");
    EXPECT_EQ(rig.image(), before);
    rig.world.run(rig.node, rig.files->sweep());
    EXPECT_TRUE(rig.disk().exists(foreign));
    ASSERT_EQ(rig.disk().unlink(foreign), 0);
    EXPECT_EQ(rig.image(), clean);
}

TEST(MetadataRestart, ASnapshotAboveTheEndOfTheLogIsRefused) {
    for (const bool first : {false, true}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        if (!first) {
            rig.append(1);
            rig.append(2);
        }
        rig.close();
        if (first) {
            ASSERT_EQ(rig.disk().unlink(kFirstFile), 0);
            const SuperblockCopy copy = encode_superblock({.salt = 77}, 1);
            std::vector<std::byte> superblock;
            for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
                superblock.insert(superblock.end(), copy.begin(), copy.end());
            }
            rig.disk().write_file(kSuperblockPath, superblock);
        }
        const std::string above = snapshot_path(kMetadataDirectory, OpNumber{3});
        rig.disk().write_file(above, {});
        const auto before = rig.image();
        const std::string refusal = rig.open();
        EXPECT_NE(refusal.find(above), std::string::npos) << refusal;
        EXPECT_NE(refusal.find("change 3"), std::string::npos) << refusal;
        EXPECT_NE(refusal.find(kRestoreRemedy), std::string::npos) << refusal;
        EXPECT_EQ(rig.image(), before);
    }
}

}  // namespace
}  // namespace galgo::storage

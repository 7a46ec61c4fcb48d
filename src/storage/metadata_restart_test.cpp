// Starts of the metadata group's files on a disk that is in doubt: a sync failed and the process
// ended, so that the page cache shows what the disk does not have; a process or the power ended at
// any operation; sectors cannot be read. What a start has shown, and what was acknowledged before
// or behind it, is there after the next.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "test_metadata.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

const std::string kSuperblockPath = kMetadataDirectory + "/superblock";
const std::string kFirstFile = wal_path(kMetadataDirectory, 1);
const std::string kSecondFile = wal_path(kMetadataDirectory, 2);

struct RestartRig : MetadataRig {
    explicit RestartRig(std::uint64_t seed) : MetadataRig(seed) {
        world.run(node, runtime::make_directories(*node.io, kMetadataDirectory));
        node.disk->sync_all();
    }
    [[nodiscard]] runtime_sim::SimDisk& disk() const { return *node.disk; }
    [[nodiscard]] std::uint64_t region() const { return options.region_bytes; }
    Status try_append(std::uint64_t value) { return world.run(node, append_one(*this, value, 8)); }
    Status try_snapshot() { return world.run(node, install(*this, acknowledged)); }
    void corrupt_both(const std::string& path, std::uint64_t position) {
        EXPECT_TRUE(disk().corrupt(path, position, 4));
        EXPECT_TRUE(disk().corrupt(path, region() + position, 4));
    }
    [[nodiscard]] std::map<std::string, std::vector<std::byte>> image() const {
        std::map<std::string, std::vector<std::byte>> files;
        for (const std::string& path : disk().list_all()) {
            if (!path.ends_with('/')) {
                files[path] = *disk().read_file(path);
            }
        }
        return files;
    }
};

struct Power {
    std::uint64_t seed = 0;
    UnsyncedFate fate = UnsyncedFate::kSeeded;
};

std::vector<Power> powers() {
    std::vector<Power> all{
        {1, UnsyncedFate::kLoseAll}, {2, UnsyncedFate::kKeepAll}, {3, UnsyncedFate::kRuin}};
    for (std::uint64_t seed = 4; seed < 12; ++seed) {
        all.push_back({seed, UnsyncedFate::kSeeded});
    }
    return all;
}

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

/// One start.
Task<bool> boot(MetadataRig& rig) {
    auto opened = co_await MetadataFiles::open(
        *rig.node.io, rig.node.queue(), rig.options,
        [](const SnapshotContents*) -> Status { return {}; },
        [](const wire::PrepareHeader&, ConstBytes) -> std::expected<void, std::string> {
            return {};
        });
    if (opened.has_value()) {
        co_await (*opened)->sweep();
        co_await (*opened)->close();
    }
    co_return opened.has_value();
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
                bool booted = power.seed < 3 || power.seed > 5;
                for (std::uint64_t at_start = 0; !booted; ++at_start) {
                    RestartRig other(at_start);
                    for (const auto& [path, content] : image) {
                        other.disk().write_file(path, content);
                    }
                    other.node.io->crash_after(at_start);
                    booted = other.world.run_until_crash(other.node, boot(other)).has_value();
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

// ---- sectors that cannot be read
// --------------------------------------------------------------------------------------------------

TEST(MetadataRestart, AnUnreadableBlockIsRepairedBesideATornTail) {
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        rig.drop();
        rig.world.restart(rig.node, CrashKind::kProcess);
        ASSERT_TRUE(
            rig.disk().make_unreadable(kFirstFile, copy * rig.region() + kWalBlockBytes + 600));
        rig.corrupt_both(kFirstFile, 2 * kWalBlockBytes + 100);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1}));
        EXPECT_TRUE(rig.files->wal().was_torn());
        EXPECT_EQ(rig.files->wal().healed_count(), 1U);
        EXPECT_EQ(rig.disk().unreadable_count(kFirstFile), 0U);
    }
}

TEST(MetadataRestart, AnUnreadableBlockBehindTheEndIsWrittenWithZeros) {
    for (const std::uint64_t block : {2ULL, 3ULL, 6ULL, 7ULL}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.drop();
        rig.world.restart(rig.node, CrashKind::kProcess);
        const auto before = rig.image();
        ASSERT_TRUE(rig.disk().make_unreadable(kFirstFile, block * kWalBlockBytes));
        ASSERT_EQ(rig.open(), "") << block;
        EXPECT_FALSE(rig.files->wal().was_torn());
        EXPECT_EQ(rig.disk().unreadable_count(kFirstFile), 0U);
        EXPECT_EQ(rig.image().at(kFirstFile), before.at(kFirstFile));
    }
}

// An acknowledged batch needs a second fault to look like that: the other copy was whole.
TEST(MetadataRestart, AnUnreadableBlockWhereTheOtherCopyIsTornIsATornBatch) {
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        rig.crash(CrashKind::kProcess);
        const std::uint64_t position = 2 * kWalBlockBytes;
        ASSERT_TRUE(rig.disk().make_unreadable(kFirstFile, copy * rig.region() + position));
        ASSERT_TRUE(rig.disk().corrupt(kFirstFile, (1 - copy) * rig.region() + position + 90, 1));
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1}));
        EXPECT_TRUE(rig.files->wal().was_torn());
        EXPECT_EQ(rig.disk().unreadable_count(kFirstFile), 0U);
        rig.go_on();
        rig.append(3);
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 3}));
    }
}

TEST(MetadataRestart, TwoCopiesThatCannotBeReadCannotBeTold) {
    // The begin of a batch of three blocks, or what is behind it.
    for (const std::uint64_t block : {2ULL, 4ULL}) {
        for (const std::uint64_t other : {2ULL, 3ULL}) {
            RestartRig rig(1);
            rig.options.region_bytes = 8 * kWalBlockBytes;
            ASSERT_EQ(rig.open(), "");
            rig.append(1);
            rig.append(2, 10'000);
            rig.crash(CrashKind::kProcess);
            ASSERT_TRUE(rig.disk().make_unreadable(kFirstFile, block * kWalBlockBytes));
            ASSERT_TRUE(
                rig.disk().make_unreadable(kFirstFile, rig.region() + other * kWalBlockBytes));
            const auto before = rig.image();
            const std::string refusal = rig.open();
            EXPECT_NE(refusal.find(kFirstFile), std::string::npos) << refusal;
            EXPECT_NE(refusal.find("position 8192"), std::string::npos) << refusal;
            EXPECT_NE(refusal.find(kRestoreRemedy), std::string::npos) << refusal;
            EXPECT_EQ(rig.image(), before);
            EXPECT_EQ(rig.disk().unreadable_count(kFirstFile), 2U);
        }
    }
}

// One cut takes both copies of a batch: all of the second and the end of the first.
TEST(MetadataRestart, ACutThroughTheFirstCopyOfTheLastBatchIsRefused) {
    for (std::uint64_t size = 2 * kWalBlockBytes; size <= 18'432; size += 512) {
        RestartRig rig(1);
        rig.options.region_bytes = 8 * kWalBlockBytes;
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2, 10'000);
        rig.crash(CrashKind::kProcess);
        ASSERT_TRUE(rig.disk().truncate_to(kFirstFile, size));
        const std::string refusal = rig.open();
        EXPECT_NE(refusal.find("position 8192"), std::string::npos) << size << refusal;
    }
}

TEST(MetadataRestart, AFileOfWhichNothingCanBeReadIsRefused) {
    RestartRig rig(1);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.crash(CrashKind::kProcess);
    rig.disk().add_fault({.op = DiskOp::kRead, .path_contains = "journal.wal", .times = 1000});
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find(kFirstFile), std::string::npos) << refusal;
    EXPECT_NE(refusal.find("position"), std::string::npos) << refusal;
    EXPECT_NE(refusal.find(kRestoreRemedy), std::string::npos) << refusal;
    rig.disk().clear_faults();
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1}));
}

// What was cut off is written, not left a hole: an append needs no room.
TEST(MetadataRestart, ACutFileGetsItsRoomBack) {
    for (const std::uint64_t missing : {512ULL, 4096ULL, 9000ULL}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.world.run_for(kSecond);
        rig.crash(CrashKind::kProcess);
        ASSERT_TRUE(rig.disk().truncate_to(kFirstFile, 2 * rig.region() - missing));
        ASSERT_EQ(rig.open(), "");
        rig.disk().set_capacity(rig.disk().used_bytes());
        rig.go_on();
        rig.append(2);
        rig.append(3);
        EXPECT_EQ(rig.files->wal().file_count(), 1U);
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 2, 3}));
    }
}

// ---- copies that cannot be written again
// --------------------------------------------------------------------------------------------------

TEST(MetadataRestart, ACopyOfTheSuperblockThatCannotBeWrittenIsDoneWithout) {
    for (const DiskOp op : {DiskOp::kWrite, DiskOp::kSync}) {
        for (std::uint64_t copy = 0; copy < kSuperblockCopies; ++copy) {
            RestartRig rig(1);
            ASSERT_EQ(rig.open(), "");
            for (std::uint64_t value = 1; value <= 3; ++value) {
                rig.append(value);
            }
            rig.crash(CrashKind::kPower);
            ASSERT_TRUE(rig.disk().corrupt(kSuperblockPath, copy * kSuperblockCopyBytes + 50, 1));
            // The damaged one is written first.
            rig.disk().add_fault({.op = op, .path_contains = "superblock"});
            ASSERT_EQ(rig.open(), "");
            rig.go_on();
            // Nor does an update write it: its first or second half has one copy.
            rig.append(4);
            rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
            ASSERT_EQ(rig.open(), "");
            EXPECT_EQ(rig.state, (TestState{1, 2, 3, 4}));
            EXPECT_EQ(rig.files->superblock().healed_count(), 1U);
            rig.close();
            ASSERT_EQ(rig.open(), "");
            EXPECT_EQ(rig.files->superblock().healed_count(), 0U);
        }
    }
}

TEST(MetadataRestart, TwoCopiesOfTheSuperblockThatCannotBeWrittenAreRefused) {
    for (const DiskOp op : {DiskOp::kWrite, DiskOp::kSync}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.crash(CrashKind::kPower);
        rig.disk().add_fault({.op = op, .path_contains = "superblock", .times = 2});
        const std::string refusal = rig.open();
        EXPECT_NE(refusal.find(kSuperblockPath), std::string::npos) << refusal;
        EXPECT_NE(refusal.find("positions 0 and 4096"), std::string::npos) << refusal;
        EXPECT_NE(refusal.find(kDiskRemedy), std::string::npos) << refusal;
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1}));
    }
}

TEST(MetadataRestart, ACopyInTheLogThatCannotBeRestoredIsDoneWithout) {
    for (const DiskOp op : {DiskOp::kWrite, DiskOp::kSync, DiskOp::kOpen}) {
        for (const std::uint64_t copy : {0ULL, 1ULL}) {
            RestartRig rig(1);
            ASSERT_EQ(rig.open(), "");
            rig.append(1);
            rig.append(2);
            rig.world.run_for(kSecond);
            rig.crash(CrashKind::kPower);
            ASSERT_TRUE(
                rig.disk().corrupt(kFirstFile, copy * rig.region() + kWalBlockBytes + 70, 1));
            // It is opened once to be read.
            rig.disk().add_fault({.op = op,
                                  .path_contains = "journal.wal.0000000001",
                                  .skip = op == DiskOp::kOpen ? 1U : 0U});
            ASSERT_EQ(rig.open(), "");
            EXPECT_EQ(rig.disk().fault_count(), 1U);
            rig.go_on();
            rig.append(3);
            EXPECT_EQ(rig.files->wal().file_count(), 2U) << "nothing goes behind it";
            rig.crash(CrashKind::kPower);
            ASSERT_EQ(rig.open(), "");
            EXPECT_EQ(rig.state, (TestState{1, 2, 3}));
            if (op == DiskOp::kOpen) {  // the others may have written it
                EXPECT_EQ(rig.files->wal().healed_count(), 1U);
            }
        }
    }
}

TEST(MetadataRestart, ALastBatchThatCannotBeWrittenAgainIsRefused) {
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        for (const std::int32_t error : {EIO, ENOSPC}) {
            RestartRig rig(1);
            ASSERT_EQ(rig.open(), "");
            rig.append(1);
            rig.append(2);
            rig.crash(CrashKind::kPower);
            rig.disk().add_fault({.op = DiskOp::kWrite,
                                  .path_contains = "journal.wal.0000000001",
                                  .skip = copy,
                                  .error = error});
            const std::string refusal = rig.open();
            EXPECT_NE(refusal.find(kFirstFile), std::string::npos) << refusal;
            EXPECT_NE(refusal.find("position " + std::to_string(copy * rig.region() + 8192)),
                      std::string::npos)
                << refusal;
            EXPECT_NE(refusal.find(error == EIO ? kDiskRemedy : kRoomRemedy), std::string::npos)
                << refusal;
            ASSERT_EQ(rig.open(), "");
            EXPECT_EQ(rig.state, (TestState{1, 2}));
        }
    }
}

// One read that fails by chance takes nothing away.
TEST(MetadataRestart, EveryReadOfAStartMayFailOnce) {
    for (std::uint64_t skip = 0;; ++skip) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        for (std::uint64_t op = 1; op <= 5; ++op) {
            rig.append(op);
        }
        rig.snapshot();
        rig.append(6);
        rig.crash(CrashKind::kProcess);
        rig.disk().add_fault({.op = DiskOp::kRead, .path_contains = "", .skip = skip});
        ASSERT_EQ(rig.open(), "") << skip;
        EXPECT_EQ(rig.state, (TestState{1, 2, 3, 4, 5, 6})) << skip;
        if (rig.disk().fault_count() == 0) {
            EXPECT_GT(skip, 8U);
            break;
        }
    }
}

// ---- a write that went to the wrong place
// --------------------------------------------------------------------------------------------------

TEST(MetadataRestart, ACopyOfAnOlderBatchElsewhereIsRotLikeAnyOther) {
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        for (const bool marked : {false, true}) {
            // Over a batch; at the end; behind it.
            for (const std::uint64_t block : {2ULL, 3ULL, 5ULL, 6ULL, 7ULL}) {
                RestartRig rig(1);
                rig.options.region_bytes = 8 * kWalBlockBytes;
                ASSERT_EQ(rig.open(), "");
                for (std::uint64_t op = 1; op <= 3; ++op) {
                    rig.append(op);
                }
                if (marked) {
                    rig.close();
                } else {
                    rig.crash(CrashKind::kProcess);
                }
                std::vector<std::byte> content = *rig.disk().read_file(kFirstFile);
                std::copy_n(content.begin() + kWalBlockBytes, kWalBlockBytes,
                            content.begin() + static_cast<std::ptrdiff_t>(copy * rig.region() +
                                                                          block * kWalBlockBytes));
                rig.disk().write_file(kFirstFile, content);
                ASSERT_EQ(rig.open(), "") << "block " << block;
                EXPECT_EQ(rig.state, (TestState{1, 2, 3}));
                rig.go_on();
                rig.append(4);
                rig.crash(CrashKind::kPower);
                ASSERT_EQ(rig.open(), "") << "block " << block;
                EXPECT_EQ(rig.state, (TestState{1, 2, 3, 4}));
            }
        }
    }
}

TEST(MetadataRestart, ACopyOfALaterBatchOverAnOlderOneIsHealed) {
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        for (std::uint64_t op = 1; op <= 3; ++op) {
            rig.append(op);
        }
        rig.crash(CrashKind::kProcess);
        const std::vector<std::byte> whole = *rig.disk().read_file(kFirstFile);
        std::vector<std::byte> content = whole;
        std::copy_n(content.begin() + 3 * kWalBlockBytes, kWalBlockBytes,
                    content.begin() +
                        static_cast<std::ptrdiff_t>(copy * rig.region() + 2 * kWalBlockBytes));
        rig.disk().write_file(kFirstFile, content);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 2, 3}));
        EXPECT_EQ(*rig.disk().read_file(kFirstFile), whole);
    }
}

TEST(MetadataRestart, AMarkWithEntriesIsNotOfThisVersion) {
    RestartRig rig(1);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    rig.crash(CrashKind::kProcess);
    std::vector<std::byte> content = *rig.disk().read_file(kFirstFile);
    std::vector<std::byte> batch(kWalBlockBytes);
    const std::vector<std::byte> entry = test_entry(OpNumber{2}, 2, 8);
    std::ranges::copy(entry, batch.begin() + kWalBatchHeaderBytes);
    seal_wal_batch(batch,
                   {.kind = WalBatchKind::kMark,
                    .sequence = 2,
                    .op_before = OpNumber{1},
                    .op_first = OpNumber{2},
                    .op_last = OpNumber{2},
                    .entry_count = 1,
                    .size_bytes = static_cast<std::uint32_t>(kWalBatchHeaderBytes + entry.size())},
                   {.salt = 77, .generation = 1});
    for (const std::uint64_t copy : {0ULL, 1ULL}) {
        std::ranges::copy(batch, content.begin() + static_cast<std::ptrdiff_t>(copy * rig.region() +
                                                                               2 * kWalBlockBytes));
    }
    rig.disk().write_file(kFirstFile, content);
    EXPECT_NE(rig.open().find("what this version does not know"), std::string::npos);
}

// ---- every operation is the last one
// --------------------------------------------------------------------------------------------------

/// Groups, a rotation, snapshots, a mark, a batch larger than a file. Goes on behind an error.
Task<bool> script(MetadataRig& rig) {
    for (std::uint64_t step = 1; step <= 7; ++step) {
        if (step == 3) {
            (void)co_await coro::all(MetadataRig::append_one(rig, 300, 500),
                                     MetadataRig::append_one(rig, 301, 8));
        } else {
            (void)co_await MetadataRig::append_one(rig, step * 100, step == 6 ? 20'000 : 8);
        }
        if ((step == 4 || step == 6) && rig.acknowledged > rig.files->snapshot_op().value()) {
            (void)co_await MetadataRig::install(rig, rig.acknowledged);
        }
        if (step == 5) {
            rig.files->wal().tick();
            rig.files->wal().tick();
        }
    }
    co_await rig.files->close();
    co_return true;
}

/// Opens twice with a power loss in between, changes something, opens again. Holes: numbers that
/// were refused; nothing that was acknowledged becomes one.
void expect_nothing_lost(RestartRig& rig, CrashKind kind, bool may_have_holes,
                         const std::string& what) {
    const TestState attempted = rig.attempted;
    const std::uint64_t acknowledged = rig.acknowledged;
    const std::set<std::uint64_t> acknowledged_ops = rig.acknowledged_ops;
    rig.crash(kind);
    rig.disk().clear_faults();
    ASSERT_EQ(rig.open(), "") << what;
    ASSERT_GE(rig.state.size(), acknowledged) << what;
    ASSERT_LE(rig.state.size(), attempted.size()) << what;
    for (std::size_t i = 0; i < rig.state.size(); ++i) {
        if (rig.state[i] != attempted[i]) {
            ASSERT_EQ(rig.state[i], 0U) << what << " op " << i + 1;
            ASSERT_TRUE(may_have_holes && !acknowledged_ops.contains(i + 1))
                << what << ": op " << i + 1 << " is gone";
        }
    }
    const TestState shown = rig.state;
    rig.go_on();
    rig.append(4711);
    rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    ASSERT_EQ(rig.open(), "") << what;
    TestState expected = shown;
    expected.push_back(4711);
    ASSERT_EQ(rig.state, expected) << what;
}

TEST(MetadataRestart, AnEndAtEveryOperation) {
    for (const CrashKind kind : {CrashKind::kProcess, CrashKind::kPower}) {
        std::uint64_t last = 0;
        for (std::uint64_t n = 0;; ++n) {
            RestartRig rig(100 + n);
            ASSERT_EQ(rig.open(), "");
            rig.node.io->crash_after(n);
            const bool ended = rig.world.run_until_crash(rig.node, script(rig)).has_value();
            expect_nothing_lost(rig, kind, false, "operation " + std::to_string(n));
            if (HasFatalFailure()) {
                return;
            }
            if (ended) {
                last = n;
                break;
            }
        }
        EXPECT_GT(last, 100U);
    }
}

// A truncation may wait behind slow work in a thread of its own (before Linux 6.9), and a change
// would wait with it.
TEST(MetadataRestart, NothingIsTruncatedWhileItRuns) {
    RestartRig rig(1);
    rig.disk().write_file(kFirstFile + ".tmp", std::vector<std::byte>(100));
    rig.disk().write_file(wal_path(kMetadataDirectory, 3) + ".tmp", std::vector<std::byte>(100));
    rig.disk().add_fault({.op = DiskOp::kTruncate, .path_contains = "", .times = 1000});
    ASSERT_EQ(rig.open(), "");
    ASSERT_TRUE(rig.world.run(rig.node, script(rig)));
    EXPECT_EQ(rig.disk().fault_count(), 0U);
}

TEST(MetadataRestart, AnErrorAtEveryOperation) {
    for (const std::int32_t error : {EIO, ENOSPC, 0}) {
        for (const DiskOp op : {DiskOp::kWrite, DiskOp::kSync, DiskOp::kOpen, DiskOp::kRename,
                                DiskOp::kUnlink, DiskOp::kAllocate, DiskOp::kClose}) {
            if (error == 0 && op != DiskOp::kWrite) {
                continue;  // a short write
            }
            for (const CrashKind kind : {CrashKind::kProcess, CrashKind::kPower}) {
                for (std::uint64_t n = 0;; ++n) {
                    RestartRig rig(1000 + n);
                    ASSERT_EQ(rig.open(), "");
                    rig.disk().add_fault({.op = op,
                                          .path_contains = kMetadataDirectory,
                                          .skip = n,
                                          .error = error == 0 ? EIO : error,
                                          .short_transfer = error == 0});
                    ASSERT_TRUE(rig.world.run(rig.node, script(rig)));
                    const bool struck = rig.disk().fault_count() != 0;
                    expect_nothing_lost(rig, kind, true,
                                        "op " + std::to_string(static_cast<int>(op)) + " number " +
                                            std::to_string(n) + " error " + std::to_string(error));
                    if (HasFatalFailure()) {
                        return;
                    }
                    if (!struck) {
                        EXPECT_GT(n, 0U) << "no operation of kind " << static_cast<int>(op);
                        break;
                    }
                }
            }
        }
    }
}

// The same of a start that has a copy of each kind of file to heal, with what such a start does.
TEST(MetadataRestart, AnErrorAtEveryOperationOfAStart) {
    std::map<DiskOp, std::uint64_t> counts;
    for (const DiskOp op : {DiskOp::kOpen, DiskOp::kClose, DiskOp::kRead, DiskOp::kWrite,
                            DiskOp::kSync, DiskOp::kRename, DiskOp::kUnlink, DiskOp::kAllocate}) {
        for (const CrashKind kind : {CrashKind::kProcess, CrashKind::kPower}) {
            for (std::uint64_t n = 0;; ++n) {
                RestartRig rig(2000 + n);
                ASSERT_EQ(rig.open(), "");
                for (std::uint64_t value = 1; value <= 5; ++value) {
                    rig.append(value);
                    if (value == 2) {
                        rig.snapshot();
                    }
                }
                rig.world.run_for(kSecond);
                rig.crash(CrashKind::kPower);
                (void)rig.disk().unlink(wal_path(kMetadataDirectory, 3));  // made again
                rig.disk().sync_all();
                ASSERT_TRUE(rig.disk().corrupt(kSuperblockPath, 50, 1));
                ASSERT_TRUE(rig.disk().corrupt(kFirstFile, kWalBlockBytes + 70, 1));
                rig.disk().write_file(snapshot_path(kMetadataDirectory, OpNumber{1}) + ".tmp", {});
                rig.disk().write_file(wal_path(kMetadataDirectory, 9), {});
                rig.disk().add_fault(
                    {.op = op, .path_contains = kMetadataDirectory, .skip = n, .error = EIO});
                if (rig.open().empty()) {
                    ASSERT_EQ(rig.state, (TestState{1, 2, 3, 4, 5}));
                    (void)rig.try_append(6);
                    rig.close();
                }
                const bool struck = rig.disk().fault_count() != 0;
                expect_nothing_lost(
                    rig, kind, true,
                    "op " + std::to_string(static_cast<int>(op)) + " number " + std::to_string(n));
                if (HasFatalFailure()) {
                    return;
                }
                if (!struck) {
                    counts[op] = n;
                    break;
                }
            }
        }
    }
    for (const auto& [op, count] : counts) {
        EXPECT_GT(count, 0U) << "no operation of kind " << static_cast<int>(op);
    }
}

// While a start heals damage of one place the power goes, and every sector it was writing to is
// destroyed: what is whole is never written together with what is not.
TEST(MetadataRestart, AnEndAtEveryOperationOfAStartThatHeals) {
    struct Damage {
        std::string path;
        std::vector<std::uint64_t> positions;
    };
    const std::uint64_t region = 4 * kWalBlockBytes;
    std::vector<Damage> all{{kFirstFile, {20}},
                            {kFirstFile, {region + 20}},
                            {kFirstFile, {kWalBlockBytes + 70}},
                            {kFirstFile, {region + 2 * kWalBlockBytes + 70}},
                            {kFirstFile, {20, region + kWalBlockBytes + 70}},
                            {kSecondFile, {20}},
                            {kSecondFile, {kWalBlockBytes + 70}},
                            {kSecondFile, {region + kWalBlockBytes + 70}}};
    for (std::uint64_t a = 0; a < kSuperblockCopies; ++a) {
        all.push_back({kSuperblockPath, {a * kSuperblockCopyBytes + 50}});
        for (std::uint64_t b = a + 1; b < kSuperblockCopies; ++b) {
            all.push_back(
                {kSuperblockPath, {a * kSuperblockCopyBytes + 50, b * kSuperblockCopyBytes + 50}});
        }
    }
    for (const Damage& damage : all) {
        for (std::uint64_t n = 0;; ++n) {
            RestartRig rig(n);
            ASSERT_EQ(rig.open(), "");
            for (std::uint64_t op = 1; op <= 4; ++op) {
                rig.append(op);
            }
            rig.drop();
            rig.world.restart(rig.node, CrashKind::kProcess);
            rig.disk().sync_all();
            for (const std::uint64_t position : damage.positions) {
                ASSERT_TRUE(rig.disk().corrupt(damage.path, position, 1));
            }
            rig.node.io->crash_after(n);
            const bool ended = rig.world.run_until_crash(rig.node, boot(rig)).has_value();
            rig.crash(CrashKind::kPower, UnsyncedFate::kRuin);
            ASSERT_EQ(rig.open(), "") << damage.path << damage.positions[0] << " at " << n;
            ASSERT_EQ(rig.state, (TestState{1, 2, 3, 4}));
            if (ended) {
                break;
            }
        }
    }
}

// ---- refusals change nothing
// --------------------------------------------------------------------------------------------------

TEST(MetadataRestart, ARefusalLeavesARottenSuperblockAsItWas) {
    for (int why = 0; why < 3; ++why) {
        RestartRig rig(1);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        rig.close();
        ASSERT_TRUE(rig.disk().corrupt(kSuperblockPath, 50, 1));
        if (why == 0) {
            rig.options.identity.replica = 1;
            rig.options.identity.replica_count = 3;
        } else if (why == 1) {
            rig.corrupt_both(kFirstFile, kWalBlockBytes + 70);
        } else {
            rig.options.tail_ops_max = 1;
        }
        const auto before = rig.image();
        EXPECT_NE(rig.open(), "");
        EXPECT_EQ(rig.image(), before) << why;
    }
}

}  // namespace
}  // namespace galgo::storage

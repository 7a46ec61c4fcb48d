// Starts of the metadata group's files on a damaged disk: sectors that cannot be read, or not be
// written, cuts, writes that went to the wrong place. Damage of one place is healed, or done
// without; a refusal changes nothing.
#include <gtest/gtest.h>

#include "test_restart.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

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

// ---- an end that is older than what was said
// --------------------------------------------------------------------------------------------------

// Copied back by hand, or by a file system that lost writes which it had called stable.
TEST(MetadataRestart, AnOlderCopyOfTheFileIsNoEndBehindAMark) {
    for (const bool orderly : {false, true}) {
        RestartRig rig(1);
        rig.options.region_bytes = 16 * kWalBlockBytes;
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.append(2);
        const std::vector<std::byte> older = *rig.disk().read_file(kFirstFile);
        rig.append(3);
        if (orderly) {
            rig.close();
        } else {
            rig.files->wal().tick();
            rig.files->wal().tick();
            rig.world.run_for(kSecond);
            rig.crash(CrashKind::kProcess);
        }
        const std::vector<std::byte> whole = *rig.disk().read_file(kFirstFile);
        rig.disk().write_file(kFirstFile, older);
        const std::string refusal = rig.open();
        EXPECT_NE(refusal.find(kFirstFile), std::string::npos) << refusal;
        EXPECT_NE(refusal.find(kRestoreRemedy), std::string::npos) << refusal;
        rig.disk().write_file(kFirstFile, whole);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 2, 3}));
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

// A process that keeps its metadata group, or starts to, ends at any of its operations, or any of
// them fails: what was acknowledged is there after the next start, and what that has shown after
// one more.
#include <gtest/gtest.h>

#include <set>

#include "test_restart.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

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
            const bool ended = rig.world.run_until_crash(rig.node, boot(rig, true)).has_value();
            rig.crash(CrashKind::kPower, UnsyncedFate::kRuin);
            ASSERT_EQ(rig.open(), "") << damage.path << damage.positions[0] << " at " << n;
            ASSERT_EQ(rig.state, (TestState{1, 2, 3, 4}));
            if (ended) {
                break;
            }
        }
    }
}

}  // namespace
}  // namespace galgo::storage

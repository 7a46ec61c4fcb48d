// The metadata log on the simulated disk.
#include <gtest/gtest.h>

#include "observe/histogram.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "storage/wal.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::TestWorld;

const std::string kPath = "/metadata/journal.wal";

std::vector<std::byte> entry(std::uint64_t op, std::size_t body_bytes) {
    std::vector<std::byte> bytes(wire::kPrepareHeaderSize + body_bytes, static_cast<std::byte>(op));
    wire::PrepareHeader header{.op = OpNumber(op)};
    const MutableBytes all(bytes);
    wire::encode_prepare_header(all.first(wire::kPrepareHeaderSize), header,
                                all.subspan(wire::kPrepareHeaderSize));
    return bytes;
}

struct WalRig {
    explicit WalRig(std::uint64_t seed) : world(seed), node(world.add_node()) {
        EXPECT_TRUE(world.run(node, runtime::make_directories(*node.io, "/metadata")).has_value());
        node.disk->sync_all();
    }
    ~WalRig() {
        if (wal) {
            world.kill(node);
        }
    }
    /// Empty text on success.
    std::string open(std::string required_by = {}) {
        ops.clear();
        auto opened =
            world.run(node, Wal::open(
                                *node.io, node.queue(), kPath,
                                [this](const wire::PrepareHeader& header, ConstBytes) -> Status {
                                    ops.push_back(header.op.value());
                                    return {};
                                },
                                std::move(required_by)));
        if (!opened.has_value()) {
            return opened.error().text;
        }
        wal = std::move(*opened);
        return {};
    }
    static Task<Status> append_one(Wal& wal, std::uint64_t op, std::size_t body_bytes) {
        const Status status = co_await wal.append(entry(op, body_bytes));
        co_return status;
    }
    Status append(std::uint64_t op, std::size_t body_bytes = 100) {
        return world.run(node, append_one(*wal, op, body_bytes));
    }
    void crash(CrashKind kind) {
        world.kill(node);
        wal.reset();
        world.restart(node, kind);
    }
    TestWorld world;
    runtime_sim::Node& node;
    std::unique_ptr<Wal> wal;
    std::vector<std::uint64_t> ops;
};

TEST(Wal, SurvivesPowerLossOnceAcknowledged) {
    WalRig rig(1);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t op = 1; op <= 5; ++op) {
        ASSERT_TRUE(rig.append(op).has_value());
    }
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.ops, (std::vector<std::uint64_t>{1, 2, 3, 4, 5}));
    EXPECT_EQ(rig.wal->cut_bytes(), 0U);
}

TEST(Wal, CommitsAGroupWithOneSync) {
    observe::Histogram sync_times;
    WalRig rig(2);
    ASSERT_EQ(rig.open(), "");
    rig.wal->measure_syncs(sync_times);
    const auto many = [](Wal& wal) -> Task<bool> {
        auto [a, b, c] =
            co_await coro::all(WalRig::append_one(wal, 1, 10), WalRig::append_one(wal, 2, 0),
                               WalRig::append_one(wal, 3, 1000));
        co_return a.has_value() && b.has_value() && c.has_value();
    };
    EXPECT_TRUE(rig.world.run(rig.node, many(*rig.wal)));
    EXPECT_EQ(rig.wal->sync_count(), 1U);
    EXPECT_EQ(sync_times.count(), 1U);
    EXPECT_GT(sync_times.sum(), 0U);
    EXPECT_EQ(rig.wal->size_bytes(), 3 * 256U + 1010U);
}

TEST(Wal, CutsATornTailAndKeepsItAside) {
    for (const std::size_t keep : {1U, 255U, 256U, 300U}) {
        WalRig rig(3);
        ASSERT_EQ(rig.open(), "");
        ASSERT_TRUE(rig.append(1).has_value());
        ASSERT_TRUE(rig.append(2).has_value());
        rig.crash(CrashKind::kProcess);
        ASSERT_TRUE(rig.node.disk->truncate_to(kPath, 356 + keep));
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.ops, (std::vector<std::uint64_t>{1}));
        EXPECT_EQ(rig.wal->cut_bytes(), keep);
        EXPECT_EQ(rig.node.disk->read_file(kPath + ".torn-1")->size(), keep);
        ASSERT_TRUE(rig.append(2).has_value());
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.ops, (std::vector<std::uint64_t>{1, 2}));
        rig.crash(CrashKind::kProcess);
    }
}

TEST(Wal, RefusesDamageWithEntriesBehindIt) {
    for (const std::uint64_t at : {10U, 300U, 356U + 20U}) {
        WalRig rig(4);
        ASSERT_EQ(rig.open(), "");
        for (std::uint64_t op = 1; op <= 3; ++op) {
            ASSERT_TRUE(rig.append(op).has_value());
        }
        rig.crash(CrashKind::kProcess);
        ASSERT_TRUE(rig.node.disk->corrupt(kPath, at, 4));
        const std::string refusal = rig.open();
        EXPECT_NE(refusal.find(kPath), std::string::npos);
        EXPECT_NE(refusal.find("position " + std::to_string(at / 356 * 356)), std::string::npos)
            << refusal;
        EXPECT_EQ(rig.node.disk->read_file(kPath)->size(), 3 * 356U);
    }
}

TEST(Wal, FullDiskFailsAndIsTriedAgain) {
    WalRig rig(5);
    ASSERT_EQ(rig.open(), "");
    ASSERT_TRUE(rig.append(1).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = "journal.wal", .times = 1, .error = ENOSPC});
    const Status refused = rig.append(2);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().os_errno, ENOSPC);
    EXPECT_FALSE(rig.wal->poisoned());
    ASSERT_TRUE(rig.append(2).has_value());
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.ops, (std::vector<std::uint64_t>{1, 2}));
}

// The room ahead is used up, then the disk is full: refused before anything is written.
TEST(Wal, NoRoomToAllocateRefusesUntilThereIs) {
    WalRig rig(8);
    ASSERT_EQ(rig.open(), "");
    ASSERT_TRUE(rig.append(1).has_value());
    rig.node.disk->set_capacity(rig.node.disk->used_bytes());
    std::uint64_t op = 1;
    Status status;
    while (status.has_value() && op < 10'000) {
        status = rig.append(op + 1);
        op += status.has_value() ? 1 : 0;
    }
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().os_errno, ENOSPC);
    EXPECT_GT(op, 100U) << "room for changes was kept ahead";
    EXPECT_FALSE(rig.wal->poisoned());
    EXPECT_EQ(rig.node.disk->read_file(kPath)->size(), rig.wal->size_bytes());
    EXPECT_FALSE(rig.append(op + 1).has_value());
    rig.node.disk->set_capacity(1ULL << 40);
    ASSERT_TRUE(rig.append(op + 1).has_value());
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.ops.size(), op + 1);
    EXPECT_EQ(rig.ops.back(), op + 1);
}

TEST(Wal, AWriteErrorThatIsNoFullDiskEndsAppends) {
    WalRig rig(9);
    ASSERT_EQ(rig.open(), "");
    ASSERT_TRUE(rig.append(1).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = "journal.wal", .times = 1, .error = EIO});
    EXPECT_FALSE(rig.append(2).has_value());
    EXPECT_TRUE(rig.wal->poisoned());
    EXPECT_FALSE(rig.append(2).has_value());
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.ops, (std::vector<std::uint64_t>{1}));
}

TEST(Wal, FailedSyncEndsAppends) {
    WalRig rig(6);
    ASSERT_EQ(rig.open(), "");
    rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = "journal.wal", .times = 1});
    EXPECT_FALSE(rig.append(1).has_value());
    EXPECT_TRUE(rig.wal->poisoned());
    EXPECT_FALSE(rig.append(2).has_value());
}

// A process that was killed behind the making of the file has not synced its name.
TEST(Wal, AFileThatIsThereMayHaveNoStableName) {
    WalRig rig(7);
    ASSERT_EQ(rig.open(), "");
    rig.crash(CrashKind::kProcess);
    rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = "/metadata", .times = 1});
    EXPECT_NE(rig.open(), "") << "the directory is synced by every opening";
}

TEST(Wal, RefusesToBeginAnewWhereEntriesHaveBeen) {
    WalRig rig(31);
    EXPECT_NE(rig.open("data is there").find("is missing, but data is there"), std::string::npos);
    EXPECT_FALSE(rig.node.disk->exists(kPath));
    rig.node.disk->write_file(kPath, {});
    EXPECT_NE(rig.open("data is there").find("is empty"), std::string::npos);
    std::vector<std::byte> torn = entry(1, 100);
    torn.resize(100);
    rig.node.disk->write_file(kPath, torn);
    EXPECT_NE(rig.open("data is there").find("has no valid entry"), std::string::npos);
    EXPECT_EQ(rig.node.disk->read_file(kPath), torn);  // as it was
    ASSERT_EQ(rig.open(), "");                         // a first start that was killed
    ASSERT_TRUE(rig.append(1).has_value());
    rig.crash(CrashKind::kPower);
    EXPECT_EQ(rig.open("data is there"), "");
    EXPECT_EQ(rig.ops, std::vector<std::uint64_t>{1});
}

}  // namespace
}  // namespace galgo::storage

// Superblock, log and snapshots of the metadata group together: boot, truncation, random crashes.
#include <gtest/gtest.h>

#include "test_metadata.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::CrashKind;
using runtime_sim::DiskOp;

struct FilesRig : MetadataRig {
    explicit FilesRig(std::uint64_t seed) : MetadataRig(seed) {
        world.run(node, runtime::make_directories(*node.io, kMetadataDirectory));
        node.disk->sync_all();
    }
    /// Is a snapshot due, when all to `op` is applied and no number was left out?
    [[nodiscard]] bool due(std::uint64_t op) const {
        return files->snapshot_due(op - files->snapshot_op().value());
    }
    [[nodiscard]] std::vector<std::string> names(const std::string& part) const {
        std::vector<std::string> found;
        for (const std::string& path : node.disk->list_all()) {
            if (path.find(part) != std::string::npos) {
                found.push_back(path.substr(path.rfind('/') + 1));
            }
        }
        return found;
    }
};

TEST(MetadataFiles, ASnapshotAndTheTailAreTheState) {
    FilesRig rig(1);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.files->head(), OpNumber{0});
    for (std::uint64_t i = 1; i <= 5; ++i) {
        rig.append(i * 7);
    }
    EXPECT_FALSE(rig.due(5));
    rig.append(42);
    EXPECT_TRUE(rig.due(6));
    rig.snapshot();
    EXPECT_FALSE(rig.due(6));
    rig.append(49);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{7, 14, 21, 28, 35, 42, 49}));
    EXPECT_EQ(rig.files->snapshot_op(), OpNumber{6});
    EXPECT_EQ(rig.files->head(), OpNumber{7});
}

TEST(MetadataFiles, FilesStayBoundedWhateverTheNumberOfChanges) {
    FilesRig rig(2);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t i = 1; i <= 200; ++i) {
        rig.append(i);
        if (rig.due(i)) {
            rig.snapshot();
        }
        ASSERT_LE(rig.names("journal.wal").size(), 7U) << i;
        ASSERT_LE(rig.names("snapshot.").size(), 2U) << i;
    }
    EXPECT_EQ(rig.files->snapshot_count(), 33U);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state.size(), 200U);
    EXPECT_EQ(rig.state, rig.attempted);
}

TEST(MetadataFiles, ALargeLogAlsoCallsForASnapshot) {
    FilesRig rig(3);
    rig.options.snapshot_ops = 1000;
    rig.options.snapshot_bytes = 8 * kWalBlockBytes;
    ASSERT_EQ(rig.open(), "");
    rig.append(1, 20'000);
    EXPECT_FALSE(rig.due(1));
    rig.append(2, 20'000);
    EXPECT_TRUE(rig.due(2));
    rig.snapshot();
    EXPECT_FALSE(rig.due(2));
    // What lies before the snapshot does not count after a start either, what lies behind it does.
    rig.close();
    ASSERT_EQ(rig.open(), "");
    rig.go_on();
    rig.append(3, 20'000);
    EXPECT_FALSE(rig.due(3));
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_FALSE(rig.due(3));
    rig.go_on();
    rig.append(4, 20'000);
    EXPECT_TRUE(rig.due(4));
}

TEST(MetadataFiles, AReducedNumberOfSlotsRefusesAndChangesNothing) {
    FilesRig rig(4);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t i = 1; i <= 20; ++i) {
        EXPECT_TRUE(rig.files->tail_has_room(i - 1));
        rig.append(i);
    }
    rig.close();
    rig.options.tail_ops_max = 19;
    std::map<std::string, std::vector<std::byte>> before;
    for (const std::string& name : rig.names("journal.wal")) {
        before[name] = *rig.node.disk->read_file(kMetadataDirectory + "/" + name);
    }
    const std::string refusal = rig.open();
    EXPECT_NE(refusal.find("metadata.journal_slots"), std::string::npos) << refusal;
    for (const auto& [name, content] : before) {
        EXPECT_EQ(*rig.node.disk->read_file(kMetadataDirectory + "/" + name), content) << name;
    }
    rig.options.tail_ops_max = 20;
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, rig.attempted);
    EXPECT_EQ(rig.files->tail_count(), 20U);
    EXPECT_FALSE(rig.files->tail_has_room(rig.files->tail_count()));
}

TEST(MetadataFiles, NumbersThatWereLeftOutTakeNoSlots) {
    FilesRig rig(9);
    rig.options.tail_ops_max = 20;
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t i = 1; i <= 10; ++i) {
        rig.append(i);
        rig.next_op += 100;
    }
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.files->head(), OpNumber{910});
    EXPECT_EQ(rig.files->tail_count(), 10U);
    EXPECT_TRUE(rig.files->tail_has_room(rig.files->tail_count()));
}

TEST(MetadataFiles, ALostSnapshotCallsForANewOne) {
    FilesRig rig(5);
    ASSERT_EQ(rig.open(), "");
    for (std::uint64_t i = 1; i <= 4; ++i) {
        rig.append(i);
        if (i % 2 == 0) {
            rig.snapshot();
        }
    }
    rig.append(5);
    rig.close();
    ASSERT_TRUE(rig.node.disk->corrupt(snapshot_path(kMetadataDirectory, OpNumber{4}), 4100, 1));
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, rig.attempted);
    EXPECT_TRUE(rig.files->snapshot_lost());
    EXPECT_TRUE(rig.due(5));
    rig.snapshot();
    EXPECT_FALSE(rig.due(5));
    rig.close();
    EXPECT_EQ(rig.names("snapshot."), (std::vector<std::string>{"snapshot.00000000000000000002",
                                                                "snapshot.00000000000000000005"}));
    ASSERT_TRUE(rig.node.disk->corrupt(snapshot_path(kMetadataDirectory, OpNumber{5}), 4100, 1));
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, rig.attempted);
}

TEST(MetadataFiles, AFailedSnapshotLeavesTheOldOneInForce) {
    for (const DiskOp op : {DiskOp::kWrite, DiskOp::kSync, DiskOp::kRename, DiskOp::kOpen}) {
        FilesRig rig(6);
        ASSERT_EQ(rig.open(), "");
        rig.append(1);
        rig.snapshot();
        rig.append(2);
        rig.node.disk->add_fault({.op = op, .path_contains = "snapshot.", .times = 1});
        EXPECT_FALSE(rig.world.run(rig.node, MetadataRig::install(rig, 2)).has_value());
        EXPECT_EQ(rig.files->snapshot_op(), OpNumber{1});
        rig.append(3);
        rig.snapshot();
        EXPECT_EQ(rig.files->snapshot_op(), OpNumber{3});
        rig.crash(CrashKind::kPower);
        ASSERT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, (TestState{1, 2, 3}));
    }
}

TEST(MetadataFiles, ASnapshotWhoseNameWasNotSyncedGoes) {
    FilesRig rig(6);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    // Behind the sync of the file comes that of the directory.
    rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = kMetadataDirectory, .skip = 1});
    EXPECT_FALSE(rig.world.run(rig.node, MetadataRig::install(rig, 1)).has_value());
    EXPECT_EQ(rig.node.disk->fault_count(), 1U);
    EXPECT_TRUE(rig.names("snapshot.").empty());
    EXPECT_FALSE(rig.files->poisoned());
    rig.snapshot();
    EXPECT_EQ(rig.names("snapshot.").size(), 1U);
}

TEST(MetadataFiles, ASnapshotThatNoStartWouldReadIsNotInstalled) {
    FilesRig rig(10);
    ASSERT_EQ(rig.open(), "");
    rig.append(1);
    const auto install = [](FilesRig& r) -> Task<Status> {
        SealedSnapshot snapshot = seal_snapshot(test_snapshot(r.attempted, 1));
        snapshot.ref.size_bytes = kSnapshotBytesMax + 1;
        const Status status = co_await r.files->install_snapshot(std::move(snapshot));
        co_return status;
    };
    EXPECT_FALSE(rig.world.run(rig.node, install(rig)).has_value());
    EXPECT_EQ(rig.files->snapshot_op(), OpNumber{0});
    EXPECT_FALSE(rig.files->poisoned());
    rig.append(2);
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.state, (TestState{1, 2}));
}

TEST(MetadataFiles, AForeignSuperblockIsRefused) {
    FilesRig rig(7);
    ASSERT_EQ(rig.open(), "");
    rig.close();
    rig.options.identity.replica = 1;
    rig.options.identity.replica_count = 3;
    EXPECT_NE(rig.open().find("superblock belongs to replica 0 of 1"), std::string::npos);
}

TEST(MetadataFiles, ViewsAndEpochAreKept) {
    FilesRig rig(8);
    ASSERT_EQ(rig.open(), "");
    const auto change = [](FilesRig& r) -> Task<Status> {
        const Status status = co_await r.files->superblock().update([](SuperblockState& state) {
            state.view = ViewNumber{7};
            state.log_view = ViewNumber{5};
            state.epoch = 9;
        });
        co_return status;
    };
    ASSERT_TRUE(rig.world.run(rig.node, change(rig)).has_value());
    rig.crash(CrashKind::kPower);
    ASSERT_EQ(rig.open(), "");
    EXPECT_EQ(rig.files->superblock().state().view, ViewNumber{7});
    EXPECT_EQ(rig.files->superblock().state().log_view, ViewNumber{5});
    EXPECT_EQ(rig.files->superblock().state().epoch, 9U);
}

// ---- random crashes
// --------------------------------------------------------------------------------------------------

/// Appends alone and in groups, with snapshots beside them, until the node crashes.
Task<bool> load_until_crash(MetadataRig& rig) {
    for (int step = 0; step < 60; ++step) {
        const std::uint64_t draw = rig.world.random().next();

        const std::size_t body = 8 + draw % 97 + (draw % 11 == 0 ? 5000 : 0);
        bool alive = true;
        if (rig.acknowledged > rig.files->snapshot_op().value() &&
            rig.files->snapshot_due(rig.acknowledged - rig.files->snapshot_op().value())) {
            auto [a, b, c] = co_await coro::all(MetadataRig::install(rig, rig.acknowledged),
                                                MetadataRig::append_one(rig, draw, body),
                                                MetadataRig::append_one(rig, draw + 1, 8));
            alive = a.has_value() && b.has_value() && c.has_value();
        } else if (draw % 3 == 0) {
            auto [a, b, c] = co_await coro::all(MetadataRig::append_one(rig, draw, body),
                                                MetadataRig::append_one(rig, draw + 1, 8),
                                                MetadataRig::append_one(rig, draw + 2, 300));
            alive = a.has_value() && b.has_value() && c.has_value();
        } else {
            const Status one = co_await MetadataRig::append_one(rig, draw, body);
            alive = one.has_value();
        }
        if (draw % 7 == 0) {
            rig.files->wal().tick();
            rig.files->wal().tick();
        }
        if (!alive) {
            co_return false;
        }
    }
    co_return true;
}

TEST(MetadataFiles, NothingAcknowledgedIsLostAndNothingSeenIsTakenBack) {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
        FilesRig rig(seed);

        for (int life = 0; life < 8; ++life) {
            const TestState attempted = rig.attempted;
            const std::uint64_t acknowledged = rig.acknowledged;
            if (life != 0 && rig.world.random().next() % 4 == 0) {
                // A start that dies on the way.
                rig.node.io->crash_after(rig.world.random().next() % 40);
                MetadataRig* at = &rig;
                const auto boot = [](MetadataRig* r) -> Task<bool> {
                    auto opened = co_await MetadataFiles::open(
                        *r->node.io, r->node.queue(), r->options,
                        [](const SnapshotContents*) -> Status { return {}; },
                        [](const wire::PrepareHeader&,
                           ConstBytes) -> std::expected<void, std::string> { return {}; });
                    if (opened.has_value()) {
                        co_await (*opened)->sweep();
                        co_await (*opened)->close();
                    }
                    co_return true;
                };
                (void)rig.world.run_until_crash(rig.node, boot(at));
                rig.crash(rig.world.random().next() % 2 == 0 ? CrashKind::kPower
                                                             : CrashKind::kProcess);
            }
            ASSERT_EQ(rig.open(), "") << "seed " << seed << " life " << life;
            ASSERT_GE(rig.state.size(), acknowledged) << "seed " << seed << " life " << life;
            ASSERT_LE(rig.state.size(), attempted.size()) << "seed " << seed << " life " << life;
            for (std::size_t i = 0; i < rig.state.size(); ++i) {
                ASSERT_EQ(rig.state[i], attempted[i]) << "seed " << seed << " op " << i + 1;
            }
            rig.go_on();  // all that a start has shown counts from now on
            rig.node.io->crash_after(3 + rig.world.random().next() % 400);
            (void)rig.world.run_until_crash(rig.node, load_until_crash(rig));
            rig.crash(rig.world.random().next() % 2 == 0 ? CrashKind::kPower : CrashKind::kProcess);
        }
    }
}

}  // namespace
}  // namespace galgo::storage

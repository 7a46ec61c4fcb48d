// Lives of a partition's directory: whose files are in it, and what goes with a life that ended.
#include "storage/offsets_file.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

constexpr Incarnation kFirstLife{3};  // of a Rig
constexpr Incarnation kSecondLife{10};
const std::string kIncarnationPath = kTestLogDirectory + "/incarnation";
const std::string kOffsetPath = kTestLogDirectory + "/offsets/consumers/1";

Status store_offset_file(Rig& rig) {
    return rig.world.run(
        rig.node,
        write_offset_file(*rig.node.io, rig.offsets_home(),
                          {.owner = OffsetOwner::kConsumer, .id = 1, .offset = Offset{9}}, true));
}

/// A purge is in the metadata log; the server was killed before it had carried it out.
void begin_second_life(Rig& rig) {
    rig.crash(CrashKind::kProcess);
    rig.trash.note_retired(kTestKey, kFirstLife);
    rig.incarnation = kSecondLife;
    rig.attempted.clear();
    rig.acknowledged.clear();
    rig.start();
}

TEST(PartitionLife, DestroyTakesADirectoryThatOthersMade) {
    Rig rig(1);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(store_offset_file(rig).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->destroy()).has_value());
    EXPECT_FALSE(rig.node.disk->exists(kOffsetPath));
    EXPECT_FALSE(rig.node.disk->exists(kTestLogDirectory));
}

TEST(PartitionLife, DestroyWithoutADirectoryIsNoWork) {
    Rig rig(2);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(*rig.world.run(rig.node, rig.trash.empty(*rig.node.io, rig.node.queue(), 10)));
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->destroy()).has_value());
    EXPECT_FALSE(rig.trash.has_work());
}

TEST(PartitionLife, FenceAndOffsetsEndWithIt) {
    Rig rig(3);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    ASSERT_TRUE(store_offset_file(rig).has_value());
    rig.node.disk->write_file(kTestLogDirectory + "/fenced", {});
    ASSERT_NO_FATAL_FAILURE(begin_second_life(rig));
    EXPECT_FALSE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.log->end_offset(), Offset{0});
    EXPECT_FALSE(rig.node.disk->exists(kOffsetPath));
    EXPECT_FALSE(rig.node.disk->exists("/data/quarantine"));
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    EXPECT_FALSE(rig.log->fenced().has_value());
    rig.verify(true);
    rig.stop();
}

// Somebody made the directory and was killed before it said whose it is.
TEST(PartitionLife, AnOpenedDirectorySaysWhoseItIs) {
    for (const bool is_full : {false, true}) {
        SCOPED_TRACE(is_full);
        Rig rig(4);
        rig.node.disk->write_file(kOffsetPath, {});
        if (is_full) {
            rig.node.disk->add_fault({.op = DiskOp::kOpen,
                                      .path_contains = "incarnation.tmp",
                                      .times = 1,
                                      .error = ENOSPC});
        }
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.node.disk->exists(kIncarnationPath), !is_full);
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        EXPECT_TRUE(rig.node.disk->exists(kIncarnationPath));
        ASSERT_NO_FATAL_FAILURE(begin_second_life(rig));
        EXPECT_EQ(rig.log->end_offset(), Offset{0});
        EXPECT_FALSE(rig.node.disk->exists(kOffsetPath));
        rig.stop();
    }
}

TEST(PartitionLife, ADamagedIncarnationFileIsWrittenAnew) {
    Rig rig(5);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.stop();
    const auto before = rig.node.disk->read_file(kIncarnationPath);
    ASSERT_TRUE(rig.node.disk->corrupt(kIncarnationPath, 3, 1));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    rig.verify(true);
    EXPECT_EQ(rig.node.disk->read_file(kIncarnationPath), before);
    rig.stop();
}

TEST(PartitionLife, APreparedDirectoryIsStable) {
    Rig rig(6);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    const auto prepare_and_append = [](Rig& r) -> coro::Task<Status> {
        auto [first, second, appended] = co_await coro::all(
            r.log->prepare_directory(true), r.log->prepare_directory(true), r.append(1, 100'000));
        co_return first.has_value() && second.has_value() ? appended : fail_os(EIO);
    };
    EXPECT_TRUE(rig.world.run(rig.node, prepare_and_append(rig)).has_value());
    rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_TRUE(rig.node.disk->exists(kIncarnationPath));
    // Made by a process that did not come to the sync of its parents.
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->prepare_directory(true)).has_value());
    rig.stop();
}

// The fence is known from the journals alone as long as its file cannot be made. A fenced partition
// takes changes of offsets, which say nothing of its batches.
TEST(PartitionLife, AChangedOffsetLiftsNoFence) {
    Rig rig(7, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    }
    rig.crash(CrashKind::kProcess);
    for (const char* name : {"/00000000000000000000.log", "/00000000000000000000.index"}) {
        ASSERT_GE(rig.node.disk->unlink(kTestLogDirectory + name), 0);
    }
    rig.node.disk->add_fault(
        {.op = DiskOp::kOpen, .path_contains = "/fenced", .times = 1000, .error = ENOSPC});
    for (std::uint64_t boot = 0; boot < 3; ++boot) {
        SCOPED_TRACE(boot);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.log->fenced().has_value());
        EXPECT_FALSE(rig.log->recovery_complete());
        EXPECT_EQ(rig.log->end_offset(), Offset{3});
        const auto change = [](Rig& r, OpNumber op) -> coro::Task<bool> {
            const auto written = co_await r.journal->append({.kind = JournalKind::kOffsetSet,
                                                             .consumer_kind = 1,
                                                             .consumer_id = 1,
                                                             .partition = kTestKey,
                                                             .incarnation = kFirstLife,
                                                             .op = op,
                                                             .commit_op = op},
                                                            {}, true);
            co_return written.has_value();
        };
        EXPECT_TRUE(rig.world.run(rig.node, change(rig, OpNumber{10 + boot})));
        rig.crash(CrashKind::kProcess);
    }
    rig.node.disk->clear_faults();
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.node.disk->exists(kTestLogDirectory + "/fenced"));
    EXPECT_TRUE(rig.log->recovery_complete());
}

}  // namespace
}  // namespace galgo::storage

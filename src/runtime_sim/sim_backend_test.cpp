#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"

namespace galgo::runtime_sim {
namespace {

using coro::Task;
using runtime::FileHandle;
using runtime::OpenMode;
using runtime::SocketHandle;

Task<Status> store(runtime::IoBackend& io, std::string path, std::string text, bool is_synced) {
    GALGO_CO_TRY_ASSIGN(const FileHandle file, co_await runtime::open(io, path, OpenMode::kCreate));
    GALGO_CO_TRY(co_await runtime::write_all(io, file, as_bytes(text), 0));
    if (is_synced) {
        GALGO_CO_TRY(co_await runtime::sync(io, file));
    }
    GALGO_CO_TRY(co_await runtime::close(io, file));
    if (is_synced) {
        GALGO_CO_TRY(co_await runtime::sync_directory(io, "/"));
    }
    co_return Status{};
}

std::string text_of(const SimDisk& disk, const std::string& path) {
    const auto content = disk.read_file(path);
    return content ? std::string(as_text(*content)) : "(absent)";
}

std::uint64_t trace_of(std::uint64_t seed) {
    TestWorld world(seed);
    Node& node = world.add_node();
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(world.run(node, store(*node.io, "/f" + std::to_string(i), "abc", true)));
    }
    return node.io->trace_hash();
}

TEST(SimBackend, SameSeedSameTrace) {
    EXPECT_EQ(trace_of(7), trace_of(7));
    EXPECT_NE(trace_of(7), trace_of(8));
}

TEST(SimBackend, ProcessCrashKeepsWhatWasWritten) {
    TestWorld world(1);
    Node& node = world.add_node();
    ASSERT_TRUE(world.run(node, store(*node.io, "/a", "hello", false)));
    world.restart(node, CrashKind::kProcess);
    EXPECT_EQ(text_of(*node.disk, "/a"), "hello");
}

TEST(SimBackend, PowerCrashLosesWhatWasNotSynced) {
    TestWorld world(1);
    Node& node = world.add_node();
    ASSERT_TRUE(world.run(node, store(*node.io, "/a", "synced", true)));
    ASSERT_TRUE(world.run(node, store(*node.io, "/a", "hello!", false)));
    ASSERT_TRUE(world.run(node, store(*node.io, "/b", "hello", false)));
    world.restart(node, CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_EQ(text_of(*node.disk, "/a"), "synced");
    EXPECT_EQ(text_of(*node.disk, "/b"), "(absent)");
}

TEST(SimBackend, StopsAtEveryOperation) {
    for (std::uint64_t stop = 0; stop < 20; ++stop) {
        TestWorld world(stop);
        Node& node = world.add_node();
        node.io->crash_after(stop);
        const auto ended = world.run_until_crash(node, store(*node.io, "/a", "hello", true));
        EXPECT_EQ(ended.has_value(), stop >= 7) << stop;
        world.restart(node, CrashKind::kPower);
        if (ended.has_value()) {
            EXPECT_EQ(text_of(*node.disk, "/a"), "hello");
        }
        EXPECT_EQ(node.disk->open_file_count(), 0u);
        EXPECT_TRUE(world.run(node, store(*node.io, "/a", "again", true)));
    }
}

/// One operation by hand: what it completed with.
struct TestOp : runtime::IoOp {
    TestOp() {
        complete = [](runtime::IoOp& op, std::int32_t value) noexcept {
            auto& self = static_cast<TestOp&>(op);
            self.result = value;
            ++self.completions;
        };
    }
    std::int32_t result = 1 << 30;
    int completions = 0;
};

/// A backend that is polled by hand, without a loop.
class SimBackendByHand : public testing::Test {
 protected:
    void finish(TestOp& op) {
        for (int i = 0; i < 100 && op.completions == 0; ++i) {
            io_.poll(kNever);
        }
        EXPECT_EQ(op.completions, 1);
    }
    FileHandle open(const char* path) {
        TestOp op;
        io_.open(op, path, OpenMode::kCreate, 0600);
        finish(op);
        EXPECT_GE(op.result, 0);
        return FileHandle{op.result};
    }

    SimClock clock_;
    SimDisk disk_{1, &clock_};
    SimNetwork network_{2, clock_};
    SimBackend io_{clock_, disk_, network_, {.seed = 3}};
};

TEST_F(SimBackendByHand, PollMovesTimeToTheDeadlineWhenNothingIsReady) {
    const Instant start = io_.now();
    EXPECT_EQ(io_.poll(start.plus(kSecond)), 0u);
    EXPECT_EQ(io_.now(), start.plus(kSecond));
    EXPECT_EQ(io_.poll(Instant{0}), 0u);
    EXPECT_LT(io_.now(), start.plus(kSecond + kMillisecond));
    const Timestamp wall = io_.wall_now();
    clock_.jump_wall(-5);
    EXPECT_EQ(io_.wall_now(), Timestamp(wall.value() - 5));
}

TEST_F(SimBackendByHand, AnotherBackendIsNotSleptPast) {
    SimBackend other(clock_, disk_, network_, {.seed = 4, .shard = ShardIndex{1}});
    const Instant start = io_.now();
    EXPECT_EQ(other.poll(start.plus(kMillisecond)), 0u);
    EXPECT_EQ(other.now(), start.plus(kMillisecond));  // alone so far: nobody else was ever polled
    const Instant second = start.plus(2 * kMillisecond);
    (void)other.poll(second);
    (void)io_.poll(start.plus(kSecond));
    EXPECT_LE(io_.now(), start.plus(3 * kMillisecond));  // `other` is awake again
}

TEST_F(SimBackendByHand, WakeEndsTheNextPoll) {
    const Instant start = io_.now();
    io_.wake(ShardIndex{0});
    EXPECT_EQ(io_.poll(start.plus(kSecond)), 0u);
    EXPECT_LT(io_.now(), start.plus(kMillisecond));
    EXPECT_EQ(io_.poll(start.plus(kSecond)), 0u);
    EXPECT_EQ(io_.now(), start.plus(kSecond));
}

TEST_F(SimBackendByHand, NothingCompletesInsideACall) {
    TestOp op;
    io_.read(op, FileHandle{5}, {}, 0);
    EXPECT_TRUE(op.in_flight);
    EXPECT_EQ(op.completions, 0);
    finish(op);
    EXPECT_FALSE(op.in_flight);
    EXPECT_EQ(op.result, -EBADF);
}

TEST_F(SimBackendByHand, OverlappingOperationsCompleteInAnySeededOrder) {
    const FileHandle file = open("/a");
    bool reordered = false;
    for (int round = 0; round < 20; ++round) {
        TestOp first;
        TestOp second;
        io_.write(first, file, as_bytes("1"), 0);
        io_.write(second, file, as_bytes("2"), 1);
        while (first.completions == 0 && second.completions == 0) {
            io_.poll(kNever);
        }
        reordered = reordered || first.completions == 0;
        while (first.completions == 0 || second.completions == 0) {
            io_.poll(kNever);
        }
    }
    EXPECT_TRUE(reordered);
}

TEST_F(SimBackendByHand, CancelledFileOperationWasDoneOrNot) {
    const FileHandle file = open("/a");
    int cancelled = 0;
    for (int round = 0; round < 40; ++round) {
        TestOp op;
        io_.write(op, file, as_bytes("x"), static_cast<std::uint64_t>(round));
        io_.cancel(op);
        EXPECT_EQ(op.completions, 0);
        finish(op);
        EXPECT_TRUE(op.result == 1 || op.result == -ECANCELED) << op.result;
        cancelled += op.result == 1 ? 0 : 1;
    }
    EXPECT_GT(cancelled, 0);
    EXPECT_LT(cancelled, 40);
}

TEST_F(SimBackendByHand, VectoredWriteAndInjectedError) {
    const FileHandle file = open("/a");
    std::string one = "one,";
    std::string two = "two";
    const iovec parts[2] = {{.iov_base = one.data(), .iov_len = 4},
                            {.iov_base = two.data(), .iov_len = 3}};
    TestOp failing;
    io_.fail_submission(0, ENOMEM);
    io_.writev(failing, file, parts, 0);
    finish(failing);
    EXPECT_EQ(failing.result, -ENOMEM);
    EXPECT_EQ(text_of(disk_, "/a"), "");
    TestOp op;
    io_.writev(op, file, parts, 2);
    finish(op);
    EXPECT_EQ(op.result, 7);
    EXPECT_EQ(text_of(disk_, "/a"), std::string("\0\0", 2) + "one,two");
    EXPECT_EQ(io_.file_facts("/a")->size_bytes, 9u);
    EXPECT_GT(io_.file_facts("/a")->modified_us, 0u);
    EXPECT_EQ(io_.disk_space("/")->free_bytes, disk_.space().free_bytes);
    EXPECT_EQ(io_.disk_space("/none").error().os_errno, ENOENT);
    EXPECT_EQ(io_.list_directory("/")->size(), 1u);
}

TEST_F(SimBackendByHand, WriteNowCountsAndStopsAtTheCrashPoint) {
    const FileHandle file = open("/a");
    io_.crash_after(1);
    EXPECT_EQ(io_.write_now(file, as_bytes("1"), 0), 1);
    EXPECT_FALSE(io_.crashed());
    EXPECT_EQ(io_.write_now(file, as_bytes("2"), 1), -EIO);
    EXPECT_TRUE(io_.crashed());
    EXPECT_EQ(text_of(disk_, "/a"), "1");
}

TEST_F(SimBackendByHand, DropKeepsAPartOfWhatWasInFlight) {
    const FileHandle file = open("/a");
    io_.crash_after(1);
    TestOp in_flight;
    TestOp behind;
    io_.write(in_flight, file, as_bytes("abcdef"), 0);
    io_.write(behind, file, as_bytes("ABCDEF"), 0);
    EXPECT_TRUE(io_.crashed());
    io_.drop_all();
    EXPECT_EQ(in_flight.result, -ECANCELED);
    EXPECT_EQ(behind.result, -ECANCELED);
    EXPECT_TRUE(std::string("abcdef").starts_with(text_of(disk_, "/a")));
    TestOp late;
    io_.unlink(late, "/a");
    EXPECT_EQ(io_.poll(Instant{0}), 0u);
    io_.drop_all();
    EXPECT_EQ(late.result, -ECANCELED);
    EXPECT_TRUE(disk_.exists("/a"));
}

Task<std::uint64_t> sleep_twice(runtime::Loop& loop) {
    const Instant start = loop.now();
    co_await loop.sleep_for(kSecond);
    co_await loop.sleep_for(kSecond);
    co_return loop.now().value() - start.value();
}

TEST(TestWorld, TimersRunOnVirtualTime) {
    TestWorld world(5);
    Node& node = world.add_node();
    world.add_node();
    const std::uint64_t slept = world.run(node, sleep_twice(*node.loop));
    EXPECT_GE(slept, 2 * kSecond);
    EXPECT_LT(slept, 3 * kSecond);
    const Instant before = world.clock().now();
    world.run_for(kSecond);
    EXPECT_GE(world.clock().now(), before.plus(kSecond));
}

Task<void> write_two_files(runtime::IoBackend& io) {
    const Status first = co_await store(io, "/first", std::string(2000, '1'), true);
    if (!first) {
        co_return;
    }
    const Status second = co_await store(io, "/second", "2", true);
    (void)second;
}

TEST(TestWorld, EveryCrashPointKeepsTheOrderOfSyncs) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        TestWorld world(seed);
        Node& node = world.add_node();
        node.io->crash_after(seed % 16);
        (void)world.run_until_crash(node, write_two_files(*node.io));
        world.restart(node, CrashKind::kPower);
        if (node.disk->exists("/second")) {
            EXPECT_EQ(text_of(*node.disk, "/first"), std::string(2000, '1')) << seed;
        }
    }
}

TEST(TestWorldDeathTest, AHangPrintsTheSeed) {
    EXPECT_DEATH(
        {
            TestWorld world(4711);
            Node& node = world.add_node();
            node.io->crash_after(1);
            (void)world.run(node, store(*node.io, "/a", "x", true));
        },
        "seed 4711");
}

}  // namespace
}  // namespace galgo::runtime_sim

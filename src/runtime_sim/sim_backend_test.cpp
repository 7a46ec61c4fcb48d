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

}  // namespace
}  // namespace galgo::runtime_sim

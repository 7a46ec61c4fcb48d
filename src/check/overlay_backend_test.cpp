// The overlay on the simulated disk: every kind of operation is seen through it, and nothing of it
// reaches the disk.
#include "check/overlay_backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <string>
#include <vector>

#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"

namespace galgo::check {
namespace {

using coro::Task;
using runtime::OpenMode;

std::vector<std::byte> bytes_of(std::string_view text) {
    const ConstBytes bytes = as_bytes(text);
    return {bytes.begin(), bytes.end()};
}

/// A node whose loop runs on the overlay.
struct OverlayRig {
    explicit OverlayRig(std::uint64_t bytes_max = OverlayBackend::kBytesMaxDefault)
        : world(7), node(world.add_node()) {
        node.disk->write_file("/d/a", bytes_of("0123456789"));
        node.disk->write_file("/d/sub/b", bytes_of("bbbb"));
        node.loop.reset();
        overlay = std::make_unique<OverlayBackend>(*node.io, bytes_max);
        node.loop = std::make_unique<runtime::Loop>(*overlay, runtime::LoopOptions{});
        before = image();
    }
    ~OverlayRig() {
        EXPECT_EQ(image(), before) << "something reached the disk";
        EXPECT_EQ(overlay->open_file_count(), 0U);
        world.kill(node);
        node.loop = std::make_unique<runtime::Loop>(*node.io, runtime::LoopOptions{});
        overlay.reset();
    }

    std::map<std::string, std::vector<std::byte>> image() {
        std::map<std::string, std::vector<std::byte>> files;
        for (const std::string& path : node.disk->list_all()) {
            files[path] =
                path.ends_with('/') ? std::vector<std::byte>{} : *node.disk->read_file(path);
        }
        return files;
    }
    static Task<Result<std::string>> read_all(runtime::IoBackend& io, std::string path) {
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                            co_await runtime::open(io, path, OpenMode::kRead));
        std::string text(64, '\0');
        const Result<std::size_t> got = co_await runtime::read(
            io, file, std::as_writable_bytes(std::span(text.data(), text.size())), 0);
        GALGO_CO_TRY(co_await runtime::close(io, file));
        GALGO_CO_TRY(got);
        text.resize(*got);
        co_return text;
    }
    std::string text(const std::string& path) {
        const Result<std::string> got = world.run(node, read_all(*overlay, path));
        return got.has_value() ? *got : "errno " + std::to_string(got.error().os_errno);
    }
    static Task<Status> put(runtime::IoBackend& io, std::string path, OpenMode mode,
                            std::string text, std::uint64_t offset) {
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file, co_await runtime::open(io, path, mode));
        const Status written = co_await runtime::write_all(io, file, as_bytes(text), offset);
        const Status synced = co_await runtime::sync(io, file);
        GALGO_CO_TRY(co_await runtime::close(io, file));
        GALGO_CO_TRY(synced);
        co_return written;
    }
    Status write(const std::string& path, const std::string& text, std::uint64_t offset,
                 OpenMode mode = OpenMode::kReadWrite) {
        return world.run(node, put(*overlay, path, mode, text, offset));
    }
    static Task<Status> cut(runtime::IoBackend& io, std::string path, std::uint64_t size) {
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                            co_await runtime::open(io, path, OpenMode::kReadWrite));
        const Status done = co_await runtime::truncate(io, file, size);
        const Status allocated = co_await runtime::allocate(io, file, 100);
        GALGO_CO_TRY(co_await runtime::close(io, file));
        GALGO_CO_TRY(allocated);
        co_return done;
    }
    std::vector<std::string> names(const std::string& path) {
        std::vector<std::string> names;
        const auto entries = overlay->list_directory(path);
        for (std::size_t i = 0; entries.has_value() && i < entries->size(); ++i) {
            names.push_back((*entries)[i].name);
        }
        std::ranges::sort(names);
        return names;
    }

    runtime_sim::TestWorld world;
    runtime_sim::Node& node;
    std::unique_ptr<OverlayBackend> overlay;
    std::map<std::string, std::vector<std::byte>> before;
};

using Names = std::vector<std::string>;

TEST(OverlayBackend, WritesAreSeenAndMixWithWhatIsThere) {
    OverlayRig rig;
    EXPECT_EQ(rig.text("/d/a"), "0123456789");
    ASSERT_TRUE(rig.write("/d/a", "XY", 2).has_value());
    EXPECT_EQ(rig.text("/d/a"), "01XY456789");
    ASSERT_TRUE(rig.write("/d/a", "Z", 3).has_value());
    ASSERT_TRUE(rig.write("/d/a", "end", 12).has_value());
    EXPECT_EQ(rig.text("/d/a"), std::string("01XZ456789\0\0end", 15));
    EXPECT_EQ(rig.overlay->file_facts("/d/a")->size_bytes, 15U);
    ASSERT_TRUE(rig.write("/d/a", "--------------------", 0).has_value());
    EXPECT_EQ(rig.text("/d/a"), "--------------------");
    EXPECT_EQ(rig.overlay->bytes(), 20U);  // what was written over is not counted twice
}

TEST(OverlayBackend, ACutEndsWhatIsThere) {
    OverlayRig rig;
    ASSERT_TRUE(rig.write("/d/a", "WWWW", 8).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, OverlayRig::cut(*rig.overlay, "/d/a", 9)).has_value());
    EXPECT_EQ(rig.text("/d/a"), "01234567W");
    ASSERT_TRUE(rig.world.run(rig.node, OverlayRig::cut(*rig.overlay, "/d/a", 4)).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, OverlayRig::cut(*rig.overlay, "/d/a", 6)).has_value());
    EXPECT_EQ(rig.text("/d/a"), std::string("0123\0\0", 6));  // what was cut does not come back
    const Change& last = rig.overlay->changes().back();
    EXPECT_EQ(last.kind, ChangeKind::kCut);
    EXPECT_EQ(last.first, 4U);
    EXPECT_EQ(last.end, 6U);
}

TEST(OverlayBackend, FilesAreMadeMovedAndRemoved) {
    OverlayRig rig;
    EXPECT_EQ(rig.write("/d/new", "n", 0).error().os_errno, ENOENT);
    ASSERT_TRUE(rig.write("/d/new", "new", 0, OpenMode::kCreateExclusive).has_value());
    EXPECT_EQ(rig.write("/d/new", "n", 0, OpenMode::kCreateExclusive).error().os_errno, EEXIST);
    EXPECT_EQ(rig.write("/d/a", "n", 0, OpenMode::kCreateExclusive).error().os_errno, EEXIST);
    EXPECT_EQ(rig.names("/d"), (Names{"a", "new", "sub"}));
    ASSERT_TRUE(
        rig.world.run(rig.node, runtime::rename(*rig.overlay, "/d/new", "/d/a")).has_value());
    EXPECT_EQ(rig.text("/d/a"), "new");
    EXPECT_EQ(rig.names("/d"), (Names{"a", "sub"}));
    ASSERT_TRUE(rig.world.run(rig.node, runtime::unlink(*rig.overlay, "/d/a")).has_value());
    EXPECT_EQ(rig.text("/d/a"), "errno " + std::to_string(ENOENT));
    EXPECT_EQ(rig.world.run(rig.node, runtime::unlink(*rig.overlay, "/d/a")).error().os_errno,
              ENOENT);
    EXPECT_EQ(rig.names("/d"), (Names{"sub"}));
    rig.overlay->forget();
    EXPECT_EQ(rig.text("/d/a"), "0123456789");
    EXPECT_TRUE(rig.overlay->changes().empty());
}

TEST(OverlayBackend, DirectoriesAreMadeMovedAndRemoved) {
    OverlayRig rig;
    const auto remove = [&rig](const std::string& path) {
        const Status status =
            rig.world.run(rig.node, runtime::remove_directory(*rig.overlay, path));
        return status.has_value() ? 0 : status.error().os_errno;
    };
    ASSERT_TRUE(
        rig.world.run(rig.node, runtime::make_directories(*rig.overlay, "/d/x/y")).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, runtime::sync_directory(*rig.overlay, "/d/x")).has_value());
    ASSERT_TRUE(rig.write("/d/x/y/f", "f", 0, OpenMode::kCreate).has_value());
    ASSERT_TRUE(
        rig.world.run(rig.node, runtime::rename(*rig.overlay, "/d/sub", "/d/x/moved")).has_value());
    EXPECT_EQ(rig.text("/d/x/moved/b"), "bbbb");  // what is below a moved directory goes along
    EXPECT_FALSE(rig.overlay->file_facts("/d/sub/b").has_value());
    EXPECT_EQ(rig.names("/d/x"), (Names{"moved", "y"}));
    EXPECT_EQ(remove("/d/x/y"), ENOTEMPTY);
    EXPECT_EQ(remove("/d/a"), ENOTDIR);
    ASSERT_TRUE(rig.world.run(rig.node, runtime::unlink(*rig.overlay, "/d/x/y/f")).has_value());
    EXPECT_EQ(remove("/d/x/y"), 0);
    EXPECT_EQ(rig.names("/d/x"), (Names{"moved"}));
}

TEST(OverlayBackend, WritesAboveTheBoundFail) {
    OverlayRig rig(8);
    EXPECT_TRUE(rig.write("/d/a", "12345678", 0).has_value());
    EXPECT_FALSE(rig.overlay->exceeded());
    EXPECT_EQ(rig.write("/d/a", "9", 8).error().os_errno, ENOSPC);
    EXPECT_TRUE(rig.overlay->exceeded());
    rig.overlay->forget();
    EXPECT_TRUE(rig.write("/d/a", "9", 8).has_value());
}

TEST(OverlayBackend, AFileThatIsReadCannotBeWritten) {
    OverlayRig rig;
    EXPECT_EQ(rig.write("/d/a", "x", 0, OpenMode::kRead).error().os_errno, EBADF);
    EXPECT_EQ(rig.text("/d/a"), "0123456789");
}

}  // namespace
}  // namespace galgo::check

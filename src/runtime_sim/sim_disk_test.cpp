#include "runtime_sim/sim_disk.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <vector>

namespace galgo::runtime_sim {
namespace {

using runtime::FileHandle;
using runtime::OpenMode;
using testing::ElementsAre;

FileHandle must_open(SimDisk& disk, std::string_view path, OpenMode mode = OpenMode::kCreate) {
    const std::int32_t handle = disk.open(path, mode);
    EXPECT_GE(handle, 0) << path;
    return FileHandle{handle};
}
void must_write(SimDisk& disk, FileHandle file, std::string_view text, std::uint64_t offset = 0) {
    ASSERT_EQ(disk.write(file, as_bytes(text), offset), static_cast<std::int32_t>(text.size()));
}
std::int32_t sync(SimDisk& disk, FileHandle file) {
    return disk.finish_sync(file, disk.begin_sync(file));
}
void sync_path(SimDisk& disk, std::string_view path) {
    const FileHandle file = must_open(disk, path, OpenMode::kRead);
    ASSERT_EQ(sync(disk, file), 0);
    ASSERT_EQ(disk.close(file), 0);
}
std::string text_of(const SimDisk& disk, std::string_view path) {
    const auto content = disk.read_file(path);
    return content ? std::string(as_text(*content)) : "(absent)";
}

TEST(SimDisk, OpenModes) {
    SimDisk disk(1);
    EXPECT_EQ(disk.open("/a", OpenMode::kRead), -ENOENT);
    EXPECT_EQ(disk.open("/a", OpenMode::kReadWrite), -ENOENT);
    EXPECT_EQ(disk.open("/no/a", OpenMode::kCreate), -ENOENT);
    const FileHandle made = must_open(disk, "/a", OpenMode::kCreateExclusive);
    must_write(disk, made, "kept");
    EXPECT_EQ(disk.open("/a", OpenMode::kCreateExclusive), -EEXIST);
    const FileHandle reader = must_open(disk, "/a", OpenMode::kRead);
    EXPECT_EQ(disk.write(reader, as_bytes("x"), 0), -EBADF);
    EXPECT_EQ(disk.truncate(reader, 0), -EINVAL);
    must_open(disk, "/a", OpenMode::kCreate);
    EXPECT_EQ(text_of(disk, "/a"), "kept");
    EXPECT_EQ(disk.open("/a", OpenMode::kDirectory), -ENOTDIR);
    EXPECT_EQ(disk.open("/a/b", OpenMode::kCreate), -ENOTDIR);
    EXPECT_EQ(disk.make_directory("/d"), 0);
    EXPECT_EQ(disk.open("/d", OpenMode::kReadWrite), -EISDIR);
    EXPECT_EQ(disk.open("/d", OpenMode::kCreate), -EISDIR);
    EXPECT_EQ(disk.close(reader), 0);
    EXPECT_EQ(disk.close(reader), -EBADF);
    std::byte byte{};
    EXPECT_EQ(disk.read(reader, {&byte, 1}, 0), -EBADF);
}

TEST(SimDisk, HolesReadAsZerosAndReadsEndAtTheEnd) {
    SimDisk disk(1);
    const FileHandle file = must_open(disk, "/a");
    must_write(disk, file, "end", 2000);
    std::vector<std::byte> into(4096, std::byte{0xAA});
    EXPECT_EQ(disk.read(file, into, 0), 2003);
    EXPECT_EQ(into[0], std::byte{0});
    EXPECT_EQ(into[1999], std::byte{0});
    EXPECT_EQ(as_text(ConstBytes(into).subspan(2000, 3)), "end");
    EXPECT_EQ(into[2003], std::byte{0xAA});
    EXPECT_EQ(disk.read(file, into, 2003), 0);
    EXPECT_EQ(disk.read(file, into, 99999), 0);
    EXPECT_EQ(disk.used_bytes(), kSectorBytes);
}

TEST(SimDisk, TruncateCutsAndGrowsWithZeros) {
    SimDisk disk(1);
    const FileHandle file = must_open(disk, "/a");
    must_write(disk, file, std::string(1500, 'x'));
    EXPECT_EQ(disk.truncate(file, 700), 0);
    EXPECT_EQ(disk.used_bytes(), 2 * kSectorBytes);
    EXPECT_EQ(disk.truncate(file, 1400), 0);
    EXPECT_EQ(text_of(disk, "/a"), std::string(700, 'x') + std::string(700, '\0'));
}

TEST(SimDisk, RenameAsPosix) {
    SimDisk disk(1);
    disk.write_file("/a", as_bytes("A"));
    disk.write_file("/b", as_bytes("B"));
    const FileHandle old_b = must_open(disk, "/b", OpenMode::kRead);
    EXPECT_EQ(disk.rename("/a", "/b"), 0);
    EXPECT_FALSE(disk.exists("/a"));
    EXPECT_EQ(text_of(disk, "/b"), "A");
    std::byte byte{};
    EXPECT_EQ(disk.read(old_b, {&byte, 1}, 0), 1);
    EXPECT_EQ(byte, std::byte{'B'});  // the replaced file lives on while it is open
    EXPECT_EQ(disk.rename("/a", "/c"), -ENOENT);
    EXPECT_EQ(disk.rename("/b", "/b"), 0);
    EXPECT_EQ(disk.make_directory("/d"), 0);
    EXPECT_EQ(disk.make_directory("/e"), 0);
    EXPECT_EQ(disk.rename("/b", "/d"), -EISDIR);
    EXPECT_EQ(disk.rename("/d", "/b"), -ENOTDIR);
    EXPECT_EQ(disk.rename("/d", "/d/x"), -EINVAL);
    EXPECT_EQ(disk.rename("/b", "/d/b"), 0);
    EXPECT_EQ(disk.rename("/e", "/d"), -ENOTEMPTY);
    EXPECT_EQ(disk.rename("/d", "/e"), 0);
    EXPECT_THAT(disk.list_all(), ElementsAre("/e/", "/e/b"));
}

TEST(SimDisk, UnlinkAndDirectories) {
    SimDisk disk(1);
    EXPECT_EQ(disk.unlink("/a"), -ENOENT);
    EXPECT_EQ(disk.make_directory("/d"), 0);
    EXPECT_EQ(disk.make_directory("/d"), -EEXIST);
    EXPECT_EQ(disk.unlink("/d"), -EISDIR);
    const FileHandle file = must_open(disk, "/d/a");
    must_write(disk, file, "abc");
    EXPECT_EQ(disk.remove_directory("/d"), -ENOTEMPTY);
    EXPECT_EQ(disk.remove_directory("/d/a"), -ENOTDIR);
    EXPECT_EQ(disk.unlink("/d/a"), 0);
    EXPECT_EQ(disk.remove_directory("/d"), 0);
    EXPECT_EQ(disk.used_bytes(), kSectorBytes);  // still open
    EXPECT_EQ(disk.close(file), 0);
    EXPECT_EQ(disk.used_bytes(), 0u);
    EXPECT_EQ(disk.list_directory("/d").error().os_errno, ENOENT);
    EXPECT_EQ(disk.remove_directory("/"), -EBUSY);
    EXPECT_EQ(disk.open(std::string(256, 'n'), OpenMode::kCreate), -ENAMETOOLONG);
}

TEST(SimDisk, FullDiskAndRecoveryAfterDeleting) {
    SimDisk disk(1);
    disk.set_capacity(4 * kSectorBytes);
    const FileHandle a = must_open(disk, "/a");
    must_write(disk, a, std::string(3 * kSectorBytes, 'a'));
    const FileHandle b = must_open(disk, "/b");
    const std::string two(2 * kSectorBytes, 'b');
    EXPECT_EQ(disk.write(b, as_bytes(two), 0), static_cast<std::int32_t>(kSectorBytes));
    EXPECT_EQ(disk.write(b, as_bytes("x"), kSectorBytes), -ENOSPC);
    EXPECT_EQ(disk.space().free_bytes, 0u);
    must_write(disk, a, "over what is there");
    EXPECT_EQ(disk.allocate(a, 0, 9 * kSectorBytes), -ENOSPC);
    EXPECT_EQ(disk.unlink("/a"), 0);
    EXPECT_EQ(disk.write(b, as_bytes("x"), kSectorBytes), -ENOSPC);
    EXPECT_EQ(disk.close(a), 0);
    must_write(disk, b, "x", kSectorBytes);
}

TEST(SimDisk, AllocateReservesAndKeepsTheSize) {
    SimDisk disk(1);
    disk.set_capacity(4 * kSectorBytes);
    const FileHandle a = must_open(disk, "/a");
    EXPECT_EQ(disk.allocate(a, 0, 3 * kSectorBytes), 0);
    EXPECT_EQ(disk.file_facts("/a")->size_bytes, 0u);
    const FileHandle b = must_open(disk, "/b");
    must_write(disk, b, "b");
    EXPECT_EQ(disk.write(b, as_bytes("b"), kSectorBytes), -ENOSPC);
    must_write(disk, a, std::string(3 * kSectorBytes, 'a'));
    EXPECT_EQ(disk.used_bytes(), 4 * kSectorBytes);
    EXPECT_EQ(disk.truncate(a, 0), 0);
    EXPECT_EQ(disk.used_bytes(), kSectorBytes);
}

TEST(SimDisk, PowerLossLosesEntryOfASyncedFile) {
    SimDisk disk(1);
    const FileHandle a = must_open(disk, "/a");
    must_write(disk, a, "content");
    ASSERT_EQ(sync(disk, a), 0);
    disk.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_FALSE(disk.exists("/a"));
    EXPECT_EQ(disk.read(a, {}, 0), -EBADF);
}

TEST(SimDisk, PowerLossOfRenameIsAllOrNothing) {
    std::set<std::string> seen;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        SimDisk disk(seed);
        disk.write_file("/x", as_bytes("old"));
        disk.write_file("/tmp/x", as_bytes("new"));
        ASSERT_EQ(disk.rename("/tmp/x", "/x"), 0);
        disk.crash(CrashKind::kPower);
        seen.insert(text_of(disk, "/x") + "," + text_of(disk, "/tmp/x"));
    }
    EXPECT_THAT(seen, ElementsAre("new,(absent)", "old,new"));
}

TEST(SimDisk, SyncOfADirectoryTakesWhatItBuildsOn) {
    SimDisk disk(3);
    ASSERT_EQ(disk.make_directory("/d"), 0);
    ASSERT_EQ(disk.make_directory("/e"), 0);
    sync_path(disk, "/");
    const FileHandle a = must_open(disk, "/d/a");
    must_write(disk, a, "A");
    ASSERT_EQ(sync(disk, a), 0);
    ASSERT_EQ(disk.rename("/d/a", "/e/a"), 0);
    must_open(disk, "/d/other");
    sync_path(disk, "/e");
    disk.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_THAT(disk.list_all(), ElementsAre("/d/", "/e/", "/e/a"));
    EXPECT_EQ(text_of(disk, "/e/a"), "A");
}

TEST(SimDisk, UnsyncedUnlinkMayComeBack) {
    std::set<std::string> seen;
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        SimDisk disk(seed);
        disk.write_file("/a", as_bytes("A"));
        ASSERT_EQ(disk.unlink("/a"), 0);
        EXPECT_EQ(disk.used_bytes(), 0u);
        disk.crash(CrashKind::kPower);
        seen.insert(text_of(disk, "/a"));
        EXPECT_EQ(disk.used_bytes(), disk.exists("/a") ? kSectorBytes : 0u);
    }
    EXPECT_THAT(seen, ElementsAre("(absent)", "A"));
}

TEST(SimDisk, SyncCoversOnlyWhatWasWrittenBefore) {
    // The same sector before and after the sync began: the first write is never lost, the second
    // may be.
    std::set<std::string> seen;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        SimDisk disk(seed, nullptr, {.torn_sector_percent = 0});
        disk.write_file("/a", as_bytes("000000"));
        const FileHandle a = must_open(disk, "/a");
        must_write(disk, a, "11", 0);
        const std::uint64_t token = disk.begin_sync(a);
        must_write(disk, a, "22", 2);
        ASSERT_EQ(disk.finish_sync(a, token), 0);
        must_write(disk, a, "33", 4);
        disk.crash(CrashKind::kPower);
        seen.insert(text_of(disk, "/a"));
    }
    EXPECT_THAT(seen, ElementsAre("110000", "112233"));
}

TEST(SimDisk, SizeOfUnsyncedAppendVaries) {
    std::set<std::size_t> seen;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        SimDisk disk(seed);
        disk.write_file("/a", as_bytes("stable"));
        const FileHandle a = must_open(disk, "/a");
        must_write(disk, a, std::string(5000, 'x'), 6);
        disk.crash(CrashKind::kPower);
        const std::string text = text_of(disk, "/a");
        ASSERT_GE(text.size(), 6u);
        EXPECT_EQ(text.substr(0, 6), "stable");
        for (const char c : text.substr(6)) {
            ASSERT_TRUE(c == 'x' || c == '\0');
        }
        seen.insert(text.size());
    }
    EXPECT_TRUE(seen.contains(6));
    EXPECT_TRUE(seen.contains(5006));
    EXPECT_GT(seen.size(), 2u);
}

TEST(SimDisk, TornSector) {
    bool torn = false;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        SimDisk disk(seed, nullptr, {.torn_sector_percent = 100});
        disk.write_file("/a", as_bytes(std::string(kSectorBytes, 'o')));
        const FileHandle a = must_open(disk, "/a");
        must_write(disk, a, std::string(kSectorBytes, 'n'));
        disk.crash(CrashKind::kPower);
        const std::string text = text_of(disk, "/a");
        const std::size_t cut = text.find_first_not_of('n');
        torn = torn || (cut != 0 && cut != std::string::npos);
        if (cut != std::string::npos) {
            EXPECT_EQ(text.substr(cut), std::string(kSectorBytes - cut, 'o'));
        }
    }
    EXPECT_TRUE(torn);
}

TEST(SimDisk, UnsyncedTruncateMayComeBack) {
    SimDisk disk(1);
    disk.write_file("/a", as_bytes(std::string(3000, 'x')));
    const FileHandle a = must_open(disk, "/a");
    ASSERT_EQ(disk.truncate(a, 100), 0);
    disk.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_EQ(text_of(disk, "/a"), std::string(3000, 'x'));
    const FileHandle again = must_open(disk, "/a");
    ASSERT_EQ(disk.truncate(again, 100), 0);
    ASSERT_EQ(sync(disk, again), 0);
    disk.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_EQ(text_of(disk, "/a"), std::string(100, 'x'));
}

TEST(SimDisk, FaultsStrikeWhereTheyAreTold) {
    SimDisk disk(1);
    const FileHandle log = must_open(disk, "/log.1");
    const FileHandle other = must_open(disk, "/other");
    disk.add_fault({.op = DiskOp::kWrite, .path_contains = "log", .skip = 1, .error = EIO});
    must_write(disk, other, "abc");
    must_write(disk, log, "abc");
    EXPECT_EQ(disk.write(log, as_bytes("def"), 0), -EIO);
    must_write(disk, log, "ghi");
    EXPECT_EQ(disk.fault_count(), 1u);
    disk.add_fault({.op = DiskOp::kWrite, .short_transfer = true});
    const std::int32_t written = disk.write(log, as_bytes("0123456789"), 0);
    EXPECT_GT(written, 0);
    EXPECT_LT(written, 10);
    disk.add_fault({.op = DiskOp::kRead, .path_contains = "log", .times = 2, .error = EIO});
    std::byte byte{};
    EXPECT_EQ(disk.read(log, {&byte, 1}, 0), -EIO);
    EXPECT_EQ(disk.read(log, {&byte, 1}, 0), -EIO);
    EXPECT_EQ(disk.read(log, {&byte, 1}, 0), 1);
    disk.add_fault({.op = DiskOp::kRename, .error = ENOSPC});
    EXPECT_EQ(disk.rename("/log.1", "/log.2"), -ENOSPC);
    EXPECT_TRUE(disk.exists("/log.1"));
}

TEST(SimDisk, ASyncAfterAFailedSyncDoesNotRepair) {
    SimDisk disk(1);
    disk.write_file("/a", as_bytes("old"));
    const FileHandle a = must_open(disk, "/a");
    must_write(disk, a, "new");
    disk.add_fault({.op = DiskOp::kSync});
    EXPECT_EQ(sync(disk, a), -EIO);
    EXPECT_EQ(sync(disk, a), 0);
    disk.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_EQ(text_of(disk, "/a"), "old");
    const FileHandle again = must_open(disk, "/a");
    must_write(disk, again, "new");
    disk.add_fault({.op = DiskOp::kSync});
    EXPECT_EQ(sync(disk, again), -EIO);
    must_write(disk, again, "new");
    EXPECT_EQ(sync(disk, again), 0);
    disk.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_EQ(text_of(disk, "/a"), "new");
}

TEST(SimDisk, HelpersOfTests) {
    SimDisk disk(1);
    disk.write_file("/d/e/a", as_bytes("abc"));
    EXPECT_TRUE(disk.corrupt("/d/e/a", 1, 0x20));
    EXPECT_EQ(text_of(disk, "/d/e/a"), "aBc");
    EXPECT_FALSE(disk.corrupt("/d/e/a", 3, 0xFF));
    EXPECT_FALSE(disk.corrupt("/d/e/none", 0, 0xFF));
    EXPECT_TRUE(disk.truncate_to("/d/e/a", 2));
    disk.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    EXPECT_EQ(text_of(disk, "/d/e/a"), "aB");
    EXPECT_THAT(disk.list_all(), ElementsAre("/d/", "/d/e/", "/d/e/a"));
    disk.write_file("/d/e/a", as_bytes("z"));
    EXPECT_EQ(text_of(disk, "/d/./e/../e//a"), "z");
}

TEST(SimDisk, AnUnreadableSectorIsWhatTheNextWriteOfAllOfItHeals) {
    SimDisk disk(1);
    disk.write_file("/a", as_bytes(std::string(4 * kSectorBytes, 'x')));
    ASSERT_TRUE(disk.make_unreadable("/a", kSectorBytes + 7));
    EXPECT_FALSE(disk.make_unreadable("/a", 4 * kSectorBytes));
    const FileHandle file = must_open(disk, "/a", OpenMode::kReadWrite);
    std::vector<std::byte> into(kSectorBytes);
    EXPECT_EQ(disk.read(file, into, 0), 512);
    EXPECT_EQ(disk.read(file, into, 1), -EIO);
    EXPECT_EQ(disk.read(file, into, 2 * kSectorBytes - 1), -EIO);
    EXPECT_EQ(disk.read(file, into, 2 * kSectorBytes), 512);
    must_write(disk, file, std::string(kSectorBytes - 1, 'y'), kSectorBytes);
    EXPECT_EQ(disk.unreadable_count("/a"), 1U);
    must_write(disk, file, std::string(kSectorBytes, 'y'), kSectorBytes);
    EXPECT_EQ(disk.unreadable_count("/a"), 0U);
    EXPECT_EQ(disk.read(file, into, kSectorBytes), 512);
}

TEST(SimDisk, ARuinousPowerLossDestroysWhatWasNotSynced) {
    SimDisk disk(1);
    const FileHandle file = must_open(disk, "/a");
    const std::string text(3 * kSectorBytes, 'x');
    must_write(disk, file, text);
    disk.sync_all();
    must_write(disk, file, "x", kSectorBytes);  // the same bytes
    disk.crash(CrashKind::kPower, UnsyncedFate::kRuin);
    const std::string after = text_of(disk, "/a");
    ASSERT_EQ(after.size(), text.size());
    EXPECT_EQ(after.substr(0, kSectorBytes), text.substr(0, kSectorBytes));
    EXPECT_NE(after.substr(kSectorBytes, kSectorBytes), text.substr(kSectorBytes, kSectorBytes));
    EXPECT_EQ(after.substr(2 * kSectorBytes), text.substr(0, kSectorBytes));
}

TEST(SimDisk, TooManyOpenFiles) {
    SimDisk disk(1, nullptr, {.open_files_max = 2});
    const FileHandle a = must_open(disk, "/a");
    must_open(disk, "/b");
    EXPECT_EQ(disk.open("/c", OpenMode::kCreate), -EMFILE);
    EXPECT_EQ(disk.close(a), 0);
    must_open(disk, "/c");
}

}  // namespace
}  // namespace galgo::runtime_sim

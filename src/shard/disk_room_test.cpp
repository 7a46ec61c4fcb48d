#include "shard/disk_room.hpp"

#include <gtest/gtest.h>

#include "base/units.hpp"
#include "shard/shard.hpp"

namespace galgo::shard {
namespace {

constexpr std::uint64_t kTotal = 64 * kMiB;  // of which a 32nd is 2 MiB

TEST(DiskRoom, TakesUntilTheReserveIsReached) {
    DiskRoom room(256 * kMiB, 0);
    DiskRoom::Share shard(room);
    EXPECT_TRUE(shard.take(1 * kGiB)) << "nobody has looked yet";
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 10 * kMiB});
    EXPECT_EQ(room.reserve_bytes(), 2 * kMiB);
    for (int i = 0; i < 8; ++i) {
        EXPECT_TRUE(shard.take(1 * kMiB)) << i;
    }
    EXPECT_FALSE(shard.take(1));
    EXPECT_EQ(room.refusals(), 1U);
    room.update(runtime::DiskSpace{.total_bytes = kTotal,
                                   .free_bytes = 3 * kMiB});  // less was written than taken
    EXPECT_TRUE(shard.take(1 * kMiB));
    EXPECT_FALSE(shard.take(2 * kMiB));
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 2 * kMiB + 1000});
    EXPECT_FALSE(shard.take(2000)) << "what was taken before the look is used";
    EXPECT_TRUE(shard.take(1000)) << "a refusal takes nothing";
}

TEST(DiskRoom, ShardsShareOneRoom) {
    DiskRoom room(1 * kMiB, 0);
    DiskRoom::Share first(room);
    DiskRoom::Share second(room);
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 4 * kMiB});
    std::uint64_t taken = 0;
    while (first.take(100'000)) {
        taken += 100'000;
        taken += second.take(50'000) ? 50'000 : 0;
    }
    EXPECT_LE(taken, 3 * kMiB);
    EXPECT_GT(taken, 2 * kMiB);
}

TEST(DiskRoom, TakesAgainWithTwiceTheReserve) {
    DiskRoom room(1 * kMiB, 0);
    DiskRoom::Share shard(room);
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 1 * kMiB});
    ASSERT_TRUE(room.fault().has_value());
    EXPECT_FALSE(shard.take(1));
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 2 * kMiB});
    EXPECT_TRUE(room.fault().has_value());
    EXPECT_FALSE(shard.take(1));
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 2 * kMiB + 1});
    EXPECT_FALSE(room.fault().has_value());
    EXPECT_TRUE(shard.take(1));
}

TEST(DiskRoom, WithoutAReserveTheFileSystemDecides) {
    DiskRoom none(0, 8 * kMiB);
    DiskRoom unknown(256 * kMiB, 8 * kMiB);
    for (DiskRoom* room : {&none, &unknown}) {
        DiskRoom::Share shard(*room);
        room->update(room == &none ? std::optional(runtime::DiskSpace{.total_bytes = kTotal})
                                   : std::nullopt);
        EXPECT_TRUE(shard.take(1 * kGiB));
        EXPECT_FALSE(room->fault().has_value());
        room->update(runtime::DiskSpace{});  // of a file system that counts nothing
        EXPECT_TRUE(shard.take(1 * kGiB));
    }
}

TEST(DiskRoom, WhatIsNotWrittenYetHasItsRoom) {
    DiskRoom room(1 * kMiB, 8 * kMiB);
    DiskRoom::Share shard(room);
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 10 * kMiB});
    EXPECT_EQ(room.reserve_bytes(), 9 * kMiB);
    EXPECT_TRUE(shard.take(1 * kMiB));
    EXPECT_FALSE(shard.take(1));
    EXPECT_FALSE(room.fault().has_value()) << "told by the next look";
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 10 * kMiB});
    EXPECT_TRUE(room.fault().has_value());
    EXPECT_TRUE(shard.take(1));
    room.update(runtime::DiskSpace{.total_bytes = kTotal, .free_bytes = 10 * kMiB});
    EXPECT_FALSE(room.fault().has_value());
}

TEST(JournalSize, FollowsTheFileSystem) {
    const auto expect = [](std::uint64_t disk, std::size_t shards, std::uint64_t file,
                           std::uint32_t files) {
        const JournalSize size = journal_size(disk, shards);
        EXPECT_EQ(size.file_bytes, file) << disk << " " << shards;
        EXPECT_EQ(size.files_max, files) << disk << " " << shards;
    };
    expect(64 * kMiB, 2, 1 * kMiB, 3);
    expect(512 * kMiB, 2, 2 * kMiB, 4);
    expect(4 * kGiB, 2, 8 * kMiB, 8);
    expect(100 * kGiB, 2, 8 * kMiB, 16);
    expect(100 * kGiB, 64, 8 * kMiB, 6);
}

}  // namespace
}  // namespace galgo::shard

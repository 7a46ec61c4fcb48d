#include "memory/chunk_packer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/this_shard.hpp"

namespace galgo::memory {
namespace {

class ChunkPackerTest : public ::testing::Test {
 protected:
    void SetUp() override { set_this_shard(ShardIndex{0}); }
    void TearDown() override { set_this_shard(kNoShard); }
    BufferPool pool_{{.budget_bytes = 16 * kMiB}};
};

TEST_F(ChunkPackerTest, SmallOnesShareAChunkAndStayApart) {
    ChunkPacker packer(pool_, 4096);
    std::vector<BufRef> slices;
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < 40; ++i) {
        texts.emplace_back(i * 7 % 301, static_cast<char>('a' + i % 26));
        auto slice = packer.pack(as_bytes(texts.back()));
        ASSERT_TRUE(slice);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(slice->bytes().data()) % 8, 0U);
        slices.push_back(*std::move(slice));
    }
    EXPECT_TRUE(slices[0].shares_block_with(slices[1]));
    for (std::size_t i = 0; i < slices.size(); ++i) {
        EXPECT_EQ(as_text(slices[i].bytes()), texts[i]);
    }
    EXPECT_LE(pool_.stats().in_use_bytes, 3 * 4096U);
}

TEST_F(ChunkPackerTest, ChunkGoesWithItsLastSlice) {
    ChunkPacker packer(pool_, 4096);
    const std::string text(1500, 'x');
    BufRef first = packer.pack(as_bytes(text)).value();
    BufRef second = packer.pack(as_bytes(text)).value();
    BufRef third = packer.pack(as_bytes(text)).value();  // next chunk
    EXPECT_TRUE(first.shares_block_with(second));
    EXPECT_FALSE(first.shares_block_with(third));
    EXPECT_EQ(pool_.stats().in_use_bytes, 8192U);
    first.reset();
    EXPECT_EQ(pool_.stats().in_use_bytes, 8192U);
    second.reset();
    EXPECT_EQ(pool_.stats().in_use_bytes, 4096U);
    packer.release_chunk();
    EXPECT_EQ(pool_.stats().in_use_bytes, 4096U);
    third.reset();
    EXPECT_EQ(pool_.stats().in_use_bytes, 0U);
}

TEST_F(ChunkPackerTest, ChunkWithoutSlicesIsFilledAgain) {
    ChunkPacker packer(pool_, 4096);
    const std::string text(3000, 'x');
    for (int i = 0; i < 100; ++i) {
        ASSERT_TRUE(packer.pack(as_bytes(text)));
    }
    EXPECT_EQ(pool_.stats().in_use_bytes, 4096U);
    EXPECT_EQ(pool_.stats().cached_bytes, 0U);
}

TEST_F(ChunkPackerTest, ExactFitAndLargerThanAChunk) {
    ChunkPacker packer(pool_, 1001);  // not a multiple of 8
    const std::string exact(1001, 'e');
    const std::string large(1002, 'l');
    BufRef a = packer.pack(as_bytes(exact)).value();
    BufRef b = packer.pack(as_bytes(std::string("z"))).value();
    BufRef c = packer.pack(as_bytes(large)).value();
    BufRef d = packer.pack(as_bytes(std::string("y"))).value();
    EXPECT_FALSE(a.shares_block_with(b));
    EXPECT_FALSE(c.shares_block_with(b));
    EXPECT_TRUE(c.unique());
    EXPECT_TRUE(d.shares_block_with(b));  // a large one does not end the chunk
    EXPECT_EQ(as_text(a.bytes()), exact);
    EXPECT_EQ(as_text(c.bytes()), large);
    EXPECT_EQ(as_text(d.bytes()), "y");
}

TEST_F(ChunkPackerTest, NothingIsASliceToo) {
    ChunkPacker packer(pool_);
    auto none = packer.pack({});
    ASSERT_TRUE(none);
    EXPECT_TRUE(*none);
    EXPECT_EQ(none->size(), 0U);
}

TEST_F(ChunkPackerTest, RefusalLeavesItUsable) {
    ChunkPacker packer(pool_, 4096);
    const std::string half(2048, 'h');
    BufRef first = packer.pack(as_bytes(half)).value();
    auto bulk = pool_.acquire(12 * kMiB);
    ASSERT_TRUE(bulk);
    std::vector<BufRef> filler;
    for (auto next = pool_.acquire(4096); next; next = pool_.acquire(4096)) {
        filler.push_back(*std::move(next));
    }
    BufRef second = packer.pack(as_bytes(half)).value();  // still fits the chunk
    auto refused = packer.pack(as_bytes(half));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kTransientNotAccepted);
    EXPECT_TRUE(packer.pack(as_bytes(half), AcquireClass::kReserved));
    filler.clear();
    EXPECT_TRUE(packer.pack(as_bytes(half)));
    EXPECT_EQ(as_text(first.bytes()), half);
    EXPECT_EQ(as_text(second.bytes()), half);
}

}  // namespace
}  // namespace galgo::memory

#include "memory/buffer_pool.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/this_shard.hpp"

namespace galgo::memory {
namespace {

constexpr std::uint64_t kMega = kMiB;

class BufferPoolTest : public ::testing::Test {
 protected:
    void SetUp() override { set_this_shard(ShardIndex{0}); }
    void TearDown() override { set_this_shard(kNoShard); }
};

TEST(SizeClass, SmallestThatFits) {
    EXPECT_EQ(size_class_of(0), 0U);
    EXPECT_EQ(size_class_of(1), 0U);
    for (std::size_t i = 0; i < kSizeClassCount; ++i) {
        EXPECT_EQ(size_class_of(kSizeClassBytes[i]), i) << kSizeClassBytes[i];
        EXPECT_EQ(size_class_of(kSizeClassBytes[i] - 1), i);
        if (i + 1 < kSizeClassCount) {
            EXPECT_EQ(size_class_of(kSizeClassBytes[i] + 1), i + 1);
        }
    }
    EXPECT_EQ(kSizeClassBytes.front(), 4096U);
    EXPECT_EQ(kSizeClassBytes[8], 768U * 1024);
    EXPECT_EQ(kSizeClassBytes[10], 1536U * 1024);
}

TEST_F(BufferPoolTest, EveryClassIsAlignedAndWritable) {
    BufferPool pool({.budget_bytes = 1024 * kMega});
    for (const std::uint32_t block_bytes : kSizeClassBytes) {
        auto buffer = pool.acquire(block_bytes - 7);
        ASSERT_TRUE(buffer) << block_bytes;
        EXPECT_EQ(buffer->size(), block_bytes - 7);
        EXPECT_EQ(buffer->capacity_bytes(), block_bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->bytes().data()) % kPageBytes, 0U);
        buffer->mutable_bytes().front() = std::byte{1};
        buffer->mutable_bytes().back() = std::byte{2};
        EXPECT_EQ(pool.stats().in_use_bytes, block_bytes);
    }
    EXPECT_EQ(pool.stats().in_use_bytes, 0U);
    EXPECT_LE(pool.stats().cached_bytes, 1024 * kMega);
}

TEST_F(BufferPoolTest, NeighboursDoNotOverlap) {
    BufferPool pool({.budget_bytes = 64 * kMega});
    std::vector<BufRef> buffers;
    for (std::size_t i = 0; i < 300; ++i) {
        auto buffer = pool.acquire(kSizeClassBytes[i % 6]);
        ASSERT_TRUE(buffer);
        std::memset(buffer->mutable_bytes().data(), static_cast<int>(i % 251), buffer->size());
        buffers.push_back(*std::move(buffer));
    }
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        for (const std::byte value : buffers[i].bytes()) {
            ASSERT_EQ(value, static_cast<std::byte>(i % 251));
        }
    }
}

TEST_F(BufferPoolTest, TooLargeIsRefusedForGood) {
    BufferPool pool({.budget_bytes = 16 * kMega});
    for (const std::size_t bytes : {kBlockBytesMax + 1, std::size_t{16 * kMega + 1}, SIZE_MAX}) {
        auto buffer = pool.acquire(bytes);
        ASSERT_FALSE(buffer);
        EXPECT_EQ(buffer.error().code, ErrorCode::kTransientNotAccepted);
        EXPECT_EQ(buffer.error().retry, RetryClass::kNever);
    }
    EXPECT_EQ(pool.stats().refusal_count[1], 3U);
}

TEST_F(BufferPoolTest, RefusesOverBudgetAndRecovers) {
    BufferPool pool({.budget_bytes = 64 * kMega});
    std::vector<BufRef> held;
    for (int i = 0; i < 15; ++i) {
        auto buffer = pool.acquire(4 * kMega);
        ASSERT_TRUE(buffer) << i;
        held.push_back(*std::move(buffer));
    }
    auto refused = pool.acquire(4 * kMega);  // 64 - 2 is the normal limit
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kTransientNotAccepted);
    EXPECT_EQ(refused.error().retry, RetryClass::kSameNode);
    EXPECT_TRUE(pool.acquire(2 * kMega));
    EXPECT_EQ(pool.stats().refusal_count, (std::array<std::uint64_t, 3>{0, 1, 0}));

    held.pop_back();
    EXPECT_TRUE(pool.acquire(4 * kMega));
    held.clear();
    EXPECT_EQ(pool.stats().in_use_bytes, 0U);
    EXPECT_TRUE(pool.acquire(48 * kMega));  // cached blocks of another class make room
    EXPECT_LE(pool.stats().cached_bytes, 64 * kMega);
}

TEST_F(BufferPoolTest, ReservedMayUseWhatNormalLeaves) {
    BufferPool pool({.budget_bytes = 64 * kMega});
    auto bulk = pool.acquire(48 * kMega);
    auto more = pool.acquire(12 * kMega);
    auto last = pool.acquire(2 * kMega);
    ASSERT_TRUE(bulk && more && last);
    EXPECT_FALSE(pool.acquire(4 * kKiB));
    EXPECT_FALSE(pool.acquire(4 * kKiB, AcquireClass::kAnonymous));
    for (int round = 0; round < 3; ++round) {
        auto flush = pool.acquire(64 * kKiB, AcquireClass::kReserved);
        ASSERT_TRUE(flush);
        flush->reset();
        // What the flush gave back stays in the reserve.
        EXPECT_FALSE(pool.acquire(64 * kKiB));
    }
    auto rest = pool.acquire(2 * kMega, AcquireClass::kReserved);
    ASSERT_TRUE(rest);
    EXPECT_FALSE(pool.acquire(4 * kKiB, AcquireClass::kReserved));
    EXPECT_EQ(pool.stats().in_use_bytes, pool.stats().budget_bytes);
}

TEST_F(BufferPoolTest, EightAnonymousPeersDoNotDrainThePool) {
    BufferPool pool({.budget_bytes = kPoolBudgetBytesMin});
    std::vector<BufRef> held;
    int refused = 0;
    for (int peer = 0; peer < 8; ++peer) {
        auto buffer = pool.acquire(64 * kMega, AcquireClass::kAnonymous);
        if (buffer) {
            held.push_back(*std::move(buffer));
        } else {
            ++refused;
        }
    }
    EXPECT_EQ(held.size(), 1U);
    EXPECT_EQ(refused, 7);
    EXPECT_EQ(pool.stats().anonymous_bytes, 64 * kMega);
    EXPECT_TRUE(pool.acquire(384 * kMega));  // everybody else goes on
    EXPECT_FALSE(pool.acquire(4 * kKiB, AcquireClass::kAnonymous));
    held.clear();
    EXPECT_EQ(pool.stats().anonymous_bytes, 0U);
    EXPECT_TRUE(pool.acquire(4 * kKiB, AcquireClass::kAnonymous));
    EXPECT_EQ(pool.stats().anonymous_bytes, 0U);
}

TEST_F(BufferPoolTest, AnonymousRefusedByBudgetIsNotCounted) {
    BufferPool pool({.budget_bytes = 64 * kMega});
    auto bulk = pool.acquire(48 * kMega);
    auto more = pool.acquire(12 * kMega);
    ASSERT_TRUE(bulk && more);
    for (int i = 0; i < 4; ++i) {
        EXPECT_FALSE(pool.acquire(4 * kMega, AcquireClass::kAnonymous));
    }
    EXPECT_EQ(pool.stats().anonymous_bytes, 0U);
    more->reset();
    EXPECT_TRUE(pool.acquire(8 * kMega, AcquireClass::kAnonymous));
}

TEST_F(BufferPoolTest, ShardCacheIsBoundedAndReused) {
    BufferPool pool({.budget_bytes = 512 * kMega});
    std::vector<BufRef> held;
    for (int i = 0; i < 200; ++i) {
        held.push_back(pool.acquire(4096).value());
    }
    held.clear();
    PoolStats stats = pool.stats();
    EXPECT_EQ(stats.classes[0].in_use_count, 0U);
    EXPECT_EQ(stats.classes[0].cached_count, 200U);  // 64 here, the others in the reservoir
    for (int i = 0; i < 200; ++i) {
        held.push_back(pool.acquire(4096).value());
    }
    stats = pool.stats();
    EXPECT_EQ(stats.classes[0].in_use_count, 200U);
    EXPECT_EQ(stats.classes[0].cached_count, 0U);  // nothing new was made
}

TEST_F(BufferPoolTest, FullReservoirHandsMemoryBackToTheSystem) {
    BufferPool pool({.budget_bytes = 64 * kMega, .class_capacity = 2});
    std::vector<BufRef> held;
    const std::byte* last = nullptr;
    for (int i = 0; i < 4; ++i) {
        held.push_back(pool.acquire(kMega).value());
        std::memset(held.back().mutable_bytes().data(), 0x5A, kMega);
        last = held.back().bytes().data();
    }
    for (BufRef& buffer : held) {
        buffer.reset();
    }
    held.clear();
    const std::size_t kClass = size_class_of(kMega);
    EXPECT_EQ(pool.stats().classes[kClass].cached_count, 2U);
    EXPECT_EQ(pool.stats().cached_bytes, 2 * kMega);
    std::vector<unsigned char> pages(kMega / kPageBytes, 0xFF);
    ASSERT_EQ(::mincore(const_cast<std::byte*>(last), kMega, pages.data()), 0);
    for (const unsigned char page : pages) {
        EXPECT_EQ(page & 1, 0);
    }
    // The address range is used again, with fresh pages.
    for (int i = 0; i < 4; ++i) {
        held.push_back(pool.acquire(kMega).value());
        held.back().mutable_bytes().back() = std::byte{1};
    }
    EXPECT_EQ(pool.stats().classes[kClass].in_use_count, 4U);
}

TEST_F(BufferPoolTest, TrimWorkIsBoundedAndGoesOnAtTheNextTry) {
    BufferPool pool({.budget_bytes = 16 * kMega});
    std::vector<BufRef> held;
    for (std::size_t i = 0; i < 15 * kMega / 4096; ++i) {
        held.push_back(pool.acquire(4096).value());
    }
    held.clear();
    int refused = 0;
    Result<BufRef> large = pool.acquire(12 * kMega);
    while (!large && refused < 100) {
        EXPECT_EQ(large.error().retry, RetryClass::kSameNode);
        ++refused;
        large = pool.acquire(12 * kMega);
    }
    ASSERT_TRUE(large);
    EXPECT_GT(refused, 5);  // 11 MiB in steps of 1 MiB
    EXPECT_LT(refused, 20);
    const PoolStats stats = pool.stats();
    EXPECT_LE(stats.in_use_bytes + stats.cached_bytes, stats.budget_bytes);
}

TEST_F(BufferPoolTest, OwnCacheIsGivenBackBeforeARefusal) {
    BufferPool pool({.budget_bytes = 16 * kMega});
    {
        std::vector<BufRef> held;
        for (int i = 0; i < 8; ++i) {
            held.push_back(pool.acquire(64 * kKiB).value());
        }
    }
    EXPECT_GT(pool.stats().cached_bytes, 0U);
    auto bulk = pool.acquire(12 * kMega);
    ASSERT_TRUE(bulk);
    auto rest = pool.acquire(2 * kMega);
    auto half = pool.acquire(kMega);
    auto last = pool.acquire(512 * kKiB);
    EXPECT_TRUE(rest && half && last);  // 15.5 MiB in use: the whole normal limit
}

TEST_F(BufferPoolTest, ThreadsThatAreNoShardUseTheReservoir) {
    set_this_shard(kNoShard);
    BufferPool pool({.budget_bytes = 16 * kMega});
    pool.collect();
    pool.stop_shard();
    auto buffer = pool.acquire(5000);
    ASSERT_TRUE(buffer);
    const std::byte* memory = buffer->bytes().data();
    buffer->reset();
    EXPECT_EQ(pool.stats().cached_bytes, 8192U);
    set_this_shard(ShardIndex{9});  // not one of this pool's
    buffer = pool.acquire(8192);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(buffer->bytes().data(), memory);
}

TEST_F(BufferPoolTest, NoMemoryIsTouchedBeforeUse) {
    BufferPool pool({.budget_bytes = 64 * kGiB, .shard_count = 64});
    const PoolStats stats = pool.stats();
    EXPECT_EQ(stats.in_use_bytes + stats.cached_bytes, 0U);
    EXPECT_EQ(stats.budget_bytes, 64 * kGiB);
}

using BufferPoolDeathTest = BufferPoolTest;
TEST_F(BufferPoolDeathTest, OptionsOutOfRangeAbort) {
    EXPECT_DEATH(BufferPool({.budget_bytes = kMiB - 4096}), "budget >= kMiB");
    EXPECT_DEATH(BufferPool({.budget_bytes = kMiB + 1}), "kPageBytes == 0");
    EXPECT_DEATH(BufferPool({.budget_bytes = kMiB, .class_capacity = 0}), "class_capacity > 0");
}

#if __has_feature(address_sanitizer)
TEST_F(BufferPoolDeathTest, UseAfterReleaseIsReported) {
    BufferPool pool({.budget_bytes = 16 * kMega});
    for (const std::size_t bytes : {std::size_t{4096}, std::size_t{kMega}}) {
        auto buffer = pool.acquire(bytes);
        ASSERT_TRUE(buffer);
        const volatile std::byte* stale = buffer->bytes().data();
        EXPECT_EQ(std::byte{*stale}, std::byte{0});
        buffer->reset();
        EXPECT_DEATH((void)*(stale + 100), "use-after-poison");
    }
}
#endif

}  // namespace
}  // namespace galgo::memory

#include "memory/buffer.hpp"

#include <gtest/gtest.h>

#include <type_traits>

#include "base/this_shard.hpp"
#include "memory/buffer_pool.hpp"

namespace galgo::memory {
namespace {

static_assert(std::is_nothrow_move_constructible_v<BufRef>);
static_assert(std::is_nothrow_copy_constructible_v<BufRef>);

class BufRefTest : public ::testing::Test {
 protected:
    BufRef make(std::size_t bytes) {
        BufRef buffer = pool_.acquire(bytes).value();
        for (std::size_t i = 0; i < bytes; ++i) {
            buffer.mutable_bytes()[i] = static_cast<std::byte>(i);
        }
        return buffer;
    }
    BufferPool pool_{{.budget_bytes = 16 * kMiB}};
};

TEST_F(BufRefTest, EmptyOne) {
    BufRef none;
    EXPECT_FALSE(none);
    EXPECT_EQ(none.size(), 0U);
    EXPECT_EQ(none.capacity_bytes(), 0U);
    EXPECT_TRUE(none.bytes().empty());
    EXPECT_TRUE(none.mutable_bytes().empty());
    EXPECT_FALSE(none.unique());
    EXPECT_FALSE(none.shares_block_with(none));
    none.reset();
    EXPECT_FALSE(BufRef(none));
    EXPECT_EQ(none.slice(0, 0).size(), 0U);
}

TEST_F(BufRefTest, NoBytesStillHoldABlock) {
    BufRef buffer = make(0);
    EXPECT_TRUE(buffer);
    EXPECT_EQ(buffer.size(), 0U);
    EXPECT_EQ(buffer.capacity_bytes(), 4096U);
}

TEST_F(BufRefTest, CopySharesAndTheLastOneReleases) {
    BufRef first = make(100);
    EXPECT_TRUE(first.unique());
    BufRef second = first;
    EXPECT_FALSE(first.unique());
    EXPECT_TRUE(first.shares_block_with(second));
    EXPECT_EQ(first.bytes().data(), second.bytes().data());
    first.reset();
    EXPECT_FALSE(first);
    EXPECT_TRUE(second.unique());
    EXPECT_EQ(pool_.stats().in_use_bytes, 4096U);
    second = BufRef();
    EXPECT_EQ(pool_.stats().in_use_bytes, 0U);
}

TEST_F(BufRefTest, MoveLeavesNothingBehind) {
    BufRef first = make(100);
    BufRef second = std::move(first);
    EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move)
    EXPECT_EQ(first.size(), 0U);
    EXPECT_TRUE(second.unique());
    BufRef& alias = second;
    second = alias;
    EXPECT_TRUE(second.unique());
    EXPECT_EQ(second.size(), 100U);
    second = std::move(alias);
    EXPECT_TRUE(second.unique());
    EXPECT_EQ(second.size(), 100U);
}

TEST_F(BufRefTest, SlicesOfSlices) {
    BufRef whole = make(200);
    BufRef part = whole.slice(50, 100);
    BufRef inner = part.slice(10, 20);
    EXPECT_EQ(part.size(), 100U);
    EXPECT_EQ(part.bytes()[0], std::byte{50});
    EXPECT_EQ(inner.size(), 20U);
    EXPECT_EQ(inner.bytes()[0], std::byte{60});
    EXPECT_EQ(inner.capacity_bytes(), 4096U);
    whole.reset();
    part.reset();
    EXPECT_TRUE(inner.unique());
    EXPECT_EQ(inner.bytes()[19], std::byte{79});
    BufRef end = std::move(inner).slice(20, 0);
    EXPECT_TRUE(end.unique());
    EXPECT_EQ(end.size(), 0U);
}

TEST_F(BufRefTest, JoinsWhatLiesRightBehind) {
    const BufRef whole = make(100);
    BufRef front = whole.slice(10, 20);
    EXPECT_FALSE(front.join(whole.slice(31, 5)));  // a gap
    EXPECT_FALSE(front.join(whole.slice(29, 5)));  // an overlap
    EXPECT_FALSE(front.join(make(100).slice(30, 5)));
    EXPECT_FALSE(front.join(BufRef()));
    EXPECT_FALSE(BufRef().join(front));
    EXPECT_EQ(front.size(), 20U);
    EXPECT_TRUE(front.join(whole.slice(30, 5)));
    EXPECT_EQ(front.size(), 25U);
    EXPECT_EQ(front.bytes().data(), whole.bytes().data() + 10);
    EXPECT_TRUE(front.join(whole.slice(35, 0)));
    EXPECT_EQ(front.size(), 25U);
}

TEST_F(BufRefTest, ResizeWithinTheBlock) {
    BufRef buffer = make(10);
    buffer.resize(4096);
    EXPECT_EQ(buffer.size(), 4096U);
    buffer.mutable_bytes().back() = std::byte{7};
    buffer.resize(3);
    EXPECT_EQ(buffer.size(), 3U);
    EXPECT_DEATH(buffer.resize(4097), "capacity_bytes");
    BufRef tail = std::move(buffer).slice(1, 2);
    tail.resize(4095);
    EXPECT_DEATH(tail.resize(4096), "capacity_bytes");
}

TEST_F(BufRefTest, MisuseAborts) {
    BufRef buffer = make(10);
    EXPECT_DEATH((void)buffer.slice(11, 0), "offset <= size_");
    EXPECT_DEATH((void)buffer.slice(5, 6), "count <= size_ - offset");
    EXPECT_DEATH((void)buffer.slice(1, SIZE_MAX), "count <= size_ - offset");
#ifdef GALGO_DEBUG_CHECKS
    const BufRef other = buffer;
    EXPECT_DEATH((void)buffer.mutable_bytes(), "unique");
#endif
}

}  // namespace
}  // namespace galgo::memory

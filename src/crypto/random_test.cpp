#include "crypto/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <vector>

namespace galgo::crypto {
namespace {

TEST(Random, FillsAllOfIt) {
    random_bytes({});
    std::vector<std::byte> bytes(
        100'000);  // more than one system call gives in a signal's presence
    random_bytes(bytes);
    std::array<int, 256> counts{};
    for (const std::byte value : bytes) {
        ++counts[std::to_integer<std::size_t>(value)];
    }
    // 390 expected, deviation 20: ten deviations are never passed by chance.
    EXPECT_GT(std::ranges::min(counts), 190);
    EXPECT_LT(std::ranges::max(counts), 590);
}

TEST(Random, NumbersDiffer) {
    std::set<std::uint64_t> seen;
    for (int i = 0; i < 1000; ++i) {
        seen.insert(random_u64());
    }
    EXPECT_EQ(seen.size(), 1000U);
}

TEST(Random, AlphanumericIsThatAndEven) {
    EXPECT_EQ(random_alphanumeric(0), "");
    EXPECT_EQ(random_alphanumeric(1).size(), 1U);
    const std::string text = random_alphanumeric(62'000);
    ASSERT_EQ(text.size(), 62'000U);
    std::array<int, 128> counts{};
    for (const char character : text) {
        ASSERT_TRUE(std::isalnum(static_cast<unsigned char>(character)));
        ++counts[static_cast<std::size_t>(character)];
    }
    for (std::size_t i = 0; i < counts.size(); ++i) {
        if (std::isalnum(static_cast<int>(i))) {
            EXPECT_GT(counts[i], 680) << i;  // 1000 expected, deviation 32
            EXPECT_LT(counts[i], 1320) << i;
        }
    }
    EXPECT_NE(random_alphanumeric(16), random_alphanumeric(16));
}

}  // namespace
}  // namespace galgo::crypto

#include "partitions/retention.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace galgo::partitions {
namespace {

constexpr Timestamp kNow{1'000'000};

/// Segments of eight messages and 100 bytes; the newest messages have these times.
std::vector<storage::SegmentFacts> segments(const std::vector<std::uint64_t>& newest) {
    std::vector<storage::SegmentFacts> all;
    for (const std::uint64_t time : newest) {
        const std::uint64_t start = all.size() * 8;
        all.push_back({.start = Offset(start),
                       .end = Offset(start + 8),
                       .size_bytes = 100,
                       .last_timestamp = Timestamp(time),
                       .sealed = true});
    }
    return all;
}

TEST(Retention, WithoutRulesAllStays) {
    const auto sealed = segments({1, 2, 3});
    const RetentionDecision decision = decide_retention(
        {.topic_sealed_bytes = 1 << 30}, {.sealed = sealed, .active_since = Timestamp{1}}, kNow);
    EXPECT_EQ(decision.trim_below, Offset{0});
    EXPECT_FALSE(decision.roll);
    EXPECT_EQ(decide_retention({.expiry_us = 1}, {}, kNow).trim_below, Offset{0});
}

TEST(Retention, ASegmentExpiresWithItsNewestMessage) {
    const auto sealed = segments({899'999, 900'000, 900'001, 900'001});
    const RetentionDecision decision =
        decide_retention({.expiry_us = 100'000}, {.sealed = sealed}, kNow);
    EXPECT_EQ(decision.trim_below, Offset{16});
    EXPECT_EQ(decision.trim_bytes, 200U);
    EXPECT_EQ(decision.held_back_bytes, 0U);
    // Times that are unknown, or have not come, are not over.
    const auto damaged = segments({~std::uint64_t{0}, 1});
    EXPECT_EQ(decide_retention({.expiry_us = 1}, {.sealed = damaged}, kNow).trim_below, Offset{0});
    const auto future = segments({1'000'001});
    EXPECT_EQ(decide_retention({.expiry_us = 1}, {.sealed = future}, kNow).trim_below, Offset{0});
    EXPECT_EQ(
        decide_retention({.expiry_us = ~std::uint64_t{0}}, {.sealed = sealed}, kNow).trim_below,
        Offset{0});
}

TEST(Retention, AnOldActiveSegmentIsEnded) {
    const RetentionRules rules{.expiry_us = 100'000};
    EXPECT_TRUE(decide_retention(rules, {.active_since = Timestamp{900'000}}, kNow).roll);
    EXPECT_FALSE(decide_retention(rules, {.active_since = Timestamp{900'001}}, kNow).roll);
    EXPECT_FALSE(decide_retention(rules, {.active_since = Timestamp{1'000'001}}, kNow).roll);
    EXPECT_FALSE(decide_retention(rules, {}, kNow).roll);
}

TEST(Retention, TheTopicsSizeTakesFromThoseAboveTheirShare) {
    const auto sealed = segments({1, 2, 3, 4, 5});
    const auto below = [&](std::uint64_t size_max, std::uint64_t topic, std::uint32_t partitions) {
        return decide_retention({.size_max_bytes = size_max,
                                 .topic_sealed_bytes = topic,
                                 .partition_count = partitions},
                                {.sealed = sealed}, kNow)
            .trim_below;
    };
    EXPECT_EQ(below(500, 500, 1), Offset{0});
    EXPECT_EQ(below(499, 500, 1), Offset{8});
    EXPECT_EQ(below(400, 500, 1), Offset{8});
    EXPECT_EQ(below(1, 500, 1), Offset{40});
    // Two partitions: 800 in all, 500 here. 600 may stay, here no less than 300.
    EXPECT_EQ(below(600, 800, 2), Offset{16});
    EXPECT_EQ(below(700, 800, 2), Offset{8});
    EXPECT_EQ(below(600, 1500, 2), Offset{16});
    EXPECT_EQ(below(1000, 1100, 2), Offset{0});
    EXPECT_EQ(below(1000, 0, 2), Offset{0});  // figures of the topic that lag behind
    EXPECT_EQ(below(100, 0, 1), Offset{32});
}

TEST(Retention, TheSmallestStoredOffsetHoldsBack) {
    const auto sealed = segments({1, 2, 3});
    const auto decide = [&](std::uint64_t stored) {
        return decide_retention({.expiry_us = 1}, {.sealed = sealed, .stored_min = Offset(stored)},
                                kNow);
    };
    EXPECT_EQ(decide(0).trim_below, Offset{0});
    EXPECT_EQ(decide(0).held_back_bytes, 300U);
    EXPECT_EQ(decide(6).trim_below, Offset{0});
    EXPECT_EQ(decide(7).trim_below, Offset{8});
    EXPECT_EQ(decide(7).held_back_bytes, 200U);
    EXPECT_EQ(decide(22).trim_below, Offset{16});
    EXPECT_EQ(decide(23).trim_below, Offset{24});
    EXPECT_EQ(decide(~std::uint64_t{0} - 1).trim_below, Offset{24});
    EXPECT_EQ(decide(23).held_back_bytes, 0U);
}

TEST(Retention, ItHoldsBackNoLongerThanTheBound) {
    const auto sealed = segments({100'000, 200'000, 300'000});
    const auto decide = [&](std::uint64_t bound) {
        return decide_retention({.expiry_us = 500'000, .held_back_max_us = bound},
                                {.sealed = sealed, .stored_min = Offset{7}}, kNow);
    };
    // Due since 600 000, 700 000, 800 000. The first one is read.
    EXPECT_EQ(decide(0).trim_below, Offset{8});
    EXPECT_EQ(decide(300'001).trim_below, Offset{8});
    EXPECT_EQ(decide(300'001).given_up_bytes, 0U);
    EXPECT_EQ(decide(300'000).trim_below, Offset{16});
    EXPECT_EQ(decide(300'000).given_up_bytes, 100U);
    EXPECT_EQ(decide(300'000).held_back_bytes, 100U);
    EXPECT_EQ(decide(1).trim_below, Offset{24});
    EXPECT_EQ(decide(1).given_up_bytes, 200U);
    // What does not say how new it is is never given up.
    const auto damaged = segments({~std::uint64_t{0}});
    EXPECT_EQ(decide_retention({.size_max_bytes = 1, .held_back_max_us = 1},
                               {.sealed = damaged, .stored_min = Offset{0}}, kNow)
                  .trim_below,
              Offset{0});
}

TEST(Retention, WhatWasDeletedGoesWhenItIsRead) {
    const auto sealed = segments({1, 2, 3});
    EXPECT_EQ(decide_retention({}, {.sealed = sealed, .wanted = Offset{16}}, kNow).trim_below,
              Offset{16});
    EXPECT_EQ(decide_retention({}, {.sealed = sealed, .wanted = Offset{15}}, kNow).trim_below,
              Offset{8});
    const RetentionDecision held = decide_retention(
        {}, {.sealed = sealed, .stored_min = Offset{8}, .wanted = Offset{16}}, kNow);
    EXPECT_EQ(held.trim_below, Offset{8});
    EXPECT_EQ(held.held_back_bytes, 100U);
}

TEST(Retention, MarkersOfHolesGoWithTheirNeighbours) {
    auto sealed = segments({1, 2, 3});
    sealed.insert(sealed.begin() + 1, {.start = Offset{8}, .end = Offset{8}, .sealed = true});
    EXPECT_EQ(decide_retention({.expiry_us = 1}, {.sealed = sealed}, kNow).trim_below, Offset{24});
    const std::vector<storage::SegmentFacts> marker{{.start = Offset{8}, .end = Offset{8}}};
    EXPECT_EQ(decide_retention({.expiry_us = 1}, {.sealed = marker}, kNow).trim_below, Offset{0});
}

}  // namespace
}  // namespace galgo::partitions

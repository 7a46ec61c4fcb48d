#include "partitions/retention.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace galgo::partitions {
namespace {

constexpr Timestamp kNow{1'000'000};
constexpr std::uint64_t kNever = ~std::uint64_t{0};

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

RetentionDecision decide(const RetentionRules& rules,
                         const std::vector<storage::SegmentFacts>& sealed,
                         RetentionFigures figures = {}) {
    for (const storage::SegmentFacts& segment : sealed) {
        figures.sealed_bytes += segment.size_bytes;
    }
    RetentionWalk walk(rules, figures, kNow);
    for (const storage::SegmentFacts& segment : sealed) {
        if (!walk.add(segment)) {
            break;
        }
    }
    return walk.decision();
}

TEST(Retention, WithoutRulesAllStays) {
    const RetentionDecision decision = decide({.topic_sealed_bytes = 1 << 30}, segments({1, 2, 3}),
                                              {.active_since = Timestamp{1}});
    EXPECT_EQ(decision.trim_below, Offset{0});
    EXPECT_FALSE(decision.roll);
    EXPECT_EQ(decide({.expiry_us = 1}, {}).trim_below, Offset{0});
}

TEST(Retention, ASegmentExpiresWithItsNewestMessage) {
    const auto sealed = segments({899'999, 900'000, 900'001, 900'001});
    const RetentionDecision decision = decide({.expiry_us = 100'000}, sealed);
    EXPECT_EQ(decision.trim_below, Offset{16});
    EXPECT_EQ(decision.held_back_bytes, 0U);
    // Times that are unknown, or have not come, are not over.
    for (const std::uint64_t time : {kNever, std::uint64_t{0}, kNow.value() + 1}) {
        EXPECT_EQ(decide({.expiry_us = 1}, segments({time, 1})).trim_below, Offset{0}) << time;
    }
    EXPECT_EQ(decide({.expiry_us = kNever}, sealed).trim_below, Offset{0});
}

TEST(Retention, AnOldActiveSegmentIsEnded) {
    const RetentionRules rules{.expiry_us = 100'000};
    const auto rolls = [&](std::uint64_t since) {
        return decide(rules, {}, {.active_since = Timestamp{since}}).roll;
    };
    EXPECT_TRUE(rolls(900'000));
    EXPECT_TRUE(rolls(1));
    EXPECT_FALSE(rolls(900'001));
    EXPECT_FALSE(rolls(1'000'001));
    EXPECT_FALSE(rolls(0));  // nobody knows since when
    EXPECT_FALSE(decide(rules, {}).roll);
}

// It could not go, and each pass would make one more.
TEST(Retention, NothingIsEndedWhileAConsumerHoldsBack) {
    const RetentionRules rules{.expiry_us = 100'000};
    const auto rolls = [&](std::uint64_t needed_from, std::uint64_t given_up) {
        return decide(rules, segments({1, 2}),
                      {.needed_from = Offset(needed_from),
                       .given_up = Offset(given_up),
                       .active_since = Timestamp{3}})
            .roll;
    };
    EXPECT_FALSE(rolls(0, 0));
    EXPECT_FALSE(rolls(15, 0));
    EXPECT_TRUE(rolls(16, 0));
    EXPECT_TRUE(rolls(0, 16));
}

TEST(Retention, TheTopicsSizeTakesFromThoseAboveTheirShare) {
    const auto sealed = segments({1, 2, 3, 4, 5});
    const auto below = [&](std::uint64_t size_max, std::uint64_t topic, std::uint32_t partitions) {
        return decide({.size_max_bytes = size_max,
                       .topic_sealed_bytes = topic,
                       .partition_count = partitions},
                      sealed)
            .trim_below;
    };
    EXPECT_EQ(below(500, 500, 1), Offset{0});
    EXPECT_EQ(below(499, 500, 1), Offset{8});
    EXPECT_EQ(below(400, 500, 1), Offset{8});
    // Two partitions: 800 in all, 500 here. 600 may stay, here no less than 300.
    EXPECT_EQ(below(600, 800, 2), Offset{16});
    EXPECT_EQ(below(700, 800, 2), Offset{8});
    EXPECT_EQ(below(600, 1500, 2), Offset{16});
    EXPECT_EQ(below(1000, 1100, 2), Offset{0});
    EXPECT_EQ(below(1000, 0, 2), Offset{0});  // figures of the topic that lag behind
    EXPECT_EQ(below(100, 0, 1), Offset{32});
}

// However small the topic is: what was sent last can be read.
TEST(Retention, ForSizeAloneTheNewestSealedSegmentStays) {
    auto sealed = segments({1, 2, 3, 4, 5});
    EXPECT_EQ(decide({.size_max_bytes = 1}, sealed).trim_below, Offset{32});
    sealed.push_back({.start = Offset{40}, .end = Offset{40}, .sealed = true});
    EXPECT_EQ(decide({.size_max_bytes = 1}, sealed).trim_below, Offset{32});
    EXPECT_EQ(decide({.size_max_bytes = 1}, segments({5})).trim_below, Offset{0});
    EXPECT_EQ(decide({.expiry_us = 1, .size_max_bytes = 1}, sealed).trim_below, Offset{40});
    EXPECT_EQ(decide({.size_max_bytes = 1}, sealed, {.wanted = Offset{40}}).trim_below, Offset{40});
}

TEST(Retention, WhatAConsumerNeedsIsHeldBack) {
    const auto needing = [](std::uint64_t from) {
        return decide({.expiry_us = 1}, segments({1, 2, 3}), {.needed_from = Offset(from)});
    };
    EXPECT_EQ(needing(0).trim_below, Offset{0});
    EXPECT_EQ(needing(0).held_back_bytes, 300U);
    EXPECT_EQ(needing(0).needed_below, Offset{24});
    EXPECT_EQ(needing(7).trim_below, Offset{0});
    EXPECT_EQ(needing(8).trim_below, Offset{8});
    EXPECT_EQ(needing(8).held_back_bytes, 200U);
    EXPECT_EQ(needing(23).trim_below, Offset{16});
    EXPECT_EQ(needing(24).trim_below, Offset{24});
    EXPECT_EQ(needing(kNever).trim_below, Offset{24});
    EXPECT_EQ(needing(24).held_back_bytes, 0U);
    EXPECT_EQ(needing(24).needed_below, Offset{0});
}

TEST(Retention, WhatWasHeldBackForLongEnoughGoes) {
    const auto after = [](std::uint64_t given_up) {
        return decide({.expiry_us = 1}, segments({1, 2, 3}),
                      {.needed_from = Offset{8}, .given_up = Offset(given_up)});
    };
    EXPECT_EQ(after(15).trim_below, Offset{8});  // read
    EXPECT_EQ(after(15).given_up_bytes, 0U);
    EXPECT_EQ(after(16).trim_below, Offset{16});
    EXPECT_EQ(after(16).given_up_bytes, 100U);
    EXPECT_EQ(after(16).held_back_bytes, 100U);
    EXPECT_EQ(after(16).needed_below, Offset{24});
    EXPECT_EQ(after(24).trim_below, Offset{24});
    EXPECT_EQ(after(24).given_up_bytes, 200U);
    // Only what is due, however long it was held back before.
    EXPECT_EQ(decide({.expiry_us = 100}, segments({1, 999'999}),
                     {.needed_from = Offset{0}, .given_up = Offset{16}})
                  .trim_below,
              Offset{8});
}

TEST(Retention, WhatWasDeletedGoesWhenItIsRead) {
    const auto sealed = segments({1, 2, 3});
    EXPECT_EQ(decide({}, sealed, {.wanted = Offset{16}}).trim_below, Offset{16});
    EXPECT_EQ(decide({}, sealed, {.wanted = Offset{15}}).trim_below, Offset{8});
    const RetentionDecision held =
        decide({}, sealed, {.needed_from = Offset{9}, .wanted = Offset{16}});
    EXPECT_EQ(held.trim_below, Offset{8});
    EXPECT_EQ(held.held_back_bytes, 100U);
}

TEST(Retention, MarkersOfHolesGoWithTheirNeighbours) {
    auto sealed = segments({1, 2, 3});
    sealed.insert(sealed.begin() + 1, {.start = Offset{8}, .end = Offset{8}, .sealed = true});
    EXPECT_EQ(decide({.expiry_us = 1}, sealed).trim_below, Offset{24});
    EXPECT_EQ(decide({.expiry_us = 1}, {{.start = Offset{8}, .end = Offset{8}}}).trim_below,
              Offset{0});
}

constexpr std::uint64_t kBound = 800;

TEST(HeldBack, CountsFromWhenASegmentWasFoundDue) {
    HeldBack held;
    EXPECT_EQ(held.overdue(Instant{5'000'000}, kBound), Offset{0});
    held.note(Offset{8}, Instant{1000}, kBound);
    held.note(Offset{8}, Instant{1799}, kBound);
    EXPECT_EQ(held.overdue(Instant{1799}, kBound), Offset{0});
    EXPECT_EQ(held.overdue(Instant{1800}, kBound), Offset{8});
    EXPECT_EQ(held.overdue(Instant{1800}, 0), Offset{0});
    held.note(Offset{0}, Instant{1800}, kBound);
    EXPECT_EQ(held.overdue(Instant{1800}, kBound), Offset{0});
    held.note(Offset{8}, Instant{1900}, kBound);
    EXPECT_EQ(held.overdue(Instant{2699}, kBound), Offset{0});
    EXPECT_EQ(held.overdue(Instant{2700}, kBound), Offset{8});
}

// A consumer that is always a little late loses nothing: each segment has the whole bound.
TEST(HeldBack, EachSegmentHasTheWholeBound) {
    HeldBack held;
    for (std::uint64_t pass = 0; pass < 1000; ++pass) {
        const Instant now(1 + pass * 10);
        held.note(Offset(8 * (pass + 1)), now, kBound);
        const std::uint64_t overdue = held.overdue(now, kBound).value();
        // Found due at pass n: given up not before n + 80, and at most ten passes later.
        EXPECT_LE(overdue, pass < 80 ? 0 : 8 * (pass - 80 + 1)) << pass;
        EXPECT_GE(overdue, pass < 90 ? 0 : 8 * (pass - 90 + 1)) << pass;
    }
}

TEST(HeldBack, WhatIsNotDueAnyMoreCountsAnew) {
    HeldBack held;
    held.note(Offset{80}, Instant{1000}, kBound);
    held.note(Offset{8}, Instant{1200}, kBound);  // the topic keeps more now
    held.note(Offset{80}, Instant{1400}, kBound);
    EXPECT_EQ(held.overdue(Instant{1800}, kBound), Offset{8});
    EXPECT_EQ(held.overdue(Instant{2199}, kBound), Offset{8});
    EXPECT_EQ(held.overdue(Instant{2200}, kBound), Offset{80});
}

}  // namespace
}  // namespace galgo::partitions

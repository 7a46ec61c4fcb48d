// What is asked for ahead of readers of segment files, on the simulated disk, which counts it.
#include "storage/read_ahead.hpp"

#include <gtest/gtest.h>

#include <string>

#include "base/units.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using Prefetch = runtime_sim::SimBackend::Prefetch;

constexpr std::uint64_t kColdNs = 20 * kMillisecond;
constexpr std::uint64_t kWarmNs = 100 * kMicrosecond;
constexpr std::uint64_t kReadBytes = 256 * kKiB;
constexpr std::uint64_t kFileBytes = 64 * kMiB;

class ReadAheadTest : public testing::Test {
 protected:
    ReadAheadTest()
        : node_(world_.add_node()), files_(*node_.io, node_.queue()), ahead_(*node_.io) {
        file_ = open("/one");
    }
    ~ReadAheadTest() override {
        file_.reset();
        world_.run(node_, files_.close());
    }
    FileRef open(std::string path) {
        node_.disk->write_file(path, {});
        return *world_.run(node_, files_.open({.log = ++opened_}, path));
    }
    void read(std::uint64_t from, std::uint64_t ns,
              ReadAhead::Segment segment = {.log = 1, .size_bytes = kFileBytes}) {
        ahead_.begin(segment, file_, from);
        ahead_.end(segment, file_, from, std::min(from + kReadBytes, segment.size_bytes), ns);
        if (completes_) {
            world_.run_for(20 * kMillisecond);
        }
    }
    [[nodiscard]] const std::vector<Prefetch>& asked() const { return node_.io->prefetches(); }

    runtime_sim::TestWorld world_{1};
    runtime_sim::Node& node_;
    FileCache files_;
    ReadAhead ahead_;
    FileRef file_;
    std::uint64_t opened_ = 0;
    bool completes_ = true;
};

TEST_F(ReadAheadTest, AReaderThatGoesOnIsKeptAheadOf) {
    std::uint64_t ahead = 0;
    std::size_t steps = 0;
    for (std::uint64_t at = 0; at < kFileBytes; at += kReadBytes) {
        const std::size_t before = asked().size();
        read(at, kColdNs);
        if (at != 0 && before == 0) {
            ASSERT_FALSE(asked().empty()) << "with the second read";
            ahead = asked().front().offset;
            EXPECT_EQ(ahead, at);
        }
        for (std::size_t i = before; i < asked().size(); ++i) {
            EXPECT_EQ(asked()[i].path, "/one");
            ASSERT_EQ(asked()[i].offset, ahead) << "nothing twice, nothing left out";
            ahead += asked()[i].size_bytes;
        }
        steps += asked().size() != before ? 1U : 0U;
        EXPECT_LE(ahead, at + ReadAhead::kWindowMax) << at;
        EXPECT_LE(ahead, kFileBytes);
        if (at >= 8 * kMiB) {
            EXPECT_GE(ahead, std::min(at + ReadAhead::kWindowMax / 2, kFileBytes)) << at;
        }
    }
    EXPECT_EQ(ahead, kFileBytes);
    EXPECT_LE(steps, kFileBytes / kMiB) << "a step is a MiB or more";
    EXPECT_EQ(ahead_.bytes_asked(), kFileBytes - kReadBytes);
}

TEST_F(ReadAheadTest, AReaderThatIsServedFromMemoryCostsNothing) {
    for (std::uint64_t at = 0; at < kFileBytes; at += kReadBytes) {
        read(at, kWarmNs);
    }
    EXPECT_TRUE(asked().empty());
}

TEST_F(ReadAheadTest, ReadsHereAndThereAskForNothing) {
    for (std::uint64_t i = 0; i < 200; ++i) {
        read((i * 37 % 64) * kMiB, kColdNs);
    }
    EXPECT_TRUE(asked().empty());
}

// A poll of a part of a batch begins at the batch again.
TEST_F(ReadAheadTest, TheSamePlaceAgainAsksForNothingMore) {
    read(0, kColdNs);
    read(kReadBytes, kColdNs);
    const std::size_t before = asked().size();
    EXPECT_GT(before, 0U);
    for (int i = 0; i < 20; ++i) {
        read(kReadBytes, kColdNs);
    }
    EXPECT_EQ(asked().size(), before);
}

TEST_F(ReadAheadTest, TheReaderGoesOnIntoTheNextSegment) {
    for (std::uint64_t at = 0; at < 4 * kMiB; at += kReadBytes) {
        read(at, kColdNs, {.log = 1, .size_bytes = 4 * kMiB});
    }
    const std::size_t before = asked().size();
    read(0, kColdNs, {.log = 1, .start = Offset{100}, .size_bytes = 4 * kMiB});
    ASSERT_GT(asked().size(), before) << "with its first read";
    EXPECT_EQ(asked()[before].offset, 0U);
    const std::size_t after = asked().size();
    read(0, kColdNs, {.log = 2, .start = Offset{100}, .size_bytes = 4 * kMiB});
    EXPECT_EQ(asked().size(), after) << "of another log";
}

TEST_F(ReadAheadTest, WhatIsOnItsWayIsBounded) {
    completes_ = false;
    for (std::uint64_t log = 1; log <= 2 * ReadAhead::kReadersMax; ++log) {
        for (std::uint64_t at = 0; at < 8 * kMiB; at += kReadBytes) {
            read(at, kColdNs, {.log = log, .size_bytes = kFileBytes});
        }
    }
    EXPECT_EQ(node_.io->in_flight_count(), ReadAhead::kPiecesMax);
    world_.run_for(kSecond);
    EXPECT_EQ(node_.io->in_flight_count(), 0U);
    read(8 * kMiB, kColdNs, {.log = 2 * ReadAhead::kReadersMax, .size_bytes = kFileBytes});
    EXPECT_GT(node_.io->in_flight_count(), 0U) << "later reads ask for what found no room";
    world_.run_for(kSecond);
}

// Through a log: what is in its files, and not behind their ends.
TEST(PartitionLogReadAhead, FollowsAConsumerThatCatchesUp) {
    Rig rig(1, {.segment_size = 4 * kMiB});
    rig.start();
    for (int i = 0; i < 120; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    }
    rig.restart();
    rig.node.disk->options().latency_min_ns = rig.node.disk->options().latency_max_ns =
        2 * kMillisecond;
    for (const std::uint64_t at : {80U, 5U, 110U, 43U, 20U}) {
        ASSERT_TRUE(rig.read_now(Offset{at}, 1).has_value());
    }
    EXPECT_TRUE(rig.node.io->prefetches().empty());
    for (Offset at{0}; at < rig.log->end_offset();) {
        const auto got = rig.read_now(at, 100, 300'000);
        ASSERT_TRUE(got.has_value());
        at = got->next;
    }
    std::uint64_t bytes = 0;
    for (const Prefetch& asked : rig.node.io->prefetches()) {
        const auto file = rig.node.disk->read_file(asked.path);
        ASSERT_TRUE(file.has_value());
        EXPECT_LE(asked.offset + asked.size_bytes, file->size());
        bytes += asked.size_bytes;
    }
    EXPECT_GT(bytes, 10 * kMiB);
    EXPECT_EQ(bytes, rig.context->read_ahead.bytes_asked());
    rig.stop();
}

}  // namespace
}  // namespace galgo::storage

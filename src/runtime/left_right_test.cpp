#include "runtime/left_right.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <string>
#include <thread>

#include "coro/scope.hpp"
#include "fake_io_test.hpp"

namespace galgo::runtime {
namespace {

struct Pairs {
    struct Op {
        int key = 0;
        std::uint64_t value = 0;
    };
    // Both maps always agree; a torn view would show.
    std::map<int, std::uint64_t> left;
    std::map<int, std::uint64_t> right;
    std::size_t apply(const Op& op) {
        left[op.key] = op.value;
        right[op.key] = op.value;
        return left.size();
    }
};
constexpr ShardIndex kWriter{0};
constexpr ShardIndex kReader{1};

TEST(LeftRight, PublishesBatchesAndWaitsForReaders) {
    LeftRight<Pairs> pairs(2, Pairs{});
    pairs.unpark(kWriter);
    pairs.unpark(kReader);
    pairs.apply({1, 10});
    pairs.apply({2, 20});
    EXPECT_TRUE(pairs.read(kReader).left.empty());
    const Pairs& old = pairs.read(kReader);
    pairs.publish();
    EXPECT_EQ(pairs.epoch(), 1u);
    EXPECT_EQ(pairs.read(kReader).left.size(), 2u);
    EXPECT_TRUE(old.left.empty());  // the reference from before stays as it was
    pairs.announce(kWriter);
    EXPECT_FALSE(pairs.old_copy_free());
    pairs.announce(kReader);
    EXPECT_TRUE(pairs.old_copy_free());
    pairs.apply({3, 30});
    pairs.publish();
    EXPECT_EQ(pairs.read(kReader).left.size(), 3u);
    EXPECT_EQ(pairs.read(kReader).right.at(1), 10u);  // was replayed on this copy
}

TEST(LeftRight, ParkedReadersAreOutside) {
    LeftRight<Pairs> pairs(2, Pairs{});
    pairs.unpark(kWriter);
    for (std::uint64_t i = 0; i < 5; ++i) {
        ASSERT_TRUE(pairs.old_copy_free());
        pairs.apply({1, i});
        pairs.publish();
        pairs.announce(kWriter);
    }
    pairs.announce(kReader);  // ends the parking
    EXPECT_EQ(pairs.read(kReader).left.at(1), 4u);
    pairs.park(kReader);
    pairs.park(kWriter);
}

TEST(LeftRight, ApplySeesWhatIsNotPublishedYet) {
    LeftRight<Pairs> pairs(1, Pairs{});
    pairs.unpark(kWriter);
    EXPECT_EQ(pairs.apply({1, 1}), 1u);
    EXPECT_EQ(pairs.apply({2, 2}), 2u);
    EXPECT_TRUE(pairs.read(kWriter).left.empty());
    pairs.publish();
    pairs.publish();  // nothing was applied since
    EXPECT_EQ(pairs.epoch(), 1u);
    pairs.announce(kWriter);
    EXPECT_EQ(pairs.apply({3, 3}), 3u);  // both of before were repeated on this copy
}

TEST(LeftRight, TheLoopAnnouncesEachTurnAndParksAsleep) {
    FakeIo io;
    Loop loop(io, {});
    LeftRight<Pairs> pairs(2, Pairs{});
    pairs.attach(kReader, loop);
    pairs.apply({1, 1});
    pairs.publish();
    EXPECT_FALSE(pairs.old_copy_free());
    loop.run_turn();
    EXPECT_TRUE(pairs.old_copy_free());
    int sleeps = 0;
    io.during_sleep = [&] {
        ASSERT_TRUE(pairs.old_copy_free());
        pairs.apply({2, 2});
        pairs.publish();
        EXPECT_TRUE(pairs.old_copy_free());
        if (++sleeps == 2) {
            loop.stop();
        }
    };
    loop.run();
    EXPECT_EQ(pairs.read(kReader).left.at(2), 2u);
}

struct Writer : coro::Anchored {
    explicit Writer(Loop& of) : loop(of), scope(of.ready()) {}
    Loop& loop;
    LeftRight<Pairs> pairs{2, Pairs{}};
    coro::Scope scope;
    std::string trace;
};
coro::Task<void> change(coro::Anchor<Writer> writer, int key) {
    co_await writer->pairs.until_writable(writer->loop);
    const std::size_t size = writer->pairs.apply({key, 1});
    writer->pairs.publish();
    writer->trace += std::to_string(size);
}

TEST(LeftRight, TheWriterWaitsForOldReadersATurn) {
    FakeIo io;
    Loop loop(io, {});
    Writer writer(loop);
    writer.pairs.attach(kWriter, loop);
    writer.pairs.unpark(kReader);
    writer.scope.spawn(change, coro::Anchor(writer), 1);
    EXPECT_EQ(writer.trace, "1");  // nobody looks at the hidden copy
    writer.scope.spawn(change, coro::Anchor(writer), 2);
    for (int i = 0; i < 3; ++i) {
        loop.run_turn();
    }
    EXPECT_EQ(writer.trace, "1");
    writer.pairs.announce(kReader);
    loop.run_turn();
    EXPECT_EQ(writer.trace, "12");
    EXPECT_EQ(loop.stats().sleeps.load(), 0u);
}

TEST(LeftRight, TheWriterSleepsWhileAReaderHasALongTurn) {
    FakeIo io;
    Loop loop(io, {});
    Writer writer(loop);
    writer.pairs.attach(kWriter, loop);
    writer.pairs.unpark(kReader);
    writer.scope.spawn(change, coro::Anchor(writer), 1);
    writer.scope.spawn(change, coro::Anchor(writer), 2);
    int sleeps = 0;
    io.during_sleep = [&] {
        if (++sleeps == 5) {
            writer.pairs.announce(kReader);  // the end of its turn, on another thread
        }
    };
    loop.add_turn_end([&] {
        if (writer.scope.inside() == 0) {
            loop.stop();
        }
    });
    const Instant began = io.clock;
    loop.run();
    EXPECT_EQ(writer.trace, "12");
    EXPECT_LE(sleeps, 10);
    EXPECT_LE(io.clock.value() - began.value(), 10 * kMillisecond);
    EXPECT_LE(loop.stats().turns.load(), 100u);
}

// Readers check that what they see is whole and never goes back, while the writer publishes and the
// readers park at random.
TEST(LeftRight, ReadersNeverSeeATornOrOlderState) {
    constexpr std::uint64_t kRounds = 10'000;
    LeftRight<Pairs> pairs(4, Pairs{});
    std::atomic<bool> stop{false};
    std::array<std::atomic<std::uint64_t>, 4> changes_seen{};
    auto read = [&](std::uint16_t index) {
        const ShardIndex self{index};
        std::uint64_t last = 0;
        std::uint64_t turn = index;
        while (!stop.load(std::memory_order_relaxed)) {
            pairs.announce(self);
            for (int i = 0; i < 3; ++i) {
                const Pairs& now = pairs.read(self);
                ASSERT_EQ(now.left.size(), now.right.size());
                if (now.left.contains(0)) {
                    const std::uint64_t value = now.left.at(0);
                    ASSERT_EQ(now.right.at(0), value);
                    ASSERT_EQ(now.right.at(7), value);
                    ASSERT_GE(value, last);
                    changes_seen[index] += value != last ? 1 : 0;
                    last = value;
                }
            }
            if (++turn % 7 == 0) {
                pairs.park(self);
                std::this_thread::yield();
            }
        }
        pairs.park(self);
    };
    std::thread first(read, std::uint16_t{1});
    std::thread second(read, std::uint16_t{2});
    std::thread third(read, std::uint16_t{3});
    const auto everybody_saw = [&](std::uint64_t count) {
        return std::all_of(changes_seen.begin() + 1, changes_seen.end(),
                           [count](const auto& seen) { return seen.load() >= count; });
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    pairs.unpark(kWriter);
    std::uint64_t i = 1;
    while ((i <= kRounds || !everybody_saw(100)) && std::chrono::steady_clock::now() < end) {
        pairs.announce(kWriter);
        if (pairs.old_copy_free()) {
            for (int key = 0; key < 8; ++key) {
                pairs.apply({key, i});
            }
            pairs.publish();
            ++i;
        } else {
            std::this_thread::yield();
        }
    }
    stop = true;
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(pairs.epoch(), i - 1);
    EXPECT_GT(i, kRounds);
    EXPECT_TRUE(everybody_saw(100));
}

}  // namespace
}  // namespace galgo::runtime

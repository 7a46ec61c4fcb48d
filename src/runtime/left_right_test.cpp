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
    pairs.enqueue({1, 10});
    pairs.enqueue({2, 20});
    EXPECT_TRUE(pairs.read(kReader).left.empty());
    const Pairs& old = pairs.read(kReader);
    EXPECT_TRUE(pairs.try_publish());
    EXPECT_EQ(pairs.epoch(), 1u);
    EXPECT_EQ(pairs.read(kReader).left.size(), 2u);
    EXPECT_TRUE(old.left.empty());  // the reference from before stays as it was
    pairs.announce(kWriter);
    pairs.enqueue({3, 30});
    EXPECT_FALSE(pairs.old_copy_free());
    EXPECT_FALSE(pairs.try_publish());
    EXPECT_EQ(pairs.enqueued_count(), 1u);
    pairs.announce(kReader);
    EXPECT_TRUE(pairs.try_publish());
    EXPECT_EQ(pairs.read(kReader).left.size(), 3u);
    EXPECT_EQ(pairs.read(kReader).right.at(1), 10u);  // was replayed on this copy
}

TEST(LeftRight, ParkedReadersAreOutside) {
    LeftRight<Pairs> pairs(2, Pairs{});
    pairs.unpark(kWriter);
    for (std::uint64_t i = 0; i < 5; ++i) {
        pairs.enqueue({1, i});
        EXPECT_TRUE(pairs.try_publish());
        pairs.announce(kWriter);
    }
    pairs.announce(kReader);  // ends the parking
    EXPECT_EQ(pairs.read(kReader).left.at(1), 4u);
    pairs.park(kReader);
    pairs.park(kWriter);
}

TEST(LeftRight, TheWriterSeesItsUnpublishedChanges) {
    LeftRight<Pairs> pairs(1, Pairs{});
    pairs.unpark(kWriter);
    EXPECT_EQ(pairs.apply({1, 1}), 1u);
    EXPECT_EQ(pairs.apply({2, 2}), 2u);
    EXPECT_EQ(pairs.writer_view().left.size(), 2u);
    EXPECT_TRUE(pairs.read(kWriter).left.empty());
    pairs.publish();
    pairs.publish();
    EXPECT_EQ(pairs.epoch(), 1u);
    pairs.announce(kWriter);
    EXPECT_EQ(pairs.writer_view().left.size(), 2u);
}

TEST(LeftRight, TheLoopAnnouncesEachTurnAndParksAsleep) {
    FakeIo io;
    Loop loop(io, {});
    LeftRight<Pairs> pairs(2, Pairs{});
    pairs.attach(kReader, loop);
    pairs.enqueue({1, 1});
    EXPECT_TRUE(pairs.try_publish());
    EXPECT_FALSE(pairs.old_copy_free());
    loop.run_turn();
    EXPECT_TRUE(pairs.old_copy_free());
    int sleeps = 0;
    io.during_sleep = [&] {
        pairs.enqueue({2, 2});
        EXPECT_TRUE(pairs.try_publish());
        EXPECT_TRUE(pairs.old_copy_free());
        if (++sleeps == 2) {
            loop.stop();
        }
    };
    loop.run();
    EXPECT_EQ(pairs.read(kReader).left.at(2), 2u);
}

struct Writer : coro::Anchored {
    explicit Writer(Loop& loop) : scope(loop.ready()) {}
    LeftRight<Pairs> pairs{2, Pairs{}};
    coro::Scope scope;
    std::string trace;
};
coro::Task<void> change(coro::Anchor<Writer> writer, int key) {
    writer->pairs.enqueue({key, 1});
    co_await writer->pairs.until_published();
    writer->trace += std::to_string(writer->pairs.read(kWriter).left.size());
}
coro::Task<void> change_in_place(coro::Anchor<Writer> writer) {
    co_await writer->pairs.until_writable();
    const std::size_t size = writer->pairs.apply({9, 9});
    writer->pairs.publish();
    writer->trace += "w" + std::to_string(size);
}

TEST(LeftRight, ChangesOfATurnShareAPublishAndAwaitOldReaders) {
    FakeIo io;
    Loop loop(io, {});
    Writer writer(loop);
    writer.pairs.attach(kWriter, loop);
    writer.pairs.attach_writer(loop);
    writer.pairs.unpark(kReader);
    writer.scope.spawn(change, coro::Anchor(writer), 1);
    writer.scope.spawn(change, coro::Anchor(writer), 2);
    loop.run_turn();
    EXPECT_EQ(writer.pairs.epoch(), 1u);
    loop.run_turn();
    EXPECT_EQ(writer.trace, "22");
    writer.scope.spawn(change, coro::Anchor(writer), 3);
    // A reader still looks at the old copy, so the loop goes on turning instead of blocking.
    for (int i = 0; i < 3; ++i) {
        loop.run_turn();
    }
    EXPECT_EQ(writer.trace, "22");
    int turns = 0;
    loop.add_turn_end([&] {
        if (++turns == 4) {
            writer.pairs.announce(kReader);
        }
        if (writer.scope.inside() == 0) {
            loop.stop();
        }
    });
    loop.run();
    EXPECT_EQ(writer.trace, "223");
    EXPECT_EQ(loop.stats().sleeps.load(), 0u);
    writer.scope.spawn(change_in_place, coro::Anchor(writer));
    loop.run_turn();
    EXPECT_EQ(writer.trace, "223");
    writer.pairs.announce(kReader);
    loop.run_turn();
    loop.run_turn();
    EXPECT_EQ(writer.trace, "223w4");
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
                pairs.enqueue({key, i});
            }
            ASSERT_TRUE(pairs.try_publish());
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

// The pool among threads: foreign returns, stopped shards, and a storm of everything at a budget
// that is too small. Meant for the tsan preset too.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "base/this_shard.hpp"
#include "memory/buffer_pool.hpp"

namespace galgo::memory {
namespace {

void run_as(std::uint16_t shard, auto body) {
    std::thread([shard, &body] {
        set_this_shard(ShardIndex{shard});
        body();
    }).join();
}

TEST(BufferPoolThreads, ForeignReturnWaitsForItsHome) {
    BufferPool pool({.budget_bytes = 16 * kMiB, .shard_count = 2});
    std::vector<BufRef> held;
    run_as(0, [&] {
        for (int i = 0; i < 6; ++i) {
            held.push_back(pool.acquire(4096).value());
        }
    });
    run_as(1, [&] {
        held.clear();
        EXPECT_EQ(pool.stats().in_use_bytes, 6 * 4096U);  // on the way home
        pool.collect();                                   // not ours
        EXPECT_EQ(pool.stats().in_use_bytes, 6 * 4096U);
    });
    run_as(0, [&] {
        pool.collect();
        EXPECT_EQ(pool.stats().in_use_bytes, 0U);
        EXPECT_EQ(pool.stats().cached_bytes, 6 * 4096U);
        pool.collect();
    });
}

TEST(BufferPoolThreads, EmptyCacheLooksAtReturnsByItself) {
    BufferPool pool({.budget_bytes = 16 * kMiB, .shard_count = 2});
    BufRef buffer;
    run_as(0, [&] { buffer = pool.acquire(4096).value(); });
    const std::byte* memory = buffer.bytes().data();
    buffer.reset();  // this thread is no shard
    run_as(0, [&] {
        buffer = pool.acquire(4096).value();
        EXPECT_EQ(buffer.bytes().data(), memory);
    });
}

TEST(BufferPoolThreads, LargeBlocksHaveNoHome) {
    BufferPool pool({.budget_bytes = 16 * kMiB, .shard_count = 2});
    BufRef buffer;
    run_as(0, [&] { buffer = pool.acquire(128 * kKiB).value(); });
    run_as(1, [&] {
        buffer.reset();
        EXPECT_EQ(pool.stats().in_use_bytes, 0U);
    });
}

TEST(BufferPoolThreads, StoppedShardLosesNothing) {
    BufferPool pool({.budget_bytes = 16 * kMiB, .shard_count = 2});
    BufRef early;
    BufRef late;
    run_as(0, [&] {
        early = pool.acquire(4096).value();
        late = pool.acquire(4096).value();
        pool.acquire(4096).value().reset();
    });
    early.reset();
    run_as(0, [&] {
        pool.stop_shard();
        EXPECT_EQ(pool.stats().in_use_bytes, 4096U);
        pool.stop_shard();
        pool.collect();
        BufRef after = pool.acquire(4096).value();  // allowed, through the reservoir
        after.reset();
    });
    run_as(1, [&] { late.reset(); });
    EXPECT_EQ(pool.stats().in_use_bytes, 0U);
    EXPECT_EQ(pool.stats().cached_bytes, 3 * 4096U);
}

TEST(BufferPoolThreads, SharedSlicesDroppedEverywhere) {
    BufferPool pool({.budget_bytes = 16 * kMiB, .shard_count = 4});
    for (int round = 0; round < 200; ++round) {
        BufRef whole;
        run_as(0, [&] {
            whole = pool.acquire(4096).value();
            std::memset(whole.mutable_bytes().data(), round & 0xFF, whole.size());
        });
        std::vector<std::thread> threads;
        for (std::uint16_t shard = 1; shard < 4; ++shard) {
            threads.emplace_back([shard, round, part = whole.slice(shard * 1000U, 96)]() mutable {
                set_this_shard(ShardIndex{shard});
                BufRef copy = part;
                part.reset();
                EXPECT_EQ(copy.bytes()[95], static_cast<std::byte>(round & 0xFF));
            });
        }
        whole.reset();
        for (std::thread& thread : threads) {
            thread.join();
        }
    }
    run_as(0, [&] { pool.collect(); });
    EXPECT_EQ(pool.stats().in_use_bytes, 0U);
    EXPECT_LE(pool.stats().cached_bytes, 4 * 4096U);
}

/// Blocks travel between threads through one locked queue; each carries its own pattern.
struct Exchange {
    std::mutex lock;
    std::deque<BufRef> queue;
};

void storm(BufferPool& pool, Exchange& exchange, std::uint32_t seed, std::atomic<int>& refused) {
    std::minstd_rand random(seed);
    std::vector<BufRef> mine;
    const auto check = [](const BufRef& buffer) {
        const ConstBytes bytes = buffer.bytes();
        const auto mark = load<std::uint64_t>(bytes, 0);
        EXPECT_EQ(load<std::uint64_t>(bytes, bytes.size() - 8), mark);
        EXPECT_EQ(load<std::uint64_t>(bytes, bytes.size() / 2), mark);
    };
    for (std::uint64_t i = 0; i < 4000; ++i) {
        const std::size_t size_class = random() % (random() % 8 == 0 ? 15 : 7);
        auto buffer =
            pool.acquire(kSizeClassBytes[size_class], static_cast<AcquireClass>(random() % 3));
        if (buffer) {
            const MutableBytes bytes = buffer->mutable_bytes();
            const std::uint64_t mark = (std::uint64_t{seed} << 32) | i;
            store<std::uint64_t>(bytes, 0, mark);
            store<std::uint64_t>(bytes, bytes.size() / 2, mark);
            store<std::uint64_t>(bytes, bytes.size() - 8, mark);
            mine.push_back(std::move(*buffer));
        } else {
            refused.fetch_add(1);
        }
        if (mine.size() > 24 || (!buffer && !mine.empty())) {
            const std::size_t which = random() % mine.size();
            check(mine[which]);
            std::swap(mine[which], mine.back());
            if (random() % 2 == 0) {
                const std::scoped_lock guard(exchange.lock);
                exchange.queue.push_back(std::move(mine.back()));
                if (exchange.queue.size() > 16) {
                    exchange.queue.pop_front();
                }
            }
            mine.pop_back();
        }
        if (i % 16 == 0) {
            pool.collect();
        }
        if (i % 64 == 0) {
            const PoolStats stats = pool.stats();
            EXPECT_LE(stats.anonymous_bytes, stats.budget_bytes / 8);
        }
    }
    for (const BufRef& buffer : mine) {
        check(buffer);
    }
    mine.clear();
    if (seed % 2 == 0) {
        pool.stop_shard();
    }
}

TEST(BufferPoolThreads, StormAtATightBudget) {
    BufferPool pool({.budget_bytes = 24 * kMiB, .class_capacity = 8, .shard_count = 3});
    Exchange exchange;
    std::atomic<int> refused = 0;
    std::vector<std::thread> threads;
    for (std::uint16_t i = 0; i < 4; ++i) {  // the fourth is no shard
        threads.emplace_back([&, i] {
            set_this_shard(i < 3 ? ShardIndex{i} : kNoShard);
            storm(pool, exchange, i + 1U, refused);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    exchange.queue.clear();
    for (std::uint16_t i = 0; i < 3; ++i) {
        run_as(i, [&] { pool.stop_shard(); });
    }
    EXPECT_GT(refused.load(), 0);
    const PoolStats stats = pool.stats();
    EXPECT_EQ(stats.in_use_bytes, 0U);
    EXPECT_EQ(stats.anonymous_bytes, 0U);
    EXPECT_LE(stats.cached_bytes, stats.budget_bytes);
    // All of the budget can be had again.
    Result<BufRef> whole = pool.acquire(24 * kMiB, AcquireClass::kReserved);
    for (int i = 0; !whole && i < 100; ++i) {
        whole = pool.acquire(24 * kMiB, AcquireClass::kReserved);
    }
    EXPECT_TRUE(whole);
}

}  // namespace
}  // namespace galgo::memory

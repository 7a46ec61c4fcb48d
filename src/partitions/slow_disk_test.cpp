// A disk that is slow where one topic has its files, and nowhere else: every operation on them
// takes five seconds. Sends to, and polls of, the other partitions of the shard take their usual
// time.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/units.hpp"
#include "test_table.hpp"

namespace galgo::partitions {
namespace {

using coro::Task;
using runtime_sim::DiskOp;

constexpr std::uint64_t kDelayNs = 5 * kSecond;
constexpr std::uint64_t kRunNs = 8 * kSecond;
/// Without any delay it is 2 ms, 11 with large batches.
constexpr std::uint64_t kUsualNs = 30 * kMillisecond;
constexpr std::size_t kSmallBytes = 1000;
constexpr std::size_t kBulkBytes = 70'000;
constexpr std::uint32_t kSlow = 0;  ///< the partition whose files are slow
const std::string kSlowPath = "partitions/0";

struct SlowCase {
    std::vector<DiskOp> slow;
    bool persisted = false;
    std::size_t bytes = 0;             ///< of a batch of the others
    bool flushes_by_pressure = false;  ///< only; else also at 16 KiB
    bool ends_lives = false;           ///< the slow one loses segments and is purged meanwhile
};

/// The longest that one of the others waited, in virtual time.
struct Waits {
    std::uint64_t send_ns = 0;
    std::uint64_t poll_ns = 0;
    std::uint64_t sends = 0;
    std::uint64_t slow_sends = 0;
    std::uint64_t failures = 0;
};

class SlowRig : public TableRig {
 public:
    explicit SlowRig(const SlowCase& what) : what_(what) {
        node.disk->options().slow_percent = 0;
        options.persisted = what.persisted;
        options.preallocate = std::ranges::contains(what.slow, DiskOp::kAllocate);
        options.segment_size_bytes = 256 * kKiB;
        if (!what.flushes_by_pressure) {
            options.size_required_to_save_bytes = 16 * kKiB;
        }
    }

    Waits measure() {
        for (const std::uint32_t partition : {kSlow, 1U, 2U}) {
            for (int i = 0; i < 8; ++i) {  // more than a segment
                EXPECT_TRUE(append_now(partition, 40'000).has_value());
            }
        }
        for (const DiskOp op : what_.slow) {
            node.disk->add_delay({.op = op, .path_contains = kSlowPath, .nanoseconds = kDelayNs});
        }
        until_ = node.io->now().plus(kRunNs);
        (void)world.run(node, load(*this));
        node.disk->clear_delays();
        return waits_;
    }

 private:
    [[nodiscard]] std::uint64_t now() const { return node.io->now().value(); }
    [[nodiscard]] bool is_over() const { return node.io->now() >= until_; }

    static Task<bool> load(SlowRig& rig) {
        co_await coro::all(send_slowly(rig, 300), send_slowly(rig, 300), send_slowly(rig, 20'000),
                           send_slowly(rig, 70'000), poll_slowly(rig), house_keep(rig),
                           end_lives(rig), use(rig, 1), use(rig, 2));
        co_return true;
    }
    /// Whatever becomes of it: it is the others that are looked at.
    static Task<bool> send_slowly(SlowRig& rig, std::size_t bytes) {
        while (!rig.is_over()) {
            const Result<Offset> sent = co_await append(rig, kSlow, bytes);
            rig.waits_.slow_sends += sent.has_value() ? 1U : 0U;
            co_await rig.node.loop->sleep_for(50 * kMillisecond);
        }
        co_return true;
    }
    static Task<bool> poll_slowly(SlowRig& rig) {
        while (!rig.is_over()) {
            (void)co_await poll(rig, kSlow, wire::PollingKind::kFirst);
            (void)co_await store(rig, 0);
            co_await rig.node.loop->sleep_for(100 * kMillisecond);
        }
        co_return true;
    }
    /// As the shard does it.
    static Task<bool> house_keep(SlowRig& rig) {
        while (!rig.is_over()) {
            co_await rig.node.loop->sleep_for(kSecond);
            co_await rig.table->checkpoint();
            rig.table->rest();
            (void)co_await rig.trash.empty(*rig.node.io, rig.node.queue(), 256);
        }
        co_return true;
    }
    static Task<bool> end_lives(SlowRig& rig) {
        if (!rig.what_.ends_lives) {
            co_return true;
        }
        Incarnation life = kLife;
        while (!rig.is_over()) {
            co_await rig.node.loop->sleep_for(kSecond);
            if (const std::optional<PartitionHandle> open = rig.table->find(key_of(kSlow), life)) {
                (void)co_await (*open)->delete_segments(1);
                (void)co_await (*open)->clean({.expiry_us = 1}, rig.node.loop->wall_now(), 16);
            }
            if (life == kLife) {
                life = life.next();
                co_await rig.table->retire(key_of(kSlow), life, false);
            }
        }
        co_return true;
    }
    /// One of the others: it sends, polls what it sent, and polls from its begin.
    static Task<bool> use(SlowRig& rig, std::uint32_t partition) {
        while (!rig.is_over()) {
            const std::uint64_t began = rig.now();
            const Result<Offset> sent = co_await append(rig, partition, rig.what_.bytes);
            rig.waits_.send_ns = std::max(rig.waits_.send_ns, rig.now() - began);
            ++rig.waits_.sends;
            rig.waits_.failures += sent.has_value() ? 0U : 1U;
            for (const wire::PollingKind kind :
                 {wire::PollingKind::kFirst, wire::PollingKind::kLast}) {
                const std::uint64_t asked = rig.now();
                const bool polled = co_await poll(rig, partition, kind);
                rig.waits_.poll_ns = std::max(rig.waits_.poll_ns, rig.now() - asked);
                rig.waits_.failures += polled ? 0U : 1U;
            }
            co_await rig.node.loop->sleep_for(30 * kMillisecond);
        }
        co_return true;
    }
    static Task<bool> poll(SlowRig& rig, std::uint32_t partition, wire::PollingKind kind) {
        const std::optional<PartitionHandle> open = rig.table->find(key_of(partition), kLife);
        if (!open.has_value()) {
            co_return false;
        }
        const Result<PollResult> polled = co_await (*open)->poll({.consumer = kConsumer,
                                                                  .strategy = {.kind = kind},
                                                                  .count = 3,
                                                                  .bytes_max = kMiB,
                                                                  .auto_commit = true});
        co_return polled.has_value() && polled->read.message_count != 0;
    }

    const SlowCase& what_;
    Instant until_{0};
    Waits waits_;
};

std::vector<SlowCase> slow_cases() {
    const std::vector<DiskOp> all{
        DiskOp::kOpen,   DiskOp::kClose,         DiskOp::kRead,           DiskOp::kWrite,
        DiskOp::kSync,   DiskOp::kTruncate,      DiskOp::kAllocate,       DiskOp::kRename,
        DiskOp::kUnlink, DiskOp::kMakeDirectory, DiskOp::kRemoveDirectory};
    std::vector<SlowCase> cases;
    for (const bool persisted : {false, true}) {
        for (const bool by_pressure : {false, true}) {
            for (const std::size_t bytes : {kSmallBytes, kBulkBytes}) {
                cases.push_back({.slow = all,
                                 .persisted = persisted,
                                 .bytes = bytes,
                                 .flushes_by_pressure = by_pressure,
                                 .ends_lives = !by_pressure});
            }
            for (const DiskOp op : by_pressure || persisted ? all : std::vector<DiskOp>{}) {
                cases.push_back({.slow = {op},
                                 .persisted = persisted,
                                 .bytes = kSmallBytes,
                                 .flushes_by_pressure = by_pressure,
                                 .ends_lives = !by_pressure});
            }
        }
    }
    return cases;
}

TEST(SlowDisk, DelaysNobodyElse) {
    for (const SlowCase& what : slow_cases()) {
        SCOPED_TRACE(testing::Message()
                     << "operation " << static_cast<int>(what.slow[0]) << " of " << what.slow.size()
                     << (what.persisted ? ", persisted" : ", replicated") << ", batches of "
                     << what.bytes << (what.flushes_by_pressure ? ", under pressure" : ", purged"));
        SlowRig rig(what);
        const Waits waits = rig.measure();
        EXPECT_LT(waits.send_ns, kUsualNs);
        EXPECT_LT(waits.poll_ns, kUsualNs);
        EXPECT_GT(waits.sends, 100U);
        EXPECT_EQ(waits.failures, 0U);
        EXPECT_GT(waits.slow_sends, 0U);
    }
}

// Each of them pins another file of the journal, until none is left: then their files are set aside
// after a second, and the others go on. All of it is there at the end.
TEST(SlowDisk, OfManyPartitionsCostsTheOthersASecond) {
    TableRig rig;
    rig.node.disk->options().slow_percent = 0;
    for (std::uint32_t slow = 3; slow < 10; ++slow) {
        rig.node.disk->add_delay({.op = DiskOp::kWrite,
                                  .path_contains = "partitions/" + std::to_string(slow),
                                  .nanoseconds = 60 * kSecond});
        ASSERT_TRUE(rig.append_now(slow, 50'000).has_value());
    }
    const Instant start = rig.node.io->now();
    for (int i = 0; i < 40; ++i) {
        const Instant began = rig.node.io->now();
        ASSERT_TRUE(rig.append_now(1, 20'000).has_value());
        EXPECT_LT(rig.node.io->now().value() - began.value(), 1300 * kMillisecond) << i;
    }
    EXPECT_LT(rig.node.io->now().value() - start.value(), 10 * kSecond);
    rig.restart();
    for (std::uint32_t slow = 3; slow < 10; ++slow) {
        EXPECT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, slow)), 1U);
    }
    EXPECT_EQ(*rig.world.run(rig.node, TableRig::count_of(rig, 1)), 40U);
}

}  // namespace
}  // namespace galgo::partitions

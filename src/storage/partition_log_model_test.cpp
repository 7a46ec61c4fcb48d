// Random operations on one partition log against a plain model, with crashes anywhere.
#include <cstdlib>

#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::CrashKind;

/// Some appends side by side, of sizes that take all paths.
Task<void> append_some(Rig& rig, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count && !rig.node.io->crashed(); ++i) {
        runtime_sim::SimRandom& random = rig.world.random();
        const auto size = [&random]() -> std::size_t {
            const std::uint64_t kind = random.below(20);
            return kind < 12   ? random.below(400)
                   : kind < 18 ? random.below(20'000)
                               : 60'000 + random.below(90'000);
        };
        const std::size_t first = size();
        const std::size_t second = size();
        const auto messages = static_cast<std::uint32_t>(1 + random.below(3));
        if (random.percent(30)) {
            (void)co_await coro::all(rig.append(messages, first), rig.append(1, second));
        } else {
            (void)co_await rig.append(messages, first);
        }
    }
}

Task<void> work(Rig& rig) {
    for (int step = 0; step < 12 && !rig.node.io->crashed(); ++step) {
        runtime_sim::SimRandom& random = rig.world.random();
        const auto what = random.below(12);
        if (what >= 11) {
            (void)co_await rig.log->roll_by_age(Timestamp(rig.clock_us - random.below(40)));
        } else if (what >= 10) {
            const Offset below(random.below(rig.log->end_offset().value() + 2));
            (void)co_await coro::all(rig.trim(below, 1 + random.below(4)), rig.append(1, 200));
        } else if (what < 6) {
            const auto count = static_cast<std::uint32_t>(1 + random.below(20));
            co_await append_some(rig, count);
        } else if (what < 7) {
            (void)co_await rig.log->force_flush();
        } else if (what < 8) {
            (void)co_await rig.log->flush_and_sync();
        } else {
            const Offset from(random.below(rig.log->end_offset().value() + 2));
            const auto wanted = static_cast<std::uint32_t>(1 + random.below(50));
            (void)co_await rig.log->read(
                rig.log->plan_read(from, wanted, 1 * kMiB, rig.log->committed_end()));
        }
    }
}

void run_model(std::uint64_t seed, bool persisted) {
    SCOPED_TRACE("seed " + std::to_string(seed) + (persisted ? " persisted" : " replicated"));
    Rig rig(seed, {.segment_size = 300'000,
                   .messages_required_to_save = 30,
                   .size_required_to_save = 100'000,
                   .persisted = persisted});
    runtime_sim::SimRandom random(seed ^ 0x5EED);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int life = 0; life < 5; ++life) {
        if (random.percent(20)) {
            rig.world.run(rig.node, work(rig));
            ASSERT_NO_FATAL_FAILURE(rig.verify(true));
            ASSERT_NO_FATAL_FAILURE(rig.restart());
            ASSERT_NO_FATAL_FAILURE(rig.verify(true));
            continue;
        }
        rig.node.io->crash_after(1 + random.below(300));
        (void)rig.world.run_until_crash(rig.node, work(rig));
        const CrashKind kind = random.percent(50) ? CrashKind::kProcess : CrashKind::kPower;
        const std::uint64_t end_before =
            rig.acknowledged.empty()
                ? 0
                : rig.acknowledged.rbegin()->first + rig.acknowledged.rbegin()->second;
        rig.crash(kind);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        const bool within = persisted || kind == CrashKind::kProcess;
        ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
        if (within) {
            ASSERT_GE(rig.log->end_offset().value(), end_before);
        }
        ASSERT_NO_FATAL_FAILURE(rig.verify(within));
    }
    rig.stop();
}

TEST(PartitionLogModel, ProcessAndPowerCrashes) {
    std::uint64_t first = 1;
    std::uint64_t count = 4;
    if (const char* seed = std::getenv("GALGO_SEED"); seed != nullptr) {
        first = std::strtoull(seed, nullptr, 10);
        count = 1;
    }
    if (const char* runs = std::getenv("GALGO_RUNS"); runs != nullptr) {
        count = std::strtoull(runs, nullptr, 10);
    }
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        for (const bool persisted : {false, true}) {
            run_model(seed, persisted);
            if (HasFatalFailure()) {
                std::fprintf(
                    stderr,
                    "again with: GALGO_SEED=%llu storage_test --gtest_filter=PartitionLogModel.*\n",
                    static_cast<unsigned long long>(seed));
                return;
            }
        }
    }
}

}  // namespace
}  // namespace galgo::storage

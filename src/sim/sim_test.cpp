// The simulator's own parts: the disk keeps and loses what it must, a seed is a run, and planted
// bugs of the node are caught. (Those of the core: galgo-sim-planted --bugs.)
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/checkers.hpp"
#include "sim/clock.hpp"
#include "sim/cluster.hpp"
#include "sim/disk.hpp"
#include "sim/entry.hpp"
#include "sim/planted.hpp"
#include "sim/schedule.hpp"
#include "sim/workload.hpp"

namespace galgo::sim {
namespace {

std::vector<std::byte> sector_of(int value) {
    return std::vector<std::byte>(kSectorBytes, static_cast<std::byte>(value));
}

struct Disk : testing::Test {
    explicit Disk(DiskOdds odds = {}) { disk.reset(Random(7), odds, 16, faults); }

    void write(std::uint32_t sector, int value) {
        disk.begin_write(sector, sector_of(value), true);
        EXPECT_TRUE(disk.finish());
    }
    bool sync() {
        disk.begin_sync();
        return disk.finish();
    }
    [[nodiscard]] bool holds(std::uint32_t sector, int value) const {
        return std::ranges::equal(disk.content(sector, 1), sector_of(value));
    }

    FaultCounts faults;
    SectorDisk disk;
};

TEST_F(Disk, KeepsWhatWasSyncedAndAllOfItInAProcessCrash) {
    write(20, 1);
    EXPECT_TRUE(sync());
    write(21, 2);
    disk.crash(false);
    EXPECT_TRUE(holds(20, 1));
    EXPECT_TRUE(holds(21, 2));
    // Unsynced, it goes with the power sooner or later; the synced one never does.
    bool lost = false;
    for (int i = 0; i < 64; ++i) {
        disk.crash(true);
        EXPECT_TRUE(holds(20, 1));
        lost = lost || !holds(21, 2);
        write(21, 0);
        EXPECT_TRUE(sync());
        write(21, 2);
    }
    EXPECT_TRUE(lost);
    EXPECT_FALSE(disk.damaged());
}

struct LosingDisk : Disk {
    LosingDisk() : Disk({.write_lost = Odds::percent(101)}) {}
};
TEST_F(LosingDisk, ShowsALostWriteUntilThePowerGoes) {
    write(20, 1);
    EXPECT_TRUE(sync());
    EXPECT_TRUE(holds(20, 1));
    EXPECT_TRUE(disk.damaged());
    disk.crash(true);
    EXPECT_TRUE(holds(20, 0));
}

struct FailingDisk : Disk {
    FailingDisk() : Disk({.sync_error = Odds::percent(101)}) {}
};
TEST_F(FailingDisk, DoesNotMakeStableWhatAFailedSyncDropped) {
    bool lost = false;
    for (std::uint32_t sector = 20; sector < 84; ++sector) {
        write(sector, 1);
    }
    EXPECT_FALSE(sync());
    disk.set_healthy();
    EXPECT_TRUE(sync());  // and says nothing
    disk.crash(true);
    for (std::uint32_t sector = 20; sector < 84; ++sector) {
        lost = lost || holds(sector, 0);
    }
    EXPECT_TRUE(lost);
}

TEST(Entry, ComesBackAsItWasAndNoBitIsMissed) {
    LogEntry entry;
    entry.prepare = {.op = OpNumber(7), .timestamp = Timestamp(9), .parent = {}, .body = {}};
    entry.operation = metadata::LogOperation::kRegister;
    entry.client = ClientId(u128{3} << 64U | 5U);
    entry.session = SessionId(4);
    entry.request = RequestNumber(6);
    entry.request_checksum = 8;
    entry.user = model::UserId(1);
    const std::vector<std::byte> body = sector_of(0x5a);
    entry.set_body(ConstBytes(body).first(21));
    entry.prepare.body = digest_of(entry);
    std::vector<std::byte> bytes(LogEntry::kBytesMax);
    bytes.resize(encode(entry, bytes));
    EXPECT_EQ(bytes.size(), encoded_size(entry));

    LogEntry read;
    std::size_t size = 0;
    ASSERT_TRUE(decode(bytes, read, size));
    EXPECT_EQ(size, bytes.size());
    EXPECT_EQ(read.prepare, entry.prepare);
    EXPECT_EQ(read.client, entry.client);
    EXPECT_EQ(read.session, entry.session);
    EXPECT_EQ(read.request, entry.request);
    EXPECT_TRUE(std::ranges::equal(read.body(), entry.body()));

    EXPECT_FALSE(decode(ConstBytes(bytes).first(bytes.size() - 1), read, size));
    constexpr std::size_t kDigestFrom = 64;
    const std::size_t digest_end = LogEntry::kHeadBytes + entry.body_size;
    for (std::size_t bit = 8 * kDigestFrom; bit < 8 * digest_end; ++bit) {
        const auto mask = static_cast<std::byte>(1U << bit % 8);
        bytes[bit / 8] ^= mask;
        EXPECT_FALSE(decode(bytes, read, size)) << bit;
        bytes[bit / 8] ^= mask;
    }
}

TEST(Schedule, IsAFunctionOfItsSeed) {
    const auto order_of = [](std::uint64_t seed) {
        Schedule schedule;
        schedule.clear(Random(seed));
        for (std::uint32_t i = 0; i < 64; ++i) {
            schedule.add({.at = i % 4, .argument = i, .kind = EventKind::kFrame});
        }
        std::vector<std::uint32_t> order;
        Time last = 0;
        while (schedule.due(4)) {
            const Event event = schedule.take();
            EXPECT_GE(event.at, last);
            last = event.at;
            order.push_back(event.argument);
        }
        EXPECT_EQ(order.size(), 64u);
        return order;
    };
    EXPECT_EQ(order_of(1), order_of(1));
    EXPECT_NE(order_of(1), order_of(2));
}

struct Runs : testing::Test {
    Workload workload;
    std::unique_ptr<Cluster> cluster = std::make_unique<Cluster>(workload);
};

TEST_F(Runs, ASeedIsARun) {
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        const RunResult first = cluster->run(seed, {});
        const RunResult again = cluster->run(seed, {});
        EXPECT_EQ(first.trace, again.trace) << seed;
        EXPECT_NE(first.verdict, Verdict::kCorrectness) << seed << ": " << first.failure;
        EXPECT_NE(first.verdict, Verdict::kLiveness) << seed;
        EXPECT_GT(first.committed, 0u) << seed;
    }
}

// Each for its own reason: a failure by something else would pass for a caught bug.
TEST_F(Runs, CatchesPlantedBugsOfTheNode) {
    for (const PlantedBug& bug : kPlantedBugs) {
        if (bug.mutation.has_value()) {
            continue;
        }
        std::uint64_t ticks = 0;
        RunResult result;
        for (std::uint64_t seed = 1; ticks < bug.ticks_max && result.failure.empty(); ++seed) {
            result = cluster->run(seed, {.bug = bug.bug});
            ticks += result.ticks;
        }
        EXPECT_TRUE(result.failure.starts_with(bug.caught_by))
            << bug.name << ": " << result.failure;
    }
}

// ---- the checkers themselves -------------------------------------------------------------------

struct CheckersTest : testing::Test {
    Workload workload;
    Checkers checkers{workload};
    SimMarkCounts marks;

    void start(std::uint8_t nodes) {
        Swarm swarm;
        swarm.nodes = nodes;
        checkers.reset(swarm, marks);
        for (std::uint8_t i = 0; i < nodes; ++i) {
            checkers.on_boot(i);
            checkers.on_superblock(i, ViewNumber(0));
        }
    }
    static consensus::Identity identity(std::uint64_t op) {
        return consensus::Identity(op == 0 ? 0 : 100 + op);
    }
    static LogEntry entry(std::uint64_t op) {
        LogEntry entry;
        entry.prepare = {.op = OpNumber(op),
                         .timestamp = Timestamp(op),
                         .parent = identity(op - 1),
                         .body = {},
                         .identity = identity(op)};
        entry.operation = metadata::LogOperation::kResetSessions;
        return entry;
    }
    void append(std::uint8_t node, std::uint64_t op, bool durable) {
        checkers.on_append(node, entry(op).prepare);
        if (durable) {
            checkers.on_durable(node, OpNumber(op), identity(op));
        }
    }
    void acknowledge(std::uint8_t node, std::uint64_t op) {
        consensus::Frame frame;
        frame.payload = consensus::PrepareOkFrame{
            .durable = {.op = OpNumber(op), .identity = identity(op)}, .received = OpNumber(op)};
        checkers.on_send(node, frame);
    }
    void commit(std::uint8_t node, std::uint64_t op) {
        checkers.on_commit(node, entry(op).prepare.head(), entry(op), {});
    }
};

TEST_F(CheckersTest, AnAcknowledgementAcrossAHoleBreaksLaw3) {
    start(3);
    append(1, 1, true);
    append(1, 2, false);
    append(1, 3, true);
    acknowledge(1, 1);
    EXPECT_FALSE(checkers.failed()) << checkers.failure();
    acknowledge(1, 3);
    EXPECT_TRUE(checkers.failure().starts_with("law 3")) << checkers.failure();
    start(3);
    append(1, 1, false);
    append(1, 2, true);
    checkers.on_durable(1, OpNumber(1), identity(1));  // the end of an append may come late
    acknowledge(1, 2);
    EXPECT_FALSE(checkers.failed()) << checkers.failure();
}

TEST_F(CheckersTest, ACommitOfAFailedAppendBreaksLaw3OnOneNodeToo) {
    start(1);
    append(0, 1, false);
    append(0, 2, true);
    commit(0, 1);
    EXPECT_TRUE(checkers.failure().starts_with("law 3")) << checkers.failure();
    start(1);
    append(0, 1, false);
    append(0, 2, true);
    commit(0, 2);
    EXPECT_FALSE(checkers.failed()) << checkers.failure();
}

TEST_F(CheckersTest, ABrokenLinkBreaksLaw1OnOneNodeToo) {
    start(1);
    append(0, 1, true);
    append(0, 2, true);
    commit(0, 1);
    LogEntry other = entry(2);
    other.prepare.parent = identity(7);
    checkers.on_commit(0, other.prepare.head(), other, {});
    EXPECT_TRUE(checkers.failure().starts_with("law 1")) << checkers.failure();
}

TEST_F(CheckersTest, WhoeverSaidFatalDoesNothingMore) {
    const auto stopped = [&] {
        start(3);
        append(1, 1, true);
        append(0, 1, true);
        checkers.expect_fatal(1);
        checkers.on_fatal(1, {.reason = consensus::FatalReason::kDiverged, .op = OpNumber(1)});
        EXPECT_FALSE(checkers.failed()) << checkers.failure();
    };
    stopped();
    commit(1, 1);
    EXPECT_TRUE(checkers.failure().starts_with("law 2")) << checkers.failure();
    stopped();
    acknowledge(1, 1);
    EXPECT_TRUE(checkers.failure().starts_with("law 2")) << checkers.failure();
    stopped();
    append(1, 2, false);
    EXPECT_TRUE(checkers.failure().starts_with("law 2")) << checkers.failure();
    stopped();
    checkers.on_fatal(1, {.reason = consensus::FatalReason::kDiverged, .op = OpNumber(1)});
    EXPECT_TRUE(checkers.failure().starts_with("law 1")) << "one that nobody expected";
}

TEST_F(CheckersTest, AnEmptyDiskMustBeRefusedAndAFenceHasAReason) {
    start(3);
    checkers.on_empty_boot(1, true);
    checkers.on_fenced(2, /*log_poisoned=*/true);
    EXPECT_FALSE(checkers.failed());
    checkers.on_empty_boot(1, false);
    EXPECT_TRUE(checkers.failure().starts_with("law 4"));
    start(3);
    checkers.on_fenced(2, /*log_poisoned=*/false);
    EXPECT_TRUE(checkers.failure().starts_with("law 9"));
    start(3);
    append(1, 1, true);
    checkers.on_belief(0, 1, OpNumber(1));
    EXPECT_FALSE(checkers.failed());
    checkers.on_belief(0, 1, OpNumber(2));
    EXPECT_TRUE(checkers.failure().starts_with("law 3"));
}

TEST(Clock, TicksAtItsOwnPeriod) {
    for (const std::int64_t drift :
         {std::int64_t{0}, std::int64_t{50'000}, std::int64_t{-50'000}}) {
        NodeClock clock;
        clock.reset(drift, 0);
        for (std::uint64_t tick = 1; tick < 5'000; ++tick) {
            const Time at = clock.time_of_tick(tick);
            ASSERT_EQ(clock.ticks(at).value(), tick) << drift;
            ASSERT_EQ(clock.ticks(at - 2).value(), tick - 1) << drift << ": to a microsecond";
        }
    }
}

}  // namespace
}  // namespace galgo::sim

// A log that gives up its oldest segments: what goes, what stays, and what every crash and every
// fault on the way leaves.
#include "storage/detail/retained_file.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::CrashKind;
using runtime_sim::DiskOp;
using runtime_sim::UnsyncedFate;

const std::string kRetainedPath = kTestLogDirectory + "/retained";
constexpr Timestamp kEndOfTime{~std::uint64_t{0}};
/// Three batches of 100 000 bytes a segment.
constexpr LogOptions kThreeEach{.segment_size = 250'000};

/// Ten messages: segments 0, 3, 6 are sealed, 9 is written. All is stable.
void fill(Rig& rig) {
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    }
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
    ASSERT_EQ(rig.log->segment_count(), 4U);
}

std::vector<std::uint64_t> offsets_from(Rig& rig, std::uint64_t from, std::uint32_t count = 1000) {
    const Result<ReadSlices> got = rig.read_now(Offset(from), count);
    EXPECT_TRUE(got.has_value()) << to_string(got.error());
    return got.has_value() ? Rig::offsets_of(*got) : std::vector<std::uint64_t>{};
}

bool has_files(Rig& rig, std::uint64_t start) {
    return rig.node.disk->exists(log_path(start)) || rig.node.disk->exists(index_path(start));
}

TEST(LogTrim, WholeSegmentsGoAndStayAway) {
    Rig rig(1, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    const LogStats before = rig.log->stats();
    ASSERT_EQ(before.message_count, 10U);
    const Result<TrimResult> trimmed = rig.trim_now(Offset{7});  // in the middle of the third
    ASSERT_TRUE(trimmed.has_value());
    EXPECT_EQ(trimmed->segment_count, 2U);
    EXPECT_EQ(before.bytes - rig.log->stats().bytes, trimmed->bytes);
    EXPECT_EQ(rig.log->stats().message_count, 4U);
    EXPECT_FALSE(has_files(rig, 0) || has_files(rig, 3));
    EXPECT_TRUE(rig.trash.has_work());
    for (int start = 0; start < 3; ++start) {
        EXPECT_EQ(rig.log->first_offset(), Offset{6});
        EXPECT_EQ(rig.log->end_offset(), Offset{10});
        EXPECT_EQ(offsets_from(rig, 0), range(6, 10));
        EXPECT_EQ(offsets_from(rig, 4, 2), range(6, 8));
        EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
        ASSERT_NO_FATAL_FAILURE(rig.restart());
    }
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.verify(true);
    rig.stop();
}

TEST(LogTrim, TheLastSegmentStaysAndSoDoesWhatACallDoesNotTake) {
    Rig rig(2, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    EXPECT_EQ(rig.trim_now(Offset{2})->segment_count, 0U);
    EXPECT_EQ(rig.trim_now(Offset{100}, 0)->segment_count, 0U);
    EXPECT_FALSE(rig.node.disk->exists(kRetainedPath));
    EXPECT_EQ(rig.trim_now(Offset{100}, 1)->segment_count, 1U);
    EXPECT_EQ(rig.log->first_offset(), Offset{3});
    EXPECT_EQ(rig.trim_now(Offset{100})->segment_count, 2U);
    EXPECT_EQ(rig.trim_now(Offset{100})->segment_count, 0U);
    EXPECT_EQ(rig.log->first_offset(), Offset{9});
    EXPECT_EQ(offsets_from(rig, 0), range(9, 10));
    rig.stop();
}

TEST(LogTrim, AQuietLogIsEndedAndKeepsItsNextOffset) {
    for (const bool in_memory : {false, true}) {
        SCOPED_TRACE(in_memory);
        Rig rig(3, kThreeEach);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->active_since(), std::nullopt);
        EXPECT_FALSE(*rig.world.run(rig.node, rig.log->roll_by_age(kEndOfTime)));
        const Timestamp first(rig.clock_us + 1);
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(1, in_memory ? 100 : 100'000).has_value());
        }
        const std::uint64_t active = in_memory ? 0 : 3;
        EXPECT_EQ(rig.log->active_since(), Timestamp(first.value() + active));
        EXPECT_FALSE(
            *rig.world.run(rig.node, rig.log->roll_by_age(Timestamp(first.value() + active - 1))));
        EXPECT_TRUE(
            *rig.world.run(rig.node, rig.log->roll_by_age(Timestamp(first.value() + active))));
        EXPECT_EQ(rig.log->active_since(), std::nullopt);
        EXPECT_FALSE(*rig.world.run(rig.node, rig.log->roll_by_age(kEndOfTime)));
        rig.verify(true);
        EXPECT_EQ(rig.trim_now(Offset{5})->segment_count, in_memory ? 1U : 2U);
        for (int start = 0; start < 3; ++start) {
            EXPECT_EQ(rig.log->first_offset(), Offset{5});
            EXPECT_EQ(rig.log->end_offset(), Offset{5});
            EXPECT_EQ(rig.log->stats().message_count, 0U);
            EXPECT_EQ(rig.log->segment_count(), 1U);
            EXPECT_EQ(offsets_from(rig, 0), range(0, 0));
            EXPECT_FALSE(rig.log->fenced().has_value());
            rig.crash(start == 0 ? CrashKind::kPower : CrashKind::kProcess, UnsyncedFate::kLoseAll);
            ASSERT_NO_FATAL_FAILURE(rig.start());
        }
        ASSERT_TRUE(rig.append_now(2, 100).has_value());
        EXPECT_EQ(offsets_from(rig, 0), range(5, 7));
        rig.stop();
    }
}

// Its age is known after a start, too, whether the index tells it or the walk.
TEST(LogTrim, ALogKnowsSinceWhenItIsWritten) {
    for (const bool has_index : {false, true}) {
        Rig rig(4, kThreeEach);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        const std::optional<Timestamp> since = rig.log->active_since();
        ASSERT_TRUE(since.has_value());
        rig.stop();
        if (!has_index) {
            ASSERT_GE(rig.node.disk->unlink(index_path(9)), 0);
        }
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->active_since(), since);
        rig.stop();
    }
}

/// Where a crash after `operations` leaves a trim of six messages; false: it ended before that.
bool crash_in_trim(std::uint64_t operations, CrashKind kind, UnsyncedFate fate) {
    SCOPED_TRACE(testing::Message() << "operation " << operations);
    Rig rig(operations + 1, kThreeEach);
    fill(rig);
    rig.node.io->crash_after(operations);
    const bool ended = rig.world.run_until_crash(rig.node, rig.trim(Offset{7})).has_value();
    rig.crash(kind, fate);
    rig.start();
    EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    const Offset first = rig.log->first_offset();
    EXPECT_TRUE(first == Offset{6} || (first == Offset{0} && !ended)) << first.value();
    EXPECT_EQ(offsets_from(rig, 0), range(first.value(), 10));
    EXPECT_EQ(has_files(rig, 0), first == Offset{0});
    EXPECT_EQ(has_files(rig, 3), first == Offset{0});
    // What was begun can be ended.
    EXPECT_EQ(rig.trim_now(Offset{7})->segment_count, first == Offset{0} ? 2U : 0U);
    EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.restart();
    EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    EXPECT_EQ(offsets_from(rig, 0), range(6, 11));
    EXPECT_TRUE(*rig.world.run(rig.node, rig.trash.empty(*rig.node.io, rig.node.queue(), 1000)));
    rig.stop();
    return !ended;
}

TEST(LogTrim, ACrashAtAnyOperation) {
    struct Crash {
        CrashKind kind;
        UnsyncedFate fate;
    };
    for (const Crash crash : {Crash{CrashKind::kProcess, UnsyncedFate::kSeeded},
                              Crash{CrashKind::kPower, UnsyncedFate::kLoseAll},
                              Crash{CrashKind::kPower, UnsyncedFate::kSeeded}}) {
        std::uint64_t operations = 0;
        while (crash_in_trim(operations, crash.kind, crash.fate) && !testing::Test::HasFailure()) {
            ++operations;
            ASSERT_LT(operations, 100U);
        }
        EXPECT_GT(operations, 8U);  // a file, its sync, the directory, two indexes, two renames
    }
}

Task<void> end_and_trim(Rig& rig) {
    (void)co_await rig.log->roll_by_age(kEndOfTime);
    (void)co_await rig.trim(Offset{10});
}

/// By the seed, a loss of power keeps or loses each change of a directory that is not stable.
bool crash_in_expiry(std::uint64_t operations, CrashKind kind, std::uint64_t seed) {
    SCOPED_TRACE(testing::Message() << "operation " << operations << ", seed " << seed);
    Rig rig(seed, kThreeEach);
    fill(rig);
    rig.node.io->crash_after(operations);
    const bool ended = rig.world.run_until_crash(rig.node, end_and_trim(rig)).has_value();
    rig.crash(kind);
    rig.start();
    EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    EXPECT_EQ(rig.log->end_offset(), Offset{10});
    const Offset first = rig.log->first_offset();
    EXPECT_TRUE(first == Offset{10} || (first == Offset{0} && !ended)) << first.value();
    EXPECT_EQ(offsets_from(rig, 0), range(first.value(), 10));
    EXPECT_TRUE(rig.append_now(1, 100).has_value());
    EXPECT_EQ(offsets_from(rig, 10), range(10, 11));
    rig.restart();
    EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    EXPECT_EQ(offsets_from(rig, 0), range(first.value(), 11));
    rig.stop();
    return !ended;
}

TEST(LogTrim, ACrashAtAnyOperationOfAFullExpiry) {
    const auto crash_at_each = [](CrashKind kind, std::uint64_t seed) {
        std::uint64_t operations = 0;
        while (crash_in_expiry(operations, kind, seed) && !testing::Test::HasFailure()) {
            ++operations;
            ASSERT_LT(operations, 100U);
        }
        EXPECT_GT(operations, 12U);
    };
    ASSERT_NO_FATAL_FAILURE(crash_at_each(CrashKind::kProcess, 1));
    for (std::uint64_t seed = 1; seed <= 3 && !testing::Test::HasFailure(); ++seed) {
        ASSERT_NO_FATAL_FAILURE(crash_at_each(CrashKind::kPower, seed));
    }
}

// A plan was made, then its segments went, with their bytes.
TEST(LogTrim, AReadGoesOnFromWhatIsRetained) {
    for (const bool was_open : {false, true}) {
        SCOPED_TRACE(was_open);
        Rig rig(6, kThreeEach);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        ASSERT_NO_FATAL_FAILURE(rig.restart());
        if (was_open) {
            ASSERT_EQ(offsets_from(rig, 0), range(0, 10));
        }
        const Offset end = rig.log->committed_end();
        ReadPlan all = rig.log->plan_read(Offset{0}, 1000, 64 * kMiB, end);
        ReadPlan one = rig.log->plan_read(Offset{1}, 1, 64 * kMiB, end);
        ReadPlan later = rig.log->plan_read(Offset{6}, 2, 64 * kMiB, end);
        ASSERT_EQ(rig.trim_now(Offset{6})->segment_count, 2U);
        ASSERT_TRUE(
            *rig.world.run(rig.node, rig.trash.empty(*rig.node.io, rig.node.queue(), 1000)));
        for (auto& [plan, expected] :
             {std::pair{&all, range(6, 10)}, {&one, range(6, 7)}, {&later, range(6, 8)}}) {
            const Result<ReadSlices> got = rig.world.run(rig.node, rig.log->read(std::move(*plan)));
            ASSERT_TRUE(got.has_value()) << to_string(got.error());
            const std::vector<std::uint64_t> offsets = Rig::offsets_of(*got);
            if (was_open && !offsets.empty() && offsets.front() < 6) {
                continue;  // its file was held open: the bytes were still there
            }
            EXPECT_EQ(offsets, expected);
        }
        rig.stop();
    }
}

// The file of the first segment is cut in the trash while a read holds it.
TEST(LogTrim, AReadOfAFileThatIsCutGoesOnToo) {
    Rig rig(7, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    ASSERT_EQ(offsets_from(rig, 0), range(0, 10));
    ReadPlan plan = rig.log->plan_read(Offset{0}, 1000, 64 * kMiB, rig.log->committed_end());
    ASSERT_TRUE(plan.disk[0].file);
    const auto cut = [](Rig& r) -> Task<Status> {
        const std::string path = "/data/trash/0000000000000007-3-00000000000000000000.log";
        GALGO_CO_TRY_ASSIGN(
            const runtime::FileHandle file,
            co_await runtime::open(*r.node.io, path, runtime::OpenMode::kReadWrite));
        const Status status = co_await runtime::truncate(*r.node.io, file, 50'000);
        (void)co_await runtime::close(*r.node.io, file);
        co_return status;
    };
    ASSERT_EQ(rig.trim_now(Offset{6})->segment_count, 2U);
    ASSERT_TRUE(rig.world.run(rig.node, cut(rig)).has_value());
    const Result<ReadSlices> got = rig.world.run(rig.node, rig.log->read(std::move(plan)));
    ASSERT_TRUE(got.has_value()) << to_string(got.error());
    EXPECT_EQ(Rig::offsets_of(*got), range(6, 10));
    rig.stop();
}

TEST(LogTrim, ASearchByTimeBesideIt) {
    Rig rig(8, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    const Timestamp time(rig.clock_us - 9);  // of message 0
    const auto both = [](Rig& r, Timestamp wanted) -> Task<Result<Offset>> {
        auto [trimmed, found] =
            co_await coro::all(r.trim(Offset{6}), r.log->offset_at_or_after(wanted));
        co_return trimmed.has_value() ? found : std::unexpected(trimmed.error());
    };
    const Result<Offset> found = rig.world.run(rig.node, both(rig, time));
    ASSERT_TRUE(found.has_value()) << to_string(found.error());
    EXPECT_TRUE(*found == Offset{0} || *found == Offset{6}) << found->value();
    EXPECT_EQ(*rig.world.run(rig.node, rig.log->offset_at_or_after(time)), Offset{6});
    rig.stop();
}

TEST(LogTrim, NothingHappensWhenItCannotBeNoted) {
    Rig rig(9, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    rig.node.disk->add_fault(
        {.op = DiskOp::kOpen, .path_contains = "retained", .times = 2, .error = ENOSPC});
    EXPECT_FALSE(rig.trim_now(Offset{7}).has_value());
    EXPECT_EQ(offsets_from(rig, 0), range(0, 10));
    EXPECT_FALSE(rig.log->fenced().has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kSync, .path_contains = "partitions/0", .times = 1, .error = EIO});
    EXPECT_FALSE(rig.trim_now(Offset{7}).has_value());
    EXPECT_EQ(offsets_from(rig, 0), range(0, 10));
    EXPECT_EQ(rig.trim_now(Offset{7})->segment_count, 2U);
    rig.verify(true);
    rig.stop();
}

// Then giving up is what makes room, so it may not need any: the index of what goes is derived.
TEST(LogTrim, AFullDiskDoesNotKeepSegments) {
    for (const std::int32_t error : {ENOSPC, EDQUOT}) {
        for (const bool held : {false, true}) {
            SCOPED_TRACE(testing::Message() << error << held);
            Rig rig(19, kThreeEach);
            ASSERT_NO_FATAL_FAILURE(fill(rig));
            rig.node.disk->add_fault(
                {.op = DiskOp::kWrite, .path_contains = "retained", .times = 1, .error = error});
            if (!held) {
                EXPECT_EQ(rig.trim_now(Offset{7})->segment_count, 2U);
                EXPECT_EQ(offsets_from(rig, 0), range(6, 10));
            } else {
                // What stays for now keeps its index.
                EXPECT_FALSE(
                    rig.world.run(rig.node, rig.log->want_trim(Offset{6}, Offset{2})).has_value());
                EXPECT_TRUE(rig.node.disk->exists(index_path(0)));
                rig.node.disk->add_fault({.op = DiskOp::kWrite,
                                          .path_contains = "retained",
                                          .times = 1,
                                          .error = error});
                ASSERT_TRUE(
                    rig.world.run(rig.node, rig.log->want_trim(Offset{6}, Offset{3})).has_value());
                EXPECT_FALSE(rig.node.disk->exists(index_path(0)));
                EXPECT_TRUE(rig.node.disk->exists(index_path(3)));
                EXPECT_EQ(offsets_from(rig, 1), range(1, 10));
            }
            rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
            ASSERT_NO_FATAL_FAILURE(rig.start());
            EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
            EXPECT_EQ(offsets_from(rig, 0), range(held ? 0U : 6U, 10));
            EXPECT_EQ(rig.log->wanted_trim(), Offset(held ? 6U : 0U));
            rig.stop();
        }
    }
}

TEST(LogTrim, ADiskWithoutRoomForOneMoreFile) {
    Rig rig(20, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    runtime_sim::DiskOptions& disk = rig.node.disk->options();
    // As full as it can be: not a byte more.
    const auto free_bytes = [&] { return rig.node.disk->space().free_bytes; };
    disk.capacity_bytes -= free_bytes();
    ASSERT_EQ(free_bytes(), 0U);
    EXPECT_EQ(rig.trim_now(Offset{7})->segment_count, 2U);
    EXPECT_EQ(offsets_from(rig, 0), range(6, 10));
    EXPECT_TRUE(*rig.world.run(rig.node, rig.trash.empty(*rig.node.io, rig.node.queue(), 1000)));
    EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.stop();
}

// The rename is done, and the directory is not stable: the file may say either. So the segment that
// it may name stays, whatever else is written meanwhile.
TEST(LogTrim, AWriteThatFailedHalfWayMayCount) {
    Rig rig(21, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    ASSERT_TRUE(*rig.world.run(rig.node, rig.log->roll_by_age(kEndOfTime)));
    for (int i = 0; i < 2; ++i) {  // two empty segments at the end: 10 and 11
        rig.node.disk->add_fault(
            {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
        EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
        rig.world.run_for(2 * kSecond);
    }
    ASSERT_TRUE(rig.node.disk->exists(log_path(11)));
    // The first sync is of the new segments' names, the second that of the file.
    rig.node.disk->add_fault({.op = DiskOp::kSync,
                              .path_contains = "partitions/0",
                              .skip = 2,
                              .times = 1,
                              .error = EIO});
    EXPECT_FALSE(rig.trim_now(Offset{10}).has_value());
    rig.node.disk->clear_faults();
    EXPECT_EQ(rig.log->first_offset(), Offset{0});
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
    ASSERT_TRUE(rig.node.disk->exists(log_path(12)));
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    EXPECT_EQ(rig.log->first_offset(), Offset{12});
    EXPECT_EQ(offsets_from(rig, 0), range(12, 13));
    rig.stop();
}

// Of an unlink and a rename a loss of power may keep either alone.
TEST(LogTrim, AnIndexWithoutItsLogIsNoLossWhereTheLogWasGivenUp) {
    for (const bool keeps_index : {false, true}) {
        SCOPED_TRACE(keeps_index);
        Rig rig(22, kThreeEach);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        const std::string kept = keeps_index ? index_path(3) : log_path(3);
        const std::vector<std::byte> bytes = *rig.node.disk->read_file(kept);
        ASSERT_EQ(rig.trim_now(Offset{6})->segment_count, 2U);
        rig.stop();
        rig.node.disk->write_file(kept, bytes);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
        EXPECT_FALSE(has_files(rig, 3));
        EXPECT_EQ(offsets_from(rig, 0), range(6, 10));
        rig.stop();
        // The same when the segment that stays is gone: that one is told as lost, the other not.
        rig.node.disk->write_file(kept, bytes);
        for (const std::string& path : {log_path(6), index_path(6)}) {
            ASSERT_GE(rig.node.disk->unlink(path), 0);
        }
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_TRUE(rig.log->fenced().has_value());
        EXPECT_TRUE(rig.log->is_lost(Offset{6}));
        EXPECT_FALSE(rig.log->is_lost(Offset{3}));
        rig.stop();
    }
}

// Stamps do not go back behind what was written, whatever the clock says.
TEST(LogTrim, ALogThatWasEndedKeepsItsLastTime) {
    for (const bool has_index : {true, false}) {
        SCOPED_TRACE(has_index);
        Rig rig(23, kThreeEach);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        ASSERT_TRUE(*rig.world.run(rig.node, rig.log->roll_by_age(kEndOfTime)));
        const Timestamp last = rig.log->last_timestamp();
        ASSERT_EQ(last, Timestamp(rig.clock_us));
        rig.stop();
        if (!has_index) {
            ASSERT_GE(rig.node.disk->unlink(index_path(9)), 0);
        }
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->last_timestamp(), last);
        rig.stop();
    }
}

TEST(LogTrim, FilesThatCannotBeMovedGoLater) {
    for (const bool restarts : {false, true}) {
        SCOPED_TRACE(restarts);
        Rig rig(10, kThreeEach);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        rig.node.disk->add_fault({.op = DiskOp::kRename,
                                  .path_contains = "/00000000000000000000.log",
                                  .times = 1,
                                  .error = EIO});
        EXPECT_EQ(rig.trim_now(Offset{7})->segment_count, 2U);
        EXPECT_TRUE(has_files(rig, 0) && has_files(rig, 3));
        EXPECT_EQ(offsets_from(rig, 0), range(6, 10));
        if (restarts) {
            ASSERT_NO_FATAL_FAILURE(rig.restart());
        } else {
            EXPECT_EQ(rig.trim_now(Offset{7})->segment_count, 0U);
        }
        EXPECT_FALSE(has_files(rig, 0) || has_files(rig, 3));
        rig.verify(true);
        rig.stop();
    }
}

TEST(LogTrim, WhatIsWantedIsRemembered) {
    Rig rig(11, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->want_trim(Offset{6}, Offset{6})).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->want_trim(Offset{3}, Offset{3})).has_value());
    EXPECT_EQ(rig.log->wanted_trim(), Offset{6});
    rig.crash(CrashKind::kPower, UnsyncedFate::kLoseAll);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.log->wanted_trim(), Offset{6});
    EXPECT_EQ(rig.log->first_offset(), Offset{0});
    EXPECT_EQ(rig.trim_now(Offset{3})->segment_count, 1U);
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    EXPECT_EQ(rig.log->wanted_trim(), Offset{6});
    rig.verify(true);
    rig.stop();
}

// Every byte of it, and the whole file of another partition or life: nothing is deleted.
TEST(LogTrim, AFileThatDoesNotVerifyFencesAndDeletesNothing) {
    std::byte foreign[detail::kRetainedBytes];
    std::byte older[detail::kRetainedBytes];
    detail::encode_retained(foreign, {.low = Offset{9}, .wanted = Offset{9}}, PartitionKey{8},
                            Incarnation{3});
    detail::encode_retained(older, {.low = Offset{9}, .wanted = Offset{9}}, kTestKey,
                            Incarnation{2});
    for (std::size_t at = 0; at < detail::kRetainedBytes + 4; ++at) {
        SCOPED_TRACE(at);
        Rig rig(12, kThreeEach);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        ASSERT_EQ(rig.trim_now(Offset{3})->segment_count, 1U);
        rig.stop();
        const std::vector<std::byte> sound = *rig.node.disk->read_file(kRetainedPath);
        ASSERT_EQ(sound.size(), detail::kRetainedBytes);
        std::vector<std::byte> bytes = sound;
        if (at < bytes.size()) {
            bytes[at] ^= std::byte{0x10};
        } else if (at == bytes.size()) {
            bytes.push_back(std::byte{0});
        } else if (at == bytes.size() + 1) {
            bytes.resize(17);
        } else {
            std::ranges::copy(at == bytes.size() + 2 ? foreign : older, bytes.begin());
        }
        rig.node.disk->write_file(kRetainedPath, bytes);
        for (int start = 0; start < 2; ++start) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_TRUE(rig.log->fenced().has_value());
            EXPECT_NE(rig.log->fence_text().find("retained is damaged"), std::string::npos);
            EXPECT_EQ(offsets_from(rig, 3), range(3, 10));
            EXPECT_FALSE(rig.trim_now(Offset{7}).has_value());
            EXPECT_FALSE(
                rig.world.run(rig.node, rig.log->want_trim(Offset{6}, Offset{6})).has_value());
            EXPECT_EQ(*rig.node.disk->read_file(kRetainedPath), bytes);  // an operator may want it
            EXPECT_TRUE(has_files(rig, 3) && has_files(rig, 6));
            EXPECT_EQ(rig.log->end_offset(), Offset{10});
            rig.stop();
        }
        // The remedies that it names.
        ASSERT_GE(rig.node.disk->unlink(kTestLogDirectory + "/fenced"), 0);
        if (at % 2 == 0) {
            rig.node.disk->write_file(kRetainedPath, sound);
        } else {
            ASSERT_GE(rig.node.disk->unlink(kRetainedPath), 0);
            rig.node.disk->write_file(log_path(0), {});
        }
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
        EXPECT_EQ(offsets_from(rig, 0), range(3, 10));
        EXPECT_TRUE(rig.append_now(1, 100).has_value());
        rig.stop();
    }
}

TEST(LogTrim, ASegmentThatIsGoneBehindItIsDamage) {
    Rig rig(13, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    ASSERT_EQ(rig.trim_now(Offset{3})->segment_count, 1U);
    rig.stop();
    for (const std::string& path : {log_path(3), index_path(3)}) {
        ASSERT_GE(rig.node.disk->unlink(path), 0);
    }
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.log->fenced().has_value());
    EXPECT_TRUE(rig.log->lost_within(Offset{3}, Offset{6}));
    EXPECT_FALSE(rig.log->is_lost(Offset{2}));
    EXPECT_EQ(rig.read_now(Offset{3}, 10).error().code, ErrorCode::kCannotReadMessage);
    EXPECT_EQ(offsets_from(rig, 6), range(6, 10));
    rig.stop();
}

TEST(LogTrim, AnEmptiedDirectoryKeepsTheNextOffset) {
    Rig rig(14, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    rig.world.run(rig.node, end_and_trim(rig));
    rig.stop();
    for (const std::string& path : {log_path(10), index_path(10)}) {
        ASSERT_GE(rig.node.disk->unlink(path), 0);
    }
    for (int start = 0; start < 2; ++start) {
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_TRUE(rig.log->fenced().has_value());
        EXPECT_EQ(rig.log->end_offset(), Offset{10});
        EXPECT_FALSE(rig.append_now(1, 100).has_value());
        rig.stop();
    }
}

// The segments of an older copy of the directory beside the file of a newer one.
TEST(LogTrim, WithoutTheSegmentThatStaysNothingGoes) {
    Rig rig(17, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    rig.stop();
    std::map<std::string, std::vector<std::byte>> older;
    for (const std::uint64_t start : {0U, 3U, 6U}) {
        for (const std::string& path : {log_path(start), index_path(start)}) {
            older[path] = *rig.node.disk->read_file(path);
        }
    }
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_EQ(rig.trim_now(Offset{9})->segment_count, 3U);
    rig.stop();
    for (const std::string& path : {log_path(9), index_path(9)}) {
        ASSERT_GE(rig.node.disk->unlink(path), 0);
    }
    for (const auto& [path, bytes] : older) {
        rig.node.disk->write_file(path, bytes);
    }
    for (int start = 0; start < 2; ++start) {
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_TRUE(rig.log->fenced().has_value());
        EXPECT_TRUE(has_files(rig, 0) && has_files(rig, 3) && has_files(rig, 6));
        EXPECT_EQ(offsets_from(rig, 0), range(0, 9));
        EXPECT_TRUE(rig.log->is_lost(Offset{9}));
        EXPECT_GE(rig.log->end_offset(), Offset{9});
        rig.stop();
    }
    // These segments were not trimmed: a poll of damage in them ends.
    ASSERT_TRUE(rig.node.disk->corrupt(log_path(3), 50'000, 1));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(offsets_from(rig, 0), range(0, 3));
    EXPECT_FALSE(rig.read_now(Offset{3}, 10).has_value());
    rig.stop();
}

// Offsets that were skipped leave empty segments; the log never begins with one that may go.
TEST(LogTrim, HolesBetweenSegments) {
    Rig rig(15, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int round = 0; round < 6; ++round) {
        SCOPED_TRACE(round);
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        ASSERT_TRUE(*rig.world.run(rig.node, rig.log->roll_by_age(kEndOfTime)));
        for (int i = 0; i < round % 3; ++i) {  // each skips an offset
            rig.node.disk->add_fault(
                {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
            EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
            rig.world.run_for(2 * kSecond);
        }
        const Offset end = rig.log->end_offset();
        if (round % 2 == 1) {
            const auto both = [](Rig& r, Offset below) -> Task<void> {
                (void)co_await coro::all(r.append(1, 100'000), r.trim(below));
            };
            rig.world.run(rig.node, both(rig, end));
        }
        rig.verify(true);
        ASSERT_NO_FATAL_FAILURE(rig.restart());
        ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
        rig.verify(true);
    }
    rig.stop();
}

TEST(LogTrim, APurgeBeginsAtZeroAgain) {
    Rig rig(16, kThreeEach);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    ASSERT_TRUE(rig.trim_now(Offset{7}).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->destroy()).has_value());
    rig.crash(CrashKind::kProcess);
    rig.trash.note_retired(kTestKey, rig.incarnation);
    rig.incarnation = Incarnation{4};
    rig.attempted.clear();
    rig.acknowledged.clear();
    rig.trim_asked = Offset{0};
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.log->end_offset(), Offset{0});
    EXPECT_FALSE(rig.node.disk->exists(kRetainedPath));
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.verify(true);
    rig.stop();
}

}  // namespace
}  // namespace galgo::storage

// Examples and error branches of the partition log on the simulated disk.
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "observe/log.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::DiskOp;

TEST(PartitionLog, MakesNoFilesBeforeTheFirstFlush) {
    Rig rig(1);
    rig.start();
    EXPECT_EQ(rig.log->end_offset(), Offset{0});
    EXPECT_TRUE(rig.append_now(1, 10).has_value());
    EXPECT_FALSE(rig.node.disk->exists(kTestLogDirectory));
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 10)), range(0, 1));
    rig.stop();
    EXPECT_TRUE(rig.node.disk->exists(log_path(0)));
}

// Ranges around segment borders, from memory and disk, before and after restarts (P16).
TEST(PartitionLog, ReadsExactRanges) {
    for (const std::uint32_t threshold : {1U, 1000U}) {
        for (const bool kill : {false, true}) {
            Rig rig(threshold * 2 + (kill ? 1U : 0U),
                    {.segment_size = 100'000, .messages_required_to_save = threshold});
            rig.start();
            for (int i = 0; i < 100; ++i) {
                ASSERT_TRUE(rig.append_now(3, 1000).has_value());
            }
            for (int pass = 0; pass < 3; ++pass) {
                const std::uint64_t end = 300;
                ASSERT_EQ(rig.log->end_offset(), Offset{end});
                std::vector<std::uint64_t> starts{0, 1, 150, end - 1, end, end + 1};
                for (std::size_t i = 0; i < rig.log->segment_count(); ++i) {
                    const std::uint64_t border = rig.log->segment(i).end.value();
                    starts.insert(starts.end(), {border - 1, border, border + 1});
                }
                for (const std::uint64_t from : starts) {
                    for (const std::uint32_t count : {1U, 7U, 1000U}) {
                        const auto got = rig.read_now(Offset{from}, count);
                        ASSERT_TRUE(got.has_value());
                        ASSERT_EQ(Rig::offsets_of(*got), range(from, std::min(from + count, end)))
                            << from << '+' << count;
                    }
                }
                if (kill) {
                    rig.crash(CrashKind::kProcess);
                    rig.start();
                } else {
                    rig.restart();
                }
                ASSERT_GT(rig.log->segment_count(), 2U);
            }
            rig.stop();
        }
    }
}

// Many small batches are read as few slices: those that lie side by side as they are, others
// copied.
TEST(PartitionLog, SmallBatchesShareASlice) {
    for (const std::size_t payload : {256U, 251U}) {  // with 251 there are gaps between batches
        Rig rig(2);
        rig.start();
        for (int i = 0; i < 60; ++i) {
            ASSERT_TRUE(rig.append_now(1, payload).has_value());
        }
        for (int pass = 0; pass < 2; ++pass) {  // from the tail, and from the segment
            const auto got = rig.read_now(Offset{5}, 50);
            ASSERT_TRUE(got.has_value());
            EXPECT_EQ(Rig::offsets_of(*got), range(5, 55));
            EXPECT_EQ(got->slices.size(), 1U);
            EXPECT_EQ(got->slices[0].size(), got->bytes);
            rig.restart();
        }
        rig.stop();
    }
}

TEST(PartitionLog, BytesLimitAndEmptyReads) {
    Rig rig(3);
    rig.start();
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 10, 1)), range(0, 1));
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{2}, 10, 3000)), range(2, 4));
    EXPECT_TRUE(rig.log->plan_read(Offset{0}, 0, 1000, Offset{10}).empty());
    EXPECT_TRUE(rig.log->plan_read(Offset{10}, 5, 1000, Offset{10}).empty());
    EXPECT_TRUE(rig.log->plan_read(Offset{3}, 5, 1000, Offset{3}).empty());
    rig.stop();
}

// P15: by time, the same from memory and from disk.
TEST(PartitionLog, FindsByTimestamp) {
    Rig rig(4, {.segment_size = 2000});
    rig.start();
    std::vector<std::uint64_t> stamps;
    for (int i = 0; i < 20; ++i) {
        rig.clock_us += 10;
        ASSERT_TRUE(rig.append_now(1, 300).has_value());
        stamps.push_back(rig.clock_us);
    }
    for (int pass = 0; pass < 3; ++pass) {
        for (std::uint64_t i = 0; i < stamps.size(); ++i) {
            const auto at =
                rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(stamps[i])));
            EXPECT_EQ(*at, Offset(i));
            const auto behind =
                rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(stamps[i] + 1)));
            EXPECT_EQ(*behind, Offset(i + 1));
        }
        EXPECT_EQ(*rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(0))), Offset{0});
        if (pass == 0) {
            ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
        } else {
            rig.restart();
        }
    }
    rig.stop();
}

// P28: garbage behind the last batch is cut and kept aside.
TEST(PartitionLog, CutsGarbageAtTheEnd) {
    Rig rig(5);
    rig.start();
    for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
    rig.crash(CrashKind::kProcess);
    auto bytes = *rig.node.disk->read_file(log_path(0));
    bytes.insert(bytes.end(), 777, std::byte{0xAA});
    rig.node.disk->write_file(log_path(0), bytes);
    rig.start();
    EXPECT_EQ(rig.log->recovery().cut_bytes, 777U);
    EXPECT_EQ(rig.node.disk->read_file(log_path(0) + ".torn-1")->size(), 777U);
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    rig.restart();
    rig.restart();
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 100)), range(0, 35));
    rig.verify(true);
    rig.stop();
}

// P29: the index is rebuilt on any doubt.
TEST(PartitionLog, RebuildsTheIndex) {
    for (const int damage : {0, 1, 2, 3}) {
        for (const std::uint64_t segment_size : {std::uint64_t{1} << 30, std::uint64_t{150'000}}) {
            Rig rig(6, {.segment_size = segment_size});
            rig.start();
            for (int i = 0; i < 300; ++i) {
                ASSERT_TRUE(rig.append_now(1, 1000).has_value());
            }
            rig.stop();
            auto index = *rig.node.disk->read_file(index_path(0));
            ASSERT_EQ(index.size() % kIndexEntryBytes, 0U);
            ASSERT_GT(index.size(), kIndexEntryBytes);
            if (damage == 0) {
                index.insert(index.end(), 10, std::byte{1});
            } else if (damage == 1) {
                std::fill(index.end() - 24, index.end(), std::byte{0});
            } else if (damage == 2) {
                index[index.size() - 8] ^= std::byte{1};  // a position between two batches
            } else {
                index.clear();
            }
            rig.node.disk->write_file(index_path(0), index);
            rig.start();
            rig.verify(true);
            for (const std::uint64_t from : {0U, 1U, 63U, 64U, 150U, 299U}) {
                EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{from}, 3)),
                          range(from, std::min<std::uint64_t>(from + 3, 300)));
            }
            ASSERT_TRUE(rig.append_now(1, 10).has_value());
            rig.restart();
            EXPECT_EQ(rig.node.disk->read_file(index_path(0))->size() % kIndexEntryBytes, 0U);
            EXPECT_EQ(rig.log->end_offset(), Offset{301});
            rig.stop();
        }
    }
}

// P30: what was acknowledged survives kill -9 without a flush.
TEST(PartitionLog, HealsFromTheJournal) {
    for (const bool persisted : {false, true}) {
        Rig rig(7, {.persisted = persisted});
        rig.start();
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(2, 50).has_value());
        }
        rig.crash(persisted ? CrashKind::kPower : CrashKind::kProcess,
                  runtime_sim::UnsyncedFate::kLoseAll);
        rig.start();
        EXPECT_EQ(rig.log->recovery().healed_batch_count, 5U);
        EXPECT_TRUE(rig.log->recovery_complete());
        EXPECT_EQ(rig.log->end_offset(), Offset{10});
        rig.verify(true);
        rig.stop();
    }
}

TEST(PartitionLog, BulkGoesStraightToTheSegment) {
    Rig rig(8);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    ASSERT_TRUE(rig.append_now(1, 200'000).has_value());
    EXPECT_EQ(rig.log->stats().tail_bytes, 0U);
    EXPECT_EQ(rig.node.disk->read_file(log_path(0))->size(), rig.log->stats().bytes);
    EXPECT_LT(rig.journal->stats().written_bytes, 2000U);
    EXPECT_EQ(rig.journal->stats().live_record_count, 0U);
    rig.verify(true);
    rig.crash(CrashKind::kProcess);
    rig.start();
    rig.verify(true);
    rig.stop();
}

// P31: one batch larger than the segment.
TEST(PartitionLog, SyncsOfTheSegmentAreMeasured) {
    Rig rig(16, {.persisted = true});
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    EXPECT_EQ(rig.segment_sync_times.count(), 0U);  // the journal's
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    EXPECT_EQ(rig.segment_sync_times.count(), 1U);
    EXPECT_GT(rig.segment_sync_times.sum(), 0U);
    rig.stop();
}

TEST(PartitionLog, SegmentMayPassItsSizeByOneBatch) {
    Rig rig(9, {.segment_size = 100'000});
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 1'000'000).has_value());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 10).has_value());
    }
    rig.restart();
    EXPECT_EQ(rig.log->segment_count(), 2U);
    EXPECT_EQ(rig.log->end_offset(), Offset{11});
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLog, DamageInsideIsATypedErrorAndReadsGoOnBehindIt) {
    Rig rig(10);
    rig.start();
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    rig.stop();
    const std::uint64_t length = rig.attempted[0].size();
    ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), 4 * length + 310, 0x40));
    rig.start();
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 10)), range(0, 4));
    const auto damaged = rig.read_now(Offset{4}, 10);
    ASSERT_FALSE(damaged.has_value());
    EXPECT_EQ(damaged.error().code, ErrorCode::kInvalidMessageChecksum);
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{5}, 10)), range(5, 10));
    EXPECT_EQ(rig.log->end_offset(), Offset{10});
    rig.stop();
}

// P33: a full disk refuses with a typed error, and is left behind without a restart.
TEST(PartitionLog, FullDiskFencesAndHeals) {
    Rig rig(11, {.size_required_to_save = 50'000});
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    rig.world.run_for(kSecond);
    rig.node.disk->set_capacity(rig.node.disk->used_bytes() + 300'000);
    Status refused;
    for (int i = 0; i < 100 && refused.has_value(); ++i) {
        refused = rig.append_now(1, 100'000);
    }
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().os_errno, ENOSPC);
    EXPECT_EQ(refused.error().retry, RetryClass::kSameNode);
    EXPECT_TRUE(rig.log->fenced().has_value());
    EXPECT_NE(rig.log->fence_text().find("segment write failed"), std::string::npos);
    rig.verify(true);
    EXPECT_FALSE(rig.append_now(1, 10).has_value());
    // A restart on the full disk boots and reads.
    rig.crash(CrashKind::kProcess);
    rig.start();
    rig.verify(true);
    rig.node.disk->set_capacity(1ULL << 40);
    rig.world.run_for(2 * kSecond);
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    EXPECT_FALSE(rig.log->fenced().has_value());
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLog, FullDiskIsLeftBehindWithoutRestart) {
    Rig rig(12);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
    EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
    EXPECT_FALSE(rig.append_now(1, 10).has_value());
    rig.world.run_for(kSecond + kMillisecond);
    EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
    EXPECT_FALSE(rig.log->fenced().has_value());
    rig.verify(true);
    rig.restart();
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLog, FilesThatCannotBeOpenedNowAreLeftBehindWithoutRestart) {
    for (const std::int32_t error : {EMFILE, ENFILE, ENOMEM}) {
        Rig rig(15);
        rig.start();
        rig.node.disk->add_fault(
            {.op = DiskOp::kOpen, .path_contains = ".log", .times = 1, .error = error});
        const Status refused = rig.append_now(1, 100'000);
        ASSERT_FALSE(refused.has_value());
        EXPECT_EQ(refused.error().code, ErrorCode::kTransientNotAccepted);
        EXPECT_EQ(refused.error().os_errno, error);
        EXPECT_EQ(refused.error().retry, RetryClass::kSameNode);
        EXPECT_FALSE(rig.append_now(1, 10).has_value()) << "not before a second has passed";
        rig.world.run_for(kSecond + kMillisecond);
        EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
        EXPECT_FALSE(rig.log->fenced().has_value());
        rig.verify(true);
        rig.restart();
        rig.verify(true);
        rig.stop();
    }
}

// The directory could not be opened for its sync: nothing was synced, so it may be tried again.
TEST(PartitionLog, ADirectoryThatCannotBeOpenedNowIsNoFailedSync) {
    Rig rig(16, {.persisted = true});
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.node.disk->add_fault({.op = DiskOp::kOpen,
                              .path_contains = "partitions/0",
                              .skip = 4,
                              .times = 1,
                              .error = EMFILE});
    Status refused;
    for (int i = 0; i < 3 && refused.has_value(); ++i) {
        refused = rig.append_now(1, 100'000);
    }
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().os_errno, EMFILE);
    rig.world.run_for(kSecond + kMillisecond);
    EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
    EXPECT_FALSE(rig.log->fenced().has_value());
    rig.crash(CrashKind::kPower);
    rig.start();
    rig.verify(true);
    rig.stop();
}

// A boot on a full disk keeps the old journals; they may go when there is room again.
TEST(PartitionLog, RecoveryIsCompletedWhenThereIsRoom) {
    for (const bool append_meanwhile : {false, true}) {
        Rig rig(17);
        rig.start();
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(2, 1000).has_value());
        }
        rig.crash(CrashKind::kProcess);
        rig.node.disk->set_capacity(rig.node.disk->used_bytes());
        rig.start();
        EXPECT_FALSE(rig.log->recovery_complete());
        rig.verify(true);
        rig.world.run_for(2 * kSecond);
        EXPECT_FALSE(rig.world.run(rig.node, rig.log->complete_recovery()).has_value());
        EXPECT_FALSE(rig.log->recovery_complete());
        rig.node.disk->set_capacity(1ULL << 40);
        rig.world.run_for(2 * kSecond);
        if (append_meanwhile) {
            ASSERT_TRUE(rig.append_now(1, 1000).has_value());
        }
        ASSERT_TRUE(rig.world.run(rig.node, rig.log->complete_recovery()).has_value());
        EXPECT_TRUE(rig.log->recovery_complete());
        EXPECT_FALSE(rig.log->fenced().has_value());
        ASSERT_TRUE(rig.world.run(rig.node, rig.replay.remove_files(*rig.node.io)).has_value());
        if (append_meanwhile) {  // its journal record is not synced: only what was recovered is
            rig.acknowledged.erase(std::prev(rig.acknowledged.end()));
        }
        rig.crash(CrashKind::kPower, runtime_sim::UnsyncedFate::kLoseAll);
        rig.start();
        rig.verify(true);
        EXPECT_GE(rig.log->end_offset(), Offset{10});
        rig.stop();
    }
}

// Appends that go on against a full disk probe it once a second; the log file must not fill it too.
TEST(PartitionLog, AFullDiskIsToldOnceAMinute) {
    std::string directory = (std::filesystem::temp_directory_path() / "galgo-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(directory.data()), nullptr);
    ASSERT_EQ(observe::start_log({.to_stdout = false, .directory = directory}), "");
    observe::log_info("test", "the full disk begins");
    Rig rig(15);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1000, .error = ENOSPC});
    std::uint64_t refused = 0;
    for (int i = 0; i < 140; ++i) {
        refused += rig.append_now(1, 100'000).has_value() ? 0U : 1U;
        rig.world.run_for(kSecond / 2);
    }
    EXPECT_EQ(refused, 140U);
    rig.node.disk->clear_faults();
    rig.world.run_for(kSecond + kMillisecond);
    EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
    EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.stop();
    observe::stop_log();
    const std::vector<std::string> told =
        lines_told(directory, "the full disk begins", {"partition takes"});
    std::filesystem::remove_all(directory);
    ASSERT_EQ(told.size(), 3U);  // at 0 s, at 60 s, and that it is over
    EXPECT_NE(told[0].find("takes no more appends"), std::string::npos);
    EXPECT_NE(told[1].find("takes no more appends"), std::string::npos);
    EXPECT_NE(told[2].find("takes appends again"), std::string::npos);
}

TEST(PartitionLog, WriteErrorFencesForGoodAndReadsGoOn) {
    Rig rig(13);
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = EIO});
    EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
    rig.world.run_for(5 * kSecond);
    EXPECT_FALSE(rig.append_now(1, 100).has_value());
    EXPECT_EQ(rig.log->fenced()->retry, RetryClass::kNever);
    rig.verify(true);
    rig.crash(CrashKind::kProcess);
    rig.start();
    rig.verify(true);
    EXPECT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.stop();
}

TEST(PartitionLog, FailedSyncFencesAPersistedLog) {
    Rig rig(14, {.persisted = true});
    rig.start();
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kSync, .path_contains = ".log", .times = 1, .error = EIO});
    EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
    EXPECT_TRUE(rig.log->fenced().has_value());
    rig.crash(CrashKind::kPower);
    rig.start();
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLog, ShortWritesGoOn) {
    Rig rig(15);
    rig.start();
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 3, .short_transfer = true});
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(rig.append_now(2, 50'000).has_value());
    }
    EXPECT_EQ(rig.node.disk->fault_count(), 3U);
    rig.restart();
    rig.verify(true);
    rig.stop();
}

// A deletion that was cut short: the files of the older incarnation are stale.
TEST(PartitionLog, FilesOfAnEarlierIncarnationGo) {
    Rig rig(16, {.segment_size = 50'000});
    rig.start();
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(rig.append_now(1, 10'000).has_value());
    }
    rig.stop();
    rig.incarnation = Incarnation{10};
    rig.trash.note_retired(kTestKey, Incarnation{3});
    rig.attempted.clear();
    rig.acknowledged.clear();
    rig.start();
    EXPECT_FALSE(rig.node.disk->exists("/data/quarantine"));
    EXPECT_EQ(rig.log->end_offset(), Offset{0});
    EXPECT_EQ(rig.log->segment_count(), 0U);
    rig.stop();
}

TEST(PartitionLog, DestroyLeavesNothing) {
    Rig rig(17, {.segment_size = 50'000});
    rig.start();
    for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(rig.append_now(1, 10'000).has_value());
    }
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
    ASSERT_GT(rig.log->segment_count(), 2U);
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->destroy()).has_value());
    EXPECT_FALSE(rig.node.disk->exists(kTestLogDirectory));
    EXPECT_TRUE(rig.trash.has_work());
    EXPECT_TRUE(*rig.world.run(rig.node, rig.trash.empty(*rig.node.io, rig.node.queue(), 100)));
}

TEST(PartitionLog, ManySegmentsHoldFewFiles) {
    Rig rig(18, {.segment_size = 2'000});
    rig.start();
    for (int i = 0; i < 200; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
    rig.verify(true);
    rig.world.run_for(kSecond);
    EXPECT_GT(rig.log->segment_count(), 60U);
    EXPECT_LE(rig.context->files.open_count(), 10U);
    rig.stop();
}

/// The one file below `directory` whose name ends so and that holds `needle`; flips a bit of it.
void flip_in(Rig& rig, std::string_view directory, std::string_view extension, ConstBytes needle) {
    std::uint32_t flipped = 0;
    for (const std::string& path : rig.node.disk->list_all()) {
        if (!path.starts_with(directory) || !path.ends_with(extension)) {
            continue;
        }
        std::vector<std::byte> bytes = *rig.node.disk->read_file(path);
        const auto found = std::ranges::search(bytes, needle);
        if (!found.empty()) {
            ++flipped;
            found.front() ^= std::byte{1};
            rig.node.disk->write_file(path, bytes);
        }
    }
    EXPECT_EQ(flipped, 1U);
}

TEST(PartitionLog, ADamagedJournalRecordFencesAndNoOffsetIsGivenTwice) {
    Rig rig(61, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(rig.append_now(2, 100).has_value());
    }
    rig.crash(CrashKind::kProcess);
    // The last acknowledged one but one, and nobody names it as committed but the one behind it.
    flip_in(rig, "/data/state", ".wal", ConstBytes(rig.attempted[6]).subspan(300, 60));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.log->end_offset(), Offset{10});
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 100)), range(0, 6));  // the loss is no hole
    EXPECT_FALSE(rig.read_now(Offset{6}, 100).has_value());
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{8}, 100)), range(8, 10));
    EXPECT_FALSE(rig.append_now(1, 100).has_value());
    ASSERT_NO_FATAL_FAILURE(rig.restart());  // the marker keeps it
    EXPECT_TRUE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.log->end_offset(), Offset{10});
}

TEST(PartitionLog, ADamagedJournalRecordOfABatchInTheLogCostsNothing) {
    Rig rig(62, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 3; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.crash(CrashKind::kProcess);
    flip_in(rig, "/data/state", ".wal", ConstBytes(rig.attempted[1]).subspan(300, 60));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.replay.damaged_count(), 1U);
    EXPECT_FALSE(rig.log->fenced().has_value());
    ASSERT_NO_FATAL_FAILURE(rig.verify(true));
    EXPECT_TRUE(rig.append_now(1, 100).has_value());
}

TEST(PartitionLog, ALifeThatNobodyEndedIsNeverDeleted) {
    for (const std::uint64_t opened_as : {2U, 9U}) {  // the files say 3
        SCOPED_TRACE(opened_as);
        Rig rig(63, {.segment_size = 50'000});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
        rig.stop();
        const auto file = kTestLogDirectory + "/00000000000000000000.log";
        const auto before = rig.node.disk->read_file(file);
        ASSERT_TRUE(before.has_value());
        rig.trash.note_retired(kTestKey, Incarnation{1});  // another life
        rig.incarnation = Incarnation{opened_as};
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->end_offset(), Offset{0});
        EXPECT_EQ(rig.log->segment_count(), 0U);
        const std::string kept = "/data/quarantine/0000000000000007-3.1";
        EXPECT_EQ(rig.node.disk->read_file(kept + "/00000000000000000000.log"), before);
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
        rig.crash(CrashKind::kPower);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.node.disk->exists(kept));
        rig.stop();
    }
}

TEST(PartitionLog, DamageInTheStablePartOfTheLastSegmentFences) {
    Rig rig(64, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    rig.crash(CrashKind::kProcess);
    ASSERT_NO_FATAL_FAILURE(
        rig.start());  // everything is in the segment, and the journals are gone
    rig.crash(CrashKind::kProcess);
    flip_in(rig, "/data/streams", ".log", ConstBytes(rig.attempted[3]).subspan(300, 60));
    const auto file = kTestLogDirectory + "/00000000000000000000.log";
    const auto damaged = rig.node.disk->read_file(file);
    for (int boot = 0; boot < 2; ++boot) {
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.log->fenced().has_value());
        EXPECT_EQ(rig.log->end_offset(), Offset{10});
        EXPECT_EQ(rig.node.disk->read_file(file), damaged);  // nothing is cut
        EXPECT_FALSE(rig.read_now(Offset{3}, 1).has_value());
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 3)),
                  (std::vector<std::uint64_t>{0, 1, 2}));
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{4}, 10)),
                  (std::vector<std::uint64_t>{4, 5, 6, 7, 8, 9}));
        EXPECT_FALSE(rig.append_now(1, 100).has_value());
        rig.stop();
    }
}

TEST(PartitionLog, ASegmentThatIsGoneOrEmptyFences) {
    for (const bool is_deleted : {true, false}) {
        for (const std::uint64_t segment : {0U, 1U, 2U}) {
            SCOPED_TRACE(testing::Message() << is_deleted << " segment " << segment);
            Rig rig(79, {.segment_size = 2'000, .persisted = true});
            ASSERT_NO_FATAL_FAILURE(rig.start());
            for (int i = 0; i < 10; ++i) {
                ASSERT_TRUE(rig.append_now(1, 1000).has_value());
            }
            ASSERT_NO_FATAL_FAILURE(rig.restart());
            ASSERT_GT(rig.log->segment_count(), 3U);
            rig.stop();
            std::vector<std::string> logs;
            for (const std::string& path : rig.node.disk->list_all()) {
                if (path.starts_with(kTestLogDirectory) && path.ends_with(".log")) {
                    logs.push_back(path);
                }
            }
            std::ranges::sort(logs);
            if (is_deleted) {
                ASSERT_GE(rig.node.disk->unlink(logs[segment]), 0);
            } else {
                rig.node.disk->write_file(logs[segment], {});
            }
            for (int boot = 0; boot < 2; ++boot) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                EXPECT_TRUE(rig.log->fenced().has_value());
                EXPECT_EQ(rig.log->end_offset(), Offset{10});
                EXPECT_FALSE(rig.append_now(1, 100).has_value());
                rig.stop();
            }
        }
    }
}

/// A log of one segment with several index entries, closed and opened once: all of it is stable.
void fill_one_segment(Rig& rig) {
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
    }
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    rig.stop();
}

// An index is derived: whatever it says, the messages are there and the log takes more.
TEST(PartitionLog, AWrongIndexOfTheLastSegmentFencesNothing) {
    const std::string path = kTestLogDirectory + "/00000000000000000000.index";
    Rig rig(66, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(fill_one_segment(rig));
    const std::vector<std::byte> sound = *rig.node.disk->read_file(path);
    ASSERT_GE(sound.size(), 4 * kIndexEntryBytes);
    for (std::size_t byte = 0; byte < sound.size(); ++byte) {
        std::vector<std::byte> wrong = sound;
        wrong[byte] ^= static_cast<std::byte>(1U << byte % 8);
        rig.node.disk->write_file(path, wrong);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_FALSE(rig.log->fenced().has_value()) << byte;
        ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 100)), range(0, 12)) << byte;
        for (std::uint64_t i = 0; i < 12; ++i) {
            ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{i}, 1)), range(i, i + 1)) << byte;
        }
        rig.stop();
    }
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.append_now(1, 100).has_value());
    rig.stop();
}

/// What the directory of the log holds, to be put back.
std::map<std::string, std::vector<std::byte>> files_of(Rig& rig) {
    std::map<std::string, std::vector<std::byte>> files;
    for (const std::string& path : rig.node.disk->list_all()) {
        const auto bytes = rig.node.disk->read_file(path);
        if (path.starts_with(kTestLogDirectory + '/') && bytes.has_value()) {
            files[path] = *bytes;
        }
    }
    return files;
}
void put_back(Rig& rig, const std::map<std::string, std::vector<std::byte>>& files) {
    for (const auto& [path, bytes] : files_of(rig)) {
        if (!files.contains(path)) {
            EXPECT_EQ(rig.node.disk->unlink(path), 0);
        }
    }
    for (const auto& [path, bytes] : files) {
        rig.node.disk->write_file(path, bytes);
    }
}

/// Batches of one message: each is read, or is told of as damaged. `damaged` cannot be read.
void check_reads(Rig& rig, std::uint64_t damaged, std::uint64_t end) {
    ASSERT_EQ(rig.log->first_offset(), Offset{0});
    ASSERT_EQ(rig.log->end_offset(), Offset{end});
    ASSERT_EQ(rig.log->stats().message_count, end);
    for (std::uint64_t i = 0; i < end; ++i) {
        const auto got = rig.read_now(Offset{i}, 100);
        if (!got.has_value()) {
            ASSERT_GE(i, damaged);
            continue;
        }
        const std::vector<std::uint64_t> offsets = Rig::offsets_of(*got);
        ASSERT_FALSE(offsets.empty()) << i;
        ASSERT_EQ(offsets, range(i, offsets.back() + 1)) << i;  // nothing is passed over
        ASSERT_TRUE(i > damaged || offsets.back() < damaged) << i;
    }
    ASSERT_FALSE(rig.read_now(Offset{damaged}, 1).has_value());
}

// Every field of the header, of a batch that an index entry names, of others, the first, the last.
TEST(PartitionLog, AnyDamageOfAHeaderInTheStablePartIsToldAndNothingIsCut) {
    Rig rig(65, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(fill_one_segment(rig));
    const auto sound = files_of(rig);
    for (const std::uint64_t damaged : {0U, 1U, 6U, 7U, 9U, 10U, 11U}) {
        const std::size_t at = static_cast<std::size_t>(damaged) * rig.attempted[0].size();
        for (std::size_t byte = 0; byte < 60; ++byte) {
            SCOPED_TRACE(std::to_string(damaged) + " byte " + std::to_string(byte));
            put_back(rig, sound);
            ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), at + byte, byte % 2 == 0 ? 1 : 0x40));
            const auto before = *rig.node.disk->read_file(log_path(0));
            ASSERT_NO_FATAL_FAILURE(rig.start());
            EXPECT_EQ(*rig.node.disk->read_file(log_path(0)), before);
            ASSERT_NO_FATAL_FAILURE(check_reads(rig, damaged, 12));
            EXPECT_TRUE(rig.log->recovery_complete());
            if (damaged >= 6) {  // near the last entry: looked at, at every start
                EXPECT_TRUE(rig.log->fenced().has_value());
                EXPECT_FALSE(rig.append_now(1, 100).has_value());
            }
            rig.stop();
        }
    }
}

TEST(PartitionLog, AnyDamageOfAHeaderInASmallLastSegmentIsTold) {
    Rig rig(67, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    rig.stop();
    const auto sound = files_of(rig);
    for (std::uint64_t damaged = 0; damaged < 5; ++damaged) {
        const std::size_t at = static_cast<std::size_t>(damaged) * rig.attempted[0].size();
        for (std::size_t byte = 0; byte < 60; ++byte) {
            SCOPED_TRACE(std::to_string(damaged) + " byte " + std::to_string(byte));
            put_back(rig, sound);
            ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), at + byte, byte % 2 == 0 ? 1 : 0x40));
            for (int boot = 0; boot < 2; ++boot) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                EXPECT_TRUE(rig.log->fenced().has_value());
                ASSERT_NO_FATAL_FAILURE(check_reads(rig, damaged, 5));
                rig.stop();
            }
        }
    }
}

TEST(PartitionLog, AnyDamageOfAHeaderInASealedSegmentStaysThere) {
    Rig rig(68, {.segment_size = 50'000});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(rig.append_now(1, 10'000).has_value());
    }
    rig.stop();
    const auto sound = files_of(rig);
    for (const std::uint64_t damaged : {0U, 2U, 4U}) {  // the first, one between, the last
        const std::size_t at = static_cast<std::size_t>(damaged) * rig.attempted[0].size();
        for (std::size_t byte = 0; byte < 60; ++byte) {
            SCOPED_TRACE(std::to_string(damaged) + " byte " + std::to_string(byte));
            put_back(rig, sound);
            ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), at + byte, byte % 2 == 0 ? 1 : 0x40));
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_GT(rig.log->segment_count(), 2U);
            EXPECT_FALSE(rig.log->fenced().has_value());
            ASSERT_NO_FATAL_FAILURE(check_reads(rig, damaged, 12));
            EXPECT_EQ(*rig.node.disk->read_file(index_path(0)), sound.at(index_path(0)));
            for (std::uint64_t i = 6; i < 12; ++i) {  // the next segment begins with 5
                const auto found =
                    rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(1'000'001 + i)));
                ASSERT_TRUE(found.has_value()) << i;
                EXPECT_EQ(*found, Offset(i));
            }
            rig.stop();
        }
    }
}

// A header that says it ends before what is wanted is not believed when the wanted one is not next.
TEST(PartitionLog, ABatchThatSeemsToLieBeforeIsNotPassedOver) {
    for (const bool hinted : {false, true}) {
        for (const std::size_t field : {std::size_t{8}, std::size_t{48}}) {  // base offset, count
            Rig rig(69, {.messages_required_to_save = 1});
            ASSERT_NO_FATAL_FAILURE(rig.start());
            for (int i = 0; i < 100; ++i) {
                ASSERT_TRUE(rig.append_now(3, 100).has_value());
            }
            ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
            if (hinted) {
                ASSERT_TRUE(rig.read_now(Offset{195}, 3).has_value());
            }
            const std::uint64_t at = 66 * rig.attempted[0].size();  // offsets 198 to 200
            ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), at + field, field == 8 ? 0x80 : 2));
            EXPECT_FALSE(rig.read_now(Offset{field == 8 ? 198U : 200U}, 10).has_value());
            EXPECT_FALSE(rig.read_now(Offset{200}, 10).has_value());
            EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{201}, 3)), range(201, 204));
            EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{190}, 100)), range(190, 198));
            rig.stop();
        }
    }
}

// The marker stands, and what it fences could not be written: the next start does that.
TEST(PartitionLog, TheMarkerOfAFenceDoesNotHideWhatHasToBeWritten) {
    const std::string marker = kTestLogDirectory + "/fenced";
    for (const int batches : {2, 5}) {
        Rig rig(70, {.persisted = true});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        for (int i = 0; i < batches; ++i) {
            ASSERT_TRUE(rig.append_now(2, 100).has_value());
        }
        const Offset end = rig.log->end_offset();
        rig.crash(CrashKind::kProcess);
        const std::uint64_t damaged = end.value() - 4;
        flip_in(rig, "/data/state", ".wal", ConstBytes(rig.attempted[damaged]).subspan(300, 60));
        rig.node.disk->add_fault(
            {.op = DiskOp::kOpen, .path_contains = ".log", .times = 1000, .error = EMFILE});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->fenced()->retry, RetryClass::kNever);
        EXPECT_FALSE(rig.log->recovery_complete());
        ASSERT_TRUE(rig.node.disk->exists(marker));
        rig.node.disk->clear_faults();
        rig.crash(CrashKind::kProcess);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->fenced()->retry, RetryClass::kNever);
        EXPECT_TRUE(rig.log->recovery_complete());
        EXPECT_EQ(rig.log->stats().tail_bytes, 0U);
        rig.crash(CrashKind::kPower, runtime_sim::UnsyncedFate::kLoseAll);
        EXPECT_EQ(rig.node.disk->unlink(marker), 0);  // by the operator; the journals are gone
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->end_offset(), end);
        EXPECT_FALSE(rig.log->fenced().has_value());
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 100)).size(), end.value() - 1);
        rig.stop();
    }
}

TEST(PartitionLog, TheMarkerOfAFenceDoesNotHideAnEndThatHasToBeNamed) {
    const std::string marker = kTestLogDirectory + "/fenced";
    Rig rig(78);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(3, 100'000).has_value());
    rig.crash(CrashKind::kProcess);
    rig.node.disk->write_file(log_path(0), {});  // only the journal knows that there was a batch
    rig.node.disk->write_file(marker, {});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.log->fenced()->retry, RetryClass::kNever);
    EXPECT_TRUE(rig.log->recovery_complete());
    EXPECT_FALSE(rig.append_now(1, 100).has_value());
    rig.stop();
    EXPECT_EQ(rig.node.disk->unlink(marker), 0);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.log->end_offset(), Offset{3});
    EXPECT_TRUE(rig.append_now(1, 100).has_value());
    rig.stop();
}

// The first bulk batch was torn: the segment is empty, and the end that the journal names could not
// be written.
TEST(PartitionLog, AnEndThatCouldNotBeNamedIsNamedByTheNextBatch) {
    Rig rig(71);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.crash(CrashKind::kProcess);
    rig.node.disk->write_file(log_path(0), {});
    rig.node.disk->add_fault(
        {.op = DiskOp::kOpen, .path_contains = "0001.log", .times = 1, .error = EMFILE});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.log->end_offset(), Offset{1});
    rig.world.run_for(kSecond + kMillisecond);
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    rig.acknowledged.erase(0);
    rig.verify(true);
    rig.restart();
    EXPECT_EQ(rig.log->end_offset(), Offset{2});
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLog, AFullDiskDoesNotHideThatAcknowledgedBatchesAreMissing) {
    Rig rig(72,
            {.messages_required_to_save = 1'000'000,
             .size_required_to_save = 1 * kGiB,
             .persisted = true},
            4 * kMiB);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 160; ++i) {
        ASSERT_TRUE(rig.append_now(1, 60'000).has_value());
    }
    rig.crash(CrashKind::kProcess);
    flip_in(rig, "/data/state", ".wal", ConstBytes(rig.attempted[158]).subspan(300, 60));
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.node.disk->fault_count(), 1U);
    ASSERT_TRUE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.log->fenced()->retry, RetryClass::kNever);
    EXPECT_FALSE(rig.log->recovery_complete());
    rig.world.run_for(2 * kSecond);
    EXPECT_FALSE(rig.world.run(rig.node, rig.log->complete_recovery()).has_value());
    EXPECT_FALSE(rig.append_now(1, 100).has_value());
    rig.crash(CrashKind::kProcess);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.log->recovery_complete());
    EXPECT_TRUE(rig.log->fenced().has_value());
    EXPECT_EQ(rig.log->end_offset(), Offset{160});
    rig.acknowledged.erase(158);
    rig.verify(true);
    rig.stop();
}

TEST(PartitionLog, ManySmallBatchesBehindATornOneAreKept) {
    Rig rig(73);
    std::vector<std::byte> log;
    for (std::uint64_t i = 0; i < 3000; ++i) {
        const std::vector<std::byte> batch = make_batch(Offset{i}, 1, 10, 1'000'000, i);
        log.insert(log.end(), batch.begin(), batch.end());
    }
    log[300] ^= std::byte{1};
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 10).has_value());
    rig.stop();
    rig.node.disk->write_file(log_path(0), log);
    rig.node.disk->write_file(index_path(0), {});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.log->recovery().salvaged_batch_count, 2999U);
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 5000)), range(0, 3000));  // 0: the journal's
    rig.stop();
}

TEST(PartitionLog, TheSearchBehindDamageIsBounded) {
    Rig rig(74);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    // Headers every 304 bytes, each of a batch to the end of the file, with a first frame that
    // fits.
    std::vector<std::byte> bytes = make_batch(Offset{0}, 1, 4 * kMiB, 1, 1);
    for (std::size_t at = 400; at + 304 < bytes.size(); at += 304) {
        std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), 304, std::byte{0});
        wire::encode_batch_header(
            MutableBytes(bytes).subspan(at, wire::kBatchHeaderSize),
            {.base_offset = 1, .batch_length = bytes.size() - at, .message_count = 2});
        store<std::uint32_t>(MutableBytes(bytes), at + 256 + 36, 3 * kMiB);
    }
    rig.node.disk->write_file("/data/torn", bytes);
    const auto file = rig.world.run(
        rig.node, runtime::open(*rig.node.io, "/data/torn", runtime::OpenMode::kRead));
    ASSERT_TRUE(file.has_value());
    std::uint64_t work = 64 * kMiB;
    const auto found = rig.world.run(rig.node, find_valid_batch(*rig.node.io, rig.pool, *file, 1,
                                                                bytes.size(), Offset{0}, work));
    ASSERT_TRUE(found.has_value());
    EXPECT_FALSE(found->has_value());
    EXPECT_EQ(work, 0U);
    EXPECT_TRUE(rig.world.run(rig.node, runtime::close(*rig.node.io, *file)).has_value());
    rig.stop();
}

// What a failed write left does not stay behind the last batch of a segment.
TEST(PartitionLog, ASegmentEndsWithABatchAlsoAfterAFailedWrite) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        Rig rig(seed, {.segment_size = 250'000});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        rig.node.disk->add_fault(
            {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
        ASSERT_FALSE(rig.append_now(1, 900'000).has_value());
        rig.world.run_for(kSecond + kMillisecond);
        for (int i = 0; i < 4; ++i) {
            ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        }
        ASSERT_GT(rig.log->segment_count(), 1U);
        EXPECT_EQ(rig.node.disk->read_file(log_path(0))->size(), rig.log->segment(0).size_bytes);
        rig.restart();
        EXPECT_EQ(rig.log->segment(0).last_timestamp.value(), 1'000'004U);
        rig.verify(true);
        rig.stop();
    }
}

TEST(PartitionLog, BytesBehindASealedSegmentCostNothing) {
    Rig rig(75, {.segment_size = 50'000});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(rig.append_now(1, 10'000).has_value());
    }
    rig.stop();
    auto bytes = *rig.node.disk->read_file(log_path(0));
    bytes.insert(bytes.end(), 5000, std::byte{0xAA});
    rig.node.disk->write_file(log_path(0), bytes);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    rig.verify(true);
    for (std::uint64_t i = 0; i < 12; ++i) {
        EXPECT_EQ(*rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(1'000'001 + i))),
                  Offset(i));
    }
    rig.stop();
}

// A sector that cannot be read is damage, not a partition that cannot be opened.
TEST(PartitionLog, WhatTheDiskCannotReadIsDamage) {
    for (const bool last : {false, true}) {
        SCOPED_TRACE(last);
        Rig rig(76, {.segment_size = 50'000});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        for (int i = 0; i < 12; ++i) {
            ASSERT_TRUE(rig.append_now(1, 10'000).has_value());
        }
        rig.stop();
        const auto sound = files_of(rig);
        rig.node.disk->add_fault({.op = DiskOp::kRead,
                                  .path_contains = last ? log_path(10) : log_path(0),
                                  .times = 100'000});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(rig.log->fenced().has_value(), last);
        EXPECT_EQ(rig.log->end_offset(), Offset{12});
        const auto got = rig.read_now(last ? Offset{10} : Offset{0}, 1);
        ASSERT_FALSE(got.has_value());
        EXPECT_EQ(got.error().code, ErrorCode::kCannotReadMessage);
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{5}, 5)), range(5, 10));
        EXPECT_EQ(rig.append_now(1, 100).has_value(), !last);
        rig.node.disk->clear_faults();
        rig.stop();
        for (const auto& [path, bytes] : sound) {
            if (path.ends_with(".log") && path != log_path(10)) {
                EXPECT_EQ(*rig.node.disk->read_file(path), bytes) << path;
            }
        }
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 12)), range(0, 12));
        rig.stop();
    }
}

TEST(PartitionLog, ACopyOfTornBytesThatFailsLeavesNothingOpen) {
    Rig rig(77);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.stop();
    auto bytes = *rig.node.disk->read_file(log_path(0));
    bytes.insert(bytes.end(), 3 * kMiB, std::byte{0xAA});
    rig.node.disk->write_file(log_path(0), bytes);
    for (int i = 0; i < 2; ++i) {
        rig.node.disk->add_fault({.op = DiskOp::kWrite,
                                  .path_contains = ".torn-",
                                  .skip = 1,
                                  .times = 1,
                                  .error = EPERM});
        EXPECT_FALSE(rig.world.run(rig.node, Rig::boot(rig)).has_value());
        rig.world.run_for(kSecond);
        EXPECT_EQ(rig.context->files.open_count(), 0U);
        rig.crash(CrashKind::kProcess);
        EXPECT_FALSE(rig.node.disk->exists(log_path(0) + ".torn-1"));
    }
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.node.disk->read_file(log_path(0) + ".torn-1")->size(), 3 * kMiB);
    rig.verify(true);
    rig.stop();
}

}  // namespace
}  // namespace galgo::storage

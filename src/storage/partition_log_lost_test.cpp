// Reads at what a partition log has lost: the typed error instead of a silent jump, and what stays
// legal; reads at damage cost little, in work and in log lines.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "observe/log.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::DiskOp;

/// Ten batches of one message, two in a segment: the segments begin with 0, 2, 4, 6 and 8.
void fill_segments(Rig& rig) {
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
    ASSERT_EQ(rig.log->segment_count(), 5U);
    for (std::size_t i = 0; i < 5; ++i) {
        ASSERT_EQ(rig.log->segment(i).start, Offset(2 * i));
    }
    ASSERT_NO_FATAL_FAILURE(rig.restart());  // the journals that could heal it are gone
}

/// [lost, lost_end) is told as lost, and up to there and from there on everything is read.
void check_loss(Rig& rig, std::uint64_t lost, std::uint64_t lost_end, std::uint64_t end) {
    for (std::uint64_t from = 0; from < end; ++from) {
        SCOPED_TRACE(from);
        const Result<ReadSlices> got = rig.read_now(Offset(from), 100);
        if (from >= lost && from < lost_end) {
            ASSERT_FALSE(got.has_value());
            EXPECT_EQ(got.error().code, ErrorCode::kCannotReadMessage);
        } else {
            ASSERT_TRUE(got.has_value());
            EXPECT_EQ(Rig::offsets_of(*got), range(from, from < lost ? lost : end));
        }
    }
}

TEST(PartitionLogLost, ASegmentThatIsGoneOrEmptyIsToldAndNotJumped) {
    for (const bool is_deleted : {true, false}) {
        for (const std::uint64_t start : {0U, 2U, 6U, 8U}) {
            SCOPED_TRACE(testing::Message() << is_deleted << " segment " << start);
            Rig rig(101, {.segment_size = 2'000, .persisted = true});
            ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
            rig.stop();
            if (is_deleted) {
                ASSERT_GE(rig.node.disk->unlink(log_path(start)), 0);
            } else {
                rig.node.disk->write_file(log_path(start), {});
            }
            for (int boot = 0; boot < 2; ++boot) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                EXPECT_TRUE(rig.log->fenced().has_value());
                ASSERT_NO_FATAL_FAILURE(check_loss(rig, start, start + 2, 10));
                rig.stop();
            }
        }
    }
}

TEST(PartitionLogLost, TwoSegmentsInARow) {
    Rig rig(102, {.segment_size = 2'000});
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    rig.stop();
    ASSERT_GE(rig.node.disk->unlink(log_path(2)), 0);
    ASSERT_GE(rig.node.disk->unlink(log_path(4)), 0);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_NO_FATAL_FAILURE(check_loss(rig, 2, 6, 10));
    rig.stop();
}

TEST(PartitionLogLost, AFileThatCameBackIsRead) {
    Rig rig(103, {.segment_size = 2'000});
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    rig.stop();
    const auto bytes = *rig.node.disk->read_file(log_path(2));
    ASSERT_GE(rig.node.disk->unlink(log_path(2)), 0);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_FALSE(rig.read_now(Offset{2}, 1).has_value());
    rig.stop();
    rig.node.disk->write_file(log_path(2), bytes);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 100)), range(0, 10));
    rig.stop();
}

// Cut between two batches: what is left verifies, but does not reach the next name.
TEST(PartitionLogLost, ASealedSegmentThatWasCutIsToldAndNotJumped) {
    Rig rig(104, {.segment_size = 2'000});
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    rig.stop();
    std::vector<std::byte> bytes = *rig.node.disk->read_file(log_path(4));
    bytes.resize(rig.attempted[4].size());
    rig.node.disk->write_file(log_path(4), bytes);
    for (int boot = 0; boot < 2; ++boot) {
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_NO_FATAL_FAILURE(check_loss(rig, 5, 6, 10));
        EXPECT_TRUE(rig.log->fenced().has_value());
        rig.stop();
    }
}

/// Flips a bit where `needle` stands in a journal.
void flip_in_journal(Rig& rig, ConstBytes needle) {
    for (const std::string& path : rig.node.disk->list_all()) {
        if (path.starts_with("/data/state") && path.ends_with(".wal")) {
            std::vector<std::byte> bytes = *rig.node.disk->read_file(path);
            const auto found = std::ranges::search(bytes, needle);
            if (!found.empty()) {
                found.front() ^= std::byte{1};
                rig.node.disk->write_file(path, bytes);
                return;
            }
        }
    }
    ADD_FAILURE() << "not found";
}

// The journals that told of it are gone at the second start.
TEST(PartitionLogLost, AHoleBeforeAFenceIsToldInLaterRunsToo) {
    Rig rig(105, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(rig.append_now(2, 100).has_value());
    }
    rig.crash(CrashKind::kProcess);
    flip_in_journal(rig, ConstBytes(rig.attempted[6]).subspan(300, 60));
    for (int boot = 0; boot < 3; ++boot) {
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.log->fenced().has_value());
        ASSERT_NO_FATAL_FAILURE(check_loss(rig, 6, 8, 10));
        rig.stop();
    }
    // An operator accepts it.
    ASSERT_GE(rig.node.disk->unlink(kTestLogDirectory + "/fenced"), 0);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_FALSE(rig.log->fenced().has_value());
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{6}, 100)), range(8, 10));
    rig.stop();
}

// The first loss stands in the marker alone when the second is found.
TEST(PartitionLogLost, AMarkerIsReplacedAsAWhole) {
    Rig rig(109, {.segment_size = 500, .persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    rig.crash(CrashKind::kProcess);
    flip_in_journal(rig, ConstBytes(rig.attempted[6]).subspan(300, 60));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.log->is_lost(Offset{6}));
    rig.stop();
    const std::uint64_t start = rig.node.disk->read_file(log_path(2)).has_value() ? 2 : 1;
    ASSERT_GE(rig.node.disk->unlink(log_path(start)), 0);
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = "/fenced", .times = 1, .error = ENOSPC});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_EQ(rig.node.disk->fault_count(), 1U);
    rig.crash(CrashKind::kProcess);
    for (int boot = 0; boot < 2; ++boot) {
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.log->is_lost(Offset{6}));
        EXPECT_TRUE(rig.log->is_lost(Offset(start)));
        rig.stop();
    }
}

// What an earlier release wrote, and what damage leaves of it: the fence stands all the same.
TEST(PartitionLogLost, AMarkerWithoutRangesFencesAndTellsOfNoLoss) {
    for (const std::size_t size : {0U, 7U, 24U, 100'000U}) {
        SCOPED_TRACE(size);
        Rig rig(106, {.segment_size = 2'000});
        ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
        rig.stop();
        rig.node.disk->write_file(kTestLogDirectory + "/fenced",
                                  std::vector<std::byte>(size, std::byte{1}));
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.log->fenced().has_value());
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 100)), range(0, 10));
        rig.stop();
    }
}

// What of it is still readable may be all that tells of a loss.
TEST(PartitionLogLost, ADamagedMarkerIsKeptBeforeItIsReplaced) {
    Rig rig(110, {.segment_size = 2'000});
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    rig.stop();
    const std::vector<std::byte> damaged(24, std::byte{1});
    const std::string marker = kTestLogDirectory + "/fenced";
    rig.node.disk->write_file(marker, damaged);
    ASSERT_GE(rig.node.disk->unlink(log_path(2)), 0);
    for (int boot = 0; boot < 2; ++boot) {
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.log->fenced().has_value());
        ASSERT_NO_FATAL_FAILURE(check_loss(rig, 2, 4, 10));
        rig.stop();
        EXPECT_EQ(rig.node.disk->read_file(marker + ".damaged-1"), damaged);
        EXPECT_NE(rig.node.disk->read_file(marker), damaged);
        EXPECT_FALSE(rig.node.disk->exists(marker + ".damaged-2"));
    }
}

// The client of a batch that failed was told so. Nobody lost it.
TEST(PartitionLogLost, AFailedAppendLeavesAHoleThatIsPassed) {
    Rig rig(107, {.segment_size = 1'000});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
    EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
    rig.world.run_for(kSecond + kMillisecond);
    ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    ASSERT_EQ(rig.log->end_offset(), Offset{4});
    for (int boot = 0; boot < 2; ++boot) {
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 9)),
                  (std::vector<std::uint64_t>{0, 2, 3}));
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{1}, 9)), (std::vector<std::uint64_t>{2, 3}));
        ASSERT_NO_FATAL_FAILURE(rig.restart());
    }
    rig.stop();
}

// A poll at an indexed batch that is damaged begins at the entry before, from memory and from disk.
TEST(PartitionLogLost, ADamagedIndexedBatchCostsNoWalkOfTheSegment) {
    for (const bool from_disk : {false, true}) {
        SCOPED_TRACE(from_disk);
        Rig rig(108, {.messages_required_to_save = 1});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        for (int i = 0; i < 200; ++i) {
            ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
        }
        ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
        if (from_disk) {
            ASSERT_NO_FATAL_FAILURE(rig.restart());
        }
        const std::uint64_t damaged = 150;  // three batches an entry
        ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), damaged * rig.attempted[0].size() + 37, 1));
        const std::uint64_t struck = rig.node.disk->fault_count();
        for (int i = 0; i < 3; ++i) {
            rig.node.disk->clear_faults();
            rig.node.disk->add_fault({.op = DiskOp::kRead, .path_contains = ".log", .skip = 3});
            const Result<ReadSlices> got = rig.read_now(Offset(damaged), 1);
            ASSERT_FALSE(got.has_value());
            EXPECT_EQ(got.error().code, ErrorCode::kCannotReadMessage);
        }
        EXPECT_EQ(rig.node.disk->fault_count(), struck) << "more than three reads for a poll";
        rig.node.disk->clear_faults();
        EXPECT_FALSE(
            rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(1'000'001 + damaged)))
                .has_value());
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset(damaged + 3), 5)),
                  range(damaged + 3, damaged + 8));
        EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset(damaged - 1), 5)),
                  range(damaged - 1, damaged));
        rig.stop();
    }
}

TEST(PartitionLogLost, PollsAtDamageDoNotFillTheLog) {
    std::string directory = (std::filesystem::temp_directory_path() / "galgo-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(directory.data()), nullptr);
    ASSERT_EQ(observe::start_log({.to_stdout = false, .directory = directory}), "");
    Rig rig(109, {.segment_size = 2'000});
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    rig.stop();
    ASSERT_GE(rig.node.disk->unlink(log_path(2)), 0);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.node.disk->corrupt(log_path(6), 8, 0x40));    // the header
    ASSERT_TRUE(rig.node.disk->corrupt(log_path(8), 500, 0x40));  // a payload
    observe::log_info("test", "the polls begin");
    const auto poll_often = [&](std::uint64_t offset) {
        for (int i = 0; i < 30; ++i) {
            EXPECT_FALSE(rig.read_now(Offset(offset), 1).has_value());
            rig.world.run_for(50 * kMillisecond);
        }
    };
    for (const std::uint64_t offset : {6U, 8U, 2U}) {  // each for a second and a half: one line
        poll_often(offset);
    }
    for (int i = 0; i < 100; ++i) {  // from place to place: one a second
        EXPECT_FALSE(rig.read_now(Offset(i % 2 == 0 ? 6 : 8), 1).has_value());
        rig.world.run_for(20 * kMillisecond);
    }
    rig.world.run_for(61 * kSecond);
    poll_often(8);  // and again after a minute
    rig.stop();
    observe::stop_log();
    const std::size_t told =
        lines_told(directory, "the polls begin",
                   {"no batch where one should be", "damaged batch", "messages that are lost"})
            .size();
    std::filesystem::remove_all(directory);
    EXPECT_GE(told, 5U);
    EXPECT_LE(told, 7U);
}

}  // namespace
}  // namespace galgo::storage

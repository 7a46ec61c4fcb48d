// A partition's log and what a ledger knows of it: what is missing is told, and nothing else.
#include <gmock/gmock.h>

#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using testing::HasSubstr;

/// Ten batches of one message in one segment, and `more` in the journal alone.
void fill(Rig& rig, int more) {
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
    ASSERT_NO_FATAL_FAILURE(rig.restart());  // the journals that could heal it are gone
    for (int i = 0; i < more; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    rig.known = rig.log->written_ends();
    EXPECT_EQ(rig.known.files, Offset{10});
    EXPECT_EQ(rig.known.all, Offset(static_cast<std::uint64_t>(10 + more)));
    rig.crash(runtime_sim::CrashKind::kProcess);
}

void remove_all(Rig& rig) {
    for (const char* name : {"incarnation", "fenced"}) {
        (void)rig.node.disk->unlink(kTestLogDirectory + '/' + name);
    }
    (void)rig.node.disk->unlink(log_path(0));
    (void)rig.node.disk->unlink(index_path(0));
}

/// Each of [0, `end`) is there, or told as lost from `lost` to `lost_end`.
void check(Rig& rig, std::uint64_t lost, std::uint64_t lost_end, std::uint64_t end) {
    EXPECT_EQ(rig.log->end_offset(), Offset{end});
    for (std::uint64_t from = 0; from < end; ++from) {
        SCOPED_TRACE(from);
        const Result<ReadSlices> got = rig.read_now(Offset(from), 1);
        ASSERT_EQ(got.has_value(), from < lost || from >= lost_end);
        if (got.has_value()) {
            EXPECT_EQ(Rig::offsets_of(*got), range(from, from + 1));
        } else {
            EXPECT_EQ(got.error().code, ErrorCode::kCannotReadMessage);
        }
    }
    EXPECT_EQ(rig.log->fenced().has_value(), lost != lost_end);
    EXPECT_EQ(rig.append_now(1, 100).has_value(), lost == lost_end);
}

TEST(PartitionLogKnown, WhatIsThereIsNotMissed) {
    for (const int more : {0, 5}) {
        Rig rig(801);
        ASSERT_NO_FATAL_FAILURE(fill(rig, more));
        ASSERT_NO_FATAL_FAILURE(rig.start());
        check(rig, 0, 0, static_cast<std::uint64_t>(10 + more));
    }
}

TEST(PartitionLogKnown, ALogWithoutItsFilesIsToldAsLost) {
    for (const int more : {0, 5}) {
        SCOPED_TRACE(more);
        Rig rig(802);
        ASSERT_NO_FATAL_FAILURE(fill(rig, more));
        remove_all(rig);
        for (int start = 0; start < 2; ++start) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            EXPECT_THAT(rig.log->fence_text(), HasSubstr(kTestLogDirectory));
            check(rig, 0, 10, static_cast<std::uint64_t>(10 + more));
            EXPECT_TRUE(rig.log->recovery_complete());
            rig.known = rig.log->written_ends();
            rig.stop();
        }
    }
}

// Cut between two batches, and the index with it: nothing in the directory tells.
TEST(PartitionLogKnown, ALogThatWasCutWithItsIndexIsToldAsLost) {
    for (const int more : {0, 5}) {
        SCOPED_TRACE(more);
        Rig rig(803);
        ASSERT_NO_FATAL_FAILURE(fill(rig, more));
        const std::vector<std::byte> whole = *rig.node.disk->read_file(log_path(0));
        const std::vector<std::byte> index = *rig.node.disk->read_file(index_path(0));
        rig.node.disk->write_file(log_path(0), ConstBytes(whole).first(whole.size() / 10 * 6));
        rig.node.disk->write_file(index_path(0), {});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        check(rig, 6, 10, static_cast<std::uint64_t>(10 + more));
        rig.stop();
        // As an operator puts it back.
        rig.node.disk->write_file(log_path(0), whole);
        rig.node.disk->write_file(index_path(0), index);
        ASSERT_GE(rig.node.disk->unlink(kTestLogDirectory + "/fenced"), 0);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        check(rig, 0, 0, static_cast<std::uint64_t>(10 + more));
    }
}

// What a journal has was not in the files, so it is brought in, also behind a file that is not
// ours.
TEST(PartitionLogKnown, AForeignFileAtTheEndCostsNothingThatJournalsHave) {
    Rig rig(804);
    ASSERT_NO_FATAL_FAILURE(fill(rig, 5));
    rig.node.disk->write_file(log_path(1'000'000), *rig.node.disk->read_file(log_path(0)));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.log->fenced().has_value());
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{10}, 5)), range(10, 15));
    rig.stop();
    ASSERT_GE(rig.node.disk->unlink(log_path(1'000'000)), 0);
    ASSERT_GE(rig.node.disk->unlink(kTestLogDirectory + "/fenced"), 0);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_FALSE(rig.log->fenced().has_value());
    ASSERT_NO_FATAL_FAILURE(rig.verify(true));
}

// Offsets of an append that failed are a hole, between files and journal, too.
TEST(PartitionLogKnown, AHoleOfAFailedAppendIsNotMissed) {
    Rig rig(805);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(4, 100).has_value());
    ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
    rig.node.disk->add_fault(
        {.op = runtime_sim::DiskOp::kWrite, .path_contains = "journal-", .times = 1, .error = EIO});
    ASSERT_FALSE(rig.append_now(3, 100).has_value());
    ASSERT_TRUE(rig.append_now(2, 100).has_value());
    ASSERT_EQ(rig.log->end_offset(), Offset{9});
    rig.known = rig.log->written_ends();
    EXPECT_EQ(rig.known, (KnownEnds{.files = Offset{4}, .all = Offset{9}}));
    rig.crash(runtime_sim::CrashKind::kProcess);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_FALSE(rig.log->fenced().has_value());
    EXPECT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 9)),
              (std::vector<std::uint64_t>{0, 1, 2, 3, 7, 8}));
}

// What was acknowledged as persisted is there after any loss of power, and stable_ends() says no
// more than that.
TEST(PartitionLogKnown, NoLossOfPowerMakesStableEndsSayTooMuch) {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        SCOPED_TRACE(seed);
        Rig rig(
            810 + seed,
            {.segment_size = 6'000, .messages_required_to_save = 3, .persisted = seed % 3 != 0});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        for (std::uint64_t i = 0; i < 5 + seed % 7; ++i) {
            ASSERT_TRUE(rig.append_now(1, i % 4 == 3 ? 70'000 : 1000).has_value());
        }
        rig.known = rig.log->stable_ends();
        EXPECT_EQ(rig.known.all, rig.options.persisted ? rig.log->committed_end() : Offset{0});
        rig.crash(runtime_sim::CrashKind::kPower, runtime_sim::UnsyncedFate::kSeeded);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    }
}

// A journal that held the last messages is gone: what another one has before them is brought in,
// into the segment that is there, and stable.
TEST(PartitionLogKnown, WhatIsBroughtInBeforeALossIsStable) {
    for (const bool rolls : {false, true}) {  // else the last segment is empty
        SCOPED_TRACE(rolls);
        Rig rig(806, {.persisted = true});
        ASSERT_NO_FATAL_FAILURE(fill(rig, 0));
        ASSERT_NO_FATAL_FAILURE(rig.start());
        if (rolls) {
            const auto rolled =
                rig.world.run(rig.node, rig.log->roll_by_age(Timestamp(~std::uint64_t{0} - 1)));
            ASSERT_TRUE(rolled.has_value() && *rolled);
        }
        for (int i = 0; i < 5; ++i) {
            ASSERT_TRUE(rig.append_now(1, 1000).has_value());
        }
        rig.known = {.files = Offset{10}, .all = Offset{18}};
        rig.crash(runtime_sim::CrashKind::kProcess);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        check(rig, 15, 18, 18);
        EXPECT_TRUE(rig.log->recovery_complete());
        rig.known = rig.log->stable_ends();
        rig.crash(runtime_sim::CrashKind::kPower, runtime_sim::UnsyncedFate::kLoseAll);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        check(rig, 15, 18, 18);
    }
}

}  // namespace
}  // namespace galgo::storage

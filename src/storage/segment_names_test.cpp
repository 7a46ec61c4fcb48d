// Segment files that do not hold what their names say: renamed, of another partition, or missing
// between two others. The partition is fenced, nothing is deleted, and none of it is served.
#include <map>

#include "storage/segment_format.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::DiskOp;

using Files = std::map<std::string, std::vector<std::byte>>;

/// Segments 0, 2, 4, 6 and 8 with two messages each, closed.
void fill(Rig& rig) {
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 1000).has_value());
    }
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    ASSERT_EQ(rig.log->segment_count(), 5U);
    rig.stop();
}

Files logs_of(Rig& rig) {
    Files files;
    for (const std::string& name : rig.node.disk->list_all()) {
        if (name.starts_with(kTestLogDirectory) && name.ends_with(kLogExtension)) {
            files[name] = *rig.node.disk->read_file(name);
        }
    }
    return files;
}

void move(Rig& rig, const std::string& from, const std::string& to) {
    rig.node.disk->write_file(to, *rig.node.disk->read_file(from));
    ASSERT_GE(rig.node.disk->unlink(from), 0);
}

/// Offsets that polls bring, from the first one on.
std::vector<std::uint64_t> served(Rig& rig) {
    std::vector<std::uint64_t> all;
    for (Offset at = rig.log->first_offset(); at < rig.log->end_offset();) {
        const auto got = rig.read_now(at, 100);
        if (!got.has_value()) {
            at = at.next();
            continue;
        }
        if (got->message_count == 0) {
            break;
        }
        const auto offsets = Rig::offsets_of(*got);
        all.insert(all.end(), offsets.begin(), offsets.end());
        at = got->next;
    }
    return all;
}

/// At each start: appends are refused with a reason that names `file`, the polls bring `offsets`,
/// and every file stays as it is.
void expect_fenced(Rig& rig, const std::string& file, const std::vector<std::uint64_t>& offsets) {
    const Files before = logs_of(rig);
    for (int boot = 0; boot < 3; ++boot) {
        SCOPED_TRACE(boot);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        EXPECT_TRUE(rig.log->fenced().has_value());
        EXPECT_NE(rig.log->fence_text().find(file), std::string::npos) << rig.log->fence_text();
        EXPECT_FALSE(rig.append_now(1, 100).has_value());
        EXPECT_FALSE(rig.append_now(1, 100'000).has_value());
        EXPECT_EQ(served(rig), offsets);
        rig.stop();
        for (const auto& [name, bytes] : before) {
            EXPECT_EQ(rig.node.disk->read_file(name), bytes) << name;
        }
    }
}

constexpr LogOptions kSmallSegments{.segment_size = 2'000, .persisted = true};

TEST(SegmentNames, ARenamedSegmentFences) {
    struct Case {
        std::uint64_t from, to;
        bool with_index;
        std::vector<std::uint64_t> served;
    };
    for (const Case& one :
         {Case{4, 5, true, {0, 1, 2, 3, 6, 7, 8, 9}}, Case{4, 5, false, {0, 1, 2, 3, 6, 7, 8, 9}},
          Case{4, 3, true, {0, 1, 2, 3, 6, 7, 8, 9}}, Case{0, 1, true, {2, 3, 4, 5, 6, 7, 8, 9}},
          Case{6, 4, true, {0, 1, 2, 3, 8, 9}},  // over another
          Case{8, 9, true, {0, 1, 2, 3, 4, 5, 6, 7}},
          Case{8, 7, false, {0, 1, 2, 3, 4, 5, 6, 7}}}) {
        SCOPED_TRACE(testing::Message() << one.from << " -> " << one.to << one.with_index);
        Rig rig(91, kSmallSegments);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        const auto index = *rig.node.disk->read_file(index_path(one.from));
        move(rig, log_path(one.from), log_path(one.to));
        ASSERT_GE(rig.node.disk->unlink(index_path(one.from)), 0);
        if (one.with_index) {
            rig.node.disk->write_file(index_path(one.to), index);
        }
        expect_fenced(rig, log_path(one.to), one.served);
    }
}

TEST(SegmentNames, ASegmentOfAnotherPartitionFences) {
    for (const std::uint64_t start : {0U, 4U, 8U}) {
        SCOPED_TRACE(start);
        Rig rig(92, kSmallSegments);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        auto bytes = *rig.node.disk->read_file(log_path(start));
        wire::BatchView view = *wire::BatchView::validate(
            ConstBytes(bytes).first(static_cast<std::size_t>(load<std::uint64_t>(bytes, 32))));
        (void)wire::stamp_batch(MutableBytes(bytes).first(view.bytes().size()),
                                {.partition = model::PartitionId{8},
                                 .base_offset = Offset{start},
                                 .base_timestamp = Timestamp(view.header().base_timestamp_us)});
        rig.node.disk->write_file(log_path(start), bytes);
        std::vector<std::uint64_t> expected;
        for (std::uint64_t i = 0; i < 10; ++i) {
            if (i != start && i != start + 1) {
                expected.push_back(i);
            }
        }
        expect_fenced(rig, log_path(start), expected);
    }
}

// What they cover is told, also where nothing that is served lies behind it.
TEST(SegmentNames, SeveralAtTheEndAreToldToReads) {
    Rig rig(97, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    move(rig, log_path(8), log_path(9));
    move(rig, log_path(6), log_path(7));
    for (const std::uint64_t start : {6U, 8U}) {
        ASSERT_GE(rig.node.disk->unlink(index_path(start)), 0);
    }
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.log->fenced().has_value());
    for (std::uint64_t at = 0; at < 10; ++at) {
        EXPECT_EQ(rig.log->is_lost(Offset{at}), at >= 7) << at;
    }
    EXPECT_EQ(served(rig), (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5}));
    rig.stop();
}

TEST(SegmentNames, AHoleBetweenSegmentsFences) {
    for (const std::uint64_t start : {0U, 2U, 6U}) {
        SCOPED_TRACE(start);
        Rig rig(93, kSmallSegments);
        ASSERT_NO_FATAL_FAILURE(fill(rig));
        for (const std::string& name : {log_path(start), index_path(start)}) {
            ASSERT_GE(rig.node.disk->unlink(name), 0);
        }
        std::vector<std::uint64_t> expected;
        for (std::uint64_t i = 0; i < 10; ++i) {
            if (i != start && i != start + 1) {
                expected.push_back(i);
            }
        }
        expect_fenced(rig, log_path(start + 2), expected);
    }
}

TEST(SegmentNames, ASegmentThatReachesIntoTheNextFences) {
    Rig rig(94, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    // An old copy, from before the batch at 4 was given other offsets.
    rig.node.disk->write_file(log_path(2), make_batch(Offset{2}, 3, 100, 1, 1));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.log->fenced().has_value());
    EXPECT_NE(rig.log->fence_text().find(log_path(2)), std::string::npos);
    rig.stop();
}

// Offsets that were given to batches that failed lie between two segments: that is no damage.
TEST(SegmentNames, AHoleOfFailedBatchesIsNoDamage) {
    for (const bool first : {true, false}) {
        SCOPED_TRACE(first);
        Rig rig(95, {.segment_size = 50'000});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        if (!first) {
            ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        }
        for (int i = 0; i < 5; ++i) {
            rig.node.disk->add_fault(
                {.op = DiskOp::kWrite, .path_contains = ".log", .times = 1, .error = ENOSPC});
            EXPECT_FALSE(rig.append_now(2, 100'000).has_value());
            rig.world.run_for(2 * kSecond);
        }
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
        }
        EXPECT_LE(rig.log->segment_count(), 6U) << "empty ones do not add up";
        for (int boot = 0; boot < 3; ++boot) {
            ASSERT_NO_FATAL_FAILURE(rig.restart());
            EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
            rig.verify(true);
            ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
            rig.verify(true);
        }
        rig.stop();
    }
}

// A restored file is all that it takes, and the marker of the fence removed.
TEST(SegmentNames, ARestoredSegmentIsServedAgain) {
    Rig rig(96, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill(rig));
    move(rig, log_path(8), log_path(9));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_TRUE(rig.log->fenced().has_value());
    rig.stop();
    move(rig, log_path(9), log_path(8));
    ASSERT_GE(rig.node.disk->unlink(kTestLogDirectory + "/fenced"), 0);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    EXPECT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    EXPECT_EQ(rig.log->end_offset(), Offset{10});
    rig.verify(true);
    ASSERT_TRUE(rig.append_now(1, 100).has_value());
    rig.stop();
}

}  // namespace
}  // namespace galgo::storage

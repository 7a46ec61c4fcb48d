// An index entry that verifies is a promise: what it names was stable. Logs that were cut, emptied
// or exchanged are told from those that a crash left unfinished; nothing is cut then, what is lost
// is told, and no offset is given twice. An entry that does not verify says nothing.
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "storage/segment_format.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;

using Files = std::map<std::string, std::vector<std::byte>>;

const std::string kFenced = kTestLogDirectory + "/fenced";

Files files_of(Rig& rig) {
    Files files;
    for (const std::string& path : rig.node.disk->list_all()) {
        const auto bytes = rig.node.disk->read_file(path);
        if (path.starts_with("/data/") && bytes.has_value()) {
            files[path] = *bytes;
        }
    }
    return files;
}

void put_back(Rig& rig, const Files& files) {
    for (const auto& [path, bytes] : files_of(rig)) {
        if (!files.contains(path)) {
            EXPECT_EQ(rig.node.disk->unlink(path), 0);
        }
    }
    for (const auto& [path, bytes] : files) {
        rig.node.disk->write_file(path, bytes);
    }
}

std::uint64_t seed_of(const Rig& rig, std::uint64_t start) {
    return index_seed(kTestKey, rig.incarnation, Offset{start});
}

/// The entries of an index file that verify.
std::vector<IndexEntry> entries_of(Rig& rig, std::uint64_t start) {
    std::vector<IndexEntry> entries;
    const auto bytes = rig.node.disk->read_file(index_path(start));
    for (std::size_t at = 0; bytes && at + kIndexEntryBytes <= bytes->size();
         at += kIndexEntryBytes) {
        const auto entry = decode_index_entry(ConstBytes(*bytes).subspan(at), seed_of(rig, start));
        if (entry.has_value()) {
            entries.push_back(*entry);
        }
    }
    return entries;
}

/// A start a byte is enough for most places of a cut; what the first one leaves is found by a
/// second.
int boots_at(std::size_t size) {
    return size % 5 == 0 ? 2 : 1;
}

void truncate(Rig& rig, const std::string& path, std::size_t size) {
    auto bytes = *rig.node.disk->read_file(path);
    ASSERT_LE(size, bytes.size());
    bytes.resize(size);
    rig.node.disk->write_file(path, bytes);
}

/// Batches of one message. Offsets in [0, kept) are read; from there on each one is read or refused
/// with a typed error, none is passed, and `end` is the next one.
void check_told(Rig& rig, std::uint64_t kept, std::uint64_t end) {
    ASSERT_EQ(rig.log->end_offset(), Offset{end});
    for (std::uint64_t i = 0; i < end; ++i) {
        const auto got = rig.read_now(Offset{i}, 1);
        if (i < kept) {
            ASSERT_TRUE(got.has_value()) << i;
            ASSERT_EQ(Rig::batches_of(*got),
                      (std::vector<std::vector<std::byte>>{rig.attempted[i]}))
                << i;
        } else if (!got.has_value()) {
            ASSERT_EQ(got.error().code, ErrorCode::kCannotReadMessage) << i;
        } else {
            ASSERT_EQ(Rig::offsets_of(*got), range(i, i + 1)) << i;
        }
    }
    if (kept < end) {
        ASSERT_FALSE(rig.read_now(Offset{kept}, 1).has_value());
    }
}

/// Twelve batches in one segment, closed: the index has several entries, the last batch the last.
void fill_one_segment(Rig& rig) {
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 12; ++i) {
        ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
    }
    rig.stop();
}

// The index knows where the last batch began, the journal how many messages it had.
TEST(LogEvidence, ACutBatchOfManyMessagesIsLostAsAWhole) {
    for (const bool persisted : {false, true}) {
        Rig rig(308, {.size_required_to_save = 1, .persisted = persisted});
        rig.start();
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(rig.append_now(10, 500).has_value());
        }
        for (int i = 0; i < 4; ++i) {
            rig.log->rest();
            rig.world.run_for(kSecond);
        }
        ASSERT_EQ(entries_of(rig, 0).back().offset, Offset{20});
        const std::uint64_t position = entries_of(rig, 0).back().position;
        for (const bool within : {true, false}) {
            SCOPED_TRACE(testing::Message() << persisted << " " << within);
            rig.crash(CrashKind::kProcess);
            truncate(rig, log_path(0), position + (within ? 1 : 0));
            rig.start();
            EXPECT_TRUE(rig.log->fenced().has_value());
            EXPECT_EQ(rig.log->end_offset(), Offset{30});
            for (std::uint64_t offset = 0; offset < 30; ++offset) {
                EXPECT_EQ(rig.log->is_lost(Offset{offset}), offset >= 20) << offset;
            }
        }
    }
}

// Nothing of them is served; the next offset has a name all the same, so that the journals go.
TEST(LogEvidence, TwoLogsOfOthersAreNotServed) {
    Rig rig(309, {.segment_size = 100'000, .size_required_to_save = 1});
    rig.start();
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 40'000).has_value());
    }
    rig.stop();
    ASSERT_TRUE(rig.node.disk->exists(log_path(3)));
    ASSERT_TRUE(rig.node.disk->exists(log_path(6)));
    const auto third = *rig.node.disk->read_file(log_path(6));
    rig.node.disk->write_file(log_path(6), *rig.node.disk->read_file(log_path(9)));
    rig.node.disk->write_file(log_path(9), third);
    for (int boot = 0; boot < 3; ++boot) {
        rig.start();
        EXPECT_TRUE(rig.log->fenced().has_value());
        EXPECT_TRUE(rig.log->recovery_complete());
        EXPECT_EQ(rig.log->end_offset(), Offset{10});
        EXPECT_EQ(rig.read_now(Offset{0}, 10)->message_count, 6U);
        rig.stop();
    }
}

TEST(LogEvidence, EveryBitOfAnEntryCostsThatEntryAtMost) {
    for (const std::uint64_t segment_size : {std::uint64_t{1} << 30, std::uint64_t{250'000}}) {
        Rig rig(301, {.segment_size = segment_size});
        ASSERT_NO_FATAL_FAILURE(fill_one_segment(rig));
        const Files sound = files_of(rig);
        const std::vector<std::byte> index = sound.at(index_path(0));
        const std::size_t count = index.size() / kIndexEntryBytes;
        ASSERT_GE(count, 4U);
        ASSERT_EQ(entries_of(rig, 0).size(), count);
        for (const std::size_t entry : {std::size_t{0}, count / 2, count - 1}) {
            for (std::size_t bit = 0; bit < kIndexEntryBytes * 8;
                 bit += entry + 1 == count && segment_size > 1'000'000 ? 1 : 7) {
                SCOPED_TRACE(testing::Message() << segment_size << " " << entry << " bit " << bit);
                put_back(rig, sound);
                std::vector<std::byte> wrong = index;
                wrong[entry * kIndexEntryBytes + bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
                rig.node.disk->write_file(index_path(0), wrong);
                const std::vector<IndexEntry> before = entries_of(rig, 0);
                ASSERT_EQ(before.size(), count - 1);
                ASSERT_NO_FATAL_FAILURE(rig.start());
                ASSERT_FALSE(rig.log->fenced().has_value());
                ASSERT_EQ(rig.log->end_offset(), Offset{12});
                ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 100)), range(0, 12));
                ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{5}, 1)), range(5, 6));
                rig.stop();
                const std::vector<IndexEntry> after = entries_of(rig, 0);
                for (const IndexEntry& one : before) {
                    ASSERT_NE(std::ranges::find(after, one), after.end());
                }
                ASSERT_EQ(after.size() * kIndexEntryBytes,
                          rig.node.disk->read_file(index_path(0))->size());
            }
        }
    }
}

// Runs while an entry in the middle rots: reads find their way by the others.
TEST(LogEvidence, ReadsPassBadEntries) {
    Rig rig(302, {.segment_size = 1'000'000});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 60; ++i) {
        ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
    }
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    auto index = *rig.node.disk->read_file(index_path(0));
    for (std::size_t entry = 0; entry < index.size() / kIndexEntryBytes; entry += 2) {
        index[entry * kIndexEntryBytes + 20] ^= std::byte{1};
    }
    rig.node.disk->write_file(index_path(0), index);
    for (std::uint64_t i = 0; i < 33; ++i) {
        ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{i}, 1)), range(i, i + 1));
        ASSERT_EQ(*rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(1'000'001 + i))),
                  Offset{i});
    }
    rig.stop();
}

// After a stop the last entry names the last batch: wherever the log ends before that, it was cut.
TEST(LogEvidence, ALastSegmentCutAtAnyByteIsToldAndNoOffsetIsGivenTwice) {
    for (const bool persisted : {false, true}) {
        Rig rig(303, {.persisted = persisted});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(rig.append_now(1, 20).has_value());
        }
        rig.stop();
        const Files sound = files_of(rig);
        const std::size_t whole = sound.at(log_path(0)).size();
        const std::size_t batch = rig.attempted[0].size();
        ASSERT_EQ(whole, 3 * batch);
        for (std::size_t size = 0; size < whole; size += persisted ? 7 : 1) {
            SCOPED_TRACE(size);
            put_back(rig, sound);
            ASSERT_NO_FATAL_FAILURE(truncate(rig, log_path(0), size));
            const auto cut = *rig.node.disk->read_file(log_path(0));
            for (int boot = 0; boot < boots_at(size); ++boot) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                ASSERT_TRUE(rig.log->fenced().has_value());
                ASSERT_TRUE(rig.log->recovery_complete());
                ASSERT_NO_FATAL_FAILURE(check_told(rig, size / batch, 3));
                ASSERT_FALSE(rig.append_now(1, 100).has_value());
                rig.stop();
                ASSERT_EQ(*rig.node.disk->read_file(log_path(0)), cut);
                ASSERT_EQ(*rig.node.disk->read_file(index_path(0)), sound.at(index_path(0)));
            }
            if (size % 50 == 0) {  // the file comes back
                rig.node.disk->write_file(log_path(0), sound.at(log_path(0)));
                ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
                ASSERT_NO_FATAL_FAILURE(rig.start());
                ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
                ASSERT_NO_FATAL_FAILURE(check_told(rig, 3, 3));
                rig.stop();
            }
        }
    }
}

// After a kill the journals have what lies behind the last entry.
TEST(LogEvidence, ALastSegmentCutAfterAKillIsHealedOrTold) {
    for (const bool persisted : {false, true}) {
        Rig rig(304, {.persisted = persisted});
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_TRUE(rig.append_now(1, 20).has_value());
        ASSERT_TRUE(rig.world.run(rig.node, rig.log->flush_and_sync()).has_value());
        ASSERT_TRUE(rig.append_now(1, 20).has_value());
        ASSERT_TRUE(rig.world.run(rig.node, rig.log->force_flush()).has_value());
        ASSERT_TRUE(rig.append_now(1, 20).has_value());
        rig.crash(CrashKind::kProcess);
        const Files sound = files_of(rig);
        const std::size_t whole = sound.at(log_path(0)).size();
        const std::size_t batch = rig.attempted[0].size();
        ASSERT_EQ(whole, 2 * batch);
        ASSERT_EQ(entries_of(rig, 0).size(), 1U);
        for (std::size_t size = 0; size <= whole; size += persisted ? 5 : 1) {
            SCOPED_TRACE(size);
            put_back(rig, sound);
            ASSERT_NO_FATAL_FAILURE(truncate(rig, log_path(0), size));
            const bool healed = size >= batch;
            for (int boot = 0; boot < boots_at(size); ++boot) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                ASSERT_EQ(rig.log->fenced().has_value(), !healed) << rig.log->fence_text();
                ASSERT_EQ(rig.log->end_offset(), Offset{3});
                for (std::uint64_t i = 0; i < 3; ++i) {
                    const auto got = rig.read_now(Offset{i}, 1);
                    ASSERT_EQ(got.has_value(), healed || i != 0) << i;
                    ASSERT_TRUE(!got.has_value() || Rig::offsets_of(*got) == range(i, i + 1)) << i;
                }
                rig.crash(boot == 0 ? CrashKind::kPower : CrashKind::kProcess);
            }
        }
    }
}

// An entry says where its batch begins, not how many messages it has: the empty segment that a
// start made behind it is passed over when the file is back.
TEST(LogEvidence, ARestoredLogOfLargeBatchesPassesTheNameThatWasMade) {
    for (const bool is_deleted : {false, true}) {
        Rig rig(312);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        for (int i = 0; i < 4; ++i) {
            ASSERT_TRUE(rig.append_now(10, 20).has_value());
        }
        ASSERT_NO_FATAL_FAILURE(rig.restart());
        rig.stop();
        const auto whole = *rig.node.disk->read_file(log_path(0));
        if (is_deleted) {
            ASSERT_EQ(rig.node.disk->unlink(log_path(0)), 0);
        } else {
            ASSERT_NO_FATAL_FAILURE(truncate(rig, log_path(0), whole.size() / 2));
        }
        for (int boot = 0; boot < 2; ++boot) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_TRUE(rig.log->fenced().has_value());
            ASSERT_EQ(rig.log->end_offset(), Offset{31});
            ASSERT_FALSE(rig.read_now(Offset{30}, 1).has_value());
            rig.stop();
        }
        rig.node.disk->write_file(log_path(0), whole);
        ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
        for (int boot = 0; boot < 3; ++boot) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
            rig.verify(true);
            ASSERT_TRUE(rig.append_now(10, 20).has_value());
            rig.stop();
        }
    }
}

constexpr LogOptions kSmallSegments{.segment_size = 500, .persisted = true};

/// Segments 0, 2, 4, 6 and 8 with two batches of one message each, closed.
void fill_segments(Rig& rig) {
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 20).has_value());
    }
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    rig.stop();
    ASSERT_TRUE(rig.node.disk->exists(log_path(8)));
}

TEST(LogEvidence, ASealedSegmentCutAtAnyByteIsToldAndRestored) {
    Rig rig(305, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    const Files sound = files_of(rig);
    const std::size_t whole = sound.at(log_path(4)).size();
    const std::size_t batch = rig.attempted[4].size();
    for (const bool with_index : {true, false}) {
        for (std::size_t size = 1; size < whole; size += with_index ? 1 : 9) {
            SCOPED_TRACE(testing::Message() << size << " " << with_index);
            put_back(rig, sound);
            ASSERT_NO_FATAL_FAILURE(truncate(rig, log_path(4), size));
            if (!with_index) {
                ASSERT_EQ(rig.node.disk->unlink(index_path(4)), 0);
            }
            for (int boot = 0; boot < boots_at(size); ++boot) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                ASSERT_TRUE(rig.log->fenced().has_value());
                ASSERT_NE(
                    rig.log->fence_text().find(log_path(size == batch && !with_index ? 6 : 4)),
                    std::string::npos)
                    << rig.log->fence_text();
                ASSERT_EQ(rig.log->end_offset(), Offset{10});
                for (std::uint64_t i = 0; i < 10; ++i) {
                    const auto got = rig.read_now(Offset{i}, 1);
                    const bool gone = i == 5 || (i == 4 && size < batch);
                    ASSERT_EQ(got.has_value(), !gone) << i;
                    ASSERT_EQ(rig.log->is_lost(Offset{i}), gone) << i;
                }
                rig.stop();
            }
            ASSERT_EQ(rig.node.disk->read_file(log_path(4))->size(), size);
            if (with_index) {
                ASSERT_EQ(*rig.node.disk->read_file(index_path(4)), sound.at(index_path(4)));
            }
            if (size % 40 == 0) {
                rig.node.disk->write_file(log_path(4), sound.at(log_path(4)));
                ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
                ASSERT_NO_FATAL_FAILURE(rig.start());
                ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
                rig.verify(true);
                ASSERT_TRUE(rig.append_now(1, 20).has_value());
                rig.stop();
                rig.attempted.erase(10);
                rig.acknowledged.erase(10);
            }
        }
    }
}

// What the reason says is what an operator has to do, and no more.
TEST(LogEvidence, AnAcceptedLossIsAcceptedForGood) {
    struct Case {
        const char* what;
        std::uint64_t segment;
        std::size_t size;
    };
    Rig rig(306, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    const Files sound = files_of(rig);
    const std::size_t batch = rig.attempted[0].size();
    for (const Case& one : {Case{"sealed, at a border", 4, batch}, Case{"sealed", 4, batch + 100},
                            Case{"last, at a border", 8, batch}, Case{"last", 8, batch + 100}}) {
        for (const bool takes_index : {true, false}) {
            SCOPED_TRACE(testing::Message() << one.what << takes_index);
            put_back(rig, sound);
            ASSERT_NO_FATAL_FAILURE(truncate(rig, log_path(one.segment), one.size));
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_TRUE(rig.log->fenced().has_value());
            rig.stop();
            rig.node.disk->write_file(log_path(one.segment + 1), {});
            ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
            if (takes_index) {
                ASSERT_EQ(rig.node.disk->unlink(index_path(one.segment)), 0);
            }
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_EQ(rig.log->fenced().has_value(), !takes_index) << rig.log->fence_text();
            ASSERT_EQ(rig.log->end_offset(), Offset{10});
            ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{0}, 4)), range(0, 4));
            ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{one.segment}, 1)),
                      range(one.segment, one.segment + 1));
            ASSERT_EQ(rig.append_now(1, 20).has_value(), takes_index);
            rig.stop();
        }
    }
}

TEST(LogEvidence, AnEmptiedLastSegmentKeepsItsIndexAndItsOffsets) {
    Rig rig(307, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    const Files sound = files_of(rig);
    for (const bool is_deleted : {false, true}) {
        put_back(rig, sound);
        if (is_deleted) {
            ASSERT_EQ(rig.node.disk->unlink(log_path(8)), 0);
        } else {
            rig.node.disk->write_file(log_path(8), {});
        }
        for (int boot = 0; boot < 3; ++boot) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_TRUE(rig.log->fenced().has_value());
            ASSERT_TRUE(rig.log->recovery_complete());
            ASSERT_NO_FATAL_FAILURE(check_told(rig, 8, 10));
            if (boot == 1) {
                rig.crash(CrashKind::kPower);
            } else {
                rig.stop();
            }
            ASSERT_EQ(*rig.node.disk->read_file(index_path(8)), sound.at(index_path(8)));
        }
        // Given up, but the index still says otherwise.
        ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_TRUE(rig.log->fenced().has_value());
        rig.stop();
        // Given up.
        ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
        ASSERT_EQ(rig.node.disk->unlink(index_path(8)), 0);
        for (std::uint64_t boot = 0; boot < 2; ++boot) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
            ASSERT_EQ(rig.log->end_offset(), Offset{10 + boot});
            ASSERT_TRUE(rig.append_now(1, 20).has_value());
            ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{7}, 9)).front(), 7U);
            rig.stop();
        }
        // Or it comes back.
        put_back(rig, sound);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_FALSE(rig.log->fenced().has_value());
        rig.stop();
        rig.attempted.erase(rig.attempted.lower_bound(10), rig.attempted.end());
        rig.acknowledged.erase(rig.acknowledged.lower_bound(10), rig.acknowledged.end());
    }
}

// The tail in the journals does not go into the file that is damaged: restoring that brings all
// back.
TEST(LogEvidence, WhatIsHealedBeginsAnotherSegmentThanTheDamagedOne) {
    Rig rig(308, {.persisted = true});
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 8; ++i) {
        ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
    }
    ASSERT_NO_FATAL_FAILURE(rig.restart());
    for (int i = 0; i < 5; ++i) {
        ASSERT_TRUE(rig.append_now(1, 100).has_value());
    }
    rig.crash(CrashKind::kProcess);
    const Files sound = files_of(rig);
    const std::size_t batch = rig.attempted[0].size();
    for (const std::uint64_t damaged : {6U, 7U}) {  // near the last entry, and the batch it names
        SCOPED_TRACE(damaged);
        put_back(rig, sound);
        ASSERT_TRUE(rig.node.disk->corrupt(log_path(0), damaged * batch + 1000, 1));
        const auto before = *rig.node.disk->read_file(log_path(0));
        for (int boot = 0; boot < 3; ++boot) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_TRUE(rig.log->fenced().has_value());
            ASSERT_EQ(rig.log->end_offset(), Offset{13});
            for (std::uint64_t i = 0; i < 13; ++i) {
                ASSERT_EQ(rig.read_now(Offset{i}, 1).has_value(), i != damaged) << i;
            }
            ASSERT_EQ(*rig.node.disk->read_file(log_path(0)), before);
            rig.crash(CrashKind::kProcess);
        }
        rig.node.disk->write_file(log_path(0), sound.at(log_path(0)));
        ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
        rig.verify(true);
        ASSERT_EQ(rig.log->end_offset(), Offset{13});
        rig.stop();
    }
}

/// Same offsets and sizes, other times: what the same partition of another topic may hold.
std::vector<std::byte> another_log(Rig& rig, std::uint64_t from, std::uint64_t end) {
    std::vector<std::byte> bytes;
    for (; from < end; ++from) {
        const auto batch = make_batch(Offset{from}, 1, 20, 5'000'000 + from, 77);
        EXPECT_EQ(batch.size(), rig.attempted[from].size());
        bytes.insert(bytes.end(), batch.begin(), batch.end());
    }
    return bytes;
}

TEST(LogEvidence, ALogOfOthersIsNotServed) {
    Rig rig(309, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    const Files sound = files_of(rig);
    for (const std::uint64_t start : {0U, 4U, 8U}) {
        SCOPED_TRACE(start);
        put_back(rig, sound);
        rig.node.disk->write_file(log_path(start), another_log(rig, start, start + 2));
        const auto before = *rig.node.disk->read_file(log_path(start));
        for (int boot = 0; boot < 3; ++boot) {
            ASSERT_NO_FATAL_FAILURE(rig.start());
            ASSERT_TRUE(rig.log->fenced().has_value());
            ASSERT_TRUE(rig.log->recovery_complete());
            ASSERT_NE(rig.log->fence_text().find(log_path(start)), std::string::npos);
            ASSERT_EQ(rig.log->end_offset(), Offset{10});
            for (std::uint64_t i = 0; i < 10; ++i) {
                const bool gone = i == start || i == start + 1;
                ASSERT_EQ(rig.read_now(Offset{i}, 1).has_value(), !gone) << i;
            }
            ASSERT_EQ(*rig.node.disk->read_file(log_path(start)), before);
            ASSERT_EQ(*rig.node.disk->read_file(index_path(start)), sound.at(index_path(start)));
            rig.stop();
        }
        rig.node.disk->write_file(log_path(start), sound.at(log_path(start)));
        ASSERT_EQ(rig.node.disk->unlink(kFenced), 0);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
        rig.verify(true);
        rig.stop();
    }
}

// An index of another segment, or of another partition, is no word about this one.
TEST(LogEvidence, AnIndexOfOthersIsRebuilt) {
    Rig rig(310, kSmallSegments);
    ASSERT_NO_FATAL_FAILURE(fill_segments(rig));
    for (const std::uint64_t start : {2U, 8U}) {
        rig.node.disk->write_file(index_path(start), *rig.node.disk->read_file(index_path(4)));
    }
    rig.node.disk->write_file(index_path(5), *rig.node.disk->read_file(index_path(4)));
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_FALSE(rig.log->fenced().has_value()) << rig.log->fence_text();
    EXPECT_EQ(rig.log->recovery().rebuilt_index_count, 2U);
    rig.verify(true);
    rig.stop();
    EXPECT_FALSE(entries_of(rig, 2).empty());
    EXPECT_FALSE(entries_of(rig, 8).empty());
}

/// As data format 2 had it.
void take_checks(Rig& rig, std::uint64_t start) {
    auto bytes = *rig.node.disk->read_file(index_path(start));
    for (std::size_t at = 0; at < bytes.size(); at += kIndexEntryBytes) {
        store<std::uint32_t>(bytes, at + 20, 0);
    }
    rig.node.disk->write_file(index_path(start), bytes);
}

TEST(LogEvidence, IndexesOfTheFormatBeforeAreUpgraded) {
    for (const std::uint64_t segment_size : {std::uint64_t{1} << 30, std::uint64_t{250'000}}) {
        SCOPED_TRACE(segment_size);
        Rig rig(311, {.segment_size = segment_size});
        ASSERT_NO_FATAL_FAILURE(fill_one_segment(rig));
        const Files sound = files_of(rig);
        for (const auto& [path, bytes] : sound) {
            if (path.ends_with(kIndexExtension)) {
                take_checks(rig, std::stoull(path.substr(kTestLogDirectory.size() + 1)));
            }
        }
        const Files older = files_of(rig);
        ASSERT_TRUE(entries_of(rig, 0).empty());
        ASSERT_NO_FATAL_FAILURE(rig.start());
        ASSERT_FALSE(rig.log->fenced().has_value());
        ASSERT_EQ(rig.log->recovery().cut_bytes, 0U);
        rig.verify(true);
        rig.stop();
        ASSERT_EQ(*rig.node.disk->read_file(index_path(0)), sound.at(index_path(0)));
        // Damage is told as it was, and what lies behind it is found.
        for (const std::uint64_t damaged : {0U, 3U, 5U, 11U}) {
            SCOPED_TRACE(damaged);
            put_back(rig, older);
            const std::uint64_t start = segment_size < 1'000'000 && damaged == 11 ? 9 : 0;
            const std::size_t batch = rig.attempted[0].size();
            ASSERT_TRUE(
                rig.node.disk->corrupt(log_path(start), (damaged - start) * batch + 2000, 1));
            const auto before = *rig.node.disk->read_file(log_path(start));
            for (int boot = 0; boot < 2; ++boot) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                ASSERT_EQ(*rig.node.disk->read_file(log_path(start)), before);
                ASSERT_EQ(rig.log->end_offset(), Offset{12});
                ASSERT_FALSE(rig.read_now(Offset{damaged}, 1).has_value());
                for (std::uint64_t i = damaged + 3; i < 12; ++i) {
                    ASSERT_EQ(Rig::offsets_of(*rig.read_now(Offset{i}, 1)), range(i, i + 1));
                }
                rig.stop();
            }
        }
    }
}

}  // namespace
}  // namespace galgo::storage

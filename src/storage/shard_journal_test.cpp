// The shard journal on the simulated disk: layout, group write, recycling, errors, replay.
#include <gmock/gmock.h>

#include <filesystem>
#include <format>
#include <fstream>

#include "observe/log.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using coro::Task;
using runtime_sim::DiskOp;
using runtime_sim::TestWorld;

TEST(JournalFormat, RecordsAreBoundToTheirPlace) {
    const std::vector<std::byte> body(100, std::byte{5});
    const JournalRecord record{.kind = JournalKind::kBatch,
                               .partition = PartitionKey{1},
                               .incarnation = Incarnation{2},
                               .op = OpNumber{3},
                               .commit_op = OpNumber{2},
                               .view = ViewNumber{4},
                               .base_offset = Offset{10},
                               .message_count = 2,
                               .timestamp = Timestamp{99},
                               .batch_checksum = 77,
                               .batch_length = 100,
                               .body_bytes = 100};
    std::byte bytes[kJournalRecordHeaderBytes];
    const JournalFileHeader file{.epoch = 1, .sequence = 2, .shard = ShardIndex{3}};
    encode_journal_record(bytes, record, body, file.seed(), 64);
    EXPECT_EQ(decode_journal_record(bytes), record);
    EXPECT_TRUE(verify_journal_record(bytes, body, file.seed(), 64));
    EXPECT_FALSE(verify_journal_record(bytes, body, file.seed(), 65));
    const JournalFileHeader next{.epoch = 1, .sequence = 3, .shard = ShardIndex{3}};
    EXPECT_FALSE(verify_journal_record(bytes, body, next.seed(), 64));
    for (std::size_t at = 8; at < sizeof(bytes); ++at) {
        bytes[at] ^= std::byte{1};
        EXPECT_FALSE(verify_journal_record(bytes, body, file.seed(), 64)) << at;
        bytes[at] ^= std::byte{1};
    }
}

TEST(JournalFormat, NamesAndHeaders) {
    EXPECT_EQ(journal_file_name(ShardIndex{3}, 7), "journal-3-0000000000000007.wal");
    const auto name = parse_journal_file_name("journal-12-0000000000000345.wal");
    ASSERT_TRUE(name.has_value());
    EXPECT_EQ(name->shard, ShardIndex{12});
    EXPECT_EQ(name->sequence, 345U);
    for (const char* bad :
         {"", "journal-.wal", "journal-1-1.wal", "journal-1-000000000000000x.wal",
          "journal-99999-0000000000000001.wal", "journal--0000000000000001.wal"}) {
        EXPECT_FALSE(parse_journal_file_name(bad).has_value()) << bad;
    }
    std::byte bytes[kJournalFileHeaderBytes];
    const JournalFileHeader header{.epoch = 5, .sequence = 6, .shard = ShardIndex{7}};
    encode_journal_file_header(bytes, header);
    EXPECT_EQ(decode_journal_file_header(bytes), header);
    bytes[20] ^= std::byte{1};
    EXPECT_FALSE(decode_journal_file_header(bytes).has_value());
    EXPECT_FALSE(decode_journal_file_header(ConstBytes(bytes).first(63)).has_value());
}

/// A journal alone, driven by the loop of its node.
struct JournalRig {
    explicit JournalRig(std::uint64_t seed, std::uint32_t files_max = 4)
        : world(seed),
          node(world.add_node()),
          pool(memory::PoolOptions{.budget_bytes = 16 * kMiB}) {
        start(files_max, 1, 1);
    }
    ~JournalRig() { shut(); }
    void start(std::uint32_t files_max, std::uint64_t epoch, std::uint64_t sequence) {
        EXPECT_TRUE(world.run(node, runtime::make_directories(*node.io, "/state")).has_value());
        node.disk->sync_all();
        journal = std::make_unique<ShardJournal>(*node.io, node.queue(),
                                                 JournalOptions{.directory = "/state",
                                                                .epoch = epoch,
                                                                .first_sequence = sequence,
                                                                .file_bytes = 128 * kKiB,
                                                                .files_max = files_max,
                                                                .sync_times = &sync_times});
        node.loop->add_turn_end([this] { journal->end_of_turn(); });
        opened = world.run(node, journal->open());
    }
    void shut() {
        if (journal) {
            for (int i = 0; i < 8; ++i) {
                world.kill(node);
                journal->stop_waiting();
            }
            world.kill(node);
            journal.reset();
        }
    }
    JournalReplay replay() {
        world.run_for(kSecond);  // files in the making are done
        auto replayed = world.run(node, replay_journals(*node.io, "/state"));
        EXPECT_TRUE(replayed.has_value());
        return std::move(*replayed);
    }
    static Task<Result<std::uint64_t>> append_one(JournalRig& rig, std::uint64_t offset,
                                                  std::size_t bytes, bool persist) {
        memory::BufRef body = *rig.pool.acquire(bytes);
        std::ranges::fill(body.mutable_bytes(), static_cast<std::byte>(offset));
        const JournalRecord record{.kind = JournalKind::kBatch,
                                   .partition = kTestKey,
                                   .op = OpNumber(offset + 1),
                                   .commit_op = OpNumber(offset),
                                   .base_offset = Offset(offset),
                                   .message_count = 1,
                                   .batch_length = bytes};
        const Result<std::uint64_t> sequence =
            co_await rig.journal->append(record, std::move(body), persist);
        co_return sequence;
    }
    Result<std::uint64_t> append(std::uint64_t offset, std::size_t bytes, bool persist = false) {
        return world.run(node, append_one(*this, offset, bytes, persist));
    }

    TestWorld world;
    runtime_sim::Node& node;
    memory::BufferPool pool;
    std::unique_ptr<ShardJournal> journal;
    observe::Histogram sync_times;
    Status opened;
};

TEST(ShardJournal, WritesATurnAtOnceAndSharesTheSync) {
    JournalRig rig(1);
    ASSERT_TRUE(rig.opened.has_value());
    const auto both = [](JournalRig& r) -> Task<bool> {
        auto [a, b, c] = co_await coro::all(JournalRig::append_one(r, 0, 300, true),
                                            JournalRig::append_one(r, 1, 300, true),
                                            JournalRig::append_one(r, 2, 300, false));
        co_return a.has_value() && b.has_value() && c.has_value();
    };
    EXPECT_TRUE(rig.world.run(rig.node, both(rig)));
    const JournalStats stats = rig.journal->stats();
    EXPECT_EQ(stats.write_count, 1U);
    EXPECT_EQ(stats.sync_count, 1U);
    EXPECT_EQ(rig.sync_times.count(), 1U);
    EXPECT_GT(rig.sync_times.sum(), 0U);
    EXPECT_EQ(stats.live_record_count, 3U);
    EXPECT_EQ(stats.written_bytes, 3 * (128U + 300U));
    const JournalReplay replay = rig.replay();
    const JournalFacts* facts = replay.find(kTestKey, Incarnation{0});
    ASSERT_NE(facts, nullptr);
    EXPECT_EQ(facts->batches.size(), 3U);
    EXPECT_EQ(facts->end_named, Offset{3});
    EXPECT_EQ(facts->committed_op, OpNumber{2});
    const auto body =
        rig.world.run(rig.node, replay.read_body(*rig.node.io, rig.pool, facts->batches[1]));
    ASSERT_TRUE(body.has_value());
    EXPECT_EQ(body->size(), 300U);
    EXPECT_EQ(body->bytes()[0], std::byte{1});
}

TEST(ShardJournal, LargeTurnsGoThroughTheRing) {
    JournalRig rig(2);
    const auto many = [](JournalRig& r) -> Task<bool> {
        auto [a, b, c] = co_await coro::all(JournalRig::append_one(r, 0, 40'000, false),
                                            JournalRig::append_one(r, 1, 40'000, true),
                                            JournalRig::append_one(r, 2, 60'000, false));
        co_return a.has_value() && b.has_value() && c.has_value();
    };
    rig.node.disk->add_fault(
        {.op = DiskOp::kWrite, .path_contains = "journal-", .times = 1, .short_transfer = true});
    EXPECT_TRUE(rig.world.run(rig.node, many(rig)));
    EXPECT_EQ(rig.replay().find(kTestKey, Incarnation{0})->batches.size(), 3U);
}

// Bytes of an earlier life of a file never read as records of this one.
TEST(ShardJournal, RecyclesFilesAndIgnoresStaleBytes) {
    JournalRig rig(3);
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < 60; ++i) {
        const auto sequence = rig.append(i, 20'000);
        ASSERT_TRUE(sequence.has_value());
        last = *sequence;
        if (i + 2 < 60) {
            rig.journal->release(*sequence, 1);
        }
    }
    EXPECT_GT(last, 5U);
    EXPECT_LE(rig.journal->stats().file_count, 4U);
    EXPECT_EQ(rig.journal->stats().live_record_count, 2U);
    const JournalReplay replay = rig.replay();
    const JournalFacts* facts = replay.find(kTestKey, Incarnation{0});
    ASSERT_NE(facts, nullptr);
    for (std::size_t i = 1; i < facts->batches.size(); ++i) {
        EXPECT_LT(facts->batches[i - 1].base_offset, facts->batches[i].base_offset);
    }
    EXPECT_EQ(facts->batches.back().base_offset, Offset{59});
    EXPECT_GE(replay.next_sequence(), last + 1);
}

TEST(ShardJournal, WaitsWhenAllFilesAreInUseAndRaisesPressure) {
    JournalRig rig(4, 3);
    struct Seen {
        std::uint64_t last = 0;
        int count = 0;
    } seen;
    rig.journal->set_pressure_hook(
        [](void* context, std::uint64_t last) noexcept {
            auto& into = *static_cast<Seen*>(context);
            into.last = last;
            ++into.count;
        },
        &seen);
    std::vector<std::uint64_t> sequences;
    const auto wait_full = [](JournalRig& r, std::vector<std::uint64_t>& into) -> Task<bool> {
        for (std::uint64_t i = 0; i < 6; ++i) {
            const auto sequence = co_await JournalRig::append_one(r, i, 60'000, false);
            if (!sequence.has_value()) {
                co_return false;
            }
            into.push_back(*sequence);
        }
        co_return true;
    };
    ASSERT_TRUE(rig.world.run(rig.node, wait_full(rig, sequences)));  // three files of two records
    EXPECT_GT(seen.count, 0);
    EXPECT_EQ(seen.last, 2U) << "all but the one that is written";
    struct Waiting : JournalEntry {
        bool completed = false;
    } waiting;
    waiting.record = {.kind = JournalKind::kBatch,
                      .partition = kTestKey,
                      .base_offset = Offset{50},
                      .message_count = 1,
                      .batch_length = 60'000};
    waiting.body = *rig.pool.acquire(60'000);
    waiting.on_complete = [](JournalEntry& entry) noexcept {
        static_cast<Waiting&>(entry).completed = true;
    };
    rig.journal->enqueue(waiting);
    rig.world.run_for(kSecond);
    EXPECT_FALSE(waiting.completed);
    EXPECT_EQ(rig.journal->stats().available_file_count, 0U);
    EXPECT_EQ(seen.last, 3U) << "all, when there is none to write to";
    for (const std::uint64_t sequence : sequences) {
        rig.journal->release(sequence, 1);
    }
    rig.world.run_for(kSecond);
    EXPECT_TRUE(waiting.completed);
    EXPECT_TRUE(waiting.status.has_value());
}

// What cannot be released leaves the way of the others, and is there after a restart.
TEST(ShardJournal, AFileIsSetAside) {
    JournalRig rig(10, 3);
    std::map<std::uint64_t, std::uint32_t> counts;
    std::uint64_t offset = 0;
    for (; offset < 6; ++offset) {
        const auto sequence = rig.append(offset, 60'000);
        ASSERT_TRUE(sequence.has_value());
        ++counts[*sequence];
    }
    const auto aside = [&](std::uint64_t sequence) {
        return rig.world.run(rig.node, rig.journal->set_aside(sequence));
    };
    for (std::uint64_t sequence = 1; sequence <= 30; ++sequence) {
        ASSERT_EQ(rig.journal->blocking_sequence(), sequence);
        ASSERT_TRUE(aside(sequence));
        EXPECT_FALSE(aside(sequence)) << "it is no file of the journal any more";
        for (int i = 0; i < 2; ++i, ++offset) {
            const auto written = rig.append(offset, 60'000);
            ASSERT_TRUE(written.has_value());
            ++counts[*written];
        }
    }
    EXPECT_EQ(rig.journal->stats().live_record_count, 66U);
    EXPECT_EQ(rig.replay().find(kTestKey, Incarnation{0})->batches.size(), 66U);
    for (const auto& [sequence, count] : counts) {
        rig.journal->release(sequence, count);
    }
    rig.world.run_for(kSecond);
    EXPECT_EQ(rig.journal->stats().live_record_count, 0U);
    EXPECT_LE(rig.journal->stats().file_count, 3U);
    EXPECT_FALSE(rig.node.disk->exists("/state/" + journal_file_name(ShardIndex{0}, 1)));
}

TEST(ShardJournal, AnAppendThatWaitsIsRefusedAtTheStop) {
    JournalRig rig(11, 3);
    for (std::uint64_t offset = 0; offset < 6; ++offset) {
        ASSERT_TRUE(rig.append(offset, 60'000).has_value());
    }
    rig.journal->stop_waiting();
    const auto refused = rig.append(6, 60'000);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::kTransientNotAccepted);
}

TEST(ShardJournal, WriteErrorGivesUpTheFile) {
    JournalRig rig(5);
    const auto first = rig.append(0, 100);
    ASSERT_TRUE(first.has_value());
    rig.node.disk->add_fault({.op = DiskOp::kWrite, .path_contains = "journal-", .times = 1});
    EXPECT_FALSE(rig.append(1, 100).has_value());
    const auto next = rig.append(2, 100);
    ASSERT_TRUE(next.has_value());
    EXPECT_GT(*next, *first);
    EXPECT_EQ(rig.replay().find(kTestKey, Incarnation{0})->batches.size(), 2U);
    rig.journal->release(*first, 1);
    rig.world.run_for(kSecond);
    EXPECT_FALSE(rig.node.disk->exists("/state/" + journal_file_name(ShardIndex{0}, *first)));
}

TEST(ShardJournal, SyncErrorFailsItsEntriesAndIsNotTriedAgain) {
    JournalRig rig(6);
    const auto first = rig.append(0, 100, true);
    ASSERT_TRUE(first.has_value());
    rig.world.run_for(kSecond);
    rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = "journal-", .times = 1});
    EXPECT_FALSE(rig.append(1, 100, true).has_value());
    const auto next = rig.append(2, 100, true);
    ASSERT_TRUE(next.has_value());
    EXPECT_GT(*next, *first);
}

TEST(ShardJournal, NoRoomForAFileIsATypedErrorAndTriedAgain) {
    JournalRig rig(7);
    rig.world.run_for(kSecond);
    rig.node.disk->set_capacity(rig.node.disk->used_bytes());
    Result<std::uint64_t> last = 0;
    std::uint64_t offset = 0;
    for (; offset < 20 && last.has_value(); ++offset) {
        last = rig.append(offset, 60'000);
    }
    ASSERT_FALSE(last.has_value());
    EXPECT_EQ(last.error().os_errno, ENOSPC);
    EXPECT_FALSE(rig.append(offset, 60'000).has_value());
    rig.node.disk->set_capacity(1ULL << 40);
    rig.world.run_for(2 * kSecond);
    EXPECT_TRUE(rig.append(offset, 60'000).has_value());
}

// It is tried once a second; the log file must not fill the disk, too.
TEST(ShardJournal, NoRoomForAFileIsToldOnceAMinute) {
    std::string directory = (std::filesystem::temp_directory_path() / "galgo-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(directory.data()), nullptr);
    ASSERT_EQ(observe::start_log({.to_stdout = false, .directory = directory}), "");
    observe::stop_log();  // lines of other tests leave no room for ours
    ASSERT_EQ(observe::start_log({.to_stdout = false, .directory = directory}), "");
    observe::log_info("test", "the full disk begins");
    JournalRig rig(9);
    rig.world.run_for(kSecond);
    const auto append_until_refused = [&](std::uint64_t offset) {
        while (rig.append(offset, 60'000).has_value()) {
            ++offset;
        }
        return offset;
    };
    rig.node.disk->set_capacity(rig.node.disk->used_bytes());
    std::uint64_t offset = append_until_refused(0);
    for (int i = 0; i < 140; ++i) {
        EXPECT_FALSE(rig.append(offset, 60'000).has_value());
        rig.world.run_for(kSecond / 2);
    }
    rig.node.disk->set_capacity(rig.node.disk->used_bytes() + 130 * kKiB);  // one file more
    rig.world.run_for(2 * kSecond);
    EXPECT_TRUE(rig.append(offset, 60'000).has_value());
    offset = append_until_refused(offset + 1);
    rig.shut();
    observe::stop_log();
    const std::vector<std::string> told =
        lines_told(directory, "the full disk begins", {"journal file"});
    std::filesystem::remove_all(directory);
    ASSERT_EQ(told.size(), 4U) << ::testing::PrintToString(
        told);  // at 0 s, at 60 s, that it is over, and that it begins again
    EXPECT_NE(told[0].find("cannot make a journal file"), std::string::npos);
    EXPECT_NE(told[1].find("cannot make a journal file"), std::string::npos);
    EXPECT_NE(told[2].find("journal files can be made again"), std::string::npos);
    EXPECT_NE(told[3].find("cannot make a journal file"), std::string::npos);
}

TEST(JournalReplay, LaterRecordsReplaceEarlierOnes) {
    JournalRig rig(8);
    for (const std::uint64_t offset : {0U, 1U, 2U, 1U}) {
        ASSERT_TRUE(rig.append(offset, 100 + offset).has_value());
    }
    const JournalReplay replay = rig.replay();
    const JournalFacts* facts = replay.find(kTestKey, Incarnation{0});
    ASSERT_EQ(facts->batches.size(), 2U);
    EXPECT_EQ(facts->end_named, Offset{3});
    EXPECT_EQ(replay.find(kTestKey, Incarnation{1}), nullptr);
}

TEST(JournalReplay, StopsAtATornRecord) {
    JournalRig rig(9);
    for (std::uint64_t offset = 0; offset < 5; ++offset) {
        ASSERT_TRUE(rig.append(offset, 100).has_value());
    }
    const std::string path = "/state/" + journal_file_name(ShardIndex{0}, 1);
    ASSERT_TRUE(rig.node.disk->corrupt(path, kJournalFileHeaderBytes + 4 * 228 + 150, 1));
    EXPECT_EQ(rig.replay().find(kTestKey, Incarnation{0})->batches.size(), 4U);
    ASSERT_TRUE(rig.node.disk->corrupt(path, kJournalFileHeaderBytes + 3 * 228 + 150, 1));
    EXPECT_EQ(rig.replay().find(kTestKey, Incarnation{0})->batches.size(), 3U);
    EXPECT_EQ(rig.replay().refusal(), "");
}

// ---- damage
// ------------------------------------------------------------------------------------------------

constexpr const char* kFirstFile = "/state/journal-0-0000000000000001.wal";

/// Flips one bit of a file.
void flip(runtime_sim::Node& node, const std::string& path, std::uint64_t at) {
    std::vector<std::byte> bytes = *node.disk->read_file(path);
    ASSERT_LT(at, bytes.size());
    bytes[at] ^= std::byte{1};
    node.disk->write_file(path, bytes);
}

/// Where the record number `index` begins when all have bodies of `body_bytes`.
constexpr std::uint64_t record_at(std::uint64_t index, std::uint64_t body_bytes) {
    return kJournalFileHeaderBytes + index * (kJournalRecordHeaderBytes + body_bytes);
}

TEST(JournalDamage, ABodyThatWasSyncedIsNamedAndTheReplayGoesOn) {
    JournalRig rig(21);
    for (std::uint64_t offset = 0; offset < 6; ++offset) {
        ASSERT_TRUE(rig.append(offset, 300, true).has_value());
    }
    flip(rig.node, kFirstFile, record_at(2, 300) + kJournalRecordHeaderBytes + 50);
    const JournalReplay replay = rig.replay();
    EXPECT_EQ(replay.refusal(), "");
    EXPECT_EQ(replay.damaged_count(), 1U);
    EXPECT_EQ(replay.record_count(), 5U);
    const JournalFacts* facts = replay.find(kTestKey, {});
    ASSERT_NE(facts, nullptr);
    ASSERT_EQ(facts->batches.size(), 6U);
    for (std::uint64_t i = 0; i < 6; ++i) {
        EXPECT_EQ(facts->batches[i].base_offset, Offset{i});
        EXPECT_EQ(facts->batches[i].damaged, i == 2);
        EXPECT_EQ(facts->batches[i].has_body(), i != 2);
    }
    EXPECT_EQ(facts->end_named, Offset{6});
    ASSERT_TRUE(rig.world.run(rig.node, replay.remove_files(*rig.node.io)).has_value());
    EXPECT_FALSE(rig.node.disk->read_file(kFirstFile).has_value());
    EXPECT_TRUE(rig.node.disk->read_file(std::string(kFirstFile) + ".kept-1").has_value());
}

TEST(JournalDamage, WithoutAnOwnerTheStartIsRefused) {
    JournalRig rig(22);
    for (std::uint64_t offset = 0; offset < 4; ++offset) {
        const auto append = [](JournalRig& r, std::uint64_t at) -> Task<Status> {
            const std::vector<std::byte> bytes = make_batch(Offset{at}, 1, 100, 1'000, at);
            memory::BufRef body = *r.pool.acquire(bytes.size());
            std::ranges::copy(bytes, body.mutable_bytes().begin());
            const auto done = co_await r.journal->append({.kind = JournalKind::kBatch,
                                                          .partition = kTestKey,
                                                          .op = OpNumber(at + 1),
                                                          .base_offset = Offset(at),
                                                          .message_count = 1,
                                                          .batch_length = bytes.size()},
                                                         std::move(body), true);
            co_return done.has_value() ? Status{} : std::unexpected(done.error());
        };
        ASSERT_TRUE(rig.world.run(rig.node, append(rig, offset)).has_value());
    }
    const std::uint64_t size = make_batch(Offset{0}, 1, 100, 1'000, 0).size();
    const std::uint64_t at = record_at(1, size);
    flip(rig.node, kFirstFile, at + 16);  // the partition: the body does verify
    const JournalReplay replay = rig.replay();
    EXPECT_THAT(replay.refusal(),
                testing::HasSubstr(std::format("{} is damaged at byte {}", kFirstFile, at)));
    EXPECT_EQ(replay.record_count(), 3U);
    EXPECT_EQ(replay.damaged_count(), 0U);
}

TEST(JournalDamage, WhatWasNeverSyncedIsTheTraceOfACrash) {
    JournalRig rig(23);
    for (std::uint64_t offset = 0; offset < 6; ++offset) {
        ASSERT_TRUE(rig.append(offset, 300, false).has_value());
    }
    flip(rig.node, kFirstFile, record_at(2, 300) + 16);
    flip(rig.node, kFirstFile, record_at(5, 300) + 200);  // nothing behind it
    const JournalReplay replay = rig.replay();
    EXPECT_EQ(replay.refusal(), "");
    EXPECT_EQ(replay.damaged_count(), 0U);
    EXPECT_EQ(replay.record_count(), 4U);
    EXPECT_EQ(replay.find(kTestKey, {})->end_named, Offset{5});
}

TEST(JournalDamage, TheNextFileVouchesForTheEndOfTheOneBefore) {
    for (const bool in_body : {true, false}) {
        SCOPED_TRACE(in_body);
        JournalRig rig(24);
        std::uint64_t in_first = 0;
        for (std::uint64_t offset = 0; offset < 5; ++offset) {  // the fourth begins the next file
            ASSERT_TRUE(rig.append(offset, 40'000, true).has_value());
            in_first += record_at(offset + 1, 40'000) <= 128 * kKiB ? 1 : 0;
        }
        ASSERT_EQ(in_first, 3U);
        flip(rig.node, kFirstFile, record_at(2, 40'000) + (in_body ? 5'000 : 0));
        const JournalReplay replay = rig.replay();
        EXPECT_EQ(replay.damaged_count(), in_body ? 1U : 0U);
        EXPECT_EQ(replay.refusal().empty(), in_body);
        EXPECT_EQ(replay.record_count(), 4U);
    }
}

TEST(JournalDamage, AFileThatIsCutIsRefused) {
    JournalRig rig(25);
    for (std::uint64_t offset = 0; offset < 6; ++offset) {
        ASSERT_TRUE(rig.append(offset, 300, true).has_value());
    }
    rig.world.run_for(kSecond);  // the next file is there
    std::vector<std::byte> bytes = *rig.node.disk->read_file(kFirstFile);
    bytes.resize(record_at(4, 300) + 10);
    rig.node.disk->write_file(kFirstFile, bytes);
    const JournalReplay replay = rig.replay();
    EXPECT_THAT(replay.refusal(), testing::HasSubstr("damaged at byte"));
    EXPECT_EQ(replay.record_count(), 4U);
}

TEST(JournalDamage, AFileWithADamagedHeaderIsReadAllTheSame) {
    JournalRig rig(26);
    for (std::uint64_t offset = 0; offset < 4; ++offset) {
        ASSERT_TRUE(rig.append(offset, 300, true).has_value());
    }
    flip(rig.node, kFirstFile, 0);
    const JournalReplay replay = rig.replay();
    EXPECT_EQ(replay.refusal(), "");
    EXPECT_EQ(replay.record_count(), 4U);
    EXPECT_EQ(replay.next_epoch(), 2U);
}

// Header and first record share a sector.
TEST(JournalDamage, AFirstSectorThatWasSyncedIsRefused) {
    for (const unsigned filling : {0x00U, 0xFFU}) {
        for (const std::size_t records : {1U, 4U}) {
            SCOPED_TRACE(testing::Message() << filling << ' ' << records);
            JournalRig rig(27);
            for (std::uint64_t offset = 1; offset <= records;
                 ++offset) {  // bodies that are not zero
                ASSERT_TRUE(rig.append(offset, 600, true).has_value());
            }
            rig.world.run_for(kSecond);  // the next file is there
            std::vector<std::byte> bytes = *rig.node.disk->read_file(kFirstFile);
            std::fill_n(bytes.begin(), 512, static_cast<std::byte>(filling));
            rig.node.disk->write_file(kFirstFile, bytes);
            const JournalReplay replay = rig.replay();
            EXPECT_THAT(replay.refusal(),
                        testing::HasSubstr(std::format("{} is damaged at byte {}", kFirstFile,
                                                       records == 1 ? 0 : 64)));
            EXPECT_EQ(replay.record_count(), records - 1);
            // Nobody does it after a refusal; if somebody did, the evidence would stay.
            ASSERT_TRUE(rig.world.run(rig.node, replay.remove_files(*rig.node.io)).has_value());
            EXPECT_EQ(rig.node.disk->read_file(std::string(kFirstFile) + ".kept-1"), bytes);
        }
    }
}

TEST(JournalDamage, AFileInTheMakingIsNone) {
    JournalRig rig(28);
    ASSERT_TRUE(rig.append(0, 300, true).has_value());
    const std::string path = "/state/" + journal_file_name(ShardIndex{0}, 9);
    for (const std::size_t size : {0U, 20U, 64U, 100'000U}) {
        rig.node.disk->write_file(path, std::vector<std::byte>(size));
        const JournalReplay replay = rig.replay();
        EXPECT_EQ(replay.refusal(), "");
        EXPECT_EQ(replay.record_count(), 1U);
        EXPECT_EQ(replay.next_sequence(), 10U);
    }
}

// A header that a power loss has torn while its file was used again has records of an earlier life
// behind it.
TEST(JournalDamage, AHeaderThatWasTornIsNone) {
    std::uint32_t torn = 0;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
        JournalRig rig(seed, 3);
        rig.node.disk->options().torn_sector_percent = 60;
        const std::uint64_t count = 12 + seed % 13;
        for (std::uint64_t offset = 0; offset < count; ++offset) {
            const auto sequence = rig.append(offset, 20'000, seed % 2 == 0 && offset % 5 == 0);
            ASSERT_TRUE(sequence.has_value());
            rig.journal->release(*sequence, 1);
        }
        rig.shut();
        rig.world.restart(rig.node, runtime_sim::CrashKind::kPower,
                          runtime_sim::UnsyncedFate::kSeeded);
        for (const std::string& path : rig.node.disk->list_all()) {
            const auto bytes = rig.node.disk->read_file(path);
            torn +=
                bytes.has_value() && !decode_journal_file_header(*bytes).has_value() &&
                        std::ranges::any_of(*bytes, [](std::byte b) { return b != std::byte{}; })
                    ? 1
                    : 0;
        }
        EXPECT_EQ(rig.replay().refusal(), "") << seed;
    }
    EXPECT_GT(torn, 0U);
}

TEST(JournalReplay, OnlyABatchOfALaterBootSettlesWhatIsMissing) {
    for (const JournalKind kind :
         {JournalKind::kOffsetSet, JournalKind::kOffsetDelete, JournalKind::kBatchNamed}) {
        SCOPED_TRACE(static_cast<int>(kind));
        JournalRig rig(29);
        const auto append = [&](JournalKind of, std::uint64_t offset, std::uint64_t op,
                                std::uint64_t commit_op) {
            const auto run = [](JournalRig& r, JournalRecord record) -> Task<bool> {
                const auto done = co_await r.journal->append(record, {}, true);
                co_return done.has_value();
            };
            return rig.world.run(rig.node, run(rig, {.kind = of,
                                                     .consumer_kind = 1,
                                                     .partition = kTestKey,
                                                     .op = OpNumber{op},
                                                     .commit_op = OpNumber{commit_op},
                                                     .base_offset = Offset{offset},
                                                     .message_count = 1}));
        };
        ASSERT_TRUE(append(JournalKind::kBatchNamed, 0, 1, 0));
        ASSERT_TRUE(append(JournalKind::kBatchNamed, 1, 2, 1));
        rig.shut();
        rig.world.restart(rig.node, runtime_sim::CrashKind::kProcess);
        rig.start(4, 2, 10);
        ASSERT_TRUE(append(kind, 5, 9, 8));
        const JournalReplay replay = rig.replay();
        const JournalFacts* facts = replay.find(kTestKey, {});
        ASSERT_NE(facts, nullptr);
        EXPECT_EQ(facts->committed_op, OpNumber{8});
        ASSERT_GE(facts->batches.size(), 2U);
        const bool fences = facts->batches[0].op <= facts->committed_op;
        EXPECT_EQ(fences, kind != JournalKind::kBatchNamed);
        EXPECT_GT(facts->batches[1].op, facts->committed_op)
            << "no record of its own boot calls it committed";
    }
}

// More is not kept: who waits is told so, and is not held for ever.
TEST(ShardJournal, WithoutAPlaceEntriesAreRefused) {
    JournalRig rig(30, 3);
    std::map<std::uint64_t, std::uint32_t> counts;
    std::uint64_t offset = 0;
    const auto append = [&] {
        const auto sequence = rig.append(offset++, 60'000);
        ASSERT_TRUE(sequence.has_value());
        ++counts[*sequence];
    };
    const auto aside = [&](std::uint64_t sequence) {
        return rig.world.run(rig.node, rig.journal->set_aside(sequence));
    };
    for (int i = 0; i < 6; ++i) {
        ASSERT_NO_FATAL_FAILURE(append());
    }
    for (std::uint64_t sequence = 1; sequence <= ShardJournal::kSetAsideMax; ++sequence) {
        ASSERT_TRUE(aside(sequence));
        ASSERT_NO_FATAL_FAILURE(append());
        ASSERT_NO_FATAL_FAILURE(append());
    }
    const std::uint64_t blocking = rig.journal->blocking_sequence();
    EXPECT_FALSE(aside(blocking)) << "nobody waits";
    const auto refused = [](JournalRig& r, std::uint64_t at, std::uint64_t file) -> Task<Status> {
        const auto decline = [](JournalRig& of, std::uint64_t sequence) -> Task<bool> {
            co_await of.node.loop->sleep_for(kMillisecond);  // the entry has sealed the last file
            const bool done = co_await of.journal->set_aside(sequence);
            co_return done;
        };
        auto [appended, done] =
            co_await coro::all(JournalRig::append_one(r, at, 60'000, false), decline(r, file));
        co_return appended.has_value() || done ? Status{} : std::unexpected(appended.error());
    };
    const Status status = rig.world.run(rig.node, refused(rig, offset, blocking));
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kTransientNotAccepted);
    EXPECT_EQ(status.error().retry, RetryClass::kSameNode);
    for (const auto& [sequence, count] : counts) {
        rig.journal->release(sequence, count);
    }
    rig.world.run_for(kSecond);
    EXPECT_TRUE(rig.append(offset + 1, 60'000).has_value());
}

}  // namespace
}  // namespace galgo::storage

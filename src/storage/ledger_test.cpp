// Ledgers and lists of journals: their bytes, what they claim, and what a replay makes of a list.
#include "storage/ledger.hpp"

#include <gmock/gmock.h>

#include "storage/journal_list.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using testing::HasSubstr;

constexpr BootNumber kBoot = 77;

Ledger make_ledger() {
    return {.shard = ShardIndex{3},
            .epoch = 5,
            .boot = kBoot,
            .rows = {{.partition = PartitionKey{8},
                      .incarnation = Incarnation{2},
                      .written = {.files = Offset{10}, .all = Offset{12}},
                      .stable = {.files = Offset{4}, .all = Offset{12}},
                      .offsets_stable = true,
                      .offsets_op = OpNumber{6},
                      .offsets = {{.owner = OffsetOwner::kConsumer, .id = 7},
                                  {.owner = OffsetOwner::kGroup, .id = 1}}},
                     {.partition = PartitionKey{9},
                      .incarnation = Incarnation{1},
                      .written = {.files = Offset{0}, .all = Offset{3}},
                      .stable = {},
                      .offsets_stable = false,
                      .offsets = {{.owner = OffsetOwner::kGroup, .id = 4}}}}};
}

JournalList make_list() {
    return {.shard = ShardIndex{1},
            .epoch = 5,
            .boot = kBoot,
            .file_bytes = 128 * kKiB,
            .entries = {{.sequence = 7, .former = 0}, {.sequence = 9, .former = 4}}};
}

/// Whatever is changed or cut off, it says nothing; what is left behind a longer one is passed.
template <class Decode>
void expect_bound(std::vector<std::byte> bytes, Decode decode) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(decode(ConstBytes(bytes).first(size)).has_value()) << size;
    }
    for (std::byte& byte : bytes) {
        byte ^= std::byte{4};
        EXPECT_FALSE(decode(ConstBytes(bytes)).has_value());
        byte ^= std::byte{4};
    }
    bytes.resize(bytes.size() + 33, std::byte{1});
    EXPECT_TRUE(decode(ConstBytes(bytes)).has_value());
}

TEST(Ledger, ComesBackAsItWasOrNotAtAll) {
    const Ledger ledger = make_ledger();
    EXPECT_EQ(decode_ledger(encode_ledger(ledger)), ledger);
    expect_bound(encode_ledger(ledger), decode_ledger);
    EXPECT_EQ(ledger_name(ShardIndex{3}), "ledger-3");
}

TEST(Ledger, ClaimsWhatTheBootLeaves) {
    const std::vector<Ledger> ledgers{make_ledger()};
    const LedgerClaims here = claims_of(ledgers, kBoot);
    ASSERT_EQ(here.size(), 2U);
    LedgerRow expected = ledgers[0].rows[0];
    expected.offsets_op = OpNumber{~std::uint64_t{0}};  // nothing newer can be lost
    EXPECT_EQ(here.at({PartitionKey{8}, Incarnation{2}}), expected);
    EXPECT_EQ(here.at({PartitionKey{9}, Incarnation{1}}).written, ledgers[0].rows[1].written);
    for (const BootNumber other : {BootNumber{78}, BootNumber{0}}) {
        const LedgerClaims claims = claims_of(ledgers, other);
        ASSERT_EQ(claims.size(), 1U);
        const LedgerRow& row = claims.at({PartitionKey{8}, Incarnation{2}});
        EXPECT_EQ(row.written, ledgers[0].rows[0].stable);
        EXPECT_EQ(row.offsets.size(), 2U);
        EXPECT_EQ(row.offsets_op, OpNumber{6});
    }
    std::vector<Ledger> unknown{make_ledger()};
    unknown[0].boot = 0;
    EXPECT_EQ(claims_of(unknown, 0).size(), 1U);
}

// A shard that is no more leaves its ledger behind.
TEST(Ledger, TheRowOfTheLaterStartCounts) {
    std::vector<Ledger> ledgers{make_ledger(), make_ledger()};
    ledgers[0].shard = ShardIndex{0};
    ledgers[0].epoch = 6;
    ledgers[0].rows[0].written = {.files = Offset{2}, .all = Offset{2}};
    ledgers[0].rows[0].offsets.clear();
    ledgers[0].rows.pop_back();
    const LedgerClaims claims = claims_of(ledgers, kBoot);
    EXPECT_EQ(claims.at({PartitionKey{8}, Incarnation{2}}).written, ledgers[0].rows[0].written);
    EXPECT_TRUE(claims.at({PartitionKey{8}, Incarnation{2}}).offsets.empty());
    EXPECT_EQ(claims.at({PartitionKey{9}, Incarnation{1}}).written, ledgers[1].rows[1].written);
}

TEST(Ledger, OneThatIsDamagedClaimsNothing) {
    Rig rig(901);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.world.run(rig.node, write_ledger(*rig.node.io, "/data/state", make_ledger())));
    EXPECT_EQ(rig.world.run(rig.node, load_ledgers(*rig.node.io, "/data/state", kBoot)).size(), 2U);
    ASSERT_TRUE(rig.node.disk->corrupt("/data/state/ledger-3", 60, 1));
    EXPECT_TRUE(rig.world.run(rig.node, load_ledgers(*rig.node.io, "/data/state", kBoot)).empty());
}

TEST(Ledger, ThoseOfShardsThatAreNoMoreGo) {
    Rig rig(908);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.world.run(rig.node, write_ledger(*rig.node.io, "/data/state", make_ledger())));
    rig.world.run(rig.node, remove_ledgers(*rig.node.io, "/data/state", ShardIndex{4}));
    EXPECT_TRUE(rig.node.disk->exists("/data/state/ledger-3"));
    rig.world.run(rig.node, remove_ledgers(*rig.node.io, "/data/state", ShardIndex{3}));
    EXPECT_FALSE(rig.node.disk->exists("/data/state/ledger-3"));
}

TEST(Ledger, OneThatCannotBeWrittenIsRemoved) {
    Rig rig(902);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.world.run(rig.node, write_ledger(*rig.node.io, "/data/state", make_ledger())));
    rig.node.disk->add_fault({.op = runtime_sim::DiskOp::kWrite,
                              .path_contains = "ledger-",
                              .times = 1,
                              .error = ENOSPC});
    EXPECT_FALSE(rig.world.run(rig.node, write_ledger(*rig.node.io, "/data/state", make_ledger())));
    EXPECT_FALSE(rig.node.disk->exists("/data/state/ledger-3"));
}

TEST(JournalListFormat, ComesBackAsItWasOrNotAtAll) {
    const JournalList list = make_list();
    EXPECT_EQ(decode_journal_list(encode_journal_list(list)), list);
    expect_bound(encode_journal_list(list), decode_journal_list);
    EXPECT_EQ(journal_list_name(ShardIndex{1}, 5), "journals-1-0000000000000005.list");
    EXPECT_TRUE(is_journal_list_name("journals-1-0000000000000005.list"));
    EXPECT_FALSE(is_journal_list_name("journal-1-0000000000000005.wal"));
}

// ---- the list at work

std::vector<std::string> journals_of(Rig& rig) {
    std::vector<std::string> found;
    for (const runtime::DirectoryEntry& entry : *rig.node.io->list_directory("/data/state")) {
        if (parse_journal_file_name(entry.name).has_value()) {
            found.push_back("/data/state/" + entry.name);
        }
    }
    std::ranges::sort(found);
    return found;
}

std::string refusal_of(Rig& rig) {
    const auto replay =
        rig.world.run(rig.node, replay_journals(*rig.node.io, "/data/state", rig.boot_number));
    EXPECT_TRUE(replay.has_value());
    return replay.has_value() ? replay->refusal() : "no replay";
}

/// Killed with several journal files in use for the second time. Those that the list names.
std::vector<std::string> fill_journals(Rig& rig) {
    rig.boot_number = kBoot;
    rig.start();
    for (int i = 0; i < 90; ++i) {
        EXPECT_TRUE(rig.append_now(1, 30'000).has_value());
        if (i == 60) {
            EXPECT_TRUE(rig.world.run(rig.node, rig.log->release_journal()).has_value());
        }
    }
    rig.crash(runtime_sim::CrashKind::kProcess);
    EXPECT_EQ(refusal_of(rig), "");
    const auto list = rig.world.run(
        rig.node,
        read_journal_list(*rig.node.io, "/data/state/" + journal_list_name(ShardIndex{0}, 1)));
    EXPECT_TRUE(list.has_value());
    std::vector<std::string> paths;
    for (std::size_t i = 0; list.has_value() && i < list->entries.size(); ++i) {
        const JournalList::Entry& entry = list->entries[i];
        EXPECT_NE(entry.former, 0U);
        paths.push_back("/data/state/" + journal_file_name(ShardIndex{0}, entry.sequence));
    }
    EXPECT_GE(paths.size(), 3U);
    return paths;
}

TEST(JournalList, AFileThatIsGoneRefusesTheStart) {
    Rig rig(903, {.size_required_to_save = kGiB});
    const std::vector<std::string> listed = fill_journals(rig);
    for (const std::string& path : journals_of(rig)) {
        SCOPED_TRACE(path);
        if (!std::ranges::contains(listed, path)) {  // released: nobody needs it
            ASSERT_GE(rig.node.disk->unlink(path), 0);
            EXPECT_EQ(refusal_of(rig), "");
            continue;
        }
        const std::vector<std::byte> bytes = *rig.node.disk->read_file(path);
        ASSERT_GE(rig.node.disk->unlink(path), 0);
        const std::string refusal = refusal_of(rig);
        EXPECT_THAT(refusal, HasSubstr(path + " is gone"));
        EXPECT_THAT(refusal, HasSubstr("restore it"));
        rig.node.disk->write_file(path + ".given-up", {});
        const auto replay =
            rig.world.run(rig.node, replay_journals(*rig.node.io, "/data/state", kBoot));
        ASSERT_TRUE(replay.has_value());
        EXPECT_EQ(replay->refusal(), "");
        EXPECT_GT(replay->next_sequence(), parse_journal_file_name(path.substr(12))->sequence);
        ASSERT_GE(rig.node.disk->unlink(path + ".given-up"), 0);
        rig.boot_number = kBoot + 1;  // then a sync may have been lost, and the list is older
        EXPECT_EQ(refusal_of(rig), "");
        rig.boot_number = kBoot;
        rig.node.disk->write_file(path, bytes);
        EXPECT_EQ(refusal_of(rig), "");
    }
}

TEST(JournalList, AFileThatWasCutOrEmptiedRefusesTheStart) {
    Rig rig(904, {.size_required_to_save = kGiB});
    const std::string path = fill_journals(rig).front();
    const std::vector<std::byte> bytes = *rig.node.disk->read_file(path);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}}) {
        rig.node.disk->write_file(path, ConstBytes(bytes).first(size));
        EXPECT_THAT(refusal_of(rig), HasSubstr(path)) << size;
    }
    rig.node.disk->write_file(path, std::vector<std::byte>(bytes.size()));
    EXPECT_THAT(refusal_of(rig), HasSubstr(path));
    rig.node.disk->write_file(path, bytes);
    EXPECT_EQ(refusal_of(rig), "");
}

// Each is whole, and neither is the file of its name: nothing may be read as if there were none.
TEST(JournalList, FilesThatWereExchangedRefuseTheStart) {
    Rig rig(909, {.size_required_to_save = kGiB});
    const std::vector<std::string> paths = fill_journals(rig);
    ASSERT_GE(paths.size(), 2U);
    const std::vector<std::byte> one = *rig.node.disk->read_file(paths[0]);
    rig.node.disk->write_file(paths[0], *rig.node.disk->read_file(paths[1]));
    EXPECT_THAT(refusal_of(rig), HasSubstr(paths[0]));
    rig.node.disk->write_file(paths[1], one);
    EXPECT_THAT(refusal_of(rig), HasSubstr(paths[0]));
}

// What a failed sync left in the page cache may go: the file has to be there, and no more is said.
TEST(JournalList, OfAFileWhoseSyncFailedNothingIsSaid) {
    Rig rig(910, {.size_required_to_save = kGiB, .persisted = true});
    rig.boot_number = kBoot;
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
    rig.node.disk->add_fault(
        {.op = runtime_sim::DiskOp::kSync, .path_contains = "journal-", .times = 1, .error = EIO});
    EXPECT_FALSE(rig.append_now(1, 30'000).has_value());
    ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
    rig.world.run_for(kSecond);
    rig.crash(runtime_sim::CrashKind::kProcess);
    const auto list = rig.world.run(
        rig.node,
        read_journal_list(*rig.node.io, "/data/state/" + journal_list_name(ShardIndex{0}, 1)));
    ASSERT_TRUE(list.has_value());
    EXPECT_EQ(
        std::ranges::count(list->entries, JournalList::kPoisoned, &JournalList::Entry::former), 1);
    EXPECT_EQ(refusal_of(rig), "");
}

// Nothing was synced here, so no record says that another one was.
TEST(JournalList, ARecordWithOthersBehindItWasWritten) {
    Rig rig(905, {.size_required_to_save = kGiB});
    const std::string path = fill_journals(rig).front();
    ASSERT_TRUE(rig.node.disk->corrupt(path, kJournalFileHeaderBytes + 20, 1));
    EXPECT_THAT(refusal_of(rig), HasSubstr("is damaged at byte 64"));
    rig.boot_number = kBoot + 1;
    EXPECT_EQ(refusal_of(rig), "");
}

// A crash between any two disk operations leaves no list that names what is not there.
TEST(JournalList, NoCrashMakesItSayTooMuch) {
    for (std::uint64_t at = 1; at < 400; at += 3) {
        Rig rig(906 + at, {.segment_size = 200'000});
        rig.boot_number = kBoot;
        ASSERT_NO_FATAL_FAILURE(rig.start());
        rig.node.io->crash_after(at);
        for (int i = 0; i < 60 && !rig.node.io->crashed(); ++i) {
            (void)rig.world.run_until_crash(rig.node, rig.append(1, 30'000));
        }
        rig.crash(runtime_sim::CrashKind::kProcess);
        EXPECT_EQ(refusal_of(rig), "") << at;
    }
}

TEST(JournalList, AStopLeavesNothingThatCouldBeMissed) {
    Rig rig(907);
    rig.boot_number = kBoot;
    ASSERT_NO_FATAL_FAILURE(rig.start());
    for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(rig.append_now(1, 30'000).has_value());
    }
    rig.stop();
    for (const std::string& path : journals_of(rig)) {
        ASSERT_GE(rig.node.disk->unlink(path), 0);
    }
    EXPECT_EQ(refusal_of(rig), "");
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_NO_FATAL_FAILURE(rig.verify(true));
}

}  // namespace
}  // namespace galgo::storage

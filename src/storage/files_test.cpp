// Segment names and index entries, offset checkpoints, the data directory, small containers.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "storage/data_directory.hpp"
#include "storage/detail/free_name.hpp"
#include "storage/inline_vector.hpp"
#include "storage/offsets_file.hpp"
#include "storage/ring.hpp"
#include "storage/segment_format.hpp"
#include "storage/trash.hpp"
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::TestWorld;

TEST(SegmentFormat, NamesAndEntries) {
    EXPECT_EQ(segment_file_name(Offset{42}, kLogExtension), "00000000000000000042.log");
    EXPECT_EQ(parse_segment_file_name("00000000000000000042.log", kLogExtension), Offset{42});
    EXPECT_EQ(parse_segment_file_name("18446744073709551615.index", kIndexExtension),
              Offset{~std::uint64_t{0}});
    for (const char* bad :
         {"", ".log", "42.log", "0000000000000000004x.log", "18446744073709551616.log",
          "00000000000000000042.log.torn-1", "00000000000000000042.index"}) {
        EXPECT_FALSE(parse_segment_file_name(bad, kLogExtension).has_value()) << bad;
    }
}

TEST(SegmentFormat, EntriesVerifyInTheirSegmentAlone) {
    const std::uint64_t seed = index_seed(PartitionKey{5}, Incarnation{6}, Offset{7});
    std::byte bytes[kIndexEntryBytes];
    const IndexEntry entry{
        .offset = Offset{1}, .timestamp = Timestamp{2}, .position = kIndexPositionMax};
    encode_index_entry(bytes, entry, seed);
    EXPECT_EQ(decode_index_entry(bytes, seed), entry);
    EXPECT_EQ(load<std::uint64_t>(bytes, 0), 1U);
    EXPECT_EQ(load<std::uint64_t>(bytes, 8), 2U);
    EXPECT_EQ(load<std::uint32_t>(bytes, 16), 0xffff'ffffU);
    // docs/formats/index.md; made once by another implementation of XXH3-64.
    EXPECT_EQ(load<std::uint32_t>(bytes, 20), 0x8fbf8f91U);
    for (std::size_t bit = 0; bit < kIndexEntryBytes * 8; ++bit) {
        bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        EXPECT_FALSE(decode_index_entry(bytes, seed).has_value()) << bit;
        bytes[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    }
    for (const std::uint64_t other : {index_seed(PartitionKey{4}, Incarnation{6}, Offset{7}),
                                      index_seed(PartitionKey{5}, Incarnation{7}, Offset{7}),
                                      index_seed(PartitionKey{5}, Incarnation{6}, Offset{8})}) {
        EXPECT_FALSE(decode_index_entry(bytes, other).has_value());
    }
    const std::byte zeros[kIndexEntryBytes]{};
    EXPECT_FALSE(decode_index_entry(zeros, seed).has_value());
}

// Whose they are is under the checksum, and not in the file.
TEST(OffsetsFile, GoldenBytes) {
    const OffsetsHome home{
        .directory = "/p", .partition = PartitionKey{7}, .incarnation = Incarnation{3}};
    const auto consumer = encode_offset_file(home, {OffsetOwner::kConsumer, 1, Offset{9}});
    const auto group = encode_offset_file(home, {OffsetOwner::kGroup, 1, Offset{9}});
    const unsigned char expected_consumer[16] = {0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                                 0x6c, 0xe8, 0xe5, 0xa2, 0xbf, 0x47, 0x92, 0x54};
    const unsigned char expected_group[16] = {0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                              0x97, 0xde, 0x9e, 0xa7, 0xa1, 0x9f, 0x5c, 0xb3};
    EXPECT_EQ(std::memcmp(consumer.data(), expected_consumer, sizeof(expected_consumer)), 0);
    EXPECT_EQ(std::memcmp(group.data(), expected_group, sizeof(expected_group)), 0);
    EXPECT_EQ(decode_offset_file(home, OffsetOwner::kConsumer, 1, consumer), Offset{9});
    EXPECT_EQ(decode_offset_file(home, OffsetOwner::kGroup, 1, group), Offset{9});
    for (const std::size_t size : {0U, 8U, 15U}) {
        EXPECT_FALSE(
            decode_offset_file(home, OffsetOwner::kConsumer, 1, ConstBytes(consumer).first(size))
                .has_value());
    }
    OffsetsHome other = home;
    other.partition = PartitionKey{8};
    EXPECT_FALSE(decode_offset_file(other, OffsetOwner::kConsumer, 1, consumer).has_value());
    other = home;
    other.incarnation = Incarnation{4};
    EXPECT_FALSE(decode_offset_file(other, OffsetOwner::kConsumer, 1, consumer).has_value());
    EXPECT_FALSE(decode_offset_file(home, OffsetOwner::kConsumer, 2, consumer).has_value());
    EXPECT_FALSE(decode_offset_file(home, OffsetOwner::kGroup, 1, consumer).has_value());
}

// The form before: the checksum names the kind alone.
TEST(OffsetsFile, TheFormBeforeIsRead) {
    const OffsetsHome home{
        .directory = "/p", .partition = PartitionKey{7}, .incarnation = Incarnation{3}};
    const unsigned char consumer[16] = {0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                        0xcc, 0xfa, 0xaa, 0x81, 0xc1, 0xbe, 0xdc, 0x02};
    const unsigned char group[16] = {0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
                                     0xd6, 0x17, 0x73, 0x4e, 0x2d, 0x80, 0x59, 0x92};
    const auto read = [&](OffsetOwner owner, const auto& bytes) {
        return decode_offset_file(home, owner, 5, std::as_bytes(std::span(bytes)));
    };
    EXPECT_EQ(read(OffsetOwner::kConsumer, consumer), Offset{9});
    EXPECT_EQ(read(OffsetOwner::kGroup, group), Offset{9});
    EXPECT_EQ(read(OffsetOwner::kGroup, consumer), std::nullopt);
    EXPECT_EQ(read(OffsetOwner::kConsumer, group), std::nullopt);
}

// Every small file under the name of every other: it is damage there.
TEST(OffsetsFile, AFileOfAnotherKindIsDamage) {
    Rig rig(5);
    ASSERT_NO_FATAL_FAILURE(rig.start());
    ASSERT_TRUE(rig.append_now(1, 100'000).has_value());
    const std::string offsets = kTestLogDirectory + "/offsets/";
    const auto write = [&](OffsetOwner owner) {
        return rig.world
            .run(rig.node, write_offset_file(*rig.node.io, rig.offsets_home(),
                                             {.owner = owner, .id = 1, .offset = Offset{3}}, true))
            .has_value();
    };
    ASSERT_TRUE(write(OffsetOwner::kConsumer));
    ASSERT_TRUE(write(OffsetOwner::kGroup));
    ASSERT_TRUE(rig.world
                    .run(rig.node, write_offset_checkpoint(*rig.node.io, rig.offsets_home(),
                                                           OpNumber{3}, true))
                    .has_value());
    rig.stop();
    auto& disk = *rig.node.disk;
    const std::string names[] = {offsets + "consumers/1", offsets + "groups/1",
                                 offsets + "checkpoint", kTestLogDirectory + "/incarnation"};
    std::vector<std::vector<std::byte>> files;
    for (const std::string& name : names) {
        files.push_back(*disk.read_file(name));  // 3 is also the life of this rig
        EXPECT_EQ(load<std::uint64_t>(files.back(), 0), 3U);
    }
    for (std::size_t from = 0; from < 4; ++from) {
        for (std::size_t to = 0; to < 4; ++to) {
            SCOPED_TRACE(names[from] + " as " + names[to]);
            disk.write_file(names[to], files[from]);
            const auto loaded =
                rig.world.run(rig.node, load_offsets(*rig.node.io, rig.offsets_home()));
            ASSERT_TRUE(loaded.has_value());
            const bool is_offset = to < 2;
            EXPECT_EQ(loaded->damaged.size(), is_offset && from != to ? 1U : 0U);
            EXPECT_EQ(loaded->checkpoint, OpNumber(to == 2 && from != to ? 0 : 3));
            if (to == 3) {
                ASSERT_NO_FATAL_FAILURE(rig.start());
                rig.stop();
                EXPECT_EQ(disk.read_file(names[3]), files[3]) << "written anew";
            }
            disk.write_file(names[to], files[to]);
        }
    }
}

TEST(OffsetsFile, StoresLoadsAndReportsDamage) {
    const OffsetsHome home{
        .directory = "/p", .partition = PartitionKey{7}, .incarnation = Incarnation{3}};
    TestWorld world(1);
    runtime_sim::Node& node = world.add_node();
    const auto write = [&](OffsetOwner owner, std::uint32_t id, std::uint64_t offset) {
        return world.run(node,
                         write_offset_file(*node.io, home, {owner, id, Offset{offset}}, true));
    };
    ASSERT_TRUE(write(OffsetOwner::kConsumer, 7, 1).has_value());
    ASSERT_TRUE(write(OffsetOwner::kConsumer, 7, 2).has_value());
    ASSERT_TRUE(write(OffsetOwner::kGroup, 3, 5).has_value());
    ASSERT_TRUE(write(OffsetOwner::kGroup, 4, 6).has_value());
    ASSERT_TRUE(world.run(node, remove_offset_file(*node.io, "/p", OffsetOwner::kGroup, 4, true))
                    .has_value());
    ASSERT_TRUE(world.run(node, remove_offset_file(*node.io, "/p", OffsetOwner::kGroup, 4, true))
                    .has_value());
    node.disk->write_file("/p/offsets/consumers/8", {});
    node.disk->write_file("/p/offsets/consumers/9.tmp", {});
    node.disk->write_file("/p/offsets/consumers/name", {});
    node.disk->write_file("/p/offsets/consumers/8.damaged-1", {});
    const auto loaded = world.run(node, load_offsets(*node.io, home));
    ASSERT_TRUE(loaded.has_value());
    EXPECT_EQ(loaded->offsets, (std::vector<ConsumerOffset>{{OffsetOwner::kConsumer, 7, Offset{2}},
                                                            {OffsetOwner::kGroup, 3, Offset{5}}}));
    ASSERT_EQ(loaded->damaged.size(), 1U);
    EXPECT_EQ(loaded->damaged[0].id, 8U);
    EXPECT_TRUE(node.disk->exists("/p/offsets/consumers/8"));
    EXPECT_FALSE(node.disk->exists("/p/offsets/consumers/9.tmp"));
    const auto aside = [&] {
        return world.run(node, keep_damaged_offset(*node.io, "/p", OffsetOwner::kConsumer, 8));
    };
    for (const std::size_t size : {std::size_t{20}, std::size_t{0}, 2 * kMiB}) {
        const std::vector<std::byte> bytes(size, std::byte{7});
        node.disk->write_file("/p/offsets/consumers/8", bytes);
        EXPECT_TRUE(aside().has_value());
        EXPECT_EQ(node.disk->exists("/p/offsets/consumers/8"), size < kMiB) << "there is one";
        EXPECT_EQ(node.disk->read_file("/p/offsets/consumers/8.damaged-2"), bytes);
        EXPECT_EQ(node.disk->unlink("/p/offsets/consumers/8.damaged-2"), 0);
    }
    EXPECT_TRUE(aside().has_value()) << "an absent one is success";
    EXPECT_FALSE(node.disk->exists("/p/offsets/consumers/8.damaged-2"));
    EXPECT_TRUE(world.run(node, load_offsets(*node.io, {.directory = "/absent"}))->offsets.empty());
    EXPECT_TRUE(
        world.run(node, remove_offset_file(*node.io, "/absent", OffsetOwner::kGroup, 4, true))
            .has_value());
}

TEST(FreeName, TheFirstThatNoFileHasAndNoneBehindTheBound) {
    TestWorld world(11);
    runtime_sim::Node& node = world.add_node();
    EXPECT_EQ(detail::first_free(*node.io, "/x/a.kept-"), "/x/a.kept-1");
    for (std::uint32_t n = 1; n <= detail::kFreeNamesMax; ++n) {
        if (n != 3) {
            node.disk->write_file("/x/a.kept-" + std::to_string(n), {});
        }
    }
    EXPECT_EQ(detail::first_free(*node.io, "/x/a.kept-"), "/x/a.kept-3");
    node.disk->write_file("/x/a.kept-3", {});
    const Result<std::string> none = detail::first_free(*node.io, "/x/a.kept-");
    ASSERT_FALSE(none.has_value());
    EXPECT_EQ(none.error().os_errno, EEXIST);
    EXPECT_EQ(detail::first_free(*node.io, "/x/b.kept-"), "/x/b.kept-1");
}

TEST(Trash, DeletesInSteps) {
    TestWorld world(2);
    runtime_sim::Node& node = world.add_node();
    Trash trash("/trash");
    EXPECT_TRUE(trash.has_work());
    node.disk->write_file("/trash/small", {});
    node.disk->write_file("/trash/large", {});
    ASSERT_TRUE(node.disk->truncate_to("/trash/large", 100 * kMiB));
    const auto run = [&](std::size_t steps) {
        return world.run(node, trash.empty(*node.io, node.queue(), steps));
    };
    EXPECT_FALSE(*run(2));
    EXPECT_TRUE(trash.has_work());
    EXPECT_FALSE(*run(0)) << "and nothing is looked at";
    EXPECT_TRUE(*run(10));
    EXPECT_FALSE(trash.has_work());
    EXPECT_FALSE(node.disk->exists("/trash/large"));
    EXPECT_FALSE(node.disk->exists("/trash/small"));
    Trash absent("/absent");
    EXPECT_TRUE(*world.run(node, absent.empty(*node.io, node.queue(), 1)));
    EXPECT_FALSE(absent.has_work());
}

TEST(Trash, TakesFilesAndWholeDirectories) {
    TestWorld world(3);
    runtime_sim::Node& node = world.add_node();
    Trash trash("/data/trash");
    for (const std::string name : {"/0.log", "/0.index", "/offsets/consumers/1"}) {
        node.disk->write_file("/data/p" + name, {});
    }
    const auto take = [&](const char* from, const char* name) {
        return world.run(node, trash.take(*node.io, from, name));
    };
    ASSERT_TRUE(*world.run(node, trash.empty(*node.io, node.queue(), 10)));
    ASSERT_TRUE(take("/data/p", "7-1").has_value());
    EXPECT_TRUE(take("/data/p", "7-2").has_value()) << "an absent one is success";
    EXPECT_FALSE(node.disk->exists("/data/p"));
    EXPECT_TRUE(node.disk->exists("/data/trash/7-1/offsets/consumers/1"));
    EXPECT_TRUE(trash.has_work());
    EXPECT_FALSE(*world.run(node, trash.empty(*node.io, node.queue(), 2)));
    EXPECT_TRUE(*world.run(node, trash.empty(*node.io, node.queue(), 10)));
    EXPECT_FALSE(node.disk->exists("/data/trash/7-1"));
    // What fails stays, and is work.
    node.disk->write_file("/data/q/0.log", {});
    ASSERT_TRUE(take("/data/q", "8-1").has_value());
    node.disk->add_fault({.op = runtime_sim::DiskOp::kUnlink, .path_contains = "8-1"});
    EXPECT_FALSE(*world.run(node, trash.empty(*node.io, node.queue(), 10)));
    EXPECT_TRUE(trash.has_work());
    EXPECT_TRUE(*world.run(node, trash.empty(*node.io, node.queue(), 10)));
    EXPECT_FALSE(node.disk->exists("/data/trash/8-1"));
}

TEST(Trash, RemembersTheLivesThatEndedLast) {
    Trash trash("/trash");
    for (std::uint64_t i = 0; i <= Trash::kLivesMax; ++i) {
        for (int twice = 0; twice < 2; ++twice) {
            trash.note_retired(PartitionKey(i % 7), Incarnation(i));
        }
    }
    const std::vector<Trash::Life> lives = trash.retired_lives();
    ASSERT_EQ(lives.size(), Trash::kLivesMax);
    EXPECT_EQ(lives.front(), Trash::Life(PartitionKey(1), Incarnation(1)));
    EXPECT_EQ(lives.back().second, Incarnation(Trash::kLivesMax));
    EXPECT_FALSE(trash.is_retired(PartitionKey(0), Incarnation(0))) << "forgotten";
    EXPECT_TRUE(trash.is_retired(PartitionKey(1), Incarnation(1)));
    EXPECT_FALSE(trash.is_retired(PartitionKey(2), Incarnation(1))) << "of another partition";
    EXPECT_FALSE(trash.is_retired(PartitionKey(1), Incarnation(Trash::kLivesMax + 7)));
}

TEST(Containers, RingAndInlineVector) {
    Ring<int> ring;
    for (int round = 0; round < 5; ++round) {
        for (int i = 0; i < 20; ++i) {
            ring.push_back(i);
        }
        EXPECT_EQ(ring[7], 7);
        for (int i = 0; i < 20; ++i) {
            EXPECT_EQ(ring.pop_front(), i);
        }
    }
    ring.push_back(1);
    ring.push_back(2);
    EXPECT_EQ(ring.pop_back(), 2);
    EXPECT_EQ(ring.size(), 1U);
    InlineVector<std::string, 2> vector;
    for (int i = 0; i < 5; ++i) {
        vector.push_back(std::to_string(i));
    }
    InlineVector<std::string, 2> moved(std::move(vector));
    EXPECT_EQ(moved.size(), 5U);
    EXPECT_EQ(moved[4], "4");
    EXPECT_TRUE(
        vector.empty());  // NOLINT(bugprone-use-after-move): that it is empty is what is tested
    vector = std::move(moved);
    EXPECT_EQ(vector[0], "0");
}

class DataDirectoryTest : public testing::Test {
 protected:
    void SetUp() override {
        char name[] = "/tmp/galgo-data-XXXXXX";
        ASSERT_NE(::mkdtemp(name), nullptr);
        path_ = std::string(name) + "/data";
    }
    void TearDown() override {
        std::filesystem::remove_all(std::filesystem::path(path_).parent_path());
    }
    std::string path_;
};

TEST_F(DataDirectoryTest, LocksMakesAndRefuses) {
    {
        auto directory = DataDirectory::open({.path = path_ + "/"});
        ASSERT_TRUE(directory.has_value()) << directory.error();
        EXPECT_GE(directory->lock_descriptor(), 0);
        EXPECT_EQ(directory->path(), path_);
        struct stat facts{};
        ASSERT_EQ(::stat(directory->metadata().c_str(), &facts), 0);
        EXPECT_EQ(facts.st_mode & 0777U, 0700U);
        EXPECT_EQ(directory->partition(1, 2, 3), path_ + "/streams/1/topics/2/partitions/3");
        const auto second = DataDirectory::open({.path = path_, .lock_wait_ms = 50});
        ASSERT_FALSE(second.has_value());
        EXPECT_NE(second.error().find(path_), std::string::npos);
    }
    std::ofstream(path_ + "/state/x") << "x";
    ASSERT_TRUE(DataDirectory::open({.path = path_}).has_value());
    EXPECT_TRUE(std::filesystem::exists(path_ + "/state/x"));
    ASSERT_TRUE(DataDirectory::open({.path = path_, .fresh = true}).has_value());
    EXPECT_FALSE(std::filesystem::exists(path_ + "/state/x"));
    std::ofstream(path_ + "/FORMAT", std::ios::trunc) << "galgo-data-format 5\n";
    const auto newer = DataDirectory::open({.path = path_});
    ASSERT_FALSE(newer.has_value());
    EXPECT_NE(newer.error().find("newer"), std::string::npos);
    std::ofstream(path_ + "/FORMAT", std::ios::trunc) << "galgo-data-format 1\n";
    const auto older = DataDirectory::open({.path = path_});
    ASSERT_FALSE(older.has_value());
    EXPECT_NE(older.error().find("older layout 1"), std::string::npos) << older.error();
    EXPECT_NE(older.error().find("--fresh"), std::string::npos) << older.error();
    std::ofstream(path_ + "/FORMAT", std::ios::trunc) << "nonsense\n";
    EXPECT_FALSE(DataDirectory::open({.path = path_}).has_value());
    EXPECT_TRUE(DataDirectory::open({.path = path_, .fresh = true}).has_value());
}

// The name of the present format is written last: until then both read it.
TEST_F(DataDirectoryTest, TheFormatBeforeIsUpgraded) {
    const auto format = [this] {
        std::ifstream file(path_ + "/FORMAT");
        std::string line;
        std::getline(file, line);
        return line;
    };
    ASSERT_TRUE(DataDirectory::open({.path = path_}).has_value());
    EXPECT_EQ(format(), "galgo-data-format 4");
    std::ofstream(path_ + "/FORMAT", std::ios::trunc) << "galgo-data-format 2\n";
    {
        auto directory = DataDirectory::open({.path = path_});
        ASSERT_TRUE(directory.has_value()) << directory.error();
        EXPECT_TRUE(directory->is_upgrading());
    }
    EXPECT_EQ(format(), "galgo-data-format 2");
    auto directory = DataDirectory::open({.path = path_});
    ASSERT_TRUE(directory.has_value()) << directory.error();
    EXPECT_EQ(directory->finish_upgrade(), "");
    EXPECT_FALSE(directory->is_upgrading());
    EXPECT_EQ(format(), "galgo-data-format 4");
    EXPECT_EQ(directory->finish_upgrade(), "");
}

// The word about encryption stays through an upgrade, and goes with everything else.
TEST_F(DataDirectoryTest, FormatSaysThatMessagesAreEncrypted) {
    {
        auto directory = DataDirectory::open({.path = path_});
        ASSERT_TRUE(directory.has_value()) << directory.error();
        EXPECT_FALSE(directory->is_encrypted());
        EXPECT_EQ(directory->note_encryption(), "");
        EXPECT_TRUE(directory->is_encrypted());
    }
    const auto content = [this] {
        std::ifstream file(path_ + "/FORMAT");
        return std::string(std::istreambuf_iterator<char>(file), {});
    };
    std::string format = content();
    EXPECT_NE(format.find("\nencryption: "), std::string::npos) << format;
    format.replace(format.find(" 4\n"), 3, " 2\n");
    std::ofstream(path_ + "/FORMAT", std::ios::trunc) << format;
    {
        auto directory = DataDirectory::open({.path = path_});
        ASSERT_TRUE(directory.has_value()) << directory.error();
        EXPECT_TRUE(directory->is_encrypted() && directory->is_upgrading());
        EXPECT_EQ(directory->note_encryption(), "");
        EXPECT_EQ(content(), format);
        EXPECT_EQ(directory->finish_upgrade(), "");
        EXPECT_NE(content().find("\nencryption: "), std::string::npos);
    }
    std::filesystem::remove(path_ + "/metadata");
    std::ofstream(path_ + "/ENCRYPTION") << "x";
    const auto fresh = DataDirectory::open({.path = path_, .fresh = true});
    ASSERT_TRUE(fresh.has_value()) << fresh.error();
    EXPECT_FALSE(fresh->is_encrypted());
    EXPECT_FALSE(std::filesystem::exists(path_ + "/ENCRYPTION"));
}

TEST_F(DataDirectoryTest, FreshSparesTheFilesOfOthers) {
    std::filesystem::create_directories(path_ + "/lost+found");
    ASSERT_TRUE(DataDirectory::open({.path = path_, .fresh = true}).has_value());
    EXPECT_TRUE(std::filesystem::exists(path_ + "/lost+found"));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
    std::ofstream(path_ + "/thesis.tex") << "x";
    const auto refused = DataDirectory::open({.path = path_, .fresh = true});
    ASSERT_FALSE(refused.has_value());
    EXPECT_NE(refused.error().find(path_), std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(path_ + "/thesis.tex"));
    EXPECT_FALSE(std::filesystem::exists(path_ + "/FORMAT"));
}

}  // namespace
}  // namespace galgo::storage

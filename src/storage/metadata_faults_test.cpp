// Every fault of one place in the files of the metadata group, one after the other: each sector of
// each file damaged in three ways, or unreadable; of each kind of file the newest cut at every byte
// of its last 4 KiB (of the log that ends in a batch), all others at some; each file gone. All of
// it on a log that ends in a mark, and on one that ends in a batch; the sectors also on one with a
// torn tail, an update of the superblock that was half done and a number left out, and on one that
// went on in the next generation behind a torn tail. Each is healed,
// or refused with a text that names the file, the place and what can be done. Nothing that was
// acknowledged is ever missing from a start that succeeds.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <functional>
#include <map>

#include "test_metadata.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::kSectorBytes;

using Image = std::map<std::string, std::vector<std::byte>>;

Image image_of(const runtime_sim::SimDisk& disk) {
    Image image;
    for (const std::string& path : disk.list_all()) {
        if (!path.ends_with('/') && path.starts_with(kMetadataDirectory)) {
            image[path] = *disk.read_file(path);
        }
    }
    return image;
}

struct Base {
    Image image;
    TestState state;
};

/// Two snapshots, three generations of the log, a tail behind the newest snapshot.
Base make_base(bool marked) {
    MetadataRig rig(11);
    rig.world.run(rig.node, runtime::make_directories(*rig.node.io, kMetadataDirectory));
    rig.node.disk->sync_all();
    EXPECT_EQ(rig.open(), "");
    for (std::uint64_t i = 1; i <= 9; ++i) {
        rig.append(1000 + i, 40 * i);
        if (i == 3 || i == 6) {
            rig.snapshot();
        }
    }
    if (marked) {
        rig.close();
    } else {
        rig.drop();
    }
    Base base{.image = image_of(*rig.node.disk), .state = rig.attempted};
    // What was being made ahead is of no account.
    const std::vector<std::byte>& superblock = base.image.at(kMetadataDirectory + "/superblock");
    const std::uint64_t last =
        decode_superblock(ConstBytes(superblock).first(kSuperblockCopyBytes))->state.wal_last;
    std::erase_if(base.image, [last](const auto& file) {
        const std::string name = file.first.substr(file.first.rfind('/') + 1);
        return name.ends_with(".tmp") || wal_generation(name).value_or(0) > last;
    });
    EXPECT_EQ(base.state.size(), 9U);
    EXPECT_EQ(base.image.size(), 1U + 2U + (marked ? 3U : 2U)) << "superblock, snapshots, log";
    return base;
}

/// The same, and then: a number that was refused, a batch that was not completed, and the first
/// half of an update of the superblock.
Base make_unfinished_base() {
    MetadataRig rig(12);
    rig.world.run(rig.node, runtime::make_directories(*rig.node.io, kMetadataDirectory));
    rig.node.disk->sync_all();
    EXPECT_EQ(rig.open(), "");
    for (std::uint64_t i = 1; i <= 8; ++i) {
        rig.append(1000 + i, 40 * i);
        if (i == 3 || i == 5) {
            rig.snapshot();
        }
        if (i == 6) {
            ++rig.next_op;
        }
    }
    rig.drop();
    rig.world.restart(rig.node, CrashKind::kProcess);
    Base base{.image = image_of(*rig.node.disk), .state = rig.attempted};
    std::vector<std::byte>& superblock = base.image.at(kMetadataDirectory + "/superblock");
    const DecodedSuperblock known =
        *decode_superblock(ConstBytes(superblock).first(kSuperblockCopyBytes));
    SuperblockState next = known.state;
    next.commit = OpNumber{9};
    const SuperblockCopy copy = encode_superblock(next, known.sequence + 1);
    std::ranges::copy(copy, superblock.begin());
    const std::string last = wal_path(kMetadataDirectory, known.state.wal_last);
    std::erase_if(base.image, [&last](const auto& file) {
        return file.first.find("journal.wal") != std::string::npos && file.first > last;
    });
    std::vector<std::byte>& log = base.image.at(last);
    const std::size_t region = log.size() / 2;
    std::size_t end = region - kWalBlockBytes;
    EXPECT_EQ(log[end], std::byte{0}) << "there is room for one more batch";
    while (log[end - kWalBlockBytes] == std::byte{0}) {
        end -= kWalBlockBytes;
    }
    std::fill_n(log.begin() + static_cast<std::ptrdiff_t>(end), 700, std::byte{0x47});
    return base;
}

/// Both copies of a batch were not completed, in the last block of a file's regions, so that a cut
/// meets them too. `followed`: the log goes on behind them, in the next generation.
Base make_torn_base(bool followed) {
    MetadataRig rig(13);
    rig.world.run(rig.node, runtime::make_directories(*rig.node.io, kMetadataDirectory));
    rig.node.disk->sync_all();
    EXPECT_EQ(rig.open(), "");
    for (std::uint64_t i = 1; i <= 3; ++i) {
        rig.append(1000 + i);
    }
    rig.crash(CrashKind::kProcess);
    const std::string torn = wal_path(kMetadataDirectory, 1);
    std::vector<std::byte> content = *rig.node.disk->read_file(torn);
    for (const std::size_t end : {content.size() / 2, content.size()}) {
        std::fill_n(content.begin() + static_cast<std::ptrdiff_t>(end - kWalBlockBytes), 700,
                    std::byte{0x47});
    }
    rig.node.disk->write_file(torn, content);
    TestState state{1001, 1002};
    if (followed) {
        EXPECT_EQ(rig.open(), "");
        EXPECT_EQ(rig.state, state);
        rig.go_on();
        rig.append(1003);
        rig.append(1004);
        rig.drop();
        state = rig.attempted;
    }
    Base base{.image = image_of(*rig.node.disk), .state = state};
    const std::string last = wal_path(kMetadataDirectory, followed ? 2 : 1);
    std::erase_if(base.image, [&last](const auto& file) {
        return file.first.find("journal.wal") != std::string::npos && file.first > last;
    });
    EXPECT_EQ(base.image.size(), followed ? 3U : 2U);
    return base;
}

/// Starts on damaged disks again and again: one world for many, because making one takes longer
/// than a start.
class Trial {
 public:
    explicit Trial(Base base) : base_(std::move(base)), rig_(5) { reset(); }

    [[nodiscard]] const Base& base() const noexcept { return base_; }
    [[nodiscard]] runtime_sim::SimDisk& disk() noexcept { return *rig_.node.disk; }

    struct Outcome {
        bool healed = false;
        std::string refusal;
    };
    /// Opens what `damage` left of the base. `file`: the one that a refusal has to name.
    Outcome run(const std::string& file, const std::string& what, bool thorough,
                const std::function<void()>& damage) {
        damage();
        Outcome outcome{.refusal = rig_.open()};
        if (outcome.refusal.empty()) {
            outcome.healed = true;
            EXPECT_EQ(rig_.state, base_.state) << what;
            if (thorough) {
                go_on(what);
            }
        } else {
            const Image after = image_of(disk());
            reset();
            damage();
            EXPECT_EQ(after, image_of(disk())) << what << "a refusal changes nothing";
            EXPECT_NE(outcome.refusal.find(file), std::string::npos) << what << outcome.refusal;
            EXPECT_TRUE(outcome.refusal.find("position") != std::string::npos ||
                        outcome.refusal.find("missing") != std::string::npos ||
                        outcome.refusal.find("ends at") != std::string::npos ||
                        outcome.refusal.find("ends behind") != std::string::npos)
                << what << outcome.refusal;
            EXPECT_NE(outcome.refusal.find("restore"), std::string::npos)
                << what << outcome.refusal;
        }
        rig_.drop();
        rig_.world.restart(rig_.node, CrashKind::kProcess);
        reset();
        return outcome;
    }

 private:
    /// A start that succeeded has healed: what it acknowledges now is there after the next, and
    /// that finds nothing to heal.
    void go_on(const std::string& what) {
        rig_.go_on();
        rig_.append(4711);
        rig_.close();
        ASSERT_EQ(rig_.open(), "") << what;
        TestState expected = base_.state;
        expected.push_back(4711);
        EXPECT_EQ(rig_.state, expected) << what;
        EXPECT_EQ(rig_.files->superblock().healed_count(), 0U) << what;
        for (const auto& [path, content] : base_.image) {
            EXPECT_TRUE(path.find("snapshot.") != std::string::npos ||
                        disk().unreadable_count(path) == 0)
                << what;
        }
        EXPECT_EQ(rig_.files->wal().healed_count(), 0U) << what;
    }
    void reset() {
        for (const std::string& path : disk().list_all()) {
            if (!path.ends_with('/') && !base_.image.contains(path)) {
                EXPECT_EQ(disk().unlink(path), 0);
            }
        }
        for (const auto& [path, content] : base_.image) {
            const auto now = disk().read_file(path);
            if (!now.has_value() || *now != content || disk().unreadable_count(path) != 0) {
                disk().write_file(path, content);
            }
        }
        disk().sync_all();
    }

    Base base_;
    MetadataRig rig_;
};

enum class Rot : std::uint8_t { kBit, kZeros, kNoise };

void rot_sector(Trial& trial, const std::string& path, std::size_t sector, Rot rot) {
    std::vector<std::byte> content = trial.base().image.at(path);
    const std::size_t begin = sector * kSectorBytes;
    const std::size_t end = std::min(begin + kSectorBytes, content.size());
    for (std::size_t at = begin; at < end; ++at) {
        switch (rot) {
            case Rot::kBit:
                if (at == begin + (end - begin) / 2) {
                    content[at] ^= std::byte{0x10};
                }
                break;
            case Rot::kZeros:
                content[at] = std::byte{0};
                break;
            case Rot::kNoise:
                content[at] = static_cast<std::byte>(at * 131 + 17);
                break;
        }
    }
    trial.disk().write_file(path, content);
}

TEST(MetadataFaults, EverySectorOfEveryFile) {
    const std::array bases{make_base(false), make_base(true), make_unfinished_base(),
                           make_torn_base(true)};
    for (std::size_t kind = 0; kind < bases.size(); ++kind) {
        const bool unfinished = kind >= 2;
        Trial trial(bases.at(kind));
        std::size_t healed = 0;
        for (const auto& [path, content] : trial.base().image) {
            for (std::size_t sector = 0; sector * kSectorBytes < content.size(); ++sector) {
                for (const Rot rot : {Rot::kBit, Rot::kZeros, Rot::kNoise}) {
                    if (unfinished && rot != Rot::kNoise) {
                        continue;
                    }
                    const std::string what = path + " sector " + std::to_string(sector) + " rot " +
                                             std::to_string(static_cast<int>(rot)) + ": ";
                    const Trial::Outcome outcome =
                        trial.run(path, what, true, [&] { rot_sector(trial, path, sector, rot); });
                    healed += outcome.healed ? 1U : 0U;
                    EXPECT_TRUE(outcome.healed) << what << outcome.refusal;
                }
            }
        }
        EXPECT_GT(healed, kind == 3 ? 90U : unfinished ? 150U : 500U);
    }
}

TEST(MetadataFaults, EverySectorUnreadable) {
    for (const Base& base :
         {make_base(false), make_base(true), make_torn_base(false), make_torn_base(true)}) {
        Trial trial(base);
        for (const auto& [path, content] : trial.base().image) {
            for (std::size_t at = 0; at < content.size(); at += kSectorBytes) {
                const std::string what = path + " unreadable at " + std::to_string(at) + ": ";
                const Trial::Outcome outcome = trial.run(path, what, at % kWalBlockBytes == 0, [&] {
                    EXPECT_TRUE(trial.disk().make_unreadable(path, at));
                });
                EXPECT_TRUE(outcome.healed) << what << outcome.refusal;
            }
        }
    }
}

// Of each kind of file the newest is cut at every byte, on a log that ends in a batch; the others
// at some: they are read by the same code.
TEST(MetadataFaults, EveryCutWithinTheLast4KiB) {
    const std::array bases{make_base(false), make_base(true), make_torn_base(false),
                           make_torn_base(true)};
    for (std::size_t which = 0; which < bases.size(); ++which) {
        Trial trial(bases.at(which));
        const Image& image = trial.base().image;
        for (auto file = image.begin(); file != image.end(); ++file) {
            const auto& [path, content] = *file;
            const std::string kind = path.substr(0, path.rfind('.'));
            const auto next = std::next(file);
            const bool newest = next == image.end() || !next->first.starts_with(kind);
            const std::size_t lowest = content.size() < 4096 ? 0 : content.size() - 4096;
            for (std::size_t size = lowest; size < content.size(); size += newest && which == 0 ? 1
                                                                           : which < 2          ? 37
                                                                                       : 149) {
                const std::string what = path + " cut to " + std::to_string(size) + ": ";
                const Trial::Outcome outcome = trial.run(path, what, size % 509 == 0, [&] {
                    EXPECT_TRUE(trial.disk().truncate_to(path, size));
                });
                EXPECT_TRUE(outcome.healed) << what << outcome.refusal;
            }
        }
    }
}

TEST(MetadataFaults, EveryCutOfAnyLengthInBlocks) {
    Trial trial(make_base(true));
    std::size_t refused = 0;
    for (const auto& [path, content] : trial.base().image) {
        for (std::size_t size = 0; size < content.size(); size += 1024) {
            const std::string what = path + " cut to " + std::to_string(size) + ": ";
            const Trial::Outcome outcome = trial.run(
                path, what, true, [&] { EXPECT_TRUE(trial.disk().truncate_to(path, size)); });
            refused += outcome.healed ? 0U : 1U;
        }
    }
    EXPECT_GT(refused, 10U);  // files that lost more than one copy
}

TEST(MetadataFaults, EveryFileGone) {
    for (const bool marked : {false, true}) {
        Trial trial(make_base(marked));
        for (const auto& [path, content] : trial.base().image) {
            const std::string what = path + " gone: ";
            const Trial::Outcome outcome =
                trial.run(path, what, true, [&] { EXPECT_EQ(trial.disk().unlink(path), 0); });
            const bool snapshot = path.find("snapshot.") != std::string::npos;
            EXPECT_EQ(outcome.healed, snapshot) << what << outcome.refusal;
        }
    }
}

// A whole region of a log file gone, header and all.
TEST(MetadataFaults, EitherCopyOfALogFileIsEnough) {
    for (const bool marked : {false, true}) {
        Trial trial(make_base(marked));
        std::size_t files = 0;
        for (const auto& [path, content] : trial.base().image) {
            if (path.find("journal.wal") == std::string::npos) {
                continue;
            }
            ++files;
            const std::size_t region = content.size() / 2;
            for (const std::size_t begin : {std::size_t{0}, region}) {
                for (const std::byte filled : {std::byte{0}, std::byte{0xA5}}) {
                    const std::string what = path + " region at " + std::to_string(begin) + ": ";
                    const Trial::Outcome outcome = trial.run(path, what, true, [&] {
                        std::vector<std::byte> bad = content;
                        std::fill_n(bad.begin() + static_cast<std::ptrdiff_t>(begin), region,
                                    filled);
                        trial.disk().write_file(path, bad);
                    });
                    EXPECT_TRUE(outcome.healed) << what << outcome.refusal;
                }
            }
        }
        EXPECT_GE(files, 2U);
    }
}

TEST(MetadataFaults, BothCopiesOfAnAcknowledgedBatchAreRefused) {
    Trial trial(make_base(true));
    std::size_t refused = 0;
    for (const auto& [path, content] : trial.base().image) {
        if (path.find("journal.wal") == std::string::npos) {
            continue;
        }
        const std::size_t region = content.size() / 2;
        for (std::size_t block = kWalBlockBytes; block < region; block += kWalBlockBytes) {
            const std::uint64_t generation = *wal_generation(path.substr(path.rfind('/') + 1));
            const std::optional<WalBatch> batch = decode_wal_batch(
                ConstBytes(content).first(region), block, {.salt = 77, .generation = generation});
            if (!batch.has_value() || batch->kind == WalBatchKind::kMark) {
                continue;
            }
            const Trial::Outcome outcome =
                trial.run(path, path + " batch at " + std::to_string(block) + ": ", true, [&] {
                    std::vector<std::byte> bad = content;
                    bad[block + 100] ^= std::byte{1};
                    bad[region + block + 100] ^= std::byte{1};
                    trial.disk().write_file(path, bad);
                });
            EXPECT_FALSE(outcome.healed) << path << " batch at " << block;
            ++refused;
        }
    }
    EXPECT_GE(refused, 5U);
}

TEST(MetadataFaults, TwoSnapshotsGoneAreRefused) {
    Trial trial(make_base(false));
    std::vector<std::string> snapshots;
    for (const auto& [path, content] : trial.base().image) {
        if (path.find("snapshot.") != std::string::npos) {
            snapshots.push_back(path);
        }
    }
    ASSERT_EQ(snapshots.size(), 2U);
    const Trial::Outcome outcome = trial.run(snapshots[1], "both gone: ", false, [&] {
        for (const std::string& path : snapshots) {
            EXPECT_EQ(trial.disk().unlink(path), 0);
        }
    });
    EXPECT_FALSE(outcome.healed);
    EXPECT_NE(outcome.refusal.find(snapshots[0]), std::string::npos) << outcome.refusal;
}

TEST(MetadataFaults, OneCopyOfTheSuperblockIsEnough) {
    for (unsigned bad = 0; bad < 16; ++bad) {
        Trial trial(make_base(false));
        const std::string path = kMetadataDirectory + "/superblock";
        const Trial::Outcome outcome =
            trial.run(path, "copies " + std::to_string(bad) + ": ", true, [&] {
                for (std::size_t i = 0; i < kSuperblockCopies; ++i) {
                    if ((bad >> i & 1U) != 0) {
                        EXPECT_TRUE(trial.disk().corrupt(path, i * kSuperblockCopyBytes + 50, 4));
                    }
                }
            });
        EXPECT_EQ(outcome.healed, std::popcount(bad) <= 3) << bad << outcome.refusal;
    }
}

TEST(MetadataFaults, TwoSuperblocksOfOneSequenceAreRefused) {
    Trial trial(make_base(false));
    const std::string path = kMetadataDirectory + "/superblock";
    const Trial::Outcome outcome = trial.run(path, "two: ", false, [&] {
        std::vector<std::byte> content = trial.base().image.at(path);
        DecodedSuperblock other =
            *decode_superblock(ConstBytes(content).first(kSuperblockCopyBytes));
        other.state.view = other.state.view.next();
        const SuperblockCopy copy = encode_superblock(other.state, other.sequence);
        std::ranges::copy(copy, content.begin() + 2 * kSuperblockCopyBytes);
        trial.disk().write_file(path, content);
    });
    EXPECT_FALSE(outcome.healed);
}

}  // namespace
}  // namespace galgo::storage

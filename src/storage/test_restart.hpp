// For the tests of starts on a disk that is in doubt or damaged: a process whose disk can be
// compared, the ways in which a power loss may go, and a start that may be cut short.
#pragma once

#include <map>

#include "test_metadata.hpp"

namespace galgo::storage {

inline const std::string kSuperblockPath = kMetadataDirectory + "/superblock";
inline const std::string kFirstFile = wal_path(kMetadataDirectory, 1);
inline const std::string kSecondFile = wal_path(kMetadataDirectory, 2);

struct RestartRig : MetadataRig {
    explicit RestartRig(std::uint64_t seed) : MetadataRig(seed) {
        world.run(node, runtime::make_directories(*node.io, kMetadataDirectory));
        node.disk->sync_all();
    }
    [[nodiscard]] runtime_sim::SimDisk& disk() const { return *node.disk; }
    [[nodiscard]] std::uint64_t region() const { return options.region_bytes; }
    Status try_append(std::uint64_t value) { return world.run(node, append_one(*this, value, 8)); }
    Status try_snapshot() { return world.run(node, install(*this, acknowledged)); }
    void corrupt_both(const std::string& path, std::uint64_t position) {
        EXPECT_TRUE(disk().corrupt(path, position, 4));
        EXPECT_TRUE(disk().corrupt(path, region() + position, 4));
    }
    [[nodiscard]] std::map<std::string, std::vector<std::byte>> image() const {
        std::map<std::string, std::vector<std::byte>> files;
        for (const std::string& path : disk().list_all()) {
            if (!path.ends_with('/')) {
                files[path] = *disk().read_file(path);
            }
        }
        return files;
    }
};

struct Power {
    std::uint64_t seed = 0;
    runtime_sim::UnsyncedFate fate = runtime_sim::UnsyncedFate::kSeeded;
};

inline std::vector<Power> powers() {
    std::vector<Power> all{{1, runtime_sim::UnsyncedFate::kLoseAll},
                           {2, runtime_sim::UnsyncedFate::kKeepAll},
                           {3, runtime_sim::UnsyncedFate::kRuin}};
    for (std::uint64_t seed = 4; seed < 12; ++seed) {
        all.push_back({seed, runtime_sim::UnsyncedFate::kSeeded});
    }
    return all;
}

/// One start, with or without what it does once it was accepted.
inline coro::Task<bool> boot(MetadataRig& rig, bool accepted) {
    auto opened = co_await MetadataFiles::open(
        *rig.node.io, rig.node.queue(), rig.options,
        [](const SnapshotContents*) -> Status { return {}; },
        [](const wire::PrepareHeader&, ConstBytes) -> std::expected<void, std::string> {
            return {};
        });
    if (opened.has_value() && accepted) {
        co_await (*opened)->sweep();
    }
    if (opened.has_value()) {
        co_await (*opened)->close();
    }
    co_return opened.has_value();
}

}  // namespace galgo::storage

// What a crash leaves of a SimDisk, and the helpers of tests that look at and change what is
// stored.
#include <algorithm>
#include <set>
#include <utility>

#include "runtime_sim/detail/inode.hpp"
#include "runtime_sim/sim_disk.hpp"

namespace galgo::runtime_sim {

// ---- crash
// -------------------------------------------------------------------------------------------

void SimDisk::for_each_reachable(const auto& visit) const {
    std::vector<std::pair<std::string, InodePointer>> pending{{"", root_}};
    while (!pending.empty()) {
        auto [path, inode] = std::move(pending.back());
        pending.pop_back();
        visit(path, inode);
        for (const auto& [name, child] : inode->entries) {
            pending.emplace_back(path + "/" + name, child);
        }
    }
}

void SimDisk::crash(CrashKind kind, UnsyncedFate fate) {
    for (auto& [handle, open_file] : open_files_) {
        open_file.inode->opens = 0;
    }
    open_files_.clear();
    if (kind == CrashKind::kProcess) {
        return;
    }
    // The extremes are the likeliest to break an assumption, and a plain coin would never draw
    // them.
    constexpr std::uint32_t kKeepPercents[] = {0, 10, 50, 90, 100};
    const std::uint32_t keep_percent = kKeepPercents[random_.below(std::size(kKeepPercents))];
    const std::uint32_t torn_percent = random_.percent(50) ? options_.torn_sector_percent : 0;
    crash_directories(fate, keep_percent);
    for_each_reachable([&](const std::string&, const InodePointer& inode) {
        inode->content.crash_power(fate, keep_percent, torn_percent, random_);
    });
}

void SimDisk::crash_directories(UnsyncedFate fate, std::uint32_t keep_percent) {
    std::set<std::pair<const Inode*, std::string>> lost_names;
    for (const DirectoryChange& change : changes_) {
        bool keep = fate == UnsyncedFate::kKeepAll ||
                    (fate == UnsyncedFate::kSeeded && random_.percent(keep_percent));
        for (const EntryChange& entry : change.entries) {
            keep = keep && !lost_names.contains({entry.directory.get(), entry.name});
        }
        for (const EntryChange& entry : change.entries) {
            if (keep) {
                detail::set_entry(entry.directory->stable_entries, entry.name, entry.after);
            } else {
                lost_names.insert({entry.directory.get(), entry.name});
            }
        }
    }
    changes_.clear();
    // The tree is now what the stable entries say; names are counted anew.
    std::vector<InodePointer> reached{root_};
    root_->links = 0;
    for (std::size_t i = 0; i < reached.size(); ++i) {
        const InodePointer directory = reached[i];
        directory->entries = directory->stable_entries;
        for (const auto& [name, child] : directory->entries) {
            child->links = 0;
            reached.push_back(child);
        }
    }
    for (const InodePointer& inode : reached) {
        ++inode->links;
    }
    std::erase_if(inodes_, [](const std::weak_ptr<Inode>& known) { return known.expired(); });
    for (const std::weak_ptr<Inode>& known : inodes_) {
        const InodePointer inode = known.lock();
        if (inode != nullptr && std::ranges::find(reached, inode) == reached.end()) {
            inode->links = 0;
        }
    }
}

// ---- for tests
// ---------------------------------------------------------------------------------------

std::optional<std::vector<std::byte>> SimDisk::read_file(std::string_view path) const {
    const InodePointer inode = find(path);
    if (inode == nullptr || inode->is_directory) {
        return std::nullopt;
    }
    std::vector<std::byte> content(inode->content.size_bytes());
    inode->content.read(content, 0);
    return content;
}

void SimDisk::write_file(std::string_view path, ConstBytes content) {
    InodePointer at = root_;
    const std::vector<std::string_view> parts = detail::components_of(path);
    GALGO_CHECK(!parts.empty());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool is_last = i + 1 == parts.size();
        const std::string name(parts[i]);
        InodePointer& next = at->entries[name];
        if (next == nullptr) {
            next = std::make_shared<Inode>();
            next->is_directory = !is_last;
            next->links = 1;
            note_inode(next);
            make_changes_stable(*at, sequence_);
            at->stable_entries[name] = next;
            at = next;
            continue;
        }
        GALGO_CHECK(next->is_directory != is_last);
        make_changes_stable(*at, sequence_);
        at = next;
    }
    at->unreadable.clear();
    at->content.truncate(0, sequence_++);
    at->content.write(content, 0, sequence_++);
    at->content.settle();
    at->modified_us = modified_now();
}

bool SimDisk::corrupt(std::string_view path, std::uint64_t offset, std::uint8_t mask) {
    const InodePointer inode = find(path);
    if (inode == nullptr || inode->is_directory || offset >= inode->content.size_bytes()) {
        return false;
    }
    std::byte value{};
    inode->content.read({&value, 1}, offset);
    value ^= std::byte{mask};
    inode->content.write({&value, 1}, offset, sequence_++);
    inode->content.settle();
    return true;
}

bool SimDisk::make_unreadable(std::string_view path, std::uint64_t offset) {
    const InodePointer inode = find(path);
    if (inode == nullptr || inode->is_directory || offset >= inode->content.size_bytes()) {
        return false;
    }
    inode->unreadable.insert(offset / kSectorBytes);
    return true;
}

std::size_t SimDisk::unreadable_count(std::string_view path) const {
    const InodePointer inode = find(path);
    return inode == nullptr ? 0 : inode->unreadable.size();
}

bool SimDisk::truncate_to(std::string_view path, std::uint64_t size_bytes) {
    const InodePointer inode = find(path);
    if (inode == nullptr || inode->is_directory) {
        return false;
    }
    inode->content.truncate(size_bytes, sequence_++);
    inode->content.settle();
    return true;
}

bool SimDisk::exists(std::string_view path) const {
    return find(path) != nullptr;
}

std::vector<std::string> SimDisk::list_all() const {
    std::vector<std::string> paths;
    for_each_reachable([&](const std::string& path, const InodePointer& inode) {
        if (!path.empty()) {
            paths.push_back(inode->is_directory ? path + "/" : path);
        }
    });
    std::ranges::sort(paths);
    return paths;
}

void SimDisk::sync_all() {
    for_each_reachable([](const std::string&, const InodePointer& inode) {
        inode->content.settle();
        inode->stable_entries = inode->entries;
    });
    changes_.clear();
}

}  // namespace galgo::runtime_sim

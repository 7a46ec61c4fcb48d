// Inode of a SimDisk, and the two helpers that its sources share. See sim_disk.hpp for the model.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "runtime_sim/detail/file_content.hpp"
#include "runtime_sim/sim_disk.hpp"

namespace galgo::runtime_sim {

struct SimDisk::Inode {
    bool is_directory = false;
    std::uint64_t modified_us = 0;
    std::uint32_t links = 0;  ///< names that lead here now
    std::uint32_t opens = 0;
    detail::FileContent content;
    std::set<std::uint64_t> unreadable;  ///< sectors
    std::map<std::string, InodePointer, std::less<>> entries;
    std::map<std::string, InodePointer, std::less<>> stable_entries;

    [[nodiscard]] bool takes_space() const noexcept { return links != 0 || opens != 0; }
};

namespace detail {

/// The names of a path; "." and empty ones are skipped, ".." takes one away. Borrowed from `path`.
[[nodiscard]] inline std::vector<std::string_view> components_of(std::string_view path) {
    std::vector<std::string_view> parts;
    while (!path.empty()) {
        const std::size_t end = std::min(path.find('/'), path.size());
        const std::string_view part = path.substr(0, end);
        path.remove_prefix(std::min(end + 1, path.size()));
        if (part == "..") {
            if (!parts.empty()) {
                parts.pop_back();
            }
        } else if (!part.empty() && part != ".") {
            parts.push_back(part);
        }
    }
    return parts;
}

/// A null `after` erases the name.
template <class Map, class Pointer>
void set_entry(Map& entries, const std::string& name, const Pointer& after) {
    if (after == nullptr) {
        entries.erase(name);
    } else {
        entries[name] = after;
    }
}

}  // namespace detail

}  // namespace galgo::runtime_sim

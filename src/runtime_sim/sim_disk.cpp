// SimDisk: the operations and their errors, as POSIX has them. What a crash does is in
// sim_disk_crash.cpp.
#include "runtime_sim/sim_disk.hpp"

#include <algorithm>
#include <utility>

#include "runtime_sim/detail/inode.hpp"

namespace galgo::runtime_sim {

using runtime::FileHandle;
using runtime::OpenMode;

namespace {

constexpr std::size_t kNameBytesMax = 255;
constexpr std::size_t kTransferBytesMax = 0x7FFF'F000;

}  // namespace

SimDisk::SimDisk(std::uint64_t seed, const SimClock* clock, DiskOptions options)
    : random_(seed), clock_(clock), options_(options), root_(std::make_shared<Inode>()) {
    root_->is_directory = true;
    root_->links = 1;
    root_->modified_us = modified_now();
}
SimDisk::~SimDisk() = default;

// ---- operations
// --------------------------------------------------------------------------------------

std::int32_t SimDisk::open(std::string_view path, OpenMode mode) {
    if (const auto fault = strike(DiskOp::kOpen, path)) {
        return -fault->error;
    }
    Place place;
    if (const std::int32_t result = resolve(path, place); result < 0) {
        return result;
    }
    if (open_files_.size() >= options_.open_files_max) {
        return -EMFILE;
    }
    if (place.target == nullptr) {
        if (mode != OpenMode::kCreate && mode != OpenMode::kCreateExclusive) {
            return -ENOENT;
        }
        place.target = std::make_shared<Inode>();
        place.target->modified_us = modified_now();
        note_inode(place.target);
        apply({{place.parent, place.name, place.target}});
    } else if (mode == OpenMode::kCreateExclusive) {
        return -EEXIST;
    } else if (mode == OpenMode::kDirectory && !place.target->is_directory) {
        return -ENOTDIR;
    } else if (mode != OpenMode::kDirectory && mode != OpenMode::kRead &&
               place.target->is_directory) {
        return -EISDIR;
    }
    ++place.target->opens;
    const std::int32_t handle = next_handle_++;
    open_files_.emplace(handle, OpenFile{place.target, mode, std::string(path)});
    return handle;
}

std::int32_t SimDisk::close(FileHandle file) {
    OpenFile* open_file = find_open(file);
    if (open_file == nullptr) {
        return -EBADF;
    }
    const auto fault = strike(DiskOp::kClose, open_file->path);
    --open_file->inode->opens;
    open_files_.erase(file.value());  // also when it fails, as on Linux
    return fault ? -fault->error : 0;
}

std::int32_t SimDisk::read(FileHandle file, MutableBytes into, std::uint64_t offset) {
    OpenFile* open_file = find_open(file);
    if (open_file == nullptr) {
        return -EBADF;
    }
    if (open_file->inode->is_directory) {
        return -EISDIR;
    }
    if (const auto fault = strike(DiskOp::kRead, open_file->path)) {
        return -fault->error;
    }
    const detail::FileContent& content = open_file->inode->content;
    if (offset >= content.size_bytes()) {
        return 0;
    }
    const std::size_t count =
        std::min<std::uint64_t>({into.size(), content.size_bytes() - offset, kTransferBytesMax});
    const std::set<std::uint64_t>& unreadable = open_file->inode->unreadable;
    if (const auto bad = unreadable.lower_bound(offset / kSectorBytes);
        bad != unreadable.end() && *bad * kSectorBytes < offset + count) {
        return -EIO;
    }
    content.read(into.first(count), offset);
    return static_cast<std::int32_t>(count);
}

std::int32_t SimDisk::write(FileHandle file, ConstBytes from, std::uint64_t offset) {
    OpenFile* open_file = find_open(file);
    if (open_file == nullptr || open_file->mode == OpenMode::kRead ||
        open_file->mode == OpenMode::kDirectory) {
        return -EBADF;
    }
    const auto fault = strike(DiskOp::kWrite, open_file->path);
    std::size_t count = std::min(from.size(), kTransferBytesMax);
    if (fault && fault->short_transfer) {
        count = count < 2 ? count : random_.between(1, count - 1);
    } else if (fault) {
        count = random_.below(count + 1);
    }
    if (count != 0) {
        const std::size_t fitting = fitting_bytes(*open_file->inode, offset, count);
        if (fitting == 0 && !fault) {
            return -ENOSPC;
        }
        count = fitting;
    }
    Inode& inode = *open_file->inode;
    inode.content.write(from.first(count), offset, sequence_++);
    std::erase_if(inode.unreadable, [begin = offset, end = offset + count](std::uint64_t sector) {
        return sector * kSectorBytes >= begin && (sector + 1) * kSectorBytes <= end;
    });
    inode.modified_us = modified_now();
    if (fault && !fault->short_transfer) {
        return -fault->error;
    }
    return static_cast<std::int32_t>(count);
}

std::uint64_t SimDisk::begin_sync(FileHandle file) {
    const std::uint64_t token = sequence_++;
    if (OpenFile* open_file = find_open(file); open_file != nullptr) {
        open_file->inode->content.begin_sync(token);
    }
    return token;
}

std::int32_t SimDisk::finish_sync(FileHandle file, std::uint64_t token) {
    OpenFile* open_file = find_open(file);
    if (open_file == nullptr) {
        return -EBADF;
    }
    const auto fault = strike(DiskOp::kSync, open_file->path);
    Inode& inode = *open_file->inode;
    if (fault) {
        inode.content.fail_sync(token);
        return -fault->error;
    }
    if (inode.is_directory) {
        inode.content.abort_sync(token);
        make_changes_stable(inode, token);
    } else {
        inode.content.finish_sync(token);
    }
    return 0;
}

void SimDisk::abort_sync(FileHandle file, std::uint64_t token) {
    if (OpenFile* open_file = find_open(file); open_file != nullptr) {
        open_file->inode->content.abort_sync(token);
    }
}

std::int32_t SimDisk::truncate(FileHandle file, std::uint64_t size_bytes) {
    OpenFile* open_file = find_open(file);
    if (open_file == nullptr) {
        return -EBADF;
    }
    if (open_file->mode == OpenMode::kRead || open_file->mode == OpenMode::kDirectory) {
        return -EINVAL;
    }
    if (const auto fault = strike(DiskOp::kTruncate, open_file->path)) {
        return -fault->error;
    }
    open_file->inode->content.truncate(size_bytes, sequence_++);
    open_file->inode->modified_us = modified_now();
    return 0;
}

std::int32_t SimDisk::allocate(FileHandle file, std::uint64_t offset, std::uint64_t size_bytes) {
    OpenFile* open_file = find_open(file);
    if (open_file == nullptr || open_file->mode == OpenMode::kRead ||
        open_file->mode == OpenMode::kDirectory) {
        return -EBADF;
    }
    if (size_bytes == 0) {
        return -EINVAL;
    }
    if (const auto fault = strike(DiskOp::kAllocate, open_file->path)) {
        return -fault->error;
    }
    if (fitting_bytes(*open_file->inode, offset, size_bytes) < size_bytes) {
        return -ENOSPC;
    }
    open_file->inode->content.reserve(offset, size_bytes);
    return 0;
}

std::int32_t SimDisk::rename(std::string_view from, std::string_view to) {
    if (const auto fault = strike(DiskOp::kRename, from)) {
        return -fault->error;
    }
    Place source;
    Place target;
    if (const std::int32_t result = resolve(from, source); result < 0) {
        return result;
    }
    if (const std::int32_t result = resolve(to, target); result < 0) {
        return result;
    }
    if (source.target == nullptr) {
        return -ENOENT;
    }
    if (source.target == root_ || target.target == root_) {
        return -EBUSY;
    }
    if (source.target == target.target) {
        return 0;
    }
    if (source.target->is_directory) {
        const auto from_parts = detail::components_of(from);
        const auto to_parts = detail::components_of(to);
        if (to_parts.size() > from_parts.size() &&
            std::equal(from_parts.begin(), from_parts.end(), to_parts.begin())) {
            return -EINVAL;
        }
    }
    if (target.target != nullptr) {
        if (target.target->is_directory && !source.target->is_directory) {
            return -EISDIR;
        }
        if (!target.target->is_directory && source.target->is_directory) {
            return -ENOTDIR;
        }
        if (!target.target->entries.empty()) {
            return -ENOTEMPTY;
        }
    }
    apply({{target.parent, target.name, source.target}, {source.parent, source.name, nullptr}});
    return 0;
}

std::int32_t SimDisk::unlink(std::string_view path) {
    if (const auto fault = strike(DiskOp::kUnlink, path)) {
        return -fault->error;
    }
    Place place;
    if (const std::int32_t result = resolve(path, place); result < 0) {
        return result;
    }
    if (place.target == nullptr) {
        return -ENOENT;
    }
    if (place.target->is_directory) {
        return -EISDIR;
    }
    apply({{place.parent, place.name, nullptr}});
    return 0;
}

std::int32_t SimDisk::make_directory(std::string_view path) {
    if (const auto fault = strike(DiskOp::kMakeDirectory, path)) {
        return -fault->error;
    }
    Place place;
    if (const std::int32_t result = resolve(path, place); result < 0) {
        return result;
    }
    if (place.target != nullptr) {
        return -EEXIST;
    }
    auto directory = std::make_shared<Inode>();
    directory->is_directory = true;
    directory->modified_us = modified_now();
    apply({{place.parent, place.name, std::move(directory)}});
    return 0;
}

std::int32_t SimDisk::remove_directory(std::string_view path) {
    if (const auto fault = strike(DiskOp::kRemoveDirectory, path)) {
        return -fault->error;
    }
    Place place;
    if (const std::int32_t result = resolve(path, place); result < 0) {
        return result;
    }
    if (place.target == nullptr) {
        return -ENOENT;
    }
    if (!place.target->is_directory) {
        return -ENOTDIR;
    }
    if (place.target == root_) {
        return -EBUSY;
    }
    if (!place.target->entries.empty()) {
        return -ENOTEMPTY;
    }
    apply({{place.parent, place.name, nullptr}});
    return 0;
}

Result<std::vector<runtime::DirectoryEntry>> SimDisk::list_directory(std::string_view path) const {
    const InodePointer directory = find(path);
    if (directory == nullptr) {
        return fail_os(ENOENT);
    }
    if (!directory->is_directory) {
        return fail_os(ENOTDIR);
    }
    std::vector<runtime::DirectoryEntry> found;
    for (const auto& [name, inode] : directory->entries) {
        found.push_back({.name = name, .is_directory = inode->is_directory});
    }
    return found;
}

Result<runtime::FileFacts> SimDisk::file_facts(std::string_view path) const {
    const InodePointer inode = find(path);
    if (inode == nullptr) {
        return fail_os(ENOENT);
    }
    return runtime::FileFacts{.size_bytes = inode->content.size_bytes(),
                              .modified_us = inode->modified_us,
                              .is_directory = inode->is_directory};
}

runtime::DiskSpace SimDisk::space() const {
    const std::uint64_t used = used_bytes();
    const std::uint64_t total = options_.capacity_bytes;
    return {.total_bytes = total, .free_bytes = used < total ? total - used : 0};
}

std::uint64_t SimDisk::draw_latency() {
    const std::uint64_t latency = random_.between(options_.latency_min_ns, options_.latency_max_ns);
    return std::max<std::uint64_t>(1,
                                   random_.percent(options_.slow_percent) ? latency * 20 : latency);
}

std::uint64_t SimDisk::delay_of(DiskOp op, std::string_view path) const {
    std::uint64_t sum = 0;
    for (const DiskDelay& delay : delays_) {
        sum += delay.op == op && path.find(delay.path_contains) != std::string_view::npos
                   ? delay.nanoseconds
                   : 0;
    }
    return sum;
}

std::uint64_t SimDisk::delay_of(DiskOp op, FileHandle file) const {
    return delays_.empty() ? 0 : delay_of(op, path_of(file));
}

std::string_view SimDisk::path_of(FileHandle file) const {
    const auto it = open_files_.find(file.value());
    return it == open_files_.end() ? std::string_view{} : std::string_view(it->second.path);
}

void SimDisk::add_fault(DiskFault fault) {
    faults_.push_back(std::move(fault));
}

// ---- inside
// ------------------------------------------------------------------------------------------

SimDisk::InodePointer SimDisk::find(std::string_view path) const {
    InodePointer at = root_;
    for (const std::string_view part : detail::components_of(path)) {
        const auto it = at->entries.find(part);
        if (it == at->entries.end()) {
            return nullptr;
        }
        at = it->second;
    }
    return at;
}

std::int32_t SimDisk::resolve(std::string_view path, Place& place) const {
    if (path.empty()) {
        return -ENOENT;
    }
    std::vector<std::string_view> parts = detail::components_of(path);
    if (parts.empty()) {
        place = {.parent = root_, .name = "/", .target = root_};
        return 0;
    }
    place.name = std::string(parts.back());
    parts.pop_back();
    if (place.name.size() > kNameBytesMax) {
        return -ENAMETOOLONG;
    }
    place.parent = root_;
    for (const std::string_view part : parts) {
        if (!place.parent->is_directory) {
            return -ENOTDIR;
        }
        const auto it = place.parent->entries.find(part);
        if (it == place.parent->entries.end()) {
            return -ENOENT;
        }
        place.parent = it->second;
    }
    if (!place.parent->is_directory) {
        return -ENOTDIR;
    }
    if (place.parent != root_ && place.parent->links == 0) {
        return -ENOENT;
    }
    const auto it = place.parent->entries.find(place.name);
    place.target = it == place.parent->entries.end() ? nullptr : it->second;
    return 0;
}

SimDisk::OpenFile* SimDisk::find_open(FileHandle file) {
    const auto it = open_files_.find(file.value());
    return it == open_files_.end() ? nullptr : &it->second;
}

std::optional<DiskFault> SimDisk::strike(DiskOp op, std::string_view path) {
    for (auto it = faults_.begin(); it != faults_.end(); ++it) {
        if (it->op != op || path.find(it->path_contains) == std::string_view::npos) {
            continue;
        }
        if (it->skip != 0) {
            --it->skip;
            continue;
        }
        ++fault_count_;
        DiskFault fault = *it;
        if (--it->times == 0) {
            faults_.erase(it);
        }
        return fault;
    }
    return std::nullopt;
}

std::uint64_t SimDisk::modified_now() const {
    return clock_ == nullptr ? 0 : clock_->wall_now().value();
}

void SimDisk::apply(std::vector<EntryChange> entries) {
    for (const EntryChange& change : entries) {
        const auto it = change.directory->entries.find(change.name);
        if (it != change.directory->entries.end()) {
            --it->second->links;
        }
        if (change.after != nullptr) {
            ++change.after->links;
        }
        detail::set_entry(change.directory->entries, change.name, change.after);
        change.directory->modified_us = modified_now();
    }
    changes_.push_back({.sequence = sequence_++, .entries = std::move(entries)});
}

void SimDisk::make_changes_stable(const Inode& directory, std::uint64_t token) {
    // Backwards: a change that a chosen one builds on (same name of the same directory) goes with
    // it.
    using Name = std::pair<const Inode*, std::string_view>;
    std::set<Name> names;
    std::vector<bool> chosen(changes_.size(), false);
    for (std::size_t i = changes_.size(); i-- > 0;) {
        const DirectoryChange& change = changes_[i];
        if (change.sequence > token) {
            continue;
        }
        chosen[i] = std::ranges::any_of(change.entries, [&](const EntryChange& entry) {
            return entry.directory.get() == &directory ||
                   names.contains({entry.directory.get(), entry.name});
        });
        if (chosen[i]) {
            for (const EntryChange& entry : change.entries) {
                names.insert({entry.directory.get(), entry.name});
            }
        }
    }
    std::vector<DirectoryChange> rest;
    for (std::size_t i = 0; i < changes_.size(); ++i) {
        if (!chosen[i]) {
            rest.push_back(std::move(changes_[i]));
            continue;
        }
        for (const EntryChange& entry : changes_[i].entries) {
            detail::set_entry(entry.directory->stable_entries, entry.name, entry.after);
        }
    }
    changes_ = std::move(rest);
}

std::size_t SimDisk::fitting_bytes(const Inode& inode, std::uint64_t offset,
                                   std::size_t size) const {
    std::uint64_t free_sectors = space().free_bytes / kSectorBytes;
    if (free_sectors >= size / kSectorBytes + 2) {
        return size;
    }
    for (std::size_t done = 0; done < size;) {
        const std::uint64_t at = offset + done;
        if (inode.content.needs_space(at / kSectorBytes)) {
            if (free_sectors == 0) {
                return done;
            }
            --free_sectors;
        }
        done += kSectorBytes - at % kSectorBytes;
    }
    return size;
}

void SimDisk::note_inode(const InodePointer& inode) {
    std::erase_if(inodes_, [](const std::weak_ptr<Inode>& known) { return known.expired(); });
    inodes_.push_back(inode);
}

std::uint64_t SimDisk::used_bytes() const {
    std::uint64_t sectors = 0;
    for (const std::weak_ptr<Inode>& known : inodes_) {
        const InodePointer inode = known.lock();
        if (inode != nullptr && inode->takes_space()) {
            sectors += inode->content.used_sectors();
        }
    }
    return sectors * kSectorBytes;
}

}  // namespace galgo::runtime_sim

#include "check/overlay_backend.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace galgo::check {

using runtime::DirectoryEntry;
using runtime::FileFacts;
using runtime::OpenMode;

namespace {

/// The next name of `rest`, which is moved behind it; empty at the end.
std::string_view next_name(std::string_view& rest) noexcept {
    while (rest.starts_with('/')) {
        rest.remove_prefix(1);
    }
    const std::string_view name = rest.substr(0, rest.find('/'));
    rest.remove_prefix(name.size());
    return name;
}

std::string joined(const std::string& directory, std::string_view name) {
    std::string path = directory;
    if (!path.ends_with('/')) {
        path += '/';
    }
    return path.append(name);
}

std::int32_t errno_of(const Error& error) noexcept {
    return -(error.os_errno != 0 ? error.os_errno : EIO);
}

/// The extent that holds `position`, or the first one behind it.
template <class Map>
auto at_or_behind(Map& extents, std::uint64_t position) {
    auto it = extents.upper_bound(position);
    if (it != extents.begin()) {
        const auto before = std::prev(it);
        if (before->first + before->second.size() > position) {
            it = before;
        }
    }
    return it;
}

}  // namespace

struct OverlayBackend::Forward : runtime::IoOp {
    OverlayBackend* overlay = nullptr;
    IoOp* outer = nullptr;
    std::optional<File> file;  // of an open
    NodePointer node;          // of a read, and the rest
    MutableBytes into;
    std::uint64_t offset = 0;
    std::size_t wanted = 0;
};

OverlayBackend::OverlayBackend(runtime::IoBackend& real, std::uint64_t bytes_max)
    : real_(real), bytes_max_(bytes_max) {
    forget();
    real_.set_awake_hook([this] { call_awake_hook(); });
}

OverlayBackend::~OverlayBackend() {
    real_.set_awake_hook({});
}

void OverlayBackend::forget() {
    absolute_ = std::make_shared<Node>(Node{.is_directory = true, .backing = "/"});
    relative_ = std::make_shared<Node>(Node{.is_directory = true, .backing = "."});
    changes_.clear();
    bytes_ = 0;
    exceeded_ = false;
}

// ---- the tree
// ------------------------------------------------------------------------------------

OverlayBackend::Found OverlayBackend::find(std::string_view path) const {
    NodePointer node = path.starts_with('/') ? absolute_ : relative_;
    for (std::string_view name = next_name(path); !name.empty(); name = next_name(path)) {
        const auto child = node->children.find(std::string(name));
        if (child == node->children.end()) {
            Found found;
            if (node->is_directory && !node->backing.empty()) {
                found.real = joined(node->backing, name).append(path);
            }
            return found;
        }
        if (child->second == nullptr) {
            return {};
        }
        node = NodePointer(child->second);
    }
    return {.node = std::move(node), .real = {}};
}

std::int32_t OverlayBackend::pin(std::string_view path, NodePointer& node) {
    node = path.starts_with('/') ? absolute_ : relative_;
    for (std::string_view name = next_name(path); !name.empty(); name = next_name(path)) {
        if (!node->is_directory) {
            return -ENOTDIR;
        }
        const auto child = node->children.find(std::string(name));
        if (child != node->children.end()) {
            if (child->second == nullptr) {
                return -ENOENT;
            }
            node = NodePointer(child->second);
            continue;
        }
        if (node->backing.empty()) {
            return -ENOENT;
        }
        std::string real = joined(node->backing, name);
        const Result<FileFacts> facts = real_.file_facts(real);
        if (!facts.has_value()) {
            return errno_of(facts.error());
        }
        const std::uint64_t size = facts->is_directory ? 0 : facts->size_bytes;
        auto made = std::make_shared<Node>(Node{.is_directory = facts->is_directory,
                                                .backing = std::move(real),
                                                .size_bytes = size,
                                                .base_bytes = size,
                                                .modified_us = facts->modified_us});
        node->children[std::string(name)] = made;
        node = std::move(made);
    }
    return 0;
}

std::int32_t OverlayBackend::pin_parent(std::string_view path, NodePointer& parent,
                                        std::string& name) {
    while (path.size() > 1 && path.ends_with('/')) {
        path.remove_suffix(1);
    }
    const std::size_t slash = path.rfind('/');
    const bool has_slash = slash != std::string_view::npos;
    name = path.substr(has_slash ? slash + 1 : 0);
    const std::int32_t pinned = pin(has_slash ? path.substr(0, slash + 1) : "", parent);
    return pinned == 0 && !parent->is_directory ? -ENOTDIR : pinned;
}

const OverlayBackend::Extents* OverlayBackend::written(const std::string& path) const {
    const Found found = find(path);
    return found.node == nullptr || found.node->extents.empty() ? nullptr : &found.node->extents;
}

void OverlayBackend::note(Change change) {
    if (change.kind == ChangeKind::kWritten && !changes_.empty() &&
        changes_.back().kind == ChangeKind::kWritten && changes_.back().path == change.path) {
        changes_.back().first = std::min(changes_.back().first, change.first);
        changes_.back().end = std::max(changes_.back().end, change.end);
    } else if (changes_.size() < kChangesMax) {
        changes_.push_back(std::move(change));
    } else {
        exceeded_ = true;
    }
}

// ---- bytes
// ---------------------------------------------------------------------------------------

void OverlayBackend::erase_range(Node& node, std::uint64_t from, std::uint64_t to) {
    for (auto it = at_or_behind(node.extents, from); it != node.extents.end() && it->first < to;) {
        const std::uint64_t begin = it->first;
        std::vector<std::byte> data = std::move(it->second);
        const std::uint64_t end = begin + data.size();
        bytes_ -= std::min(end, to) - std::max(begin, from);
        it = node.extents.erase(it);
        if (end > to) {
            node.extents.emplace(
                to, std::vector<std::byte>(data.begin() + static_cast<std::ptrdiff_t>(to - begin),
                                           data.end()));
        }
        if (begin < from) {
            data.resize(static_cast<std::size_t>(from - begin));
            node.extents.emplace(begin, std::move(data));
        }
    }
}

void OverlayBackend::lay_over(const Node& node, MutableBytes bytes, std::uint64_t offset) {
    const std::uint64_t end = offset + bytes.size();
    if (node.base_bytes < end) {
        const std::uint64_t from = std::max(node.base_bytes, offset);
        std::ranges::fill(bytes.subspan(static_cast<std::size_t>(from - offset)), std::byte{0});
    }
    for (auto it = at_or_behind(node.extents, offset); it != node.extents.end() && it->first < end;
         ++it) {
        const std::uint64_t from = std::max(it->first, offset);
        const std::uint64_t to = std::min(it->first + it->second.size(), end);
        std::memcpy(bytes.data() + (from - offset), it->second.data() + (from - it->first),
                    static_cast<std::size_t>(to - from));
    }
}

bool OverlayBackend::covers(const Node& node, std::uint64_t from, std::uint64_t to) {
    to = std::min(to, node.base_bytes);
    for (auto it = at_or_behind(node.extents, from);
         from < to && it != node.extents.end() && it->first <= from; ++it) {
        from = it->first + it->second.size();
    }
    return from >= to;
}

std::int32_t OverlayBackend::put(FileHandle handle, ConstBytes from, std::uint64_t offset) {
    File* file = find_file(handle);
    if (file == nullptr || !file->writable || file->node->is_directory) {
        return -EBADF;
    }
    if (from.empty()) {
        return 0;
    }
    Node& node = *file->node;
    if (bytes_ + from.size() > bytes_max_) {
        exceeded_ = true;
        return -ENOSPC;
    }
    erase_range(node, offset, offset + from.size());
    const auto behind = node.extents.lower_bound(offset);
    const bool has_before = behind != node.extents.begin();
    if (has_before && std::prev(behind)->first + std::prev(behind)->second.size() == offset &&
        std::prev(behind)->second.size() < kMiB) {
        std::vector<std::byte>& data = std::prev(behind)->second;
        data.insert(data.end(), from.begin(), from.end());
    } else {
        node.extents.emplace(offset, std::vector<std::byte>(from.begin(), from.end()));
    }
    bytes_ += from.size();
    node.size_bytes = std::max(node.size_bytes, offset + from.size());
    node.modified_us = real_.wall_now().value();
    note({.kind = ChangeKind::kWritten,
          .path = file->path,
          .first = offset,
          .end = offset + from.size()});
    return static_cast<std::int32_t>(from.size());
}

// ---- files
// ---------------------------------------------------------------------------------------

std::int32_t OverlayBackend::add_file(File file) {
    const std::int32_t handle = next_handle_++;
    files_.emplace(handle, std::move(file));
    return handle;
}

OverlayBackend::File* OverlayBackend::find_file(FileHandle file) {
    const auto found = files_.find(file.value());
    return found == files_.end() ? nullptr : &found->second;
}

std::int32_t OverlayBackend::find_or_make(const std::string& path, OpenMode mode,
                                          NodePointer& node) {
    const bool makes = mode == OpenMode::kCreate || mode == OpenMode::kCreateExclusive;
    const std::int32_t pinned = pin(path, node);
    if (pinned == 0 && mode == OpenMode::kCreateExclusive) {
        return -EEXIST;
    }
    if (pinned == 0 && node->is_directory != (mode == OpenMode::kDirectory)) {
        return node->is_directory ? -EISDIR : -ENOTDIR;
    }
    if (pinned != -ENOENT || !makes) {
        return pinned;
    }
    NodePointer parent;
    std::string name;
    const std::int32_t above = pin_parent(path, parent, name);
    if (above < 0) {
        return above;
    }
    node = std::make_shared<Node>(Node{.modified_us = real_.wall_now().value()});
    parent->children[name] = node;
    note({.kind = ChangeKind::kMade, .path = path});
    return 0;
}

void OverlayBackend::open(IoOp& op, const char* path, OpenMode mode, std::uint32_t) {
    File file{.node = {}, .path = path, .writable = mode != OpenMode::kRead};
    const std::int32_t found = find_or_make(file.path, mode, file.node);
    if (found < 0) {
        complete_later(op, found);
        return;
    }
    if (file.node->base_bytes == 0) {
        complete_later(op, add_file(std::move(file)));
        return;
    }
    auto forward = std::make_unique<Forward>();
    Forward& submitted = *forward;
    submitted.overlay = this;
    submitted.outer = &op;
    submitted.file = std::move(file);
    submitted.complete = [](IoOp& done, std::int32_t result) noexcept {
        auto& self = static_cast<Forward&>(done);
        if (result >= 0) {
            self.file->real = FileHandle{result};
            result = self.overlay->add_file(*std::move(self.file));
        }
        self.overlay->finish(self, result);
    };
    op.in_flight = true;
    forwards_[&op] = std::move(forward);
    real_.open(submitted, submitted.file->node->backing.c_str(), OpenMode::kRead, 0);
}

void OverlayBackend::close(IoOp& op, FileHandle handle) {
    const auto found = files_.find(handle.value());
    if (found == files_.end()) {
        complete_later(op, -EBADF);
        return;
    }
    const FileHandle real = found->second.real;
    files_.erase(found);
    if (real == runtime::kNoFile) {
        complete_later(op, 0);
    } else {
        real_.close(op, real);
    }
}

void OverlayBackend::read(IoOp& op, FileHandle handle, MutableBytes into, std::uint64_t offset) {
    const File* file = find_file(handle);
    if (file == nullptr || file->node->is_directory) {
        complete_later(op, file == nullptr ? -EBADF : -EISDIR);
        return;
    }
    const NodePointer& node = file->node;
    const std::uint64_t left = node->size_bytes - std::min(node->size_bytes, offset);
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, into.size()));
    into = into.first(wanted);
    if (covers(*node, offset, offset + wanted)) {
        lay_over(*node, into, offset);
        complete_later(op, static_cast<std::int32_t>(wanted));
        return;
    }
    if (node->extents.empty() && offset + wanted <= node->base_bytes) {
        real_.read(op, file->real, into, offset);
        return;
    }
    auto forward = std::make_unique<Forward>();
    Forward& submitted = *forward;
    submitted.overlay = this;
    submitted.outer = &op;
    submitted.node = node;
    submitted.into = into;
    submitted.offset = offset;
    submitted.wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(wanted, node->base_bytes - offset));
    submitted.complete = [](IoOp& done, std::int32_t result) noexcept {
        auto& self = static_cast<Forward&>(done);
        if (result >= 0) {
            // A short read ends here: the caller goes on behind it.
            const auto size = static_cast<std::size_t>(result);
            const MutableBytes got = size >= self.wanted ? self.into : self.into.first(size);
            lay_over(*self.node, got, self.offset);
            result = static_cast<std::int32_t>(got.size());
        }
        self.overlay->finish(self, result);
    };
    op.in_flight = true;
    forwards_[&op] = std::move(forward);
    real_.read(submitted, file->real, into.first(submitted.wanted), offset);
}

void OverlayBackend::finish(Forward& forward, std::int32_t result) noexcept {
    IoOp& outer = *forward.outer;
    forwards_.erase(&outer);  // `forward` is gone
    outer.in_flight = false;
    outer.complete(outer, result);
}

void OverlayBackend::write(IoOp& op, FileHandle file, ConstBytes from, std::uint64_t offset) {
    complete_later(op, put(file, from, offset));
}

std::int32_t OverlayBackend::write_now(FileHandle file, ConstBytes from, std::uint64_t offset) {
    return put(file, from, offset);
}

void OverlayBackend::writev(IoOp& op, FileHandle file, std::span<const iovec> parts,
                            std::uint64_t offset) {
    std::int32_t written = 0;
    for (const iovec& part : parts) {
        const std::int32_t one =
            put(file, ConstBytes(static_cast<const std::byte*>(part.iov_base), part.iov_len),
                offset + static_cast<std::uint64_t>(written));
        if (one < 0) {
            written = written > 0 ? written : one;
            break;
        }
        written += one;
    }
    complete_later(op, written);
}

void OverlayBackend::sync(IoOp& op, FileHandle file) {
    complete_later(op, find_file(file) != nullptr ? 0 : -EBADF);
}

void OverlayBackend::allocate(IoOp& op, FileHandle file, std::uint64_t, std::uint64_t) {
    complete_later(op, find_file(file) != nullptr ? 0 : -EBADF);
}

void OverlayBackend::prefetch(IoOp& op, FileHandle file, std::uint64_t, std::uint64_t) {
    complete_later(op, find_file(file) != nullptr ? 0 : -EBADF);
}

void OverlayBackend::truncate(IoOp& op, FileHandle handle, std::uint64_t size_bytes) {
    File* file = find_file(handle);
    if (file == nullptr || !file->writable || file->node->is_directory) {
        complete_later(op, -EBADF);
        return;
    }
    Node& node = *file->node;
    if (size_bytes != node.size_bytes) {
        note({.kind = ChangeKind::kCut,
              .path = file->path,
              .first = node.size_bytes,
              .end = size_bytes});
    }
    erase_range(node, size_bytes, ~std::uint64_t{0});
    node.base_bytes = std::min(node.base_bytes, size_bytes);
    node.size_bytes = size_bytes;
    complete_later(op, 0);
}

// ---- names
// ---------------------------------------------------------------------------------------

std::int32_t OverlayBackend::move(const std::string& from, const std::string& to) {
    NodePointer node;
    NodePointer old;
    NodePointer parent_from;
    NodePointer parent_to;
    std::string name_from;
    std::string name_to;
    for (const std::int32_t result : {pin(from, node), pin_parent(from, parent_from, name_from),
                                      pin_parent(to, parent_to, name_to)}) {
        if (result < 0) {
            return result;
        }
    }
    if (pin(to, old) == 0) {
        if (old->is_directory != node->is_directory) {
            return old->is_directory ? -EISDIR : -ENOTDIR;
        }
        const auto entries =
            old->is_directory ? list_directory(to) : Result<std::vector<DirectoryEntry>>({});
        if (!entries.has_value() || !entries->empty()) {
            return entries.has_value() ? -ENOTEMPTY : errno_of(entries.error());
        }
    }
    parent_from->children[name_from] = nullptr;
    parent_to->children[name_to] = std::move(node);
    note({.kind = ChangeKind::kMoved, .path = from, .path_to = to});
    return 0;
}

void OverlayBackend::rename(IoOp& op, const char* from, const char* to) {
    complete_later(op, move(from, to));
}

std::int32_t OverlayBackend::remove(const std::string& path, bool is_directory) {
    NodePointer node;
    NodePointer parent;
    std::string name;
    if (const std::int32_t result = pin(path, node); result < 0) {
        return result;
    }
    if (node->is_directory != is_directory) {
        return is_directory ? -ENOTDIR : -EISDIR;
    }
    if (is_directory) {
        const auto entries = list_directory(path);
        if (!entries.has_value() || !entries->empty()) {
            return entries.has_value() ? -ENOTEMPTY : errno_of(entries.error());
        }
    }
    if (const std::int32_t result = pin_parent(path, parent, name); result < 0) {
        return result;
    }
    parent->children[name] = nullptr;
    note({.kind = ChangeKind::kRemoved, .path = path});
    return 0;
}

void OverlayBackend::unlink(IoOp& op, const char* path) {
    complete_later(op, remove(path, false));
}

void OverlayBackend::remove_directory(IoOp& op, const char* path) {
    complete_later(op, remove(path, true));
}

void OverlayBackend::make_directory(IoOp& op, const char* path, std::uint32_t) {
    NodePointer node;
    NodePointer parent;
    std::string name;
    std::int32_t result = pin(path, node);
    if (result == 0) {
        result = -EEXIST;
    } else if (result == -ENOENT) {
        result = pin_parent(path, parent, name);
    }
    if (result == 0) {
        parent->children[name] = std::make_shared<Node>(Node{.is_directory = true});
        note({.kind = ChangeKind::kDirectoryMade, .path = path});
    }
    complete_later(op, result);
}

Result<std::vector<DirectoryEntry>> OverlayBackend::list_directory(const std::string& path) {
    const Found found = find(path);
    if (found.node == nullptr) {
        return found.real.empty() ? Result<std::vector<DirectoryEntry>>(fail_os(ENOENT))
                                  : real_.list_directory(found.real);
    }
    if (!found.node->is_directory) {
        return fail_os(ENOTDIR);
    }
    std::vector<DirectoryEntry> entries;
    if (!found.node->backing.empty()) {
        GALGO_TRY_ASSIGN(entries, real_.list_directory(found.node->backing));
    }
    const auto& children = found.node->children;
    std::erase_if(entries, [&children](const DirectoryEntry& entry) {
        return children.contains(entry.name);
    });
    for (const auto& [name, child] : children) {
        if (child != nullptr) {
            entries.push_back({.name = name, .is_directory = child->is_directory});
        }
    }
    return entries;
}

Result<FileFacts> OverlayBackend::file_facts(const std::string& path) {
    const Found found = find(path);
    if (found.node == nullptr) {
        return found.real.empty() ? Result<FileFacts>(fail_os(ENOENT))
                                  : real_.file_facts(found.real);
    }
    return FileFacts{.size_bytes = found.node->size_bytes,
                     .modified_us = found.node->modified_us,
                     .is_directory = found.node->is_directory};
}

Result<runtime::DiskSpace> OverlayBackend::disk_space(const std::string& path) {
    return real_.disk_space(path);
}

// ---- completions
// ---------------------------------------------------------------------------------

void OverlayBackend::complete_later(IoOp& op, std::int32_t result) {
    op.in_flight = true;
    done_.emplace_back(&op, result);
}

std::size_t OverlayBackend::poll(Instant wait_until) {
    if (done_.empty()) {
        return real_.poll(wait_until);
    }
    const std::vector<std::pair<IoOp*, std::int32_t>> done = std::exchange(done_, {});
    call_awake_hook();
    for (const auto& [op, result] : done) {
        op->in_flight = false;
        op->complete(*op, result);
    }
    return done.size() + real_.poll(Instant{0});
}

void OverlayBackend::cancel(IoOp& op) {
    const auto forward = forwards_.find(&op);
    if (forward != forwards_.end()) {
        real_.cancel(*forward->second);
    } else if (std::ranges::find(done_, &op, &std::pair<IoOp*, std::int32_t>::first) ==
               done_.end()) {
        real_.cancel(op);
    }
}

// ---- no network
// ----------------------------------------------------------------------------------

Result<runtime::SocketHandle> OverlayBackend::listen(const runtime::SocketAddress&) {
    return fail_os(ENOTSUP);
}
runtime::SocketAddress OverlayBackend::local_address(SocketHandle) {
    return {};
}
runtime::SocketAddress OverlayBackend::peer_address(SocketHandle) {
    return {};
}
void OverlayBackend::accept(IoOp& op, SocketHandle) {
    complete_later(op, -ENOTSUP);
}
void OverlayBackend::connect(IoOp& op, const runtime::SocketAddress&) {
    complete_later(op, -ENOTSUP);
}
void OverlayBackend::receive_any(IoOp& op, SocketHandle) {
    complete_later(op, -ENOTSUP);
}
void OverlayBackend::return_chunk(const runtime::ReceivedChunk&) {}
void OverlayBackend::receive(IoOp& op, SocketHandle, MutableBytes) {
    complete_later(op, -ENOTSUP);
}
void OverlayBackend::send(IoOp& op, SocketHandle, std::span<const iovec>) {
    complete_later(op, -ENOTSUP);
}
void OverlayBackend::shutdown_socket(SocketHandle) {}
void OverlayBackend::close_socket(SocketHandle) {}

}  // namespace galgo::check

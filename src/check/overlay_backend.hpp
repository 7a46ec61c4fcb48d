// OverlayBackend: lets reads through to another back end and keeps every change in memory. Code
// that repairs files can run on it to show what it would do; nothing of the real disk is changed,
// because no path of this class leads to an operation that changes something.
//
// Model. A tree of nodes shadows what was touched: a node has bytes of its own (extents), or stands
// for a real path, or for nothing (removed). What no node shadows is real. Real files are opened
// for reading only. Syncs and allocations succeed and do nothing. Not kept: modes, times, links.
//
// Bounded: bytes written, and the list of changes. Above the bound a write fails with ENOSPC and
// exceeded() is true until forget(). A loop polls the overlay, and nobody the real one. One shard.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/units.hpp"
#include "runtime/io.hpp"

namespace galgo::check {

enum class ChangeKind : std::uint8_t {
    kMade,     ///< a file
    kWritten,  ///< bytes [first, end), some of them
    kCut,      ///< to `end` bytes, from `first`
    kMoved,    ///< to `path_to`
    kRemoved,  ///< a file or an empty directory
    kDirectoryMade,
};

struct Change {
    ChangeKind kind = ChangeKind::kMade;
    std::string path;
    std::string path_to{};
    std::uint64_t first = 0;
    std::uint64_t end = 0;
};

class OverlayBackend final : public runtime::IoBackend {
 public:
    using IoOp = runtime::IoOp;
    using FileHandle = runtime::FileHandle;
    using SocketHandle = runtime::SocketHandle;
    using Extents = std::map<std::uint64_t, std::vector<std::byte>>;

    static constexpr std::uint64_t kBytesMaxDefault = 256 * kMiB;
    static constexpr std::size_t kChangesMax = 4096;

    /// `real` outlives it.
    explicit OverlayBackend(runtime::IoBackend& real, std::uint64_t bytes_max = kBytesMaxDefault);
    ~OverlayBackend() override;

    [[nodiscard]] runtime::IoBackend& real() noexcept { return real_; }
    /// In their order; writes to one file that follow each other are one.
    [[nodiscard]] const std::vector<Change>& changes() const noexcept { return changes_; }
    /// A write was refused, or a change is not listed.
    [[nodiscard]] bool exceeded() const noexcept { return exceeded_; }
    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    /// Bytes that were written to the file that has this name now, by position; null: none.
    [[nodiscard]] const Extents* written(const std::string& path) const;
    /// Drops all changes. No file is open.
    void forget();
    [[nodiscard]] std::size_t open_file_count() const noexcept { return files_.size(); }

    // ---- IoBackend
    void open(IoOp& op, const char* path, runtime::OpenMode mode, std::uint32_t mode_bits) override;
    void close(IoOp& op, FileHandle file) override;
    void read(IoOp& op, FileHandle file, MutableBytes into, std::uint64_t offset) override;
    void write(IoOp& op, FileHandle file, ConstBytes from, std::uint64_t offset) override;
    void writev(IoOp& op, FileHandle file, std::span<const iovec> parts,
                std::uint64_t offset) override;
    void sync(IoOp& op, FileHandle file) override;
    void truncate(IoOp& op, FileHandle file, std::uint64_t size_bytes) override;
    void allocate(IoOp& op, FileHandle file, std::uint64_t offset,
                  std::uint64_t size_bytes) override;
    void prefetch(IoOp& op, FileHandle file, std::uint64_t offset,
                  std::uint64_t size_bytes) override;
    void rename(IoOp& op, const char* from, const char* to) override;
    void unlink(IoOp& op, const char* path) override;
    void make_directory(IoOp& op, const char* path, std::uint32_t mode_bits) override;
    void remove_directory(IoOp& op, const char* path) override;
    std::int32_t write_now(FileHandle file, ConstBytes from, std::uint64_t offset) override;
    Result<std::vector<runtime::DirectoryEntry>> list_directory(const std::string& path) override;
    Result<runtime::FileFacts> file_facts(const std::string& path) override;
    Result<runtime::DiskSpace> disk_space(const std::string& path) override;

    // There is no network here: ENOTSUP.
    Result<SocketHandle> listen(const runtime::SocketAddress& address) override;
    runtime::SocketAddress local_address(SocketHandle socket) override;
    runtime::SocketAddress peer_address(SocketHandle socket) override;
    void accept(IoOp& op, SocketHandle listener) override;
    void connect(IoOp& op, const runtime::SocketAddress& address) override;
    void receive_any(IoOp& op, SocketHandle socket) override;
    void return_chunk(const runtime::ReceivedChunk& chunk) override;
    void receive(IoOp& op, SocketHandle socket, MutableBytes into) override;
    void send(IoOp& op, SocketHandle socket, std::span<const iovec> parts) override;
    void shutdown_socket(SocketHandle socket) override;
    void close_socket(SocketHandle socket) override;

    void cancel(IoOp& op) override;
    Instant now() override { return real_.now(); }
    Timestamp wall_now() override { return real_.wall_now(); }
    std::size_t poll(Instant wait_until) override;
    void wake(ShardIndex shard) override { real_.wake(shard); }

 private:
    struct Node {
        bool is_directory = false;
        std::string backing{};                                    ///< real path; empty: none
        std::map<std::string, std::shared_ptr<Node>> children{};  ///< null: removed
        std::uint64_t size_bytes = 0;
        std::uint64_t base_bytes = 0;  ///< of the real file, as far as it shows through
        std::uint64_t modified_us = 0;
        Extents extents{};
    };
    using NodePointer = std::shared_ptr<Node>;
    struct File {
        NodePointer node;
        FileHandle real = runtime::kNoFile;
        std::string path;
        bool writable = false;
    };
    /// What a path leads to: a node, or a real path that no node shadows, or nothing.
    struct Found {
        NodePointer node;
        std::string real;
    };
    /// An operation of ours on the real back end, for one of the caller's.
    struct Forward;

    [[nodiscard]] Found find(std::string_view path) const;
    /// The node of what is there, made when there was none; or -errno.
    [[nodiscard]] std::int32_t pin(std::string_view path, NodePointer& node);
    /// The directory that has or would have the last name of `path`; or -errno.
    [[nodiscard]] std::int32_t pin_parent(std::string_view path, NodePointer& parent,
                                          std::string& name);
    [[nodiscard]] std::int32_t find_or_make(const std::string& path, runtime::OpenMode mode,
                                            NodePointer& node);
    [[nodiscard]] std::int32_t add_file(File file);
    [[nodiscard]] File* find_file(FileHandle file);
    [[nodiscard]] std::int32_t put(FileHandle file, ConstBytes from, std::uint64_t offset);
    [[nodiscard]] std::int32_t move(const std::string& from, const std::string& to);
    [[nodiscard]] std::int32_t remove(const std::string& path, bool is_directory);
    void erase_range(Node& node, std::uint64_t from, std::uint64_t to);
    /// Zeros where the base does not show through, then the extents.
    static void lay_over(const Node& node, MutableBytes bytes, std::uint64_t offset);
    /// Is every byte of the base in that range written over?
    [[nodiscard]] static bool covers(const Node& node, std::uint64_t from, std::uint64_t to);
    void note(Change change);
    void complete_later(IoOp& op, std::int32_t result);
    void finish(Forward& forward, std::int32_t result) noexcept;

    runtime::IoBackend& real_;
    std::uint64_t bytes_max_;
    std::uint64_t bytes_ = 0;
    bool exceeded_ = false;
    NodePointer absolute_;
    NodePointer relative_;
    std::vector<Change> changes_;
    std::map<std::int32_t, File> files_;
    std::int32_t next_handle_ = 1'000'000;
    std::vector<std::pair<IoOp*, std::int32_t>> done_;              ///< completed by the next poll
    std::unordered_map<IoOp*, std::unique_ptr<Forward>> forwards_;  ///< by the caller's op
};

}  // namespace galgo::check

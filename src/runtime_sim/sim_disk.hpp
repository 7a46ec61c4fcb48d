// SimDisk: a disk in memory that can lose what was not synced. It outlives the backends that use
// it, so that a test can crash one and start the next on what is left.
//
// Model. An inode is a file or a directory. File content is kept in 512-byte sectors; a sector
// written since the last sync remembers its stable version (and the versions that a running sync
// may still make stable). The size is kept the same way. Changes of directories (create, unlink,
// rename, make, remove) go into one ordered log until their directory is synced; a rename is one
// change, atomic always. sync() covers what was written or changed before it was submitted, nothing
// later.
//
// crash(kProcess) keeps everything (the page cache survives kill -9) and closes all files.
// crash(kPower) keeps what was synced; each unsynced sector is kept, lost or torn, each file size
// and each unsynced directory change kept or lost, by the seed. A change that depends on a lost one
// (same name) is lost too. A file whose directory entry is lost is gone, however well it was synced
// itself.
//
// Errors are -errno. Effects are immediate: latency and order are SimBackend's. Single thread.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "runtime/io.hpp"
#include "runtime_sim/sim_clock.hpp"
#include "runtime_sim/sim_random.hpp"

namespace galgo::runtime_sim {

inline constexpr std::size_t kSectorBytes = 512;

enum class CrashKind : std::uint8_t { kProcess, kPower };
/// What a power loss does with unsynced state: kSeeded mixes, and sometimes is one of the extremes.
/// kRuin leaves noise in every sector that was written since it was synced, with the old content
/// too.
enum class UnsyncedFate : std::uint8_t { kSeeded, kLoseAll, kKeepAll, kRuin };

enum class DiskOp : std::uint8_t {
    kOpen,
    kClose,
    kRead,
    kWrite,
    kSync,
    kTruncate,
    kAllocate,
    kRename,
    kUnlink,
    kMakeDirectory,
    kRemoveDirectory,
};

/// Fails (or cuts short) operations: those of `op` whose path contains `path_contains`, after the
/// first `skip` of them, `times` times. A failed write may have written a part. A failed sync
/// leaves its data unstable, and a later sync does not repair it: the data has to be written again.
struct DiskFault {
    DiskOp op = DiskOp::kWrite;
    std::string path_contains;
    std::uint64_t skip = 0;
    std::uint64_t times = 1;
    std::int32_t error = EIO;     ///< positive errno
    bool short_transfer = false;  ///< writes only: a part is written and counted, no error
};

/// Operations of `op` whose path contains `path_contains` take this much longer, as on a part of a
/// disk that is slow and not broken. A rename counts by either of its names, the operations of an
/// open file by the name it was opened with.
struct DiskDelay {
    DiskOp op = DiskOp::kWrite;
    std::string path_contains;
    std::uint64_t nanoseconds = 0;
};

struct DiskOptions {
    std::uint64_t capacity_bytes = 1ULL << 40;
    std::uint32_t open_files_max = 65536;
    std::uint32_t torn_sector_percent = 20;  ///< of the unsynced sectors at a seeded power loss
    std::uint64_t latency_min_ns = 5 * kMicrosecond;
    std::uint64_t latency_max_ns = 500 * kMicrosecond;
    std::uint32_t slow_percent = 1;  ///< operations that take 20 times as long
};

class SimDisk {
 public:
    explicit SimDisk(std::uint64_t seed, const SimClock* clock = nullptr, DiskOptions options = {});
    SimDisk(const SimDisk&) = delete;
    SimDisk& operator=(const SimDisk&) = delete;
    ~SimDisk();

    // ---- operations: those of IoBackend, at once
    // ------------------------------------------------------
    [[nodiscard]] std::int32_t open(std::string_view path, runtime::OpenMode mode);
    [[nodiscard]] std::int32_t close(runtime::FileHandle file);
    [[nodiscard]] std::int32_t read(runtime::FileHandle file, MutableBytes into,
                                    std::uint64_t offset);
    [[nodiscard]] std::int32_t write(runtime::FileHandle file, ConstBytes from,
                                     std::uint64_t offset);
    /// A sync has two ends, because it covers only what was done before its first: begin_sync gives
    /// a token; finish_sync makes things stable; abort_sync forgets it.
    [[nodiscard]] std::uint64_t begin_sync(runtime::FileHandle file);
    [[nodiscard]] std::int32_t finish_sync(runtime::FileHandle file, std::uint64_t token);
    void abort_sync(runtime::FileHandle file, std::uint64_t token);
    [[nodiscard]] std::int32_t truncate(runtime::FileHandle file, std::uint64_t size_bytes);
    [[nodiscard]] std::int32_t allocate(runtime::FileHandle file, std::uint64_t offset,
                                        std::uint64_t size_bytes);
    [[nodiscard]] std::int32_t rename(std::string_view from, std::string_view to);
    [[nodiscard]] std::int32_t unlink(std::string_view path);
    [[nodiscard]] std::int32_t make_directory(std::string_view path);
    [[nodiscard]] std::int32_t remove_directory(std::string_view path);
    [[nodiscard]] Result<std::vector<runtime::DirectoryEntry>> list_directory(
        std::string_view path) const;
    [[nodiscard]] Result<runtime::FileFacts> file_facts(std::string_view path) const;
    [[nodiscard]] runtime::DiskSpace space() const;
    /// How long the next operation takes, in nanoseconds, at least 1.
    [[nodiscard]] std::uint64_t draw_latency();
    /// What the delays add to an operation of that path, or of that open file.
    [[nodiscard]] std::uint64_t delay_of(DiskOp op, std::string_view path) const;
    [[nodiscard]] std::uint64_t delay_of(DiskOp op, runtime::FileHandle file) const;

    // ---- faults
    // -----------------------------------------------------------------------------------------
    void add_fault(DiskFault fault);
    void clear_faults() { faults_.clear(); }
    /// For what is submitted from now on.
    void add_delay(DiskDelay delay) { delays_.push_back(std::move(delay)); }
    void clear_delays() { delays_.clear(); }
    /// Faults that struck so far.
    [[nodiscard]] std::uint64_t fault_count() const noexcept { return fault_count_; }
    void set_capacity(std::uint64_t bytes) { options_.capacity_bytes = bytes; }
    [[nodiscard]] DiskOptions& options() noexcept { return options_; }

    /// All files are closed; what is left is stable. The backends that use this disk must have
    /// dropped their operations before (SimBackend::drop_all).
    void crash(CrashKind kind, UnsyncedFate fate = UnsyncedFate::kSeeded);

    // ---- for tests: past all faults, latencies and open modes
    // -------------------------------------------
    [[nodiscard]] std::optional<std::vector<std::byte>> read_file(std::string_view path) const;
    /// Replaces or makes the file and its parents; its content and the entries of its parents are
    /// stable at once.
    void write_file(std::string_view path, ConstBytes content);
    /// Bit rot: XORs one stored byte, stable at once. False when the file has no such byte.
    bool corrupt(std::string_view path, std::uint64_t offset, std::uint8_t mask);
    /// Every read of that sector fails with EIO until all of it was written. False when the file
    /// has no such byte.
    bool make_unreadable(std::string_view path, std::uint64_t offset);
    [[nodiscard]] std::size_t unreadable_count(std::string_view path) const;
    /// Cuts or extends with zeros, stable at once. False when there is no such file.
    bool truncate_to(std::string_view path, std::uint64_t size_bytes);
    [[nodiscard]] bool exists(std::string_view path) const;
    /// All paths, sorted; directories end in '/'.
    [[nodiscard]] std::vector<std::string> list_all() const;
    /// Makes everything stable.
    void sync_all();
    /// The name an open file was opened with; empty when it is not open.
    [[nodiscard]] std::string_view path_of(runtime::FileHandle file) const;
    [[nodiscard]] std::size_t open_file_count() const noexcept { return open_files_.size(); }
    [[nodiscard]] std::uint64_t used_bytes() const;

 private:
    struct Inode;
    using InodePointer = std::shared_ptr<Inode>;
    struct OpenFile {
        InodePointer inode;
        runtime::OpenMode mode;
        std::string path;
    };
    /// One name of one directory; null = no such name.
    struct EntryChange {
        InodePointer directory;
        std::string name;
        InodePointer after;
    };
    struct DirectoryChange {
        std::uint64_t sequence;
        std::vector<EntryChange> entries;
    };
    struct Place {
        InodePointer parent;
        std::string name;
        InodePointer target;  // null when absent
    };

    [[nodiscard]] InodePointer find(std::string_view path) const;
    /// Where the last component of `path` is or would be; -errno when its parent is not a
    /// directory.
    [[nodiscard]] std::int32_t resolve(std::string_view path, Place& place) const;
    [[nodiscard]] OpenFile* find_open(runtime::FileHandle file);
    /// The fault that strikes this operation, if any.
    [[nodiscard]] std::optional<DiskFault> strike(DiskOp op, std::string_view path);
    [[nodiscard]] std::uint64_t modified_now() const;
    void apply(std::vector<EntryChange> entries);
    void make_changes_stable(const Inode& directory, std::uint64_t token);
    [[nodiscard]] std::size_t fitting_bytes(const Inode& inode, std::uint64_t offset,
                                            std::size_t size) const;
    void crash_directories(UnsyncedFate fate, std::uint32_t keep_percent);
    void for_each_reachable(const auto& visit) const;
    void note_inode(const InodePointer& inode);

    SimRandom random_;
    const SimClock* clock_;
    DiskOptions options_;
    InodePointer root_;
    std::vector<std::weak_ptr<Inode>>
        inodes_;                            // for accounting; expired ones are swept now and then
    std::vector<DirectoryChange> changes_;  // unsynced, in order
    std::map<std::int32_t, OpenFile> open_files_;
    std::vector<DiskFault> faults_;
    std::vector<DiskDelay> delays_;
    std::uint64_t fault_count_ = 0;
    std::uint64_t sequence_ = 1;
    std::int32_t next_handle_ = 100;  // never used again, so that a use after close is seen
};

}  // namespace galgo::runtime_sim

// MetadataFiles: everything that a node keeps of its metadata group, as one thing: superblock, log
// and snapshots in `{path}/metadata`. Opening gives back the state: the newest snapshot, then the
// log behind it. Installing a snapshot lets the log before it go.
//
// Two snapshots are kept, and the log reaches back to the older one. A newest snapshot that is
// missing or damaged is healed from the older one and the longer log; when that does not work
// either, opening refuses. Log and snapshots are not changed before all of it was read and judged.
//
// Order of a snapshot: its file whole under its name -> superblock names it and the first log file
// still needed -> older files go. A power loss in between leaves files that nothing names. The next
// start deletes them, but not before it was accepted (sweep): until then they are evidence. Shard
// 0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/unique_function.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "storage/refusal.hpp"
#include "storage/snapshot_file.hpp"
#include "storage/superblock.hpp"
#include "storage/wal.hpp"

namespace galgo::storage {

class MetadataFiles {
 public:
    struct Options {
        std::string directory;     ///< exists
        SuperblockState identity;  ///< cluster, replica, salt: of a directory that is new
        /// What proves that changes were made before ("X says so"); empty: nothing, so this may be
        /// the first start. With it, a log without entries is refused, and a superblock is not
        /// made.
        std::string required_by{};
        /// What proves that there was a superblock, where `required_by` says nothing: it is older
        /// than the first change.
        std::string superblock_required_by{};
        std::uint64_t tail_ops_max = 1024;           ///< metadata.journal_slots
        std::uint64_t snapshot_ops = 512;            ///< changes between two snapshots
        std::uint64_t snapshot_bytes = 4ULL << 20U;  ///< or this much of the log
        std::uint64_t region_bytes = 2ULL << 20U;    ///< see Wal::Options
        bool barriers = true;                        ///< see Wal::Options
    };
    /// Replaces the state by that of a snapshot. An error (kInvalidVersion: of another version)
    /// makes the snapshot count as damaged; the state is then replaced again, or was never used.
    /// With a null pointer: by the empty state.
    using OnSnapshot = UniqueFunction<Status(const SnapshotContents* contents)>;

    /// Calls `on_snapshot` once or twice, then `on_entry` for each operation behind it, in order.
    /// Deletes nothing.
    static coro::Task<OrRefusal<std::unique_ptr<MetadataFiles>>> open(runtime::IoBackend& io,
                                                                      coro::ReadyQueue& ready,
                                                                      Options options,
                                                                      OnSnapshot on_snapshot,
                                                                      Wal::OnEntry on_entry);
    MetadataFiles(const MetadataFiles&) = delete;
    MetadataFiles& operator=(const MetadataFiles&) = delete;
    ~MetadataFiles() = default;

    /// Once, when the caller has accepted the start too, before anything is appended: deletes files
    /// that nothing names. What it cannot do is logged, and no reason not to go on.
    coro::Task<void> sweep();

    [[nodiscard]] Wal& wal() noexcept { return *wal_; }
    [[nodiscard]] const Wal& wal() const noexcept { return *wal_; }
    [[nodiscard]] Superblock& superblock() noexcept { return *superblock_; }
    /// Last operation of snapshot and log together.
    [[nodiscard]] OpNumber head() const noexcept;
    [[nodiscard]] OpNumber snapshot_op() const noexcept { return superblock_->state().snapshot.op; }
    /// The snapshot that opening began with: what lies before it was not shown entry by entry.
    [[nodiscard]] OpNumber loaded_snapshot_op() const noexcept { return loaded_op_; }
    /// Entries behind the newest snapshot that opening found. Entries are counted, not numbers: a
    /// refused change leaves its number out, and many of them must not use up the log.
    [[nodiscard]] std::uint64_t tail_count() const noexcept { return tail_count_; }
    /// Is it time for a snapshot of a state that is `applied_count` entries behind the last one?
    [[nodiscard]] bool snapshot_due(std::uint64_t applied_count) const noexcept;
    /// May one more be appended when `count` entries stand behind the last snapshot?
    [[nodiscard]] bool tail_has_room(std::uint64_t count) const noexcept {
        return count < options_.tail_ops_max;
    }
    [[nodiscard]] const std::string& directory() const noexcept { return options_.directory; }
    /// A write or sync of log or superblock failed: nobody knows what the disk holds, and nothing
    /// is changed any more before a restart.
    [[nodiscard]] bool poisoned() const noexcept { return superblock_failed_ || wal_->poisoned(); }
    /// The newest snapshot was damaged; a new one heals that.
    [[nodiscard]] bool snapshot_lost() const noexcept { return snapshot_lost_; }
    [[nodiscard]] std::uint64_t snapshot_count() const noexcept { return snapshot_count_; }

    /// Makes a snapshot the newest one, durably, and drops what it makes superfluous. Its op is
    /// applied and in the log. After an error the old one is in force; when poisoned() says so, one
    /// of the two, and both files stay. One at a time. Errors: EFBIG above
    /// kSnapshotBytesMax, which no start would read; what the disk says.
    coro::Task<Status> install_snapshot(SealedSnapshot snapshot);
    coro::Task<void> close();

 private:
    MetadataFiles(runtime::IoBackend& io, Options options)
        : io_(io), options_(std::move(options)) {}

    coro::Task<OrRefusal<void>> load(coro::ReadyQueue& ready, OnSnapshot& on_snapshot,
                                     Wal::OnEntry& on_entry);
    coro::Task<OrRefusal<SnapshotRef>> load_snapshot(OnSnapshot& on_snapshot);
    coro::Task<OrRefusal<void>> try_snapshot(SnapshotRef ref, OnSnapshot& on_snapshot);

    runtime::IoBackend& io_;
    Options options_;
    std::unique_ptr<Superblock> superblock_;
    std::unique_ptr<Wal> wal_;
    std::uint64_t log_bytes_at_snapshot_ = 0;
    SnapshotRef good_;  ///< the newest snapshot that was read, or written, whole
    OpNumber loaded_op_;
    std::uint64_t tail_count_ = 0;
    bool snapshot_lost_ = false;
    bool superblock_failed_ = false;
    std::uint64_t snapshot_count_ = 0;
};

}  // namespace galgo::storage

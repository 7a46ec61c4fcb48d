// Superblock: `metadata/superblock`, what a replica of the metadata group must know before it looks
// at any other file: who it is, its views, a floor of the commit, which snapshot and which
// generations of the log are in force. Four equal copies at a spacing of 4 KiB, one file of 16 KiB.
//
// An update writes copies 0 and 1, syncs, writes copies 2 and 3, syncs, and only then returns.
// Opening takes the whole copy of the highest sequence; one is enough:
// - an update that returned stands in four copies: three faults do not take it back;
// - one that did not return was not acted on, and names only what is durable already. Whether its
//   copies or those before it are found does not matter, as long as the choice stays made;
// - in the middle of an update two copies may be torn. One of the other two may have rotted unseen,
//   because copies are verified at a start only, and then a single one is all there is.
// Opening changes nothing: settle() writes all copies again, once everything else was judged too,
// and before anything builds on what was read.
//
// A failed write or sync poisons it: every later update fails until a restart, because nobody knows
// what the disk holds. Shard 0. docs/formats/superblock.md
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/unique_function.hpp"
#include "coro/ready_queue.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "storage/refusal.hpp"

namespace galgo::storage {

inline constexpr std::size_t kSuperblockCopies = 4;
inline constexpr std::size_t kSuperblockCopyBytes = 4096;
inline constexpr std::size_t kSuperblockFileBytes = kSuperblockCopies * kSuperblockCopyBytes;

using ClusterId = StrongId<struct ClusterIdTag, u128>;

/// A snapshot file as the superblock names it. Op 0: the empty state, no file.
struct SnapshotRef {
    OpNumber op;
    std::uint64_t digest = 0;      ///< XXH3-64 of the payload
    std::uint64_t size_bytes = 0;  ///< of the payload
    bool operator==(const SnapshotRef&) const noexcept = default;
};

struct SuperblockState {
    ClusterId cluster;         ///< of the cluster's name; 0 on a node of its own
    std::uint64_t salt = 0;    ///< of this directory's log, drawn once
    std::uint8_t replica = 0;  ///< index of this node
    std::uint8_t replica_count = 1;
    ViewNumber view;
    ViewNumber log_view;          ///< at most `view`
    OpNumber commit;              ///< committed for certain; the log goes at least so far
    std::uint64_t epoch = 0;      ///< reserved for a change of the members
    std::uint64_t wal_first = 0;  ///< oldest generation of the log that is needed; 0: none yet
    std::uint64_t wal_last = 0;   ///< the one that is written; 0: none yet
    SnapshotRef snapshot;
    SnapshotRef snapshot_before;  ///< the log reaches back to it
    bool operator==(const SuperblockState&) const noexcept = default;
};

/// One copy, as it stands on disk.
using SuperblockCopy = std::array<std::byte, kSuperblockCopyBytes>;
[[nodiscard]] SuperblockCopy encode_superblock(const SuperblockState& state,
                                               std::uint64_t sequence);
struct DecodedSuperblock {
    SuperblockState state;
    std::uint64_t sequence = 0;
};
/// Error: kInvalidFormat damaged, kInvalidVersion whole but of another version.
[[nodiscard]] Result<DecodedSuperblock> decode_superblock(ConstBytes copy);

class Superblock {
 public:
    struct Options {
        std::string path;
        SuperblockState initial;  ///< of a new file; its identity is compared with that of an old
        std::string required_by;  ///< what proves that it was there; empty: absent is no damage
    };
    /// Opens the file and changes nothing in it, or makes it.
    static coro::Task<OrRefusal<std::unique_ptr<Superblock>>> open(runtime::IoBackend& io,
                                                                   coro::ReadyQueue& ready,
                                                                   Options options);
    Superblock(const Superblock&) = delete;
    Superblock& operator=(const Superblock&) = delete;
    ~Superblock() = default;

    [[nodiscard]] const SuperblockState& state() const noexcept { return state_; }
    /// Copies that opening found damaged or old.
    [[nodiscard]] std::uint32_t healed_count() const noexcept { return healed_count_; }

    /// Makes what opening found durable and heals copies, once; update() does it where it was not
    /// done. One copy that the disk does not take is left out until the next start.
    coro::Task<OrRefusal<void>> settle();
    /// Changes the state durably: `change` is called on the state of that moment, and state() shows
    /// it when this returns without error. Updates run one after another.
    coro::Task<Status> update(UniqueFunction<void(SuperblockState&)> change);
    coro::Task<void> close();

 private:
    Superblock(runtime::IoBackend& io, coro::ReadyQueue& ready, std::string path);

    coro::Task<OrRefusal<void>> create(SuperblockState initial);
    coro::Task<OrRefusal<void>> load();
    coro::Task<OrRefusal<void>> write_all_copies();
    coro::Task<Status> write_copies(const SuperblockCopy& copy, std::size_t first,
                                    std::size_t count);

    runtime::IoBackend& io_;
    std::string path_;
    runtime::FileHandle file_ = runtime::kNoFile;
    SuperblockState state_;
    std::uint64_t sequence_ = 0;
    std::uint32_t healed_count_ = 0;
    std::optional<Error> poisoned_;
    coro::Semaphore turn_;
    bool settled_ = false;  ///< the copies are on the disk as they were read
    std::array<bool, kSuperblockCopies> verified_{};  ///< when it was opened
    std::array<bool, kSuperblockCopies> current_{};   ///< and of the highest sequence
    std::optional<std::size_t> left_out_;             ///< a copy that could not be written again
    std::string damaged_;                             ///< the others, for the log
};

}  // namespace galgo::storage

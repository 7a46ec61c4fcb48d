// ModelStorage: a model of the log and the superblock of a node, asynchronous, on a SectorDisk. It
// stands for storage/wal.hpp and storage/superblock.hpp and keeps what they promise by simpler
// means; docs/simulator.md says where it differs.
//
// Sectors: superblock copies at 0, 2, 4, 6; durable marks at 8 and 10; batches from 16 on, back to
// back. A batch is what one write and one sync carry: a head {magic, sectors, sequence, first and
// last op, position, entries, bytes}, entries, zeros, and a trailer with a hash of all before it.
//  - One batch is under way at a time; its ops are reported when its sync ended. So a valid batch
//    proves that the one before it is stable.
//  - When nothing is queued, a mark names the last stable batch, in two copies. What a mark or a
//    later batch covers and does not verify is damage: recovery refuses. The rest is a torn tail:
//    it is cut.
//  - Recovery writes the last batch again and syncs it before it counts, because a sync that failed
//    may have left it readable and not stable.
//  - A failed write is taken back (its head is overwritten and synced) before it is reported; when
//    that fails, or a sync fails, the log takes nothing more until a restart.
//  - Room is allocated 64 sectors at a time; on a full disk the entry is refused before it is
//    written.
//  - A superblock is written in two halves of two copies with a sync behind each; the newest valid
//    copy counts, and recovery renews the others.
//
// One disk operation is under way at a time. When one begins, the owner is asked for the event of
// its end (begin_disk_op); when that comes, on_disk_done() is called and reports through the owner.
// on_wake() is the same for what needs no disk (ask_wake).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/disk.hpp"
#include "sim/faults.hpp"
#include "sim/planted.hpp"
#include "sim/storage_owner.hpp"

namespace galgo::sim {

class ModelStorage {
 public:
    static constexpr std::uint32_t kJournalFirst = 16;

    ModelStorage(StorageOwner& owner, SectorDisk& disk);

    /// For a new run. `chained`: an entry may not follow one that failed (a group of more than
    /// one). `wanted`: sectors of log.
    void reset(Random random, Bug bug, bool chained, std::uint32_t wanted, FaultCounts& faults,
               SimMarkCounts& marks);

    /// Forgets everything but the disk: the process is gone.
    void crash();
    void recover();
    void append(const LogEntry& entry);
    void read(OpNumber op);
    void persist(const consensus::SuperblockState& state);
    void on_disk_done();
    void on_wake();
    /// No append can succeed any more in this life.
    [[nodiscard]] bool poisoned() const { return poisoned_; }
    /// Would recovery tell every acknowledged entry from a torn tail, however damaged?
    [[nodiscard]] bool tail_is_marked() const { return marked_sequence_ >= acked_sequence_; }
    /// A sector that recovery needs and that tail_is_marked covers; empty when there is none.
    [[nodiscard]] std::optional<std::uint32_t> pick_sector_to_rot(std::uint64_t random) const;
    /// The log is as long as this run wants it; what is left is for the healing.
    [[nodiscard]] bool long_enough() const { return end_ >= kJournalFirst + wanted_; }

 private:
    enum class Step : std::uint8_t {
        kIdle,
        kRecoveryRead,
        kRecoveryWrite,
        kRecoverySync,
        kBatchWrite,
        kBatchSync,
        kTakeBackWrite,
        kTakeBackSync,
        kMarkWrite,
        kMarkSync,
        kSuperblockWrite,
        kSuperblockSync,
        kRead,
    };
    struct Queued {
        OpNumber op;
        consensus::Identity identity;
    };
    struct Place {
        std::uint32_t first = 0;
        std::uint32_t sectors = 0;
    };

    void advance();
    void begin_write(Step step, std::uint32_t first, ConstBytes bytes, bool exposed);
    void begin_sync(Step step);

    // recovery
    void recovery_read();
    [[nodiscard]] bool recover_superblock();
    void recover_marks();
    [[nodiscard]] bool recover_batches();
    [[nodiscard]] bool batch_valid(std::uint32_t first, std::uint64_t sequence,
                                   bool anywhere) const;
    void recovered();
    void finish_recovery(RecoveryResult result);

    // batches
    void begin_batch();
    void remember(OpNumber op, std::uint32_t first, std::uint32_t sectors);
    void batch_done(bool durable);
    void fail_queue();
    [[nodiscard]] bool have_room(std::uint32_t sectors);

    // marks and superblock
    void begin_mark();
    void write_mark(std::uint32_t copy);
    void begin_superblock();
    void write_superblock_copy(std::uint32_t copy);
    void superblock_written();
    void superblock_failed();
    void finish_read(bool ok);

    StorageOwner& owner_;
    SectorDisk& disk_;
    FaultCounts* faults_ = nullptr;
    SimMarkCounts* marks_ = nullptr;
    Random random_;
    Bug bug_ = Bug::kNone;
    bool chained_ = false;
    std::uint32_t wanted_ = 0;

    Step step_ = Step::kIdle;
    bool alive_ = false;  ///< between recover and crash
    bool recovering_ = false;
    bool poisoned_ = false;
    bool wake_asked_ = false;
    std::optional<std::uint32_t>
        weak_;                ///< the copy of mark or superblock that silent faults strike
    std::uint32_t copy_ = 0;  ///< of mark or superblock being written

    // the log
    std::uint32_t end_ = kJournalFirst;  ///< where the next batch begins
    std::uint32_t last_first_ = 0;       ///< where the last batch began; 0: none
    std::uint32_t allocated_ = kJournalFirst;
    std::uint64_t sequence_ = 0;  ///< of the last batch in the log
    std::uint64_t acked_sequence_ = 0;
    std::uint64_t marked_sequence_ = 0;
    std::uint32_t marked_end_ = kJournalFirst;
    std::uint64_t marking_sequence_ = 0;
    std::uint32_t marking_end_ = kJournalFirst;
    std::vector<Place> places_;  ///< by op; of its batch
    std::size_t places_end_ = 0;

    // being filled, and being written
    std::vector<std::byte> batch_;
    std::size_t batch_bytes_ = 0;
    std::vector<Queued> queued_;
    std::vector<std::byte> writing_;
    std::uint32_t writing_sectors_ = 0;
    std::vector<Queued> in_flight_;
    std::vector<Queued> failed_;  ///< to be reported by on_wake

    std::optional<consensus::SuperblockState> persist_;
    std::optional<consensus::SuperblockState> superblock_;  ///< recovered, or being written
    std::uint64_t superblock_sequence_ = 0;
    bool superblock_repair_ = false;

    std::vector<OpNumber> reads_;
    OpNumber reading_;
    LogEntry scratch_;
    std::array<std::byte, kSectorBytes> sector_;
};

}  // namespace galgo::sim

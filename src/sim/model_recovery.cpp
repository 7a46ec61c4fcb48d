// ModelStorage: what a start makes of a disk.
#include "sim/model_storage.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "sim/detail/model_layout.hpp"

namespace galgo::sim {

using namespace model_layout;

void ModelStorage::recover() {
    alive_ = true;
    recovering_ = true;
    superblock_repair_ = false;
    step_ = Step::kRecoveryRead;
    disk_.begin_read();
    owner_.begin_disk_op();
}

void ModelStorage::recovery_read() {
    recover_marks();
    const bool log_good = recover_batches();
    if (!log_good || !recover_superblock()) {
        marks_->hit(SimMark::kRotRefused);
        finish_recovery(RecoveryResult::kRefused);
        return;
    }
    if (sequence_ > marked_sequence_) {
        marks_->hit(SimMark::kLastBatchWrittenAgain);
        const std::uint32_t sectors = end_ - last_first_;
        std::ranges::copy(disk_.content(last_first_, sectors), writing_.begin());
        begin_write(Step::kRecoveryWrite, last_first_,
                    ConstBytes(writing_).first(sectors * kSectorBytes), false);
        return;
    }
    recovered();
}

void ModelStorage::recover_marks() {
    marked_sequence_ = 0;
    marked_end_ = kJournalFirst;
    for (std::uint32_t copy = 0; copy < kMarkCopies; ++copy) {
        const ConstBytes bytes = disk_.content(kMarkFirst + 2 * copy, 1);
        if (load<std::uint32_t>(bytes, 0) == kMarkMagic && hash_matches(bytes) &&
            load<std::uint64_t>(bytes, 8) > marked_sequence_) {
            marked_sequence_ = load<std::uint64_t>(bytes, 8);
            marked_end_ = load<std::uint32_t>(bytes, 4);
        }
    }
}

/// A batch of this sequence at this place; `anywhere`: of this sequence or a later one, wherever it
/// was meant to be.
bool ModelStorage::batch_valid(std::uint32_t first, std::uint64_t sequence, bool anywhere) const {
    const ConstBytes head = disk_.content(first, 1);
    if (load<std::uint32_t>(head, 0) != kBatchMagic) {
        return false;
    }
    const auto sectors = load<std::uint32_t>(head, 4);
    const auto bytes = load<std::uint32_t>(head, 44);
    if (sectors == 0 || sectors > SectorDisk::kWriteSectorsMax ||
        first + sectors > SectorDisk::kSectors || bytes > sectors * kSectorBytes) {
        return false;
    }
    const auto found = load<std::uint64_t>(head, 8);
    if (anywhere ? found < sequence : found != sequence || load<std::uint32_t>(head, 32) != first) {
        return false;
    }
    if (bug_ == Bug::kTornTailTakenForWhole && !anywhere) {
        return true;
    }
    const ConstBytes all = disk_.content(first, sectors);
    return load<std::uint64_t>(all, all.size() - kBatchTrailer) == found && hash_matches(all);
}

bool ModelStorage::recover_batches() {
    end_ = kJournalFirst;
    last_first_ = 0;
    sequence_ = 0;
    while (end_ < SectorDisk::kSectors && batch_valid(end_, sequence_ + 1, false)) {
        ++sequence_;
        last_first_ = end_;
        end_ += load<std::uint32_t>(disk_.content(end_, 1), 4);
    }
    allocated_ = std::max(allocated_, end_);
    acked_sequence_ = sequence_;
    if (bug_ == Bug::kCorruptionTakenForTorn) {
        marked_sequence_ = std::min(marked_sequence_, sequence_);
        return true;
    }
    if (marked_sequence_ > sequence_) {
        return false;
    }
    // Nothing that was ever written lies behind what is allocated; a few sectors more for what went
    // astray.
    const std::uint32_t limit = std::min(SectorDisk::kSectors, allocated_ + 2 * kAllocation);
    for (std::uint32_t at = end_; at < limit; ++at) {
        if (batch_valid(at, sequence_ + 1, true)) {
            return false;
        }
    }
    if (end_ < SectorDisk::kSectors && !all_zero(disk_.content(end_, 1))) {
        marks_->hit(SimMark::kTornTailCut);
    }
    return true;
}

bool ModelStorage::recover_superblock() {
    superblock_.reset();
    std::uint32_t good = 0;
    bool second_half_touched = false;
    std::uint64_t newest = 0;
    for (std::uint32_t copy = 0; copy < kSuperblockCopies; ++copy) {
        const ConstBytes bytes = disk_.content(2 * copy, 1);
        if (load<std::uint32_t>(bytes, 0) != kSuperblockMagic || !hash_matches(bytes)) {
            second_half_touched = second_half_touched || (copy >= 2 && !all_zero(bytes));
            continue;
        }
        const auto sequence = load<std::uint64_t>(bytes, 8);
        if (sequence == newest) {
            ++good;
        }
        if (sequence > newest) {
            newest = sequence;
            good = 1;
            superblock_ = consensus::SuperblockState{
                .cluster = consensus::ClusterId(load<u128>(bytes, 16)),
                .replica = consensus::ReplicaIndex(
                    static_cast<std::uint8_t>(load<std::uint32_t>(bytes, 32))),
                .replica_count = static_cast<std::uint8_t>(load<std::uint32_t>(bytes, 36)),
                .view = ViewNumber(load<std::uint32_t>(bytes, 40)),
                .log_view = ViewNumber(load<std::uint32_t>(bytes, 44)),
                .commit_max = {.op = OpNumber(load<std::uint64_t>(bytes, 48)),
                               .identity = consensus::Identity(load<std::uint64_t>(bytes, 56))}};
        }
    }
    if (!superblock_.has_value()) {
        return !second_half_touched;  // the first write of all may be torn
    }
    superblock_sequence_ = newest;
    superblock_repair_ = good < kSuperblockCopies;
    return true;
}

/// The log is stable; the superblock may have to be renewed.
void ModelStorage::recovered() {
    if (superblock_repair_) {
        superblock_repair_ = false;
        marks_->hit(SimMark::kSuperblockRepaired);
        copy_ = 0;
        write_superblock_copy(copy_);
        return;
    }
    finish_recovery(RecoveryResult::kOk);
}

void ModelStorage::finish_recovery(RecoveryResult result) {
    recovering_ = false;
    if (result == RecoveryResult::kOk) {
        // A mark may have been readable and not stable: it is written again when there is time.
        marked_sequence_ = 0;
        marked_end_ = kJournalFirst;
        std::uint32_t at = kJournalFirst;
        while (at < end_) {
            const ConstBytes head = disk_.content(at, 1);
            const auto sectors = load<std::uint32_t>(head, 4);
            const auto count = load<std::uint32_t>(head, 36);
            ConstBytes rest = disk_.content(at, sectors).subspan(kBatchHead);
            for (std::uint32_t i = 0; i < count; ++i) {
                std::size_t size = 0;
                const bool whole = decode(rest, scratch_, size);
                if (!whole && (bug_ != Bug::kTornTailTakenForWhole || size < LogEntry::kHeadBytes ||
                               size > rest.size())) {
                    break;  // only with the bug: a valid batch holds whole entries
                }
                remember(scratch_.prepare.op, at, sectors);
                owner_.on_recovered_entry(scratch_);
                rest = rest.subspan(size);
            }
            at += sectors;
        }
    }
    owner_.on_recovered(result, superblock_);
    advance();
}

}  // namespace galgo::sim

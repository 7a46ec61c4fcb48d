#include "sim/model_storage.hpp"

#include <algorithm>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "sim/detail/model_layout.hpp"

namespace galgo::sim {

using namespace model_layout;

ModelStorage::ModelStorage(StorageOwner& owner, SectorDisk& disk)
    : owner_(owner),
      disk_(disk),
      places_(kPlacesMax),
      batch_(kBatchBytesMax),
      writing_(kBatchBytesMax) {
    queued_.reserve(256);
    in_flight_.reserve(256);
    failed_.reserve(256);
    reads_.reserve(64);
}

void ModelStorage::reset(Random random, Bug bug, bool chained, std::uint32_t wanted,
                         FaultCounts& faults, SimMarkCounts& marks) {
    random_ = random;
    wanted_ = wanted;
    bug_ = bug;
    chained_ = chained;
    faults_ = &faults;
    marks_ = &marks;
    std::fill_n(places_.begin(), places_end_, Place{});
    places_end_ = 0;
    superblock_sequence_ = 0;
    acked_sequence_ = 0;
    marked_sequence_ = 0;
    marked_end_ = kJournalFirst;
    allocated_ = kJournalFirst;
    end_ = kJournalFirst;
    // One copy of many may be damaged in silence; two of them are more than the format promises to
    // survive. A node of its own has no superblock.
    constexpr std::uint32_t kNone = kSuperblockCopies + kMarkCopies;
    const std::uint32_t first = chained ? 0 : kSuperblockCopies;
    const std::uint32_t weak = first + static_cast<std::uint32_t>(random_.below(kNone + 1 - first));
    weak_.reset();
    if (weak < kNone) {
        weak_ = weak < kSuperblockCopies ? 2 * weak : kMarkFirst + 2 * (weak - kSuperblockCopies);
        disk_.set_weak(*weak_);
    }
    crash();
}

void ModelStorage::crash() {
    alive_ = false;
    step_ = Step::kIdle;
    recovering_ = false;
    poisoned_ = false;
    wake_asked_ = false;
    batch_bytes_ = 0;
    queued_.clear();
    in_flight_.clear();
    failed_.clear();
    persist_.reset();
    superblock_.reset();
    reads_.clear();
}

// ---- what is under way -----------------------------------------------------------------------

void ModelStorage::begin_write(Step step, std::uint32_t first, ConstBytes bytes, bool exposed) {
    step_ = step;
    disk_.begin_write(first, bytes, exposed);
    owner_.begin_disk_op();
}

void ModelStorage::begin_sync(Step step) {
    step_ = step;
    disk_.begin_sync();
    owner_.begin_disk_op();
}

void ModelStorage::advance() {
    if (!alive_ || step_ != Step::kIdle || recovering_) {
        return;
    }
    if (persist_.has_value()) {
        begin_superblock();
    } else if (!reads_.empty()) {
        reading_ = reads_.front();
        reads_.erase(reads_.begin());
        step_ = Step::kRead;
        disk_.begin_read();
        owner_.begin_disk_op();
    } else if (!queued_.empty() && !poisoned_) {
        begin_batch();
    } else if (queued_.empty() && !poisoned_ && marked_sequence_ < acked_sequence_) {
        begin_mark();
    }
}

void ModelStorage::on_disk_done() {
    const bool ok = disk_.finish();
    if (!owner_.disk_op_ended()) {
        return;
    }
    const Step step = step_;
    step_ = Step::kIdle;
    switch (step) {
        case Step::kRecoveryRead:
            if (!ok) {
                finish_recovery(RecoveryResult::kFailed);
            } else {
                recovery_read();
            }
            return;
        case Step::kRecoveryWrite:
            if (!ok) {
                finish_recovery(RecoveryResult::kFailed);
            } else {
                begin_sync(Step::kRecoverySync);
            }
            return;
        case Step::kRecoverySync:
            if (!ok) {
                finish_recovery(RecoveryResult::kFailed);
            } else {
                recovered();
            }
            return;
        case Step::kBatchWrite:
            if (ok && bug_ == Bug::kSkipSync) {
                batch_done(true);
            } else if (ok) {
                begin_sync(Step::kBatchSync);
                return;
            } else {
                sector_.fill(std::byte{0});
                begin_write(Step::kTakeBackWrite, end_, sector_, false);
                return;
            }
            break;
        case Step::kBatchSync:
            if (!ok) {
                marks_->hit(SimMark::kJournalPoisoned);
                poisoned_ = true;
            }
            batch_done(ok);
            break;
        case Step::kTakeBackWrite:
            if (ok) {
                begin_sync(Step::kTakeBackSync);
                return;
            }
            marks_->hit(SimMark::kFailedAppendStayed);
            poisoned_ = true;
            batch_done(false);
            break;
        case Step::kTakeBackSync:
            marks_->hit(ok ? SimMark::kFailedAppendTakenBack : SimMark::kFailedAppendStayed);
            poisoned_ = !ok || chained_;
            batch_done(false);
            break;
        case Step::kMarkWrite:
            if (!ok) {
                break;  // another one comes
            }
            if (++copy_ < kMarkCopies) {
                write_mark(copy_);
            } else {
                begin_sync(Step::kMarkSync);
            }
            return;
        case Step::kMarkSync:
            if (ok) {
                marked_sequence_ = marking_sequence_;
                marked_end_ = marking_end_;
            } else {
                poisoned_ = true;
            }
            break;
        case Step::kSuperblockWrite:
            if (!ok) {
                superblock_failed();
                break;
            }
            if (++copy_ % 2 != 0) {
                write_superblock_copy(copy_);
            } else {
                begin_sync(Step::kSuperblockSync);
            }
            return;
        case Step::kSuperblockSync:
            if (!ok) {
                superblock_failed();
                break;
            }
            if (copy_ < kSuperblockCopies) {
                write_superblock_copy(copy_);
                return;
            }
            superblock_written();
            break;
        case Step::kRead:
            finish_read(ok);
            break;
        case Step::kIdle:
            GALGO_CHECK(false);
    }
    advance();
}

void ModelStorage::on_wake() {
    wake_asked_ = false;
    // Reported one by one; the owner may append meanwhile.
    while (!failed_.empty()) {
        const Queued one = failed_.front();
        failed_.erase(failed_.begin());
        owner_.on_append_done(one.op, one.identity, false);
    }
    advance();
}

// ---- batches ---------------------------------------------------------------------------------

void ModelStorage::append(const LogEntry& entry) {
    GALGO_CHECK(entry.prepare.op.value() < kPlacesMax);
    if (batch_bytes_ == 0) {
        batch_bytes_ = kBatchHead;
    }
    const std::size_t size = encoded_size(entry);
    const Queued queued{.op = entry.prepare.op, .identity = entry.prepare.identity};
    if (poisoned_ || batch_bytes_ + size + kBatchTrailer > kBatchBytesMax) {
        failed_.push_back(queued);
        poisoned_ = poisoned_ || chained_;
        if (!wake_asked_) {
            wake_asked_ = true;
            owner_.ask_wake();
        }
        return;
    }
    batch_bytes_ += encode(entry, MutableBytes(batch_).subspan(batch_bytes_));
    queued_.push_back(queued);
    advance();
}

bool ModelStorage::have_room(std::uint32_t sectors) {
    const std::uint32_t wanted = end_ + sectors;
    if (wanted > SectorDisk::kSectors) {
        return false;
    }
    if (wanted <= allocated_) {
        return true;
    }
    if (disk_.full()) {
        faults_->hit(Fault::kDiskFull);
        return false;
    }
    allocated_ = wanted + kAllocation;
    return true;
}

void ModelStorage::begin_batch() {
    std::swap(batch_, writing_);
    std::swap(queued_, in_flight_);
    const std::size_t bytes = batch_bytes_;
    batch_bytes_ = 0;
    queued_.clear();
    const std::size_t whole = bytes + kBatchTrailer;
    writing_sectors_ = static_cast<std::uint32_t>((whole + kSectorBytes - 1) / kSectorBytes);
    if (in_flight_.size() > 1) {
        marks_->hit(SimMark::kBatchOfMany);
    }
    if (!have_room(writing_sectors_)) {
        failed_.insert(failed_.end(), in_flight_.begin(), in_flight_.end());
        in_flight_.clear();
        poisoned_ = chained_;
        if (chained_) {
            fail_queue();
        }
        if (!wake_asked_) {
            wake_asked_ = true;
            owner_.ask_wake();
        }
        return;
    }
    const MutableBytes batch = MutableBytes(writing_).first(writing_sectors_ * kSectorBytes);
    std::ranges::fill(batch.subspan(bytes), std::byte{0});
    store<std::uint32_t>(batch, 0, kBatchMagic);
    store<std::uint32_t>(batch, 4, writing_sectors_);
    store<std::uint64_t>(batch, 8, sequence_ + 1);
    store<std::uint64_t>(batch, 16, in_flight_.front().op.value());
    store<std::uint64_t>(batch, 24, in_flight_.back().op.value());
    store<std::uint32_t>(batch, 32, end_);
    store<std::uint32_t>(batch, 36, static_cast<std::uint32_t>(in_flight_.size()));
    store<std::uint32_t>(batch, 40, 0);
    store<std::uint32_t>(batch, 44, static_cast<std::uint32_t>(bytes));
    std::ranges::fill(batch.subspan(48, kBatchHead - 48), std::byte{0});
    store<std::uint64_t>(batch, batch.size() - kBatchTrailer, sequence_ + 1);
    seal(batch);
    begin_write(Step::kBatchWrite, end_, batch, true);
}

void ModelStorage::remember(OpNumber op, std::uint32_t first, std::uint32_t sectors) {
    if (op.value() < kPlacesMax) {
        places_[op.value()] = {.first = first, .sectors = sectors};
        places_end_ = std::max<std::size_t>(places_end_, op.value() + 1);
    }
}

void ModelStorage::batch_done(bool durable) {
    if (durable) {
        ++sequence_;
        acked_sequence_ = sequence_;
        for (const Queued& one : in_flight_) {
            remember(one.op, end_, writing_sectors_);
        }
        last_first_ = end_;
        end_ += writing_sectors_;
    }
    // They are stable together, and who waited for them may hear of it in any order.
    if (in_flight_.size() > 1 && random_.below(4) == 0) {
        std::swap(in_flight_[random_.below(in_flight_.size())],
                  in_flight_[random_.below(in_flight_.size())]);
    }
    // The owner may append while it is told; that goes to the queue. A crash ends the loop.
    for (std::size_t i = 0; i < in_flight_.size(); ++i) {
        owner_.on_append_done(in_flight_[i].op, in_flight_[i].identity, durable);
    }
    in_flight_.clear();
    if (poisoned_) {
        fail_queue();
    }
}

void ModelStorage::fail_queue() {
    failed_.insert(failed_.end(), queued_.begin(), queued_.end());
    queued_.clear();
    batch_bytes_ = 0;
    if (!failed_.empty() && !wake_asked_) {
        wake_asked_ = true;
        owner_.ask_wake();
    }
}

// ---- marks, superblock, reads ----------------------------------------------------------------

void ModelStorage::begin_mark() {
    marking_sequence_ = acked_sequence_;
    marking_end_ = end_;
    copy_ = 0;
    write_mark(copy_);
}

void ModelStorage::write_mark(std::uint32_t copy) {
    sector_.fill(std::byte{0});
    const MutableBytes bytes(sector_);
    store<std::uint32_t>(bytes, 0, kMarkMagic);
    store<std::uint32_t>(bytes, 4, marking_end_);
    store<std::uint64_t>(bytes, 8, marking_sequence_);
    seal(bytes);
    begin_write(Step::kMarkWrite, kMarkFirst + 2 * copy, bytes, weak_ == kMarkFirst + 2 * copy);
}

void ModelStorage::persist(const consensus::SuperblockState& state) {
    GALGO_CHECK(!persist_.has_value());
    persist_ = state;
    advance();
}

void ModelStorage::begin_superblock() {
    superblock_ = persist_;
    ++superblock_sequence_;
    copy_ = 0;
    write_superblock_copy(copy_);
}

void ModelStorage::write_superblock_copy(std::uint32_t copy) {
    sector_.fill(std::byte{0});
    const MutableBytes bytes(sector_);
    store<std::uint32_t>(bytes, 0, kSuperblockMagic);
    store<std::uint64_t>(bytes, 8, superblock_sequence_);
    store<u128>(bytes, 16, superblock_->cluster.value());
    store<std::uint32_t>(bytes, 32, superblock_->replica.value());
    store<std::uint32_t>(bytes, 36, superblock_->replica_count);
    store<std::uint32_t>(bytes, 40, superblock_->view.value());
    store<std::uint32_t>(bytes, 44, superblock_->log_view.value());
    store<std::uint64_t>(bytes, 48, superblock_->commit_max.op.value());
    store<std::uint64_t>(bytes, 56, superblock_->commit_max.identity.value());
    seal(bytes);
    begin_write(Step::kSuperblockWrite, 2 * copy, bytes, weak_ == 2 * copy);
}

void ModelStorage::superblock_written() {
    if (recovering_) {
        finish_recovery(RecoveryResult::kOk);
        return;
    }
    const consensus::SuperblockState state = *persist_;
    persist_.reset();
    owner_.on_superblock_done(state, true);
}

void ModelStorage::superblock_failed() {
    if (recovering_) {
        finish_recovery(RecoveryResult::kFailed);
        return;
    }
    const consensus::SuperblockState state = *persist_;
    persist_.reset();
    owner_.on_superblock_done(state, false);
}

void ModelStorage::read(OpNumber op) {
    reads_.push_back(op);
    advance();
}

void ModelStorage::finish_read(bool ok) {
    const OpNumber op = reading_;
    if (!ok) {
        owner_.on_read_done(op, consensus::ReadStatus::kFaulty, nullptr);
        return;
    }
    const Place place = op.value() < kPlacesMax ? places_[op.value()] : Place{};
    if (place.sectors == 0 || place.first >= end_) {
        owner_.on_read_done(op, consensus::ReadStatus::kAbsent, nullptr);
        return;
    }
    const ConstBytes batch = disk_.content(place.first, place.sectors);
    if (load<std::uint32_t>(batch, 0) == kBatchMagic && hash_matches(batch)) {
        const auto count = load<std::uint32_t>(batch, 36);
        ConstBytes rest = batch.subspan(kBatchHead);
        for (std::uint32_t i = 0; i < count; ++i) {
            std::size_t size = 0;
            if (!decode(rest, scratch_, size)) {
                break;
            }
            if (scratch_.prepare.op == op) {
                owner_.on_read_done(op, consensus::ReadStatus::kPresent, &scratch_);
                return;
            }
            rest = rest.subspan(size);
        }
    }
    owner_.on_read_done(op, consensus::ReadStatus::kFaulty, nullptr);
}

std::optional<std::uint32_t> ModelStorage::pick_sector_to_rot(std::uint64_t random) const {
    if (recovering_ || marked_end_ <= kJournalFirst) {
        return std::nullopt;
    }
    if (weak_.has_value() && random % 8 == 0) {
        return weak_;
    }
    return kJournalFirst + static_cast<std::uint32_t>(random % (marked_end_ - kJournalFirst));
}

}  // namespace galgo::sim

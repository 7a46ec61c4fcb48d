#include "sim/disk.hpp"

#include <algorithm>
#include <cstring>

#include "base/check.hpp"

namespace galgo::sim {

SectorDisk::SectorDisk()
    : cache_(kSectors * kSectorBytes),
      stable_(kSectors * kSectorBytes),
      flags_(kSectors),
      writing_(kWriteSectorsMax * kSectorBytes) {
    listed_.reserve(kSectors);
}

void SectorDisk::reset(Random random, const DiskOdds& odds, std::uint32_t journal_first,
                       FaultCounts& faults) {
    std::fill_n(cache_.begin(), high_water_ * kSectorBytes, std::byte{0});
    std::fill_n(stable_.begin(), high_water_ * kSectorBytes, std::byte{0});
    std::fill_n(flags_.begin(), high_water_, std::uint8_t{0});
    listed_.clear();
    high_water_ = 0;
    journal_first_ = journal_first;
    op_ = DiskOp::kNone;
    full_ = false;
    damaged_ = false;
    weak_.reset();
    failed_before_ = false;
    random_ = random;
    odds_ = odds;
    faults_ = &faults;
}

void SectorDisk::set_healthy() noexcept {
    odds_.write_lost = odds_.write_misdirected = odds_.write_error = odds_.sync_error =
        odds_.read_error = odds_.slow = Odds::never();
    failed_before_ = false;
    full_ = false;
}

ConstBytes SectorDisk::content(std::uint32_t first, std::uint32_t count) const noexcept {
    GALGO_CHECK(first + count <= kSectors);
    return ConstBytes(cache_).subspan(first * kSectorBytes, count * kSectorBytes);
}

void SectorDisk::begin_read() noexcept {
    GALGO_CHECK(op_ == DiskOp::kNone);
    op_ = DiskOp::kRead;
}

void SectorDisk::begin_write(std::uint32_t first, ConstBytes bytes, bool exposed) {
    GALGO_CHECK(op_ == DiskOp::kNone && bytes.size() % kSectorBytes == 0);
    GALGO_CHECK(!bytes.empty() && bytes.size() <= writing_.size());
    op_ = DiskOp::kWrite;
    exposed_ = exposed;
    write_first_ = first;
    write_count_ = static_cast<std::uint32_t>(bytes.size() / kSectorBytes);
    GALGO_CHECK(first + write_count_ <= kSectors);
    std::ranges::copy(bytes, writing_.begin());
    high_water_ = std::max(high_water_, first + write_count_);
}

void SectorDisk::begin_sync() noexcept {
    GALGO_CHECK(op_ == DiskOp::kNone);
    op_ = DiskOp::kSync;
}

Time SectorDisk::draw_latency() {
    if (random_.chance(odds_.slow)) {
        faults_->hit(Fault::kDiskSlow);
        return random_.between(odds_.latency_max, odds_.slow_max);
    }
    return random_.between(odds_.latency_min, odds_.latency_max);
}

bool SectorDisk::finish() {
    const DiskOp op = op_;
    op_ = DiskOp::kNone;
    switch (op) {
        case DiskOp::kRead:
            if (random_.chance(odds_.read_error)) {
                faults_->hit(Fault::kReadError);
                return false;
            }
            return true;
        case DiskOp::kWrite:
            // Errors come in bursts.
            if (random_.chance(failed_before_ ? Odds::percent(30) : odds_.write_error)) {
                faults_->hit(Fault::kWriteError);
                failed_before_ = odds_.write_error.possible();
                const std::uint64_t written = random_.between(0, write_count_);
                for (std::uint32_t i = 0; i < written; ++i) {
                    put(write_first_ + i, &writing_[i * kSectorBytes]);
                }
                return false;
            }
            failed_before_ = false;
            finish_write();
            return true;
        case DiskOp::kSync:
            return finish_sync();
        case DiskOp::kNone:
            break;
    }
    GALGO_CHECK(false);
    return false;
}

void SectorDisk::list(std::uint32_t sector) {
    if ((flags_[sector] & kListed) == 0) {
        flags_[sector] |= kListed;
        listed_.push_back(sector);
    }
}

void SectorDisk::put(std::uint32_t sector, const std::byte* from) {
    std::memcpy(cache(sector), from, kSectorBytes);
    list(sector);
    flags_[sector] = kListed | kDirty;
}

void SectorDisk::finish_write() {
    std::uint8_t fate = 0;
    if (exposed_ && random_.chance(odds_.write_lost)) {
        fate = kLost;
    } else if (exposed_ && random_.chance(odds_.write_misdirected)) {
        fate = kMisdirected;
    }
    damaged_ = damaged_ || fate != 0;
    for (std::uint32_t i = 0; i < write_count_; ++i) {
        put(write_first_ + i, &writing_[i * kSectorBytes]);
        flags_[write_first_ + i] |= fate;
    }
}

bool SectorDisk::finish_sync() {
    const bool failed = random_.chance(odds_.sync_error);
    if (failed) {
        faults_->hit(Fault::kSyncError);
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < listed_.size(); ++i) {
        const std::uint32_t sector = listed_[i];
        std::uint8_t& flags = flags_[sector];
        if ((flags & kDirty) == 0) {
            listed_[kept++] = sector;
        } else if (failed && random_.coin()) {
            flags = kListed;  // clean, and not stable
            listed_[kept++] = sector;
        } else if ((flags & (kLost | kMisdirected)) != 0) {
            make_stable(sector);
            flags = kListed;
            listed_[kept++] = sector;
        } else {
            make_stable(sector);
            flags = 0;
        }
    }
    listed_.resize(kept);
    return !failed;
}

void SectorDisk::make_stable(std::uint32_t sector) {
    if ((flags_[sector] & kLost) != 0) {
        faults_->hit(Fault::kWriteLost);
        return;
    }
    if ((flags_[sector] & kMisdirected) == 0) {
        std::memcpy(stable(sector), cache(sector), kSectorBytes);
        return;
    }
    const std::uint32_t span = high_water_ - journal_first_ + 4;
    std::uint32_t victim =
        std::min(kSectors - 1, journal_first_ + static_cast<std::uint32_t>(random_.below(span)));
    if (weak_.has_value() && random_.below(8) == 0) {
        victim = *weak_;
    }
    if (victim == sector || (flags_[victim] & kListed) != 0) {
        faults_->hit(Fault::kWriteLost);  // it comes to that
        return;
    }
    faults_->hit(Fault::kWriteMisdirected);
    high_water_ = std::max(high_water_, victim + 1);
    std::memcpy(stable(victim), cache(sector), kSectorBytes);
    // Seen when it comes from the disk again. At once, so that a victim needs no flag of its own.
    std::memcpy(cache(victim), stable(victim), kSectorBytes);
}

void SectorDisk::tear(std::uint32_t sector, const std::byte* from) {
    faults_->hit(Fault::kTornSector);
    const std::size_t cut = 8 * random_.between(1, kSectorBytes / 8 - 1);
    if (random_.coin()) {
        std::memcpy(stable(sector), from, cut);
    } else {
        std::memcpy(stable(sector) + cut, from + cut, kSectorBytes - cut);
    }
}

void SectorDisk::crash(bool power) {
    if (power) {
        crash_power();
    } else {
        crash_process();
    }
    op_ = DiskOp::kNone;
}

void SectorDisk::crash_process() {
    if (op_ == DiskOp::kWrite) {
        std::uint32_t arrived = 0;
        for (std::uint32_t i = 0; i < write_count_; ++i) {
            if (random_.coin()) {
                put(write_first_ + i, &writing_[i * kSectorBytes]);
                ++arrived;
            }
        }
        if (arrived != 0 && arrived != write_count_) {
            faults_->hit(Fault::kTornWrite);
        }
    }
    for (const std::uint32_t sector : listed_) {
        if ((flags_[sector] & kDirty) == 0 && random_.chance(Odds::percent(20))) {
            std::memcpy(cache(sector), stable(sector), kSectorBytes);  // evicted
        } else if (op_ == DiskOp::kSync && (flags_[sector] & kDirty) != 0 && random_.coin()) {
            make_stable(sector);  // the kernel goes on without the process
        }
    }
}

void SectorDisk::crash_power() {
    // Now and then all of it or nothing; else sector by sector.
    const std::uint64_t kind = random_.below(8);
    const Odds keep =
        kind == 0 ? Odds::never() : (kind == 1 ? Odds::percent(101) : Odds::percent(50));
    std::uint32_t kept = 0;
    std::uint32_t lost = 0;
    const auto decide = [&](std::uint32_t sector, const std::byte* from) {
        if (kind > 1 && random_.chance(odds_.torn_sector)) {
            tear(sector, from);
            ++kept;
            ++lost;
        } else if (random_.chance(keep)) {
            std::memcpy(stable(sector), from, kSectorBytes);
            ++kept;
        } else {
            faults_->hit(Fault::kSectorLostAtPowerLoss);
            ++lost;
        }
    };
    const bool writing = op_ == DiskOp::kWrite;
    for (const std::uint32_t sector : listed_) {
        const bool under_way =
            writing && sector >= write_first_ && sector - write_first_ < write_count_;
        if ((flags_[sector] & kDirty) != 0 && !under_way &&
            (flags_[sector] & (kLost | kMisdirected)) == 0) {
            decide(sector, cache(sector));
        }
    }
    for (std::uint32_t i = 0; writing && i < write_count_; ++i) {
        list(write_first_ + i);
        decide(write_first_ + i, &writing_[i * kSectorBytes]);
    }
    if (kept != 0 && lost != 0) {
        faults_->hit(Fault::kTornWrite);
    }
    for (const std::uint32_t sector : listed_) {
        std::memcpy(cache(sector), stable(sector), kSectorBytes);
        flags_[sector] = 0;
    }
    listed_.clear();
}

void SectorDisk::rot(std::uint32_t sector) {
    GALGO_CHECK(sector < kSectors);
    faults_->hit(Fault::kBitRot);
    damaged_ = true;
    const std::size_t at = random_.below(kSectorBytes);
    const auto mask = static_cast<std::byte>(1U << random_.below(8));
    cache(sector)[at] ^= mask;
    stable(sector)[at] ^= mask;
}

}  // namespace galgo::sim

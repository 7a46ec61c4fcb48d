// SectorDisk: one simulated disk of 4096 sectors of 512 bytes, cheap enough for millions of writes
// a second. runtime_sim's SimDisk models files for code that runs on IoBackend; this one models
// what is below them, for the storage model of the simulated nodes (model_storage.hpp).
//
// Each sector has two versions: what a read gives (the page cache) and what is stable. A write goes
// to the cache; a sync makes stable what is dirty. One operation at a time; it is begun, takes
// draw_latency(), and is finished - or a crash comes in between.
//
//   crash of the process   the cache stays; a write under way left any subset of its sectors
//   crash of the power     of the sectors that no sync covered each is kept, lost or torn
//   lost write             reported as done, and no sync ever makes it stable
//   misdirected write      the same, and a sync puts it on another sector of the journal, or on the
//                          one before it that is set to be weak
//   sync error             some sectors are stable, the others are clean and not stable: no later
//                          sync writes them, and the cache may forget them
//   bit rot                one bit, in both versions
//
// Nothing is allocated after construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/bytes.hpp"
#include "sim/faults.hpp"
#include "sim/random.hpp"
#include "sim/schedule.hpp"

namespace galgo::sim {

inline constexpr std::size_t kSectorBytes = 512;

struct DiskOdds {
    Odds write_lost;
    Odds write_misdirected;
    Odds write_error;
    Odds sync_error;
    Odds read_error;
    Odds slow;
    Odds torn_sector;  ///< of a sector that a power loss finds unsynced
    Time latency_min = 50;
    Time latency_max = 500;
    Time slow_max = 500'000;
};

enum class DiskOp : std::uint8_t { kNone, kRead, kWrite, kSync };

class SectorDisk {
 public:
    static constexpr std::uint32_t kSectors = 4096;
    static constexpr std::uint32_t kWriteSectorsMax = 128;

    SectorDisk();

    /// A new disk, all zeros. Misdirected writes land in or behind `journal_first`.
    void reset(Random random, const DiskOdds& odds, std::uint32_t journal_first,
               FaultCounts& faults);
    /// No faults from now on; what is damaged stays so.
    void set_healthy() noexcept;

    // One at a time; finish() when draw_latency() has passed.
    void begin_read() noexcept;
    /// `bytes`: whole sectors, at most 128. `exposed`: may be lost or misdirected.
    void begin_write(std::uint32_t first, ConstBytes bytes, bool exposed);
    void begin_sync() noexcept;
    /// The operation ends; false: with an error.
    [[nodiscard]] bool finish();
    [[nodiscard]] Time draw_latency();
    [[nodiscard]] DiskOp under_way() const noexcept { return op_; }

    /// What a read gives.
    [[nodiscard]] ConstBytes content(std::uint32_t first, std::uint32_t count) const noexcept;

    /// One sector before the journal that a misdirected write may hit as well.
    void set_weak(std::uint32_t sector) noexcept { weak_ = sector; }

    void crash(bool power);
    void rot(std::uint32_t sector);
    void set_full(bool full) noexcept { full_ = full; }
    [[nodiscard]] bool full() const noexcept { return full_; }
    /// A write was lost or misdirected, or something rotted, ever.
    [[nodiscard]] bool damaged() const noexcept { return damaged_; }

 private:
    enum Flag : std::uint8_t {
        kListed = 1,       ///< the versions may differ
        kDirty = 2,        ///< the next sync writes it
        kLost = 4,         ///< ... and loses it
        kMisdirected = 8,  ///< ... or puts it elsewhere
    };

    [[nodiscard]] std::byte* cache(std::uint32_t sector) noexcept {
        return &cache_[sector * kSectorBytes];
    }
    [[nodiscard]] std::byte* stable(std::uint32_t sector) noexcept {
        return &stable_[sector * kSectorBytes];
    }
    void list(std::uint32_t sector);
    void put(std::uint32_t sector, const std::byte* from);
    void finish_write();
    [[nodiscard]] bool finish_sync();
    void make_stable(std::uint32_t sector);
    void tear(std::uint32_t sector, const std::byte* from);
    void crash_process();
    void crash_power();

    std::vector<std::byte> cache_;
    std::vector<std::byte> stable_;
    std::vector<std::uint8_t> flags_;
    std::vector<std::uint32_t> listed_;
    std::vector<std::byte> writing_;
    std::uint32_t write_first_ = 0;
    std::uint32_t write_count_ = 0;
    std::uint32_t high_water_ = 0;
    std::uint32_t journal_first_ = 0;
    std::optional<std::uint32_t> weak_;
    DiskOp op_ = DiskOp::kNone;
    bool exposed_ = false;
    bool full_ = false;
    bool damaged_ = false;
    bool failed_before_ = false;
    Random random_;
    DiskOdds odds_;
    FaultCounts* faults_ = nullptr;
};

}  // namespace galgo::sim

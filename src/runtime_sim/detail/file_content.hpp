// FileContent: the bytes of one simulated file, with what of them is stable. See sim_disk.hpp for
// the model. A token is the sequence number at which a sync was submitted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "base/bytes.hpp"
#include "runtime_sim/sim_disk.hpp"

namespace galgo::runtime_sim::detail {

class FileContent {
 public:
    [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_; }
    /// Sectors that count against the capacity: written or reserved.
    [[nodiscard]] std::uint64_t used_sectors() const noexcept {
        return present_ + reserved_count();
    }
    /// Would a write to this sector take new space?
    [[nodiscard]] bool needs_space(std::uint64_t sector) const;

    void read(MutableBytes into, std::uint64_t offset) const;
    void write(ConstBytes from, std::uint64_t offset, std::uint64_t sequence);
    void truncate(std::uint64_t size_bytes, std::uint64_t sequence);
    void reserve(std::uint64_t offset, std::uint64_t size_bytes);

    void begin_sync(std::uint64_t token) { syncs_.insert(token); }
    void finish_sync(std::uint64_t token);
    void abort_sync(std::uint64_t token);
    /// A sync that failed: what it covered is not stable, and no later sync makes it so.
    void fail_sync(std::uint64_t token);

    void crash_power(UnsyncedFate fate, std::uint32_t keep_percent, std::uint32_t torn_percent,
                     SimRandom& random);
    /// What is there now is stable.
    void settle();

 private:
    using Bytes = std::array<std::byte, kSectorBytes>;
    struct Version {
        std::uint64_t sequence;
        Bytes bytes;
    };
    struct Sector {
        Bytes now{};
        bool present = false;  ///< counts against the capacity
        bool lost = false;     ///< its write-back failed
        std::uint64_t write_sequence = 0;
        std::vector<Version> versions;  ///< oldest is the stable one; empty when clean
    };
    struct SizeVersion {
        std::uint64_t sequence;
        std::uint64_t size_bytes;
    };

    [[nodiscard]] bool is_reserved(std::uint64_t sector) const noexcept {
        return sector >= reserved_first_ && sector < reserved_end_;
    }
    [[nodiscard]] std::uint64_t reserved_count() const noexcept {
        return reserved_end_ - reserved_first_;
    }
    [[nodiscard]] bool sync_runs_since(std::uint64_t sequence) const {
        return !syncs_.empty() && *syncs_.rbegin() >= sequence;
    }
    Sector& touch(std::uint64_t index, std::uint64_t sequence);
    void set_present(std::uint64_t index, Sector& sector, bool present);
    void set_size(std::uint64_t size_bytes, std::uint64_t sequence);
    void clean(std::uint64_t index, Sector& sector);
    void cut_behind_end();

    std::map<std::uint64_t, Sector> sectors_;
    std::set<std::uint64_t> dirty_;
    std::uint64_t present_ = 0;  ///< present sectors outside the reserved range
    std::uint64_t reserved_first_ = 0;
    std::uint64_t reserved_end_ = 0;
    std::uint64_t size_ = 0;
    std::uint64_t size_sequence_ = 0;
    std::vector<SizeVersion> size_versions_;  ///< empty when the size is stable
    std::multiset<std::uint64_t> syncs_;
};

}  // namespace galgo::runtime_sim::detail

// FileContent: sectors and size with their versions. Invariant: a sector is in dirty_ exactly when
// it has versions, and the oldest version is what a power loss may bring back.
#include "runtime_sim/detail/file_content.hpp"

#include <algorithm>
#include <cstring>

namespace galgo::runtime_sim::detail {

namespace {

/// Drops the versions that no crash can bring back once everything up to `token` is stable.
template <class V>
void forget_before(std::vector<V>& versions, std::uint64_t token) {
    std::size_t base = 0;
    for (std::size_t i = 1; i < versions.size(); ++i) {
        if (versions[i].sequence <= token) {
            base = i;
        }
    }
    versions.erase(versions.begin(), versions.begin() + static_cast<std::ptrdiff_t>(base));
}

std::uint64_t sectors_of(std::uint64_t size_bytes) {
    return size_bytes / kSectorBytes + (size_bytes % kSectorBytes != 0 ? 1 : 0);
}

}  // namespace

bool FileContent::needs_space(std::uint64_t sector) const {
    if (is_reserved(sector)) {
        return false;
    }
    const auto it = sectors_.find(sector);
    return it == sectors_.end() || !it->second.present;
}

void FileContent::read(MutableBytes into, std::uint64_t offset) const {
    std::size_t done = 0;
    while (done < into.size()) {
        const std::uint64_t at = offset + done;
        const std::size_t within = at % kSectorBytes;
        const std::size_t count = std::min(kSectorBytes - within, into.size() - done);
        const auto it = sectors_.find(at / kSectorBytes);
        if (it == sectors_.end()) {
            std::memset(into.data() + done, 0, count);  // a hole
        } else {
            std::memcpy(into.data() + done, it->second.now.data() + within, count);
        }
        done += count;
    }
}

void FileContent::write(ConstBytes from, std::uint64_t offset, std::uint64_t sequence) {
    std::size_t done = 0;
    while (done < from.size()) {
        const std::uint64_t at = offset + done;
        const std::size_t within = at % kSectorBytes;
        const std::size_t count = std::min(kSectorBytes - within, from.size() - done);
        Sector& sector = touch(at / kSectorBytes, sequence);
        set_present(at / kSectorBytes, sector, true);
        std::memcpy(sector.now.data() + within, from.data() + done, count);
        done += count;
    }
    if (!from.empty() && offset + from.size() > size_) {
        set_size(offset + from.size(), sequence);
    }
}

void FileContent::truncate(std::uint64_t size_bytes, std::uint64_t sequence) {
    if (size_bytes < size_) {
        const std::uint64_t first_gone = sectors_of(size_bytes);
        if (size_bytes % kSectorBytes != 0 && sectors_.contains(size_bytes / kSectorBytes)) {
            Sector& sector = touch(size_bytes / kSectorBytes, sequence);
            const std::size_t within = size_bytes % kSectorBytes;
            std::memset(sector.now.data() + within, 0, kSectorBytes - within);
        }
        for (auto it = sectors_.lower_bound(first_gone); it != sectors_.end(); ++it) {
            Sector& sector = touch(it->first, sequence);
            sector.now.fill(std::byte{0});
            set_present(it->first, sector, false);
        }
    }
    if (size_bytes <= size_) {  // also to the size it has: Linux gives back what lies behind it
        reserved_end_ = std::clamp(sectors_of(size_bytes), reserved_first_, reserved_end_);
    }
    if (size_bytes != size_) {
        set_size(size_bytes, sequence);
    }
}

void FileContent::reserve(std::uint64_t offset, std::uint64_t size_bytes) {
    const std::uint64_t first = offset / kSectorBytes;
    const std::uint64_t end = sectors_of(offset + size_bytes);
    // One range is enough for how files are reserved here: the hull of all requests.
    reserved_first_ = reserved_count() == 0 ? first : std::min(first, reserved_first_);
    reserved_end_ = std::max(end, reserved_end_);
    present_ = 0;
    for (const auto& [index, sector] : sectors_) {
        present_ += sector.present && !is_reserved(index) ? 1 : 0;
    }
}

void FileContent::finish_sync(std::uint64_t token) {
    abort_sync(token);
    for (auto it = dirty_.begin(); it != dirty_.end();) {
        const std::uint64_t index = *it;
        Sector& sector = sectors_.at(index);
        if (sector.lost) {
            ++it;
        } else if (sector.write_sequence <= token) {
            it = dirty_.erase(it);
            clean(index, sector);
        } else {
            forget_before(sector.versions, token);
            ++it;
        }
    }
    if (size_sequence_ <= token) {
        size_versions_.clear();
    } else {
        forget_before(size_versions_, token);
    }
}

void FileContent::abort_sync(std::uint64_t token) {
    const auto it = syncs_.find(token);
    if (it != syncs_.end()) {
        syncs_.erase(it);
    }
}

void FileContent::fail_sync(std::uint64_t token) {
    abort_sync(token);
    for (const std::uint64_t index : dirty_) {
        Sector& sector = sectors_.at(index);
        if (sector.write_sequence <= token) {
            sector.lost = true;
        }
    }
}

void FileContent::crash_power(UnsyncedFate fate, std::uint32_t keep_percent,
                              std::uint32_t torn_percent, SimRandom& random) {
    if (fate == UnsyncedFate::kKeepAll) {
        settle();
        return;
    }
    if (fate == UnsyncedFate::kRuin) {
        for (const std::uint64_t index : dirty_) {
            for (std::byte& byte : sectors_.at(index).now) {
                byte = static_cast<std::byte>(random.next());
            }
        }
        settle();
        return;
    }
    if (!size_versions_.empty()) {
        if (fate == UnsyncedFate::kLoseAll) {
            size_ = size_versions_.front().size_bytes;
        } else if (!random.percent(keep_percent)) {
            std::uint64_t low = size_;
            std::uint64_t high = size_;
            for (const SizeVersion& version : size_versions_) {
                low = std::min(low, version.size_bytes);
                high = std::max(high, version.size_bytes);
            }
            // Write-back grows a file step by step, so a size between the known ones is possible
            // too.
            size_ = random.percent(30)
                        ? random.between(low, high)
                        : size_versions_[random.below(size_versions_.size())].size_bytes;
        }
    }
    for (const std::uint64_t index : dirty_) {
        Sector& sector = sectors_.at(index);
        if (fate == UnsyncedFate::kLoseAll) {
            sector.now = sector.versions.front().bytes;
        } else if (torn_percent != 0 && random.percent(torn_percent)) {
            const Bytes& old = sector.versions[random.below(sector.versions.size())].bytes;
            const std::size_t cut = random.between(1, kSectorBytes - 1);
            std::memcpy(sector.now.data() + cut, old.data() + cut, kSectorBytes - cut);
        } else if (!random.percent(keep_percent)) {
            sector.now = sector.versions[random.below(sector.versions.size())].bytes;
        }
        set_present(index, sector, true);
    }
    settle();
}

void FileContent::settle() {
    cut_behind_end();
    for (const std::uint64_t index : dirty_) {
        clean(index, sectors_.at(index));
    }
    dirty_.clear();
    size_versions_.clear();
    syncs_.clear();
}

FileContent::Sector& FileContent::touch(std::uint64_t index, std::uint64_t sequence) {
    Sector& sector = sectors_[index];
    if (sector.versions.empty()) {
        sector.versions.push_back({.sequence = 0, .bytes = sector.now});
        dirty_.insert(index);
    } else if (sync_runs_since(sector.write_sequence) &&
               sector.versions.back().sequence != sector.write_sequence) {
        sector.versions.push_back({.sequence = sector.write_sequence, .bytes = sector.now});
    }
    sector.write_sequence = sequence;
    sector.lost = false;
    return sector;
}

void FileContent::set_present(std::uint64_t index, Sector& sector, bool present) {
    if (sector.present != present && !is_reserved(index)) {
        present_ = present ? present_ + 1 : present_ - 1;
    }
    sector.present = present;
}

void FileContent::set_size(std::uint64_t size_bytes, std::uint64_t sequence) {
    if (size_versions_.empty()) {
        size_versions_.push_back({.sequence = 0, .size_bytes = size_});
    } else if (sync_runs_since(size_sequence_) &&
               size_versions_.back().sequence != size_sequence_) {
        size_versions_.push_back({.sequence = size_sequence_, .size_bytes = size_});
    }
    size_sequence_ = sequence;
    size_ = size_bytes;
}

void FileContent::clean(std::uint64_t index, Sector& sector) {
    sector.versions.clear();
    sector.versions.shrink_to_fit();
    sector.lost = false;
    if (!sector.present) {
        sectors_.erase(index);
    }
}

void FileContent::cut_behind_end() {
    const std::uint64_t first_gone = sectors_of(size_);
    for (auto it = sectors_.lower_bound(first_gone); it != sectors_.end(); ++it) {
        it->second.now.fill(std::byte{0});
        set_present(it->first, it->second, false);
    }
    const auto last = sectors_.find(size_ / kSectorBytes);
    if (size_ % kSectorBytes != 0 && last != sectors_.end()) {
        const std::size_t within = size_ % kSectorBytes;
        std::memset(last->second.now.data() + within, 0, kSectorBytes - within);
    }
}

}  // namespace galgo::runtime_sim::detail

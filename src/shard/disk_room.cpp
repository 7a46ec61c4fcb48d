#include "shard/disk_room.hpp"

#include <algorithm>
#include <format>

#include "base/units.hpp"
#include "observe/log.hpp"

namespace galgo::shard {

namespace {

constexpr std::uint64_t kReserveShare = 32;
constexpr std::uint64_t kPieceBytes = 1 * kMiB;

std::int64_t as_signed(std::uint64_t bytes) noexcept {
    return static_cast<std::int64_t>(
        std::min<std::uint64_t>(bytes, std::numeric_limits<std::int64_t>::max()));
}

}  // namespace

void DiskRoom::update(const std::optional<runtime::DiskSpace>& now) noexcept {
    const bool refused = has_refused_.exchange(false, std::memory_order_relaxed);
    const std::uint64_t share =
        now.has_value() ? std::min(wanted_reserve_, now->total_bytes / kReserveShare) : 0;
    const std::uint64_t reserve = share == 0 ? 0 : share + unwritten_;
    const std::uint64_t free = now.has_value() ? now->free_bytes : 0;
    const bool was_full = is_full_.load(std::memory_order_relaxed);
    const bool is_full = reserve != 0 && free <= (was_full ? 2 * reserve : reserve);
    reserve_.store(reserve, std::memory_order_relaxed);
    free_.store(free, std::memory_order_relaxed);
    // Sends of this moment take from the old figure or the new one: the reserve is for that, too.
    left_.store(reserve == 0 ? std::numeric_limits<std::int64_t>::max()
                             : as_signed(free) - as_signed(reserve),
                std::memory_order_relaxed);
    look_.fetch_add(1, std::memory_order_relaxed);
    is_full_.store(is_full, std::memory_order_relaxed);
    // A send that is larger than what is left is refused while smaller ones are taken.
    const bool tells = is_full || (refused && reserve != 0);
    const bool told = tells_.exchange(tells, std::memory_order_relaxed);
    if (tells && !told) {
        observe::log_error("shard",
                           "the file system of the data directory is full: messages are refused",
                           {{"free_bytes", free}, {"reserved_bytes", reserve}});
    } else if (told && !tells) {
        observe::log_info("shard", "messages are taken again", {{"free_bytes", free}});
    }
}

std::uint64_t DiskRoom::draw(std::uint64_t bytes) noexcept {
    if (!is_full_.load(std::memory_order_relaxed)) {
        for (const std::uint64_t piece : {std::max(bytes, kPieceBytes), bytes}) {
            if (try_draw(piece)) {
                return piece;
            }
        }
        has_refused_.store(true, std::memory_order_relaxed);
    }
    refusals_.fetch_add(1, std::memory_order_relaxed);
    return 0;
}

bool DiskRoom::try_draw(std::uint64_t bytes) noexcept {
    const std::int64_t wanted = as_signed(bytes);
    if (left_.fetch_sub(wanted, std::memory_order_relaxed) >= wanted) {
        return true;
    }
    left_.fetch_add(wanted, std::memory_order_relaxed);
    return false;
}

std::optional<std::string> DiskRoom::fault() const {
    if (!tells_.load(std::memory_order_relaxed)) {
        return std::nullopt;
    }
    return std::format(
        "the file system of the data directory is full, messages are refused until {} bytes are "
        "free (now {}): delete topics or segments, or add room",
        2 * reserve_bytes(), free_bytes());
}

}  // namespace galgo::shard

#include "runtime/timer_wheel.hpp"

#include <algorithm>
#include <bit>

namespace galgo::runtime {

void TimerWheel::arm(Timer& timer, Instant deadline) noexcept {
    GALGO_DCHECK(timer.fire != nullptr);
    cancel(timer);
    if (deadline == kNever) {
        return;
    }
    const std::uint64_t whole = deadline.value() / kTickNs;
    const std::uint64_t rounded_up = deadline.value() % kTickNs == 0 ? whole : whole + 1;
    timer.deadline_ = deadline;
    timer.tick_ = std::max({rounded_up, tick_ + 1, floor_});
    place(timer);
    ++armed_count_;
}

void TimerWheel::cancel(Timer& timer) noexcept {
    if (!timer.is_linked()) {
        return;
    }
    timer.unlink();
    --armed_count_;
    Level& level = levels_[timer.level_];
    if (level.slots[timer.slot_].empty()) {
        level.occupied &= ~(std::uint64_t{1} << timer.slot_);
    }
}

void TimerWheel::place(Timer& timer) noexcept {
    const std::uint64_t difference = timer.tick_ ^ tick_;
    const std::size_t level =
        (static_cast<std::size_t>(std::bit_width(difference)) - 1) / kLevelBits;
    const std::size_t slot = (timer.tick_ >> (level * kLevelBits)) % kSlots;
    timer.level_ = static_cast<std::uint8_t>(level);
    timer.slot_ = static_cast<std::uint8_t>(slot);
    levels_[level].slots[slot].push_back(timer);
    levels_[level].occupied |= std::uint64_t{1} << slot;
}

TimerWheel::Next TimerWheel::next() const noexcept {
    for (std::size_t level = 0; level < kLevels; ++level) {
        if (levels_[level].occupied == 0) {
            continue;
        }
        const auto slot = static_cast<std::size_t>(std::countr_zero(levels_[level].occupied));
        const std::size_t shift = level * kLevelBits;
        const std::uint64_t block = tick_ >> (shift + kLevelBits) << kLevelBits;
        return {.level = level, .slot = slot, .tick = (block | slot) << shift};
    }
    return {};
}

std::size_t TimerWheel::advance(Instant now) noexcept {
    const std::uint64_t target = now.value() / kTickNs;
    if (target <= tick_) {
        return 0;
    }
    floor_ = target + 1;
    std::size_t fired = 0;
    for (Next due = next(); due.level != kLevels && due.tick <= target; due = next()) {
        tick_ = due.tick;
        // The slot stays in place while it is emptied, so that a callback may cancel a timer that
        // is due too.
        IntrusiveList<Timer>& slot = levels_[due.level].slots[due.slot];
        while (!slot.empty()) {
            Timer& timer = slot.pop_front();
            if (timer.tick_ > tick_) {
                place(timer);  // on a lower level now
                continue;
            }
            --armed_count_;
            ++fired;
            timer.fire(timer);
        }
        levels_[due.level].occupied &= ~(std::uint64_t{1} << due.slot);
    }
    tick_ = target;
    floor_ = 0;
    return fired;
}

Instant TimerWheel::next_deadline() const noexcept {
    const Next due = next();
    return due.level == kLevels ? kNever : Instant{due.tick * kTickNs};
}

}  // namespace galgo::runtime

// Hierarchical timing wheel of one shard: 1 ms ticks, 8 levels of 64 slots, so every Instant fits
// and arm and cancel are O(1). A timer fires at the first tick at or after its deadline: never
// early, less than one tick late plus the length of a turn. Timers are intrusive: arming allocates
// nothing and cannot fail; the owner keeps the Timer where it is while it is armed.
//
// A timer stands on the level of the highest 6-bit digit in which its tick differs from the wheel's
// tick; on that level its slot is ahead of the wheel's digit. So the first occupied slot of the
// lowest occupied level is the next thing to happen: a fire on level 0, a spread to lower levels
// elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/ids.hpp"
#include "base/intrusive_list.hpp"
#include "base/units.hpp"

namespace galgo::runtime {

inline constexpr Instant kNever{UINT64_MAX};

struct Timer : ListLink<> {
    /// Runs on the shard inside advance(); the timer is no longer armed and may be armed again or
    /// go.
    using Fire = void (*)(Timer& timer) noexcept;

    Timer() noexcept = default;
    explicit Timer(Fire callback) noexcept : fire(callback) {}
    [[nodiscard]] bool is_armed() const noexcept { return is_linked(); }
    /// Meaningful while armed.
    [[nodiscard]] Instant deadline() const noexcept { return deadline_; }

    Fire fire = nullptr;

 private:
    friend class TimerWheel;
    Instant deadline_;
    std::uint64_t tick_ = 0;
    std::uint8_t level_ = 0;
    std::uint8_t slot_ = 0;
};

class TimerWheel {
 public:
    static constexpr std::uint64_t kTickNs = kMillisecond;

    explicit TimerWheel(Instant start) noexcept : tick_(start.value() / kTickNs) {}

    /// Arms, or moves an armed timer. A deadline that has passed fires at the next tick. kNever
    /// disarms.
    void arm(Timer& timer, Instant deadline) noexcept;
    /// Nothing happens when the timer is not armed.
    void cancel(Timer& timer) noexcept;

    /// Fires everything due at `now`; a timer that a callback arms waits for a later tick. Returns
    /// the number fired.
    std::size_t advance(Instant now) noexcept;

    /// No timer fires before it, and something is to be done by advance() at it; kNever when empty.
    /// Exact for timers of the current block of 64 ticks; for later ones it may be the start of
    /// their block.
    [[nodiscard]] Instant next_deadline() const noexcept;

    [[nodiscard]] std::size_t armed_count() const noexcept { return armed_count_; }

 private:
    static constexpr std::size_t kLevelBits = 6;
    static constexpr std::size_t kSlots = 1U << kLevelBits;
    static constexpr std::size_t kLevels = 8;  // 2^48 ticks; an Instant has less than 2^45

    struct Level {
        std::uint64_t occupied = 0;
        std::array<IntrusiveList<Timer>, kSlots> slots;
    };
    struct Next {
        std::size_t level = kLevels;
        std::size_t slot = 0;
        std::uint64_t tick = 0;
    };

    void place(Timer& timer) noexcept;
    [[nodiscard]] Next next() const noexcept;

    std::uint64_t tick_;       // everything up to it has fired
    std::uint64_t floor_ = 0;  // inside advance(): first tick a newly armed timer may have
    std::size_t armed_count_ = 0;
    std::array<Level, kLevels> levels_;
};

}  // namespace galgo::runtime

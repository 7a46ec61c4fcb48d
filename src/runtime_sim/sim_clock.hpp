// SimClock: the virtual time of one simulated world, shared by all its backends. Time moves only
// when every participant that was polled sleeps, and then to the earliest of all deadlines and
// events: no backend can sleep past an event of another.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"

namespace galgo::runtime_sim {

inline constexpr Instant kNever{~std::uint64_t{0}};

class SimClock {
 public:
    /// Something that has events in the future: a backend, the network.
    class Participant {
     public:
        virtual ~Participant() = default;
        /// Time of its next event, kNever when there is none.
        [[nodiscard]] virtual Instant next_event() const = 0;
        /// It does nothing before this time unless an event comes; in the past while it is awake.
        [[nodiscard]] virtual Instant sleeps_until() const = 0;
    };

    SimClock() = default;
    SimClock(const SimClock&) = delete;
    SimClock& operator=(const SimClock&) = delete;

    [[nodiscard]] Instant now() const noexcept { return now_; }
    [[nodiscard]] Timestamp wall_now() const noexcept {
        return Timestamp(wall_base_us_ + now_.value() / 1000 + wall_shift_us_);
    }
    /// Moves monotonic and wall time forward.
    void advance(std::uint64_t nanoseconds) noexcept { now_ = now_.plus(nanoseconds); }
    /// The wall clock alone jumps (an administrator, a time daemon); microseconds, may be negative.
    void jump_wall(std::int64_t microseconds) noexcept {
        wall_shift_us_ += static_cast<std::uint64_t>(microseconds);
    }

    void add(Participant& participant) { participants_.push_back(&participant); }
    void remove(Participant& participant) { std::erase(participants_, &participant); }
    /// Moves time to the next event of any participant, but not past `limit`: for a driver that
    /// knows the deadlines of all. True also when an event is due already; false when there is
    /// nothing ahead.
    bool advance_to_event(Instant limit) noexcept {
        Instant next = limit;
        for (const Participant* participant : participants_) {
            next = std::min(next, participant->next_event());
        }
        if (next == kNever) {
            return false;
        }
        now_ = std::max(now_, next);
        return true;
    }
    /// Moves time to the next event or deadline of any participant. False when there is none, or
    /// when one of them is awake.
    bool advance_to_next() noexcept {
        Instant next = kNever;
        for (const Participant* participant : participants_) {
            next = std::min({next, participant->next_event(), participant->sleeps_until()});
        }
        if (next == kNever || next <= now_) {
            return false;
        }
        now_ = next;
        return true;
    }

 private:
    // Both start at values that are not 0, because real clocks do not.
    Instant now_{1'000'000'000};
    std::uint64_t wall_base_us_ = 1'750'000'000'000'000;
    std::uint64_t wall_shift_us_ = 0;
    std::vector<Participant*> participants_;
};

}  // namespace galgo::runtime_sim

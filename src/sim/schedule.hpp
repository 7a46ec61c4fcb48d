// Virtual time and what is due in it: a heap of small events. Time is in microseconds since the
// start of the run; a tick is 10 ms of it. What is due at the same moment comes in an order drawn
// from the seed. An event for a node names the life it was meant for, so that what a crashed
// process asked for reaches nobody.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "sim/random.hpp"

namespace galgo::sim {

/// Microseconds of virtual time.
using Time = std::uint64_t;
inline constexpr Time kTick = 10'000;

enum class EventKind : std::uint8_t {
    kDisk,         ///< the operation under way on the disk of `node` ends
    kStorage,      ///< the storage of `node` asked to be called back
    kFrame,        ///< packet `argument` reaches `node`
    kRequest,      ///< packet `argument`, a client's request, reaches `node`
    kReply,        ///< packet `argument` reaches the client that it names
    kClientTimer,  ///< client `argument`
    kCrash,        ///< of `node`, by time
    kRestart,
    kPause,
    kResume,
    kDiskFills,
    kDiskHasRoom,
    kClockJump,
    kRot,
    kPartition,  ///< of the network; the next is drawn when this one comes
    kHeal,       ///< of the partition
    kTick,       ///< of the clock of `node`
};

struct Event {
    Time at = 0;
    std::uint32_t order = 0;
    std::uint32_t argument = 0;
    std::uint32_t life = 0;
    std::uint8_t node = 0;
    EventKind kind{};
};

class Schedule {
 public:
    static constexpr std::size_t kEventsMax = 1U << 16U;

    Schedule() { heap_.reserve(kEventsMax); }

    void clear(Random random) noexcept {
        heap_.clear();
        random_ = random;
        now_ = 0;
    }
    [[nodiscard]] Time now() const noexcept { return now_; }
    void set_now(Time now) noexcept { now_ = now; }

    /// `event.at` is not in the past.
    void add(Event event) {
        GALGO_CHECK(event.at >= now_ && heap_.size() < kEventsMax);
        event.order = static_cast<std::uint32_t>(random_.next());
        heap_.push_back(event);
        std::ranges::push_heap(heap_, later);
    }
    [[nodiscard]] bool due(Time until) const noexcept {
        return !heap_.empty() && heap_.front().at <= until;
    }
    /// The next one; time goes there.
    Event take() {
        std::ranges::pop_heap(heap_, later);
        const Event event = heap_.back();
        heap_.pop_back();
        now_ = event.at;
        return event;
    }

 private:
    static bool later(const Event& left, const Event& right) noexcept {
        return left.at != right.at ? left.at > right.at : left.order > right.order;
    }

    std::vector<Event> heap_;
    Random random_;
    Time now_ = 0;
};

}  // namespace galgo::sim

// The clock of one simulated node: what it reads at a moment of virtual time. Its monotonic time
// drifts by up to some per cent, and its ticks come with it; its wall time jumps as well, in both
// directions.
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "consensus/types.hpp"
#include "sim/schedule.hpp"

namespace galgo::sim {

class NodeClock {
 public:
    static constexpr std::uint64_t kWallStart = 1'700'000'000'000'000;

    void reset(std::int64_t drift_ppm, std::int64_t offset_us) noexcept {
        drift_ppm_ = drift_ppm;
        offset_us_ = offset_us;
    }
    [[nodiscard]] consensus::TickCount ticks(Time now) const noexcept {
        return consensus::TickCount(static_cast<std::uint64_t>(monotonic(now)) / kTick);
    }
    [[nodiscard]] Timestamp wall(Time now) const noexcept {
        return Timestamp(kWallStart + static_cast<std::uint64_t>(monotonic(now) + offset_us_));
    }
    /// When the clock shows its tick `number`.
    [[nodiscard]] Time time_of_tick(std::uint64_t number) const noexcept {
        const auto rate = static_cast<std::uint64_t>(1'000'000 + drift_ppm_);
        return (number * kTick * 1'000'000 + rate - 1) / rate;
    }
    void jump(std::int64_t by_us) noexcept { offset_us_ += by_us; }
    /// The wall time is not below `least` from now on.
    void correct(Time now, Timestamp least) noexcept {
        if (wall(now) < least) {
            offset_us_ += static_cast<std::int64_t>(least.value() - wall(now).value());
        }
    }

 private:
    [[nodiscard]] std::int64_t monotonic(Time now) const noexcept {
        const auto signed_now = static_cast<std::int64_t>(now);
        return signed_now + signed_now * drift_ppm_ / 1'000'000;
    }

    std::int64_t drift_ppm_ = 0;
    std::int64_t offset_us_ = 0;
};

}  // namespace galgo::sim

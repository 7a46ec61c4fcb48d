// SimRandom: the only source of chance in the simulator. SplitMix64: one word of state, so that a
// seed reproduces a run on every machine; fork() gives a part its own stream, so that drawing more
// in one part does not change what another part draws.
#pragma once

#include <cstdint>

#include "base/check.hpp"

namespace galgo::runtime_sim {

class SimRandom {
 public:
    explicit SimRandom(std::uint64_t seed) noexcept : state_(seed) {}

    [[nodiscard]] std::uint64_t next() noexcept {
        state_ += 0x9E3779B97F4A7C15ULL;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
        return z ^ (z >> 31);
    }
    /// 0 <= result < bound; bound > 0.
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) noexcept {
        GALGO_DCHECK(bound > 0);
        return next() % bound;
    }
    /// low <= result <= high.
    [[nodiscard]] std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
        GALGO_DCHECK(low <= high);
        const std::uint64_t span = high - low;
        return span == ~std::uint64_t{0} ? next() : low + below(span + 1);
    }
    /// True in `percent` of 100 draws.
    [[nodiscard]] bool percent(std::uint32_t percent) noexcept { return below(100) < percent; }
    [[nodiscard]] SimRandom fork() noexcept { return SimRandom(next()); }

 private:
    std::uint64_t state_;
};

}  // namespace galgo::runtime_sim

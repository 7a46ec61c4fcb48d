// Random numbers of the simulator: xoshiro256** seeded by splitmix64. A run has one 64-bit seed;
// every consumer (network, each disk, each clock, faults, workload, ...) has a stream of its own,
// so that a change in how one of them draws leaves the others alone.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/ids.hpp"

namespace galgo::sim {

/// A probability as a fraction of 2^32; 0 never, kAlways always.
struct Odds {
    std::uint64_t of_2_32 = 0;

    [[nodiscard]] static constexpr Odds never() noexcept { return {}; }
    [[nodiscard]] static constexpr Odds per_million(std::uint64_t count) noexcept {
        return {(count << 32U) / 1'000'000};
    }
    [[nodiscard]] static constexpr Odds percent(std::uint64_t count) noexcept {
        return per_million(count * 10'000);
    }
    [[nodiscard]] constexpr bool possible() const noexcept { return of_2_32 != 0; }
};

class Random {
 public:
    Random() noexcept : Random(0) {}
    explicit Random(std::uint64_t seed) noexcept {
        for (std::uint64_t& word : state_) {
            seed += 0x9e3779b97f4a7c15U;
            std::uint64_t z = seed;
            z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
            z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
            word = z ^ (z >> 31U);
        }
    }

    std::uint64_t next() noexcept {
        const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
        const std::uint64_t t = state_[1] << 17U;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= t;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }
    /// 0..bound-1; bound is not 0.
    std::uint64_t below(std::uint64_t bound) noexcept {
        return static_cast<std::uint64_t>((u128{next()} * bound) >> 64U);
    }
    /// low..high, both included.
    std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
        return low + below(high - low + 1);
    }
    /// low..high with every order of magnitude equally likely; low is not 0.
    std::uint64_t spread(std::uint64_t low, std::uint64_t high) noexcept {
        const auto bits_low = static_cast<std::uint64_t>(std::bit_width(low));
        const auto bits_high = static_cast<std::uint64_t>(std::bit_width(high));
        const std::uint64_t bits = between(bits_low, bits_high);
        const std::uint64_t from = std::uint64_t{1} << (bits - 1);
        const std::uint64_t drawn = from + below(from);
        return drawn < low ? low : (drawn > high ? high : drawn);
    }
    bool chance(Odds odds) noexcept { return odds.possible() && (next() >> 32U) < odds.of_2_32; }
    bool coin() noexcept { return (next() >> 63U) != 0; }
    /// A stream of its own for the consumer `number`.
    [[nodiscard]] static Random child(std::uint64_t seed, std::uint64_t number) noexcept {
        Random mixed(seed ^ (number * 0xd1342543de82ef95U));
        return Random(mixed.next());
    }

 private:
    std::array<std::uint64_t, 4> state_{};
};

}  // namespace galgo::sim

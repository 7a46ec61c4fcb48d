// What happened, folded into 64 bits: two runs with the same seed end with the same hash, or
// something in them depends on more than the seed.
#pragma once

#include <bit>
#include <cstdint>

namespace galgo::log_model {

class Trace {
 public:
    void add(std::uint64_t value) noexcept {
        hash_ = std::rotl((hash_ ^ value) * 0x9E3779B97F4A7C15ULL, 29);
    }
    [[nodiscard]] std::uint64_t hash() const noexcept { return hash_ * 0xD1342543DE82EF95ULL; }

 private:
    std::uint64_t hash_ = 0x2545F4914F6CDD1DULL;
};

}  // namespace galgo::log_model

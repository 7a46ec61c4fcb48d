// What happened, folded into 64 bits: two runs with the same seed must end with the same hash, or
// something in them depends on more than the seed.
#pragma once

#include <bit>
#include <cstdint>

namespace galgo::sim {

class Trace {
 public:
    void add(std::uint64_t value) noexcept {
        hash_ = std::rotl((hash_ ^ value) * 0x9e3779b97f4a7c15U, 29);
    }
    void add(std::uint64_t first, std::uint64_t second) noexcept {
        add(first);
        add(second);
    }
    [[nodiscard]] std::uint64_t hash() const noexcept { return hash_ * 0xd1342543de82ef95U; }

 private:
    std::uint64_t hash_ = 0x2545f4914f6cdd1dU;
};

}  // namespace galgo::sim

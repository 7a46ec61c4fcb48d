// Sizes in bytes and durations in nanoseconds, spelled with their unit.
#pragma once

#include <cstdint>

namespace galgo {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

/// Durations on the monotonic clock, in nanoseconds.
inline constexpr std::uint64_t kMicrosecond = 1'000;
inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000'000'000;

}  // namespace galgo

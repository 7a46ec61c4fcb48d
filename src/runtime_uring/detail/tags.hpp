// What user_data of a completion means: small numbers are ours, everything else is the address of
// an IoOp with its kind in the three low bits.
#pragma once

#include <cstdint>

namespace galgo::runtime_uring::detail {

inline constexpr std::uint64_t kTagIgnore = 8;
inline constexpr std::uint64_t kTagWake = 16;
inline constexpr std::uint64_t kTagLast = 64;
inline constexpr std::uint64_t kKindMask = 7;

enum class OpKind : std::uint8_t { kPlain = 0, kReceiveAny = 1, kAccept = 2, kConnect = 3 };

}  // namespace galgo::runtime_uring::detail

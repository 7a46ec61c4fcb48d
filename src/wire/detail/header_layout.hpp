// Offsets of the fields of the frame headers, each shape closed by a check that it tiles the 256
// bytes.
#pragma once

#include <cstddef>

#include "wire/header.hpp"

namespace galgo::wire::detail {

// Common.
inline constexpr std::size_t kChecksum = 0;
inline constexpr std::size_t kChecksumBody = 16;
inline constexpr std::size_t kCluster = 32;
inline constexpr std::size_t kSize = 48;
inline constexpr std::size_t kView = 52;
inline constexpr std::size_t kRelease = 56;
inline constexpr std::size_t kCommand = 60;
inline constexpr std::size_t kReplica = 61;
inline constexpr std::size_t kShape = 128;
static_assert(kChecksumBody == kChecksum + 16 && kCluster == kChecksumBody + 16);
static_assert(kSize == kCluster + 16 && kView == kSize + 4 && kRelease == kView + 4);
static_assert(kCommand == kRelease + 4 && kReplica == kCommand + 1 && kShape == 62 + 66);

namespace request {
inline constexpr std::size_t kClient = kShape;
inline constexpr std::size_t kRequestChecksum = 144;
inline constexpr std::size_t kTimestamp = 160;
inline constexpr std::size_t kRequest = 168;
inline constexpr std::size_t kOperation = 176;
inline constexpr std::size_t kSession = 184;
inline constexpr std::size_t kUserId = 192;
inline constexpr std::size_t kCode = 196;
inline constexpr std::size_t kReserved = 200;
static_assert(kRequestChecksum == kClient + 16 && kTimestamp == kRequestChecksum + 16);
static_assert(kRequest == kTimestamp + 8 && kOperation == kRequest + 8);
static_assert(kSession == kOperation + 8 && kUserId == kSession + 8 && kCode == kUserId + 4);
static_assert(kReserved == kCode + 4 && kReserved + 56 == kHeaderSize);
}  // namespace request

namespace reply {
inline constexpr std::size_t kRequestChecksum = kShape;
inline constexpr std::size_t kContext = 144;
inline constexpr std::size_t kClient = 160;
inline constexpr std::size_t kOp = 176;
inline constexpr std::size_t kCommit = 184;
inline constexpr std::size_t kTimestamp = 192;
inline constexpr std::size_t kRequest = 200;
inline constexpr std::size_t kOperation = 208;
inline constexpr std::size_t kStatus = 216;
inline constexpr std::size_t kReserved = 220;
static_assert(kContext == kRequestChecksum + 16 && kClient == kContext + 16 && kOp == kClient + 16);
static_assert(kCommit == kOp + 8 && kTimestamp == kCommit + 8 && kRequest == kTimestamp + 8);
static_assert(kOperation == kRequest + 8 && kStatus == kOperation + 8 && kReserved == kStatus + 4);
static_assert(kReserved + 36 == kHeaderSize);
}  // namespace reply

namespace eviction {
inline constexpr std::size_t kClient = kShape;
inline constexpr std::size_t kVersionMax = 144;
inline constexpr std::size_t kVersionMin = 148;
inline constexpr std::size_t kReserved = 152;
inline constexpr std::size_t kReason = 255;
static_assert(kVersionMax == kClient + 16 && kVersionMin == kVersionMax + 4);
static_assert(kReserved == kVersionMin + 4 && kReserved + 103 == kReason);
static_assert(kReason + 1 == kHeaderSize);
}  // namespace eviction

}  // namespace galgo::wire::detail

// Constants of the io_uring interface that the system header of our oldest platform (Linux 6.1)
// does not have yet, and checks of those it has. The structures come from <linux/io_uring.h>.
#pragma once

#include <linux/io_uring.h>

#include <cstddef>
#include <cstdint>

namespace galgo::runtime_uring::abi {

inline constexpr std::uint32_t kSetupNoSqArray = 1U << 16;  // 6.6
inline constexpr std::uint8_t kOpFtruncate = 55;            // 6.9

// MSG_RING: the command in sqe->addr that posts a completion to another ring.
inline constexpr std::uint64_t kMsgData = 0;

static_assert(IORING_SETUP_SINGLE_ISSUER == 1U << 12);
static_assert(IORING_SETUP_DEFER_TASKRUN == 1U << 13);
static_assert(IORING_OP_MSG_RING == 40);
static_assert(IORING_REGISTER_IOWQ_AFF == 17 && IORING_REGISTER_IOWQ_MAX_WORKERS == 19);
static_assert(IORING_REGISTER_RING_FDS == 20 && IORING_REGISTER_PBUF_RING == 22);
static_assert(sizeof(io_uring_sqe) == 64 && sizeof(io_uring_cqe) == 16);
static_assert(sizeof(io_uring_buf) == 16);
static_assert(offsetof(io_uring_buf, resv) == 14,
              "the tail of a buffer ring lies over its first entry");

}  // namespace galgo::runtime_uring::abi

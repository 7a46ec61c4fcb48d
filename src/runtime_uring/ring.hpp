// Ring: one io_uring instance over raw system calls. It knows submission and completion queue, and
// nothing of what the entries mean. One thread sets it up and uses it (SINGLE_ISSUER,
// DEFER_TASKRUN: completions are posted only when that thread enters the kernel for them, and a
// flag in the shared memory says when that is worth while).
//
// Limits: sq_entries entries can be queued before they are submitted, cq_entries completions wait
// in the shared ring; more of them wait in the kernel and come with later reaps, none is lost.
#pragma once

#include <linux/io_uring.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.hpp"
#include "base/ids.hpp"

namespace galgo::runtime_uring {

struct RingOptions {
    std::uint32_t sq_entries = 1024;
    std::uint32_t cq_entries = 4096;
    bool shared_by_threads = false;  ///< the caller serialises by a lock: no SINGLE_ISSUER
    bool index_array = false;        ///< as on kernels before 6.6, which always have one
};

/// The kernel takes no more submission entries, and twice as many completions.
inline constexpr std::uint32_t kSqEntriesMax = 32'768;

/// A ring that queues `sq_entries` (1..=kSqEntriesMax). The kernel rounds them up to a power of two
/// and refuses a completion ring that is smaller.
[[nodiscard]] constexpr RingOptions ring_options(std::uint32_t sq_entries) noexcept {
    RingOptions options{.sq_entries = sq_entries};
    options.cq_entries = std::max(options.cq_entries, 2 * std::bit_ceil(sq_entries));
    return options;
}

class Ring {
 public:
    Ring() noexcept = default;
    Ring(const Ring&) = delete;
    Ring& operator=(const Ring&) = delete;
    ~Ring() { close(); }

    /// On the thread that will use it. Errors carry the errno of io_uring_setup (see probe.hpp).
    [[nodiscard]] Status open(const RingOptions& options);
    /// Nothing is in flight. The kernel gives the ring up a little later.
    void close() noexcept;

    [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
    [[nodiscard]] int fd() const noexcept { return fd_; }

    /// A cleared entry to fill in, or nullptr: the queue is full, submit first.
    [[nodiscard]] io_uring_sqe* try_get_sqe() noexcept;
    /// Index of an entry, below sq_entries(): where side data of an entry lies until it is
    /// submitted.
    [[nodiscard]] std::size_t index_of(const io_uring_sqe* sqe) const noexcept {
        return static_cast<std::size_t>(sqe - sqes_);
    }
    [[nodiscard]] std::uint32_t sq_entries() const noexcept { return sq_entries_; }
    [[nodiscard]] std::uint32_t queued() const noexcept { return sqe_tail_ - sqe_submitted_; }

    /// Submits what is queued and lets the kernel post what is done. With `wait`, blocks until a
    /// completion is there or `timeout_ns` have passed (UINT64_MAX: no limit). Returns 0 or -errno:
    /// -ETIME and -EINTR are normal ends of a wait, -EBUSY and -EAGAIN ask to reap first.
    int enter(bool wait, std::uint64_t timeout_ns) noexcept;
    /// True when the kernel has completions that only an enter() posts.
    [[nodiscard]] bool kernel_has_work() const noexcept;

    /// Completions in the shared ring now.
    [[nodiscard]] std::uint32_t completions() const noexcept;
    /// Takes the oldest; there is one.
    [[nodiscard]] io_uring_cqe take() noexcept;

    /// io_uring_register; 0 or more, or -errno.
    int register_op(std::uint32_t opcode, void* argument, std::uint32_t count) noexcept;

 private:
    int fd_ = -1;
    int enter_fd_ = -1;  // index of the registered ring descriptor, or fd_
    bool registered_ = false;
    std::uint32_t sq_entries_ = 0;
    std::uint32_t cq_entries_ = 0;
    std::uint32_t sqe_tail_ = 0;       // handed out
    std::uint32_t sqe_submitted_ = 0;  // consumed by the kernel
    std::uint32_t* sq_head_ = nullptr;
    std::uint32_t* sq_tail_ = nullptr;
    std::uint32_t* sq_flags_ = nullptr;
    std::uint32_t* cq_head_ = nullptr;
    std::uint32_t* cq_tail_ = nullptr;
    io_uring_cqe* cqes_ = nullptr;
    io_uring_sqe* sqes_ = nullptr;
    void* rings_ = nullptr;
    std::size_t rings_bytes_ = 0;
    std::size_t sqes_bytes_ = 0;
};

}  // namespace galgo::runtime_uring

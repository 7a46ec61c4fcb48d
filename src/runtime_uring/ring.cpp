#include "runtime_uring/ring.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/check.hpp"
#include "runtime_uring/detail/abi.hpp"

namespace galgo::runtime_uring {

namespace {

int setup(std::uint32_t entries, io_uring_params& params) noexcept {
    const long fd = ::syscall(SYS_io_uring_setup, entries, &params);
    return fd < 0 ? -errno : static_cast<int>(fd);
}

std::uint32_t load_acquire(const std::uint32_t* word) noexcept {
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}
void store_release(std::uint32_t* word, std::uint32_t value) noexcept {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

}  // namespace

Status Ring::open(const RingOptions& options) {
    GALGO_CHECK(!is_open());
    std::uint32_t flags = IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
    if (!options.shared_by_threads) {
        flags |=
            IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    }
    io_uring_params params{};
    params.flags = flags | abi::kSetupNoSqArray;
    params.cq_entries = options.cq_entries;
    int fd = options.index_array ? -EINVAL : setup(options.sq_entries, params);
    const bool has_array = fd == -EINVAL;
    if (has_array) {
        params = {};
        params.flags = flags;
        params.cq_entries = options.cq_entries;
        fd = setup(options.sq_entries, params);
    }
    if (fd < 0) {
        return fail_os(-fd);
    }
    fd_ = enter_fd_ = fd;
    sq_entries_ = params.sq_entries;
    cq_entries_ = params.cq_entries;
    GALGO_CHECK((params.features & IORING_FEAT_SINGLE_MMAP) != 0);

    const std::size_t cq_bytes = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
    const std::size_t sq_bytes =
        has_array ? params.sq_off.array + params.sq_entries * sizeof(std::uint32_t) : 0;
    rings_bytes_ = std::max(cq_bytes, sq_bytes);
    sqes_bytes_ = params.sq_entries * sizeof(io_uring_sqe);
    rings_ = ::mmap(nullptr, rings_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd,
                    IORING_OFF_SQ_RING);
    void* sqes =
        ::mmap(nullptr, sqes_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, IORING_OFF_SQES);
    if (rings_ == MAP_FAILED || sqes == MAP_FAILED) {
        const int error = errno;
        rings_ = rings_ == MAP_FAILED ? nullptr : rings_;
        sqes_ = sqes == MAP_FAILED ? nullptr : static_cast<io_uring_sqe*>(sqes);
        close();
        return fail_os(error);
    }
    sqes_ = static_cast<io_uring_sqe*>(sqes);
    auto word = [this](std::uint32_t offset) {
        return reinterpret_cast<std::uint32_t*>(static_cast<std::byte*>(rings_) + offset);
    };
    sq_head_ = word(params.sq_off.head);
    sq_tail_ = word(params.sq_off.tail);
    sq_flags_ = word(params.sq_off.flags);
    cq_head_ = word(params.cq_off.head);
    cq_tail_ = word(params.cq_off.tail);
    cqes_ = reinterpret_cast<io_uring_cqe*>(word(params.cq_off.cqes));
    if (has_array) {
        for (std::uint32_t i = 0; i < sq_entries_; ++i) {
            word(params.sq_off.array)[i] = i;
        }
    }
    sqe_tail_ = sqe_submitted_ = *sq_tail_;

    if (!options.shared_by_threads) {
        io_uring_rsrc_update update{};
        update.offset = UINT32_MAX;  // any index
        update.data = static_cast<std::uint64_t>(fd);
        if (register_op(IORING_REGISTER_RING_FDS, &update, 1) == 1) {
            enter_fd_ = static_cast<int>(update.offset);
            registered_ = true;
        }
    }
    return {};
}

void Ring::close() noexcept {
    if (!is_open()) {
        return;
    }
    if (registered_) {
        io_uring_rsrc_update update{};
        update.offset = static_cast<std::uint32_t>(enter_fd_);
        (void)register_op(IORING_UNREGISTER_RING_FDS, &update, 1);
        registered_ = false;
    }
    if (sqes_ != nullptr) {
        ::munmap(sqes_, sqes_bytes_);
        sqes_ = nullptr;
    }
    if (rings_ != nullptr) {
        ::munmap(rings_, rings_bytes_);
        rings_ = nullptr;
    }
    ::close(fd_);
    fd_ = enter_fd_ = -1;
}

io_uring_sqe* Ring::try_get_sqe() noexcept {
    if (queued() == sq_entries_) {
        return nullptr;
    }
    io_uring_sqe* sqe = sqes_ + (sqe_tail_ & (sq_entries_ - 1));
    ++sqe_tail_;
    std::memset(sqe, 0, sizeof(*sqe));
    return sqe;
}

int Ring::enter(bool wait, std::uint64_t timeout_ns) noexcept {
    store_release(sq_tail_, sqe_tail_);
    std::uint32_t flags =
        IORING_ENTER_GETEVENTS | (registered_ ? IORING_ENTER_REGISTERED_RING : 0U);
    __kernel_timespec limit{};
    io_uring_getevents_arg argument{};
    const void* extra = nullptr;
    std::size_t extra_bytes = 0;
    if (wait && timeout_ns != UINT64_MAX) {
        limit.tv_sec = static_cast<std::int64_t>(timeout_ns / 1'000'000'000);
        limit.tv_nsec = static_cast<long long>(timeout_ns % 1'000'000'000);
        argument.ts = reinterpret_cast<std::uint64_t>(&limit);
        extra = &argument;
        extra_bytes = sizeof(argument);
        flags |= IORING_ENTER_EXT_ARG;
    }
    const long result = ::syscall(SYS_io_uring_enter, enter_fd_, queued(), wait ? 1U : 0U, flags,
                                  extra, extra_bytes);
    const int error = result < 0 ? -errno : 0;
    // The kernel's own count of what it consumed: right whatever the call returned.
    sqe_submitted_ = load_acquire(sq_head_);
    return error;
}

bool Ring::kernel_has_work() const noexcept {
    return (__atomic_load_n(sq_flags_, __ATOMIC_RELAXED) &
            (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

std::uint32_t Ring::completions() const noexcept {
    return load_acquire(cq_tail_) - *cq_head_;
}

io_uring_cqe Ring::take() noexcept {
    const std::uint32_t head = *cq_head_;
    io_uring_cqe taken;
    std::memcpy(&taken, cqes_ + (head & (cq_entries_ - 1)), sizeof(taken));
    store_release(cq_head_, head + 1);
    return taken;
}

int Ring::register_op(std::uint32_t opcode, void* argument, std::uint32_t count) noexcept {
    const long result = ::syscall(SYS_io_uring_register, fd_, opcode, argument, count);
    return result < 0 ? -errno : static_cast<int>(result);
}

}  // namespace galgo::runtime_uring

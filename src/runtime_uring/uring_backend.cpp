// The ring side of UringBackend: set-up, submission, completion, wake and shutdown. The operations
// themselves are in uring_files.cpp and uring_sockets.cpp.
#include "runtime_uring/uring_backend.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/check.hpp"
#include "base/units.hpp"
#include "runtime_uring/detail/abi.hpp"
#include "runtime_uring/detail/socket_options.hpp"
#include "runtime_uring/detail/tags.hpp"

namespace galgo::runtime_uring {

using detail::OpKind;

namespace {

// backend_words of an op in flight.
constexpr std::size_t kWordUserData = 0;
constexpr std::size_t kWordNext = 1;    // in the list of local completions
constexpr std::size_t kWordResult = 2;  // of a local completion

bool kernel_supports(Ring& ring, std::uint8_t opcode) {
    constexpr std::size_t kOps = 256;
    alignas(io_uring_probe)
        std::array<std::byte, sizeof(io_uring_probe) + kOps * sizeof(io_uring_probe_op)>
            answer{};
    if (ring.register_op(IORING_REGISTER_PROBE, answer.data(), kOps) < 0) {
        return false;
    }
    io_uring_probe head;
    io_uring_probe_op entry;
    std::memcpy(&head, answer.data(), sizeof(head));
    std::memcpy(&entry, answer.data() + sizeof(head) + opcode * sizeof(entry), sizeof(entry));
    return opcode <= head.last_op && (entry.flags & IO_URING_OP_SUPPORTED) != 0;
}

}  // namespace

UringBackend::UringBackend(UringGroup& group, ShardIndex shard, const UringOptions& options)
    : group_(group), shard_(shard), options_(options) {}

Result<std::unique_ptr<UringBackend>> UringBackend::create(UringGroup& group, ShardIndex shard,
                                                           const UringOptions& options) {
    GALGO_CHECK(shard.value() < group.shard_count());
    std::unique_ptr<UringBackend> backend(new UringBackend(group, shard, options));
    GALGO_TRY(backend->start());
    return backend;
}

Status UringBackend::start() {
    GALGO_TRY(ring_.open(options_.ring));
    GALGO_TRY(buffers_.open(ring_, options_.chunk_count, options_.chunk_bytes));
    side_.resize(ring_.sq_entries());
    has_ftruncate_ = options_.ftruncate && kernel_supports(ring_, abi::kOpFtruncate);

    // Otherwise the kernel's workers inherit this shard's one CPU and compete with it. Both are
    // improvements only: a container may refuse them.
    cpu_set_t mask;
    CPU_ZERO(&mask);
    for (const int cpu : group_.worker_cpus()) {
        CPU_SET(static_cast<std::size_t>(cpu), &mask);
    }
    (void)ring_.register_op(IORING_REGISTER_IOWQ_AFF, &mask, sizeof(mask));
    std::array<std::uint32_t, 2> workers{options_.file_workers_max, options_.other_workers_max};
    (void)ring_.register_op(IORING_REGISTER_IOWQ_MAX_WORKERS, workers.data(), 2);

    group_.ring_fds_[shard_.value()].store(ring_.fd(), std::memory_order_release);
    return {};
}

UringBackend::~UringBackend() {
    shutdown();
}

void UringBackend::shutdown() {
    if (closing_ || !ring_.is_open()) {
        return;
    }
    // The last turn may have queued the wake of a shard that waits for this one's last message.
    while (ring_.queued() != 0) {
        submit_some();
    }
    closing_ = true;
    {
        const std::lock_guard lock(group_.outside_mutex_);
        group_.ring_fds_[shard_.value()].store(UringGroup::kNoRing, std::memory_order_release);
    }
    while (in_flight_ != 0) {
        io_uring_sqe* sqe = next_sqe();
        sqe->opcode = IORING_OP_ASYNC_CANCEL;
        sqe->fd = -1;
        sqe->cancel_flags = IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY;
        sqe->user_data = detail::kTagIgnore;
        (void)poll(now().plus(50 * kMillisecond));
        if (offloaded_ != 0) {  // no loop turns any more, and no wake reaches this ring
            (void)offload_->collect();
        }
    }
}

Status UringBackend::hold_file(int fd) {
    const int result = ring_.register_op(IORING_REGISTER_FILES, &fd, 1);
    if (result < 0) {
        return fail_os(-result);
    }
    return {};
}

int UringBackend::enter(bool wait, std::uint64_t timeout_ns) noexcept {
    ++enter_count_;
    return ring_.enter(wait, timeout_ns);
}

io_uring_sqe* UringBackend::next_sqe() {
    for (;;) {
        if (io_uring_sqe* sqe = ring_.try_get_sqe()) {
            return sqe;
        }
        submit_some();
    }
}

void UringBackend::submit_some() {
    const int result = enter(false, 0);
    if (result == -EBUSY || result == -EAGAIN) {
        set_aside_completions();
        ::sched_yield();
    } else {
        GALGO_CHECK(result == 0 || result == -EINTR);
    }
}

// Completions may not run inside a submitting call, so they wait for the next poll.
void UringBackend::set_aside_completions() {
    while (ring_.completions() != 0) {
        set_aside_.push_back(ring_.take());
    }
}

void UringBackend::begin(IoOp& op) noexcept {
    GALGO_DCHECK(!op.in_flight && op.complete != nullptr);
    op.in_flight = true;
    op.backend_words[kWordUserData] = 0;  // nothing that a cancel could find
    ++in_flight_;
}

io_uring_sqe* UringBackend::prepare(IoOp& op, std::uint8_t opcode, int fd, OpKind kind) {
    begin(op);
    if (closing_) {
        complete_later(op, -ECANCELED);
        return nullptr;
    }
    const std::uint64_t user_data =
        reinterpret_cast<std::uint64_t>(&op) | static_cast<std::uint64_t>(kind);
    op.backend_words[kWordUserData] = user_data;
    io_uring_sqe* sqe = next_sqe();
    sqe->opcode = opcode;
    sqe->fd = fd;
    sqe->user_data = user_data;
    return sqe;
}

void UringBackend::complete_later(IoOp& op, std::int32_t result) noexcept {
    op.backend_words[kWordNext] = 0;
    op.backend_words[kWordResult] = static_cast<std::uint32_t>(result);
    if (local_last_ != nullptr) {
        local_last_->backend_words[kWordNext] = reinterpret_cast<std::uint64_t>(&op);
    } else {
        local_first_ = &op;
    }
    local_last_ = &op;
}

void UringBackend::cancel(IoOp& op) {
    if (!op.in_flight || closing_) {
        return;
    }
    io_uring_sqe* sqe = next_sqe();
    sqe->opcode = IORING_OP_ASYNC_CANCEL;
    sqe->fd = -1;
    sqe->addr = op.backend_words[kWordUserData];
    sqe->user_data = detail::kTagIgnore;
}

void UringBackend::wake(ShardIndex shard) {
    GALGO_CHECK(shard.value() < group_.shard_count());
    if (shard == shard_) {
        woken_self_ = true;
        return;
    }
    const int target = group_.ring_fds_[shard.value()].load(std::memory_order_acquire);
    if (target == UringGroup::kNoRing) {
        return;
    }
    io_uring_sqe* sqe = next_sqe();
    sqe->opcode = IORING_OP_MSG_RING;
    sqe->fd = target;
    sqe->addr = abi::kMsgData;
    sqe->off = detail::kTagWake;
    sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = detail::kTagIgnore;
}

Instant UringBackend::now() {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return Instant{static_cast<std::uint64_t>(time.tv_sec) * kSecond +
                   static_cast<std::uint64_t>(time.tv_nsec)};
}

Timestamp UringBackend::wall_now() {
    timespec time{};
    ::clock_gettime(CLOCK_REALTIME, &time);
    return Timestamp{static_cast<std::uint64_t>(time.tv_sec) * 1'000'000 +
                     static_cast<std::uint64_t>(time.tv_nsec) / 1'000};
}

std::size_t UringBackend::poll(Instant wait_until) {
    const bool may_wait = wait_until != Instant{0};
    bool wait = may_wait && !woken_self_ && local_first_ == nullptr && set_aside_.empty() &&
                ring_.completions() == 0;
    std::uint64_t timeout_ns = UINT64_MAX;
    if (wait && wait_until != Instant{UINT64_MAX}) {
        const Instant present = now();
        wait = present < wait_until;
        timeout_ns = wait ? wait_until.value() - present.value() : 0;
    }
    if (wait || ring_.queued() != 0 || ring_.kernel_has_work()) {
        const int result = enter(wait, timeout_ns);
        GALGO_CHECK(result == 0 || result == -ETIME || result == -EINTR || result == -EBUSY ||
                    result == -EAGAIN);
    }
    if (may_wait) {
        woken_self_ = false;
        call_awake_hook();
    }
    std::size_t done = run_local();
    if (!set_aside_.empty()) [[unlikely]] {
        std::vector<io_uring_cqe> earlier;
        earlier.swap(set_aside_);
        for (const io_uring_cqe& cqe : earlier) {
            done += on_completion(cqe);
        }
    }
    return done + reap();
}

std::size_t UringBackend::run_local() {
    std::size_t done = 0;
    IoOp* op = local_first_;
    local_first_ = local_last_ = nullptr;
    while (op != nullptr) {
        IoOp* next = reinterpret_cast<IoOp*>(op->backend_words[kWordNext]);
        finish(*op, static_cast<std::int32_t>(op->backend_words[kWordResult]));
        op = next;
        ++done;
    }
    return done;
}

std::size_t UringBackend::reap() {
    std::size_t done = 0;
    // What callbacks cause to complete waits for the next poll, so that a turn stays bounded.
    for (std::uint32_t i = ring_.completions(); i != 0 && ring_.completions() != 0; --i) {
        done += on_completion(ring_.take());
    }
    return done;
}

std::size_t UringBackend::on_completion(const io_uring_cqe& cqe) {
    if (cqe.user_data <= detail::kTagLast) {
        return 0;
    }
    IoOp& op = *reinterpret_cast<IoOp*>(cqe.user_data & ~detail::kKindMask);
    std::int32_t result = cqe.res;
    switch (static_cast<OpKind>(cqe.user_data & detail::kKindMask)) {
        case OpKind::kPlain:
            break;
        case OpKind::kReceiveAny:
            if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
                const std::uint32_t id = cqe.flags >> IORING_CQE_BUFFER_SHIFT;
                buffers_.on_taken();
                if (result > 0) {
                    op.chunk = {.data = buffers_.chunk(id),
                                .size_bytes = static_cast<std::uint32_t>(result),
                                .id = id};
                } else {
                    buffers_.give_back(id);
                }
            }
            break;
        case OpKind::kAccept:
            if (result >= 0) {
                detail::set_no_delay(result);
                detail::set_keep_alive(result);
            }
            break;
        case OpKind::kConnect: {
            const int fd = static_cast<int>(op.backend_words[3]);
            if (result < 0) {
                ::close(fd);
            } else {
                detail::set_no_delay(fd);
                result = fd;
            }
            break;
        }
    }
    finish(op, result);
    return 1;
}

void UringBackend::finish(IoOp& op, std::int32_t result) {
    op.in_flight = false;
    --in_flight_;
    op.complete(op, result);
}

}  // namespace galgo::runtime_uring

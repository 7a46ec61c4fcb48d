#include "runtime_uring/buffer_ring.hpp"

#include <sys/mman.h>

#include <bit>
#include <cerrno>

#include "base/check.hpp"
#include "runtime_uring/detail/abi.hpp"

namespace galgo::runtime_uring {

BufferRing::~BufferRing() {
    if (memory_ != nullptr) {
        ::munmap(memory_, memory_bytes_);
    }
}

Status BufferRing::open(Ring& ring, std::uint32_t count, std::uint32_t chunk_bytes) {
    GALGO_CHECK(std::has_single_bit(count) && count <= 32768 && memory_ == nullptr);
    const std::size_t page = 4096;
    const std::size_t entries_bytes = (count * sizeof(io_uring_buf) + page - 1) / page * page;
    memory_bytes_ = entries_bytes + std::size_t{count} * chunk_bytes;
    void* memory =
        ::mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return fail_os(errno);
    }
    memory_ = memory;
    entries_ = static_cast<io_uring_buf*>(memory);
    chunks_ = static_cast<std::byte*>(memory) + entries_bytes;
    count_ = count;
    chunk_bytes_ = chunk_bytes;
    io_uring_buf_reg registration{};
    registration.ring_addr = reinterpret_cast<std::uint64_t>(entries_);
    registration.ring_entries = count;
    registration.bgid = kGroup;
    const int result = ring.register_op(IORING_REGISTER_PBUF_RING, &registration, 1);
    if (result < 0) {
        return fail_os(-result);
    }
    for (std::uint32_t id = 0; id < count; ++id) {
        add(id);
    }
    return {};
}

void BufferRing::give_back(std::uint32_t id) noexcept {
    GALGO_CHECK(id < count_ && lent_ != 0);
    --lent_;
    add(id);
}

void BufferRing::add(std::uint32_t id) noexcept {
    io_uring_buf& entry = entries_[tail_ & (count_ - 1)];
    entry.addr = reinterpret_cast<std::uint64_t>(chunk(id));
    entry.len = chunk_bytes_;
    entry.bid = static_cast<std::uint16_t>(id);
    ++tail_;
    __atomic_store_n(&entries_[0].resv, tail_, __ATOMIC_RELEASE);
}

}  // namespace galgo::runtime_uring

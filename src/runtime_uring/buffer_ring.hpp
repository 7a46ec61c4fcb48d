// BufferRing: the small receive chunks of one shard, lent to the kernel, which picks one when data
// arrives; so an idle connection holds none. Fixed count and size (default 256 of 8 KiB).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.hpp"
#include "runtime_uring/ring.hpp"

namespace galgo::runtime_uring {

class BufferRing {
 public:
    static constexpr std::uint16_t kGroup = 0;

    BufferRing() noexcept = default;
    BufferRing(const BufferRing&) = delete;
    BufferRing& operator=(const BufferRing&) = delete;
    ~BufferRing();

    /// `count` is a power of two, at most 32768.
    [[nodiscard]] Status open(Ring& ring, std::uint32_t count, std::uint32_t chunk_bytes);

    [[nodiscard]] std::byte* chunk(std::uint32_t id) const noexcept {
        return chunks_ + std::size_t{id} * chunk_bytes_;
    }
    /// The kernel has filled a chunk: it is lent out until give_back().
    void on_taken() noexcept { ++lent_; }
    void give_back(std::uint32_t id) noexcept;
    [[nodiscard]] std::uint32_t lent() const noexcept { return lent_; }
    [[nodiscard]] std::uint32_t count() const noexcept { return count_; }

 private:
    void add(std::uint32_t id) noexcept;

    void* memory_ = nullptr;
    std::size_t memory_bytes_ = 0;
    io_uring_buf* entries_ = nullptr;
    std::byte* chunks_ = nullptr;
    std::uint32_t count_ = 0;
    std::uint32_t chunk_bytes_ = 0;
    std::uint32_t lent_ = 0;
    std::uint16_t tail_ = 0;
};

}  // namespace galgo::runtime_uring

// BufferPool: the one budget of payload memory of the process. Page-aligned blocks of 28 classes
// (memory/size_class.hpp), made when first asked for, kept when given back, and handed to the
// system again only to make room for another class. One pool a process; it outlives all shards and
// BufRefs.
//
// Where a block is:
//   in use      some BufRef holds it
//   shard cache of the shard that acquired it: classes up to 64 KiB, at most 64 blocks a class
//   returns     of its home shard: dropped elsewhere, waits there for collect() (an intrusive list)
//   reservoir   shared by all, one lock-free stack a class, at most class_capacity blocks
//   cold        address range without memory, costs nothing
//
// Accounting, in bytes of whole blocks:
//   resident = all but cold              resident <= budget
//   charged  = resident - reservoir      charged  <= limit of the admission class
// Shard caches stay charged: a hit there touches no shared line. That is at most 1/16 of the
// budget, and a shard gives its own back before it refuses. A refusal is an answer
// (TransientNotAccepted, retry on the same node), never an allocation elsewhere and never a crash.
//
// Admission, a simple ladder:
//   kAnonymous  all anonymous blocks in use together <= budget / 8, and what kNormal asks
//   kNormal     charged <= budget - budget / 32
//   kReserved   charged <= budget: flushes and control replies, which set memory free again
// So peers that never logged in hold an eighth at most, whatever they announce, and a pool filled
// by clients can still write out what it holds.
//
// Work on the way: a cache hit and a return are a few nanoseconds without system call; the
// reservoir costs some atomic operations. Over budget, one acquire hands at most kTrimBlocksMax
// cached blocks of other classes back to the system; if that is not enough it refuses and the next
// try goes on from there.
//
// Address space: each class owns a range of budget bytes, reserved without access, and opened block
// by block. Not one mapping a block, because a million of 4 KiB would pass vm.max_map_count
// (65530).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/error.hpp"
#include "base/units.hpp"
#include "memory/buffer.hpp"
#include "memory/size_class.hpp"

namespace galgo::memory {

/// Bounds of the configuration key; tests may use smaller pools (from 1 MiB).
inline constexpr std::uint64_t kPoolBudgetBytesMin = 512 * kMiB;
inline constexpr std::uint64_t kPoolBudgetBytesDefault = 4 * kGiB;
inline constexpr std::uint64_t kPoolBudgetBytesMax = 1024 * kGiB;

/// Classes with shard caches: 4, 8, 16, 32, 64 KiB.
inline constexpr std::size_t kCachedClassCount = 5;
inline constexpr std::uint32_t kCachedBlocksMax = 64;
/// Bound of the work of one acquire that has to make room.
inline constexpr std::size_t kTrimBlocksMax = 256;

struct PoolOptions {
    std::uint64_t budget_bytes = kPoolBudgetBytesDefault;  ///< multiple of a page
    std::uint32_t class_capacity = 8192;                   ///< blocks a class in the reservoir
    std::uint16_t shard_count = 1;
};

enum class AcquireClass : std::uint8_t { kAnonymous = 0, kNormal = 1, kReserved = 2 };

struct PoolStats {
    struct Class {
        std::uint32_t block_bytes = 0;
        std::uint64_t in_use_count = 0;  ///< includes blocks that wait on a return list
        std::uint64_t cached_count = 0;  ///< shard caches and reservoir
    };
    std::uint64_t budget_bytes = 0;
    std::uint64_t in_use_bytes = 0;
    std::uint64_t cached_bytes = 0;
    std::uint64_t anonymous_bytes = 0;                ///< part of in_use_bytes
    std::array<std::uint64_t, 3> refusal_count = {};  ///< by AcquireClass
    std::array<Class, kSizeClassCount> classes = {};
};

class BufferPool {
 public:
    /// Reserves address space only (28 times the budget); memory follows use. Aborts when the
    /// address space is not granted or the options are out of their ranges.
    explicit BufferPool(PoolOptions options);
    /// No BufRef is left and no thread uses the pool (checked in debug builds; in release the
    /// memory of what is left stays mapped).
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    /// A block of at least `bytes` as a unique BufRef of exactly that size, page aligned, content
    /// unspecified. Any thread; at most one thread runs as a given shard. Fails with
    /// TransientNotAccepted when the admission class or the budget is exhausted (retry on the same
    /// node may help), or when `bytes` is above kBlockBytesMax or the budget (RetryClass::kNever).
    [[nodiscard]] Result<BufRef> acquire(std::size_t bytes,
                                         AcquireClass admission = AcquireClass::kNormal) noexcept;

    /// Takes home what other shards dropped. Called by each shard once a loop turn; one relaxed
    /// load when there is nothing. Does nothing on other threads.
    void collect() noexcept;

    /// The calling shard acquires and collects no more: its caches and later returns go to the
    /// reservoir.
    void stop_shard() noexcept;

    /// Figures of this moment; while other threads work they are each right but may not add up.
    [[nodiscard]] PoolStats stats() const noexcept;
    [[nodiscard]] const PoolOptions& options() const noexcept { return options_; }

 private:
    friend void internal::release(internal::Block& block) noexcept;
    using Block = internal::Block;
    struct SharedClass;
    struct ShardSlot;

    [[nodiscard]] ShardSlot* own_slot() const noexcept;
    [[nodiscard]] std::uint64_t limit_of(AcquireClass admission) const noexcept;

    Block* take_from_cache(std::size_t size_class, AcquireClass admission) noexcept;
    Block* take_shared(std::size_t size_class, AcquireClass admission) noexcept;
    Block* make_resident(std::size_t size_class) noexcept;
    Block* open_cold_block(std::size_t size_class) noexcept;
    void trim(std::size_t size_class, std::size_t& blocks_left) noexcept;
    std::uint64_t trim_class(std::size_t size_class, std::uint64_t wanted_bytes,
                             std::size_t& blocks_left) noexcept;

    void give_back(Block& block) noexcept;
    void put_to_cache(ShardSlot& slot, Block& block) noexcept;
    void put_shared(Block& block) noexcept;
    void make_cold(Block& block) noexcept;
    void take_home(ShardSlot& slot, std::uint32_t first) noexcept;
    void flush_cache(ShardSlot& slot) noexcept;

    PoolOptions options_;
    std::uint32_t cached_blocks_max_ = 0;
    void* reservation_ = nullptr;
    std::size_t reservation_bytes_ = 0;
    Block* blocks_ = nullptr;
    std::size_t blocks_bytes_ = 0;
    std::unique_ptr<SharedClass[]> classes_;
    std::unique_ptr<ShardSlot[]> shards_;

    alignas(64) std::atomic<std::uint64_t> charged_bytes_ = 0;
    std::atomic<std::uint64_t> resident_bytes_ = 0;
    alignas(64) std::atomic<std::uint64_t> anonymous_bytes_ = 0;
    std::array<std::atomic<std::uint64_t>, 3> refusal_count_ = {};
};

}  // namespace galgo::memory

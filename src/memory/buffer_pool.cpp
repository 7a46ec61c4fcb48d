// The ways of a block, top down: acquire tries the shard's cache, the reservoir, then makes a cold
// block resident; release goes to the shard's cache, the home shard's return list or the reservoir,
// and to cold only when the reservoir is full.
//
// Order of the counters, so that a refusal is never the fault of an operation in flight: acquire
// charges before it takes, release puts before it uncharges. Hence at any time
//     reservoir bytes >= resident - charged,
// and whoever may charge finds a block, free budget or something to trim.

#include "memory/buffer_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "base/check.hpp"
#include "base/this_shard.hpp"
#include "memory/detail/poison.hpp"
#include "memory/detail/tagged_stack.hpp"

namespace galgo::memory {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::size_t kHugePageBytes = 2 * kMiB;
/// Attempts to win the race for bytes or for a slot before an acquire refuses.
constexpr int kRaceAttempts = 8;
/// Head of a return list whose shard has stopped.
constexpr std::uint32_t kReturnsClosed = 0xFFFF'FFFF;
/// The shard caches together hold at most this part of the budget.
constexpr std::uint64_t kCacheShareOfBudget = 16;
constexpr std::uint64_t kAnonymousShareOfBudget = 8;
constexpr std::uint64_t kReserveShareOfBudget = 32;

constexpr std::uint64_t kBytesOfOneEachCached = [] {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < kCachedClassCount; ++i) {
        sum += kSizeClassBytes[i];
    }
    return sum;
}();

/// Adds `bytes` unless the sum passes `limit`. Never overshoots, not even for a moment: a large
/// refused request must not make small ones fail.
bool add_within(std::atomic<std::uint64_t>& counter, std::uint64_t bytes,
                std::uint64_t limit) noexcept {
    std::uint64_t current = counter.load(kRelaxed);
    do {
        if (bytes > limit || current > limit - bytes) {
            return false;
        }
    } while (!counter.compare_exchange_weak(current, current + bytes, std::memory_order_acq_rel,
                                            kRelaxed));
    return true;
}

void subtract(std::atomic<std::uint64_t>& counter, std::uint64_t bytes) noexcept {
    counter.fetch_sub(bytes, std::memory_order_acq_rel);
}

std::byte* map_without_access(std::size_t bytes) noexcept {
    void* memory =
        ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    GALGO_CHECK(memory != MAP_FAILED);
    return static_cast<std::byte*>(memory);
}

}  // namespace

struct alignas(64) BufferPool::SharedClass {
    internal::TaggedStack reservoir;
    std::atomic<std::uint64_t> reservoir_count = 0;
    std::atomic<std::uint64_t> resident_count = 0;
    // Rarely touched from here on.
    internal::TaggedStack cold;
    std::atomic<std::uint32_t> opened_count = 0;  ///< slots that were handed out for the first time
    std::uint32_t slot_count = 0;
    std::uint32_t first_index = 0;  ///< of the class's headers in the table
    std::byte* memory = nullptr;
};

struct alignas(64) BufferPool::ShardSlot {
    /// Foreign returns: index + 1 of the first block, 0 when empty, or kReturnsClosed.
    std::atomic<std::uint32_t> returns = 0;

    // Written by the shard alone; counts are atomic for stats() only.
    struct Cache {
        Block* first = nullptr;
        std::atomic<std::uint32_t> count = 0;
    };
    alignas(64) std::array<Cache, kCachedClassCount> caches;
};

BufferPool::BufferPool(PoolOptions options) : options_(options) {
    const std::uint64_t budget = options_.budget_bytes;
    GALGO_CHECK(budget >= kMiB);
    GALGO_CHECK(budget <= kPoolBudgetBytesMax);
    GALGO_CHECK(budget % kPageBytes == 0);
    GALGO_CHECK(options_.class_capacity > 0);
    cached_blocks_max_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(
        kCachedBlocksMax, budget / kCacheShareOfBudget / kBytesOfOneEachCached /
                              std::max<std::uint64_t>(1, options_.shard_count)));
    shards_ = std::make_unique<ShardSlot[]>(options_.shard_count);
    classes_ = std::make_unique<SharedClass[]>(kSizeClassCount);

    std::uint64_t slot_sum = 0;
    std::size_t memory_sum = kHugePageBytes;  // room to align the first class
    std::array<std::size_t, kSizeClassCount> memory_offset{};
    for (std::size_t i = 0; i < kSizeClassCount; ++i) {
        SharedClass& shared = classes_[i];
        shared.slot_count = static_cast<std::uint32_t>(budget / kSizeClassBytes[i]);
        shared.first_index = static_cast<std::uint32_t>(slot_sum);
        memory_offset[i] = memory_sum;
        slot_sum += shared.slot_count;
        const std::size_t bytes = std::size_t{shared.slot_count} * kSizeClassBytes[i];
        memory_sum += (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    }
    GALGO_CHECK(slot_sum < kReturnsClosed - 1);

    reservation_bytes_ = memory_sum;
    std::byte* base = map_without_access(reservation_bytes_);
    reservation_ = base;
    const auto misfit = reinterpret_cast<std::uintptr_t>(base) % kHugePageBytes;
    for (std::size_t i = 0; i < kSizeClassCount; ++i) {
        SharedClass& shared = classes_[i];
        shared.memory = base + memory_offset[i] - misfit;
        const std::size_t bytes = std::size_t{shared.slot_count} * kSizeClassBytes[i];
        if (bytes != 0) {
            // Below 2 MiB, one touched page must not cost a huge one that the budget does not know
            // of. From there on all sizes are whole huge pages, and those are worth it (measured on
            // the first touch of 8 MiB: 0.83 ms against 4.1 ms; giving them back: 0.02 ms against
            // 0.49 ms). A kernel without huge pages refuses the call, which is as good.
            const bool is_huge = kSizeClassBytes[i] % kHugePageBytes == 0;
            (void)::madvise(shared.memory, bytes, is_huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        }
    }

    // Headers of blocks that were never opened are never touched: the table costs address space.
    blocks_bytes_ = slot_sum * sizeof(Block);
    std::byte* table = map_without_access(blocks_bytes_);
    GALGO_CHECK(::mprotect(table, blocks_bytes_, PROT_READ | PROT_WRITE) == 0);
    blocks_ = reinterpret_cast<Block*>(table);
}

BufferPool::~BufferPool() {
    for (std::size_t i = 0; i < options_.shard_count; ++i) {
        const std::uint32_t first = shards_[i].returns.exchange(kReturnsClosed);
        if (first != kReturnsClosed) {
            take_home(shards_[i], first);
        }
        flush_cache(shards_[i]);
    }
    const bool is_in_use = charged_bytes_.load() != 0;
    GALGO_DCHECK(!is_in_use);
    if (is_in_use) {
        return;  // a late reader finds old bytes instead of a fault
    }
    for (std::size_t i = 0; i < kSizeClassCount; ++i) {
        internal::unpoison(classes_[i].memory,
                           std::size_t{classes_[i].opened_count.load()} * kSizeClassBytes[i]);
    }
    ::munmap(reservation_, reservation_bytes_);
    ::munmap(blocks_, blocks_bytes_);
}

Result<BufRef> BufferPool::acquire(std::size_t bytes, AcquireClass admission) noexcept {
    if (bytes > kBlockBytesMax || bytes > options_.budget_bytes) [[unlikely]] {
        refusal_count_[static_cast<std::size_t>(admission)].fetch_add(1, kRelaxed);
        return std::unexpected(
            Error{.code = ErrorCode::kTransientNotAccepted, .retry = RetryClass::kNever});
    }
    const std::size_t size_class = size_class_of(bytes);
    const std::uint32_t block_bytes = kSizeClassBytes[size_class];
    const bool is_anonymous = admission == AcquireClass::kAnonymous;

    Block* block = nullptr;
    if (!is_anonymous || add_within(anonymous_bytes_, block_bytes,
                                    options_.budget_bytes / kAnonymousShareOfBudget)) {
        if (size_class < kCachedClassCount) {
            block = take_from_cache(size_class, admission);
        }
        if (block == nullptr) {
            block = take_shared(size_class, admission);
        }
        if (block == nullptr && is_anonymous) {
            subtract(anonymous_bytes_, block_bytes);
        }
    }
    if (block == nullptr) [[unlikely]] {
        refusal_count_[static_cast<std::size_t>(admission)].fetch_add(1, kRelaxed);
        return fail(ErrorCode::kTransientNotAccepted);
    }
    internal::unpoison(block->memory, block_bytes);
    block->is_anonymous = is_anonymous;
    block->references.store(1, kRelaxed);
    return BufRef(*block, bytes);
}

void BufferPool::collect() noexcept {
    ShardSlot* slot = own_slot();
    if (slot == nullptr || slot->returns.load(kRelaxed) == 0) {
        return;
    }
    take_home(*slot, slot->returns.exchange(0, std::memory_order_acquire));
}

void BufferPool::stop_shard() noexcept {
    ShardSlot* slot = own_slot();
    if (slot == nullptr) {
        return;
    }
    const std::uint32_t first = slot->returns.exchange(kReturnsClosed, std::memory_order_acq_rel);
    take_home(*slot, first);
    flush_cache(*slot);
}

PoolStats BufferPool::stats() const noexcept {
    PoolStats stats;
    stats.budget_bytes = options_.budget_bytes;
    stats.anonymous_bytes = anonymous_bytes_.load(kRelaxed);
    for (std::size_t i = 0; i < stats.refusal_count.size(); ++i) {
        stats.refusal_count[i] = refusal_count_[i].load(kRelaxed);
    }
    for (std::size_t i = 0; i < kSizeClassCount; ++i) {
        PoolStats::Class& shown = stats.classes[i];
        shown.block_bytes = kSizeClassBytes[i];
        const std::uint64_t resident = classes_[i].resident_count.load(kRelaxed);
        shown.cached_count = classes_[i].reservoir_count.load(kRelaxed);
        for (std::size_t shard = 0; i < kCachedClassCount && shard < options_.shard_count;
             ++shard) {
            shown.cached_count += shards_[shard].caches[i].count.load(kRelaxed);
        }
        shown.in_use_count = resident - std::min(resident, shown.cached_count);
        stats.in_use_bytes += shown.in_use_count * shown.block_bytes;
        stats.cached_bytes += shown.cached_count * shown.block_bytes;
    }
    return stats;
}

/// The slot of the shard that this thread is; nullptr for other threads and for a shard that
/// stopped.
BufferPool::ShardSlot* BufferPool::own_slot() const noexcept {
    const std::size_t shard = this_shard().value();
    if (shard >= options_.shard_count || shards_[shard].returns.load(kRelaxed) == kReturnsClosed) {
        return nullptr;
    }
    return &shards_[shard];
}

std::uint64_t BufferPool::limit_of(AcquireClass admission) const noexcept {
    const std::uint64_t budget = options_.budget_bytes;
    return admission == AcquireClass::kReserved ? budget : budget - budget / kReserveShareOfBudget;
}

BufferPool::Block* BufferPool::take_from_cache(std::size_t size_class,
                                               AcquireClass admission) noexcept {
    ShardSlot* slot = own_slot();
    if (slot == nullptr) {
        return nullptr;
    }
    ShardSlot::Cache& cache = slot->caches[size_class];
    if (cache.first == nullptr) {
        collect();
    }
    Block* block = cache.first;
    // Past the limit a cached block is part of the reserve; take_shared decides on it.
    if (block == nullptr || charged_bytes_.load(kRelaxed) > limit_of(admission)) {
        return nullptr;
    }
    const std::uint32_t next = block->next.load(kRelaxed);
    cache.first = next == 0 ? nullptr : &blocks_[next - 1];
    cache.count.store(cache.count.load(kRelaxed) - 1, kRelaxed);
    return block;
}

BufferPool::Block* BufferPool::take_shared(std::size_t size_class,
                                           AcquireClass admission) noexcept {
    const std::uint32_t block_bytes = kSizeClassBytes[size_class];
    const std::uint64_t limit = limit_of(admission);
    ShardSlot* slot = own_slot();
    if (!add_within(charged_bytes_, block_bytes, limit)) {
        if (slot == nullptr) {
            return nullptr;
        }
        collect();
        flush_cache(*slot);
        if (!add_within(charged_bytes_, block_bytes, limit)) {
            return nullptr;
        }
    }
    Block* block = classes_[size_class].reservoir.pop(blocks_);
    if (block != nullptr) {
        classes_[size_class].reservoir_count.fetch_sub(1, kRelaxed);
    } else {
        block = make_resident(size_class);
    }
    if (block == nullptr) {
        subtract(charged_bytes_, block_bytes);
        return nullptr;
    }
    block->home = size_class < kCachedClassCount && slot != nullptr ? this_shard() : kNoShard;
    return block;
}

/// Brings a cold block to life, after making room in the budget. nullptr when there is no room
/// within the bounded work or the system grants no memory.
BufferPool::Block* BufferPool::make_resident(std::size_t size_class) noexcept {
    const std::uint32_t block_bytes = kSizeClassBytes[size_class];
    std::size_t blocks_left = kTrimBlocksMax;
    for (int attempt = 0; !add_within(resident_bytes_, block_bytes, options_.budget_bytes);
         ++attempt) {
        if (attempt == kRaceAttempts || blocks_left == 0) {
            return nullptr;
        }
        trim(size_class, blocks_left);
    }
    Block* block = open_cold_block(size_class);
    if (block == nullptr) {
        subtract(resident_bytes_, block_bytes);
        return nullptr;
    }
    classes_[size_class].resident_count.fetch_add(1, kRelaxed);
    return block;
}

BufferPool::Block* BufferPool::open_cold_block(std::size_t size_class) noexcept {
    SharedClass& shared = classes_[size_class];
    Block* block = nullptr;
    // There is a slot: those not cold are counted in resident_bytes_. Only a race can hide it.
    for (int attempt = 0; block == nullptr && attempt < kRaceAttempts; ++attempt) {
        block = shared.cold.pop(blocks_);
        if (block != nullptr) {
            break;
        }
        std::uint32_t slot = shared.opened_count.load(kRelaxed);
        if (slot < shared.slot_count &&
            shared.opened_count.compare_exchange_strong(slot, slot + 1, kRelaxed)) {
            const std::uint32_t index = shared.first_index + slot;
            block = new (&blocks_[index]) Block;
            block->memory = shared.memory + std::size_t{slot} * kSizeClassBytes[size_class];
            block->pool = this;
            block->index = index;
            block->capacity_bytes = kSizeClassBytes[size_class];
            block->size_class = static_cast<std::uint8_t>(size_class);
        }
    }
    if (block != nullptr && !block->is_writable) {
        if (::mprotect(block->memory, block->capacity_bytes, PROT_READ | PROT_WRITE) != 0) {
            shared.cold.push(*block);  // no memory granted; the next try may have more luck
            return nullptr;
        }
        block->is_writable = true;
    }
    return block;
}

/// Hands reservoir blocks of other classes back to the system until one block of this class would
/// fit. Larger classes first: one block is enough then, and the many small ones stay warm.
void BufferPool::trim(std::size_t size_class, std::size_t& blocks_left) noexcept {
    std::uint64_t wanted = kSizeClassBytes[size_class];
    for (std::size_t i = size_class + 1; i < kSizeClassCount && wanted != 0; ++i) {
        wanted -= trim_class(i, wanted, blocks_left);
    }
    for (std::size_t i = size_class; i-- > 0 && wanted != 0;) {
        wanted -= trim_class(i, wanted, blocks_left);
    }
}

/// Returns how much of `wanted_bytes` was met.
std::uint64_t BufferPool::trim_class(std::size_t size_class, std::uint64_t wanted_bytes,
                                     std::size_t& blocks_left) noexcept {
    SharedClass& shared = classes_[size_class];
    std::uint64_t met = 0;
    while (met < wanted_bytes && blocks_left > 0) {
        Block* block = shared.reservoir.pop(blocks_);
        if (block == nullptr) {
            break;
        }
        shared.reservoir_count.fetch_sub(1, kRelaxed);
        make_cold(*block);
        met += block->capacity_bytes;
        --blocks_left;
    }
    return std::min(met, wanted_bytes);
}

void internal::release(Block& block) noexcept {
    block.pool->give_back(block);
}

void BufferPool::give_back(Block& block) noexcept {
    internal::poison(block.memory, block.capacity_bytes);
    if (block.is_anonymous) {
        subtract(anonymous_bytes_, block.capacity_bytes);
    }
    if (block.home == kNoShard) {
        put_shared(block);
        return;
    }
    if (block.home == this_shard()) {
        if (ShardSlot* slot = own_slot(); slot != nullptr) {
            put_to_cache(*slot, block);
        } else {
            put_shared(block);
        }
        return;
    }
    std::atomic<std::uint32_t>& returns = shards_[block.home.value()].returns;
    std::uint32_t first = returns.load(kRelaxed);
    do {
        if (first == kReturnsClosed) {
            put_shared(block);
            return;
        }
        block.next.store(first, kRelaxed);
    } while (!returns.compare_exchange_weak(first, block.index + 1, std::memory_order_release,
                                            kRelaxed));
}

void BufferPool::put_to_cache(ShardSlot& slot, Block& block) noexcept {
    ShardSlot::Cache& cache = slot.caches[block.size_class];
    const std::uint32_t count = cache.count.load(kRelaxed);
    // Past the normal limit bytes go back where they no longer count, or the reserve would end up
    // in caches.
    if (count >= cached_blocks_max_ ||
        charged_bytes_.load(kRelaxed) > limit_of(AcquireClass::kNormal)) {
        put_shared(block);
        return;
    }
    block.next.store(cache.first == nullptr ? 0 : cache.first->index + 1, kRelaxed);
    cache.first = &block;
    cache.count.store(count + 1, kRelaxed);
}

void BufferPool::put_shared(Block& block) noexcept {
    SharedClass& shared = classes_[block.size_class];
    const std::uint64_t block_bytes =
        block.capacity_bytes;  // the block may be another's after the push
    if (shared.reservoir_count.fetch_add(1, kRelaxed) < options_.class_capacity) {
        shared.reservoir.push(block);
    } else {
        shared.reservoir_count.fetch_sub(1, kRelaxed);
        make_cold(block);
    }
    subtract(charged_bytes_, block_bytes);
}

void BufferPool::make_cold(Block& block) noexcept {
    SharedClass& shared = classes_[block.size_class];
    const std::uint64_t block_bytes = block.capacity_bytes;
    // Fails only for locked memory, which then stays with the process: nothing to be done about it
    // here.
    (void)::madvise(block.memory, block_bytes, MADV_DONTNEED);
    shared.resident_count.fetch_sub(1, kRelaxed);
    shared.cold.push(block);
    subtract(resident_bytes_, block_bytes);
}

/// Puts a chain of returned blocks away; called by the shard itself, or when no thread is left.
void BufferPool::take_home(ShardSlot& slot, std::uint32_t first) noexcept {
    const bool is_closed = slot.returns.load(kRelaxed) == kReturnsClosed;
    while (first != 0) {
        Block& block = blocks_[first - 1];
        first = block.next.load(kRelaxed);
        if (is_closed) {
            put_shared(block);
        } else {
            put_to_cache(slot, block);
        }
    }
}

void BufferPool::flush_cache(ShardSlot& slot) noexcept {
    for (ShardSlot::Cache& cache : slot.caches) {
        while (cache.first != nullptr) {
            Block& block = *cache.first;
            const std::uint32_t next = block.next.load(kRelaxed);
            cache.first = next == 0 ? nullptr : &blocks_[next - 1];
            put_shared(block);
        }
        cache.count.store(0, kRelaxed);
    }
}

}  // namespace galgo::memory

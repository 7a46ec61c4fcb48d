// BufRef: a counted slice of a block of the buffer pool. 16 bytes; a copy shares the block (one
// atomic increment), a move is free, and the block goes back to its pool when its last slice goes.
//
// Life of a buffer: one holder fills it (the single-writer phase: `mutable_bytes()` while
// `unique()`), then it is shared and read-only until the end. Sharing with another thread needs the
// usual happens-before (a shard message is one).
//
// Any thread may copy and drop a BufRef. A block of a small class that is dropped on another shard
// than the one that acquired it travels home on an intrusive list, which cannot fail; see
// memory/buffer_pool.hpp. The pool outlives every BufRef.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "base/this_shard.hpp"

namespace galgo::memory {

class BufferPool;
class ChunkPacker;

namespace internal {

/// Header of one block, apart from its page-aligned memory. It stands for one address range of one
/// class for as long as the pool lives, so that lock-free lists may look at it at any time.
struct alignas(64) Block {
    std::byte* memory = nullptr;
    BufferPool* pool = nullptr;
    std::atomic<std::uint32_t> references = 0;
    std::atomic<std::uint32_t> next = 0;  ///< index + 1 of the next block in whatever list holds it
    std::uint32_t index = 0;              ///< of this header in the pool
    std::uint32_t capacity_bytes = 0;
    ShardIndex home = kNoShard;  ///< shard that acquired it; kNoShard for large classes
    std::uint8_t size_class = 0;
    bool is_anonymous = false;  ///< counts against the anonymous limit while in use
    bool is_writable = false;   ///< its pages were made accessible once
};
static_assert(sizeof(Block) == 64);

/// The last reference is gone: gives the block back. Any thread.
void release(Block& block) noexcept;

}  // namespace internal

class BufRef {
 public:
    constexpr BufRef() noexcept = default;
    BufRef(const BufRef& other) noexcept
        : block_(other.block_), offset_(other.offset_), size_(other.size_) {
        if (block_ != nullptr) {
            block_->references.fetch_add(1, std::memory_order_relaxed);
        }
    }
    BufRef(BufRef&& other) noexcept
        : block_(std::exchange(other.block_, nullptr)),
          offset_(std::exchange(other.offset_, 0)),
          size_(std::exchange(other.size_, 0)) {}
    BufRef& operator=(const BufRef& other) noexcept {
        BufRef(other).swap(*this);
        return *this;
    }
    BufRef& operator=(BufRef&& other) noexcept {
        BufRef(std::move(other)).swap(*this);
        return *this;
    }
    ~BufRef() { drop(); }

    void swap(BufRef& other) noexcept {
        std::swap(block_, other.block_);
        std::swap(offset_, other.offset_);
        std::swap(size_, other.size_);
    }

    /// Is there a block? A slice of no bytes still holds one.
    [[nodiscard]] explicit operator bool() const noexcept { return block_ != nullptr; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] ConstBytes bytes() const noexcept { return {data(), size_}; }

    /// The bytes for writing. Only in the single-writer phase: the caller is the only holder of the
    /// block (checked in debug builds).
    [[nodiscard]] MutableBytes mutable_bytes() noexcept {
        GALGO_DCHECK(block_ == nullptr || unique());
        return {data(), size_};
    }

    /// A slice of `count` bytes from `offset` of this one; offset + count <= size(). Shares the
    /// block.
    [[nodiscard]] BufRef slice(std::size_t offset, std::size_t count) const& noexcept {
        BufRef part(*this);
        part.narrow(offset, count);
        return part;
    }
    /// The same on a temporary, without touching the count.
    [[nodiscard]] BufRef slice(std::size_t offset, std::size_t count) && noexcept {
        BufRef part(std::move(*this));
        part.narrow(offset, count);
        return part;
    }

    /// Sets the size to `size` bytes from the slice's start, up to the end of the block.
    /// Single-writer phase; bytes that were not written yet have no particular value (they may be
    /// another's old ones).
    void resize(std::size_t size) noexcept {
        GALGO_CHECK(size + offset_ <= capacity_bytes());
        GALGO_DCHECK(block_ == nullptr || unique());
        size_ = static_cast<std::uint32_t>(size);
    }

    /// Grows by the bytes of `next` when they lie right behind its own in the same block, so that
    /// the two can be sent as one. False: they do not, and nothing changed.
    [[nodiscard]] bool join(const BufRef& next) noexcept {
        if (block_ == nullptr || block_ != next.block_ || offset_ + size_ != next.offset_) {
            return false;
        }
        size_ += next.size_;
        return true;
    }

    /// Is this the only slice of its block? Stays true until the holder copies it.
    [[nodiscard]] bool unique() const noexcept {
        return block_ != nullptr && block_->references.load(std::memory_order_acquire) == 1;
    }
    /// Size of the whole block, the bytes that this slice pins; 0 without a block.
    [[nodiscard]] std::size_t capacity_bytes() const noexcept {
        return block_ == nullptr ? 0 : block_->capacity_bytes;
    }
    /// Do both hold the same block?
    [[nodiscard]] bool shares_block_with(const BufRef& other) const noexcept {
        return block_ != nullptr && block_ == other.block_;
    }

    /// Lets go of the block; empty afterwards.
    void reset() noexcept {
        drop();
        block_ = nullptr;
        offset_ = size_ = 0;
    }

 private:
    friend class BufferPool;
    friend class ChunkPacker;

    /// Takes over one reference.
    BufRef(internal::Block& block, std::size_t size) noexcept
        : block_(&block), size_(static_cast<std::uint32_t>(size)) {}

    [[nodiscard]] std::byte* data() const noexcept {
        return block_ == nullptr ? nullptr : block_->memory + offset_;
    }
    void narrow(std::size_t offset, std::size_t count) noexcept {
        GALGO_CHECK(offset <= size_ && count <= size_ - offset);
        offset_ += static_cast<std::uint32_t>(offset);
        size_ = static_cast<std::uint32_t>(count);
    }
    void drop() noexcept {
        // The only holder needs no atomic subtraction: nobody else can copy from it any more.
        if (block_ != nullptr &&
            (unique() || block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1)) {
            internal::release(*block_);
        }
    }

    internal::Block* block_ = nullptr;
    std::uint32_t offset_ = 0;
    std::uint32_t size_ = 0;
};
static_assert(sizeof(BufRef) == 16);

}  // namespace galgo::memory

// ChunkPacker: copies small byte ranges one after another into a chunk of the pool and hands out
// slices of it, so that a 300-byte message pins its share of a chunk and not a page of its own. A
// chunk goes back to the pool when the packer has moved on and its last slice is gone.
//
// Owned and used by one shard. Slices may be read anywhere: the packer writes only behind what it
// has handed out.
#pragma once

#include <cstddef>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "memory/buffer_pool.hpp"

namespace galgo::memory {

class ChunkPacker {
 public:
    /// `chunk_bytes` in 1..=kBlockBytesMax; a whole size class wastes nothing. The pool outlives
    /// this.
    explicit ChunkPacker(BufferPool& pool, std::size_t chunk_bytes = 64 * kKiB) noexcept;

    /// A slice that holds a copy of `bytes`, aligned to 8. What is larger than a chunk gets a block
    /// of its own. Fails as BufferPool::acquire does; the packer stays usable.
    [[nodiscard]] Result<BufRef> pack(ConstBytes bytes,
                                      AcquireClass admission = AcquireClass::kNormal) noexcept;

    /// Lets go of the current chunk (an idle owner pins nothing but its slices).
    void release_chunk() noexcept;

 private:
    BufferPool& pool_;
    std::size_t chunk_bytes_;
    BufRef chunk_;
    std::size_t used_bytes_ = 0;  ///< of chunk_, a multiple of 8 or the whole chunk
};

}  // namespace galgo::memory

#include "memory/chunk_packer.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"

namespace galgo::memory {

ChunkPacker::ChunkPacker(BufferPool& pool, std::size_t chunk_bytes) noexcept
    : pool_(pool), chunk_bytes_(chunk_bytes) {
    GALGO_CHECK(chunk_bytes > 0);
    GALGO_CHECK(chunk_bytes <= kBlockBytesMax);
}

Result<BufRef> ChunkPacker::pack(ConstBytes bytes, AcquireClass admission) noexcept {
    if (bytes.size() > chunk_bytes_) {
        GALGO_TRY_ASSIGN(BufRef own, pool_.acquire(bytes.size(), admission));
        std::memcpy(own.data(), bytes.data(), bytes.size());
        return own;
    }
    if (chunk_.unique()) {
        used_bytes_ = 0;  // all slices are gone: the same chunk again, still warm
    }
    if (!chunk_ || bytes.size() > chunk_.size() - used_bytes_) {
        GALGO_TRY_ASSIGN(chunk_, pool_.acquire(chunk_bytes_, admission));
        used_bytes_ = 0;
    }
    if (!bytes.empty()) {
        // Not mutable_bytes(): the chunk is shared, but nobody holds what lies behind used_bytes_.
        std::memcpy(chunk_.data() + used_bytes_, bytes.data(), bytes.size());
    }
    BufRef slice = chunk_.slice(used_bytes_, bytes.size());
    used_bytes_ = std::min((used_bytes_ + bytes.size() + 7) / 8 * 8, chunk_.size());
    return slice;
}

void ChunkPacker::release_chunk() noexcept {
    chunk_.reset();
    used_bytes_ = 0;
}

}  // namespace galgo::memory

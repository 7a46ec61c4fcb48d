// Compiled with -mavx2; called only after the processor was asked. No C++ header here: an inline
// function compiled in this file could replace the copy that all others use.
#include "crypto/detail/xxh3_kernels.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

static_assert(XXH_VECTOR == XXH_AVX2);

namespace galgo::crypto::internal {

uint64_t xxh3_64_avx2(const void* bytes, size_t size) noexcept {
    return XXH3_64bits(bytes, size);
}

void xxh3_update_avx2(void* state, const void* bytes, size_t size) noexcept {
    (void)XXH3_64bits_update(static_cast<XXH3_state_t*>(state), bytes, size);
}

}  // namespace galgo::crypto::internal

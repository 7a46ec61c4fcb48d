// The two builds of XXH3: for every x86-64-v2 machine, and for those with AVX2. Same results; the
// state of a stream may pass from one to the other. Only includes what cannot leak AVX2 code into
// shared functions.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace galgo::crypto::internal {

[[nodiscard]] uint64_t xxh3_64_baseline(const void* bytes, size_t size) noexcept;
[[nodiscard]] uint64_t xxh3_64_avx2(const void* bytes, size_t size) noexcept;
void xxh3_update_baseline(void* state, const void* bytes, size_t size) noexcept;
void xxh3_update_avx2(void* state, const void* bytes, size_t size) noexcept;

}  // namespace galgo::crypto::internal

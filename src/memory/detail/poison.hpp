// Marks memory that nobody may touch, for the address sanitizer: a read through a dangling span of
// a block that was given back is reported at its place. No code at all in other builds.
#pragma once

#include <cstddef>

#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif

namespace galgo::memory::internal {

inline void poison([[maybe_unused]] const void* memory,
                   [[maybe_unused]] std::size_t bytes) noexcept {
#if __has_feature(address_sanitizer)
    __asan_poison_memory_region(memory, bytes);
#endif
}
inline void unpoison([[maybe_unused]] const void* memory,
                     [[maybe_unused]] std::size_t bytes) noexcept {
#if __has_feature(address_sanitizer)
    __asan_unpoison_memory_region(memory, bytes);
#endif
}

}  // namespace galgo::memory::internal

// Coroutine frames come from free lists of the thread, by 64-byte size class, so that a message
// costs no general allocation once the lists are warm. A frame is freed on the thread that made it,
// because tasks never leave their shard. Address-sanitizer builds go to the general allocator
// instead, so that a use after free is found. Bounds: frames up to 4 KiB, 1024 free frames a class;
// larger or surplus ones use the general allocator.
#pragma once

#include <cstddef>
#include <cstdint>

namespace galgo::coro {

[[nodiscard]] void* allocate_frame(std::size_t bytes);
void free_frame(void* frame, std::size_t bytes) noexcept;

/// Frames that went to the general allocator on this thread since its start; flat in steady state.
[[nodiscard]] std::uint64_t frames_allocated_outside_lists() noexcept;

}  // namespace galgo::coro

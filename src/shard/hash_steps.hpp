// Hashes of what one client sent, in steps: a body of 64 MiB in one go would keep every other
// connection of the shard waiting for as long as it takes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.hpp"
#include "base/units.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"

namespace galgo::shard {

/// Hashing this much takes well under a millisecond; then others get their turn.
inline constexpr std::size_t kHashStepBytes = 4 * kMiB;

/// XXH3-64 of `bytes`, which stay as they are meanwhile. Up to one step it does not suspend.
[[nodiscard]] coro::Task<std::uint64_t> hash_in_steps(coro::ReadyQueue& ready, ConstBytes bytes);

}  // namespace galgo::shard

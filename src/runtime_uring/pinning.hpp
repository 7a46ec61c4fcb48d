// Threads and CPUs: which CPUs this process may use, and how a thread becomes a shard's thread.
// Which of them become shards is decided by config/cpu_allocation.hpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"

namespace galgo::runtime_uring {

/// CPUs of the calling thread's mask, ascending. Ask on the main thread, before anything is pinned.
[[nodiscard]] std::vector<int> allowed_cpus();

/// Restricts the calling thread to one CPU.
[[nodiscard]] Status pin_this_thread(int cpu);
[[nodiscard]] Status pin_this_thread(const std::vector<int>& cpus);

/// At most 15 characters are kept.
void name_this_thread(const std::string& name) noexcept;

/// First thing a shard's thread does: this_shard(), its name "shard-N", its CPU (none: not pinned).
[[nodiscard]] Status enter_shard_thread(ShardIndex shard, std::optional<int> cpu);

}  // namespace galgo::runtime_uring

// Damaged files that are about to be replaced: an operator may still want to look at them.
// On the shard that owns them.
#pragma once

#include <string>

#include "base/error.hpp"
#include "base/units.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::storage::detail {

/// Larger ones are none of ours: they are renamed instead.
inline constexpr std::size_t kKeepCopyBytesMax = 1 * kMiB;

/// Copies `directory`/`name` to the first free `directory`/`name`.damaged-{n}; the copy and its
/// name are stable when it returns, and the file itself is still there, so that no crash finds
/// neither. An absent file is success.
coro::Task<Status> keep_copy(runtime::IoBackend& io, std::string directory, std::string name);

}  // namespace galgo::storage::detail

// Deletion of large files in small steps: dropped segments are renamed into the trash directory and
// cut there by at most 32 MiB at a time, because unlinking a cached gigabyte blocks its caller for
// a fifth of a second.
#pragma once

#include <string>

#include "base/error.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::storage {

/// Deletes all files of `directory`, yielding between steps; what fails stays for the next call. An
/// absent directory is success. At most `steps_max` cuts; returns true when the directory is empty.
coro::Task<Result<bool>> empty_trash(runtime::IoBackend& io, coro::ReadyQueue& ready,
                                     std::string directory, std::size_t steps_max);

}  // namespace galgo::storage

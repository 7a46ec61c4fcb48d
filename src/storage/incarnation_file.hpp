// The file `incarnation` of a partition's directory: whose files are in it.
// docs/formats/segment.md.
#pragma once

#include <optional>
#include <string>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::storage {

/// Empty when the directory does not say, or the file does not verify. Changes nothing.
coro::Task<Result<std::optional<Incarnation>>> read_incarnation(runtime::IoBackend& io,
                                                                std::string directory);

}  // namespace galgo::storage

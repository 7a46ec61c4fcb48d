// Can this process use io_uring? Asked before anything else at start, so that a refusal names the
// switch to set instead of an errno.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.hpp"

namespace galgo::runtime_uring {

/// Sets up and gives up a small ring with the features we need. Errors carry the errno.
[[nodiscard]] Status probe();

/// One line for the operator: why setup failed with this errno and what to do about it.
[[nodiscard]] std::string explain_setup_failure(std::int32_t os_errno);

}  // namespace galgo::runtime_uring

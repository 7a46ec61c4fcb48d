// An error that passes when somebody makes room on the disk.
#pragma once

#include <cerrno>

#include "base/error.hpp"

namespace galgo::storage::detail {

[[nodiscard]] inline bool is_full_disk(const Error& error) noexcept {
    return error.os_errno == ENOSPC || error.os_errno == EDQUOT;
}

}  // namespace galgo::storage::detail

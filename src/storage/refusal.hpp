// Why a start ends: the error, and one line for the operator that names the file, the place in it
// and what can be done. Nothing was changed on disk when what was read is refused; when the disk
// fails while something is healed, a part of it is.
#pragma once

#include <cerrno>
#include <expected>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace galgo::storage {

struct Refusal {
    Error error;
    std::string text;
};

template <class T>
using OrRefusal = std::expected<T, Refusal>;

[[nodiscard]] inline std::unexpected<Refusal> refuse(const Error& error, std::string text) {
    return std::unexpected(Refusal{.error = error, .text = std::move(text)});
}

/// What helps when the disk fails while copies are written again.
inline constexpr const char* kDiskRemedy =
    "the disk fails: copy what can be read of the data directory to another one, and start there";
inline constexpr const char* kRoomRemedy = "make room on the disk";

[[nodiscard]] inline const char* remedy_of(const Error& error) noexcept {
    return error.os_errno == ENOSPC || error.os_errno == EDQUOT ? kRoomRemedy : kDiskRemedy;
}

/// What helps against every damage that no copy on this disk can heal.
inline constexpr const char* kRestoreRemedy =
    "restore the metadata directory from a backup, or give up all data with --fresh";

}  // namespace galgo::storage

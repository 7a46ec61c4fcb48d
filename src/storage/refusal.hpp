// Why a start ends: the error, and one line for the operator that names the file, the place in it
// and what can be done. Nothing was changed on disk when what was read is refused; when the disk
// fails while something is healed, a part of it is.
#pragma once

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

/// What helps against every damage that no copy on this disk can heal.
inline constexpr const char* kRestoreRemedy =
    "restore the metadata directory from a backup, or give up all data with --fresh";

}  // namespace galgo::storage

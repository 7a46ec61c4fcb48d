// Names for files that are set aside and kept: `{prefix}1`, `{prefix}2`, ...
#pragma once

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "runtime/io.hpp"

namespace galgo::storage::detail {

/// More files of one kind are not kept: whoever needs a name then gets an error.
inline constexpr std::uint32_t kFreeNamesMax = 10'000;

/// The first name of those that no file has. EEXIST when there is none up to the bound; what keeps
/// a name from being looked at is an error, too.
[[nodiscard]] inline Result<std::string> first_free(runtime::IoBackend& io,
                                                    std::string_view prefix) {
    for (std::uint32_t n = 1; n <= kFreeNamesMax; ++n) {
        std::string name = std::string(prefix) + std::to_string(n);
        const Result<runtime::FileFacts> facts = io.file_facts(name);
        if (!facts.has_value() && facts.error().os_errno == ENOENT) {
            return name;
        }
        if (!facts.has_value()) {
            return std::unexpected(facts.error());
        }
    }
    return fail_os(EEXIST);
}

}  // namespace galgo::storage::detail

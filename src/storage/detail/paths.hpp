// Parts of paths, for the files of the metadata group.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace galgo::storage::detail {

/// Directory and name.
[[nodiscard]] inline std::pair<std::string, std::string> split_path(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) {
        return {".", path};
    }
    return {path.substr(0, slash == 0 ? 1 : slash), path.substr(slash + 1)};
}

/// The number of "{prefix}{digits}", exactly `digits` of them.
[[nodiscard]] inline std::optional<std::uint64_t> numbered(std::string_view name,
                                                           std::string_view prefix,
                                                           std::size_t digits) {
    if (name.size() != prefix.size() + digits || !name.starts_with(prefix)) {
        return std::nullopt;
    }
    name.remove_prefix(prefix.size());
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (error != std::errc{} || end != name.data() + name.size()) {
        return std::nullopt;
    }
    return number;
}

}  // namespace galgo::storage::detail

// The environment as a value: read once at boot, while the process has one thread, completed from a
// `.env` file, and then passed to whoever needs it. Nothing else reads or changes the real one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace galgo::config {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// Copies the environment of the process.
[[nodiscard]] Environment read_environment();

/// First value of `name`; an empty value counts as unset.
[[nodiscard]] std::optional<std::string_view> find_variable(const Environment& environment,
                                                            std::string_view name);

/// Adds the variables of the file that IGGY_ENV_PATH names, else of `.env` in `directory` or the
/// nearest parent that has one. Names that are set already win; a missing or unreadable file and
/// malformed lines are ignored. Returns the path read, empty when none.
std::string merge_dotenv(Environment& environment, std::string_view directory);

struct RootCredentials {
    std::string username;
    std::string password;
};

}  // namespace galgo::config

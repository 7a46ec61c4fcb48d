// From embedded defaults, a TOML file and IGGY_* variables to a checked Config. Runs once at boot
// on the main thread; touches the file system only to find and read the file.
//
// Order: defaults, then the file, then the environment. A value out of bounds, a broken rule, a key
// that moved elsewhere and a feature of another version refuse; an unknown key or variable only
// warns, with the nearest known names, and one line names the keys that were set and are not yet
// acted upon. Limits: file 256 KiB, 64 elements in an array of tables.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/environment.hpp"

namespace galgo::config {

struct Loaded {
    Config config;
    std::vector<std::string> warnings;  ///< one line each, to be logged once the log runs
    std::string source_path;            ///< the file read; empty when there was none
};

/// Why the server cannot start, for stderr: key, value, what is allowed, where it came from.
struct ConfigFault {
    std::string one_line;
};

struct LoadOptions {
    std::string working_directory = ".";
    std::string system_file = "/etc/galgo/galgo.toml";
};

/// Finds the file (IGGY_CONFIG_PATH, else galgo.toml in the working directory, else the system
/// file) and loads it. A relative IGGY_CONFIG_PATH is looked up in the working directory, then in
/// each of its parents; when it names no file the load is refused. No default file at all is fine.
[[nodiscard]] std::expected<Loaded, ConfigFault> load_config(const Environment& environment,
                                                             const LoadOptions& options = {});

/// The same for a text that is at hand. `source` names it in messages. Pure.
[[nodiscard]] std::expected<Loaded, ConfigFault> load_config_text(std::string_view toml,
                                                                  std::string_view source,
                                                                  const Environment& environment);

/// What an empty file and an empty environment give.
[[nodiscard]] Config default_config();

/// IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD: both (3..=50 and 3..=100 bytes) or neither.
[[nodiscard]] std::expected<std::optional<RootCredentials>, ConfigFault> root_credentials(
    const Environment& environment);

}  // namespace galgo::config

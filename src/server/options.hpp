// The command line of galgo-server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/environment.hpp"

namespace galgo::server {

/// galgo-server check DIR
struct CheckOptions {
    std::string path;
    bool repair = false;
    bool json = false;
};

struct Options {
    bool fresh = false;                          ///< delete the data directory's content first
    bool with_default_root_credentials = false;  ///< iggy/iggy where nothing else is set
    bool check_config = false;                   ///< load, report, exit
    std::optional<std::uint32_t> replica_id;
    std::optional<CheckOptions> check;  ///< instead of serving
};

struct Parsed {
    Options options;
    std::optional<int>
        exit_code;  ///< set: print what was asked for was done (help, version) or failed
};

/// Prints help, version and errors itself.
[[nodiscard]] Parsed parse_command_line(int argc, char** argv);

/// Sets what --with-default-root-credentials stands for, where nothing else is set; an empty
/// variable is not.
void apply_default_root_credentials(config::Environment& environment);

}  // namespace galgo::server

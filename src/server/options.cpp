#include "server/options.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "server/version.hpp"

namespace galgo::server {

Parsed parse_command_line(int argc, char** argv) {
    Parsed parsed;
    CLI::App app{
        "Galgo, a persistent message streaming server. Configuration: IGGY_CONFIG_PATH, else "
        "./galgo.toml, else /etc/galgo/galgo.toml; IGGY_* variables override it.",
        "galgo-server"};
    app.set_version_flag("--version", std::string("galgo-server ") + kVersion);
    app.add_flag("-f,--fresh", parsed.options.fresh,
                 "Delete everything in the data directory before starting");
    app.add_flag("--with-default-root-credentials", parsed.options.with_default_root_credentials,
                 "Create the root user as iggy/iggy where IGGY_ROOT_USERNAME and "
                 "IGGY_ROOT_PASSWORD are not set");
    app.add_flag("--check-config", parsed.options.check_config,
                 "Load the configuration, report what is wrong with it, and exit");
    app.add_option("--replica-id", parsed.options.replica_id,
                   "Number of this replica in the cluster; 0 on a single node");
    CheckOptions check;
    CLI::App* command = app.add_subcommand(
        "check",
        "Verify a data directory that no server uses: every checksum of every batch, indexes, "
        "stored offsets, journals and metadata, and what a start would do. Changes nothing. Exit "
        "status: 0 nothing wrong, 1 it cannot be checked (usage, locked, no such directory), 2 "
        "something that a start mends by itself, 3 damage: messages cannot be served, a partition "
        "would take no more, or a start would be refused. The key of encrypted messages comes from "
        "the configuration; without it they are checked by their checksums");
    command->add_option("directory", check.path, "The data directory")->required();
    command->add_flag("--repair", check.repair,
                      "Write anew what follows from other files, as a start does: indexes, and "
                      "damaged copies of superblock and metadata log. No log is cut and no file is "
                      "deleted; run it as the user of the server. Then check again");
    command->add_flag("--json", check.json, "Print one JSON object instead of lines");
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        // 1 for whatever is wrong: other numbers say what a check found.
        parsed.exit_code = app.exit(error) == 0 ? 0 : 1;
    }
    if (command->parsed()) {
        parsed.options.check = std::move(check);
    }
    return parsed;
}

void apply_default_root_credentials(config::Environment& environment) {
    for (const std::string_view name : {"IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD"}) {
        // The first of a name is the one that is read: a second behind an empty one would not be.
        const auto known = std::ranges::find(
            environment, name,
            [](const auto& variable) -> std::string_view { return variable.first; });
        if (known == environment.end()) {
            environment.emplace_back(name, "iggy");
        } else if (known->second.empty()) {
            known->second = "iggy";
        }
    }
}

}  // namespace galgo::server

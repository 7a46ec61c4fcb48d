// galgo-server: command line, environment, configuration; everything else is Node.
#include <cstdio>
#include <optional>
#include <string>

#include "config/cpu_allocation.hpp"
#include "config/cpu_topology.hpp"
#include "config/environment.hpp"
#include "config/loader.hpp"
#include "observe/log.hpp"
#include "server/check_command.hpp"
#include "server/crash_report.hpp"
#include "server/node.hpp"
#include "server/options.hpp"

namespace galgo::server {
namespace {

int refuse(const std::string& why) {
    std::fprintf(stderr, "galgo-server: %s\n", why.c_str());
    return 1;
}

int run(int argc, char** argv) {
    Parsed parsed = parse_command_line(argc, argv);
    if (parsed.exit_code.has_value()) {
        return *parsed.exit_code;
    }
    config::Environment environment = config::read_environment();
    static_cast<void>(config::merge_dotenv(environment, "."));
    if (parsed.options.with_default_root_credentials) {
        apply_default_root_credentials(environment);
    }
    std::expected<config::Loaded, config::ConfigFault> loaded = config::load_config(environment);
    if (!loaded.has_value()) {
        return refuse(loaded.error().one_line);
    }
    if (parsed.options.replica_id.value_or(0) != 0) {
        return refuse("--replica-id: only 0 without a cluster");
    }
    const config::CPUAllocation& allocation = loaded->config.system.sharding.cpu_allocation;
    const config::CPUTopology topology = config::read_cpu_topology();
    const std::expected<std::vector<int>, std::string> cpus =
        config::resolve_cpus(allocation, topology);
    if (!cpus.has_value()) {
        return refuse("system.sharding.cpu_allocation: " + cpus.error());
    }
    if (std::optional<std::string> warning = config::numa_warning(allocation, *cpus, topology)) {
        loaded->warnings.push_back(*std::move(warning));
    }
    std::string level = loaded->config.system.logging.level;
    if (const auto variable = config::find_variable(environment, "RUST_LOG")) {
        level = *variable;
    }
    if (!observe::set_log_filter(level)) {
        return refuse("system.logging.level = \"" + level +
                      "\": expected trace, debug, info, warn, error or off, or module=level pairs");
    }
    if (parsed.options.check_config) {
        for (const std::string& warning : loaded->warnings) {
            std::printf("warning: %s\n", warning.c_str());
        }
        std::printf("configuration is valid (%s)\n", loaded->source_path.empty()
                                                         ? "defaults and environment"
                                                         : loaded->source_path.c_str());
        return 0;
    }
    install_crash_report();
    const CrashStack crash_stack;
    if (parsed.options.check.has_value()) {
        return run_check(*parsed.options.check, loaded->config);
    }
    Node node(parsed.options, *std::move(loaded), std::move(environment), *cpus);
    return node.run();
}

}  // namespace
}  // namespace galgo::server

int main(int argc, char** argv) {
    return galgo::server::run(argc, argv);
}

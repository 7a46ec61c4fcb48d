#include "config/loader.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <format>
#include <fstream>
#include <system_error>
#include <utility>

#include "config/detail/assembly.hpp"
#include "config/detail/node.hpp"

namespace galgo::config {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kFileBytesMax = 256 * 1024;

std::unexpected<ConfigFault> fault(const std::string& line) {
    return std::unexpected(ConfigFault{detail::one_line("config: " + line)});
}

bool is_there(const fs::path& path) {
    std::error_code error;
    return fs::exists(path, error);
}

/// A relative path is tried in `directory` and in each of its parents.
std::optional<fs::path> search_upward(const fs::path& directory, const fs::path& path) {
    if (path.is_absolute()) {
        return is_there(path) ? std::optional(path) : std::nullopt;
    }
    if (is_there(directory / path)) {
        return directory == "." ? path : directory / path;
    }
    std::error_code error;
    fs::path parent = fs::absolute(directory, error).lexically_normal();
    while (!error && parent.has_relative_path()) {
        parent = parent.parent_path();
        if (is_there(parent / path)) {
            return parent / path;
        }
    }
    return std::nullopt;
}

std::expected<std::string, ConfigFault> read_file(const fs::path& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) {
        return fault(std::format("{} is a directory, not a file", path.string()));
    }
    std::ifstream stream(path, std::ios::binary);
    if (!stream) {
        return fault(std::format("{} cannot be read: {}", path.string(), std::strerror(errno)));
    }
    std::string text(kFileBytesMax + 1, '\0');
    stream.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kFileBytesMax) {
        return fault(std::format("{} is longer than {} bytes", path.string(), kFileBytesMax));
    }
    return text;
}

std::expected<std::optional<fs::path>, ConfigFault> find_file(const Environment& environment,
                                                              const LoadOptions& options) {
    const fs::path directory(options.working_directory);
    if (const auto named = find_variable(environment, "IGGY_CONFIG_PATH")) {
        auto path = search_upward(directory, fs::path(*named));
        if (!path) {
            return fault(std::format("IGGY_CONFIG_PATH = \"{}\": there is no such file", *named));
        }
        return path;
    }
    for (const fs::path& path : {directory / "galgo.toml", fs::path(options.system_file)}) {
        if (is_there(path)) {
            return path;
        }
    }
    return std::nullopt;
}

}  // namespace

std::expected<Loaded, ConfigFault> load_config_text(std::string_view toml, std::string_view source,
                                                    const Environment& environment) {
    if (toml.size() > kFileBytesMax) {
        return fault(std::format("{} is longer than {} bytes", source, kFileBytesMax));
    }
    const auto root = detail::read_toml(toml);
    if (!root) {
        return fault(std::format("{}: not valid TOML: {}", source, root.error()));
    }
    detail::Assembly assembly;
    if (auto outcome = assembly.apply_file(*root, source); !outcome) {
        return std::unexpected(std::move(outcome.error()));
    }
    if (auto outcome = assembly.apply_environment(environment); !outcome) {
        return std::unexpected(std::move(outcome.error()));
    }
    return std::move(assembly).finish();
}

std::expected<Loaded, ConfigFault> load_config(const Environment& environment,
                                               const LoadOptions& options) {
    const auto path = find_file(environment, options);
    if (!path) {
        return std::unexpected(path.error());
    }
    if (!*path) {
        return load_config_text("", "the defaults", environment);
    }
    const auto text = read_file(**path);
    if (!text) {
        return std::unexpected(text.error());
    }
    auto loaded = load_config_text(*text, (*path)->string(), environment);
    if (loaded) {
        loaded->source_path = (*path)->string();
    }
    return loaded;
}

Config default_config() {
    return detail::Assembly().config();
}

std::expected<std::optional<RootCredentials>, ConfigFault> root_credentials(
    const Environment& environment) {
    const auto username = find_variable(environment, "IGGY_ROOT_USERNAME");
    const auto password = find_variable(environment, "IGGY_ROOT_PASSWORD");
    if (!username && !password) {
        return std::nullopt;
    }
    if (!username || !password) {
        return fault("IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD must be set together");
    }
    if (username->size() < 3 || username->size() > 50) {
        return fault(std::format("IGGY_ROOT_USERNAME = \"{}\": must have 3..=50 bytes", *username));
    }
    if (password->size() < 3 || password->size() > 100) {
        return fault("IGGY_ROOT_PASSWORD = \"******\": must have 3..=100 bytes");
    }
    return RootCredentials{std::string(*username), std::string(*password)};
}

}  // namespace galgo::config

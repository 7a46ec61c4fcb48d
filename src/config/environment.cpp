#include "config/environment.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

#include "model/text.hpp"

namespace galgo::config {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLinesMax = 4096;

bool is_name(std::string_view text) {
    constexpr std::string_view kAllowed =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    return !text.empty() && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

/// NAME=value, `export NAME="value"`; quotes around a value fall away, # starts a comment line.
void merge_line(Environment& environment, std::string_view line) {
    line = model::trimmed(line);
    if (line.ends_with('\r')) {
        line = model::trimmed(line.substr(0, line.size() - 1));
    }
    if (line.starts_with("export ")) {
        line = model::trimmed(line.substr(7));
    }
    const std::size_t equals = line.find('=');
    if (line.starts_with('#') || equals == std::string_view::npos) {
        return;
    }
    const std::string_view name = model::trimmed(line.substr(0, equals));
    std::string_view value = model::trimmed(line.substr(equals + 1));
    if (!is_name(name)) {
        return;
    }
    for (const auto& [known, unused] : environment) {
        if (known == name) {
            return;
        }
    }
    if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
        value.back() == value.front()) {
        value = value.substr(1, value.size() - 2);
    }
    environment.emplace_back(name, value);
}

std::string find_dotenv(const Environment& environment, std::string_view directory) {
    if (const auto named = find_variable(environment, "IGGY_ENV_PATH")) {
        return std::string(*named);
    }
    std::error_code error;
    fs::path folder = fs::absolute(fs::path(directory), error).lexically_normal();
    while (!error) {
        if (std::error_code ignored; fs::is_regular_file(folder / ".env", ignored)) {
            return (folder / ".env").string();
        }
        if (!folder.has_relative_path()) {
            break;
        }
        folder = folder.parent_path();
    }
    return "";
}

}  // namespace

Environment read_environment() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        if (const std::size_t equals = text.find('='); equals != std::string_view::npos) {
            environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
        }
    }
    return environment;
}

std::optional<std::string_view> find_variable(const Environment& environment,
                                              std::string_view name) {
    for (const auto& [known, value] : environment) {
        if (known == name) {
            return value.empty() ? std::nullopt : std::optional<std::string_view>(value);
        }
    }
    return std::nullopt;
}

std::string merge_dotenv(Environment& environment, std::string_view directory) {
    const std::string path = find_dotenv(environment, directory);
    std::ifstream file(path);
    if (path.empty() || !file) {
        return "";
    }
    std::string line;
    for (std::size_t count = 0; count < kLinesMax && std::getline(file, line); ++count) {
        merge_line(environment, line);
    }
    return path;
}

}  // namespace galgo::config

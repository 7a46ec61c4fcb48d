// Any bytes as a configuration file and an environment (behind the first zero byte, one NAME=value
// a line): no crash, no hang; what is refused is told in one line; and what is accepted prints to a
// text that loads to the same values.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "config/environment.hpp"
#include "config/loader.hpp"
#include "config/print.hpp"
#include "fuzz_target.hpp"

namespace {

galgo::config::Environment parse_environment(std::string_view lines) {
    galgo::config::Environment environment;
    while (!lines.empty()) {
        const std::string_view line = lines.substr(0, lines.find('\n'));
        if (const std::size_t equals = line.find('='); equals != std::string_view::npos) {
            environment.emplace_back(line.substr(0, equals), line.substr(equals + 1));
        }
        lines.remove_prefix(std::min(lines.size(), line.size() + 1));
    }
    return environment;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace galgo::config;
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    const std::string_view toml = input.substr(0, input.find('\0'));
    const Environment environment =
        parse_environment(input.substr(std::min(input.size(), toml.size() + 1)));
    const auto loaded = load_config_text(toml, "fuzz.toml", environment);
    if (!loaded) {
        GALGO_CHECK(loaded.error().one_line.starts_with("config: "));
        GALGO_CHECK(loaded.error().one_line.find('\n') == std::string::npos);
        return 0;
    }
    Config expected = loaded->config;
    expected.system.encryption.key.clear();
    expected.http.jwt.encoding_secret.clear();
    expected.http.jwt.decoding_secret.clear();
    expected.cluster.auth_shared_secret.clear();
    expected.cluster.auth_previous_shared_secret.clear();
    // A secret that may not be printed may be needed to pass the rules again.
    if (expected.cluster.auth_enabled || expected.system.encryption.enabled) {
        return 0;
    }
    const auto again = load_config_text(print_config(loaded->config), "printed.toml", {});
    GALGO_CHECK(again.has_value());
    GALGO_CHECK(again->config == expected);
    return 0;
}

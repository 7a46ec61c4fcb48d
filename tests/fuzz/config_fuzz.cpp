// Any bytes as a configuration file: no crash, no hang; and what is accepted prints to a text that
// loads to the same values.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "config/loader.hpp"
#include "config/print.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace galgo::config;
    const std::string_view toml(reinterpret_cast<const char*>(data), size);
    const auto loaded = load_config_text(toml, "fuzz.toml", {});
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
    if (expected.cluster.auth_enabled) {
        return 0;
    }
    const auto again = load_config_text(print_config(loaded->config), "printed.toml", {});
    GALGO_CHECK(again.has_value());
    GALGO_CHECK(again->config == expected);
    return 0;
}

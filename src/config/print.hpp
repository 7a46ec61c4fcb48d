// The effective configuration as text, and values in the notation that the loader reads back.
#pragma once

#include <cstdint>
#include <string>

#include "config/config.hpp"

namespace galgo::config {

/// TOML of every key but secrets and unset optional ones; tables in the order of the property
/// table, [consumer_group] first. What load_config_text makes of it equals `config`, secrets and
/// `runtime` (which comes from the environment) aside. Content of runtime/current_config.toml: put
/// the addresses that were really bound into `config` first.
[[nodiscard]] std::string print_config(const Config& config);

/// Markdown reference of every key: type, default, bounds, meaning, whether it is acted upon.
[[nodiscard]] std::string print_reference();

/// Exact: "4 GiB", "500 MB", "1.2 KB", "0 B"; the shorter of binary and decimal.
[[nodiscard]] std::string format_byte_size(std::uint64_t bytes);

/// "1m", "7days", "1h 30m", "50ms", "0s". Exact to the nanosecond.
[[nodiscard]] std::string format_duration(std::uint64_t nanoseconds);

}  // namespace galgo::config

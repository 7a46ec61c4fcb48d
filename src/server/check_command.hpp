// `galgo-server check DIR`: the lock, a ring, and what check/ finds, on the terminal.
#pragma once

#include "config/config.hpp"
#include "server/options.hpp"

namespace galgo::server {

/// Prints findings and a summary; returns the exit status (check/finding.hpp: Verdict).
[[nodiscard]] int run_check(const CheckOptions& options, const config::Config& config);

}  // namespace galgo::server

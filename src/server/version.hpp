// What this server calls itself.
#pragma once

namespace galgo::server {

inline constexpr const char* kVersion = "0.1.0";
/// In login replies and statistics. Clients show it; none compares it.
inline constexpr const char* kServerVersion = "galgo 0.1.0";

}  // namespace galgo::server

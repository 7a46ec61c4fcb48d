// Socket addresses as text, both ways.
#pragma once

#include <string>

#include "runtime/io.hpp"

namespace galgo::server {

/// "127.0.0.1:8090" or "[::1]:8090".
[[nodiscard]] std::string format_address(const runtime::SocketAddress& address);
/// The reverse; the configuration has checked the form.
[[nodiscard]] runtime::SocketAddress parse_address(const std::string& text);

}  // namespace galgo::server

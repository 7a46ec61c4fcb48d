#include "server/socket_address.hpp"

#include <format>

namespace galgo::server {

std::string format_address(const runtime::SocketAddress& address) {
    const bool v6 = address.ip.find(':') != std::string::npos;
    return v6 ? std::format("[{}]:{}", address.ip, address.port)
              : std::format("{}:{}", address.ip, address.port);
}

runtime::SocketAddress parse_address(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    std::string ip = text.substr(0, colon);
    if (ip.starts_with('[')) {
        ip = ip.substr(1, ip.size() - 2);
    }
    return {.ip = std::move(ip),
            .port = static_cast<std::uint16_t>(std::stoul(text.substr(colon + 1)))};
}

}  // namespace galgo::server

// Where a server listens: host and port, as text gives them. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace galgo::sdk {

struct Address {
    std::string host;  ///< name or IP literal, IPv6 without brackets
    std::uint16_t port = 0;

    bool operator==(const Address&) const = default;
};

/// Reads "host:port" or "[ipv6]:port"; the port is 1..65535. Error: kInvalidServerAddress.
[[nodiscard]] Result<Address> parse_address(std::string_view text);

/// The inverse.
[[nodiscard]] std::string to_string(const Address& address);

}  // namespace galgo::sdk

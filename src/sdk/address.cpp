// Text to address and back.
#include "sdk/address.hpp"

#include <charconv>

namespace galgo::sdk {

Result<Address> parse_address(std::string_view text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return fail(ErrorCode::kInvalidServerAddress);
    }
    std::string_view host = text.substr(0, colon);
    const std::string_view digits = text.substr(colon + 1);
    const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) {
        host = host.substr(1, host.size() - 2);
    }
    // A bare IPv6 literal would lose its last group to the port.
    if (host.empty() || (!bracketed && host.find_first_of(":[]") != std::string_view::npos)) {
        return fail(ErrorCode::kInvalidServerAddress);
    }
    std::uint16_t port = 0;
    const char* end = digits.data() + digits.size();
    const auto [stopped_at, error] = std::from_chars(digits.data(), end, port);
    if (error != std::errc{} || stopped_at != end || port == 0) {
        return fail(ErrorCode::kInvalidServerAddress);
    }
    return Address{.host = std::string(host), .port = port};
}

std::string to_string(const Address& address) {
    const bool is_ipv6 = address.host.find(':') != std::string::npos;
    return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace galgo::sdk

#include "base/error.hpp"

#include <cstring>
#include <format>

namespace galgo {

std::string_view error_name(ErrorCode code) noexcept {
    switch (code) {
#define GALGO_ERROR_CASE(name, number) \
    case ErrorCode::k##name:           \
        return #name;
        GALGO_ERROR_CODES(GALGO_ERROR_CASE)
#undef GALGO_ERROR_CASE
    }
    return "unknown";
}

std::string to_string(const Error& error) {
    std::string text =
        std::format("{} ({})", error_name(error.code), static_cast<std::uint32_t>(error.code));
    if (error.os_errno != 0) {
        char buffer[128];
        text += ": ";
        text += strerror_r(error.os_errno, buffer, sizeof(buffer));
    }
    return text;
}

}  // namespace galgo

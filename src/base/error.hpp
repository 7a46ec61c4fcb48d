// Operating errors are values. `Result<T>` carries either a value or a 16-byte Error that names the
// wire code a client gets, the errno that caused it, and whether a retry can help. Text is built
// where an error is logged or sent, never on the data path.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <type_traits>
#include <utility>

#include "base/error_code.hpp"

namespace galgo {

/// May the same request be sent again?
enum class RetryClass : std::uint8_t {
    kNever = 0,      ///< The answer will stay the same.
    kSameNode = 1,   ///< Nothing was done; this node may accept it later.
    kOtherNode = 2,  ///< Nothing was done; another node may accept it.
};

struct Error {
    ErrorCode code = ErrorCode::kError;
    std::int32_t os_errno = 0;  ///< positive errno, 0 when the system was not involved
    RetryClass retry = RetryClass::kNever;
    std::uint8_t reserved[3] = {};
    std::uint32_t detail =
        0;  ///< free for the module that makes the error (a line, an index, a count)

    constexpr bool operator==(const Error&) const noexcept = default;
};
static_assert(sizeof(Error) == 16 && std::is_trivially_copyable_v<Error>);

template <class T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

/// An error of the protocol; retry class follows from the code (57 and 58 may be tried again).
[[nodiscard]] constexpr std::unexpected<Error> fail(ErrorCode code,
                                                    std::uint32_t detail = 0) noexcept {
    const bool transient =
        code == ErrorCode::kTransientNotAccepted || code == ErrorCode::kTransientNotCommitted;
    return std::unexpected(Error{.code = code,
                                 .retry = transient ? RetryClass::kSameNode : RetryClass::kNever,
                                 .detail = detail});
}

/// An error of the operating system. `os_errno` is positive.
[[nodiscard]] constexpr std::unexpected<Error> fail_os(
    std::int32_t os_errno, ErrorCode code = ErrorCode::kIoError) noexcept {
    return std::unexpected(Error{.code = code, .os_errno = os_errno});
}

/// "IoError (13000): No space left on device" for logs.
[[nodiscard]] std::string to_string(const Error& error);

}  // namespace galgo

// Early returns. Statements, never expressions: no co_await hides inside a larger expression.
#define GALGO_CONCAT_INNER(a, b) a##b
#define GALGO_CONCAT(a, b) GALGO_CONCAT_INNER(a, b)

#define GALGO_TRY_INNER(return_keyword, name, expr)       \
    do {                                                  \
        auto&& name = (expr);                             \
        if (!name.has_value()) [[unlikely]] {             \
            return_keyword std::unexpected(name.error()); \
        }                                                 \
    } while (false)
#define GALGO_TRY_ASSIGN_INNER(return_keyword, name, declaration, expr) \
    auto&& name = (expr);                                               \
    if (!name.has_value()) [[unlikely]] {                               \
        return_keyword std::unexpected(name.error());                   \
    }                                                                   \
    declaration = *std::move(name)

/// GALGO_TRY(check());  GALGO_TRY_ASSIGN(auto size, read_size());
#define GALGO_TRY(expr) GALGO_TRY_INNER(return, GALGO_CONCAT(galgo_try_, __LINE__), expr)
#define GALGO_TRY_ASSIGN(declaration, expr) \
    GALGO_TRY_ASSIGN_INNER(return, GALGO_CONCAT(galgo_try_, __LINE__), declaration, expr)
/// The same inside coroutines: GALGO_CO_TRY(co_await flush());
#define GALGO_CO_TRY(expr) GALGO_TRY_INNER(co_return, GALGO_CONCAT(galgo_try_, __LINE__), expr)
#define GALGO_CO_TRY_ASSIGN(declaration, expr) \
    GALGO_TRY_ASSIGN_INNER(co_return, GALGO_CONCAT(galgo_try_, __LINE__), declaration, expr)

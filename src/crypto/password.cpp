#include "crypto/password.hpp"

#include <argon2.h>

#include <optional>
#include <span>

#include "base/bytes.hpp"
#include "crypto/detail/phc.hpp"
#include "crypto/random.hpp"

namespace galgo::crypto {

namespace {

using internal::PasswordCost;
using internal::Phc;
using internal::PhcField;

constexpr std::size_t kSaltBytes = 16;
constexpr std::size_t kHashBytes = 32;

/// Fills hash.bytes up to hash.size; false when the library refuses (no memory).
bool compute(const PasswordCost& cost, PhcField& salt, std::string_view password, PhcField& hash) {
    // The library's interface has no const; it writes to the output alone.
    argon2_context context{};
    context.out = hash.bytes.data();
    context.outlen = static_cast<std::uint32_t>(hash.size);
    context.pwd = reinterpret_cast<std::uint8_t*>(const_cast<char*>(password.data()));
    context.pwdlen = static_cast<std::uint32_t>(password.size());
    context.salt = salt.bytes.data();
    context.saltlen = static_cast<std::uint32_t>(salt.size);
    context.t_cost = cost.passes;
    context.m_cost = cost.memory_kib;
    context.lanes = cost.lanes;
    context.threads = 1;
    context.version = ARGON2_VERSION_13;
    context.flags = ARGON2_DEFAULT_FLAGS;
    return argon2id_ctx(&context) == ARGON2_OK;
}

}  // namespace

Result<std::string> hash_password(std::string_view password) {
    if (password.size() > kPasswordBytesMax) {
        return fail(ErrorCode::kInvalidPassword);
    }
    Phc phc;
    phc.salt.size = kSaltBytes;
    phc.hash.size = kHashBytes;
    random_bytes(std::as_writable_bytes(std::span(phc.salt.bytes).first(kSaltBytes)));
    if (!compute(phc.cost, phc.salt, password, phc.hash)) {
        return fail(ErrorCode::kError);
    }
    return internal::format_phc(phc);
}

bool verify_password(std::string_view phc, std::string_view password) {
    if (password.size() > kPasswordBytesMax) {
        return false;  // says nothing about the user: it depends on the asker's bytes alone
    }
    std::optional<Phc> expected = internal::parse_phc(phc);
    const bool is_well_formed = expected.has_value();
    if (!is_well_formed) {
        expected.emplace();
        expected->salt.size = kSaltBytes;
        expected->hash.size = kHashBytes;
    }
    PhcField actual;
    actual.size = expected->hash.size;
    if (!compute(expected->cost, expected->salt, password, actual)) {
        return false;
    }
    // All bytes are compared, wherever the first difference is.
    unsigned difference = is_well_formed ? 0 : 1;
    for (std::size_t i = 0; i < actual.size; ++i) {
        difference |= static_cast<unsigned>(actual.bytes[i] ^ expected->hash.bytes[i]);
    }
    return difference == 0;
}

}  // namespace galgo::crypto

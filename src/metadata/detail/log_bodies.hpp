// The log's own forms of bodies that differ from the wire (see operation.hpp). Decoders allocate
// nothing and borrow; their error is kInvalidCommand.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "metadata/operation.hpp"
#include "wire/primitives.hpp"
#include "wire/requests.hpp"

namespace galgo::metadata::detail {

struct CreateTopicBody {
    wire::Identifier stream;
    std::uint32_t partition_count = 0;
    std::string_view name;
    ConstBytes explicit_block;
    ConstBytes derived_block;
};

[[nodiscard]] inline std::vector<std::byte> encode_create_topic(const CreateTopicBody& body) {
    ByteWriter to;
    wire::put_identifier(to, body.stream);
    to.put<std::uint32_t>(body.partition_count);
    wire::put_name(to, body.name);
    wire::put_block32(to, body.explicit_block);
    wire::put_block32(to, body.derived_block);
    return std::move(to).take();
}

[[nodiscard]] inline Result<CreateTopicBody> decode_create_topic(ConstBytes bytes) noexcept {
    wire::FieldReader from(bytes);
    CreateTopicBody body;
    body.stream = from.identifier();
    body.partition_count = from.u32();
    body.name = from.name();
    body.explicit_block = from.block32();
    body.derived_block = from.block32();
    return from.finish(body);
}

struct CreateUserBody {
    std::string_view name;
    std::string_view password_hash;
    wire::UserStatus status = wire::UserStatus::kActive;
    ConstBytes permissions;  ///< empty: no record
};

[[nodiscard]] inline std::vector<std::byte> encode_create_user(const CreateUserBody& body) {
    ByteWriter to;
    wire::put_name(to, body.name);
    wire::put_str32(to, body.password_hash);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(body.status));
    wire::put_block32(to, body.permissions);
    return std::move(to).take();
}

[[nodiscard]] inline Result<CreateUserBody> decode_create_user(ConstBytes bytes) noexcept {
    wire::FieldReader from(bytes);
    CreateUserBody body;
    body.name = from.name();
    body.password_hash = from.str32();
    body.status = from.one_of(wire::UserStatus::kActive, wire::UserStatus::kInactive);
    body.permissions = from.block32();
    return from.finish(body);
}

struct ChangePasswordBody {
    wire::Identifier user;
    std::string_view verified_hash;
    std::string_view password_hash;  ///< empty: the current password was wrong
};

[[nodiscard]] inline std::vector<std::byte> encode_change_password(const ChangePasswordBody& body) {
    ByteWriter to;
    wire::put_identifier(to, body.user);
    wire::put_str32(to, body.verified_hash);
    wire::put_str32(to, body.password_hash);
    return std::move(to).take();
}

[[nodiscard]] inline Result<ChangePasswordBody> decode_change_password(ConstBytes bytes) noexcept {
    wire::FieldReader from(bytes);
    ChangePasswordBody body;
    body.user = from.identifier();
    body.verified_hash = from.str32();
    body.password_hash = from.str32();
    return from.finish(body);
}

/// Of a token or of a PHC.
using Digest = std::array<std::byte, 32>;
static_assert(std::is_same_v<Digest, TokenHash> && std::is_same_v<Digest, PasswordDigest>);

inline void put_digest(ByteWriter& to, const Digest& digest) {
    to.put_bytes(digest);
}

[[nodiscard]] inline Digest take_digest(wire::FieldReader& from) noexcept {
    Digest digest{};
    std::ranges::copy(from.bytes(digest.size()), digest.begin());
    return digest;
}

struct CreateTokenBody {
    std::string_view name;
    std::uint64_t lifetime_us = 0;  ///< 0 and u64 max: never expires
    std::uint32_t tokens_max = 0;   ///< of one user
    TokenHash hash{};
};

[[nodiscard]] inline std::vector<std::byte> encode_create_token(const CreateTokenBody& body) {
    ByteWriter to;
    wire::put_name(to, body.name);
    to.put<std::uint64_t>(body.lifetime_us);
    to.put<std::uint32_t>(body.tokens_max);
    put_digest(to, body.hash);
    return std::move(to).take();
}

[[nodiscard]] inline Result<CreateTokenBody> decode_create_token(ConstBytes bytes) noexcept {
    wire::FieldReader from(bytes);
    CreateTokenBody body;
    body.name = from.name();
    body.lifetime_us = from.u64();
    body.tokens_max = from.u32();
    body.hash = take_digest(from);
    return from.finish(body);
}

inline constexpr std::uint8_t kRegisterHasToken = 1;
inline constexpr std::uint8_t kRegisterHasPassword = 2;

[[nodiscard]] inline std::vector<std::byte> encode_register(const Login& login) {
    ByteWriter to;
    to.put<std::uint32_t>(login.user.value());
    to.put<std::uint64_t>(login.user_created.value());
    to.put<std::uint8_t>((login.token.has_value() ? kRegisterHasToken : 0U) |
                         (login.password.has_value() ? kRegisterHasPassword : 0U));
    if (login.token.has_value()) {
        put_digest(to, *login.token);
    }
    if (login.password.has_value()) {
        put_digest(to, *login.password);
    }
    return std::move(to).take();
}

/// `user_created` is none in a body of the oldest form.
struct RegisterBody {
    model::UserId user;
    std::optional<OpNumber> user_created;
    std::optional<TokenHash> token;
    std::optional<PasswordDigest> password;
};

[[nodiscard]] inline Result<RegisterBody> decode_register(ConstBytes bytes) noexcept {
    wire::FieldReader from(bytes);
    RegisterBody body;
    body.user = from.id<model::UserId>();
    if (from.remaining() > 0) {
        body.user_created = from.id<OpNumber>();
        const std::uint8_t flags = from.u8();
        if ((flags & ~(kRegisterHasToken | kRegisterHasPassword)) != 0) {
            return fail(ErrorCode::kInvalidCommand);
        }
        if ((flags & kRegisterHasToken) != 0) {
            body.token = take_digest(from);
        }
        if ((flags & kRegisterHasPassword) != 0) {
            body.password = take_digest(from);
        }
    }
    return from.finish(body);
}

}  // namespace galgo::metadata::detail

// What enters the metadata log. A prepare names an operation, who asked for it, when it was
// admitted, and a body; the same numbers as on the wire for what clients send, numbers of our own
// for what only the server proposes. `LogOperation` values are stored on disk: append only, never
// renumber.
//
// Bodies in the log are those of the wire, decoded and encoded again (nothing behind their last
// field), but for
//  * kCreateTopic: stream id, partitions_count u32, name, explicit options block32, derived options
//    block32: resolved at admission, so that a later server with other defaults replays the same
//    topic;
//  * kCreateUser: name, password hash (PHC) str32, status u8, permissions block32 (empty: none);
//  * kChangePassword: user id, PHC that the current password was verified against str32, PHC of the
//    new password str32 (empty: the current password was wrong). Applies only to a user whose hash
//    is still the verified one;
//  * kCreatePersonalAccessToken: name, lifetime us u64, tokens per user at most u32, SHA-256 of the
//    token 32 B. Expiry counts from the stamp of the prepare;
//  * kRegister: user id u32, op that created the user u64, flags u8, [bit 0: SHA-256 of the token
//    that was shown, 32 B], [bit 1: SHA-256 of the PHC that the password was verified against,
//    32 B]. Applies only while that token is good, or that PHC is still the user's. One of them is
//    there but in older logs, which have no bit 1, or the user id alone;
//  * kLogout: empty; `session` of the prepare is the epoch that ends. Also proposed by the server
//    when a connection is lost or a heartbeat is missed;
//  * kCreateRoot: name, password hash (PHC) str32;
//  * kResetSessions: most sessions from here on u32. Proposed by the primary of a log before it
//    serves its first client after a start: sessions and memberships never outlive the connections
//    they came from;
//  * kExpireTokens: count u32. Removes at most that many tokens, oldest first, whose expiry the
//    stamp of the prepare has reached.
//
// No password and no token ever enters the log: what the edge makes of them comes in as Sealed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "metadata/state.hpp"
#include "model/ids.hpp"
#include "wire/codes.hpp"
#include "wire/prepare.hpp"

namespace galgo::metadata {

enum class LogOperation : std::uint8_t {
    kRegister = 1,
    kLogout = 3,
    kCreateStream = 128,
    kUpdateStream = 129,
    kDeleteStream = 130,
    kPurgeStream = 131,
    kCreateTopic = 132,
    kUpdateTopic = 133,
    kDeleteTopic = 134,
    kPurgeTopic = 135,
    kCreatePartitions = 136,
    kDeletePartitions = 137,
    kCreateConsumerGroup = 139,
    kDeleteConsumerGroup = 140,
    kCreateUser = 141,
    kUpdateUser = 142,
    kDeleteUser = 143,
    kChangePassword = 144,
    kUpdatePermissions = 145,
    kCreatePersonalAccessToken = 146,
    kDeletePersonalAccessToken = 147,
    kJoinConsumerGroup = 148,
    kLeaveConsumerGroup = 149,
    kCreateRoot = 200,
    kResetSessions = 201,
    kExpireTokens = 202,
};

// What clients send keeps its number.
static_assert(LogOperation{static_cast<std::uint8_t>(wire::Operation::kCreateStream)} ==
              LogOperation::kCreateStream);
static_assert(LogOperation{static_cast<std::uint8_t>(wire::Operation::kCreateUser)} ==
              LogOperation::kCreateUser);
static_assert(LogOperation{
                  static_cast<std::uint8_t>(wire::Operation::kDeletePersonalAccessToken)} ==
              LogOperation::kDeletePersonalAccessToken);
static_assert(LogOperation{static_cast<std::uint8_t>(wire::Operation::kLeaveConsumerGroup)} ==
              LogOperation::kLeaveConsumerGroup);

/// A committed (or to be committed) entry of the metadata log. Borrows its body.
struct PrepareView {
    LogOperation operation{};
    OpNumber op;          ///< position in the log, from 1, ascending
    Timestamp timestamp;  ///< when the primary admitted it
    ClientId client;
    SessionId session;
    RequestNumber request;
    u128 request_checksum = 0;
    model::UserId user;  ///< who is authorised; kRootUserId for the server's own proposals
    ConstBytes body;
};

/// The view of an entry as the log keeps it. Borrows `body`. The operation may be an unknown
/// number, which apply refuses.
[[nodiscard]] PrepareView view_prepare(const wire::PrepareHeader& header, ConstBytes body) noexcept;

/// What the edge made of the secrets of a request. Hashing is slow and needs randomness, so it is
/// done before the request comes here, and once.
struct Sealed {
    static constexpr bool kShardPortable = true;
    /// CreateUser, ChangePassword: PHC of the new password. Empty for CreateUser: the edge saw no
    /// right to do that. Empty for ChangePassword: the current password does not match.
    std::string password_hash;
    /// ChangePassword: the user's PHC that the current password was verified against; empty when
    /// the edge saw no such user, or no right.
    std::string verified_hash;
    /// CreatePersonalAccessToken: SHA-256 of the token that the client will be told.
    TokenHash token_hash{};
};

/// Does the operation need a Sealed to enter the log?
[[nodiscard]] constexpr bool carries_secret(wire::Operation operation) noexcept {
    return operation == wire::Operation::kCreateUser ||
           operation == wire::Operation::kChangePassword ||
           operation == wire::Operation::kCreatePersonalAccessToken;
}

/// A request of a bound client that wants to enter the log. Borrows.
struct Command {
    wire::Operation operation = wire::Operation::kNone;
    ConstBytes body;  ///< as the client sent it
    model::UserId user{};
    const Sealed* sealed = nullptr;  ///< for operations that carry a secret
    std::uint32_t tokens_per_user_max = kTokensPerUserMaxDefault;
};

struct Admitted {
    LogOperation operation{};
    std::vector<std::byte> body;  ///< of the prepare
    /// False: the stamp of the client's body is a fingerprint of a password and must not be kept.
    bool keeps_checksum = true;
};

/// Longest body of a user or permission command; a record of about 90 000 streams.
inline constexpr std::size_t kUserBodyBytesMax = std::size_t{1} << 20U;

/// Decodes and bounds a client's metadata command; nothing undecodable and nothing outside the
/// static bounds enters the log. Does not look at names and ids, and at a right only where the work
/// before the log depends on it (permissions, passwords of others): that is decided when the
/// operation is applied, in log order. Errors go out as reply status: 3 undecodable, 5 an operation
/// that is not served here (or whose secret was not sealed), 41 no right, 44 length of a password,
/// 58 what the edge saw has changed, 4041 and 4042 options, 1019 topic below one segment, 2015
/// partitions in one request.
[[nodiscard]] Result<Admitted> admit(const State& state, const Command& command);

/// SHA-256 of a PHC. That has a random salt, so a user who takes an old password again has another
/// digest.
using PasswordDigest = std::array<std::byte, 32>;
[[nodiscard]] PasswordDigest digest_of_password(const User& user) noexcept;

/// Who was verified at the edge, for a login, and by what: a token or a password. It counts when
/// the login is applied, so what was verified must hold then.
struct Login {
    static constexpr bool kShardPortable = true;
    model::UserId user;
    OpNumber user_created;                     ///< User::created_op of the row that was looked at
    std::optional<TokenHash> token;            ///< that was shown
    std::optional<PasswordDigest> password{};  ///< of the row that was looked at
};
/// Of somebody who shows the password of `user`, as this row has it.
[[nodiscard]] Login login_by_password(const User& user) noexcept;

// Proposals of the server itself.
/// The login has a token or a password.
[[nodiscard]] Admitted make_register(const Login& login);
[[nodiscard]] Admitted make_logout();
/// `sessions_max` > 0 holds from here on: the bound decides who is evicted, so a replay has to know
/// which one was in force.
[[nodiscard]] Admitted make_reset_sessions(std::uint32_t sessions_max);
/// `count_max` bounds the work of one operation; ask State::has_expired_tokens() whether there is
/// more.
[[nodiscard]] Admitted make_expire_tokens(std::uint32_t count_max);
/// `name` and `password_hash` within the limits of a user and of str32.
[[nodiscard]] Admitted make_create_root(std::string_view name, std::string_view password_hash);

}  // namespace galgo::metadata

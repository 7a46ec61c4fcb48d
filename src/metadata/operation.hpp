// What enters the metadata log. A prepare names an operation, who asked for it, when it was
// admitted, and a body; the same numbers as on the wire for what clients send, numbers of our own
// for what only the server proposes. `LogOperation` values are stored on disk: append only, never
// renumber.
//
// Bodies in the log:
//   kCreateStream .. kLeaveConsumerGroup   as the client sent them, but for
//   kCreateTopic       stream id, partitions_count u32, name, explicit options block32, derived
//   options block32:
//                      resolved at admission, so that a later server with other defaults replays
//                      the same topic
//   kRegister          user id u32
//   kLogout            empty; `session` of the prepare is the epoch that ends. Also proposed by the
//   server
//                      when a connection is lost or a heartbeat is missed
//   kCreateRoot        name, password hash (PHC) str32
//   kResetSessions     empty; proposed by the primary of a log before it serves its first client
//   after a
//                      start: sessions and memberships never outlive the connections they came from
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
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
    kJoinConsumerGroup = 148,
    kLeaveConsumerGroup = 149,
    kCreateRoot = 200,
    kResetSessions = 201,
};

// What clients send keeps its number.
static_assert(LogOperation{static_cast<std::uint8_t>(wire::Operation::kCreateStream)} ==
              LogOperation::kCreateStream);
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

/// A request of a bound client that wants to enter the log.
struct Command {
    wire::Operation operation = wire::Operation::kNone;
    ConstBytes body;
};

struct Admitted {
    LogOperation operation{};
    std::vector<std::byte> body;  ///< of the prepare
};

/// Decodes and bounds a client's metadata command; nothing undecodable and nothing outside the
/// static bounds enters the log. Does not look at names, ids or rights: that is decided when the
/// operation is applied, in log order. Errors go out as reply status: 3 undecodable, 5 an operation
/// that is not served here, 4041 and 4042 options, 1019 topic below one segment, 2015 partitions in
/// one request.
[[nodiscard]] Result<Admitted> admit(const Command& command);

// Proposals of the server itself.
[[nodiscard]] Admitted make_register(model::UserId user);
[[nodiscard]] Admitted make_logout();
[[nodiscard]] Admitted make_reset_sessions();
/// `name` and `password_hash` within the limits of a user and of str32.
[[nodiscard]] Admitted make_create_root(std::string_view name, std::string_view password_hash);

}  // namespace galgo::metadata

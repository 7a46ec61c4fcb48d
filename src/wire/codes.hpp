// The enumerations of the client protocol: frame kinds, operations, eviction reasons, command
// codes. Values are the numbers on the wire. A value read from bytes may be none of the
// enumerators; ask is_known_operation and find_command (wire/command_table.hpp) before you switch
// over it. wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <cstdint>

namespace galgo::wire {

/// Kind of a frame, byte 60 of every header.
enum class Command : std::uint8_t {
    kRequest = 5,
    kReply = 8,
    kEviction = 13,
};

/// What a frame asks for; decides the plane that serves it and whether the reply has a result
/// section.
enum class Operation : std::uint8_t {
    kNone = 0,
    kRegister = 1,
    kNonReplicated = 2,
    kLogout = 3,
    // Internal: never from a client. 64, 65 and 68 appear as the operation of replies.
    kCreateTopicWithAssignments = 64,
    kCreatePartitionsWithAssignments = 65,
    kRemoveConsumerGroupMember = 66,
    kCompleteConsumerGroupRevocation = 67,
    kTruncatePartition = 68,
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
    kDeleteSegments = 138,
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
    kSendMessages = 160,
    kStoreConsumerOffset = 161,
    kDeleteConsumerOffset = 162,
};

[[nodiscard]] constexpr bool is_internal_operation(Operation operation) noexcept {
    const auto value = static_cast<std::uint8_t>(operation);
    return value >= 64 && value <= 68;
}

/// kNone is not known: no frame may carry it.
[[nodiscard]] constexpr bool is_known_operation(Operation operation) noexcept {
    const auto value = static_cast<std::uint8_t>(operation);
    return (value >= 1 && value <= 3) || is_internal_operation(operation) ||
           (value >= 128 && value <= 149) || (value >= 160 && value <= 162);
}

/// Served by the metadata state machine (internal ones included).
[[nodiscard]] constexpr bool is_metadata_operation(Operation operation) noexcept {
    const auto value = static_cast<std::uint8_t>(operation);
    return is_internal_operation(operation) ||
           (value >= 128 && value <= 149 && operation != Operation::kDeleteSegments);
}

/// Served by the owner of a partition.
[[nodiscard]] constexpr bool is_partition_operation(Operation operation) noexcept {
    const auto value = static_cast<std::uint8_t>(operation);
    return value >= 160 && value <= 162;
}

/// Does the client strip a result section from a successful reply of this operation? For kRegister
/// it does whenever the body is not empty, which is always so for a login.
[[nodiscard]] constexpr bool is_result_framed(Operation operation) noexcept {
    return operation == Operation::kRegister || is_metadata_operation(operation) ||
           operation == Operation::kStoreConsumerOffset ||
           operation == Operation::kDeleteConsumerOffset;
}

/// Why a client is told that its session is over or was never made. Comments: the error it raises
/// there.
enum class EvictionReason : std::uint8_t {
    kNoSession = 1,                ///< 40
    kClientReleaseTooLow = 2,      ///< 3, never sent
    kClientReleaseTooHigh = 3,     ///< 3, never sent
    kInvalidRequestOperation = 4,  ///< 3
    kInvalidRequestBody = 5,       ///< 3
    kInvalidRequestBodySize = 6,   ///< 3
    kSessionTooLow = 7,            ///< 40
    kSessionReleaseMismatch = 8,   ///< 40, never sent
    kInvalidCredentials = 9,       ///< 42
    kInvalidToken = 10,            ///< 53
    kUserInactive = 11,            ///< 40
    kSessionError = 12,            ///< 40
    kStaleClient = 13,             ///< 30
    kIncompatibleProtocol = 14,    ///< 14003
    kMalformedLogin = 15,          ///< 4
};

enum class CommandCode : std::uint32_t {
    kPing = 1,
    kGetStats = 10,
    kGetSnapshot = 11,
    kGetClusterMetadata = 12,
    kDescribeOptions = 13,
    kAttachConsumerSession = 14,
    kGetMe = 20,
    kGetClient = 21,
    kGetClients = 22,
    kGetUser = 31,
    kGetUsers = 32,
    kCreateUser = 33,
    kDeleteUser = 34,
    kUpdateUser = 35,
    kUpdatePermissions = 36,
    kChangePassword = 37,
    kLoginUser = 38,
    kLogoutUser = 39,
    kLoginRegister = 40,
    kGetPersonalAccessTokens = 41,
    kCreatePersonalAccessToken = 42,
    kDeletePersonalAccessToken = 43,
    kLoginWithPersonalAccessToken = 44,
    kLoginRegisterWithPersonalAccessToken = 45,
    kPollMessages = 100,
    kSendMessages = 101,
    kFlushUnsavedBuffer = 102,
    kGetPollRouting = 103,
    kPollMessagesOnPrimary = 104,
    kGetConsumerOffset = 120,
    kStoreConsumerOffset = 121,
    kDeleteConsumerOffset = 122,
    kGetConsumerOffsetRouting = 123,
    kGetStream = 200,
    kGetStreams = 201,
    kCreateStream = 202,
    kDeleteStream = 203,
    kUpdateStream = 204,
    kPurgeStream = 205,
    kGetTopic = 300,
    kGetTopics = 301,
    kCreateTopic = 302,
    kDeleteTopic = 303,
    kUpdateTopic = 304,
    kPurgeTopic = 305,
    kCreatePartitions = 402,
    kDeletePartitions = 403,
    kDeleteSegments = 503,
    kGetConsumerGroup = 600,
    kGetConsumerGroups = 601,
    kCreateConsumerGroup = 602,
    kDeleteConsumerGroup = 603,
    kJoinConsumerGroup = 604,
    kLeaveConsumerGroup = 605,
    kSyncConsumerGroup = 606,
};

}  // namespace galgo::wire

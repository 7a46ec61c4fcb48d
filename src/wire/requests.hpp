// Request bodies of system, stream, topic, partition, consumer-group and user commands, one struct
// each, and of the two login shapes. Message bodies are in message_requests.hpp.
//
// decode() gives a view: names, option blocks and byte ranges borrow the body. Error is always
// kInvalidCommand. Bytes behind a fixed body are tolerated, an option block must use up the rest.
// encode() is for clients and tests. Commands that share a body share a struct; commands with an
// empty body have none. wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "model/ids.hpp"
#include "model/permissions.hpp"
#include "wire/options.hpp"
#include "wire/primitives.hpp"

namespace galgo::wire {

// --- login (operation Register): the shapes are told apart by decoding ---

/// What both shapes begin with. Decoded first, for the version gate.
struct LoginPrefix {
    std::uint32_t protocol_version = 0;
    std::string_view sdk_name;
    std::string_view sdk_version;

    [[nodiscard]] static Result<LoginPrefix> decode(ConstBytes body) noexcept;
};

/// User name and password (code 40).
struct LoginRequest {
    LoginPrefix prefix;
    std::string_view username;
    std::string_view password;
    std::string_view context;

    [[nodiscard]] static Result<LoginRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

/// Personal access token (code 45).
struct TokenLoginRequest {
    LoginPrefix prefix;
    std::string_view token;
    std::string_view context;

    [[nodiscard]] static Result<TokenLoginRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

// --- system ---

enum class SnapshotCompression : std::uint8_t {
    kStored = 1,
    kDeflated = 2,
    kBzip2 = 3,
    kZstd = 4,
    kLzma = 5,
    kXz = 6,
};
enum class SnapshotKind : std::uint8_t {
    kFilesystemOverview = 1,
    kProcesses = 2,
    kResources = 3,
    kTest = 4,
    kServerLogs = 5,
    kServerConfig = 6,
    kAll = 100,
};

struct GetSnapshotRequest {
    SnapshotCompression compression = SnapshotCompression::kDeflated;
    ConstBytes kinds;  ///< one SnapshotKind a byte, all known

    [[nodiscard]] static Result<GetSnapshotRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

enum class OptionScope : std::uint8_t { kTopic = 1, kStream = 2, kUser = 3 };

struct DescribeOptionsRequest {
    OptionScope scope = OptionScope::kTopic;

    [[nodiscard]] static Result<DescribeOptionsRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct GetClientRequest {
    model::ConnectionId connection;

    [[nodiscard]] static Result<GetClientRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct AttachConsumerSessionRequest {
    ClientId client;
    SessionId session;
    std::uint64_t metadata_watermark = 0;

    [[nodiscard]] static Result<AttachConsumerSessionRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

// --- streams ---

/// GetStream, DeleteStream, PurgeStream, GetTopics.
struct StreamRequest {
    Identifier stream;

    [[nodiscard]] static Result<StreamRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct CreateStreamRequest {
    std::string_view name;
    OptionBlock options;

    [[nodiscard]] static Result<CreateStreamRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct UpdateStreamRequest {
    Identifier stream;
    std::string_view name;
    OptionBlock options;

    [[nodiscard]] static Result<UpdateStreamRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

// --- topics and partitions ---

/// GetTopic, DeleteTopic, PurgeTopic, GetConsumerGroups.
struct TopicRequest {
    Identifier stream;
    Identifier topic;

    [[nodiscard]] static Result<TopicRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct CreateTopicRequest {
    Identifier stream;
    std::uint32_t partitions_count = 0;
    std::string_view name;
    OptionBlock options;

    [[nodiscard]] static Result<CreateTopicRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct UpdateTopicRequest {
    Identifier stream;
    Identifier topic;
    std::string_view name;
    OptionBlock options;

    [[nodiscard]] static Result<UpdateTopicRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

/// CreatePartitions, DeletePartitions. The count is not checked here (error kTooManyPartitions is
/// the handler's).
struct PartitionsRequest {
    Identifier stream;
    Identifier topic;
    std::uint32_t partitions_count = 0;

    [[nodiscard]] static Result<PartitionsRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct DeleteSegmentsRequest {
    Identifier stream;
    Identifier topic;
    model::PartitionId partition;
    std::uint32_t segments_count = 0;

    [[nodiscard]] static Result<DeleteSegmentsRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

// --- consumer groups ---

/// GetConsumerGroup, DeleteConsumerGroup, JoinConsumerGroup, LeaveConsumerGroup, SyncConsumerGroup.
struct GroupRequest {
    Identifier stream;
    Identifier topic;
    Identifier group;

    [[nodiscard]] static Result<GroupRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct CreateGroupRequest {
    Identifier stream;
    Identifier topic;
    std::string_view name;

    [[nodiscard]] static Result<CreateGroupRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

// --- users and tokens ---

enum class UserStatus : std::uint8_t { kActive = 1, kInactive = 2 };

/// GetUser, DeleteUser.
struct UserRequest {
    Identifier user;

    [[nodiscard]] static Result<UserRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct CreateUserRequest {
    std::string_view username;
    std::string_view password;
    UserStatus status = UserStatus::kActive;
    std::optional<model::Permissions> permissions;
    OptionBlock options;

    [[nodiscard]] static Result<CreateUserRequest> decode(ConstBytes body);
    void encode(ByteWriter& to) const;
};

struct UpdateUserRequest {
    Identifier user;
    std::optional<std::string_view> username;
    std::optional<UserStatus> status;
    OptionBlock options;

    [[nodiscard]] static Result<UpdateUserRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct UpdatePermissionsRequest {
    Identifier user;
    std::optional<model::Permissions> permissions;

    [[nodiscard]] static Result<UpdatePermissionsRequest> decode(ConstBytes body);
    void encode(ByteWriter& to) const;
};

struct ChangePasswordRequest {
    Identifier user;
    std::string_view current_password;
    std::string_view new_password;

    [[nodiscard]] static Result<ChangePasswordRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct CreateTokenRequest {
    std::string_view name;
    std::uint64_t expiry_us = 0;  ///< lifetime; 0 = server default (never), u64 max = never

    [[nodiscard]] static Result<CreateTokenRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct DeleteTokenRequest {
    std::string_view name;

    [[nodiscard]] static Result<DeleteTokenRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

}  // namespace galgo::wire

// Reply bodies: plain input structs and functions that append them. Text and blocks in the structs
// borrow.
//
// A result section (count u32, then {index u32, result u32} each) stands in front of the body of
// metadata operations, offset writes and logins, never in front of reads and sends; put_result_ok
// and rejection_body make it. Errors of the other operations travel in the header's status, with an
// empty body. What clients decode is in reply_decoders.hpp. Control-plane replies go through a
// growing ByteWriter; the two of the message path (PollPrefix, SendConfirmation) are fixed arrays.
// wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "model/ids.hpp"
#include "model/permissions.hpp"
#include "model/topic_options.hpp"
#include "wire/requests.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::wire {

// --- result section ---

/// The whole body of an empty success of a result-framed operation.
inline constexpr std::array<std::byte, 4> kResultOk{};
void put_result_ok(ByteWriter& to);
/// The whole body of a rejection: one entry. `code` is not kOk.
[[nodiscard]] std::array<std::byte, 12> rejection_body(ErrorCode code) noexcept;

// --- session and system ---

struct LoginReply {
    model::UserId user;
    SessionId session;  ///< above 0
    std::uint32_t protocol_version = 0;
    std::string_view server_version;
};
/// With the result section.
void put_login_reply(ByteWriter& to, const LoginReply& reply);

struct CacheMetric {
    model::StreamId stream;
    model::TopicId topic;
    model::PartitionId partition;
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    float hit_ratio = 0;
};

struct StatsReply {
    std::uint32_t process_id = 0;
    float cpu_usage_percent = 0;
    float total_cpu_usage_percent = 0;
    std::uint64_t memory_usage_bytes = 0;
    std::uint64_t total_memory_bytes = 0;
    std::uint64_t available_memory_bytes = 0;
    std::uint64_t run_time_us = 0;
    std::uint64_t start_time_us = 0;
    std::uint64_t read_bytes = 0;
    std::uint64_t written_bytes = 0;
    std::uint64_t messages_size_bytes = 0;
    std::uint32_t streams_count = 0;
    std::uint32_t topics_count = 0;
    std::uint32_t partitions_count = 0;
    std::uint32_t segments_count = 0;
    std::uint64_t messages_count = 0;
    std::uint32_t clients_count = 0;
    std::uint32_t consumer_groups_count = 0;
    std::string_view hostname;
    std::string_view os_name;
    std::string_view os_version;
    std::string_view kernel_version;
    std::string_view server_version;
    std::uint32_t server_version_number = 0;  ///< major * 10^6 + minor * 1000 + patch, 0 = none
    std::span<const CacheMetric> cache_metrics;
    std::uint32_t threads_count = 0;
    std::uint64_t free_disk_bytes = 0;
    std::uint64_t total_disk_bytes = 0;
};
void put_stats(ByteWriter& to, const StatsReply& stats);

enum class NodeRole : std::uint8_t { kLeader = 0, kFollower = 1 };
enum class NodeStatus : std::uint8_t {
    kHealthy = 0,
    kStarting = 1,
    kStopping = 2,
    kUnreachable = 3,
    kMaintenance = 4,
};
struct ClusterNode {
    std::string_view name;
    std::string_view ip;
    std::uint16_t tcp_port = 0;  ///< 0 = this transport is not offered
    std::uint16_t quic_port = 0;
    std::uint16_t http_port = 0;
    std::uint16_t websocket_port = 0;
    NodeRole role = NodeRole::kLeader;
    NodeStatus status = NodeStatus::kHealthy;
};
void put_cluster_node(ByteWriter& to, const ClusterNode& node);
/// At least one node: a client that gets none waits for seconds and then fails.
void put_cluster_metadata(ByteWriter& to, std::string_view cluster,
                          std::span<const ClusterNode> nodes);

void put_option_catalogue(ByteWriter& to, std::span<const OptionDescription> options);

enum class Transport : std::uint8_t { kTcp = 1, kQuic = 2, kHttp = 3, kWebSocket = 4 };
struct ClientGroup {
    model::StreamId stream;
    model::TopicId topic;
    model::GroupId group;
};
struct ClientRecord {
    model::ConnectionId connection;
    model::UserId user = model::kNoUserId;
    Transport transport = Transport::kTcp;
    std::string_view address;  ///< "ip:port"
    std::uint32_t groups_count = 0;
};
/// One entry of GetClients.
void put_client_record(ByteWriter& to, const ClientRecord& client);
/// GetMe, GetClient: groups_count is taken from `groups`.
void put_client_details(ByteWriter& to, ClientRecord client, std::span<const ClientGroup> groups);

/// GetPollRouting, GetConsumerOffsetRouting: the caller's own identity and the primary of the
/// partition.
struct RoutingReply {
    ClientId client;
    SessionId session;
    std::uint64_t metadata_watermark = 0;
    ClusterNode primary;
};
void put_routing(ByteWriter& to, const RoutingReply& reply);

// --- streams, topics, partitions ---

struct StreamRecord {
    model::StreamId id;
    Timestamp created_at;
    std::uint32_t topics_count = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t messages_count = 0;
    std::string_view name;
    ConstBytes options;
};
void put_stream_record(ByteWriter& to, const StreamRecord& stream);

struct TopicRecord {
    model::TopicId id;
    Timestamp created_at;
    std::uint32_t partitions_count = 0;
    std::uint64_t message_expiry_us = model::kNeverExpires;
    model::CompressionAlgorithm compression = model::CompressionAlgorithm::kNone;
    std::uint64_t max_topic_size_bytes = model::kUnlimitedSize;
    std::uint64_t size_bytes = 0;
    std::uint64_t messages_count = 0;
    std::string_view name;
    ConstBytes explicit_options;
    ConstBytes derived_options;
};
void put_topic_record(ByteWriter& to, const TopicRecord& topic);

struct PartitionRecord {
    model::PartitionId id;
    Timestamp created_at;
    std::uint32_t segments_count = 1;
    Offset current_offset;
    std::uint64_t size_bytes = 0;
    std::uint64_t messages_count = 0;
};
inline constexpr std::size_t kPartitionRecordSize = 40;
void put_partition_record(ByteWriter& to, const PartitionRecord& partition);

// --- messages and offsets ---

struct SendConfirmation {
    model::StreamId stream;
    model::TopicId topic;
    model::PartitionId partition;
    Offset base_offset;
};
/// The body of a successful send into one partition: count 1 and the position of its first message.
inline constexpr std::size_t kSendConfirmationBodySize = 24;
[[nodiscard]] std::array<std::byte, kSendConfirmationBodySize> send_confirmation_body(
    const SendConfirmation& confirmation) noexcept;

/// partition_id of an empty poll reply: the caller's group assignment is stale, it must sync.
inline constexpr model::PartitionId kStaleAssignmentPartition{0xFFFF'FFFF};
struct PollPrefix {
    model::PartitionId partition;
    Offset current_offset;             ///< last committed, 0 if the partition is empty
    std::uint32_t messages_count = 0;  ///< sum over the batches that follow
};
inline constexpr std::size_t kPollPrefixSize = 16;
[[nodiscard]] std::array<std::byte, kPollPrefixSize> poll_prefix(const PollPrefix& prefix) noexcept;

struct ConsumerOffsetReply {
    model::PartitionId partition;
    Offset current_offset;
    Offset stored_offset;
};
void put_consumer_offset(ByteWriter& to, const ConsumerOffsetReply& reply);

// --- consumer groups ---

struct GroupRecord {
    model::GroupId id;
    std::uint32_t partitions_count = 0;
    std::uint32_t members_count = 0;
    std::string_view name;
};
void put_group_record(ByteWriter& to, const GroupRecord& group);
/// Follows the record of GetConsumerGroup, members_count times.
void put_group_member(ByteWriter& to, model::MemberId member,
                      std::span<const model::PartitionId> partitions);
void put_sync_reply(ByteWriter& to, std::uint64_t generation,
                    std::span<const model::PartitionId> partitions);

// --- users and tokens ---

struct UserRecord {
    model::UserId id;
    Timestamp created_at;
    UserStatus status = UserStatus::kActive;
    std::string_view username;
    ConstBytes options;
};
/// One entry of GetUsers.
void put_user_record(ByteWriter& to, const UserRecord& user);
/// GetUser, CreateUser; `permissions` may be nullptr.
void put_user_details(ByteWriter& to, const UserRecord& user,
                      const model::Permissions* permissions);

/// One entry of GetPersonalAccessTokens; without an expiry it never expires.
void put_token_record(ByteWriter& to, std::string_view name, std::optional<Timestamp> expiry_at);
/// CreatePersonalAccessToken, behind the result section; 1..255 bytes.
void put_token_secret(ByteWriter& to, std::string_view token);

}  // namespace galgo::wire

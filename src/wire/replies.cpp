// Builders of reply bodies.
#include "wire/replies.hpp"

#include "wire/permissions.hpp"
#include "wire/primitives.hpp"

namespace galgo::wire {
namespace {

void put_partitions(ByteWriter& to, std::span<const model::PartitionId> partitions) {
    to.put<std::uint32_t>(static_cast<std::uint32_t>(partitions.size()));
    for (const model::PartitionId partition : partitions) {
        to.put<std::uint32_t>(partition.value());
    }
}

}  // namespace

void put_result_ok(ByteWriter& to) {
    to.put_bytes(kResultOk);
}

std::array<std::byte, 12> rejection_body(ErrorCode code) noexcept {
    GALGO_CHECK(code != ErrorCode::kOk);
    std::array<std::byte, 12> body{};
    store<std::uint32_t>(body, 0, 1);
    store<std::uint32_t>(body, 8, static_cast<std::uint32_t>(code));
    return body;
}

void put_login_reply(ByteWriter& to, const LoginReply& reply) {
    GALGO_CHECK(reply.session.value() > 0);
    put_result_ok(to);
    to.put<std::uint32_t>(reply.user.value());
    to.put<std::uint64_t>(reply.session.value());
    to.put<std::uint32_t>(reply.protocol_version);
    put_name(to, reply.server_version);
}

void put_stats(ByteWriter& to, const StatsReply& stats) {
    to.put<std::uint32_t>(stats.process_id);
    to.put<float>(stats.cpu_usage_percent);
    to.put<float>(stats.total_cpu_usage_percent);
    to.put<std::uint64_t>(stats.memory_usage_bytes);
    to.put<std::uint64_t>(stats.total_memory_bytes);
    to.put<std::uint64_t>(stats.available_memory_bytes);
    to.put<std::uint64_t>(stats.run_time_us);
    to.put<std::uint64_t>(stats.start_time_us);
    to.put<std::uint64_t>(stats.read_bytes);
    to.put<std::uint64_t>(stats.written_bytes);
    to.put<std::uint64_t>(stats.messages_size_bytes);
    to.put<std::uint32_t>(stats.streams_count);
    to.put<std::uint32_t>(stats.topics_count);
    to.put<std::uint32_t>(stats.partitions_count);
    to.put<std::uint32_t>(stats.segments_count);
    to.put<std::uint64_t>(stats.messages_count);
    to.put<std::uint32_t>(stats.clients_count);
    to.put<std::uint32_t>(stats.consumer_groups_count);
    put_str32(to, stats.hostname);
    put_str32(to, stats.os_name);
    put_str32(to, stats.os_version);
    put_str32(to, stats.kernel_version);
    put_str32(to, stats.server_version);
    to.put<std::uint32_t>(stats.server_version_number);
    to.put<std::uint32_t>(static_cast<std::uint32_t>(stats.cache_metrics.size()));
    for (const CacheMetric& metric : stats.cache_metrics) {
        to.put<std::uint32_t>(metric.stream.value());
        to.put<std::uint32_t>(metric.topic.value());
        to.put<std::uint32_t>(metric.partition.value());
        to.put<std::uint64_t>(metric.hits);
        to.put<std::uint64_t>(metric.misses);
        to.put<float>(metric.hit_ratio);
    }
    to.put<std::uint32_t>(stats.threads_count);
    to.put<std::uint64_t>(stats.free_disk_bytes);
    to.put<std::uint64_t>(stats.total_disk_bytes);
}

void put_cluster_node(ByteWriter& to, const ClusterNode& node) {
    put_str32(to, node.name);
    put_str32(to, node.ip);
    to.put<std::uint16_t>(node.tcp_port);
    to.put<std::uint16_t>(node.quic_port);
    to.put<std::uint16_t>(node.http_port);
    to.put<std::uint16_t>(node.websocket_port);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(node.role));
    to.put<std::uint8_t>(static_cast<std::uint8_t>(node.status));
}

void put_cluster_metadata(ByteWriter& to, std::string_view cluster,
                          std::span<const ClusterNode> nodes) {
    GALGO_CHECK(!nodes.empty());
    put_str32(to, cluster);
    to.put<std::uint32_t>(static_cast<std::uint32_t>(nodes.size()));
    for (const ClusterNode& node : nodes) {
        put_cluster_node(to, node);
    }
}

void put_option_catalogue(ByteWriter& to, std::span<const OptionDescription> options) {
    to.put<std::uint32_t>(static_cast<std::uint32_t>(options.size()));
    for (const OptionDescription& option : options) {
        put_name(to, option.key);
        to.put<std::uint8_t>(static_cast<std::uint8_t>(option.kind));
        put_block32(to, option.default_value);
        put_str32(to, option.description);
    }
}

void put_client_record(ByteWriter& to, const ClientRecord& client) {
    to.put<std::uint32_t>(client.connection.value());
    to.put<std::uint32_t>(client.user.value());
    to.put<std::uint8_t>(static_cast<std::uint8_t>(client.transport));
    put_str32(to, client.address);
    to.put<std::uint32_t>(client.groups_count);
}

void put_client_details(ByteWriter& to, ClientRecord client, std::span<const ClientGroup> groups) {
    client.groups_count = static_cast<std::uint32_t>(groups.size());
    put_client_record(to, client);
    for (const ClientGroup& group : groups) {
        to.put<std::uint32_t>(group.stream.value());
        to.put<std::uint32_t>(group.topic.value());
        to.put<std::uint32_t>(group.group.value());
    }
}

void put_routing(ByteWriter& to, const RoutingReply& reply) {
    to.put<u128>(reply.client.value());
    to.put<std::uint64_t>(reply.session.value());
    to.put<std::uint64_t>(reply.metadata_watermark);
    put_cluster_node(to, reply.primary);
}

void put_stream_record(ByteWriter& to, const StreamRecord& stream) {
    to.put<std::uint32_t>(stream.id.value());
    to.put<std::uint64_t>(stream.created_at.value());
    to.put<std::uint32_t>(stream.topics_count);
    to.put<std::uint64_t>(stream.size_bytes);
    to.put<std::uint64_t>(stream.messages_count);
    put_name(to, stream.name);
    put_block32(to, stream.options);
}

void put_topic_record(ByteWriter& to, const TopicRecord& topic) {
    to.put<std::uint32_t>(topic.id.value());
    to.put<std::uint64_t>(topic.created_at.value());
    to.put<std::uint32_t>(topic.partitions_count);
    to.put<std::uint64_t>(topic.message_expiry_us);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(topic.compression));
    to.put<std::uint64_t>(topic.max_topic_size_bytes);
    to.put<std::uint64_t>(topic.size_bytes);
    to.put<std::uint64_t>(topic.messages_count);
    put_name(to, topic.name);
    put_block32(to, topic.explicit_options);
    put_block32(to, topic.derived_options);
}

void put_partition_record(ByteWriter& to, const PartitionRecord& partition) {
    const std::size_t begin = to.size();
    to.put<std::uint32_t>(partition.id.value());
    to.put<std::uint64_t>(partition.created_at.value());
    to.put<std::uint32_t>(partition.segments_count);
    to.put<std::uint64_t>(partition.current_offset.value());
    to.put<std::uint64_t>(partition.size_bytes);
    to.put<std::uint64_t>(partition.messages_count);
    GALGO_DCHECK(to.size() - begin == kPartitionRecordSize);
}

std::array<std::byte, kSendConfirmationBodySize> send_confirmation_body(
    const SendConfirmation& confirmation) noexcept {
    std::array<std::byte, kSendConfirmationBodySize> body{};
    store<std::uint32_t>(body, 0, 1);
    store<std::uint32_t>(body, 4, confirmation.stream.value());
    store<std::uint32_t>(body, 8, confirmation.topic.value());
    store<std::uint32_t>(body, 12, confirmation.partition.value());
    store<std::uint64_t>(body, 16, confirmation.base_offset.value());
    return body;
}

std::array<std::byte, kPollPrefixSize> poll_prefix(const PollPrefix& prefix) noexcept {
    std::array<std::byte, kPollPrefixSize> bytes{};
    store<std::uint32_t>(bytes, 0, prefix.partition.value());
    store<std::uint64_t>(bytes, 4, prefix.current_offset.value());
    store<std::uint32_t>(bytes, 12, prefix.messages_count);
    return bytes;
}

void put_consumer_offset(ByteWriter& to, const ConsumerOffsetReply& reply) {
    to.put<std::uint32_t>(reply.partition.value());
    to.put<std::uint64_t>(reply.current_offset.value());
    to.put<std::uint64_t>(reply.stored_offset.value());
}

void put_group_record(ByteWriter& to, const GroupRecord& group) {
    to.put<std::uint32_t>(group.id.value());
    to.put<std::uint32_t>(group.partitions_count);
    to.put<std::uint32_t>(group.members_count);
    put_name(to, group.name);
}

void put_group_member(ByteWriter& to, model::MemberId member,
                      std::span<const model::PartitionId> partitions) {
    to.put<std::uint32_t>(member.value());
    put_partitions(to, partitions);
}

void put_sync_reply(ByteWriter& to, std::uint64_t generation,
                    std::span<const model::PartitionId> partitions) {
    to.put<std::uint64_t>(generation);
    put_partitions(to, partitions);
}

void put_user_record(ByteWriter& to, const UserRecord& user) {
    to.put<std::uint32_t>(user.id.value());
    to.put<std::uint64_t>(user.created_at.value());
    to.put<std::uint8_t>(static_cast<std::uint8_t>(user.status));
    put_name(to, user.username);
    put_block32(to, user.options);
}

void put_user_details(ByteWriter& to, const UserRecord& user,
                      const model::Permissions* permissions) {
    put_user_record(to, user);
    if (permissions == nullptr) {
        // wire: without permissions four zero bytes stand where flag and length would.
        to.put<std::uint32_t>(0);
        return;
    }
    to.put<std::uint8_t>(1);
    const std::size_t size_at = to.size();
    to.put<std::uint32_t>(0);
    put_permissions(to, *permissions);
    to.patch<std::uint32_t>(size_at, static_cast<std::uint32_t>(to.size() - size_at - 4));
}

void put_token_record(ByteWriter& to, std::string_view name, std::optional<Timestamp> expiry_at) {
    put_name(to, name);
    to.put<std::uint64_t>(expiry_at.value_or(Timestamp{}).value());
}

void put_token_secret(ByteWriter& to, std::string_view token) {
    put_name(to, token);
}

}  // namespace galgo::wire

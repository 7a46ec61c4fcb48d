#include "metadata/detail/records.hpp"

#include <algorithm>
#include <utility>

#include "metadata/read_replies.hpp"
#include "wire/replies.hpp"

namespace galgo::metadata::detail {
namespace {

void put_partition(ByteWriter& to, model::PartitionId id, const Partition& partition) {
    const PartitionCounters counters = partition.stats->load();
    wire::put_partition_record(
        to, {.id = id,
             .created_at = partition.created_at,
             // A partition that has no file yet shows the segment it will begin with.
             .segments_count = std::max<std::uint32_t>(counters.segment_count, 1),
             .current_offset = Offset(counters.offset_current),
             .size_bytes = counters.size_bytes,
             .messages_count = counters.message_count});
}

wire::UserRecord user_record(const User& user) noexcept {
    return {.id = user.id,
            .created_at = user.created_at,
            .status = user.status,
            .username = user.name,
            .options = {}};
}

}  // namespace

void put_stream(ByteWriter& to, const Stream& stream) {
    const Totals totals = totals_of(stream);
    wire::put_stream_record(to, {.id = stream.id,
                                 .created_at = stream.created_at,
                                 .topics_count = totals.topic_count,
                                 .size_bytes = totals.size_bytes,
                                 .messages_count = totals.message_count,
                                 .name = stream.name,
                                 .options = {}});
}

void put_topic(ByteWriter& to, const Topic& topic) {
    const Totals totals = totals_of(topic);
    const model::TopicOptions& values = topic.options.values;
    wire::put_topic_record(to, {.id = topic.id,
                                .created_at = topic.created_at,
                                .partitions_count = topic.partition_count(),
                                .message_expiry_us = values.message_expiry_us,
                                .compression = values.compression,
                                .max_topic_size_bytes = values.max_topic_size_bytes,
                                .size_bytes = totals.size_bytes,
                                .messages_count = totals.message_count,
                                .name = topic.name,
                                .explicit_options = topic.options.explicit_block,
                                .derived_options = topic.options.derived_block});
}

void put_group(ByteWriter& to, const ConsumerGroup& group) {
    wire::put_group_record(to, {.id = group.id,
                                .partitions_count = group.assignment.partition_count(),
                                .members_count = group.assignment.member_count(),
                                .name = group.name});
}

void put_user(ByteWriter& to, const User& user) {
    wire::put_user_record(to, user_record(user));
}

std::vector<std::byte> stream_details(const Stream& stream) {
    ByteWriter to;
    put_stream(to, stream);
    for (const Topic& topic : stream.topics.rows()) {
        put_topic(to, topic);
    }
    return std::move(to).take();
}

std::vector<std::byte> topic_details(const Topic& topic) {
    ByteWriter to;
    put_topic(to, topic);
    for (std::uint32_t i = 0; i < topic.partition_count(); ++i) {
        put_partition(to, model::PartitionId(i), topic.partitions[i]);
    }
    return std::move(to).take();
}

std::vector<std::byte> group_details(const ConsumerGroup& group) {
    ByteWriter to;
    put_group(to, group);
    for (const groups::Member& member : group.assignment.members()) {
        wire::put_group_member(to, member.id, member.partitions);
    }
    return std::move(to).take();
}

std::vector<std::byte> user_details(const User& user) {
    ByteWriter to;
    wire::put_user_details(to, user_record(user),
                           user.permissions.has_value() ? &*user.permissions : nullptr);
    return std::move(to).take();
}

}  // namespace galgo::metadata::detail

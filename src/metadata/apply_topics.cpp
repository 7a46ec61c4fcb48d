// Topics and their partitions: create, update, delete, purge, add and remove partitions.
#include <utility>

#include "metadata/detail/applier.hpp"
#include "metadata/detail/log_bodies.hpp"
#include "metadata/detail/records.hpp"
#include "metadata/detail/topic_blocks.hpp"
#include "wire/requests.hpp"

namespace galgo::metadata {

Result<Applier::Payload> Applier::create_topic() {
    GALGO_TRY_ASSIGN(const auto body, detail::decode_create_topic(prepare_.body));
    GALGO_TRY_ASSIGN(Stream* const stream, stream_target(body.stream, model::Rule::kTopicsManage));
    if (stream->topic_names.find(body.name).has_value()) {
        return fail(ErrorCode::kTopicNameAlreadyExists);
    }
    const model::TopicId id = stream->topics.vacant_id();
    if (id.value() >= model::kTopicCountMax) {
        return fail(ErrorCode::kTooManyTopics);
    }
    if (body.partition_count > model::kPartitionIdMax) {
        return fail(ErrorCode::kPartitionIdSpaceExhausted);
    }
    GALGO_TRY_ASSIGN(auto options,
                     detail::stored_topic_options(body.explicit_block, body.derived_block));
    Topic& topic = stream->topics.insert(Topic{.id = id,
                                               .name = std::string(body.name),
                                               .created_at = prepare_.timestamp,
                                               .options = std::move(options)});
    stream->topic_names.insert(body.name, id);
    changed({.kind = ChangeKind::kTopicCreated, .stream = stream->id, .topic = id});
    append_partitions(*stream, topic, body.partition_count);
    return detail::topic_details(topic);
}

Result<Applier::Payload> Applier::update_topic() {
    GALGO_TRY_ASSIGN(const auto request, wire::UpdateTopicRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicManage));
    const auto [stream, topic] = target;
    const std::optional<model::TopicId> bearer = stream->topic_names.find(request.name);
    if (bearer.has_value() && *bearer != topic->id) {
        return fail(ErrorCode::kTopicNameAlreadyExists);
    }
    GALGO_TRY_ASSIGN(auto options, wire::update_topic_options(topic->options, request.options));
    stream->topic_names.erase(topic->name);
    topic->name = request.name;
    stream->topic_names.insert(request.name, topic->id);
    topic->options = std::move(options);
    changed({.kind = ChangeKind::kTopicUpdated, .stream = stream->id, .topic = topic->id});
    return Payload{};
}

Result<Applier::Payload> Applier::delete_topic() {
    GALGO_TRY_ASSIGN(const auto request, wire::TopicRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicManage));
    drop_contents(*target.stream, *target.topic);
    target.stream->topic_names.erase(target.topic->name);
    target.stream->topics.erase(target.topic->id);
    return Payload{};
}

Result<Applier::Payload> Applier::purge_topic() {
    GALGO_TRY_ASSIGN(const auto request, wire::TopicRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicManage));
    purge_partitions(*target.stream, *target.topic);
    return Payload{};
}

Result<Applier::Payload> Applier::create_partitions() {
    GALGO_TRY_ASSIGN(const auto request, wire::PartitionsRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicManage));
    if (request.partitions_count > model::kPartitionIdMax - target.topic->partition_count()) {
        return fail(ErrorCode::kPartitionIdSpaceExhausted);
    }
    append_partitions(*target.stream, *target.topic, request.partitions_count);
    resize_groups(*target.stream, *target.topic);
    return Payload{};
}

Result<Applier::Payload> Applier::delete_partitions() {
    GALGO_TRY_ASSIGN(const auto request, wire::PartitionsRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicManage));
    if (request.partitions_count > target.topic->partition_count()) {
        return fail(ErrorCode::kInvalidPartitionsCount);
    }
    drop_partitions(*target.stream, *target.topic, request.partitions_count);
    resize_groups(*target.stream, *target.topic);
    return Payload{};
}

void Applier::append_partitions(const Stream& stream, Topic& topic, std::uint32_t count) {
    topic.partitions.reserve(topic.partitions.size() + count);
    for (std::uint32_t i = 0; i < count; ++i) {
        const PartitionKey key = model::pack_partition_key(
            stream.id, topic.id, model::PartitionId(topic.partition_count()));
        topic.partitions.push_back(Partition{.created_at = prepare_.timestamp,
                                             .incarnation = incarnation(),
                                             .stats = registry_.get_or_create(key, incarnation())});
        changed({.kind = ChangeKind::kPartitionCreated,
                 .stream = stream.id,
                 .topic = topic.id,
                 .partition = key,
                 .incarnation = incarnation()});
    }
}

void Applier::drop_partitions(const Stream& stream, Topic& topic, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
        const PartitionKey key = model::pack_partition_key(
            stream.id, topic.id, model::PartitionId(topic.partition_count() - 1));
        const Incarnation before = topic.partitions.back().incarnation;
        registry_.remove(key, before);
        topic.partitions.pop_back();
        changed({.kind = ChangeKind::kPartitionDeleted,
                 .stream = stream.id,
                 .topic = topic.id,
                 .partition = key,
                 .incarnation_before = before});
    }
}

/// A purged partition begins a new life: its line starts from zero in this very operation, whatever
/// the owner still holds of the old one.
void Applier::purge_partitions(const Stream& stream, Topic& topic) {
    for (std::uint32_t id = 0; id < topic.partition_count(); ++id) {
        Partition& partition = topic.partitions[id];
        const PartitionKey key =
            model::pack_partition_key(stream.id, topic.id, model::PartitionId(id));
        const Incarnation before = partition.incarnation;
        registry_.remove(key, before);
        partition.incarnation = incarnation();
        partition.stats = registry_.get_or_create(key, incarnation());
        changed({.kind = ChangeKind::kPartitionPurged,
                 .stream = stream.id,
                 .topic = topic.id,
                 .partition = key,
                 .incarnation_before = before,
                 .incarnation = incarnation()});
    }
}

void Applier::drop_contents(const Stream& stream, Topic& topic) {
    for (const auto& [id, group] : topic.groups) {
        const GroupAddress address{.stream = stream.id, .topic = topic.id, .group = id};
        forget_members(address, group);
        changed({.kind = ChangeKind::kGroupDeleted,
                 .stream = stream.id,
                 .topic = topic.id,
                 .group = id});
    }
    drop_partitions(stream, topic, topic.partition_count());
    changed({.kind = ChangeKind::kTopicDeleted, .stream = stream.id, .topic = topic.id});
}

void Applier::resize_groups(const Stream& stream, Topic& topic) {
    for (auto& [id, group] : topic.groups) {
        if (group.assignment.set_partition_count(topic.partition_count())) {
            changed({.kind = ChangeKind::kGroupChanged,
                     .stream = stream.id,
                     .topic = topic.id,
                     .group = id});
        }
    }
}

}  // namespace galgo::metadata

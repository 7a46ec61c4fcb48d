#include "shard/handlers/partition_target.hpp"

#include "crypto/hash.hpp"

namespace galgo::shard {

namespace {

/// wire: a consumer's name stands for XXH32 (seed 0) of its bytes.
std::uint32_t consumer_id(const wire::Identifier& id) noexcept {
    return id.is_numeric() ? id.number() : crypto::xxh32(as_bytes(id.name()));
}

}  // namespace

Result<PartitionTarget> resolve_partition(const metadata::State& state, const Session& session,
                                          const wire::ConsumerRef& consumer,
                                          const wire::Identifier& stream_id,
                                          const wire::Identifier& topic_id,
                                          std::optional<model::PartitionId> partition) {
    const metadata::Stream* stream = state.find_stream(stream_id);
    if (stream == nullptr) {
        return fail(ErrorCode::kStreamIdNotFound);
    }
    const metadata::Topic* topic = stream->find_topic(topic_id);
    if (topic == nullptr) {
        return fail(ErrorCode::kTopicIdNotFound);
    }
    const model::PartitionId wanted = partition.value_or(model::PartitionId{0});
    const metadata::Partition* row = topic->find_partition(wanted);
    if (row == nullptr) {
        return fail(ErrorCode::kPartitionNotFound);
    }
    if (!state.allows(session.user, model::Rule::kTopicPoll, stream->id, topic->id)) {
        return fail(ErrorCode::kUnauthorized);
    }
    PartitionTarget target{.ref = {.key = model::pack_partition_key(stream->id, topic->id, wanted),
                                   .incarnation = row->incarnation},
                           .partition = wanted,
                           .consumer = {.kind = consumer.kind}};
    if (consumer.kind == wire::ConsumerKind::kConsumer) {
        target.consumer.id = consumer_id(consumer.id);
        return target;
    }
    const metadata::ConsumerGroup* group = topic->find_group(consumer.id);
    if (group == nullptr) {
        return fail(ErrorCode::kConsumerGroupIdNotFound);
    }
    target.consumer.id = group->id.value();
    target.fence = GroupFence{.group = group->id, .client = session.client};
    target.owned = group->assignment.owns(session.client, wanted);
    return target;
}

}  // namespace galgo::shard

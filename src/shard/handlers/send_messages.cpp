// send_messages: from a frame to a confirmed offset. The batch is checked completely here, on the
// connection's shard, so that the owner appends bytes it can trust; the body's buffer travels on as
// it is.
#include "crypto/hash.hpp"
#include "shard/handlers/handlers.hpp"
#include "shard/hash_steps.hpp"
#include "wire/batch.hpp"
#include "wire/message_requests.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

struct Target {
    model::StreamId stream;
    model::TopicId topic;
    model::PartitionId partition;
    PartitionRef ref;
};

Result<Target> resolve(const metadata::State& state, model::UserId user,
                       const wire::SendMessagesRequest& request) {
    const metadata::Stream* stream = state.find_stream(request.stream);
    const metadata::Topic* topic = stream == nullptr ? nullptr : stream->find_topic(request.topic);
    if (topic == nullptr) {
        return fail(ErrorCode::kResourceNotFound);
    }
    if (!state.allows(user, model::Rule::kTopicSend, stream->id, topic->id)) {
        return fail(ErrorCode::kUnauthorized);
    }
    const std::uint32_t count = topic->partition_count();
    if (count == 0) {
        return fail(ErrorCode::kResourceNotFound);
    }
    model::PartitionId partition;
    switch (request.partitioning.kind) {
        case wire::PartitioningKind::kBalanced:
            // In turn within the topic, over all shards: the counter lives with its first
            // partition. One for several topics would leave out partitions of each when their sends
            // alternate.
            partition = model::PartitionId{topic->partitions.front().stats->next_turn() % count};
            break;
        case wire::PartitioningKind::kPartition:
            partition = request.partitioning.partition;
            break;
        case wire::PartitioningKind::kKey:
            partition = model::PartitionId{crypto::xxh32(request.partitioning.key) % count};
            break;
    }
    const metadata::Partition* row = topic->find_partition(partition);
    if (row == nullptr) {
        return fail(ErrorCode::kResourceNotFound);
    }
    return Target{.stream = stream->id,
                  .topic = topic->id,
                  .partition = partition,
                  .ref = {.key = model::pack_partition_key(stream->id, topic->id, partition),
                          .incarnation = row->incarnation}};
}

}  // namespace

Task<void> handle_send_messages(Services& services, Session& session, net::Frame& frame,
                                net::Reply& reply) {
    const Result<wire::SendMessagesRequest> request =
        wire::SendMessagesRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        co_return;
    }
    Result<wire::BatchValidator> validator = wire::BatchValidator::begin(request->batch);
    if (!validator.has_value()) {
        reply.set_status(frame.header, validator.error().code);
        co_return;
    }
    if (validator->header().message_count != request->messages_count) {
        reply.set_status(frame.header, ErrorCode::kInvalidCommand);
        co_return;
    }
    for (;;) {
        const Result<bool> done = validator->step(kHashStepBytes);
        if (!done.has_value()) {
            reply.set_status(frame.header, done.error().code);
            co_return;
        }
        if (*done) {
            break;
        }
        co_await coro::yield_to(services.loop.ready());
    }
    const Result<Target> target = resolve(services.metadata.state(), session.user, *request);
    if (!target.has_value()) {
        reply.set_status(frame.header, target.error().code);
        co_return;
    }
    if (!services.disk_room.take(request->batch.size())) {
        reply.set_status(frame.header, ErrorCode::kCannotAppendMessage);
        co_return;
    }
    const std::uint32_t count = request->messages_count;
    const std::size_t position = request->batch_position;
    const std::size_t size = request->batch.size();
    const Result<Offset> base = co_await services.router.append(
        target->ref, {.batch = std::move(frame.body).slice(position, size),
                      .message_count = count,
                      .producer = {.session = session.epoch, .request = frame.header.request}});
    if (!base.has_value()) {
        reply.set_status(frame.header, base.error().code);
        co_return;
    }
    reply.start_frame(frame.header);
    reply.append(wire::send_confirmation_body({.stream = target->stream,
                                               .topic = target->topic,
                                               .partition = target->partition,
                                               .base_offset = *base}));
}

}  // namespace galgo::shard

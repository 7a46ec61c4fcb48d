// poll_messages: resolve, ask the partition's owner, send header, prefix and record slices as they
// are.
#include "shard/handlers/handlers.hpp"
#include "shard/handlers/partition_target.hpp"
#include "wire/message_requests.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

void fill_prefix(const net::Frame& frame, const wire::PollPrefix& prefix, net::Reply& reply) {
    reply.start_frame(frame.header);
    reply.append(wire::poll_prefix(prefix));
}

/// An empty reply that tells a group member to synchronise its assignment.
void fill_stale(const net::Frame& frame, net::Reply& reply) {
    fill_prefix(frame, {.partition = wire::kStaleAssignmentPartition}, reply);
}

}  // namespace

Task<void> handle_poll_messages(Services& services, Session& session, net::Frame& frame,
                                net::Reply& reply) {
    const Result<wire::PollMessagesRequest> request =
        wire::PollMessagesRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        co_return;
    }
    const Result<PartitionTarget> target =
        resolve_partition(services.metadata.state(), session, request->consumer, request->stream,
                          request->topic, request->partition);
    if (!target.has_value()) {
        reply.set_status(frame.header, target.error().code);
        co_return;
    }
    if (!target->owned) {
        fill_stale(frame, reply);
        co_return;
    }
    Result<partitions::PollResult> result = co_await services.router.poll(
        target->ref,
        {.consumer = target->consumer,
         .strategy = request->strategy,
         .count = request->count,
         .bytes_max = services.node.frame_bytes_max - wire::kHeaderSize - wire::kPollPrefixSize,
         .auto_commit = request->auto_commit},
        target->fence);
    if (!result.has_value()) {
        if (result.error().code == ErrorCode::kConsumerGroupPartitionNotOwned) {
            fill_stale(frame, reply);
        } else {
            reply.set_status(frame.header, result.error().code);
        }
        co_return;
    }
    fill_prefix(frame,
                {.partition = target->partition,
                 .current_offset = result->current_offset,
                 .messages_count = result->read.message_count},
                reply);
    for (memory::BufRef& slice : result->read.slices) {
        reply.slices.push_back(std::move(slice));
    }
}

}  // namespace galgo::shard

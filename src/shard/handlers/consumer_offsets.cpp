// Stored offsets of consumers and groups: get, store, delete. Offset writes of group members are
// fenced by ownership of the partition; reads are open to everybody who may poll.
#include "shard/handlers/handlers.hpp"
#include "shard/handlers/partition_target.hpp"
#include "wire/message_requests.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

Result<PartitionTarget> resolve(const Services& services, const Session& session,
                                const wire::GetConsumerOffsetRequest& request) {
    return resolve_partition(services.metadata.state(), session, request.consumer, request.stream,
                             request.topic, request.partition);
}

/// wire: what a write cannot resolve is 20; only 41 keeps its name.
ErrorCode write_error(ErrorCode code) noexcept {
    return code == ErrorCode::kUnauthorized ? code : ErrorCode::kResourceNotFound;
}

/// Carries out a store or delete and fills the reply.
Task<void> write_offset(Services& services, Session& session, net::Frame& frame,
                        const wire::GetConsumerOffsetRequest& where, OffsetAction action,
                        Offset offset, net::Reply& reply) {
    const Result<PartitionTarget> target = resolve(services, session, where);
    if (!target.has_value()) {
        reply.set_status(frame.header, write_error(target.error().code));
        co_return;
    }
    if (!target->owned) {
        reply.set_status(frame.header, ErrorCode::kResourceNotFound);
        co_return;
    }
    const Result<std::optional<partitions::StoredOffset>> done =
        co_await services.router.offset({.partition = target->ref,
                                         .action = action,
                                         .consumer = target->consumer,
                                         .offset = offset,
                                         .fence = target->fence});
    if (!done.has_value()) {
        reply.set_status(frame.header, done.error().code);
        co_return;
    }
    reply.start_frame(frame.header);
    reply.append(wire::kResultOk);
}

}  // namespace

Task<void> handle_get_consumer_offset(Services& services, Session& session, net::Frame& frame,
                                      net::Reply& reply) {
    const Result<wire::GetConsumerOffsetRequest> request =
        wire::GetConsumerOffsetRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        co_return;
    }
    const Result<PartitionTarget> target = resolve(services, session, *request);
    if (!target.has_value()) {
        // wire: an unknown partition is an error, an unknown stream, topic or group stored nothing.
        const ErrorCode code = target.error().code;
        if (code == ErrorCode::kPartitionNotFound || code == ErrorCode::kUnauthorized) {
            reply.set_status(frame.header, code);
        } else {
            reply.start_frame(frame.header);
        }
        co_return;
    }
    const Result<std::optional<partitions::StoredOffset>> found = co_await services.router.offset(
        {.partition = target->ref, .action = OffsetAction::kGet, .consumer = target->consumer});
    if (!found.has_value()) {
        reply.set_status(frame.header, found.error().code);
        co_return;
    }
    reply.start_frame(frame.header);
    if (found->has_value()) {
        ByteWriter body;
        wire::put_consumer_offset(body, {.partition = target->partition,
                                         .current_offset = (*found)->current,
                                         .stored_offset = (*found)->stored});
        reply.append(body.bytes());
    }
}

Task<void> handle_store_consumer_offset(Services& services, Session& session, net::Frame& frame,
                                        net::Reply& reply) {
    const Result<wire::StoreConsumerOffsetRequest> request =
        wire::StoreConsumerOffsetRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        co_return;
    }
    co_await write_offset(services, session, frame, request->target, OffsetAction::kStore,
                          request->offset, reply);
}

Task<void> handle_delete_consumer_offset(Services& services, Session& session, net::Frame& frame,
                                         net::Reply& reply) {
    const Result<wire::DeleteConsumerOffsetRequest> request =
        wire::DeleteConsumerOffsetRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        co_return;
    }
    co_await write_offset(services, session, frame, request->target, OffsetAction::kDelete,
                          Offset{}, reply);
}

}  // namespace galgo::shard

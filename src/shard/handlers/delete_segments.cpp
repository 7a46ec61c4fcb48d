// delete_segments: the oldest sealed segments of one partition go. A partition operation with the
// shape of a metadata one: no entry of the metadata log, so the same request is not recognised when
// it comes again.
#include "shard/handlers/handlers.hpp"
#include "wire/replies.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

Result<PartitionRef> resolve(const metadata::State& state, model::UserId user,
                             const wire::DeleteSegmentsRequest& request) {
    const metadata::Stream* stream = state.find_stream(request.stream);
    if (stream == nullptr) {
        return fail(ErrorCode::kStreamIdNotFound);
    }
    const metadata::Topic* topic = stream->find_topic(request.topic);
    if (topic == nullptr) {
        return fail(ErrorCode::kTopicIdNotFound);
    }
    if (!state.allows(user, model::Rule::kTopicManage, stream->id, topic->id)) {
        return fail(ErrorCode::kUnauthorized);
    }
    const metadata::Partition* row = topic->find_partition(request.partition);
    if (row == nullptr) {
        return fail(ErrorCode::kPartitionNotFound);
    }
    return PartitionRef{.key = model::pack_partition_key(stream->id, topic->id, request.partition),
                        .incarnation = row->incarnation};
}

}  // namespace

Task<void> handle_delete_segments(Services& services, Session& session, net::Frame& frame,
                                  net::Reply& reply) {
    const Result<wire::DeleteSegmentsRequest> request =
        wire::DeleteSegmentsRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        co_return;
    }
    const Result<PartitionRef> partition =
        resolve(services.metadata.state(), session.user, *request);
    Status done;
    if (partition.has_value()) {
        done = co_await services.router.delete_segments(*partition, request->segments_count);
    } else {
        done = std::unexpected(partition.error());
    }
    reply.start_frame(frame.header);
    // wire: under its own operation the clients look for no result in the body.
    reply.header.operation = wire::Operation::kTruncatePartition;
    if (done.has_value()) {
        reply.append(wire::kResultOk);
    } else {
        reply.append(wire::rejection_body(done.error().code));
    }
}

}  // namespace galgo::shard

// Every operation of the metadata log, as the client sent it: the plane on shard 0 decodes, admits
// and applies it. What may be refused is decided there, in log order.
#include "shard/handlers/handlers.hpp"

namespace galgo::shard {

using coro::Task;

Task<void> handle_metadata_write(Services& services, Session& session, net::Frame& frame,
                                 net::Reply& reply) {
    const wire::RequestHeader& header = frame.header;
    const MetadataReply result = co_await services.router.metadata({
        .operation = header.operation,
        .client = session.client,
        .session = session.epoch,
        .request = header.request,
        .request_checksum = header.request_checksum,
        .user = session.user,
        .body = std::move(frame.body),
    });
    if (result.drop) {
        reply.clear();
        co_return;
    }
    if (result.eviction.has_value()) {
        reply.set_eviction(header.client, *result.eviction);
        co_return;
    }
    reply.start_frame(header);
    reply.header.status = result.status;
    reply.header.op = result.op.value();
    reply.header.commit = result.commit.value();
    reply.append(result.body);
}

}  // namespace galgo::shard

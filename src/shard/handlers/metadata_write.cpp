// Every operation of the metadata log that goes there as the client sent it: the plane on shard 0
// decodes, admits and applies it. What may be refused is decided there, in log order.
#include "shard/handlers/metadata_write.hpp"

#include "shard/handlers/handlers.hpp"

namespace galgo::shard {

using coro::Task;

MetadataCommand metadata_command(const Session& session, net::Frame& frame) {
    const wire::RequestHeader& header = frame.header;
    return {
        .operation = header.operation,
        .client = session.client,
        .session = session.epoch,
        .request = header.request,
        .request_checksum = header.request_checksum,
        .user = session.user,
        .body = std::move(frame.body),
    };
}

void fill_metadata_reply(const wire::RequestHeader& header, const MetadataReply& result,
                         net::Reply& reply) {
    if (result.drop) {
        reply.clear();
        return;
    }
    if (result.eviction.has_value()) {
        reply.set_eviction(header.client, *result.eviction);
        return;
    }
    reply.start_frame(header);
    reply.header.status = result.status;
    reply.header.op = result.op.value();
    reply.header.commit = result.commit.value();
    reply.append(result.body);
}

Task<void> handle_metadata_write(Services& services, Session& session, net::Frame& frame,
                                 net::Reply& reply) {
    const MetadataReply result =
        co_await services.router.metadata(metadata_command(session, frame));
    fill_metadata_reply(frame.header, result, reply);
}

}  // namespace galgo::shard

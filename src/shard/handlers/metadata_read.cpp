// Reads that the published metadata of this shard answers: streams, topics, groups, users, tokens.
#include "metadata/read_replies.hpp"
#include "shard/handlers/handlers.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

void fill(const Services& services, const net::Frame& frame,
          const Result<metadata::ReplyBody>& body, net::Reply& reply) {
    if (!body.has_value()) {
        reply.set_status(frame.header, body.error().code);
        return;
    }
    reply.start_frame(frame.header);
    reply.header.commit = services.metadata.state().op().value();
    reply.append(*body);
}

/// Decodes the body as Request and answers with what `read(state, request)` gives.
template <class Request, class Read>
void answer(const Services& services, const net::Frame& frame, net::Reply& reply, Read read) {
    const Result<Request> request = Request::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        return;
    }
    fill(services, frame, read(services.metadata.state(), *request), reply);
}

}  // namespace

Task<void> handle_get_stream(Services& services, Session& session, net::Frame& frame,
                             net::Reply& reply) {
    answer<wire::StreamRequest>(
        services, frame, reply,
        [&](const metadata::State& state, const wire::StreamRequest& request) {
            return metadata::get_stream_reply(state, session.user, request.stream);
        });
    co_return;
}

Task<void> handle_get_streams(Services& services, Session& session, net::Frame& frame,
                              net::Reply& reply) {
    fill(services, frame, metadata::get_streams_reply(services.metadata.state(), session.user),
         reply);
    co_return;
}

Task<void> handle_get_topic(Services& services, Session& session, net::Frame& frame,
                            net::Reply& reply) {
    answer<wire::TopicRequest>(
        services, frame, reply,
        [&](const metadata::State& state, const wire::TopicRequest& request) {
            return metadata::get_topic_reply(state, session.user, request.stream, request.topic);
        });
    co_return;
}

Task<void> handle_get_topics(Services& services, Session& session, net::Frame& frame,
                             net::Reply& reply) {
    answer<wire::StreamRequest>(
        services, frame, reply,
        [&](const metadata::State& state, const wire::StreamRequest& request) {
            return metadata::get_topics_reply(state, session.user, request.stream);
        });
    co_return;
}

Task<void> handle_get_group(Services& services, Session& session, net::Frame& frame,
                            net::Reply& reply) {
    answer<wire::GroupRequest>(
        services, frame, reply,
        [&](const metadata::State& state, const wire::GroupRequest& request) {
            return metadata::get_group_reply(state, session.user, request.stream, request.topic,
                                             request.group);
        });
    co_return;
}

Task<void> handle_get_groups(Services& services, Session& session, net::Frame& frame,
                             net::Reply& reply) {
    answer<wire::TopicRequest>(
        services, frame, reply,
        [&](const metadata::State& state, const wire::TopicRequest& request) {
            return metadata::get_groups_reply(state, session.user, request.stream, request.topic);
        });
    co_return;
}

Task<void> handle_get_user(Services& services, Session& session, net::Frame& frame,
                           net::Reply& reply) {
    answer<wire::UserRequest>(services, frame, reply,
                              [&](const metadata::State& state, const wire::UserRequest& request) {
                                  return metadata::get_user_reply(state, session.user,
                                                                  request.user);
                              });
    co_return;
}

Task<void> handle_get_users(Services& services, Session& session, net::Frame& frame,
                            net::Reply& reply) {
    fill(services, frame, metadata::get_users_reply(services.metadata.state(), session.user),
         reply);
    co_return;
}

Task<void> handle_get_tokens(Services& services, Session& session, net::Frame& frame,
                             net::Reply& reply) {
    fill(services, frame, metadata::get_tokens_reply(services.metadata.state(), session.user),
         reply);
    co_return;
}

Task<void> handle_sync_group(Services& services, Session& session, net::Frame& frame,
                             net::Reply& reply) {
    // What does not decode names no group: empty, like every other "not a member".
    const Result<wire::GroupRequest> request = wire::GroupRequest::decode(frame.body.bytes());
    reply.start_frame(frame.header);
    if (request.has_value()) {
        reply.append(metadata::sync_group_reply(services.metadata.state(), session.client,
                                                request->stream, request->topic, request->group));
    }
    co_return;
}

}  // namespace galgo::shard

// Commands about the node itself: ping, statistics, cluster metadata, the option catalogue, the
// caller.
#include "metadata/read_replies.hpp"
#include "shard/handlers/handlers.hpp"
#include "wire/replies.hpp"
#include "wire/requests.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::shard {

using coro::Task;

Task<void> handle_ping(Services&, Session&, net::Frame& frame, net::Reply& reply) {
    reply.start_frame(frame.header);
    co_return;
}

Task<void> handle_get_stats(Services& services, Session& session, net::Frame& frame,
                            net::Reply& reply) {
    if (!services.metadata.state().allows(session.user, model::Rule::kServerRead)) {
        reply.set_status(frame.header, ErrorCode::kUnauthorized);
        co_return;
    }
    SystemStats stats;
    const Result<bool> read = co_await runtime::offload(services.offload, [&services, &stats] {
        services.read_system_stats(services.node, stats);
        return true;
    });
    if (!read.has_value()) {
        reply.set_status(frame.header, read.error().code);
        co_return;
    }
    const metadata::Totals totals = metadata::totals_of(services.metadata.state());
    wire::StatsReply& out = stats.reply;
    out.messages_size_bytes = totals.size_bytes;
    out.streams_count = totals.stream_count;
    out.topics_count = totals.topic_count;
    out.partitions_count = totals.partition_count;
    out.segments_count = static_cast<std::uint32_t>(totals.segment_count);
    out.messages_count = totals.message_count;
    out.clients_count = services.node.client_count.load(std::memory_order_relaxed);
    out.consumer_groups_count = totals.group_count;
    out.start_time_us = services.node.started_at.value();
    out.run_time_us = services.loop.wall_now().value() - services.node.started_at.value();
    out.hostname = stats.hostname;
    out.os_name = stats.os_name;
    out.os_version = stats.os_version;
    out.kernel_version = stats.kernel_version;
    out.server_version = services.node.server_version;
    ByteWriter body;
    wire::put_stats(body, out);
    reply.start_frame(frame.header);
    reply.append(body.bytes());
}

Task<void> handle_get_cluster_metadata(Services& services, Session&, net::Frame& frame,
                                       net::Reply& reply) {
    const NodeFacts& node = services.node;
    const wire::ClusterNode self{.name = node.node_name,
                                 .ip = node.ip,
                                 .tcp_port = node.tcp_port,
                                 .quic_port = node.quic_port,
                                 .http_port = node.http_port,
                                 .websocket_port = node.websocket_port};
    ByteWriter body;
    wire::put_cluster_metadata(body, node.cluster_name, {&self, 1});
    reply.start_frame(frame.header);
    reply.append(body.bytes());
    co_return;
}

Task<void> handle_describe_options(Services&, Session&, net::Frame& frame, net::Reply& reply) {
    const Result<wire::DescribeOptionsRequest> request =
        wire::DescribeOptionsRequest::decode(frame.body.bytes());
    if (!request.has_value()) {
        reply.set_status(frame.header, request.error().code);
        co_return;
    }
    ByteWriter body;
    if (request->scope == wire::OptionScope::kTopic) {
        wire::put_option_catalogue(body, wire::describe_topic_options());
    } else {
        wire::put_option_catalogue(body, {});
    }
    reply.start_frame(frame.header);
    reply.append(body.bytes());
}

Task<void> handle_get_me(Services& services, Session& session, net::Frame& frame,
                         net::Reply& reply) {
    std::vector<wire::ClientGroup> groups;
    if (const auto* memberships = services.metadata.state().memberships_of(session.client)) {
        for (const metadata::GroupAddress& address : *memberships) {
            groups.push_back(
                {.stream = address.stream, .topic = address.topic, .group = address.group});
        }
    }
    ByteWriter body;
    wire::put_client_details(body,
                             {.connection = session.facts.id,
                              .user = session.user,
                              .transport = static_cast<wire::Transport>(session.facts.transport),
                              .address = session.facts.peer},
                             groups);
    reply.start_frame(frame.header);
    reply.append(body.bytes());
    co_return;
}

}  // namespace galgo::shard

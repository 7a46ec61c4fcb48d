#include "shard/dispatch.hpp"

#include <algorithm>
#include <array>

#include "base/units.hpp"
#include "shard/handlers/handlers.hpp"
#include "shard/hash_steps.hpp"
#include "wire/command_table.hpp"

namespace galgo::shard {

using coro::Task;
using wire::CommandCode;
using wire::EvictionReason;
using wire::Operation;

namespace {

struct ReadRow {
    CommandCode code;
    Handler handler;
};

/// Commands that travel as operation 2. What is known to the protocol and missing here answers
/// status 5.
constexpr std::array kReadHandlers{
    ReadRow{CommandCode::kPing, handle_ping},
    ReadRow{CommandCode::kGetStats, handle_get_stats},
    ReadRow{CommandCode::kGetClusterMetadata, handle_get_cluster_metadata},
    ReadRow{CommandCode::kDescribeOptions, handle_describe_options},
    ReadRow{CommandCode::kGetMe, handle_get_me},
    ReadRow{CommandCode::kGetUser, handle_get_user},
    ReadRow{CommandCode::kGetUsers, handle_get_users},
    ReadRow{CommandCode::kGetPersonalAccessTokens, handle_get_tokens},
    ReadRow{CommandCode::kPollMessages, handle_poll_messages},
    ReadRow{CommandCode::kGetConsumerOffset, handle_get_consumer_offset},
    ReadRow{CommandCode::kGetStream, handle_get_stream},
    ReadRow{CommandCode::kGetStreams, handle_get_streams},
    ReadRow{CommandCode::kGetTopic, handle_get_topic},
    ReadRow{CommandCode::kGetTopics, handle_get_topics},
    ReadRow{CommandCode::kGetConsumerGroup, handle_get_group},
    ReadRow{CommandCode::kGetConsumerGroups, handle_get_groups},
    ReadRow{CommandCode::kSyncConsumerGroup, handle_sync_group},
};

Handler find_read_handler(CommandCode code) noexcept {
    const auto found = std::ranges::find(kReadHandlers, code, &ReadRow::code);
    return found == kReadHandlers.end() ? nullptr : found->handler;
}

/// Operations that go through a log. Null: known, not served in this version.
Handler find_write_handler(Operation operation) noexcept {
    switch (operation) {
        case Operation::kSendMessages:
            return handle_send_messages;
        case Operation::kStoreConsumerOffset:
            return handle_store_consumer_offset;
        case Operation::kDeleteConsumerOffset:
            return handle_delete_consumer_offset;
        case Operation::kDeleteSegments:
            return handle_delete_segments;
        case Operation::kCreateStream:
        case Operation::kUpdateStream:
        case Operation::kDeleteStream:
        case Operation::kPurgeStream:
        case Operation::kCreateTopic:
        case Operation::kUpdateTopic:
        case Operation::kDeleteTopic:
        case Operation::kPurgeTopic:
        case Operation::kCreatePartitions:
        case Operation::kDeletePartitions:
        case Operation::kCreateConsumerGroup:
        case Operation::kDeleteConsumerGroup:
        case Operation::kJoinConsumerGroup:
        case Operation::kLeaveConsumerGroup:
        case Operation::kUpdateUser:
        case Operation::kDeleteUser:
        case Operation::kUpdatePermissions:
        case Operation::kDeletePersonalAccessToken:
            return handle_metadata_write;
        case Operation::kCreateUser:
            return handle_create_user;
        case Operation::kChangePassword:
            return handle_change_password;
        case Operation::kCreatePersonalAccessToken:
            return handle_create_token;
        default:
            return nullptr;
    }
}

/// Pauses of on_closed() between two attempts to end a session.
constexpr std::uint64_t kEndSessionPauseMinNs = 20 * kMillisecond;
constexpr std::uint64_t kEndSessionPauseMaxNs = 500 * kMillisecond;

bool is_legacy_login(const wire::RequestHeader& header) noexcept {
    return header.operation == Operation::kNonReplicated &&
           (header.code == CommandCode::kLoginUser ||
            header.code == CommandCode::kLoginWithPersonalAccessToken);
}

}  // namespace

std::unique_ptr<net::ConnectionContext> Dispatcher::on_opened(const net::ConnectionFacts& facts) {
    auto session = std::make_unique<Session>();
    session->facts = facts;
    services_.node.client_count.fetch_add(1, std::memory_order_relaxed);
    return session;
}

Task<void> Dispatcher::on_frame(net::ConnectionContext& context, net::Frame frame,
                                net::Reply& reply) {
    auto& session = static_cast<Session&>(context);
    const wire::RequestHeader& header = frame.header;
    switch (frame.fault) {
        case wire::HeaderFault::kNone:
            break;
        case wire::HeaderFault::kSessionOrRequest:
            reply.set_eviction(header.client, EvictionReason::kInvalidRequestBody);
            co_return;
        default:
            reply.set_eviction(header.client, EvictionReason::kInvalidRequestOperation);
            co_return;
    }
    if (header.request_checksum != 0) {
        const std::uint64_t digest =
            co_await hash_in_steps(services_.loop.ready(), frame.body.bytes());
        if (header.request_checksum != u128{digest}) {
            reply.set_status(header, ErrorCode::kInvalidFormat);
            co_return;
        }
    }
    if (is_legacy_login(header)) {
        reply.set_eviction(header.client, EvictionReason::kMalformedLogin);
        co_return;
    }
    services_.sessions.refresh(session, services_.metadata.state());
    if (session.bound) {
        co_await on_bound_frame(session, frame, reply);
    } else {
        co_await on_anonymous_frame(session, frame, reply);
    }
}

Task<void> Dispatcher::on_anonymous_frame(Session& session, net::Frame& frame, net::Reply& reply) {
    const wire::RequestHeader& header = frame.header;
    switch (header.operation) {
        case Operation::kRegister:
            co_await handle_register(services_, session, frame, reply);
            co_return;
        case Operation::kLogout:
            reply.start_frame(header);
            co_return;
        case Operation::kNonReplicated:
            if (header.code == CommandCode::kPing) {
                reply.start_frame(header);
            } else {
                reply.set_status(header, ErrorCode::kUnauthenticated);
            }
            co_return;
        default:
            reply.set_eviction(header.client, EvictionReason::kNoSession);
            co_return;
    }
}

Task<void> Dispatcher::on_bound_frame(Session& session, net::Frame& frame, net::Reply& reply) {
    const wire::RequestHeader& header = frame.header;
    Handler handler = nullptr;
    switch (header.operation) {
        case Operation::kRegister:
            handler = handle_register;
            break;
        case Operation::kLogout:
            handler = handle_logout;
            break;
        case Operation::kNonReplicated: {
            const wire::CommandRow* row = wire::find_command(header.code);
            if (row == nullptr) {
                reply.set_status(header, ErrorCode::kInvalidCommand);
                co_return;
            }
            handler = find_read_handler(header.code);
            break;
        }
        default:
            handler = find_write_handler(header.operation);
            break;
    }
    if (handler == nullptr) {
        reply.set_status(header, ErrorCode::kFeatureUnavailable);
        co_return;
    }
    co_await handler(services_, session, frame, reply);
}

Task<void> Dispatcher::on_closed(net::ConnectionContext& context) {
    auto& session = static_cast<Session&>(context);
    services_.node.client_count.fetch_sub(1, std::memory_order_relaxed);
    if (!session.bound) {
        co_return;
    }
    const ClientId client = session.client;
    const SessionId epoch = session.epoch;
    services_.sessions.unbind(session);
    // A membership of a dead connection must not survive it, so a metadata shard that is busy, has
    // no room on its disk or has another operation of the client on its way is asked again for as
    // long as it says that this passes (a fenced log does not). At a stop nobody waits: no session
    // survives a start.
    std::uint64_t pause = kEndSessionPauseMinNs;
    while (!services_.stopping) {
        const MetadataReply ended = co_await services_.router.end_session(client, epoch);
        if (ended.status != ErrorCode::kTransientNotAccepted &&
            ended.status != ErrorCode::kTransientNotCommitted) {
            co_return;
        }
        co_await services_.loop.sleep_for(pause);
        pause = std::min(2 * pause, kEndSessionPauseMaxNs);
    }
}

}  // namespace galgo::shard

// The handlers, one for each command or family of commands. All have one shape: decode the body,
// resolve names in the published metadata, authorise, act, fill the reply. A handler looks metadata
// up before it suspends and keeps ids, never references, across the suspension.
#pragma once

#include "coro/task.hpp"
#include "net/connection_sink.hpp"
#include "shard/services.hpp"
#include "shard/session.hpp"

namespace galgo::shard {

using Handler = coro::Task<void> (*)(Services& services, Session& session, net::Frame& frame,
                                     net::Reply& reply);

// login.cpp
coro::Task<void> handle_register(Services& services, Session& session, net::Frame& frame,
                                 net::Reply& reply);
coro::Task<void> handle_logout(Services& services, Session& session, net::Frame& frame,
                               net::Reply& reply);

// send_messages.cpp, poll_messages.cpp, consumer_offsets.cpp, delete_segments.cpp
coro::Task<void> handle_send_messages(Services& services, Session& session, net::Frame& frame,
                                      net::Reply& reply);
coro::Task<void> handle_poll_messages(Services& services, Session& session, net::Frame& frame,
                                      net::Reply& reply);
coro::Task<void> handle_get_consumer_offset(Services& services, Session& session, net::Frame& frame,
                                            net::Reply& reply);
coro::Task<void> handle_store_consumer_offset(Services& services, Session& session,
                                              net::Frame& frame, net::Reply& reply);
coro::Task<void> handle_delete_consumer_offset(Services& services, Session& session,
                                               net::Frame& frame, net::Reply& reply);

coro::Task<void> handle_delete_segments(Services& services, Session& session, net::Frame& frame,
                                        net::Reply& reply);

// metadata_write.cpp: every operation of the metadata log but those below
coro::Task<void> handle_metadata_write(Services& services, Session& session, net::Frame& frame,
                                       net::Reply& reply);

// users.cpp, tokens.cpp: operations whose body carries a secret
coro::Task<void> handle_create_user(Services& services, Session& session, net::Frame& frame,
                                    net::Reply& reply);
coro::Task<void> handle_change_password(Services& services, Session& session, net::Frame& frame,
                                        net::Reply& reply);
coro::Task<void> handle_create_token(Services& services, Session& session, net::Frame& frame,
                                     net::Reply& reply);

// metadata_read.cpp
coro::Task<void> handle_get_stream(Services& services, Session& session, net::Frame& frame,
                                   net::Reply& reply);
coro::Task<void> handle_get_streams(Services& services, Session& session, net::Frame& frame,
                                    net::Reply& reply);
coro::Task<void> handle_get_topic(Services& services, Session& session, net::Frame& frame,
                                  net::Reply& reply);
coro::Task<void> handle_get_topics(Services& services, Session& session, net::Frame& frame,
                                   net::Reply& reply);
coro::Task<void> handle_get_group(Services& services, Session& session, net::Frame& frame,
                                  net::Reply& reply);
coro::Task<void> handle_get_groups(Services& services, Session& session, net::Frame& frame,
                                   net::Reply& reply);
coro::Task<void> handle_get_user(Services& services, Session& session, net::Frame& frame,
                                 net::Reply& reply);
coro::Task<void> handle_get_users(Services& services, Session& session, net::Frame& frame,
                                  net::Reply& reply);
coro::Task<void> handle_get_tokens(Services& services, Session& session, net::Frame& frame,
                                   net::Reply& reply);
coro::Task<void> handle_sync_group(Services& services, Session& session, net::Frame& frame,
                                   net::Reply& reply);

// system.cpp
coro::Task<void> handle_ping(Services& services, Session& session, net::Frame& frame,
                             net::Reply& reply);
coro::Task<void> handle_get_stats(Services& services, Session& session, net::Frame& frame,
                                  net::Reply& reply);
coro::Task<void> handle_get_cluster_metadata(Services& services, Session& session,
                                             net::Frame& frame, net::Reply& reply);
coro::Task<void> handle_describe_options(Services& services, Session& session, net::Frame& frame,
                                         net::Reply& reply);
coro::Task<void> handle_get_me(Services& services, Session& session, net::Frame& frame,
                               net::Reply& reply);

}  // namespace galgo::shard

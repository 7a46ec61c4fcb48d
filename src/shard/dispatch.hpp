// Dispatcher: takes complete frames from the transports, passes the gates (header, stamp, login)
// and calls the handler of the command. The table from command to handler is in dispatch.cpp.
#pragma once

#include <memory>

#include "net/connection_sink.hpp"
#include "shard/services.hpp"
#include "shard/session.hpp"

namespace galgo::shard {

class Dispatcher final : public net::ConnectionSink {
 public:
    explicit Dispatcher(Services& services) noexcept : services_(services) {}

    std::unique_ptr<net::ConnectionContext> on_opened(const net::ConnectionFacts& facts) override;
    coro::Task<void> on_frame(net::ConnectionContext& context, net::Frame frame,
                              net::Reply& reply) override;
    coro::Task<void> on_closed(net::ConnectionContext& context) override;

 private:
    coro::Task<void> on_anonymous_frame(Session& session, net::Frame& frame, net::Reply& reply);
    coro::Task<void> on_bound_frame(Session& session, net::Frame& frame, net::Reply& reply);

    Services& services_;
};

}  // namespace galgo::shard

// The two halves of every metadata operation at the edge: what goes to the log, and what comes back
// from it. Between them a handler may add what it made of a secret.
#pragma once

#include "net/connection_sink.hpp"
#include "shard/message.hpp"
#include "shard/session.hpp"

namespace galgo::shard {

/// The client's operation with its body, which is moved out of `frame`.
[[nodiscard]] MetadataCommand metadata_command(const Session& session, net::Frame& frame);
/// Turns the answer of the metadata plane into the client's reply.
void fill_metadata_reply(const wire::RequestHeader& header, const MetadataReply& result,
                         net::Reply& reply);

}  // namespace galgo::shard

// What crosses from one shard to another. A client's request costs one message to the shard that
// serves it and one back; both are closed variants of owned values. Commands that expect an answer
// carry the ticket of the waiting coroutine on the asking shard.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "memory/buffer.hpp"
#include "metadata/operation.hpp"
#include "model/ids.hpp"
#include "net/connection_sink.hpp"
#include "partitions/types.hpp"
#include "runtime/io.hpp"
#include "runtime/mesh.hpp"
#include "runtime/shard_portable.hpp"
#include "runtime/ticket.hpp"
#include "wire/codes.hpp"

namespace galgo::shard {

/// Names one life of a partition: the owner refuses when it is no longer (or not yet) that one.
struct PartitionRef {
    static constexpr bool kShardPortable = true;
    PartitionKey key;
    Incarnation incarnation;
};

struct AppendCommand {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    PartitionRef partition;
    partitions::AppendRequest request;
};

/// Proof that a group member may touch a partition; checked by the owner against its own metadata.
struct GroupFence {
    static constexpr bool kShardPortable = true;
    model::GroupId group;
    ClientId client;
};

struct PollQuery {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    PartitionRef partition;
    partitions::PollRequest request;
    std::optional<GroupFence> fence;
};

enum class OffsetAction : std::uint8_t { kGet, kStore, kDelete };

struct OffsetCommand {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    PartitionRef partition;
    OffsetAction action = OffsetAction::kGet;
    partitions::ConsumerKey consumer;
    Offset offset;  ///< kStore
    std::optional<GroupFence> fence;
};

/// The oldest sealed segments of a partition go.
struct DeleteSegmentsCommand {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    PartitionRef partition;
    std::uint32_t count = 0;
};

/// A client's metadata operation, for the log on shard 0. `body` is as the client sent it.
struct MetadataCommand {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    wire::Operation operation = wire::Operation::kNone;
    ClientId client;
    SessionId session;
    RequestNumber request;
    u128 request_checksum = 0;
    model::UserId user;
    memory::BufRef body;
    /// What its handler made of a password or token in the body.
    std::optional<metadata::Sealed> sealed{};
};

/// Credentials were verified: give `client` a session.
struct RegisterCommand {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    ClientId client;
    metadata::Login login;
};

/// Ends a session: logout, or a lost connection.
struct EndSessionCommand {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    ClientId client;
    SessionId session;
};

/// A new connection, accepted on shard 0 and not read yet.
struct AdoptConnection {
    static constexpr bool kShardPortable = true;
    runtime::SocketHandle socket;
    net::ConnectionFacts facts;
};

/// A partition ended (delete) or began anew (purge): the owner drops what it holds of older lives.
struct RetirePartition {
    static constexpr bool kShardPortable = true;
    PartitionKey key;
    Incarnation keep_from;  ///< lives before this one go
    bool deleted = false;   ///< nothing follows: its directory goes too
};

/// Stored offsets of a deleted group go.
struct ForgetGroup {
    static constexpr bool kShardPortable = true;
    PartitionKey key;
    model::GroupId group;
};

/// The client table dropped this session (capacity, re-login elsewhere): unbind whoever holds it.
struct SessionEnded {
    static constexpr bool kShardPortable = true;
    ClientId client;
    SessionId session;
};

/// Orderly stop, in two phases: first connections end (their sessions still reach shard 0), then
/// partitions close. Answered when the phase is done on that shard.
enum class StopPhase : std::uint8_t { kConnections, kPartitions };
struct StopCommand {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    StopPhase phase = StopPhase::kConnections;
};

using Request = std::variant<AppendCommand, PollQuery, OffsetCommand, DeleteSegmentsCommand,
                             MetadataCommand, RegisterCommand, EndSessionCommand, AdoptConnection,
                             RetirePartition, ForgetGroup, SessionEnded, StopCommand>;

struct AppendReply {
    static constexpr bool kShardPortable = true;
    Result<Offset> base_offset;
};
struct PollReply {
    static constexpr bool kShardPortable = true;
    Result<partitions::PollResult> result;
};
struct OffsetReply {
    static constexpr bool kShardPortable = true;
    Result<std::optional<partitions::StoredOffset>> result;
};
struct DeleteSegmentsReply {
    static constexpr bool kShardPortable = true;
    Status done;
};
/// `body` is the whole reply body (with its result section) when `status` is 0.
struct MetadataReply {
    static constexpr bool kShardPortable = true;
    ErrorCode status = ErrorCode::kOk;
    std::optional<wire::EvictionReason> eviction;
    bool drop = false;  ///< a faulty client: no answer
    OpNumber op;
    OpNumber commit;
    std::vector<std::byte> body;
};

struct StopReply {
    static constexpr bool kShardPortable = true;
    bool clean = true;  ///< false: something acknowledged may be lost
};

using ReplyBody = std::variant<AppendReply, PollReply, OffsetReply, DeleteSegmentsReply,
                               MetadataReply, StopReply>;

struct ReplyMessage {
    static constexpr bool kShardPortable = true;
    runtime::Ticket ticket;
    ReplyBody body;
};

using ShardMesh = runtime::Mesh<Request, ReplyMessage>;
using ReplySlots = runtime::TicketTable<ReplyBody>;

}  // namespace galgo::shard

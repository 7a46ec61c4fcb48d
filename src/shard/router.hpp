// Router: the one place where a request crosses from the shard of its connection to the shard that
// serves it. Each function looks the owner up, runs the command here when this shard is the owner,
// and otherwise costs one request and one reply message. A full lane or slot table is answered
// with 58.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "coro/task.hpp"
#include "shard/message.hpp"
#include "shard/partition_owner.hpp"

namespace galgo::shard {

class MetadataPlane;

class Router {
 public:
    /// `plane` is null on every shard but 0.
    Router(ShardMesh& mesh, ShardIndex self, ReplySlots& slots, PartitionOwner& owner,
           MetadataPlane* plane) noexcept;

    [[nodiscard]] ShardIndex owner_of(PartitionKey key) const noexcept;

    coro::Task<Result<Offset>> append(PartitionRef partition, partitions::AppendRequest request);
    coro::Task<Result<partitions::PollResult>> poll(PartitionRef partition,
                                                    partitions::PollRequest request,
                                                    std::optional<GroupFence> fence);
    coro::Task<Result<std::optional<partitions::StoredOffset>>> offset(OffsetCommand command);
    coro::Task<Status> delete_segments(PartitionRef partition, std::uint32_t count);

    /// Metadata operations, logins and logouts: to shard 0.
    coro::Task<MetadataReply> metadata(MetadataCommand command);
    coro::Task<MetadataReply> register_client(ClientId client, metadata::Login login);
    coro::Task<MetadataReply> end_session(ClientId client, SessionId session);

    [[nodiscard]] MetadataPlane* plane() const noexcept { return plane_; }

 private:
    template <class Reply, class Command>
    coro::Task<std::optional<Reply>> ask(ShardIndex shard, Command command);

    ShardMesh::Port& port_;
    std::uint16_t shard_count_;
    ShardIndex self_;
    ReplySlots& slots_;
    PartitionOwner& owner_;
    MetadataPlane* plane_;
};

}  // namespace galgo::shard

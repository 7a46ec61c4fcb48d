#include "shard/router.hpp"

#include <utility>

#include "shard/metadata_plane.hpp"
#include "wire/placement.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

using coro::Task;

namespace {

constexpr ShardIndex kMetadataShard{0};

MetadataReply busy() {
    const auto body = wire::rejection_body(ErrorCode::kTransientNotAccepted);
    return {.body = {body.begin(), body.end()}};
}

}  // namespace

Router::Router(ShardMesh& mesh, ShardIndex self, ReplySlots& slots, PartitionOwner& owner,
               MetadataPlane* plane) noexcept
    : port_(mesh.port(self)),
      shard_count_(static_cast<std::uint16_t>(mesh.shard_count())),
      self_(self),
      slots_(slots),
      owner_(owner),
      plane_(plane) {}

ShardIndex Router::owner_of(PartitionKey key) const noexcept {
    return wire::shard_of(key, shard_count_);
}

/// Sends `command` with a ticket and waits for its reply; none when a lane or the slot table is
/// full.
template <class Reply, class Command>
Task<std::optional<Reply>> Router::ask(ShardIndex shard, Command command) {
    const std::optional<runtime::Ticket> ticket = slots_.open();
    if (!ticket.has_value()) {
        co_return std::nullopt;
    }
    command.ticket = *ticket;
    Request message(std::in_place_type<Command>, std::move(command));
    if (!port_.try_send(shard, std::move(message))) {
        slots_.abandon(*ticket);
        co_return std::nullopt;
    }
    ReplyBody reply = co_await slots_.wait(*ticket);
    co_return std::get<Reply>(std::move(reply));
}

Task<Result<Offset>> Router::append(PartitionRef partition, partitions::AppendRequest request) {
    const ShardIndex owner = owner_of(partition.key);
    if (owner == self_) {
        Result<Offset> base = co_await owner_.append(partition, std::move(request));
        co_return base;
    }
    std::optional<AppendReply> reply = co_await ask<AppendReply>(
        owner, AppendCommand{.partition = partition, .request = std::move(request)});
    if (!reply.has_value()) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    co_return reply->base_offset;
}

Task<Result<partitions::PollResult>> Router::poll(PartitionRef partition,
                                                  partitions::PollRequest request,
                                                  std::optional<GroupFence> fence) {
    const ShardIndex owner = owner_of(partition.key);
    if (owner == self_) {
        Result<partitions::PollResult> result = co_await owner_.poll(partition, request, fence);
        co_return result;
    }
    std::optional<PollReply> reply = co_await ask<PollReply>(
        owner, PollQuery{.partition = partition, .request = request, .fence = fence});
    if (!reply.has_value()) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    co_return std::move(reply->result);
}

Task<Result<std::optional<partitions::StoredOffset>>> Router::offset(OffsetCommand command) {
    const ShardIndex owner = owner_of(command.partition.key);
    if (owner == self_) {
        Result<std::optional<partitions::StoredOffset>> result = co_await owner_.offset(command);
        co_return result;
    }
    std::optional<OffsetReply> reply = co_await ask<OffsetReply>(owner, command);
    if (!reply.has_value()) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    co_return reply->result;
}

Task<Status> Router::delete_segments(PartitionRef partition, std::uint32_t count) {
    const ShardIndex owner = owner_of(partition.key);
    if (owner == self_) {
        const Status done = co_await owner_.delete_segments(partition, count);
        co_return done;
    }
    const std::optional<DeleteSegmentsReply> reply = co_await ask<DeleteSegmentsReply>(
        owner, DeleteSegmentsCommand{.partition = partition, .count = count});
    co_return reply.has_value() ? reply->done : fail(ErrorCode::kTransientNotAccepted);
}

Task<MetadataReply> Router::metadata(MetadataCommand command) {
    if (plane_ != nullptr) {
        MetadataReply reply = co_await plane_->submit(std::move(command));
        co_return reply;
    }
    std::optional<MetadataReply> reply =
        co_await ask<MetadataReply>(kMetadataShard, std::move(command));
    co_return reply.has_value() ? *std::move(reply) : busy();
}

Task<MetadataReply> Router::register_client(ClientId client, metadata::Login login) {
    if (plane_ != nullptr) {
        MetadataReply reply = co_await plane_->register_client(client, login);
        co_return reply;
    }
    std::optional<MetadataReply> reply = co_await ask<MetadataReply>(
        kMetadataShard, RegisterCommand{.client = client, .login = login});
    co_return reply.has_value() ? *std::move(reply) : busy();
}

Task<MetadataReply> Router::end_session(ClientId client, SessionId session) {
    if (plane_ != nullptr) {
        MetadataReply reply = co_await plane_->end_session(client, session);
        co_return reply;
    }
    std::optional<MetadataReply> reply = co_await ask<MetadataReply>(
        kMetadataShard, EndSessionCommand{.client = client, .session = session});
    co_return reply.has_value() ? *std::move(reply)
                                : MetadataReply{.status = ErrorCode::kTransientNotAccepted};
}

}  // namespace galgo::shard

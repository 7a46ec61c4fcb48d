// Streams: create, rename, delete, purge.
#include "metadata/detail/applier.hpp"
#include "metadata/detail/records.hpp"
#include "wire/requests.hpp"

namespace galgo::metadata {

Result<Applier::Payload> Applier::create_stream() {
    GALGO_TRY_ASSIGN(const auto request, wire::CreateStreamRequest::decode(prepare_.body));
    GALGO_TRY(require(model::Rule::kStreamsManage));
    if (state_.stream_names_.find(request.name).has_value()) {
        return fail(ErrorCode::kStreamNameAlreadyExists);
    }
    const model::StreamId id = state_.streams_.vacant_id();
    if (id.value() >= model::kStreamCountMax) {
        return fail(ErrorCode::kTooManyStreams);
    }
    const Stream& stream = state_.streams_.insert(
        Stream{.id = id, .name = std::string(request.name), .created_at = prepare_.timestamp});
    state_.stream_names_.insert(request.name, id);
    changed({.kind = ChangeKind::kStreamCreated, .stream = id});
    return detail::stream_details(stream);
}

Result<Applier::Payload> Applier::update_stream() {
    GALGO_TRY_ASSIGN(const auto request, wire::UpdateStreamRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(Stream* const stream,
                     stream_target(request.stream, model::Rule::kStreamManage));
    const std::optional<model::StreamId> bearer = state_.stream_names_.find(request.name);
    if (bearer.has_value() && *bearer != stream->id) {
        return fail(ErrorCode::kStreamNameAlreadyExists);
    }
    state_.stream_names_.erase(stream->name);
    stream->name = request.name;
    state_.stream_names_.insert(request.name, stream->id);
    changed({.kind = ChangeKind::kStreamUpdated, .stream = stream->id});
    return Payload{};
}

Result<Applier::Payload> Applier::delete_stream() {
    GALGO_TRY_ASSIGN(const auto request, wire::StreamRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(Stream* const stream,
                     stream_target(request.stream, model::Rule::kStreamManage));
    for (Topic& topic : stream->topics.rows()) {
        drop_contents(*stream, topic);
    }
    const model::StreamId id = stream->id;
    state_.stream_names_.erase(stream->name);
    state_.streams_.erase(id);
    changed({.kind = ChangeKind::kStreamDeleted, .stream = id});
    return Payload{};
}

Result<Applier::Payload> Applier::purge_stream() {
    GALGO_TRY_ASSIGN(const auto request, wire::StreamRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(Stream* const stream,
                     stream_target(request.stream, model::Rule::kStreamManage));
    for (Topic& topic : stream->topics.rows()) {
        purge_partitions(*stream, topic);
    }
    return Payload{};
}

}  // namespace galgo::metadata

// Decoders of replies, client side.
#include "wire/reply_decoders.hpp"

#include "wire/primitives.hpp"

namespace galgo::wire {
namespace {

constexpr std::size_t kResultEntrySize = 8;

}  // namespace

Result<ConstBytes> reply_payload(const ReplyHeader& header, ConstBytes body) noexcept {
    if (header.status != ErrorCode::kOk) {
        return fail(header.status);
    }
    if (!is_result_framed(header.operation)) {
        return body;
    }
    ByteReader reader(body);
    const std::optional<std::uint32_t> count = reader.take<std::uint32_t>();
    if (!count || reader.remaining() / kResultEntrySize < *count) {
        return fail(ErrorCode::kInvalidCommand);
    }
    if (*count > 0) {
        const auto code = static_cast<ErrorCode>(load<std::uint32_t>(body, kResultEntrySize));
        return fail(code == ErrorCode::kOk ? ErrorCode::kError : code);
    }
    return reader.rest();
}

Result<LoginReply> decode_login_reply(ConstBytes payload) noexcept {
    FieldReader reader(payload);
    LoginReply reply;
    reply.user = reader.id<model::UserId>();
    reply.session = reader.id<SessionId>();
    reply.protocol_version = reader.u32();
    reply.server_version = reader.name();
    if (reply.session.value() == 0) {
        reader.set_failed();
    }
    return reader.finish(reply);
}

Result<std::optional<StreamRecord>> decode_stream(ConstBytes payload) noexcept {
    if (payload.empty()) {
        return std::nullopt;
    }
    FieldReader reader(payload);
    StreamRecord stream;
    stream.id = reader.id<model::StreamId>();
    stream.created_at = reader.id<Timestamp>();
    stream.topics_count = reader.u32();
    stream.size_bytes = reader.u64();
    stream.messages_count = reader.u64();
    stream.name = reader.name();
    stream.options = reader.block32();
    return reader.finish(std::optional(stream));
}

Result<std::optional<TopicDetails>> decode_topic_details(ConstBytes payload) {
    if (payload.empty()) {
        return std::nullopt;
    }
    FieldReader reader(payload);
    TopicDetails details;
    TopicRecord& topic = details.topic;
    topic.id = reader.id<model::TopicId>();
    topic.created_at = reader.id<Timestamp>();
    topic.partitions_count = reader.u32();
    topic.message_expiry_us = reader.u64();
    topic.compression =
        reader.one_of(model::CompressionAlgorithm::kNone, model::CompressionAlgorithm::kGzip);
    topic.max_topic_size_bytes = reader.u64();
    topic.size_bytes = reader.u64();
    topic.messages_count = reader.u64();
    topic.name = reader.name();
    topic.explicit_options = reader.block32();
    topic.derived_options = reader.block32();
    // The count comes from the wire: the room is checked before anything is allocated for it.
    if (reader.failed() || reader.remaining() / kPartitionRecordSize < topic.partitions_count) {
        return fail(ErrorCode::kInvalidCommand);
    }
    details.partitions.reserve(topic.partitions_count);
    for (std::uint32_t i = 0; i < topic.partitions_count; ++i) {
        PartitionRecord partition;
        partition.id = reader.id<model::PartitionId>();
        partition.created_at = reader.id<Timestamp>();
        partition.segments_count = reader.u32();
        partition.current_offset = reader.id<Offset>();
        partition.size_bytes = reader.u64();
        partition.messages_count = reader.u64();
        details.partitions.push_back(partition);
    }
    return reader.finish(std::optional(std::move(details)));
}

Result<std::optional<SendConfirmation>> decode_send_confirmation(ConstBytes payload) noexcept {
    if (payload.empty()) {
        return std::nullopt;
    }
    FieldReader reader(payload);
    const std::uint32_t count = reader.u32();
    if (count == 0 && !reader.failed()) {
        return std::nullopt;
    }
    SendConfirmation confirmation;
    confirmation.stream = reader.id<model::StreamId>();
    confirmation.topic = reader.id<model::TopicId>();
    confirmation.partition = reader.id<model::PartitionId>();
    confirmation.base_offset = reader.id<Offset>();
    return reader.finish(std::optional(confirmation));
}

Result<std::optional<ConsumerOffsetReply>> decode_consumer_offset(ConstBytes payload) noexcept {
    if (payload.empty()) {
        return std::nullopt;
    }
    FieldReader reader(payload);
    ConsumerOffsetReply reply;
    reply.partition = reader.id<model::PartitionId>();
    reply.current_offset = reader.id<Offset>();
    reply.stored_offset = reader.id<Offset>();
    return reader.finish(std::optional(reply));
}

Result<std::optional<SyncReply>> decode_sync_reply(ConstBytes payload) {
    if (payload.empty()) {
        return std::nullopt;
    }
    FieldReader reader(payload);
    SyncReply reply;
    reply.generation = reader.u64();
    const std::uint32_t count = reader.u32();
    if (reader.failed() || reader.remaining() / sizeof(std::uint32_t) < count) {
        return fail(ErrorCode::kInvalidCommand);
    }
    reply.partitions.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
        reply.partitions.push_back(reader.id<model::PartitionId>());
    }
    return reader.finish(std::optional(std::move(reply)));
}

Result<PollReplyReader> PollReplyReader::begin(ConstBytes payload) noexcept {
    FieldReader reader(payload);
    PollPrefix prefix;
    prefix.partition = reader.id<model::PartitionId>();
    prefix.current_offset = reader.id<Offset>();
    prefix.messages_count = reader.u32();
    return reader.finish(PollReplyReader(prefix, reader.rest()));
}

Result<std::optional<PollReplyReader::Message>> PollReplyReader::next() noexcept {
    if (frames_left_ == 0) {
        if (!cursor_.at_end() || (records_.empty() && messages_read_ != prefix_.messages_count)) {
            return fail(ErrorCode::kInvalidCommand);
        }
        if (records_.empty()) {
            return std::nullopt;
        }
        GALGO_TRY_ASSIGN(header_, decode_batch_header(records_));
        if (header_.batch_length > records_.size()) {
            return fail(ErrorCode::kInvalidCommand);
        }
        cursor_ = FrameCursor(records_.subspan(kBatchHeaderSize, header_.frames_size()));
        frames_left_ = header_.message_count;
        records_ = records_.subspan(header_.batch_length);
    }
    GALGO_TRY_ASSIGN(const MessageView view, cursor_.next());
    --frames_left_;
    ++messages_read_;
    return Message{
        .offset = Offset(header_.base_offset + view.offset_delta),
        .timestamp = Timestamp(header_.base_timestamp_us),
        .origin_timestamp = Timestamp(header_.origin_timestamp_us + view.timestamp_delta_us),
        .view = view};
}

}  // namespace galgo::wire

// Codec of the request bodies of the message path.
#include "wire/message_requests.hpp"

namespace galgo::wire {
namespace {

GetConsumerOffsetRequest take_offset_target(FieldReader& reader) noexcept {
    GetConsumerOffsetRequest target;
    target.consumer = reader.consumer();
    target.stream = reader.identifier();
    target.topic = reader.identifier();
    target.partition = reader.optional_partition();
    return target;
}

}  // namespace

Result<SendMessagesRequest> SendMessagesRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    SendMessagesRequest request;
    const std::uint32_t metadata_length = reader.u32();
    const std::size_t metadata_begin = reader.position();
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.partitioning = reader.partitioning();
    request.messages_count = reader.u32();
    if (reader.position() - metadata_begin != metadata_length || request.messages_count == 0) {
        reader.set_failed();
    }
    request.batch_position = reader.position();
    request.batch = reader.rest();
    return reader.finish(request);
}

void SendMessagesRequest::encode_metadata(ByteWriter& to) const {
    const std::size_t length_at = to.size();
    to.put<std::uint32_t>(0);
    put_identifier(to, stream);
    put_identifier(to, topic);
    put_partitioning(to, partitioning);
    to.put<std::uint32_t>(messages_count);
    to.patch<std::uint32_t>(length_at, static_cast<std::uint32_t>(to.size() - length_at - 4));
}

Result<PollMessagesRequest> PollMessagesRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    PollMessagesRequest request;
    request.consumer = reader.consumer();
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.partition = reader.optional_partition();
    request.strategy = reader.polling_strategy();
    request.count = reader.u32();
    request.auto_commit = reader.u8() != 0;
    return reader.finish(request);
}

void PollMessagesRequest::encode(ByteWriter& to) const {
    put_consumer(to, consumer);
    put_identifier(to, stream);
    put_identifier(to, topic);
    put_optional_partition(to, partition);
    put_polling_strategy(to, strategy);
    to.put<std::uint32_t>(count);
    to.put<std::uint8_t>(auto_commit ? 1 : 0);
}

Result<GetConsumerOffsetRequest> GetConsumerOffsetRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    return reader.finish(take_offset_target(reader));
}

void GetConsumerOffsetRequest::encode(ByteWriter& to) const {
    put_consumer(to, consumer);
    put_identifier(to, stream);
    put_identifier(to, topic);
    put_optional_partition(to, partition);
}

Result<StoreConsumerOffsetRequest> StoreConsumerOffsetRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    StoreConsumerOffsetRequest request;
    request.target = take_offset_target(reader);
    request.offset = reader.id<Offset>();
    request.ack = reader.one_of(OffsetAck::kNone, OffsetAck::kQuorum);
    return reader.finish(request);
}

void StoreConsumerOffsetRequest::encode(ByteWriter& to) const {
    target.encode(to);
    to.put<std::uint64_t>(offset.value());
    to.put<std::uint8_t>(static_cast<std::uint8_t>(ack));
}

Result<DeleteConsumerOffsetRequest> DeleteConsumerOffsetRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    DeleteConsumerOffsetRequest request;
    request.target = take_offset_target(reader);
    request.ack = reader.one_of(OffsetAck::kNone, OffsetAck::kQuorum);
    return reader.finish(request);
}

void DeleteConsumerOffsetRequest::encode(ByteWriter& to) const {
    target.encode(to);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(ack));
}

Result<FlushUnsavedBufferRequest> FlushUnsavedBufferRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    FlushUnsavedBufferRequest request;
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.partition = reader.id<model::PartitionId>();
    request.fsync = reader.u8() != 0;
    return reader.finish(request);
}

void FlushUnsavedBufferRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_identifier(to, topic);
    to.put<std::uint32_t>(partition.value());
    to.put<std::uint8_t>(fsync ? 1 : 0);
}

}  // namespace galgo::wire

// Request bodies of the message path: send, poll, consumer offsets. Same contract as requests.hpp;
// nothing here allocates. wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "model/ids.hpp"
#include "wire/primitives.hpp"

namespace galgo::wire {

/// SendMessages: u32 length of the metadata, metadata (stream, topic, partitioning, count), one
/// batch to the end. decode() checks the metadata alone: that its length covers exactly its fields
/// and that the count is not 0. The batch is BatchValidator's (wire/batch.hpp), which also compares
/// the count.
struct SendMessagesRequest {
    Identifier stream;
    Identifier topic;
    Partitioning partitioning;
    std::uint32_t messages_count = 0;
    std::size_t batch_position = 0;  ///< where the batch begins in the body
    ConstBytes batch;

    [[nodiscard]] static Result<SendMessagesRequest> decode(ConstBytes body) noexcept;
    /// Everything in front of the batch.
    void encode_metadata(ByteWriter& to) const;
};

/// PollMessages, GetPollRouting, PollMessagesOnPrimary.
struct PollMessagesRequest {
    ConsumerRef consumer;
    Identifier stream;
    Identifier topic;
    std::optional<model::PartitionId> partition;
    PollingStrategy strategy;
    std::uint32_t count = 0;
    bool auto_commit = false;

    [[nodiscard]] static Result<PollMessagesRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

/// GetConsumerOffset, GetConsumerOffsetRouting.
struct GetConsumerOffsetRequest {
    ConsumerRef consumer;
    Identifier stream;
    Identifier topic;
    std::optional<model::PartitionId> partition;

    [[nodiscard]] static Result<GetConsumerOffsetRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

enum class OffsetAck : std::uint8_t {
    kNone = 0,  ///< may be answered before it is replicated, on a single replica only
    kQuorum = 1,
};

struct StoreConsumerOffsetRequest {
    GetConsumerOffsetRequest target;
    Offset offset;
    OffsetAck ack = OffsetAck::kQuorum;

    [[nodiscard]] static Result<StoreConsumerOffsetRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

struct DeleteConsumerOffsetRequest {
    GetConsumerOffsetRequest target;
    OffsetAck ack = OffsetAck::kQuorum;

    [[nodiscard]] static Result<DeleteConsumerOffsetRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

/// Always refused by the server; decoded only so that tools can show it.
struct FlushUnsavedBufferRequest {
    Identifier stream;
    Identifier topic;
    model::PartitionId partition;
    bool fsync = false;

    [[nodiscard]] static Result<FlushUnsavedBufferRequest> decode(ConstBytes body) noexcept;
    void encode(ByteWriter& to) const;
};

}  // namespace galgo::wire

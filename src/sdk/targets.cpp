// The fixed places, from the end: send metadata {count u32}; poll body {strategy kind u8, value
// u64, count u32, auto_commit u8}.
#include "sdk/targets.hpp"

#include <utility>

#include "wire/message_requests.hpp"

namespace galgo::sdk {
namespace {

constexpr std::size_t kPollTailSize = 1 + 8 + 4 + 1;

}  // namespace

SendTarget::SendTarget(const PartitionRef& to) {
    wire::SendMessagesRequest request;
    request.stream = to.stream;
    request.topic = to.topic;
    request.partitioning = {.kind = wire::PartitioningKind::kPartition, .partition = to.partition};
    request.messages_count = 1;
    ByteWriter writer;
    request.encode_metadata(writer);
    bytes_ = std::move(writer).take();
}

ConstBytes SendTarget::metadata_for(std::uint32_t messages_count) noexcept {
    store<std::uint32_t>(bytes_, bytes_.size() - sizeof(messages_count), messages_count);
    return bytes_;
}

PollTarget::PollTarget(const wire::ConsumerRef& consumer, const PartitionRef& from) {
    wire::PollMessagesRequest request;
    request.consumer = consumer;
    request.stream = from.stream;
    request.topic = from.topic;
    request.partition = from.partition;
    ByteWriter writer;
    request.encode(writer);
    bytes_ = std::move(writer).take();
}

ConstBytes PollTarget::body_for(const PollSpec& spec) noexcept {
    const std::size_t tail = bytes_.size() - kPollTailSize;
    store<std::uint8_t>(bytes_, tail, static_cast<std::uint8_t>(spec.strategy.kind));
    store<std::uint64_t>(bytes_, tail + 1, spec.strategy.value);
    store<std::uint32_t>(bytes_, tail + 9, spec.count);
    store<std::uint8_t>(bytes_, tail + 13, spec.auto_commit ? 1 : 0);
    return bytes_;
}

}  // namespace galgo::sdk

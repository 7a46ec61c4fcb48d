// The replies that our own client and the load generator read. Views borrow the body. Every error
// of a malformed body is kInvalidCommand, like the official client's. wire: iggy_binary_protocol
// 0.11.0.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "wire/batch.hpp"
#include "wire/header.hpp"
#include "wire/replies.hpp"

namespace galgo::wire {

/// What is left of a reply's body once its status and its result section (if its operation has one)
/// are looked at: the payload, or the error that the server answered.
[[nodiscard]] Result<ConstBytes> reply_payload(const ReplyHeader& header, ConstBytes body) noexcept;

/// Payload of a login, behind the result section.
[[nodiscard]] Result<LoginReply> decode_login_reply(ConstBytes payload) noexcept;

/// GetStream and CreateStream; nothing for an empty payload (not found). The topics that follow are
/// not decoded.
[[nodiscard]] Result<std::optional<StreamRecord>> decode_stream(ConstBytes payload) noexcept;

struct TopicDetails {
    TopicRecord topic;
    std::vector<PartitionRecord> partitions;
};
/// GetTopic and CreateTopic; nothing for an empty payload (not found).
[[nodiscard]] Result<std::optional<TopicDetails>> decode_topic_details(ConstBytes payload);

/// Nothing for an empty payload or no entry: the send succeeded, its position is unknown.
[[nodiscard]] Result<std::optional<SendConfirmation>> decode_send_confirmation(
    ConstBytes payload) noexcept;

/// Nothing for an empty payload: no offset is stored.
[[nodiscard]] Result<std::optional<ConsumerOffsetReply>> decode_consumer_offset(
    ConstBytes payload) noexcept;

struct SyncReply {
    std::uint64_t generation = 0;
    std::vector<model::PartitionId> partitions;
};
/// Nothing for an empty payload: the caller is no member.
[[nodiscard]] Result<std::optional<SyncReply>> decode_sync_reply(ConstBytes payload);

/// A poll reply: its prefix, and its messages one after the other across batches.
class PollReplyReader {
 public:
    [[nodiscard]] static Result<PollReplyReader> begin(ConstBytes payload) noexcept;

    [[nodiscard]] const PollPrefix& prefix() const noexcept { return prefix_; }

    struct Message {
        Offset offset;
        Timestamp timestamp;         ///< of the broker
        Timestamp origin_timestamp;  ///< of the producer
        MessageView view;
    };
    /// The next message, nothing at the end. Error: a malformed record, or the end with another
    /// number of messages than the prefix says. Checksums are not verified.
    [[nodiscard]] Result<std::optional<Message>> next() noexcept;

 private:
    PollReplyReader(const PollPrefix& prefix, ConstBytes records) noexcept
        : prefix_(prefix), records_(records) {}

    PollPrefix prefix_;
    ConstBytes records_;  // batches not begun
    BatchHeader header_;
    std::uint32_t frames_left_ = 0;
    FrameCursor cursor_{ConstBytes{}};
    std::uint32_t messages_read_ = 0;
};

}  // namespace galgo::wire

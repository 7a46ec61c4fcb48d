// The options a topic has: which keys, which value kinds and forms, which bounds, which defaults.
// Create turns what the client sent into canonical values (kept as the *explicit* block) and adds
// the defaults of what it did not send (the *derived* block). Update changes three keys and keeps
// them as sent. Streams and users have no options: any key there is refused. Pure. wire: option
// catalogue of 0.11.0.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "model/topic_options.hpp"
#include "wire/options.hpp"

namespace galgo::wire {

inline constexpr std::string_view kOptionCompression = "compression_algorithm";
inline constexpr std::string_view kOptionMessageExpiry = "message_expiry";
inline constexpr std::string_view kOptionMaxTopicSize = "max_topic_size";
inline constexpr std::string_view kOptionSegmentSize = "segment_size";
inline constexpr std::string_view kOptionDurability = "durability";
inline constexpr std::string_view kOptionConsumerOffsetDurability = "consumer_offset_durability";
inline constexpr std::string_view kOptionMessagesRequiredToSave = "messages_required_to_save";
inline constexpr std::string_view kOptionSizeRequiredToSave = "size_of_messages_required_to_save";
inline constexpr std::string_view kOptionPreallocateSegments = "preallocate_segments";

struct ResolvedTopicOptions {
    model::TopicOptions values;
    std::vector<std::byte> explicit_block;
    std::vector<std::byte> derived_block;
};

/// Options of a new topic with `partitions_count` partitions.
/// Errors: kUnsupportedOptionKey; kInvalidOptionValue (kind, form or bound); kInvalidTopicSize
/// (max_topic_size below segment_size).
[[nodiscard]] Result<ResolvedTopicOptions> resolve_topic_options(const OptionBlock& block,
                                                                 std::uint32_t partitions_count);

/// Checks the keys and values of an update without the topic. Errors: kUnsupportedOptionKey,
/// kInvalidOptionValue.
[[nodiscard]] Status validate_topic_update(const OptionBlock& block);

/// `current` with the keys of `block` laid over it. Errors: as validate_topic_update, and
/// kInvalidTopicSize.
[[nodiscard]] Result<ResolvedTopicOptions> update_topic_options(const ResolvedTopicOptions& current,
                                                                const OptionBlock& block);

/// Options of streams and users: kUnsupportedOptionKey unless the block is empty.
[[nodiscard]] Status refuse_options(const OptionBlock& block);

/// One row of DESCRIBE_OPTIONS.
struct OptionDescription {
    std::string_view key;
    ValueKind kind = ValueKind::kRaw;
    std::vector<std::byte> default_value;
    std::string_view description;
};

/// The catalogue, sorted by key.
[[nodiscard]] std::vector<OptionDescription> describe_topic_options();

}  // namespace galgo::wire

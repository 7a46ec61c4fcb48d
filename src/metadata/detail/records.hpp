// Rows of the state as records of the wire: used by the replies of creations and of reads, which
// are the same bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.hpp"
#include "metadata/state.hpp"

namespace galgo::metadata::detail {

/// Stream record with its counters.
void put_stream(ByteWriter& to, const Stream& stream);
/// Topic record with its counters, without partitions.
void put_topic(ByteWriter& to, const Topic& topic);
/// Group record without members.
void put_group(ByteWriter& to, const ConsumerGroup& group);
/// User record without permissions.
void put_user(ByteWriter& to, const User& user);

/// GetStream and CreateStream: the stream and its topics.
[[nodiscard]] std::vector<std::byte> stream_details(const Stream& stream);
/// GetTopic and CreateTopic: the topic and its partitions.
[[nodiscard]] std::vector<std::byte> topic_details(const Topic& topic);
/// GetConsumerGroup and CreateConsumerGroup: the group and its members.
[[nodiscard]] std::vector<std::byte> group_details(const ConsumerGroup& group);
/// GetUser and CreateUser: the user and its permissions.
[[nodiscard]] std::vector<std::byte> user_details(const User& user);

}  // namespace galgo::metadata::detail

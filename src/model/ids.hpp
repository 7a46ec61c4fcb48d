// Domain identifiers and their limits, and the packing of stream, topic and partition into one key.
//
// Numeric ids are 0-based slots: a stream in the node, a topic in its stream, a partition in its
// topic, a group in its topic (groups are never reused). A freed slot is reused, so an id alone
// does not name one life of a resource; see galgo::Incarnation. All pure, any thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/strong_id.hpp"

namespace galgo::model {

using StreamId = StrongId<struct StreamIdTag, std::uint32_t>;
using TopicId = StrongId<struct TopicIdTag, std::uint32_t>;
using PartitionId = StrongId<struct PartitionIdTag, std::uint32_t>;
using UserId = StrongId<struct UserIdTag, std::uint32_t>;
using GroupId = StrongId<struct GroupIdTag, std::uint32_t>;
using MemberId = StrongId<struct MemberIdTag, std::uint32_t>;
/// Number of a connection as GET_CLIENTS shows it; unrelated to the 128-bit galgo::ClientId.
using ConnectionId = StrongId<struct ConnectionIdTag, std::uint32_t>;

/// The user that passes every permission check and can be neither deleted nor restricted.
inline constexpr UserId kRootUserId{0};
/// Stands for "nobody" in client records.
inline constexpr UserId kNoUserId{0xFFFF'FFFF};

// wire: iggy_common 0.11.0 and the reference server's admission.
inline constexpr std::uint32_t kStreamCountMax = 1U << 20U;
inline constexpr std::uint32_t kTopicCountMax = 4096;        ///< per stream
inline constexpr std::uint32_t kPartitionIdMax = 1'000'000;  ///< exclusive: ids are below it
inline constexpr std::uint32_t kPartitionsPerRequestMax = 1000;
inline constexpr std::uint32_t kNameSizeMax = 255;
inline constexpr std::uint32_t kUsernameSizeMin = 3;
inline constexpr std::uint32_t kUsernameSizeMax = 50;
inline constexpr std::uint32_t kPasswordSizeMin = 3;
inline constexpr std::uint32_t kPasswordSizeMax = 100;

/// May it be a password? One that may not is neither set nor accepted.
[[nodiscard]] constexpr bool is_legal_password(std::string_view password) noexcept {
    return password.size() >= kPasswordSizeMin && password.size() <= kPasswordSizeMax;
}

/// What a PartitionKey is made of.
struct PartitionAddress {
    StreamId stream;
    TopicId topic;
    PartitionId partition;

    constexpr auto operator<=>(const PartitionAddress&) const noexcept = default;
};

inline constexpr unsigned kPartitionKeyTopicShift = 20;
inline constexpr unsigned kPartitionKeyStreamShift = 32;
static_assert(kPartitionIdMax <= 1U << kPartitionKeyTopicShift);
static_assert(kTopicCountMax == 1U << (kPartitionKeyStreamShift - kPartitionKeyTopicShift));

/// stream << 32 | topic << 20 | partition. Ids outside their limits are a programmer error: an id
/// from a request was looked up before it got here.
[[nodiscard]] constexpr PartitionKey pack_partition_key(StreamId stream, TopicId topic,
                                                        PartitionId partition) noexcept {
    GALGO_CHECK(stream.value() < kStreamCountMax);
    GALGO_CHECK(topic.value() < kTopicCountMax);
    GALGO_CHECK(partition.value() < kPartitionIdMax);
    return PartitionKey(std::uint64_t{stream.value()} << kPartitionKeyStreamShift |
                        std::uint64_t{topic.value()} << kPartitionKeyTopicShift |
                        partition.value());
}

[[nodiscard]] constexpr PartitionAddress unpack_partition_key(PartitionKey key) noexcept {
    constexpr std::uint64_t kPartitionMask = (1ULL << kPartitionKeyTopicShift) - 1;
    return PartitionAddress{
        .stream = StreamId(static_cast<std::uint32_t>(key.value() >> kPartitionKeyStreamShift)),
        .topic = TopicId(static_cast<std::uint32_t>(key.value() >> kPartitionKeyTopicShift) &
                         (kTopicCountMax - 1)),
        .partition = PartitionId(static_cast<std::uint32_t>(key.value() & kPartitionMask))};
}

}  // namespace galgo::model

// The resolved options of a topic: plain values that metadata stores and partitions obey. How they
// travel and which values are accepted is wire/topic_catalog.hpp.
#pragma once

#include <cstdint>
#include <limits>

#include "base/units.hpp"

namespace galgo::model {

/// Recorded and shown; the server stores batches as they came.
enum class CompressionAlgorithm : std::uint8_t { kNone = 1, kGzip = 2 };

/// When a write is answered with success.
enum class Durability : std::uint8_t {
    kReplicated = 1,  ///< after the quorum has it
    kPersisted = 2,   ///< after the quorum has it on stable storage
};

/// `message_expiry_us`: messages never expire. Also the default.
inline constexpr std::uint64_t kNeverExpires = std::numeric_limits<std::uint64_t>::max();
/// `max_topic_size_bytes`: no bound. Also the default.
inline constexpr std::uint64_t kUnlimitedSize = std::numeric_limits<std::uint64_t>::max();

inline constexpr std::uint64_t kSegmentSizeMin = 1 * kMiB;
inline constexpr std::uint64_t kSegmentSizeMax = 1 * kGiB;
inline constexpr std::uint64_t kSegmentSizeStep = 512;
inline constexpr std::uint32_t kMessagesRequiredToSaveMax = 16'777'216;
inline constexpr std::uint64_t kSizeRequiredToSaveMax = 1 * kGiB;
/// Bound of segment size x partition count of a topic that preallocates.
inline constexpr std::uint64_t kPreallocatedBytesMax = 64 * kGiB;

// wire: option catalogue of 0.11.0, defaults included.
struct TopicOptions {
    CompressionAlgorithm compression = CompressionAlgorithm::kNone;
    std::uint64_t message_expiry_us = kNeverExpires;
    std::uint64_t max_topic_size_bytes = kUnlimitedSize;
    std::uint64_t segment_size_bytes = 1 * kGiB;
    Durability durability = Durability::kReplicated;
    Durability consumer_offset_durability = Durability::kReplicated;
    std::uint32_t messages_required_to_save = 1024;
    std::uint64_t size_of_messages_required_to_save_bytes = 1 * kMiB;
    bool preallocate_segments = false;

    constexpr bool operator==(const TopicOptions&) const noexcept = default;
};

}  // namespace galgo::model

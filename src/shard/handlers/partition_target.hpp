// Resolution that polling and offset commands share: which partition, for whom, and may the caller.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.hpp"
#include "shard/message.hpp"
#include "shard/metadata_store.hpp"
#include "shard/session.hpp"
#include "wire/primitives.hpp"

namespace galgo::shard {

struct PartitionTarget {
    PartitionRef ref;
    model::PartitionId partition;
    partitions::ConsumerKey consumer;
    std::optional<GroupFence>
        fence;          ///< the consumer is a group and the caller must own the partition
    bool owned = true;  ///< false: by this shard's metadata the fence does not hold
};

/// Errors: 1009, 2010, 3007 by what is missing, 41, 5000 for an unknown group. No partition means
/// partition 0.
[[nodiscard]] Result<PartitionTarget> resolve_partition(
    const metadata::State& state, const Session& session, const wire::ConsumerRef& consumer,
    const wire::Identifier& stream, const wire::Identifier& topic,
    std::optional<model::PartitionId> partition);

}  // namespace galgo::shard

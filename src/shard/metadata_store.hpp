// The published metadata of this process: a left-right pair of states that shard 0 changes and
// every shard reads by one load. MetadataReader is what handlers hold.
//
// A reference from state() is good until the coroutine suspends: look up again afterwards.
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.hpp"
#include "metadata/apply.hpp"
#include "metadata/operation.hpp"
#include "metadata/partition_stats.hpp"
#include "metadata/state.hpp"
#include "runtime/left_right.hpp"

namespace galgo::shard {

/// A committed entry of the metadata log, owned.
struct LoggedOperation {
    metadata::PrepareView prepare;  ///< its body is empty; view() lends the owned one
    std::vector<std::byte> body;

    [[nodiscard]] metadata::PrepareView view() const noexcept {
        metadata::PrepareView whole = prepare;
        whole.body = body;
        return whole;
    }
};

/// One side of the pair. Both sides share the statistics lines through the registry.
struct MetadataCopy {
    using Op = LoggedOperation;

    metadata::State state;
    metadata::PartitionStatsRegistry* registry = nullptr;

    metadata::ApplyOutcome apply(const LoggedOperation& operation) {
        return metadata::apply(state, *registry, operation.view());
    }
};

using MetadataPair = runtime::LeftRight<MetadataCopy>;

class MetadataReader {
 public:
    MetadataReader(const MetadataPair& pair, ShardIndex shard) noexcept
        : pair_(pair), shard_(shard) {}
    [[nodiscard]] const metadata::State& state() const noexcept { return pair_.read(shard_).state; }

 private:
    const MetadataPair& pair_;
    ShardIndex shard_;
};

}  // namespace galgo::shard

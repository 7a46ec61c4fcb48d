// PartitionOwner: carries out on their owner's shard what clients of any shard ask of partitions.
// Checks that the request means the partition's present life (incarnation) and, for group members,
// that they still own it; materialises a partition at its first touch.
#pragma once

#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "coro/task.hpp"
#include "partitions/partition_table.hpp"
#include "shard/message.hpp"
#include "shard/metadata_store.hpp"

namespace galgo::shard {

class PartitionOwner {
 public:
    PartitionOwner(partitions::PartitionTable& table, MetadataReader metadata) noexcept
        : table_(table), metadata_(metadata) {}

    /// Errors: 58 for another life of the partition and when its files cannot be opened now, 3007
    /// when there is none.
    coro::Task<Result<Offset>> append(PartitionRef ref, partitions::AppendRequest request);
    /// Also 3024; 5009 when the fence says that the member lost the partition.
    coro::Task<Result<partitions::PollResult>> poll(PartitionRef ref,
                                                    partitions::PollRequest request,
                                                    std::optional<GroupFence> fence);
    /// Also 4100, 3021, 3024; 20 when the fence does not hold.
    coro::Task<Result<std::optional<partitions::StoredOffset>>> offset(OffsetCommand command);
    /// Also the errors of the disk, and that of a fence for a partition that keeps all.
    coro::Task<Status> delete_segments(PartitionRef ref, std::uint32_t count);
    coro::Task<void> retire(RetirePartition command);
    coro::Task<void> forget_group(ForgetGroup command);

    /// Opens every partition of this shard that has files or is named by the journals of earlier
    /// runs, so that nothing stays in those journals and counters are right from the start.
    coro::Task<void> open_existing(std::uint16_t shard_count, ShardIndex self,
                                   const storage::JournalReplay& replay);

    /// Every one of them was opened, and nothing of it is left in those journals.
    [[nodiscard]] bool recovered() const noexcept {
        return unopened_.empty() && table_.recovered();
    }
    [[nodiscard]] std::size_t unopened_count() const noexcept { return unopened_.size(); }
    /// Tries again for those that could not be opened or written (no descriptor, a full disk).
    coro::Task<void> complete_recovery();

    [[nodiscard]] partitions::PartitionTable& table() noexcept { return table_; }

 private:
    /// The live partition behind `ref`, opened when need be.
    coro::Task<Result<partitions::PartitionHandle>> find(PartitionRef ref);
    coro::Task<void> open_unopened();
    coro::Task<std::vector<PartitionRef>> open_next(const std::vector<PartitionRef>& tried,
                                                    std::size_t& next);
    void forget_lost_groups(PartitionRef ref, partitions::Partition& partition);
    [[nodiscard]] bool holds(const GroupFence& fence, PartitionKey key) const noexcept;

    partitions::PartitionTable& table_;
    MetadataReader metadata_;
    std::vector<PartitionRef> unopened_;  ///< of open_existing(), not opened yet
};

/// What a topic's options mean for each of its partitions.
[[nodiscard]] partitions::PartitionOptions partition_options(
    const model::TopicOptions& topic) noexcept;

}  // namespace galgo::shard

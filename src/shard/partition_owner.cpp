#include "shard/partition_owner.hpp"

#include <cerrno>
#include <tuple>
#include <utility>

#include "model/ids.hpp"
#include "wire/placement.hpp"

namespace galgo::shard {

using coro::Task;
using partitions::PartitionHandle;

namespace {

const metadata::Topic* topic_of(const metadata::State& state, PartitionKey key) noexcept {
    const model::PartitionAddress address = model::unpack_partition_key(key);
    return state.find_topic(wire::Identifier::numbered(address.stream.value()),
                            wire::Identifier::numbered(address.topic.value()));
}

/// What a client is told when the process is out of descriptors or the kernel out of memory:
/// nothing was done, the same request may be sent again.
template <class T>
Result<T> told(Result<T> result) {
    if (!result.has_value()) {
        const Error& error = result.error();
        if (error.os_errno == EMFILE || error.os_errno == ENFILE || error.os_errno == ENOMEM) {
            return std::unexpected(Error{.code = ErrorCode::kTransientNotAccepted,
                                         .os_errno = error.os_errno,
                                         .retry = RetryClass::kSameNode});
        }
    }
    return result;
}

}  // namespace

partitions::PartitionOptions partition_options(const model::TopicOptions& topic) noexcept {
    return {.segment_size_bytes = topic.segment_size_bytes,
            .messages_required_to_save = topic.messages_required_to_save,
            .size_required_to_save_bytes = topic.size_of_messages_required_to_save_bytes,
            .persisted = topic.durability == model::Durability::kPersisted,
            .preallocate = topic.preallocate_segments,
            .offsets_persisted = topic.consumer_offset_durability == model::Durability::kPersisted};
}

Task<Result<PartitionHandle>> PartitionOwner::find(PartitionRef ref) {
    if (std::optional<PartitionHandle> open = table_.find(ref.key, ref.incarnation)) {
        co_return *std::move(open);
    }
    const metadata::State& state = metadata_.state();
    const metadata::Partition* row = state.find_partition(ref.key);
    if (row == nullptr) {
        co_return fail(ErrorCode::kPartitionNotFound);
    }
    if (row->incarnation != ref.incarnation) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    const partitions::PartitionOptions options =
        partition_options(topic_of(state, ref.key)->options.values);
    std::shared_ptr<metadata::PartitionStats> stats = row->stats;
    Result<PartitionHandle> opened =
        co_await table_.open(ref.key, ref.incarnation, options,
                             [stats = std::move(stats)](const partitions::Counters& now) {
                                 stats->store({.message_count = now.message_count,
                                               .size_bytes = now.size_bytes,
                                               .sealed_bytes = now.sealed_bytes,
                                               .offset_first = now.first_offset.value(),
                                               .offset_current = now.current_offset.value(),
                                               .segment_count = now.segment_count});
                             });
    if (opened.has_value()) {
        forget_lost_groups(ref, **opened);
    }
    co_return told(std::move(opened));
}

/// ForgetGroup is said once. A crash, or files that could not be opened or written then, leave the
/// offset of a deleted group behind; group ids are never used again, so whatever the metadata does
/// not know is such a one.
void PartitionOwner::forget_lost_groups(PartitionRef ref, partitions::Partition& partition) {
    const metadata::Partition* row = metadata_.state().find_partition(ref.key);
    if (row == nullptr || row->incarnation != ref.incarnation) {
        return;  // it ended meanwhile, with all its offsets
    }
    const metadata::Topic* topic = topic_of(metadata_.state(), ref.key);
    partition.forget_groups(
        [topic](std::uint32_t group) { return !topic->groups.contains(model::GroupId{group}); });
}

bool PartitionOwner::holds(const GroupFence& fence, PartitionKey key) const noexcept {
    const model::PartitionAddress address = model::unpack_partition_key(key);
    const metadata::ConsumerGroup* group = metadata_.state().find_group(metadata::GroupAddress{
        .stream = address.stream, .topic = address.topic, .group = fence.group});
    return group != nullptr && group->assignment.owns(fence.client, address.partition);
}

Task<Result<Offset>> PartitionOwner::append(PartitionRef ref, partitions::AppendRequest request) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle partition, co_await find(ref));
    Result<Offset> base = co_await partition->append(std::move(request));
    co_return told(std::move(base));
}

Task<Result<partitions::PollResult>> PartitionOwner::poll(PartitionRef ref,
                                                          partitions::PollRequest request,
                                                          std::optional<GroupFence> fence) {
    if (fence.has_value() && !holds(*fence, ref.key)) {
        co_return fail(ErrorCode::kConsumerGroupPartitionNotOwned);
    }
    GALGO_CO_TRY_ASSIGN(PartitionHandle partition, co_await find(ref));
    Result<partitions::PollResult> result = co_await partition->poll(request);
    co_return told(std::move(result));
}

Task<Result<std::optional<partitions::StoredOffset>>> PartitionOwner::offset(
    OffsetCommand command) {
    if (command.fence.has_value() && !holds(*command.fence, command.partition.key)) {
        co_return fail(ErrorCode::kResourceNotFound);
    }
    GALGO_CO_TRY_ASSIGN(PartitionHandle partition, co_await find(command.partition));
    switch (command.action) {
        case OffsetAction::kGet:
            co_return partition->stored_offset(command.consumer);
        case OffsetAction::kStore: {
            const Status stored =
                co_await partition->store_offset(command.consumer, command.offset);
            GALGO_CO_TRY(told(stored));
            co_return std::nullopt;
        }
        case OffsetAction::kDelete: {
            const Status deleted = co_await partition->delete_offset(command.consumer);
            GALGO_CO_TRY(told(deleted));
            co_return std::nullopt;
        }
    }
    co_return fail(ErrorCode::kInvalidCommand);
}

Task<Status> PartitionOwner::delete_segments(PartitionRef ref, std::uint32_t count) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle partition, co_await find(ref));
    const Status deleted = co_await partition->delete_segments(count);
    co_return told(deleted);
}

Task<void> PartitionOwner::retire(RetirePartition command) {
    co_await table_.retire(command.key, command.keep_from, command.deleted);
}

Task<void> PartitionOwner::forget_group(ForgetGroup command) {
    const metadata::Partition* row = metadata_.state().find_partition(command.key);
    if (row == nullptr) {
        co_return;
    }
    Result<PartitionHandle> partition =
        co_await find(PartitionRef{.key = command.key, .incarnation = row->incarnation});
    if (partition.has_value()) {
        const Status deleted =
            co_await (*partition)
                ->delete_offset({.kind = wire::ConsumerKind::kGroup, .id = command.group.value()});
        static_cast<void>(deleted);  // 3021: the group never stored one
    }
}

Task<void> PartitionOwner::open_existing(std::uint16_t shard_count, ShardIndex self,
                                         const storage::JournalReplay& replay) {
    for (const metadata::Stream& stream : metadata_.state().streams().rows()) {
        for (const metadata::Topic& topic : stream.topics.rows()) {
            for (std::uint32_t i = 0; i < topic.partition_count(); ++i) {
                const PartitionKey key =
                    model::pack_partition_key(stream.id, topic.id, model::PartitionId{i});
                const Incarnation incarnation = topic.partitions[i].incarnation;
                if (wire::shard_of(key, shard_count) == self &&
                    (table_.has_files(key, incarnation) ||
                     replay.find(key, incarnation) != nullptr)) {
                    unopened_.push_back({.key = key, .incarnation = incarnation});
                }
            }
        }
    }
    co_await open_unopened();
}

/// One partition that cannot be opened is reported, and tried again later; the others are served.
/// Several wait for their disk side by side; each holds a few files, and a few MiB while it reads.
Task<void> PartitionOwner::open_unopened() {
    const std::vector<PartitionRef> tried = unopened_;
    std::size_t next = 0;
    const auto left =
        co_await coro::all(open_next(tried, next), open_next(tried, next), open_next(tried, next),
                           open_next(tried, next), open_next(tried, next), open_next(tried, next),
                           open_next(tried, next), open_next(tried, next));
    unopened_.clear();
    std::apply(
        [this](const auto&... part) {
            (unopened_.insert(unopened_.end(), part.begin(), part.end()), ...);
        },
        left);
}

/// One of those side by side: takes the next one until none is left. Those that could not be
/// opened.
Task<std::vector<PartitionRef>> PartitionOwner::open_next(const std::vector<PartitionRef>& tried,
                                                          std::size_t& next) {
    std::vector<PartitionRef> left;
    while (next < tried.size()) {
        const PartitionRef ref = tried[next++];
        const Result<PartitionHandle> opened = co_await find(ref);
        const metadata::Partition* row = metadata_.state().find_partition(ref.key);
        const bool lives = row != nullptr && row->incarnation == ref.incarnation;
        if (!opened.has_value() && lives) {
            left.push_back(ref);
        }
    }
    co_return left;
}

Task<void> PartitionOwner::complete_recovery() {
    co_await open_unopened();
    co_await table_.complete_recovery();
}

}  // namespace galgo::shard

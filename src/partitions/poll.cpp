// The read path of a partition: strategy -> start offset -> plan -> slices. The plan is built
// without suspending, so it sees one state of the log; what it holds stays readable while it is
// carried out.
#include <algorithm>

#include "partitions/partition.hpp"

namespace galgo::partitions {

using coro::Task;

/// Where the strategy begins, not yet clamped to what is retained.
Task<Result<Partition::Start>> Partition::start_of(const PollRequest& request) {
    switch (request.strategy.kind) {
        case wire::PollingKind::kOffset:
            co_return Start{.offset = Offset{request.strategy.value}, .is_named = true};
        case wire::PollingKind::kTimestamp: {
            GALGO_CO_TRY_ASSIGN(const Offset found, co_await log_->offset_at_or_after(
                                                        Timestamp{request.strategy.value}));
            co_return Start{.offset = found};
        }
        case wire::PollingKind::kFirst:
            co_return Start{.offset = log_->first_offset()};
        case wire::PollingKind::kLast: {
            const std::uint64_t end = log_->committed_end().value();
            co_return Start{.offset = Offset{end - std::min<std::uint64_t>(end, request.count)}};
        }
        case wire::PollingKind::kNext: {
            if (offsets_.is_damaged(request.consumer)) {
                co_return fail(ErrorCode::kCannotReadConsumerOffsets);
            }
            const std::optional<Offset> stored = offsets_.find(request.consumer);
            if (stored.has_value()) {
                co_return Start{.offset = stored->next(), .is_named = true};
            }
            co_return Start{.offset = log_->first_offset()};
        }
    }
    co_return fail(ErrorCode::kInvalidCommand);
}

Task<Result<PollResult>> Partition::poll(PollRequest request) {
    PollResult result{.current_offset = current_offset()};
    if (request.count == 0) {
        co_return result;
    }
    GALGO_CO_TRY_ASSIGN(const Start wanted, co_await start_of(request));
    // A named offset goes to the log as it is: the first message there is follows it, unless what
    // lies between was lost.
    const Offset start =
        wanted.is_named ? wanted.offset : std::max(wanted.offset, log_->first_offset());
    result.current_offset = current_offset();
    if (start >= log_->committed_end() && !(wanted.is_named && log_->is_lost(start))) {
        co_return result;
    }
    storage::ReadPlan plan =
        log_->plan_read(start, request.count, request.bytes_max, log_->committed_end());
    plan.begins_anywhere = !wanted.is_named;
    GALGO_CO_TRY_ASSIGN(result.read, co_await log_->read(std::move(plan)));
    if (request.auto_commit && result.read.message_count > 0) {
        // Messages without their commit would come again with every poll of "next", and nobody
        // would know why.
        if (!may_store(request.consumer)) {
            co_return fail(ErrorCode::kTooManyConsumerOffsets);
        }
        const Offset last{result.read.next.value() - 1};
        if (offsets_.raise(request.consumer, last) && !background_.closed()) {
            background_.spawn(auto_commit, coro::Anchor<Partition>(*this), request.consumer, last);
        }
    }
    co_return result;
}

}  // namespace galgo::partitions

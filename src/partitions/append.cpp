// The append path of a partition: encrypt when asked to, admit, stamp, write, commit, confirm.
#include "partitions/detail/append.hpp"

#include "model/ids.hpp"
#include "observe/histogram.hpp"
#include "partitions/partition.hpp"
#include "wire/batch.hpp"

namespace galgo::partitions {

using coro::Task;

Task<Result<Offset>> Partition::append(AppendRequest request) {
    const Instant began = environment_.loop.io().now();
    // As the producer sealed it. The stamped batch does not have that sum any more, so nobody can
    // compute it again: enough for a group of one, where nobody has to.
    const std::uint64_t checksum = wire::sealed_checksum(request.batch.bytes());
    if (admission_.is_full()) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    const Admission::Place place = co_await admission_.enter();
    if (lags_behind()) [[unlikely]] {
        co_await catch_up();
    }
    const RetryTable::Send send{.partition = key_,
                                .incarnation = incarnation_,
                                .producer = request.producer,
                                .checksum = checksum};
    RetryTable::Begun sent = environment_.retries.begin(send);
    while (sent.found == RetryTable::Found::kInFlight) {
        co_await environment_.retries.settled().wait();
        sent = environment_.retries.begin(send);
    }
    if (sent.found == RetryTable::Found::kConfirmed) {
        co_return sent.base;
    }
    if (sent.found == RetryTable::Found::kFull) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    const bool encrypted = environment_.storage.encryption != nullptr;
    if (encrypted) {
        const std::optional<Error>& fence = log_->fenced();
        if (fence.has_value() && fence->retry == RetryClass::kNever) {
            co_return std::unexpected(*fence);  // before 64 MB are encrypted for nothing
        }
        GALGO_CO_TRY_ASSIGN(request.batch, co_await log_->encrypt(std::move(request.batch)));
    }
    Append append(environment_.storage.ready);
    GALGO_CO_TRY(
        driver_.admit(append, environment_.loop.wall_now(), consensus::BodyDigest(checksum)));
    const Offset base = next_offset_;
    append.end = base.plus(request.message_count);
    next_offset_ = append.end;
    // From here to the log without a suspension: offsets enter it in the order in which they were
    // given.
    const wire::BatchStamp stamp{.partition = model::unpack_partition_key(key_).partition,
                                 .base_offset = base,
                                 .base_timestamp = append.timestamp()};
    if (encrypted) {
        storage::stamp_encrypted(request.batch.mutable_bytes(), stamp);
    } else {
        wire::stamp_batch(request.batch.mutable_bytes(), stamp);
    }
    const Status written = co_await log_->append({.bytes = std::move(request.batch),
                                                  .base = base,
                                                  .count = request.message_count,
                                                  .timestamp = append.timestamp(),
                                                  .op = append.op(),
                                                  .commit_op = driver_.group().commit(),
                                                  .view = driver_.group().view()});
    driver_.appended(append, written.has_value(), [this](replication::Proposal& proposal) {
        on_commit(static_cast<Append&>(proposal));
    });
    co_await append.settled();
    if (append.outcome() != ErrorCode::kOk) {
        co_return std::unexpected(written.has_value() ? Error{.code = append.outcome()}
                                                      : written.error());
    }
    sent.pending.confirm(base);
    observe::record_time(environment_.commit_times, began, environment_.loop.io().now());
    co_return base;
}

/// Makes the proposal visible. Its predecessors are visible already.
void Partition::on_commit(Append& append) {
    if (append.end != Offset{0}) {
        log_->commit(append.op());
        publish_counters();
    }
    append.settle(ErrorCode::kOk);
}

}  // namespace galgo::partitions

// Appending to a partition's log, commit, fence, figures.
#include "storage/partition_log.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/full_disk.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

/// Smaller batches are copied into a shared chunk, so that one message does not pin a page.
constexpr std::size_t kPackBytesMax = 2 * kKiB;
/// At most one line in so long tells that a partition refuses what may pass.
constexpr std::uint64_t kPassingFenceLineNs = 60 * kSecond;
/// Of a damaged segment that does not say how new it is.
constexpr Timestamp kNoTimestamp{~std::uint64_t{0}};

/// A file could not be opened now, or the kernel had no memory for the request.
bool is_shortage(const Error& error) noexcept {
    return error.os_errno == EMFILE || error.os_errno == ENFILE || error.os_errno == ENOMEM;
}

}  // namespace

PartitionLog::PartitionLog(StorageContext& context, std::string root, std::string directory,
                           PartitionKey partition, Incarnation incarnation, LogOptions options)
    : context_(context),
      root_(std::move(root)),
      directory_(std::move(directory)),
      partition_(partition),
      incarnation_(incarnation),
      options_(options),
      log_number_(context.next_log_number()),
      making_directory_(context.ready, 1),
      trimming_(context.ready, 1),
      encrypting_(context.ready, 1),
      flush_done_(context.ready),
      sync_done_(context.ready),
      scope_(context.ready) {
    GALGO_CHECK(options_.segment_size > 0 && options_.segment_size <= kIndexPositionMax);
    GALGO_CHECK(options_.messages_required_to_save > 0 && options_.size_required_to_save > 0);
}

PartitionLog::~PartitionLog() {
    GALGO_DCHECK(!flush_running_ && !sync_running_);
    context_.files.forget_log(log_number_);
}

std::uint64_t PartitionLog::place_in_tail(StampedBatch& batch) {
    memory::BufRef bytes = std::move(batch.bytes);
    if (bytes.size() < kPackBytesMax) {
        Result<memory::BufRef> packed = context_.packer.pack(bytes.bytes());
        if (packed.has_value()) {
            bytes = std::move(*packed);  // otherwise the batch keeps its page
        }
    }
    tail_bytes_ += bytes.size();
    tail_messages_ += batch.count;
    end_offset_ = batch.base.plus(batch.count);
    last_timestamp_ = std::max(last_timestamp_, batch.timestamp);
    tail_.push_back({.bytes = std::move(bytes),
                     .base = batch.base,
                     .count = batch.count,
                     .timestamp = batch.timestamp,
                     .op = batch.op});
    uncommitted_.push_back({.op = batch.op, .end = end_offset_});
    return tail_first_id_ + tail_.size() - 1;
}

Task<Status> PartitionLog::append(StampedBatch batch) {
    GALGO_CHECK(batch.count > 0 && batch.bytes.size() >= wire::kBatchSizeMin);
    if (closed_) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    if (fence_.has_value()) {
        const bool open_again = co_await try_unfence();
        if (!open_again) {
            co_return std::unexpected(*fence_);
        }
    }
    if (batch.base < end_offset_) {
        co_return fail(ErrorCode::kInvalidOffset);
    }
    const bool bulk = batch.bytes.size() >= kBulkBatchBytes;
    const JournalRecord record{.kind = bulk ? JournalKind::kBatchNamed : JournalKind::kBatch,
                               .partition = partition_,
                               .incarnation = incarnation_,
                               .op = batch.op,
                               .commit_op = batch.commit_op,
                               .view = batch.view,
                               .base_offset = batch.base,
                               .message_count = batch.count,
                               .timestamp = batch.timestamp,
                               .batch_checksum = load<std::uint64_t>(batch.bytes.bytes(), 40),
                               .batch_length = batch.bytes.size()};
    const std::uint64_t id = place_in_tail(batch);
    if (bulk) {
        const Status status = co_await append_bulk(id, record);
        co_return status;
    }
    const Result<std::uint64_t> journaled =
        co_await context_.journal.append(record, find_tail(id)->bytes, options_.persisted);
    if (!journaled.has_value()) {
        fail_batch(id);
        co_return std::unexpected(journaled.error());
    }
    note_journaled(id, *journaled);
    co_return Status{};
}

/// The bytes go to the segment while the journal gets the name.
Task<Status> PartitionLog::append_bulk(std::uint64_t id, JournalRecord record) {
    auto [written, named] = co_await coro::all(write_bulk(id), name_in_journal(id, record));
    if (!written.has_value()) {
        fail_batch(id);
        if (named.has_value()) {
            // A later commit must not make the name look like a loss.
            record.kind = JournalKind::kBatchDropped;
            const Result<std::uint64_t> dropped =
                co_await context_.journal.append(record, {}, options_.persisted);
            if (dropped.has_value()) {
                context_.journal.release(*dropped, 1);
            }
        }
        co_return written;
    }
    co_return named;
}

Task<Status> PartitionLog::write_bulk(std::uint64_t id) {
    GALGO_CO_TRY(co_await flush_until(id));
    if (options_.persisted) {
        const Status synced = co_await sync_until(written_total_);
        co_return synced;
    }
    // The unsynced tail stays bounded by the save threshold, without anybody waiting for it.
    if (written_total_ - synced_total_ >= options_.size_required_to_save) {
        start_background_sync();
    }
    co_return Status{};
}

Task<Status> PartitionLog::name_in_journal(std::uint64_t id, JournalRecord record) {
    const Result<std::uint64_t> journaled =
        co_await context_.journal.append(record, {}, options_.persisted);
    GALGO_CO_TRY(journaled);
    note_journaled(id, *journaled);
    co_return Status{};
}

PartitionLog::TailBatch* PartitionLog::find_tail(std::uint64_t id) noexcept {
    const std::uint64_t index = id - tail_first_id_;  // wraps for one that has left
    return index < tail_.size() ? &tail_[index] : nullptr;
}

/// The record of a batch is in the journal; the batch itself may have reached its segment already.
void PartitionLog::note_journaled(std::uint64_t id, std::uint64_t journal_sequence) {
    TailBatch* batch = find_tail(id);
    if (batch == nullptr || (batch->failed && !batch->writing)) {
        release_records(journal_sequence, 1);
    } else {
        batch->journal_sequence = journal_sequence;
    }
}

void PartitionLog::fail_batch(std::uint64_t id) {
    TailBatch* batch = find_tail(id);
    if (batch == nullptr) {
        return;
    }
    batch->failed = true;
    if (batch->journal_sequence != 0) {
        context_.journal.release(std::exchange(batch->journal_sequence, 0), 1);
    }
    if (!flush_running_) {
        drop_failed_front();
    }
}

/// Records of bytes that are in a segment: gone at once, or when the segment is stable.
void PartitionLog::release_records(std::uint64_t journal_sequence, std::uint32_t count) {
    if (!options_.persisted || synced_total_ == written_total_) {
        context_.journal.release(journal_sequence, count);
        return;
    }
    if (!pending_releases_.empty() && pending_releases_.back().written_mark == written_total_ &&
        pending_releases_.back().journal_sequence == journal_sequence) {
        pending_releases_.back().count += count;
        return;
    }
    pending_releases_.push_back(
        {.written_mark = written_total_, .journal_sequence = journal_sequence, .count = count});
}

void PartitionLog::commit(OpNumber op) {
    committed_op_ = std::max(committed_op_, op);
    while (!uncommitted_.empty() && uncommitted_.front().op <= committed_op_) {
        committed_end_ = std::max(committed_end_, uncommitted_.pop_front().end);
    }
    flush_if_due();
}

void PartitionLog::fence(const Error& error, const char* what) {
    const bool shortage = is_shortage(error);
    const bool passes = shortage || detail::is_full_disk(error);
    if (passes && fence_.has_value() && !fence_is_temporary_) {
        return;  // what is for good stays for good
    }
    if (!fence_.has_value() || (fence_is_temporary_ && !passes)) {
        tell_fence(error, what, passes);
    }
    // Clients repeat by themselves what was not accepted: right where it passes in moments.
    fence_ =
        Error{.code = shortage ? ErrorCode::kTransientNotAccepted : ErrorCode::kCannotAppendMessage,
              .os_errno = error.os_errno,
              .retry = passes ? RetryClass::kSameNode : RetryClass::kNever};
    fence_is_temporary_ = passes;
    fence_reason_ = what;
    fenced_at_ = context_.io.now();
}

/// What passes by itself (a full disk) is probed by appends, once a second; the log says so once a
/// minute.
void PartitionLog::tell_fence(const Error& error, const char* what, bool passes) {
    const Instant now = context_.io.now();
    if (passes && fence_told_at_ != Instant{0} && now < fence_told_at_.plus(kPassingFenceLineNs)) {
        return;
    }
    fence_told_at_ = passes ? now : fence_told_at_;
    fence_told_last_ = true;
    observe::log_error("storage", "partition takes no more appends",
                       {{"directory", directory_}, {"what", what}, {"errno", error.os_errno}});
}

/// After a write reached the segment: not before, because lifting the fence may be the probe.
void PartitionLog::tell_recovery() {
    if (fence_told_last_) {
        fence_told_last_ = false;
        observe::log_info("storage", "partition takes appends again", {{"directory", directory_}});
    }
}

std::string PartitionLog::fence_text() const {
    return fence_.has_value() ? std::string(fence_reason_) + ": " + to_string(*fence_)
                              : std::string();
}

/// A second after a full disk or a shortage: the tail that could not be written is the probe.
Task<bool> PartitionLog::try_unfence() {
    if (!fence_is_temporary_ || unfencing_ || context_.io.now() < fenced_at_.plus(kSecond)) {
        co_return false;
    }
    unfencing_ = true;
    while (flush_running_) {
        co_await flush_done_.wait();
    }
    drop_failed_front();
    Status probed;
    if (!tail_.empty()) {
        probed = co_await flush_once(tail_first_id_ + tail_.size() - 1);
    }
    unfencing_ = false;
    // A sync that failed meanwhile has fenced for good.
    if (!probed.has_value() || closed_ || !fence_is_temporary_) {
        co_return false;
    }
    fence_.reset();
    co_return true;
}

bool PartitionLog::pins_journal(std::uint64_t first, std::uint64_t last) const noexcept {
    for (std::size_t i = 0; i < tail_.size(); ++i) {
        const std::uint64_t sequence = tail_[i].journal_sequence;
        if (sequence > last) {
            break;  // sequences ascend with the batches
        }
        if (sequence != 0 && sequence >= first) {
            return true;
        }
    }
    // Older than the tail: written, and not stable yet.
    return std::ranges::any_of(pending_releases_, [first, last](const PendingRelease& release) {
        return release.journal_sequence >= first && release.journal_sequence <= last;
    });
}

Offset PartitionLog::flushed_end() const noexcept {
    return segments_.empty() ? low_ : segments_.back().end;
}

KnownEnds PartitionLog::written_ends() const noexcept {
    if (!recovery_complete_) {  // an end that is not named yet could not be found again
        return known_;
    }
    return {.files = std::max(flushed_end(), known_.files),
            .all = std::max(committed_end_, known_.all)};
}

KnownEnds PartitionLog::stable_ends() const noexcept {
    if (!options_.persisted || !recovery_complete_) {
        return {};
    }
    return {.files = stable_end_, .all = committed_end_};
}

bool PartitionLog::has_segment(Offset start) const noexcept {
    return std::ranges::binary_search(segments_, start, {}, &Segment::start);
}

Offset PartitionLog::first_offset() const noexcept {
    for (const Segment& segment : segments_) {
        if (segment.size_bytes != 0) {
            return segment.first;
        }
    }
    for (std::size_t i = 0; i < tail_.size(); ++i) {
        if (!tail_[i].failed) {
            return tail_[i].base;
        }
    }
    return end_offset_;
}

PartitionLog::SegmentTotals PartitionLog::sum_segments() const noexcept {
    SegmentTotals sum;
    for (const Segment& segment : segments_) {
        sum.bytes += segment.size_bytes;
        sum.messages += segment.message_count();
    }
    return sum;
}

LogStats PartitionLog::stats() const noexcept {
    GALGO_DCHECK(totals_ == sum_segments());
    return {.message_count = totals_.messages + tail_messages_,
            .bytes = totals_.bytes + tail_bytes_,
            .sealed_bytes = segments_.empty() ? 0 : totals_.bytes - segments_.back().size_bytes,
            .segment_count = static_cast<std::uint32_t>(segments_.size()),
            .tail_bytes = tail_bytes_,
            .unsynced_bytes = written_total_ - synced_total_};
}

SegmentFacts PartitionLog::segment(std::size_t index) const noexcept {
    const Segment& segment = segments_[index];
    Timestamp last = segment.last_timestamp;
    for (std::size_t i = index + 1; last == kNoTimestamp && i < segments_.size(); ++i) {
        if (segments_[i].first_timestamp != Timestamp{0}) {  // damaged; times do not descend
            last = segments_[i].first_timestamp;
        }
    }
    if (last == kNoTimestamp) {
        last = last_timestamp_;
    }
    return {.start = segment.start,
            .end = segment.end,
            .size_bytes = segment.size_bytes,
            .last_timestamp = last,
            .sealed = index + 1 < segments_.size() || last_is_sealed_};
}

Task<Status> PartitionLog::force_flush() {
    drop_failed_front();
    if (tail_.empty()) {
        co_return Status{};
    }
    const Status flushed = co_await flush_until(tail_first_id_ + tail_.size() - 1);
    co_return flushed;
}

Task<Status> PartitionLog::flush_and_sync() {
    GALGO_CO_TRY(co_await force_flush());
    const Status synced = co_await sync_until(written_total_);
    co_return synced;
}

Task<Status> PartitionLog::release_journal() {
    if (fence_.has_value()) {
        const bool open_again = co_await try_unfence();
        if (!open_again) {
            co_return fence_.has_value() ? std::unexpected(*fence_)
                                         : fail(ErrorCode::kTransientNotAccepted);
        }
    }
    GALGO_CO_TRY(co_await force_flush());
    if (options_.persisted) {
        GALGO_CO_TRY(co_await sync_until(written_total_));
    }
    co_return Status{};
}

Task<Status> PartitionLog::close() {
    Status status;
    if (fence_.has_value() && !fence_is_temporary_) {
        status = std::unexpected(*fence_);
    } else {
        fence_.reset();  // the last try
        status = co_await flush_and_sync();
    }
    if (!status.has_value()) {  // what was written before it counts all the same
        (void)co_await sync_fenced();
    }
    closed_ = true;
    co_await quiesce();
    co_await scope_.close();
    if (status.has_value() && writer_.index_file && synced_total_ == written_total_) {
        name_last_batch();
        (void)co_await write_index(writer_, segments_.back().size_bytes);
        (void)co_await runtime::sync(context_.io, writer_.index_file.handle());
    }
    if (!status.has_value() && keeps_acknowledged()) {
        if (!tail_.empty() || !pending_releases_.empty()) {
            observe::log_warn("storage", "the journals keep what the segments could not take",
                              {{"directory", directory_}, {"error", to_string(status.error())}});
        }
        status = {};
    }
    writer_ = Writer{};
    context_.files.forget_log(log_number_);
    tail_.clear();
    uncommitted_.clear();
    co_return status;
}

/// Will the next start find all that was acknowledged? No append and no flush is on its way. When
/// stable storage was promised, the journals have the records of what is not synced; otherwise they
/// were given up with the write.
bool PartitionLog::keeps_acknowledged() const noexcept {
    for (std::size_t i = 0; i < tail_.size(); ++i) {
        const TailBatch& batch = tail_[i];
        if (!batch.failed && batch.journal_sequence == 0 && !batch.in_old_journals) {
            return false;
        }
    }
    return synced_total_ == written_total_ || options_.persisted;
}

}  // namespace galgo::storage

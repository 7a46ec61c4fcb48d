// Opening a partition's log: what the journals know is merged with what its files have.
#include <algorithm>
#include <format>
#include <utility>

#include "observe/log.hpp"
#include "storage/detail/recovery.hpp"
#include "storage/partition_log.hpp"
#include "storage/stored_batch.hpp"

namespace galgo::storage {

using coro::Task;
using detail::end_of;
using memory::BufRef;

namespace {

/// Recovered bytes that wait in memory before they are written.
constexpr std::uint64_t kHealBytesMax = 8 * kMiB;

}  // namespace

/// `op`: of its record in the journals; 0 when it comes from behind damage in a segment.
void PartitionLog::place_recovered(BufRef bytes, const wire::BatchHeader& header, OpNumber op) {
    StampedBatch batch{.bytes = std::move(bytes),
                       .base = Offset(header.base_offset),
                       .count = header.message_count,
                       .timestamp = Timestamp(header.base_timestamp_us),
                       .op = op};
    const Offset end = std::max(end_offset_, end_of(header));  // place_in_tail names its own end
    (void)place_in_tail(batch);
    tail_[tail_.size() - 1].in_old_journals = op != OpNumber{0};
    end_offset_ = end;
    recovery_complete_ = false;  // until it is in a segment
}

/// Of the messages in [`from`, `end`) some were there, and nobody has them now.
void PartitionLog::tell_missing(Offset from, Offset end) {
    if (!is_lost(from)) {  // else it was told, and by whom
        note_damage(std::format(
            "{} had messages up to offset {}, and from {} on some are gone: its files were cut, "
            "removed or replaced by older ones; restore them, or purge the partition",
            directory_, std::max(known_.all, known_.files).value() - 1, from.value()));
    }
    intact_end_ = std::min(intact_end_, from);
    note_lost(from, end);
    end_is_unnamed_ = true;
}

/// The segments end before they did. What comes behind their former end goes to a new one: the file
/// that lacks messages may come back. A failure fences the log.
Task<void> PartitionLog::begin_behind_cut() {
    const Status flushed = co_await force_flush();
    if (flushed.has_value() && !segments_.empty() && !last_is_sealed_ &&
        segments_.back().size_bytes != 0) {
        flush_running_ = true;
        (void)co_await seal();
        flush_running_ = false;
        flush_done_.wake_all();
    }
}

/// The last log is another one than it was. Does the right one have the batch, or may nothing be
/// written under its name?
bool PartitionLog::may_be_elsewhere(Offset base) const {
    return known_.files == Offset{0} || base < known_.files || is_occupied(base);
}

Task<Status> PartitionLog::heal(const JournalFacts* facts, const JournalReplay* replay,
                                std::vector<Salvaged>& salvaged) {
    Offset have = flushed_end();
    bool missing_acknowledged = false;
    bool was_stable = has_stable_damage_;
    std::vector<LostRange> lost;
    std::size_t next_salvaged = 0;
    bool is_cut = have < known_.files;
    // What the segments had and do not have now, nor any journal, before a batch that is brought
    // in. Behind that a hole may be one of failed appends.
    const auto miss_before = [&](Offset limit) {
        if (have < std::min(limit, known_.files)) {
            tell_missing(have, std::min(limit, known_.files));
        }
    };
    const auto take_salvaged_before = [&](Offset limit) {
        while (next_salvaged < salvaged.size() && end_of(salvaged[next_salvaged].header) <= limit) {
            Salvaged& batch = salvaged[next_salvaged++];
            if (batch.header.base_offset >= have.value()) {
                miss_before(Offset(batch.header.base_offset));
                have = end_of(batch.header);
                ++recovery_.salvaged_batch_count;
                place_recovered(std::move(batch.bytes), batch.header, OpNumber{0});
            }
        }
    };
    const std::size_t count = facts == nullptr ? 0 : facts->batches.size();
    for (std::size_t i = 0; i < count; ++i) {
        const JournaledBatch& batch = facts->batches[i];
        if (batch.end() <= have) {
            // In the segment already; but where that is damaged this may be the only copy.
            if (batch.has_body() && batch.end() > intact_end_) {
                replay->keep_files();
            }
            continue;
        }
        take_salvaged_before(batch.base_offset);
        while (next_salvaged < salvaged.size() &&
               salvaged[next_salvaged].header.base_offset < batch.base_offset.value()) {
            ++next_salvaged;  // overlaps what the journal names: the journal is right
        }
        if (next_salvaged < salvaged.size() &&
            salvaged[next_salvaged].header.base_offset == batch.base_offset.value() &&
            salvaged[next_salvaged].header.batch_checksum == batch.batch_checksum) {
            take_salvaged_before(batch.end());
            continue;
        }
        if ((end_is_occupied_ && may_be_elsewhere(batch.base_offset)) ||
            (batch.base_offset < have && has_stable_damage_)) {
            // Its place is taken by a file that is not touched; or the log was cut inside it, and
            // knew no more of it than its first offset. The journals stay.
            replay->keep_files();
            miss_before(batch.base_offset);
            note_lost(batch.base_offset, batch.end());
            have = batch.end();
            continue;
        }
        if (batch.base_offset < have) {
            observe::log_warn("storage", "the journal names a batch that overlaps the log",
                              {{"directory", directory_}, {"offset", batch.base_offset}});
            continue;
        }
        if (batch.has_body()) {
            Result<BufRef> body = co_await replay->read_body(context_.io, context_.pool, batch);
            if (!body.has_value() && body.error().code != ErrorCode::kCannotReadMessage) {
                co_return std::unexpected(body.error());
            }
            if (body.has_value()) {
                const Result<wire::BatchHeader> valid = validate_stored(body->bytes());
                if (valid.has_value() && is_ours(*valid) &&
                    valid->base_offset == batch.base_offset.value() &&
                    valid->message_count == batch.message_count) {
                    const wire::BatchHeader header = *valid;
                    miss_before(batch.base_offset);
                    if (batch.base_offset >= known_.files && std::exchange(is_cut, false)) {
                        co_await begin_behind_cut();
                    }
                    have = end_of(header);
                    ++recovery_.healed_batch_count;
                    place_recovered(std::move(*body), header, batch.op);
                    if (tail_bytes_ >= kHealBytesMax && !fence_.has_value()) {
                        (void)co_await force_flush();
                    }
                    continue;
                }
            }
        }
        // Named, but nowhere whole.
        recovery_.lost_message_count += batch.message_count;
        if (batch.op <= facts->committed_op) {
            missing_acknowledged = true;
            was_stable = was_stable || batch.is_of_this_boot;
        }
        was_stable = was_stable || batch.damaged;
        if (batch.op <= facts->committed_op || batch.damaged) {
            if (lost.empty() || lost.back().end != batch.base_offset) {
                lost.push_back({.from = batch.base_offset, .end = batch.base_offset});
            }
            lost.back().end = batch.end();
        }
    }
    take_salvaged_before(Offset(~std::uint64_t{0}));
    if (have < known_.all) {  // a batch ended there
        tell_missing(have, known_.all);
    }
    end_offset_ = std::max(end_offset_, known_.all);
    if (facts != nullptr) {
        end_offset_ = std::max(end_offset_, facts->end_named);
        committed_op_ = std::max(committed_op_, facts->last_op);
    }
    if (missing_acknowledged || was_stable) {
        // A log that acknowledges without waiting for the disk may lose its unsynced tail with the
        // power; one that waits cannot, so something has damaged it, and nobody shall write over
        // that.
        observe::log_error("storage", "batches that were acknowledged are missing",
                           {{"directory", directory_}, {"messages", recovery_.lost_message_count}});
        must_fence_ = must_fence_ || options_.persisted || was_stable;
        for (std::size_t i = 0; must_fence_ && i < lost.size(); ++i) {
            note_lost(lost[i].from, lost[i].end);
        }
    }
    co_return Status{};
}

}  // namespace galgo::storage

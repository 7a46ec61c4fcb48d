// Stored offsets: checks, the journal record of each change, the checkpoint of their files.
#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "crypto/hash.hpp"
#include "partitions/detail/append.hpp"
#include "partitions/partition.hpp"
#include "storage/offsets_file.hpp"

namespace galgo::partitions {

using coro::Task;

namespace {

/// Over kind, id, and the offset or its absence.
consensus::BodyDigest digest_of_change(ConsumerKey consumer, std::optional<Offset> offset) {
    std::array<std::byte, 16> hashed{};
    const MutableBytes bytes(hashed);
    store<std::uint8_t>(bytes, 0, static_cast<std::uint8_t>(consumer.kind));
    store<std::uint8_t>(bytes, 1, offset.has_value() ? 1 : 0);
    store<std::uint32_t>(bytes, 4, consumer.id);
    store<std::uint64_t>(bytes, 8, offset.value_or(Offset{0}).value());
    return consensus::BodyDigest(crypto::xxh3_64(bytes));
}

}  // namespace

Result<std::optional<StoredOffset>> Partition::stored_offset(ConsumerKey consumer) const {
    if (offsets_.is_damaged(consumer)) {
        return fail(ErrorCode::kCannotReadConsumerOffsets);
    }
    const std::optional<Offset> stored = offsets_.find(consumer);
    if (!stored.has_value()) {
        return std::nullopt;
    }
    return StoredOffset{.current = current_offset(), .stored = *stored};
}

bool Partition::may_store(ConsumerKey consumer) const {
    const std::set<ConsumerKey>& unknown = offsets_.damaged();  // they keep their place
    const auto damaged =
        static_cast<std::size_t>(std::ranges::count(unknown, consumer.kind, &ConsumerKey::kind));
    return environment_.consumer_offsets_max == 0 || offsets_.find(consumer).has_value() ||
           unknown.contains(consumer) || offsets_.is_coming(consumer) ||
           offsets_.count(consumer.kind) + offsets_.count_coming(consumer.kind) + damaged <
               environment_.consumer_offsets_max;
}

Task<Status> Partition::store_offset(ConsumerKey consumer, Offset offset) {
    if (offset >= log_->committed_end()) {
        co_return fail(ErrorCode::kInvalidOffset);
    }
    if (!may_store(consumer)) {
        co_return fail(ErrorCode::kTooManyConsumerOffsets);
    }
    // Others may ask for the last place while this one is on its way into the journal.
    offsets_.begin_store(consumer);
    const Status stored = co_await journal_offset(consumer, offset, false);
    offsets_.end_store(consumer);
    co_return stored;
}

Task<Status> Partition::delete_offset(ConsumerKey consumer) {
    if (!offsets_.find(consumer).has_value() && !offsets_.is_damaged(consumer)) {
        co_return fail(ErrorCode::kConsumerOffsetNotFound);
    }
    co_return co_await journal_offset(consumer, std::nullopt, false);
}

void Partition::forget_groups(UniqueFunction<bool(std::uint32_t group)> is_gone) {
    std::vector<ConsumerKey> gone;
    for (const auto& [consumer, entry] : offsets_.entries()) {
        if (consumer.kind == wire::ConsumerKind::kGroup && is_gone(consumer.id)) {
            gone.push_back(consumer);
        }
    }
    for (const ConsumerKey& consumer : offsets_.damaged()) {
        if (consumer.kind == wire::ConsumerKind::kGroup && is_gone(consumer.id)) {
            gone.push_back(consumer);
        }
    }
    for (const ConsumerKey& consumer : gone) {
        offsets_.erase(consumer, OpNumber{~std::uint64_t{0}});
    }
    if (!gone.empty() && !is_linked()) {
        environment_.dirty.push_back(*this);
    }
}

/// Takes a change through the group and the journal, and applies it when it is committed (one that
/// `is_raised` stands in memory already, and gives way to nothing that was admitted before it). Its
/// record counts for the next checkpoint only then: a checkpoint that ran in between would give the
/// record up without having written the value.
Task<Status> Partition::journal_offset(ConsumerKey consumer, std::optional<Offset> offset,
                                       bool is_raised) {
    // What stands in memory already has no op until it is admitted: it does not wait for that.
    if (is_raised ? !admission_.has_place() || lags_behind() : admission_.is_full()) {
        co_return fail(ErrorCode::kTransientNotAccepted);
    }
    const Admission::Place place = co_await admission_.enter();
    if (lags_behind()) [[unlikely]] {
        co_await catch_up();
    }
    Append change(environment_.storage.ready);
    GALGO_CO_TRY(
        driver_.admit(change, environment_.loop.wall_now(), digest_of_change(consumer, offset)));
    if (is_raised) {
        offsets_.note_op(consumer, *offset, change.op());
    }
    const storage::JournalRecord record{.kind = offset.has_value()
                                                    ? storage::JournalKind::kOffsetSet
                                                    : storage::JournalKind::kOffsetDelete,
                                        .consumer_kind = static_cast<std::uint8_t>(consumer.kind),
                                        .consumer_id = consumer.id,
                                        .partition = key_,
                                        .incarnation = incarnation_,
                                        .op = change.op(),
                                        .commit_op = driver_.group().commit(),
                                        .view = driver_.group().view(),
                                        .base_offset = offset.value_or(Offset{0}),
                                        .timestamp = change.timestamp()};
    const Result<std::uint64_t> written =
        co_await environment_.storage.journal.append(record, {}, options_.offsets_persisted);
    driver_.appended(change, written.has_value(), [this](replication::Proposal& proposal) {
        on_commit(static_cast<Append&>(proposal));
    });
    co_await change.settled();
    if (change.outcome() == ErrorCode::kOk) {
        if (is_raised) {
            offsets_.confirm(consumer, *offset, change.op());
        } else if (offset.has_value()) {
            offsets_.store(consumer, *offset, change.op());
        } else {
            offsets_.erase(consumer, change.op());
        }
        offsets_op_ = std::max(offsets_op_, change.op());
    }
    if (written.has_value()) {
        note_offset_record(*written);
    }
    if (change.outcome() == ErrorCode::kOk && offset.has_value()) {
        give_up_older_record(consumer, change.op(), *written);
    }
    if (change.outcome() != ErrorCode::kOk) {
        co_return std::unexpected(written.has_value() ? Error{.code = change.outcome()}
                                                      : written.error());
    }
    co_return Status{};
}

/// Remembers which journal files hold offset records, until a checkpoint makes them superfluous.
void Partition::note_offset_record(std::uint64_t journal_file) {
    if (offset_records_.empty() || offset_records_.back().file != journal_file) {
        offset_records_.push_back({.file = journal_file});
    }
    ++offset_records_.back().count;
    if (!is_linked()) {
        environment_.dirty.push_back(*this);
    }
}

/// The journal has a newer record of the consumer, in `journal_file`: the one before is not needed
/// any more. So a partition whose checkpoints fail holds one record a consumer, however long.
void Partition::give_up_older_record(ConsumerKey consumer, OpNumber op,
                                     std::uint64_t journal_file) {
    const auto found = offsets_.entries().find(consumer);
    if (found != offsets_.entries().end() && found->second.op == op) {
        forget_offset_record(std::exchange(found->second.record_file, journal_file));
    }
}

void Partition::forget_offset_record(std::uint64_t journal_file) {
    const auto found = std::ranges::find(offset_records_, journal_file, &OffsetRecords::file);
    if (journal_file == 0 || found == offset_records_.end()) {
        return;
    }
    if (--found->count == 0) {
        offset_records_.erase(found);
    }
    environment_.storage.journal.release(journal_file, 1);
}

Task<Status> Partition::checkpoint_offsets() {
    // One at a time: an older value must not be renamed over a newer one whose record is given up.
    co_await checkpointing_.acquire();
    const Status written = co_await write_checkpoint();
    checkpointing_.release();
    co_return written;
}

Task<Status> Partition::write_checkpoint() {
    // Taken first: what changes while the files are written belongs to the next checkpoint.
    unlink();
    const OpNumber op = offsets_op_;
    std::vector<OffsetRecords> records;
    std::swap(records, offset_records_);
    std::vector<ConsumerKey> erased;
    std::swap(erased, offsets_.erased());
    std::vector<ChangedOffset> changed;
    for (auto& [consumer, entry] : offsets_.entries()) {
        if (std::exchange(entry.changed, false)) {
            changed.push_back({.consumer = consumer,
                               .offset = entry.offset,
                               .record_file = std::exchange(entry.record_file, 0)});
        }
    }
    Status status;
    if (!changed.empty() || !erased.empty() || op > checkpoint_op_) {
        status = co_await log_->prepare_directory(options_.offsets_persisted);
    }
    if (status.has_value()) {
        status = co_await write_offset_files(changed, erased);
    }
    if (status.has_value() && op > checkpoint_op_) {
        status = co_await storage::write_offset_checkpoint(environment_.storage.io, offsets_home(),
                                                           op, options_.offsets_persisted);
    }
    if (!status.has_value()) {
        // The records stay in the journal and the changes are tried again.
        offsets_.erased().insert(offsets_.erased().end(), erased.begin(), erased.end());
        offset_records_.insert(offset_records_.begin(), records.begin(), records.end());
        for (const ChangedOffset& change : changed) {
            const auto found = offsets_.entries().find(change.consumer);
            if (found == offsets_.entries().end()) {
                continue;
            }
            found->second.changed = true;
            if (found->second.record_file == 0) {
                found->second.record_file = change.record_file;
            } else {
                forget_offset_record(change.record_file);
            }
        }
        if (!is_linked()) {
            environment_.dirty.push_back(*this);
        }
        co_return status;
    }
    checkpoint_op_ = std::max(checkpoint_op_, op);
    offsets_recovered_ = true;
    for (const OffsetRecords& in_file : records) {
        environment_.storage.journal.release(in_file.file, in_file.count);
    }
    co_return Status{};
}

storage::OffsetsHome Partition::offsets_home() const {
    return {.directory = directory_, .partition = key_, .incarnation = incarnation_};
}

Task<Status> Partition::write_offset_files(const std::vector<ChangedOffset>& changed,
                                           const std::vector<ConsumerKey>& erased) {
    runtime::IoBackend& io = environment_.storage.io;
    for (const ChangedOffset& change : changed) {
        GALGO_CO_TRY(co_await keep_damaged_file(change.consumer));
        GALGO_CO_TRY(co_await storage::write_offset_file(
            io, offsets_home(),
            {.owner = static_cast<storage::OffsetOwner>(change.consumer.kind),
             .id = change.consumer.id,
             .offset = change.offset},
            options_.offsets_persisted));
        offsets_.note_file(change.consumer);
    }
    for (const ConsumerKey& consumer : erased) {
        if (!offsets_.find(consumer).has_value()) {
            GALGO_CO_TRY(co_await keep_damaged_file(consumer));
            GALGO_CO_TRY(co_await storage::remove_offset_file(
                io, directory_, static_cast<storage::OffsetOwner>(consumer.kind), consumer.id,
                options_.offsets_persisted));
        }
    }
    co_return Status{};
}

/// What an operator may still want to look at is not replaced or deleted.
Task<Status> Partition::keep_damaged_file(ConsumerKey consumer) {
    const auto found = std::ranges::find(damaged_files_, consumer);
    if (found == damaged_files_.end()) {
        co_return Status{};
    }
    GALGO_CO_TRY(co_await storage::keep_damaged_offset(
        environment_.storage.io, directory_, static_cast<storage::OffsetOwner>(consumer.kind),
        consumer.id));
    std::erase(damaged_files_, consumer);
    co_return Status{};
}

/// The offset is raised in memory already; a record that cannot be written costs repeated messages
/// after a crash, never lost ones.
Task<void> Partition::auto_commit(coro::Anchor<Partition> partition, ConsumerKey consumer,
                                  Offset offset) {
    const Status journaled = co_await partition->journal_offset(consumer, offset, true);
    static_cast<void>(journaled);
}

}  // namespace galgo::partitions

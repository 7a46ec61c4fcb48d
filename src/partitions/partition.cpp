// A partition from its opening to its end: what the disk and the journals know of it, flush, close,
// drop. Its append, poll and offsets are in the other files of this class.
#include "partitions/partition.hpp"

#include <algorithm>
#include <set>

#include "base/units.hpp"
#include "observe/log.hpp"
#include "storage/offsets_file.hpp"

namespace galgo::partitions {

using coro::Task;

namespace {

/// A flush of a disk at work ends sooner.
constexpr std::uint64_t kReliefPatienceNs = 50 * kMillisecond;

}  // namespace

Partition::Partition(PartitionEnvironment& environment, std::string directory, PartitionKey key,
                     Incarnation incarnation, PartitionOptions options, PublishCounters publish,
                     std::unique_ptr<storage::PartitionLog> log, OpNumber head)
    : environment_(environment),
      directory_(std::move(directory)),
      key_(key),
      incarnation_(incarnation),
      options_(options),
      publish_(std::move(publish)),
      log_(std::move(log)),
      driver_(environment.pipelines, environment.group, consensus::GroupId(key.value()),
              incarnation,
              {.head = {.op = head}, .commit = {}, .last_timestamp = log_->last_timestamp()}),
      admission_(environment.storage.ready, environment.group.pipeline_max),
      checkpointing_(environment.storage.ready, 1),
      released_(environment.storage.ready),
      relieved_(environment.storage.ready),
      next_offset_(log_->end_offset()),
      background_(environment.storage.ready) {}

Partition::~Partition() {
    unlink();
}

Task<Result<std::unique_ptr<Partition>>> Partition::open(
    PartitionEnvironment& environment, std::string directory, PartitionKey key,
    Incarnation incarnation, PartitionOptions options, const storage::JournalReplay* replay,
    const storage::LedgerRow* claim, PublishCounters publish) {
    const storage::LogOptions log_options{
        .segment_size = options.segment_size_bytes,
        .messages_required_to_save = options.messages_required_to_save,
        .size_required_to_save = options.size_required_to_save_bytes,
        .persisted = options.persisted,
        .preallocate = options.preallocate,
        .validate_checksum = environment.validate_checksum};
    GALGO_CO_TRY_ASSIGN(
        std::unique_ptr<storage::PartitionLog> log,
        co_await storage::PartitionLog::open(
            environment.storage, environment.root, directory, key, incarnation, log_options, replay,
            claim == nullptr ? storage::KnownEnds{} : claim->written));
    // Not before: what an earlier life left in the directory has gone with the opening of the log.
    const Result<storage::LoadedOffsets> offsets = co_await storage::load_offsets(
        environment.storage.io,
        {.directory = directory, .partition = key, .incarnation = incarnation});
    if (!offsets.has_value()) {
        (void)co_await log->close();
        co_return std::unexpected(offsets.error());
    }
    const storage::JournalFacts* facts =
        replay == nullptr ? nullptr : replay->find(key, incarnation);
    // Above all that the disk knows: an op at or below the mark of the offsets would count as done.
    const OpNumber head =
        facts == nullptr ? offsets->checkpoint : std::max(facts->last_op, offsets->checkpoint);
    std::unique_ptr<Partition> partition(new Partition(environment, std::move(directory), key,
                                                       incarnation, options, std::move(publish),
                                                       std::move(log), head));
    co_await partition->load_offsets(*offsets, facts, claim);
    partition->publish_counters();
    co_return partition;
}

/// The checkpoint files, then the later changes that the journals of earlier runs tell of. Those
/// are written to the files; a disk that is full now costs the partition nothing but that its
/// journals stay (recovered()).
Task<void> Partition::load_offsets(const storage::LoadedOffsets& loaded,
                                   const storage::JournalFacts* facts,
                                   const storage::LedgerRow* claim) {
    checkpoint_op_ = loaded.checkpoint;
    offsets_op_ = loaded.checkpoint;
    for (const storage::ConsumerOffset& entry : loaded.offsets) {
        const ConsumerKey consumer{.kind = static_cast<wire::ConsumerKind>(entry.owner),
                                   .id = entry.id};
        offsets_.restore(consumer, entry.offset);
    }
    for (const storage::ConsumerOffset& entry : loaded.damaged) {
        const ConsumerKey consumer{.kind = static_cast<wire::ConsumerKind>(entry.owner),
                                   .id = entry.id};
        offsets_.set_damaged(consumer);
        damaged_files_.push_back(consumer);
        observe::log_error(
            "partitions",
            "the file of a stored offset is damaged; its consumer gets error 3020 until it stores "
            "or deletes its offset: restore the file and start again, or let it store one",
            {{"file", storage::offset_file_path(directory_, entry.owner, entry.id)}});
    }
    if (claim != nullptr) {
        miss_offsets(facts, *claim);
    }
    if (facts == nullptr) {
        co_return;
    }
    for (const storage::JournaledOffset& change : facts->offsets) {
        const ConsumerKey consumer{.kind = static_cast<wire::ConsumerKind>(change.consumer_kind),
                                   .id = change.consumer_id};
        if (change.op <= loaded.checkpoint) {
            continue;
        }
        offsets_op_ = std::max(offsets_op_, change.op);
        offsets_recovered_ = false;
        if (change.deleted) {
            offsets_.erase(consumer, change.op);
        } else {
            offsets_.store(consumer, change.offset, change.op);
        }
    }
    if (!offsets_recovered_) {
        const Status written = co_await checkpoint_offsets();
        if (!written.has_value()) {
            observe::log_warn("partitions", "stored offsets cannot be written now",
                              {{"directory", directory_}, {"error", to_string(written.error())}});
        }
    }
}

/// Stored offsets that had a file: where it is gone, and no journal says that it was deleted,
/// nobody knows what its consumer had stored.
void Partition::miss_offsets(const storage::JournalFacts* facts, const storage::LedgerRow& claim) {
    if (checkpoint_op_ > claim.offsets_op) {
        return;  // one of those may have been a deletion
    }
    std::set<ConsumerKey> told;  // by the journals, whatever they say
    if (facts != nullptr) {
        for (const storage::JournaledOffset& change : facts->offsets) {
            if (change.deleted || change.op > checkpoint_op_) {
                told.insert({.kind = static_cast<wire::ConsumerKind>(change.consumer_kind),
                             .id = change.consumer_id});
            }
        }
    }
    for (const storage::OffsetFileId& file : claim.offsets) {
        const ConsumerKey consumer{.kind = static_cast<wire::ConsumerKind>(file.owner),
                                   .id = file.id};
        if (offsets_.find(consumer).has_value() || offsets_.is_damaged(consumer) ||
            told.contains(consumer)) {
            continue;
        }
        offsets_.set_damaged(consumer);
        observe::log_error(
            "partitions",
            "the file of a stored offset is gone; its consumer gets error 3020 until it stores or "
            "deletes its offset: restore the file and start again, or let it store one",
            {{"file", storage::offset_file_path(directory_, file.owner, file.id)}});
    }
}

storage::LedgerRow Partition::ledger_row() const {
    storage::LedgerRow row{.partition = key_,
                           .incarnation = incarnation_,
                           .written = log_->written_ends(),
                           .stable = log_->stable_ends(),
                           .offsets_stable = options_.offsets_persisted,
                           .offsets_op = checkpoint_op_,
                           .offsets = {}};
    offsets_.for_each_file([&row](ConsumerKey consumer) {
        row.offsets.push_back(
            {.owner = static_cast<storage::OffsetOwner>(consumer.kind), .id = consumer.id});
    });
    return row;
}

Task<Status> Partition::complete_recovery() {
    const Status log = co_await log_->complete_recovery();
    Status offsets;
    if (!offsets_recovered_) {
        offsets = co_await checkpoint_offsets();
    }
    co_return log.has_value() ? offsets : log;
}

std::optional<std::string> Partition::fenced() const {
    if (!log_->fenced().has_value()) {
        return std::nullopt;
    }
    return log_->fence_text();
}

bool Partition::pins_journal(std::uint64_t first, std::uint64_t last) const noexcept {
    return log_->pins_journal(first, last) ||
           std::ranges::any_of(offset_records_, [first, last](const OffsetRecords& records) {
               return records.file >= first && records.file <= last;
           });
}

Offset Partition::current_offset() const noexcept {
    const Offset end = log_->committed_end();
    return end == Offset{0} ? end : Offset{end.value() - 1};
}

void Partition::publish_counters() {
    const storage::LogStats stats = log_->stats();
    publish_({.message_count = stats.message_count,
              .size_bytes = stats.bytes,
              .sealed_bytes = stats.sealed_bytes,
              .first_offset = log_->first_offset(),
              .current_offset = current_offset(),
              .segment_count = stats.segment_count == 0 ? 1 : stats.segment_count});
}

Task<Status> Partition::flush() {
    const Status released = co_await log_->release_journal();
    const Status checkpointed = co_await checkpoint_offsets();  // whatever became of the log
    co_return released.has_value() ? checkpointed : released;
}

void Partition::begin_relief() {
    GALGO_CHECK(!is_relieving());
    relieving_since_ = environment_.loop.now();
}

void Partition::end_relief() {
    relieving_since_.reset();
    relieved_.wake_all();
}

/// Its files are slower than the others' appends: what it would still add to the journal pins files
/// that they need.
bool Partition::lags_behind() const noexcept {
    return relieving_since_.has_value() && !log_->fenced().has_value() &&
           environment_.loop.now() >= relieving_since_->plus(kReliefPatienceNs) &&
           environment_.storage.journal.is_scarce();
}

Task<void> Partition::catch_up() {
    while (lags_behind()) {
        co_await relieved_.wait();
    }
}

Task<Status> Partition::close() {
    co_await background_.close();
    const Status checkpointed = co_await checkpoint_offsets();
    if (!checkpointed.has_value()) {  // the records of the changes stay, and are read at the start
        observe::log_warn("partitions", "the journals keep stored offsets that cannot be written",
                          {{"directory", directory_}, {"error", to_string(checkpointed.error())}});
    }
    co_return co_await log_->close();
}

Task<Status> Partition::drop() {
    co_await background_.close();
    unlink();
    for (const OffsetRecords& in_file : offset_records_) {
        environment_.storage.journal.release(in_file.file, in_file.count);
    }
    offset_records_.clear();
    co_return co_await log_->destroy();
}

}  // namespace galgo::partitions

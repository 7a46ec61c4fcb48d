// Partition: one log, one consensus group, the offsets stored in it. Lives on its owner's shard.
//
// append = prepare, commit = a quorum has it (one, on a single node). A batch becomes visible to
// polls when it is committed, in op order; nothing visible is taken back. Offsets are assigned at
// admission; when an append fails its offsets stay unused, so a number that anybody was told is
// never given twice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/intrusive_list.hpp"
#include "base/unique_function.hpp"
#include "coro/scope.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "partitions/admission.hpp"
#include "partitions/offsets.hpp"
#include "partitions/retention.hpp"
#include "partitions/types.hpp"
#include "replication/group_driver.hpp"
#include "runtime/loop.hpp"
#include "storage/ledger.hpp"
#include "storage/offsets_file.hpp"
#include "storage/partition_log.hpp"

namespace galgo::observe {
class Histogram;
}

namespace galgo::partitions {

/// What a topic's options mean for one partition.
struct PartitionOptions {
    std::uint64_t segment_size_bytes = 0;
    std::uint32_t messages_required_to_save = 0;
    std::uint64_t size_required_to_save_bytes = 0;
    bool persisted = false;          ///< acknowledge appends from stable storage
    bool preallocate = false;        ///< segments take all their room when they begin
    bool offsets_persisted = false;  ///< the same for stored offsets
};

/// Figures that everybody may read; published after each change.
struct Counters {
    std::uint64_t message_count = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t sealed_bytes = 0;  ///< of segments that retention may take
    Offset first_offset;
    Offset current_offset;  ///< last committed; 0 while empty
    std::uint32_t segment_count = 1;
};
using PublishCounters = UniqueFunction<void(const Counters&)>;

/// The consumer that has read least, of those with a stored offset.
struct SlowestConsumer {
    ConsumerKey consumer;
    Offset stored;
    bool is_unknown = false;  ///< the file of its offset is damaged: it may need everything

    [[nodiscard]] Offset needed_from() const noexcept {
        return is_unknown ? Offset{0} : stored.next();
    }
};

/// What one call of Partition::clean() did.
struct Cleaned {
    storage::TrimResult trimmed;
    std::uint64_t held_back_bytes = 0;       ///< due, but a consumer has not read them
    std::uint64_t given_up_bytes = 0;        ///< of `trimmed`, at most: held back for too long
    std::optional<SlowestConsumer> slowest;  ///< who holds back, or was not waited for
    std::optional<Error> roll_error;         ///< the segment that is written should have been ended
    std::optional<Error> trim_error;         ///< segments that are due stay for now
    bool again = false;  ///< there may be more to do at once: the figures are not complete
};

struct DirtyOffsetsTag;
class Partition;
/// Partitions whose stored offsets changed since their last checkpoint.
using DirtyOffsets = IntrusiveList<Partition, DirtyOffsetsTag>;

/// What all partitions of a shard share. Outlives them.
struct PartitionEnvironment {
    storage::StorageContext& storage;
    runtime::Loop& loop;
    consensus::PipelinePool& pipelines;
    DirtyOffsets& dirty;
    RetryTable& retries;
    std::string root;  ///< of the data directory: exists and is stable
    bool validate_checksum = true;
    std::uint32_t consumer_offsets_max = 0;      ///< of each kind of consumer; 0 = no bound
    consensus::ReplicaOptions group;             ///< of every partition's consensus group
    observe::Histogram* commit_times = nullptr;  ///< of batches; null = not recorded
};

class Partition : public coro::Anchored, public ListLink<DirtyOffsetsTag> {
 public:
    /// Opens or begins the partition in `directory`. `replay`: what the journals of earlier runs
    /// know, or null; `claim`: what the ledger says that its files had, or null.
    static coro::Task<Result<std::unique_ptr<Partition>>> open(
        PartitionEnvironment& environment, std::string directory, PartitionKey key,
        Incarnation incarnation, PartitionOptions options, const storage::JournalReplay* replay,
        const storage::LedgerRow* claim, PublishCounters publish);
    ~Partition();

    [[nodiscard]] PartitionKey key() const noexcept { return key_; }
    [[nodiscard]] Incarnation incarnation() const noexcept { return incarnation_; }
    /// It takes no messages; why, for health and log. Polls and stored offsets go on.
    [[nodiscard]] std::optional<std::string> fenced() const;
    /// Nothing of it is left in the journals of earlier runs.
    [[nodiscard]] bool recovered() const noexcept {
        return offsets_recovered_ && log_->recovery_complete();
    }
    /// Tries again what kept it from that.
    coro::Task<Status> complete_recovery();
    /// Brackets a flush() that the journal asked for. When that takes longer than a moment, appends
    /// and stored offsets of the partition wait as long as the journal's files are scarce.
    void begin_relief();
    void end_relief();
    [[nodiscard]] bool is_relieving() const noexcept { return relieving_since_.has_value(); }
    /// Does it need records in the journal files `first` to `last`?
    [[nodiscard]] bool pins_journal(std::uint64_t first, std::uint64_t last) const noexcept;
    /// What the ledger says of it; empty when there is nothing to say.
    [[nodiscard]] storage::LedgerRow ledger_row() const;
    /// Woken when the last request that held the partition has ended.
    [[nodiscard]] coro::WaitList& released() noexcept { return released_; }

    /// Appends one verified batch; returns the offset of its first message once it is committed. A
    /// retry (RetryTable) is answered with the first confirmation, and appends nothing.
    /// Errors: 58 busy or fenced for now, storage errors.
    coro::Task<Result<Offset>> append(AppendRequest request);
    /// Committed messages from where the strategy says; empty when there are none. 3024 and no
    /// messages when they would be committed past the bound of distinct consumers.
    coro::Task<Result<PollResult>> poll(PollRequest request);

    /// 3020 when the file of the consumer is damaged: until it stores or deletes one, nobody knows
    /// what it had, and a poll of "next" answers the same.
    [[nodiscard]] Result<std::optional<StoredOffset>> stored_offset(ConsumerKey consumer) const;
    /// 4100 above the committed end or while empty, 3024 past the bound of distinct consumers of
    /// its kind.
    coro::Task<Status> store_offset(ConsumerKey consumer, Offset offset);
    /// 3021 when nothing is stored.
    coro::Task<Status> delete_offset(ConsumerKey consumer);
    /// Stored offsets of groups that `is_gone` go, their files with the next checkpoint. Nothing is
    /// recorded: whoever opens the partition again asks again.
    void forget_groups(UniqueFunction<bool(std::uint32_t group)> is_gone);

    /// Takes away what the rules let go: at most `segments_max` segments, oldest first. A log that
    /// is fenced for good keeps all.
    coro::Task<Cleaned> clean(RetentionRules rules, Timestamp now, std::size_t segments_max);
    /// The `count` oldest sealed segments go. That is stable when it returns, and the same request
    /// takes no others while they are there (behind its answer some are gone): kSegmentsAtATime
    /// that no consumer needs go at once, more in the background, all others when clean() may take
    /// them, also after a restart. Nothing sealed is success. Error: nothing goes.
    coro::Task<Status> delete_segments(std::uint32_t count);

    /// Writes what waits in memory to its files, stable where that was promised, so that journal
    /// files can go.
    coro::Task<Status> flush();
    /// Called about once a second: a partition that nobody writes lets go of its files. True when
    /// it had something to do.
    bool rest() { return log_->rest(); }
    /// Writes the stored offsets to their files when they changed.
    coro::Task<Status> checkpoint_offsets();
    /// Flushes, syncs and closes; no request may be running. Error: something acknowledged is
    /// neither in the files nor in the journals.
    coro::Task<Status> close();
    /// The last life of this directory is over: drops all data.
    coro::Task<Status> drop();

 private:
    struct Append;

    Partition(PartitionEnvironment& environment, std::string directory, PartitionKey key,
              Incarnation incarnation, PartitionOptions options, PublishCounters publish,
              std::unique_ptr<storage::PartitionLog> log, OpNumber head);

    void on_commit(Append& append);
    void publish_counters();
    [[nodiscard]] std::optional<SlowestConsumer> slowest_consumer();
    [[nodiscard]] Offset end_of_oldest(std::uint32_t count) const;
    [[nodiscard]] RetentionDecision decide(const RetentionRules& rules, Timestamp now,
                                           std::size_t segments_max,
                                           std::optional<SlowestConsumer>& slowest);
    coro::Task<bool> delete_wanted();
    static coro::Task<void> delete_the_rest(coro::Anchor<Partition> partition);
    [[nodiscard]] Offset current_offset() const noexcept;
    /// The consumer has a stored offset, or there is room for one more of its kind.
    [[nodiscard]] bool may_store(ConsumerKey consumer) const;
    struct Start {
        Offset offset;
        bool is_named = false;  ///< by the consumer: it wants that message and no later one
    };
    coro::Task<Result<Start>> start_of(const PollRequest& request);
    coro::Task<void> load_offsets(const storage::LoadedOffsets& loaded,
                                  const storage::JournalFacts* facts,
                                  const storage::LedgerRow* claim);
    void miss_offsets(const storage::JournalFacts* facts, const storage::LedgerRow& claim);
    /// What a checkpoint writes.
    struct ChangedOffset {
        ConsumerKey consumer;
        Offset offset;
        std::uint64_t record_file = 0;
    };
    [[nodiscard]] storage::OffsetsHome offsets_home() const;
    coro::Task<Status> write_offset_files(const std::vector<ChangedOffset>& changed,
                                          const std::vector<ConsumerKey>& erased);
    coro::Task<Status> keep_damaged_file(ConsumerKey consumer);
    coro::Task<Status> write_checkpoint();
    [[nodiscard]] bool lags_behind() const noexcept;
    coro::Task<void> catch_up();
    void note_offset_record(std::uint64_t journal_file);
    void give_up_older_record(ConsumerKey consumer, OpNumber op, std::uint64_t journal_file);
    void forget_offset_record(std::uint64_t journal_file);
    coro::Task<Status> journal_offset(ConsumerKey consumer, std::optional<Offset> offset,
                                      bool is_raised);
    static coro::Task<void> auto_commit(coro::Anchor<Partition> partition, ConsumerKey consumer,
                                        Offset offset);

    PartitionEnvironment& environment_;
    std::string directory_;
    PartitionKey key_;
    Incarnation incarnation_;
    PartitionOptions options_;
    PublishCounters publish_;
    std::unique_ptr<storage::PartitionLog> log_;
    replication::GroupDriver driver_;
    Admission admission_;
    /// Records of offset changes in one journal file, not superseded by a checkpoint yet.
    struct OffsetRecords {
        std::uint64_t file = 0;
        std::uint32_t count = 0;
    };
    Offsets offsets_;
    std::vector<OffsetRecords> offset_records_;
    std::vector<ConsumerKey> damaged_files_;  // to be set aside before they are replaced
    OpNumber offsets_op_;                     // the last change of an offset that was applied
    OpNumber checkpoint_op_;                  // changes up to it are in the files
    bool offsets_recovered_ = true;  ///< no change is in the journals of earlier runs alone
    coro::Semaphore checkpointing_;
    coro::WaitList released_;
    std::optional<Instant> relieving_since_;
    coro::WaitList relieved_;
    Offset next_offset_;  ///< of the next message to be admitted
    HeldBack held_back_;
    Instant next_delete_line_at_{0};
    bool deletes_ = false;    ///< steps of a deletion are on their way
    coro::Scope background_;  ///< auto-commits and deletions on their way
};

}  // namespace galgo::partitions

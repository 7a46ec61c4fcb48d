// PartitionTable: the partitions of one shard, by key. Materialises a partition at its first touch
// (its files come with its first append), serves one life of a key at a time, and drops what older
// lives left behind.
//
// A handle pins its partition: a retired one is closed when the last request on it has ended.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "consensus/pipeline.hpp"
#include "coro/sync.hpp"
#include "partitions/partition.hpp"
#include "partitions/retry_table.hpp"
#include "storage/journal_replay.hpp"
#include "storage/ledger.hpp"

namespace galgo::partitions {

/// "stream/topic/partition", for people.
[[nodiscard]] std::string text_of(PartitionKey key);

/// A pinned, open partition. The last one to go wakes whoever waits to close it.
class PartitionHandle {
 public:
    static constexpr bool kShardPortable = false;
    explicit PartitionHandle(std::shared_ptr<Partition> partition) noexcept
        : partition_(std::move(partition)) {}
    PartitionHandle(PartitionHandle&&) noexcept = default;
    PartitionHandle& operator=(PartitionHandle other) noexcept {
        std::swap(partition_, other.partition_);
        return *this;
    }
    ~PartitionHandle() {
        // Two are left: this one, and the row or the one who waits. The wake comes in a later step.
        if (partition_ != nullptr && partition_.use_count() == 2) {
            partition_->released().wake_all();
        }
    }
    [[nodiscard]] Partition* operator->() const noexcept { return partition_.get(); }
    [[nodiscard]] Partition& operator*() const noexcept { return *partition_; }

 private:
    std::shared_ptr<Partition> partition_;
};

struct TableOptions {
    std::string data_path;
    storage::Trash& trash;
    bool validate_checksum = true;
    const storage::DataKey* encryption = nullptr;  ///< of new batches; null = they stay plain
    std::uint32_t consumer_offsets_max = 0;
    std::uint8_t pipeline_max = 32;
    /// What the journals of earlier runs know; used until end_recovery(), and outlives it.
    const storage::JournalReplay* replay = nullptr;
    std::vector<storage::LedgerRow> claims;  ///< of earlier runs, for partitions of this shard
    storage::BootNumber boot = 0;            ///< of the machine; 0 = no ledger is kept
    // Of this shard; null = not recorded.
    observe::Histogram* commit_times = nullptr;
    observe::Histogram* segment_sync_times = nullptr;
};

class PartitionTable : public coro::Anchored {
 public:
    PartitionTable(runtime::Loop& loop, memory::BufferPool& pool, storage::ShardJournal& journal,
                   TableOptions options);
    ~PartitionTable();

    /// The open partition of exactly this life, if there is one. The hot path.
    [[nodiscard]] std::optional<PartitionHandle> find(PartitionKey key,
                                                      Incarnation incarnation) const;
    /// The same, opened when need be. Error 58: another life of the key is open or closing, or is
    /// newer.
    coro::Task<Result<PartitionHandle>> open(PartitionKey key, Incarnation incarnation,
                                             PartitionOptions options, PublishCounters publish);
    /// Lives of `key` before `keep_from` are over; `deleted`: the directory goes too.
    coro::Task<void> retire(PartitionKey key, Incarnation keep_from, bool deleted);

    /// Flushes what pins journal files up to `last` and checkpoints offsets, many side by side;
    /// called under journal pressure. What cannot be written, or takes longer than a second while
    /// hardly a file is left, has its journal files set aside.
    void relieve_pressure(std::uint64_t last);
    /// Lets partitions that nobody writes close their files; called about once a second.
    void rest();
    /// Checkpoints changed offsets; called about once a second.
    coro::Task<void> checkpoint();
    /// For a stop. Error: of one of them; the others are closed all the same.
    coro::Task<Status> close_all();

    /// Nothing of the open partitions is left in the journals of earlier runs.
    [[nodiscard]] bool recovered() const noexcept;
    /// Tries again for those of which something is; about once a second.
    coro::Task<void> complete_recovery();
    /// All partitions that those journals know were opened and are recovered: they may go.
    void end_recovery() noexcept { options_.replay = nullptr; }
    /// Writes what the files of all partitions have to the ledger of this shard. At the end of the
    /// recovery, before journals go, and by close_all(). Failures are logged: then it says nothing.
    coro::Task<void> write_ledger();
    /// The same when something has changed; about once a second, less often when it is large.
    coro::Task<void> keep_ledger();
    /// Is there a directory with data for this life, or should there be? Synchronous, for boot.
    [[nodiscard]] bool has_files(PartitionKey key, Incarnation incarnation) const;
    /// Of the open partitions, in no order.
    [[nodiscard]] std::vector<std::pair<PartitionKey, Incarnation>> open_lives() const;
    [[nodiscard]] std::size_t open_count() const noexcept { return rows_.size(); }
    [[nodiscard]] RetryTable& retries() noexcept { return retries_; }
    /// Asked of the system ahead of consumers that catch up.
    [[nodiscard]] std::uint64_t read_ahead_bytes() const noexcept {
        return storage_.read_ahead.bytes_asked();
    }
    /// Keys and reasons of partitions that take no messages; reads of them go on.
    [[nodiscard]] std::vector<std::string> faults() const;

 private:
    struct Row {
        std::shared_ptr<Partition> partition;  ///< null while it is being opened or dropped
        Incarnation incarnation;
    };

    [[nodiscard]] std::string directory_of(PartitionKey key) const;
    coro::Task<void> drop_unopened(PartitionKey key, Incarnation keep_from);
    static coro::Task<void> await_unused(std::shared_ptr<Partition>& partition);
    /// A flush that the journal asked for. In the frame of its task.
    struct Relief : ListLink<struct ReliefTag> {
        Partition* partition = nullptr;  ///< held by the same frame
        Instant began;
        bool failed = false;
    };
    static coro::Task<void> relieve(coro::Anchor<PartitionTable> table, PartitionHandle partition);
    static coro::Task<void> watch_reliefs(coro::Anchor<PartitionTable> table);
    [[nodiscard]] bool is_stuck(const Relief& relief) const noexcept;
    [[nodiscard]] std::size_t count_running_reliefs();
    [[nodiscard]] bool is_stuck_on(std::uint64_t journal_file);
    coro::Task<void> set_aside();
    [[nodiscard]] const storage::LedgerRow* claim_of(PartitionKey key,
                                                     Incarnation incarnation) const;
    coro::Task<std::vector<storage::LedgerRow>> ledger_rows();
    coro::Task<void> replace_ledger(std::vector<storage::LedgerRow> rows);
    static coro::Task<void> before_release(void* table);
    [[nodiscard]] bool has_directory(PartitionKey key) const;

    runtime::Loop& loop_;
    TableOptions options_;
    storage::StorageContext storage_;
    consensus::PipelinePool pipelines_;
    DirtyOffsets dirty_;
    RetryTable retries_;
    PartitionEnvironment environment_;
    std::unordered_map<PartitionKey, Row> rows_;
    coro::WaitList changed_;  ///< a row finished opening or closing
    coro::Scope scope_;
    /// Of partitions that are not open: claimed by earlier runs, or closed by this one.
    std::unordered_map<PartitionKey, storage::LedgerRow> unopened_;
    coro::Semaphore writing_ledger_;
    std::vector<storage::LedgerRow> ledger_;  ///< as it was written last
    Instant next_ledger_at_{0};
    Instant next_ledger_line_at_{0};
    IntrusiveList<Relief, struct ReliefTag> reliefs_;
    std::uint64_t relieved_up_to_ = 0;  ///< `last` when the rows were looked at for the last time
    Instant look_again_at_{0};          ///< not before, for the same files
    bool has_more_ = false;             ///< rows that found no place among the reliefs
    bool watching_ = false;
    bool setting_aside_ = false;
    Instant next_open_line_at_{0};
};

}  // namespace galgo::partitions

// Replay of the shard journals at boot, before any shard runs: what each partition had been told
// and may not have in its segments yet. Reads all files of all shards and epochs in the order
// (epoch, sequence, position); the shard count may have changed since. The replay of a file goes on
// at the next record that verifies, and ends where none follows: bytes of an earlier life never do.
//
// A record says how far its file was synced when it was written. So an invalid record is either the
// trace of a crash (nothing says that it was stable: the replay goes on behind it) or damage. The
// batch of a damaged record is listed as `damaged` when the record still says whose it is, and its
// log takes no more appends unless it has the batch. Otherwise refusal() says why nobody may start
// on these files. Files with damage are never deleted.
//
// Memory: about 100 bytes a record in the files; bodies stay on disk and are read when a partition
// asks for them. Journals may be removed when every partition with facts has been recovered from
// them.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "runtime/io.hpp"
#include "storage/journal_format.hpp"
#include "storage/journal_list.hpp"

namespace galgo::storage {

/// A batch that a journal names.
struct JournaledBatch {
    Offset base_offset;
    std::uint32_t message_count = 0;
    Timestamp timestamp;
    OpNumber op;
    ViewNumber view;
    std::uint64_t batch_checksum = 0;
    std::uint64_t batch_length = 0;
    std::uint32_t file = 0;           ///< index in the replay
    std::uint64_t body_position = 0;  ///< 0 = only named, the bytes are in the segment
    bool damaged = false;             ///< its record was stable and is damaged now
    /// Of this boot of the machine: what was written for it is there, unless somebody took it away.
    bool is_of_this_boot = false;

    [[nodiscard]] bool has_body() const noexcept { return body_position != 0; }
    [[nodiscard]] Offset end() const noexcept { return base_offset.plus(message_count); }
};

struct JournaledOffset {
    std::uint8_t consumer_kind = 0;
    std::uint32_t consumer_id = 0;
    bool deleted = false;
    Offset offset;
    OpNumber op;
};

/// What the journals say of one partition.
struct JournalFacts {
    PartitionKey partition;
    Incarnation incarnation;
    /// By ascending offset, without overlap: a later record replaces what an earlier one put at or
    /// behind its base offset (a failed append that was tried again, or a log cut by a view
    /// change).
    std::vector<JournaledBatch> batches;
    std::vector<JournaledOffset> offsets;  ///< in the order they were written
    Offset end_named;                      ///< behind the highest offset that any record names
    OpNumber committed_op;                 ///< highest that any record calls committed
    OpNumber last_op;
    ViewNumber last_view;
    std::uint64_t last_epoch = 0;        ///< of any record
    std::uint64_t last_batch_epoch = 0;  ///< of a batch
};

class JournalReplay {
 public:
    using Key = std::pair<PartitionKey, Incarnation>;

    JournalReplay() = default;

    [[nodiscard]] const std::map<Key, JournalFacts>& partitions() const noexcept {
        return partitions_;
    }
    /// Null when the journals do not know the partition.
    [[nodiscard]] const JournalFacts* find(PartitionKey partition, Incarnation incarnation) const;

    /// The bytes of a batch, verified once more. Fails with CannotReadMessage when the file has
    /// changed.
    coro::Task<Result<memory::BufRef>> read_body(runtime::IoBackend& io, memory::BufferPool& pool,
                                                 const JournaledBatch& batch) const;

    /// For the journals of this boot.
    [[nodiscard]] std::uint64_t next_epoch() const noexcept { return epoch_max_ + 1; }
    [[nodiscard]] std::uint64_t next_sequence() const noexcept { return sequence_max_ + 1; }
    [[nodiscard]] std::size_t file_count() const noexcept { return files_.size(); }
    [[nodiscard]] std::uint64_t record_count() const noexcept { return record_count_; }

    /// One line for the operator when records are damaged of which nobody can tell whose they were:
    /// offsets that were acknowledged could be given out again. Empty otherwise.
    [[nodiscard]] const std::string& refusal() const noexcept { return refusal_; }
    /// They hold something that nobody takes over. Any shard's thread.
    void keep_files() const noexcept { keep_files_->store(true, std::memory_order_relaxed); }
    /// Damaged records whose partition is known.
    [[nodiscard]] std::uint64_t damaged_count() const noexcept { return damaged_count_; }

    /// Unlinks the files that were replayed and syncs the directory. Those with damage, or
    /// all after keep_files(), are renamed to `{name}.kept-{n}`.
    coro::Task<Status> remove_files(runtime::IoBackend& io) const;

 private:
    friend coro::Task<Result<JournalReplay>> replay_journals(runtime::IoBackend& io,
                                                             std::string directory,
                                                             BootNumber boot);
    struct File {
        std::string path;
        JournalFileHeader header;
        std::uint64_t size_bytes = 0;
        bool readable = false;
        bool has_damage = false;
        bool header_is_ours = false;     ///< it decoded, whatever it names
        std::uint64_t epoch_told = 0;    ///< in those bytes, right or wrong
        std::uint64_t sequence = 0;      ///< of its name
        ShardIndex shard{0};             ///< of its name
        std::uint64_t valid_end = 0;     ///< behind its last valid record
        std::uint64_t stable_bytes = 0;  ///< that records call synced
        /// It was written in this boot of the machine, and had so many bytes; 0: not known. Then
        /// the page cache has all that was written, in that order.
        std::uint64_t listed_bytes = 0;
    };
    /// Bytes of a file where a record should begin.
    struct Gap {
        std::uint32_t file = 0;
        std::uint64_t position = 0;
        std::optional<JournalRecord> record;  ///< when its header can be believed
        bool dropped = false;                 ///< a later record says that the batch failed
        bool is_followed = false;             ///< whole records of the same life stand behind it
    };
    void check_list(runtime::IoBackend& io, const JournalList& list);
    coro::Task<Status> scan_file(runtime::IoBackend& io, std::uint32_t index);
    coro::Task<Result<std::optional<std::uint64_t>>> find_record(runtime::IoBackend& io,
                                                                 runtime::FileHandle handle,
                                                                 const File& file,
                                                                 std::uint64_t from) const;
    coro::Task<Result<std::optional<JournalRecord>>> judge_record(runtime::IoBackend& io,
                                                                  runtime::FileHandle handle,
                                                                  std::uint64_t position,
                                                                  std::uint64_t end) const;
    coro::Task<Status> repair_header(runtime::IoBackend& io, File& file);
    coro::Task<Status> repair_header_of(runtime::IoBackend& io, runtime::FileHandle handle,
                                        File& file);
    coro::Task<Result<bool>> ends_inside_record(runtime::IoBackend& io, const File& file,
                                                std::uint64_t position) const;
    coro::Task<Status> judge_tails(runtime::IoBackend& io);
    void judge_gaps();
    void refuse(const File& file, std::uint64_t position);
    JournalFacts& facts_of(const JournalRecord& record);
    void take_damaged(const Gap& gap);
    static void settle_earlier_boots(JournalFacts& facts, const JournalRecord& record,
                                     std::uint64_t epoch);
    void take_record(const JournalRecord& record, std::uint32_t file, std::uint64_t body_position);

    std::string directory_;
    std::vector<File> files_;
    std::vector<std::string> told_paths_;  ///< lists of earlier starts, and what was given up
    std::map<Key, JournalFacts> partitions_;
    std::uint64_t epoch_max_ = 0;
    std::uint64_t sequence_max_ = 0;
    std::uint64_t record_count_ = 0;
    std::vector<Gap> gaps_;
    std::map<std::pair<ShardIndex, std::uint64_t>, std::uint64_t>
        prior_stable_;  ///< shard, sequence
    std::string refusal_;
    std::uint64_t damaged_count_ = 0;
    std::unique_ptr<std::atomic<bool>> keep_files_ = std::make_unique<std::atomic<bool>>(false);
};

/// Reads all journals below `directory` ("{path}/state"); an absent directory is an empty replay.
/// `boot`: of the machine, now. Errors are those of the operating system; damage is not an error.
coro::Task<Result<JournalReplay>> replay_journals(runtime::IoBackend& io, std::string directory,
                                                  BootNumber boot = 0);

}  // namespace galgo::storage

// Replay of the shard journals at boot, before any shard runs: what each partition had been told
// and may not have in its segments yet. Reads all files of all shards and epochs in the order
// (epoch, sequence, position); the shard count may have changed since. A file ends at its first
// record that does not verify: that is where the crash was, or the end of its present life.
//
// Memory: about 100 bytes a record in the files; bodies stay on disk and are read when a partition
// asks for them. Journals may be removed when every partition with facts has been recovered from
// them.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "runtime/io.hpp"
#include "storage/journal_format.hpp"

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
    std::uint64_t last_epoch = 0;
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

    /// Unlinks the files that were replayed and syncs the directory.
    coro::Task<Status> remove_files(runtime::IoBackend& io) const;

 private:
    friend coro::Task<Result<JournalReplay>> replay_journals(runtime::IoBackend& io,
                                                             std::string directory);
    struct File {
        std::string path;
        JournalFileHeader header;
        std::uint64_t size_bytes = 0;
        bool readable = false;
    };
    coro::Task<Status> scan_file(runtime::IoBackend& io, std::uint32_t index);
    void take_record(const JournalRecord& record, std::uint32_t file, std::uint64_t body_position);

    std::string directory_;
    std::vector<File> files_;
    std::map<Key, JournalFacts> partitions_;
    std::uint64_t epoch_max_ = 0;
    std::uint64_t sequence_max_ = 0;
    std::uint64_t record_count_ = 0;
};

/// Reads all journals below `directory` ("{path}/state"); an absent directory is an empty replay.
/// Errors are those of the operating system; damage is not an error.
coro::Task<Result<JournalReplay>> replay_journals(runtime::IoBackend& io, std::string directory);

}  // namespace galgo::storage

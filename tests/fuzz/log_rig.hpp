// One simulated process with one partition log, for the targets that open damaged files. The laws
// of every log, whatever the files were:
//   * opening succeeds; the log may be fenced; only damaged journals refuse a start;
//   * reads end; what they give is valid batches in ascending order within [first, end);
//   * a second opening finds the same messages, and nothing to cut or to lose;
//   * what the index file names stands in the log file at that place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.hpp"
#include "memory/buffer_pool.hpp"
#include "runtime_sim/test_world.hpp"
#include "storage/journal_replay.hpp"
#include "storage/partition_log.hpp"
#include "storage/shard_journal.hpp"
#include "storage/storage_context.hpp"
#include "storage/trash.hpp"

namespace galgo::fuzz {

inline const std::string kLogDirectory = "/data/p";
inline const std::string kStateDirectory = "/data/state";

using Bytes = std::vector<std::byte>;

/// A stored batch of `count` messages of a few bytes.
[[nodiscard]] Bytes make_batch(Offset base, std::uint32_t count, Timestamp timestamp);

/// What a log holds, message by message.
struct ReadMessage {
    Offset offset;
    Timestamp timestamp;  ///< of its batch
    std::uint64_t checksum = 0;
    bool operator==(const ReadMessage&) const noexcept = default;
};

/// The first batch in the bytes of a log is valid, and not the one at offset 0 of partition 0.
[[nodiscard]] bool is_foreign(ConstBytes bytes);

class LogRig {
 public:
    explicit LogRig(storage::LogOptions options = {}) : options_(options) {}
    ~LogRig();
    LogRig(const LogRig&) = delete;
    LogRig& operator=(const LogRig&) = delete;

    [[nodiscard]] runtime_sim::SimDisk& disk() noexcept { return *node_.disk; }
    void write(const std::string& name, ConstBytes bytes) {
        disk().write_file(kLogDirectory + '/' + name, bytes);
    }
    [[nodiscard]] std::optional<Bytes> file(const std::string& name) const {
        return node_.disk->read_file(kLogDirectory + '/' + name);
    }

    /// Replays the journals and opens the log under `incarnation`. False: the journals refuse it.
    [[nodiscard]] bool try_open(Incarnation incarnation = Incarnation{0});
    /// The same; they must not refuse.
    void open(Incarnation incarnation = Incarnation{0});
    /// Closes all, and forgets the journals when the log needs them no more.
    void close();

    [[nodiscard]] storage::PartitionLog& log() noexcept { return *log_; }
    [[nodiscard]] const storage::JournalReplay& replay() const noexcept { return replay_; }

    /// All messages from the first to the end, read `count` at a time. `whole`: no read may fail
    /// but at messages that are known as lost; otherwise the walk goes on behind what cannot be
    /// read.
    [[nodiscard]] std::vector<ReadMessage> read_all(std::uint32_t count, bool whole);
    /// Messages from `from` on, at most `count`; checked one by one.
    [[nodiscard]] Result<std::vector<ReadMessage>> read(Offset from, std::uint32_t count,
                                                        bool begins_anywhere = false);
    [[nodiscard]] Result<Offset> offset_at_or_after(Timestamp timestamp);
    /// Appends one batch at the end and commits it.
    [[nodiscard]] Status append(std::uint32_t count);
    /// The index files against the log files.
    void check_indexes() const;

 private:
    coro::Task<Status> boot(Incarnation incarnation);
    coro::Task<Status> shut_down();
    coro::Task<Status> append_batch(storage::StampedBatch batch);
    void destroy();

    storage::LogOptions options_;
    runtime_sim::TestWorld world_{1};
    runtime_sim::Node& node_ = world_.add_node();
    storage::JournalReplay replay_;
    storage::Trash trash_{"/data/trash"};
    std::unique_ptr<storage::ShardJournal> journal_;
    std::unique_ptr<storage::StorageContext> context_;
    std::unique_ptr<storage::PartitionLog> log_;
    OpNumber op_;
};

}  // namespace galgo::fuzz

// PartitionLog: the log of one partition on its owner's shard. Newest part in memory (the tail:
// batches that the shard's journal protects), the rest in segment files; reads see both, and a
// flush on its way, as one log.
//
// Append. Below 64 KiB: a journal record with the bytes, and the tail. From 64 KiB on: straight
// into the segment, with all that is pending before it, while the journal gets the name only.
// `persisted` waits for one fdatasync of the journal and, for bulk, of the segment. Flush. When the
// committed part of the tail passes a save threshold: one vectored write, in the background; then
// its journal records are released. A `persisted` log releases them after the sync of the segment,
// because until then only the journal holds the bytes on stable storage. One write in flight a
// segment file. Sync. One at a time: directory, then the active file; a segment is made stable
// before the next one is begun. Index entries reach the disk only when the log before them is
// stable, so the last entry on disk is where recovery has to begin to look.
//
// Invariants: offsets ascend, holes between batches are legal, an offset is never given twice
// within one incarnation; committed_end <= end_offset; tail batches lie behind all segments'
// batches; a segment begins with the offset of its name and ends where the next name begins, and an
// empty one stands where offsets between two are skipped. A hole is passed by reads, except where
// it is known that acknowledged messages stood there: open() notes such ranges (at most 256), and a
// read does not pass them silently. Errors: a failed write or sync of a segment fences the log for
// appends (typed error, reads go on). A full disk, and files that cannot be opened now, are tried
// again by an append at least a second later. Nothing acknowledged is ever dropped.
//
// Limits: bytes of the tail are bounded by the shard's journal files. An idle log holds no
// descriptor after a third rest() (a fourth one when it was read meanwhile), no timer, and makes no
// file before its first flush. The owner calls close() (or destroy()) before destruction. Files:
// docs/formats/segment.md, index.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "coro/scope.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "memory/buffer.hpp"
#include "storage/inline_vector.hpp"
#include "storage/journal_replay.hpp"
#include "storage/ledger.hpp"
#include "storage/ring.hpp"
#include "storage/segment_format.hpp"
#include "storage/segment_reader.hpp"
#include "storage/storage_context.hpp"
#include "storage/stored_batch.hpp"

namespace galgo::storage {

struct LogOptions {
    std::uint64_t segment_size = 1 * kGiB;  ///< a segment is sealed when it holds that much
    std::uint32_t messages_required_to_save = 1024;  ///< at least 1
    std::uint64_t size_required_to_save = 1 * kMiB;  ///< at least 1
    bool persisted = false;                          ///< acknowledged = on stable storage
    bool preallocate = false;       ///< a segment takes all its room with its first batch
    bool validate_checksum = true;  ///< of batches read from disk
};

/// A batch as it will stand in the log: header stamped, offsets and op assigned by the caller.
struct StampedBatch {
    memory::BufRef bytes;  ///< 256-byte header and frames, plain or encrypted
    Offset base;           ///< at least end_offset() of the log
    std::uint32_t count = 0;
    Timestamp timestamp;
    OpNumber op;         ///< above the op of the batch before
    OpNumber commit_op;  ///< for the journal: highest op known as committed
    ViewNumber view;
};

/// Where to read; owned, so that nothing of the log is needed but its directory.
struct ReadPlan {
    struct DiskRange {
        Offset start;  ///< names the segment
        std::uint64_t size_bytes = 0;
        std::optional<std::uint64_t> position;  ///< where to begin, when known
        bool from_index = false;                ///< `position` is what an index entry says
        std::uint64_t index_entries = 0;        ///< in the index file, when it has to be searched
        FileRef file;                           ///< may be empty: opened when read
    };
    Offset from;
    Offset limit;  ///< committed end at planning
    std::uint32_t count = 0;
    std::uint64_t max_bytes = 0;
    /// The reader names no offset that it wants: what is lost before the first message is passed.
    bool begins_anywhere = false;
    InlineVector<DiskRange, 2> disk;
    InlineVector<memory::BufRef, 8> tail;  ///< runs of whole batches

    [[nodiscard]] bool empty() const noexcept { return disk.empty() && tail.empty(); }
    /// Nothing to wait for.
    [[nodiscard]] bool resident() const noexcept { return disk.empty(); }
};

/// What was read: bytes to be sent one behind the other.
struct ReadSlices {
    InlineVector<memory::BufRef, 16> slices;
    std::uint64_t bytes = 0;
    std::uint32_t message_count = 0;
    Offset first;  ///< of the messages in the slices, when there are any
    Offset next;   ///< where the following read goes on
};

struct LogStats {
    std::uint64_t message_count = 0;
    std::uint64_t bytes = 0;
    std::uint64_t sealed_bytes = 0;  ///< of segments that have another behind them
    std::uint32_t segment_count = 0;
    std::uint64_t tail_bytes = 0;
    std::uint64_t unsynced_bytes = 0;
};

struct SegmentFacts {
    Offset start;
    Offset end;  ///< behind its last message
    std::uint64_t size_bytes = 0;
    Timestamp last_timestamp;  ///< not before its newest message; all ones when nothing says it
    bool sealed = false;
};

/// What a trim took away.
struct TrimResult {
    std::size_t segment_count = 0;
    std::uint64_t bytes = 0;
};

/// What open() found and did.
struct RecoveryReport {
    std::uint64_t cut_bytes = 0;             ///< of a torn tail, kept aside
    std::uint32_t healed_batch_count = 0;    ///< written again from the journal
    std::uint32_t salvaged_batch_count = 0;  ///< whole batches behind the damage, written again
    std::uint64_t lost_message_count = 0;    ///< named by the journal, but nowhere whole
    std::uint32_t rebuilt_index_count = 0;
};

/// Moves the directory of a partition that is not open into the trash; `incarnation` is the last
/// life that may have left something in it. An absent directory is success.
coro::Task<Status> trash_partition(StorageContext& context, std::string directory,
                                   PartitionKey partition, Incarnation incarnation);
/// The same for a directory that this run has not opened: files of a life that no entry of the
/// metadata log ended are moved to `{root}/quarantine/{key:016x}-{incarnation}.{n}` instead.
coro::Task<Status> trash_unopened(StorageContext& context, std::string root, std::string directory,
                                  PartitionKey partition, Incarnation incarnation);
/// Moves the directory there. An error line says so.
coro::Task<Status> quarantine_partition(StorageContext& context, std::string root,
                                        std::string directory, PartitionKey partition,
                                        Incarnation found);

class PartitionLog : public coro::Anchored {
 public:
    /// Opens what is below `directory`, repairs it, and brings in what the journal knows (`replay`
    /// may be null). Does not refuse because of what stands in segments and indexes, or because a
    /// part of a segment cannot be read: such damage stays there, the read that meets it says so,
    /// and the log is fenced where it would have to write behind it. Errors are the other ones of
    /// the system. `root`: prefix of `directory` that exists and is stable already. `known`:
    /// where the ledger says that messages ended; what is not there is lost.
    static coro::Task<Result<std::unique_ptr<PartitionLog>>> open(
        StorageContext& context, std::string root, std::string directory, PartitionKey partition,
        Incarnation incarnation, LogOptions options, const JournalReplay* replay,
        KnownEnds known = {});
    ~PartitionLog();

    // ---- writing
    // -----------------------------------------------------------------------------------------
    /// Completes when the batch has the durability of the log. The batch is placed synchronously,
    /// at the start, so appends that run side by side keep their order. On an error its offsets
    /// stay a hole.
    coro::Task<Status> append(StampedBatch batch);
    /// Only with StorageContext::encryption: the batch as it is to be stamped (stamp_encrypted())
    /// and appended. Those that come side by side leave in their order, and the caller runs on at
    /// once, so that it can give offsets in that order. One step a MiB, others run in between.
    /// Errors: of the pool.
    coro::Task<Result<memory::BufRef>> encrypt(memory::BufRef batch);
    /// Everything up to `op` may be read. Starts a flush when a save threshold is passed.
    /// Synchronous.
    void commit(OpNumber op);
    /// Writes the whole tail into segments.
    coro::Task<Status> force_flush();
    /// The same, and waits for stable storage.
    coro::Task<Status> flush_and_sync();
    /// Afterwards no journal record of the batches so far is needed: the tail is in segments, and
    /// stable when the log is persisted. Tries again what has fenced the log for now.
    coro::Task<Status> release_journal();
    /// flush_and_sync(), as far as a fence lets it, then lets go of all files. The log is not used
    /// afterwards. Success: all that was acknowledged is in the segments or, for the next start, in
    /// the journals. Error: a part of it is not, or its sync failed where no journal has it.
    coro::Task<Status> close();

    // ---- reading
    // -----------------------------------------------------------------------------------------
    /// At most `count` messages from `from` on below `committed_end`, at most `max_bytes` unless
    /// the first batch alone is larger. Synchronous.
    [[nodiscard]] ReadPlan plan_read(Offset from, std::uint32_t count, std::uint64_t max_bytes,
                                     Offset committed_end) const;
    /// Damage where the first wanted batch should be is an error (CannotReadMessage,
    /// InvalidMessageChecksum, InvalidBatchChecksum, CannotDecryptData), and so are lost messages
    /// between what is wanted and what is there (CannotReadMessage); further on both end the slices
    /// before them.
    coro::Task<Result<ReadSlices>> read(ReadPlan plan);
    /// First message of the first batch with base timestamp >= `timestamp`; end_offset() when there
    /// is none. CannotReadMessage when that batch may be a damaged one.
    coro::Task<Result<Offset>> offset_at_or_after(Timestamp timestamp);

    [[nodiscard]] Offset first_offset() const noexcept;
    /// Known as lost: a read that begins there is told so, unless the message is there all the same
    /// (its file came back). Also behind end_offset(), when only an index tells of the messages.
    [[nodiscard]] bool is_lost(Offset offset) const noexcept;
    /// Any of [from, end) is.
    [[nodiscard]] bool lost_within(Offset from, Offset end) const noexcept;
    [[nodiscard]] Offset end_offset() const noexcept { return end_offset_; }
    [[nodiscard]] Offset committed_end() const noexcept { return committed_end_; }
    [[nodiscard]] Timestamp last_timestamp() const noexcept { return last_timestamp_; }
    /// Asked for at each commit: running totals.
    [[nodiscard]] LogStats stats() const noexcept;
    [[nodiscard]] std::size_t segment_count() const noexcept { return segments_.size(); }
    [[nodiscard]] SegmentFacts segment(std::size_t index) const noexcept;

    // ---- retention (partition_log_trim.cpp)
    // -----------------------------------------------------------------------------------
    /// Whole sealed segments that end at or before `below` go, oldest first, at most `count_max`
    /// that hold messages; never the last segment. Where the log begins is stable before the first
    /// file goes; then they are out of plans, and their files go to the trash one by one. Error:
    /// nothing has changed, or what is left of the files goes with the next call or the next start.
    /// A log that is fenced for good keeps all.
    coro::Task<Result<TrimResult>> trim(Offset below, std::size_t count_max);
    /// Somebody was told that the segments before `below` go; stable when it returns, and what
    /// wanted_trim() says until another is wanted. Never lowered.
    /// `unneeded`: of those, the segments that end up to here go at once when this succeeds.
    coro::Task<Status> want_trim(Offset below, Offset unneeded);
    [[nodiscard]] Offset wanted_trim() const noexcept { return wanted_; }
    /// Time of the oldest message that is not in a segment with another behind it.
    [[nodiscard]] std::optional<Timestamp> active_since() const noexcept;
    /// Writes the tail and begins an empty segment behind it, when active_since() is not after
    /// `begun_by`: what stands before can be trimmed then. True when it did.
    coro::Task<Result<bool>> roll_by_age(Timestamp begun_by);

    // ---- the directory
    // -----------------------------------------------------------------------------------
    /// For files of others in the log's directory: it is there afterwards, and says of which life
    /// it is. `stable`: so are the entries of the directories above.
    coro::Task<Status> prepare_directory(bool stable);

    // ---- dropping
    // ----------------------------------------------------------------------------------------
    /// Drops everything: the directory goes into the trash, whoever made it. The log is not used
    /// afterwards.
    coro::Task<Status> destroy();

    // ---- state
    // -------------------------------------------------------------------------------------------
    /// Why appends are refused, if they are.
    [[nodiscard]] const std::optional<Error>& fenced() const noexcept { return fence_; }
    [[nodiscard]] std::string fence_text() const;
    [[nodiscard]] const RecoveryReport& recovery() const noexcept { return recovery_; }
    /// Everything that the journals of earlier runs told of this log is in its files, synced.
    [[nodiscard]] bool recovery_complete() const noexcept { return recovery_complete_; }
    /// Tries again what kept the recovery from being complete (a full disk), at most once a second.
    coro::Task<Status> complete_recovery();
    /// Does it have records in the journal files `first` to `last`?
    [[nodiscard]] bool pins_journal(std::uint64_t first, std::uint64_t last) const noexcept;
    /// For the ledger: what there is, or is known to have been.
    [[nodiscard]] KnownEnds written_ends() const noexcept;
    /// Of that, what a loss of power leaves, as far as it was promised: nothing in a log that is
    /// not persisted.
    [[nodiscard]] KnownEnds stable_ends() const noexcept;
    [[nodiscard]] PartitionKey partition() const noexcept { return partition_; }
    [[nodiscard]] Incarnation incarnation() const noexcept { return incarnation_; }
    [[nodiscard]] const LogOptions& options() const noexcept { return options_; }
    /// Called about once a second: a log that was not written since the last call syncs what is not
    /// stable yet, and then lets go of its files; those that only reads hold go when there was no
    /// read since the last call. True when it did something.
    bool rest();

 private:
    struct TailBatch {
        memory::BufRef bytes;
        Offset base;
        std::uint32_t count = 0;
        Timestamp timestamp;
        OpNumber op;
        std::uint64_t journal_sequence = 0;  ///< 0: no record to release (yet)
        /// Not acknowledged: not read from here, and not flushed unless a write has it already.
        /// Then it appears all the same: its client was told an error, which does not say that it
        /// is not there.
        bool failed = false;
        bool writing = false;  ///< part of the flush on its way
        /// Read from the journals of earlier runs, which stay until the recovery is complete.
        bool in_old_journals = false;

        [[nodiscard]] Offset end() const noexcept { return base.plus(count); }
    };
    struct Uncommitted {
        OpNumber op;
        Offset end;
    };
    struct Segment {
        Offset start;
        Offset first;  ///< base of its first batch; == end when it has none
        Offset end;
        std::uint64_t size_bytes = 0;
        std::uint64_t index_entries = 0;  ///< in the index file
        Timestamp first_timestamp;        ///< of its first batch
        Timestamp last_timestamp;

        [[nodiscard]] std::uint64_t message_count() const noexcept {
            return end.value() - first.value();  // holes between its batches included
        }
    };
    struct SegmentTotals {
        std::uint64_t bytes = 0;
        std::uint64_t messages = 0;

        bool operator==(const SegmentTotals&) const noexcept = default;
    };
    /// The open files and the index of the segment that is written.
    struct Writer {
        Offset start;
        FileRef log;
        FileRef index_file;
        std::vector<IndexEntry> index;  ///< all entries; none without `log` when the file has all
        std::size_t index_on_disk = 0;
        std::optional<IndexEntry> last_batch;
        std::uint64_t allocated_bytes = 0;  ///< of `log`, no more is asked for: `preallocate`
    };
    struct PendingRelease {
        std::uint64_t written_mark = 0;
        std::uint64_t journal_sequence = 0;
        std::uint32_t count = 0;
    };
    struct Salvaged {
        memory::BufRef bytes;
        wire::BatchHeader header;
    };
    struct TimeSearch {
        std::optional<Offset> offset;  ///< of the first batch at or after the time
        bool is_first = false;         ///< it is the first one of the segment
        bool damaged = false;          ///< the segment cannot say
    };
    /// What a walk over verified batches found.
    struct Walk {
        std::vector<IndexEntry> index;
        std::optional<IndexEntry> first;
        std::optional<IndexEntry> last;
        Offset end;                  ///< behind the last one
        std::uint64_t position = 0;  ///< where no such batch stands
        Timestamp last_timestamp;
        bool reached_end = false;            ///< of the file
        bool unreadable = false;             ///< the disk says so
        bool contradicts = false;            ///< a batch says other than an index entry does
        std::optional<Offset> passed_limit;  ///< end of a whole batch there that passes the limit
    };
    /// What an index file says.
    struct IndexClaims {
        std::vector<IndexEntry> entries;  ///< ascending by position
        std::uint64_t places = 0;         ///< of entries in the file
        bool checked = true;   ///< they verify; false: of data format 2, and may be wrong
        bool is_exact = true;  ///< the file holds these entries in this order, and nothing else
    };
    /// What is left of a batch that is not whole.
    struct Remains {
        std::uint32_t messages = 0;  ///< that it had, as far as that can be told
        bool ends_inside = false;    ///< the file ends before the batch does
    };
    /// Acknowledged messages that no file has.
    struct LostRange {
        Offset from;
        Offset end;
    };
    class Collector;

    PartitionLog(StorageContext& context, std::string root, std::string directory,
                 PartitionKey partition, Incarnation incarnation, LogOptions options);

    // partition_log.cpp
    coro::Task<Status> append_bulk(std::uint64_t id, JournalRecord record);
    coro::Task<Status> write_bulk(std::uint64_t id);
    coro::Task<Status> name_in_journal(std::uint64_t id, JournalRecord record);
    coro::Task<bool> try_unfence();
    std::uint64_t place_in_tail(StampedBatch& batch);
    void note_journaled(std::uint64_t id, std::uint64_t journal_sequence);
    void fail_batch(std::uint64_t id);
    [[nodiscard]] TailBatch* find_tail(std::uint64_t id) noexcept;
    void fence(const Error& error, const char* what);
    void tell_fence(const Error& error, const char* what, bool passes);
    void tell_recovery();
    void release_records(std::uint64_t journal_sequence, std::uint32_t count);
    [[nodiscard]] SegmentTotals sum_segments() const noexcept;
    /// After a change of the list; a write adds its part itself.
    void count_segments() noexcept { totals_ = sum_segments(); }

    // partition_log_flush.cpp
    void flush_if_due();
    static coro::Task<void> flush_in_background(coro::Anchor<PartitionLog> log);
    static coro::Task<void> sync_in_background(coro::Anchor<PartitionLog> log);
    void start_background_sync();
    void spawn_background_sync();
    coro::Task<Status> flush_until(std::uint64_t id);
    coro::Task<Status> flush_once(std::uint64_t id);
    coro::Task<Status> flush_chunk(std::uint64_t id);
    std::size_t gather(StorageContext::Parts& parts, std::uint64_t id, std::uint64_t& bytes);
    coro::Task<Status> write_parts(StorageContext::Parts& parts, std::size_t count,
                                   std::uint64_t position);
    void take_over_flushed();
    void drop_failed_front();
    coro::Task<Status> sync_until(std::uint64_t mark);
    coro::Task<Status> sync_once();
    coro::Task<Status> sync_fenced();
    [[nodiscard]] bool keeps_acknowledged() const noexcept;
    coro::Task<Status> sync_files();
    coro::Task<Status> write_index(Writer& writer, std::uint64_t stable_bytes);
    void release_synced();
    coro::Task<Status> ensure_writer();
    coro::Task<Status> cut_leftover();
    coro::Task<Status> create_segment(Offset start);
    coro::Task<Status> preallocate(std::uint64_t end);
    [[nodiscard]] bool is_occupied(Offset start) const;
    coro::Task<Result<FileRef>> open_empty_log(Offset start);
    coro::Task<Status> mark_hole(Offset start);
    coro::Task<void> drop_middle_marker();
    [[nodiscard]] bool writer_fits() const noexcept;
    coro::Task<Status> open_writer();
    coro::Task<bool> read_index(FileRef file);
    coro::Task<Status> seal();
    void name_last_batch();
    coro::Task<Status> make_directory();
    coro::Task<Status> sync_parents();
    void drop_idle_files() noexcept;
    [[nodiscard]] bool is_unnamed_at_rest() const noexcept;

    // partition_log_read.cpp
    [[nodiscard]] std::size_t find_segment(Offset offset) const noexcept;
    [[nodiscard]] std::size_t find_tail_index(Offset offset) const noexcept;
    void plan_tail(ReadPlan& plan, std::uint64_t planned_bytes) const;
    [[nodiscard]] ReadPlan::DiskRange range_of(std::size_t segment) const;
    coro::Task<Status> read_range(ReadPlan::DiskRange& range, Collector& collector);
    coro::Task<Status> open_range(ReadPlan::DiskRange& range);
    coro::Task<Result<std::uint64_t>> begin_of(const ReadPlan::DiskRange& range, Offset from);
    coro::Task<FileRef> open_index(const ReadPlan::DiskRange& range);
    [[nodiscard]] IndexFile index_of(const ReadPlan::DiskRange& range,
                                     const FileRef& file) const noexcept;
    coro::Task<Result<bool>> step_back(const ReadPlan::DiskRange& range, SegmentCursor& cursor,
                                       std::uint64_t position, std::uint64_t& distance);
    coro::Task<Status> verify_at(const ReadPlan::DiskRange& range, std::uint64_t position);
    [[nodiscard]] bool unreadable_line_due(Offset segment, std::uint64_t position) noexcept;
    void tell_unreadable(const char* what, Offset segment, std::uint64_t position);
    void tell_lost_poll(Offset offset);
    coro::Task<Result<TimeSearch>> find_timestamp(std::size_t segment, Timestamp timestamp);

    // partition_log_cipher.cpp
    [[nodiscard]] BatchCipher& cipher();
    coro::Task<Result<memory::BufRef>> encrypt_alone(memory::BufRef batch);
    coro::Task<Result<memory::BufRef>> decrypt(memory::BufRef batch);
    Result<memory::BufRef> decrypt_small(const memory::BufRef& batch);
    std::unexpected<Error> tell_undecryptable(const memory::BufRef& batch, const char* what);

    // recovery_open.cpp
    coro::Task<Status> recover(const JournalReplay* replay);
    coro::Task<Result<bool>> look_at_segments(FileRef& last);
    coro::Task<Status> list_segments();
    coro::Task<Status> judge_lone_index(Offset start);
    coro::Task<Status> tell_lost(Offset start);
    void note_damage(std::string what);
    void tell_gap(Offset end, Offset next_start);

    // recovery_foreign.cpp
    coro::Task<Status> check_incarnation();
    coro::Task<Status> write_incarnation();
    coro::Task<Status> tell_foreign(Offset start, std::optional<Offset> next);
    coro::Task<Result<bool>> begins_as_named(const Segment& segment, FileRef file);
    [[nodiscard]] bool is_ours(const wire::BatchHeader& header) const noexcept;

    // recovery_marker.cpp
    void note_lost(Offset from, Offset end);
    coro::Task<Status> read_marker(std::string path);
    coro::Task<Status> mark_fenced();

    // recovery_index.cpp
    coro::Task<Result<IndexClaims>> read_claims(Offset start);
    void decode_claims(Offset start, ConstBytes places, IndexClaims& claims) const;
    coro::Task<Result<Offset>> told_end(Offset start);
    coro::Task<Result<std::vector<IndexEntry>>> keep_unchecked(const IndexClaims& claims,
                                                               runtime::FileHandle log,
                                                               std::uint64_t log_bytes,
                                                               std::uint64_t from);
    coro::Task<Status> rewrite_index(Segment& segment, const std::vector<IndexEntry>& entries);
    coro::Task<Status> walk_batches(runtime::FileHandle file, std::uint64_t size,
                                    std::uint64_t begin, Offset floor, Offset limit,
                                    const std::vector<IndexEntry>& claimed, Walk& found);

    // recovery_sealed.cpp
    coro::Task<Result<bool>> recover_sealed(FileRef file, Offset next_start);
    coro::Task<Status> rebuild_index(Segment& segment, runtime::FileHandle file,
                                     const IndexClaims& claims, const Walk& walk, bool whole);
    coro::Task<Status> tell_unclear(const Segment& segment, runtime::FileHandle file,
                                    const IndexClaims& claims, const Walk& walk, Offset next_start);
    void tell_cut(const Segment& segment, const Walk& walk, Offset lost_end);
    void tell_exchanged(const Segment& segment, Offset lost_end);

    // recovery_last.cpp
    coro::Task<Status> recover_last(FileRef file, bool writable, SalvageTurn& turn,
                                    std::vector<Salvaged>& salvaged);
    coro::Task<Result<std::optional<std::uint64_t>>> look_for_damage(
        const Segment& segment, runtime::FileHandle file, const std::vector<IndexEntry>& entries);
    void tell_damage(const Segment& segment, std::uint64_t position);
    coro::Task<Status> leave_damage(Segment& segment, runtime::FileHandle file,
                                    const IndexClaims& claims, const Walk& walk);
    coro::Task<Result<Remains>> look_at_remains(runtime::FileHandle file, std::uint64_t position,
                                                std::uint64_t size);

    // recovery_tail.cpp
    coro::Task<Result<Offset>> search_behind(Offset end, runtime::FileHandle file,
                                             std::uint64_t position, std::uint64_t size,
                                             std::vector<Salvaged>* salvaged);
    coro::Task<Result<bool>> cut_tail(const Segment& segment, runtime::FileHandle file,
                                      std::uint64_t position, std::uint64_t size,
                                      std::vector<Salvaged>& salvaged);
    coro::Task<Status> keep_aside(Offset start, runtime::FileHandle file, std::uint64_t from,
                                  std::uint64_t to);
    coro::Task<Status> copy_aside(Offset start, runtime::FileHandle file, std::uint64_t from,
                                  std::uint64_t to, std::string& path, FileRef& copy);

    // recovery_heal.cpp
    coro::Task<Status> heal(const JournalFacts* facts, const JournalReplay* replay,
                            std::vector<Salvaged>& salvaged);
    void place_recovered(memory::BufRef bytes, const wire::BatchHeader& header, OpNumber op);
    void tell_missing(Offset from, Offset end);
    coro::Task<void> begin_behind_cut();
    [[nodiscard]] bool may_be_elsewhere(Offset base) const;

    // recovery_finish.cpp
    coro::Task<Status> finish_recovery();
    coro::Task<Status> settle_recovered();
    void note_stable_end() noexcept;

    // partition_log_trim.cpp
    coro::Task<Status> apply_retained(std::vector<Offset>& indexes);
    void check_begin();
    coro::Task<Result<TrimResult>> trim_alone(Offset below, std::size_t count_max);
    [[nodiscard]] std::size_t count_to_trim(Offset below, std::size_t count_max) const noexcept;
    coro::Task<Status> write_retained(Offset low, Offset wanted, Offset unneeded);
    coro::Task<bool> give_up_index(Offset below);
    coro::Task<Status> move_leaving();

    // partition_log_drop.cpp
    coro::Task<void> quiesce();
    coro::Task<Status> move_to_trash(Offset start);
    void forget_everything();

    [[nodiscard]] std::string path_of(Offset start, std::string_view extension) const;
    [[nodiscard]] Offset flushed_end() const noexcept;
    /// False: a trim took it, or the log is over.
    [[nodiscard]] bool has_segment(Offset start) const noexcept;

    StorageContext& context_;
    std::string root_;
    std::string directory_;
    PartitionKey partition_;
    Incarnation incarnation_;
    LogOptions options_;
    std::uint64_t log_number_;

    Ring<TailBatch> tail_;
    std::uint64_t tail_first_id_ = 1;  ///< of tail_[0]; ids ascend by one
    std::uint64_t tail_messages_ = 0;
    std::uint64_t tail_bytes_ = 0;
    Ring<Uncommitted> uncommitted_;
    Offset end_offset_;
    Offset committed_end_;
    OpNumber committed_op_;
    Timestamp last_timestamp_;

    std::vector<Segment> segments_;  ///< ascending; the last one is active when `writer_` says so
    SegmentTotals totals_;           ///< of segments_
    Offset low_;                     ///< where segments_ begins, as the file "retained" says
    Offset wanted_;                  ///< trim up to there as soon as it may be; from that file
    /// Where "retained" may say that the log begins, besides `low_`: of a trim on its way, or of
    /// one whose write failed half-way. Segments of these names stay where they are.
    std::vector<Offset> begins_;
    std::vector<Offset> leaving_;  ///< out of segments_, not in the trash yet
    KnownEnds known_;              ///< what the ledger said at the start
    Offset stable_end_;            ///< of a persisted log: segments are stable up to there
    bool last_is_sealed_ = false;  ///< the last segment takes no more
    bool has_leftover_ = false;    ///< bytes of a failed write may stand behind its end
    Writer writer_;                ///< of the last segment
    std::vector<PendingRelease> pending_releases_;
    bool directory_exists_ = false;         ///< and it says whose it is
    bool entries_dirty_ = false;            ///< directory entries not stable yet
    Offset intact_end_{~std::uint64_t{0}};  ///< of what lies in front of the first damage found
    bool parents_dirty_ = false;            ///< nor, perhaps, those of the directories above

    bool flush_running_ = false;
    bool sync_running_ = false;
    bool background_flush_ = false;
    bool background_sync_ = false;
    bool unfencing_ = false;
    bool sync_failed_ = false;  ///< what was unsynced then may be gone, whatever a later sync says
    bool closed_ = false;
    std::uint64_t written_total_ = 0;         ///< bytes written to segments since open
    std::uint64_t synced_total_ = 0;          ///< of those, known as stable
    std::uint64_t background_sync_mark_ = 0;  ///< the background sync goes on up to here
    std::uint64_t rested_at_ = 0;             ///< written_total_ at the last rest()
    std::uint64_t named_total_ = 0;  ///< written_total_ when the last batch got its entry at rest
    bool was_read_ = false;          ///< from files, since the last rest()
    bool reads_hold_files_ = false;  ///< or before it

    std::optional<Error> fence_;
    bool fence_is_temporary_ = false;
    Instant fenced_at_{0};
    Instant fence_told_at_{0};      ///< last log line about one that passes; 0: none yet
    bool fence_told_last_ = false;  ///< the log's last word is that appends are refused
    const char* fence_reason_ = "";
    std::vector<LostRange> lost_;     ///< ascending, apart; does not change after open()
    std::vector<std::byte> marker_;   ///< what the file "fenced" says of them
    bool marker_is_damaged_ = false;  ///< it does not verify
    Instant unreadable_told_at_{0};   ///< last log line of a read about damage; 0: none yet
    Offset unreadable_segment_told_;  ///< and the place
    std::uint64_t unreadable_position_told_ = 0;
    RecoveryReport recovery_;
    bool recovery_complete_ = true;
    bool has_stable_damage_ = false;  ///< in the part of the last segment that was synced
    bool must_fence_ = false;         ///< for good, at the end of the recovery
    bool end_is_unnamed_ = false;  ///< the last segment was cut: only its index says where it ended
    bool end_is_occupied_ = false;  ///< a log stands behind the last segment, and is not served
    std::string damage_text_;       ///< why, for operators: the file and what to do
    Offset recovered_end_;          ///< next offset after recovery; complete when the files say so

    std::unique_ptr<BatchCipher> cipher_;  ///< null until something is encrypted or decrypted
    std::size_t decrypted_in_a_row_ = 0;   ///< bytes since a read last let others run

    coro::Semaphore making_directory_;
    coro::Semaphore trimming_;
    coro::Semaphore encrypting_;
    coro::WaitList flush_done_;
    coro::WaitList sync_done_;
    coro::Scope scope_;
};

}  // namespace galgo::storage

// ShardJournal: the write-ahead file of one shard. What all partitions of the shard appended in one
// turn of the loop goes out in one write; all that asked for stable storage shares one fdatasync.
// An entry that has completed survives kill -9 (and, with `persist`, a power loss) until its file
// is released.
//
// Files (docs/formats/journal.md) are of one size, written with zeros when made, so that appending
// allocates no blocks: a full disk fails the making of a file and never a write or a sync. One is
// active, one is kept ready, the others are sealed until all their records are released; then they
// are used again under a new sequence. At most files_max are in use; when less than half of them
// are left the pressure hook asks the shard to flush what pins all but the newest, so that one that
// is slow to flush leaves room to the others; when none is left entries wait for their turn. A file
// whose records cannot be released (a partition that can write no more) is set aside: it stays on
// the disk for the next start, and its place is free. At most kSetAsideMax; then set_aside() fails
// the entries that have no place (typed, to be tried again).
//
// Errors: a write or sync error fails the entries concerned and poisons the file: nothing is
// written or synced there again, and it is deleted once its live records are released. A failure to
// make a file fails the waiting entries; the next attempt is made a second later.
//
// Runs on its shard. Order: entries complete in the order of enqueue within each durability;
// records of one shard lie in the files in that order.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/intrusive_list.hpp"
#include "base/units.hpp"
#include "coro/ready_queue.hpp"
#include "coro/scope.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "memory/buffer.hpp"
#include "runtime/io.hpp"
#include "storage/journal_format.hpp"
#include "storage/journal_list.hpp"

namespace galgo::observe {
class Histogram;
}

namespace galgo::storage {

struct JournalOptions {
    std::string directory;  ///< "{path}/state", exists
    ShardIndex shard{0};
    std::uint64_t epoch = 1;  ///< JournalReplay::next_epoch()
    std::uint64_t first_sequence =
        1;  ///< JournalReplay::next_sequence(): above every name in the directory
    std::uint64_t file_bytes = kJournalFileBytesDefault;
    std::uint32_t files_max = 16;              ///< 3..=64
    BootNumber boot = 0;                       ///< of the machine; 0 = no list of files is kept
    observe::Histogram* sync_times = nullptr;  ///< of this shard; null = not recorded
};

/// One record on its way. Owned by the caller (the awaiter of append(), or a member of a
/// longer-lived object); stays where it is until `on_complete`.
struct JournalEntry : ListLink<struct JournalEntryTag> {
    using Complete = void (*)(JournalEntry& entry) noexcept;

    JournalRecord record;
    memory::BufRef body;  ///< kBatch: the bytes of the batch, read-only meanwhile
    bool persist = false;
    Complete on_complete =
        nullptr;  ///< called once, inside end_of_turn() or poll(); may enqueue again

    // Set at completion:
    Status status;
    std::uint64_t file_sequence = 0;  ///< to be released once, when status is fine

 private:
    friend class ShardJournal;
    std::uint32_t slot_ = 0;
};

struct JournalStats {
    std::uint32_t file_count = 0;
    std::uint32_t available_file_count = 0;  ///< ready, free, or may still be made
    std::uint64_t live_record_count = 0;
    std::uint64_t oldest_live_sequence = 0;  ///< 0 = none
    std::uint64_t written_bytes = 0;
    std::uint64_t write_count = 0;
    std::uint64_t sync_count = 0;
    std::uint64_t failure_count = 0;  ///< failed writes, syncs and attempts to make a file
};

class ShardJournal : public coro::Anchored {
 public:
    static constexpr std::size_t kSetAsideMax = 64;

    /// Asks for the flush of all partitions (and the checkpoint of offsets) with records in files
    /// up to `sequence`. Called inside end_of_turn() or poll(), again and again as long as it is
    /// needed; it must only start work.
    using PressureHook = void (*)(void* context, std::uint64_t sequence) noexcept;

    /// What released records told of partitions is written down elsewhere when it returns: their
    /// file goes, or is used again.
    using ReleaseHook = coro::Task<void> (*)(void* context);

    ShardJournal(runtime::IoBackend& io, coro::ReadyQueue& ready, JournalOptions options);
    ~ShardJournal();

    /// Makes the first file. An error leaves the journal usable: appends try again.
    coro::Task<Status> open();
    /// Writes and syncs what is enqueued, then closes all files. Nothing may be enqueued
    /// afterwards.
    coro::Task<void> close();

    void set_pressure_hook(PressureHook hook, void* context) noexcept;
    void set_release_hook(ReleaseHook hook, void* context) noexcept;

    /// Puts the entry behind all others; allocates nothing and cannot fail.
    void enqueue(JournalEntry& entry) noexcept;

    class AppendAwaiter;
    /// co_await append(...): Result of the file sequence that is to be released later.
    [[nodiscard]] AppendAwaiter append(const JournalRecord& record, memory::BufRef body,
                                       bool persist) noexcept;

    /// Writes what was enqueued. Called by the shard's loop once a turn, before it polls.
    void end_of_turn() noexcept;

    /// From now on an entry for which there is no file fails instead of waiting for a release. For
    /// a stop.
    void stop_waiting() noexcept;

    /// `count` records of that file are no longer needed (flushed to their segment, or
    /// checkpointed).
    void release(std::uint64_t file_sequence, std::uint32_t count) noexcept;

    /// Less than half of the files are left: the pressure hook is called with each new one.
    [[nodiscard]] bool is_scarce() const noexcept;
    /// The oldest file that keeps new ones from being made; 0 while there are enough.
    [[nodiscard]] std::uint64_t blocking_sequence() const noexcept;
    /// Frees the place of a sealed file whose records cannot be released. It stays on the disk
    /// until they are, or for the next start. False: not now (an entry of it is on its way, or too
    /// many are aside: entries that wait for a file then fail with TransientNotAccepted).
    coro::Task<bool> set_aside(std::uint64_t file_sequence);

    [[nodiscard]] JournalStats stats() const noexcept;
    /// Why appends fail: there is no file, and the last try to make one failed. Nothing: they do
    /// not.
    [[nodiscard]] std::optional<Error> fault() const noexcept {
        return active_ == kNone && find_ready() == kNone && make_error_.os_errno != 0
                   ? std::optional(make_error_)
                   : std::nullopt;
    }
    [[nodiscard]] const JournalOptions& options() const noexcept { return options_; }

 private:
    enum class State : std::uint8_t { kAbsent, kMaking, kFree, kReady, kActive, kSealed };
    struct File {
        State state = State::kAbsent;
        bool poisoned = false;
        runtime::FileHandle handle = runtime::kNoFile;
        std::uint64_t sequence = 0;
        std::uint64_t former = 0;  ///< its sequence before that; 0: none
        std::uint64_t live_count = 0;
        std::uint64_t used_bytes = 0;    ///< written in its present life
        std::uint64_t stable_bytes = 0;  ///< of those, known as synced
    };
    struct SetAside {
        std::uint64_t sequence = 0;
        std::uint64_t live_count = 0;
        bool poisoned = false;
    };
    struct Operation : runtime::IoOp {
        ShardJournal* journal = nullptr;
    };
    using Entries = IntrusiveList<JournalEntry, JournalEntryTag>;

    static constexpr std::size_t kStagingBytes = 64 * kKiB;
    static constexpr std::size_t kRecordsPerWriteMax = 511;
    static constexpr std::uint32_t kNone = ~std::uint32_t{0};

    // shard_journal.cpp: the write path
    void pump() noexcept;
    bool ensure_active() noexcept;
    void write_gathered() noexcept;
    std::uint64_t take_for_write() noexcept;
    void encode_to_staging(std::uint64_t bytes) noexcept;
    void note_stable(JournalRecord& record) noexcept;
    void submit_ring_write() noexcept;
    void on_ring_write(std::int32_t result) noexcept;
    void finish_write() noexcept;
    void fail_write(const Error& error) noexcept;
    void start_sync() noexcept;
    void on_sync(std::int32_t result) noexcept;
    static void complete(JournalEntry& entry, Status status) noexcept;
    void fail_pending(const Error& error) noexcept;
    void forget_records(File& file, std::uint64_t count) noexcept;
    void wake_if_idle() noexcept;
    [[nodiscard]] bool idle() const noexcept;

    // shard_journal_files.cpp: the files
    [[nodiscard]] std::uint32_t find_ready() const noexcept;
    [[nodiscard]] std::uint32_t available_count() const noexcept;
    [[nodiscard]] std::uint64_t oldest_live() const noexcept;
    void seal_active() noexcept;
    void settle(File& file) noexcept;
    void check_pressure() noexcept;
    void kick() noexcept;
    [[nodiscard]] bool has_file_work() const noexcept;
    static coro::Task<void> maintain(coro::Anchor<ShardJournal> journal);
    coro::Task<Status> write_list(std::optional<JournalList::Entry> coming);
    coro::Task<void> write_last_list();
    coro::Task<Status> let_go(std::optional<JournalList::Entry> coming);
    coro::Task<void> drop_poisoned();
    coro::Task<void> drop_set_aside();
    [[nodiscard]] bool has_entries_of(std::uint32_t slot) noexcept;
    void tell_making(const Status& made);
    coro::Task<Status> prepare_one();
    coro::Task<Status> make_file(std::uint32_t slot);
    coro::Task<Status> fill_file(std::uint32_t slot, const std::string& path);
    coro::Task<Status> recycle_file(std::uint32_t slot);
    coro::Task<Status> write_header(std::uint32_t slot);
    [[nodiscard]] std::string path_of(std::uint64_t sequence) const;

    runtime::IoBackend& io_;
    coro::ReadyQueue& ready_;
    JournalOptions options_;
    std::vector<File> files_;  // files_max slots, never resized
    std::vector<SetAside> set_aside_;
    std::uint64_t next_sequence_;

    std::uint32_t active_ = kNone;
    std::uint64_t position_ = 0;        // in the active file
    std::uint64_t seed_ = 0;            // of the active file
    std::uint32_t prior_ = kNone;       // slot of the file that was active before
    std::uint64_t prior_sequence_ = 0;  // its life; 0: there was none
    std::uint64_t prior_stable_ = 0;    // what was known of it last

    Entries pending_;
    std::uint64_t pending_bytes_ = 0;
    Entries writing_;
    Entries awaiting_sync_;
    Entries syncing_;
    std::uint64_t writing_bytes_ = 0;
    bool ring_write_in_flight_ = false;
    bool sync_in_flight_ = false;
    bool in_pump_ = false;

    std::unique_ptr<std::byte[]> staging_;  // 64 KiB: small writes, or the headers of a ring write
    std::unique_ptr<iovec[]> parts_;
    std::size_t part_first_ = 0;
    std::size_t part_count_ = 0;
    Operation write_operation_;
    Operation sync_operation_;
    std::uint32_t sync_slot_ = kNone;
    Instant sync_began_{0};
    std::uint64_t sync_covers_ = 0;  // bytes of that file, when the sync succeeds

    bool list_is_stale_ = false;  // a file of it was poisoned
    bool maintaining_ = false;
    bool draining_ = false;
    bool closing_ = false;
    Error make_error_;
    Instant retry_make_at_{0};
    std::int32_t make_told_errno_ = 0;  // the log's last word is that files fail with it; 0: none
    Instant next_make_line_at_{0};
    Instant next_full_line_at_{0};
    PressureHook pressure_hook_ = nullptr;
    void* pressure_context_ = nullptr;
    ReleaseHook release_hook_ = nullptr;
    void* release_context_ = nullptr;

    coro::Scope scope_;
    coro::WaitList idle_waiters_;
    JournalStats stats_;
};

class [[nodiscard]] ShardJournal::AppendAwaiter : JournalEntry, coro::ReadyNode {
 public:
    AppendAwaiter(ShardJournal& journal, const JournalRecord& what, memory::BufRef bytes,
                  bool wants_persist) noexcept
        : journal_(journal) {
        record = what;
        body = std::move(bytes);
        persist = wants_persist;
    }
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) noexcept {
        handle = waiting;
        on_complete = [](JournalEntry& entry) noexcept {
            auto& self = static_cast<AppendAwaiter&>(entry);
            self.journal_.ready_.push(self);
        };
        journal_.enqueue(*this);
    }
    [[nodiscard]] Result<std::uint64_t> await_resume() const noexcept {
        if (!status.has_value()) {
            return std::unexpected(status.error());
        }
        return file_sequence;
    }

 private:
    ShardJournal& journal_;
};

inline ShardJournal::AppendAwaiter ShardJournal::append(const JournalRecord& record,
                                                        memory::BufRef body,
                                                        bool persist) noexcept {
    return {*this, record, std::move(body), persist};
}

}  // namespace galgo::storage

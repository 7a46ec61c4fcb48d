// Wal: the log of the metadata group, `metadata/journal.wal.{generation:010}`: entries of a
// 256-byte prepare header (wire/prepare.hpp) and a body. An append completes when its entry is on
// stable storage; what queues up meanwhile shares one batch: two writes and one fdatasync.
// Mode 0600: bodies hold password hashes.
//
// Torn or rotten? Each batch is written twice, to the two regions of a pre-written file, under one
// barrier. Two writes that are both bad where nothing follows are a write that never completed, and
// was not acknowledged: the log ends before it. One bad copy is rot, healed from the other. Two bad
// copies with a batch behind them are rot of something acknowledged: opening refuses. So no fault
// of one place loses anything; against faults of both copies of the very last batch a mark (an
// empty batch) is written once the log was idle for one to two seconds, and at the end.
//
// While it runs nothing is written over. A start writes rotten copies again, and the last batch,
// one copy after the other. A file that is full, or that ends in a torn batch or in one that cannot
// be restored, is followed by the next generation, which the superblock names before anything is
// acknowledged from it. One file is in reserve, always. What a snapshot covers goes by whole files.
//
// Errors: no next generation (no room, no descriptor) refuses the appends of that group and leaves
// nothing of them; the next ones try again. After any other failed write or sync poisoned() is true
// and every append fails until a restart. Shard 0. docs/formats/wal.md
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/intrusive_list.hpp"
#include "base/unique_function.hpp"
#include "coro/ready_queue.hpp"
#include "coro/scope.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "storage/refusal.hpp"
#include "storage/superblock.hpp"
#include "storage/wal_format.hpp"
#include "wire/prepare.hpp"

namespace galgo::observe {
class Histogram;
}

namespace galgo::storage {

namespace detail {
struct WalPart;
}

class Wal : public coro::Anchored {
 public:
    struct Options {
        std::string directory;
        /// Of one of the two regions of a file; larger where one entry needs it.
        std::uint64_t region_bytes = 2ULL << 20U;
        /// False: acknowledges what no barrier covers. For measurements only.
        bool barriers = true;
        /// The log has to begin at or before the op behind this one.
        OpNumber snapshot_op;
        /// What proves that entries were made before; when it is not empty, a log without any is
        /// refused.
        std::string required_by;
        /// The log goes at least to `known_op`, as `known_by` says (the name of a file).
        OpNumber known_op;
        std::string known_by;
    };
    /// Called for each entry in order; the body is borrowed. An error ends the opening with its
    /// text, before anything was changed on disk.
    using OnEntry = UniqueFunction<std::expected<void, std::string>(
        const wire::PrepareHeader& header, ConstBytes body)>;

    /// Replays the generations that `superblock` names (which outlives the log), heals copies, and
    /// makes the first generation of a new log. Deletes nothing.
    static coro::Task<OrRefusal<std::unique_ptr<Wal>>> open(runtime::IoBackend& io,
                                                            coro::ReadyQueue& ready,
                                                            Superblock& superblock, Options options,
                                                            OnEntry on_entry);
    ~Wal() = default;

    /// Once, when the start was accepted by all who have a say in it, before appends: deletes files
    /// that are not in force, and makes the one in reserve. What it cannot do is logged.
    coro::Task<void> sweep();

    class AppendAwaiter;
    /// co_await wal.append(op, bytes): Status. `entry` is the encoded header and the body. Ops
    /// ascend; the number of one that was refused is left out.
    [[nodiscard]] AppendAwaiter append(OpNumber op, std::vector<std::byte> entry);
    /// Records the time of every barrier from now on. `into` outlives the log.
    void measure_syncs(observe::Histogram& into) noexcept { sync_times_ = &into; }
    /// False: there is no room for an entry of this size, because the next file could not be made
    /// or opened; it is tried again. True promises nothing before that was tried.
    [[nodiscard]] bool has_room(std::size_t entry_bytes);
    /// Once a second or so: marks the end of a log that was idle since the last call.
    void tick();

    /// The oldest generation that holds an op above `op`.
    [[nodiscard]] std::uint64_t first_generation_above(OpNumber op) const noexcept;
    /// Deletes the files of older generations, which the superblock does not name any more.
    coro::Task<void> drop_before(std::uint64_t generation);
    /// Waits for what is queued, marks the end and closes the file.
    coro::Task<void> close();

    [[nodiscard]] OpNumber head() const noexcept { return head_; }
    [[nodiscard]] std::uint64_t barrier_count() const noexcept { return barrier_count_; }
    [[nodiscard]] std::uint64_t batch_count() const noexcept { return batch_count_; }
    [[nodiscard]] std::uint64_t entry_count() const noexcept { return entry_count_; }
    /// Bytes of the batches behind the snapshot that was the newest when the log was opened.
    [[nodiscard]] std::uint64_t log_bytes() const noexcept { return log_bytes_; }
    [[nodiscard]] std::size_t file_count() const noexcept { return files_.size(); }
    /// Batches of which one copy was restored from the other when the log was opened.
    [[nodiscard]] std::uint64_t healed_count() const noexcept { return healed_count_; }
    /// Opening found a batch that was never completed.
    [[nodiscard]] bool was_torn() const noexcept { return was_torn_; }
    [[nodiscard]] bool poisoned() const noexcept { return poisoned_.has_value(); }

 private:
    struct File {
        std::uint64_t generation = 0;
        std::uint64_t region_bytes = 0;
        OpNumber op_last;  ///< of its entries, or of those before it
    };
    struct Repair;
    struct Reading;
    struct Scan;

    Wal(runtime::IoBackend& io, coro::ReadyQueue& ready, Superblock& superblock, Options options);

    [[nodiscard]] std::unexpected<Refusal> no_entries() const;
    coro::Task<OrRefusal<void>> start_new();
    coro::Task<OrRefusal<void>> recover(OnEntry& on_entry);
    coro::Task<OrRefusal<void>> recover_file(Scan& scan, std::uint64_t generation,
                                             OnEntry& on_entry);
    coro::Task<OrRefusal<std::uint64_t>> find_region(const Reading& reading);
    [[nodiscard]] std::optional<WalBatch> batch_at(const Scan& scan, const Reading& reading,
                                                   const detail::WalPart& part,
                                                   std::uint64_t at) const;
    OrRefusal<void> replay_batches(Scan& scan, Reading& reading, OnEntry& on_entry);
    OrRefusal<void> judge_end(Scan& scan, const Reading& reading) const;
    OrRefusal<void> take_entries(const WalBatch& batch, ConstBytes bytes, const std::string& path,
                                 std::uint64_t position, OnEntry& on_entry);
    coro::Task<OrRefusal<void>> finish_recovery(Scan& scan);
    [[nodiscard]] OrRefusal<void> check_known(std::uint64_t generation) const;
    coro::Task<OrRefusal<void>> judge_above(Scan& scan, std::uint64_t generation_last);
    coro::Task<Status> repair(const Repair& repair);
    coro::Task<OrRefusal<void>> rewrite_last(const Scan& scan);
    static coro::Task<void> commit(coro::Anchor<Wal> wal);
    static coro::Task<void> make_ahead(coro::Anchor<Wal> wal);
    void start_making_ahead();
    void enqueue(AppendAwaiter& entry);
    void start_commit();
    coro::Task<Status> write_batch(WalBatch facts, std::vector<std::byte>& batch);
    coro::Task<Status> write_mark();
    coro::Task<void> name_end();
    coro::Task<Status> write_copy(ConstBytes batch, std::uint64_t position);
    coro::Task<Status> rotate(std::uint64_t batch_bytes);
    coro::Task<Status> make_next(std::uint64_t region_bytes);
    coro::Task<Status> make_file(const File& file);
    [[nodiscard]] WalSeal seal_of(std::uint64_t generation) const noexcept {
        return {.salt = superblock_.state().salt, .generation = generation};
    }
    [[nodiscard]] std::uint64_t room() const noexcept;

    runtime::IoBackend& io_;
    coro::ReadyQueue& ready_;
    Superblock& superblock_;
    Options options_;
    std::deque<File> files_;  ///< oldest first; the last one is written
    runtime::FileHandle file_ = runtime::kNoFile;
    std::uint64_t position_ = 0;  ///< within a region, where the next batch goes
    std::uint64_t sequence_ = 0;  ///< of the last batch
    OpNumber head_;
    OpNumber queued_;  ///< last op that was handed to append()
    observe::Histogram* sync_times_ = nullptr;
    bool ends_in_mark_ = true;
    bool ends_torn_ = false;    ///< or damaged: the next batch goes into a new file
    std::optional<File> next_;  ///< made ahead
    runtime::FileHandle next_file_ = runtime::kNoFile;  ///< it, once open
    bool next_failed_ = false;
    bool making_ahead_ = false;
    coro::Semaphore making_;
    std::uint64_t queued_bytes_ = 0;  ///< blocks that the queue takes at most
    std::uint64_t ticked_batches_ = 0;
    std::uint64_t barrier_count_ = 0;
    std::uint64_t batch_count_ = 0;
    std::uint64_t entry_count_ = 0;
    std::uint64_t log_bytes_ = 0;
    std::uint64_t healed_count_ = 0;
    bool was_torn_ = false;
    bool committing_ = false;
    bool mark_wanted_ = false;
    std::optional<Error> poisoned_;
    IntrusiveList<AppendAwaiter, struct WalTag> queue_;
    coro::Scope scope_;
};

class [[nodiscard]] Wal::AppendAwaiter : public ListLink<struct WalTag>, public coro::ReadyNode {
 public:
    AppendAwaiter(Wal& wal, OpNumber op, std::vector<std::byte> entry) noexcept
        : wal_(wal), op_(op), entry_(std::move(entry)) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
        handle = waiting;
        wal_.enqueue(*this);
    }
    [[nodiscard]] Status await_resume() const noexcept { return status_; }

 private:
    friend class Wal;
    Wal& wal_;
    OpNumber op_;
    std::vector<std::byte> entry_;
    Status status_;
};

inline Wal::AppendAwaiter Wal::append(OpNumber op, std::vector<std::byte> entry) {
    return {*this, op, std::move(entry)};
}

}  // namespace galgo::storage

// Wal: the log of the metadata group, `metadata/journal.wal`: entries of a 256-byte prepare header
// (checksummed, wire/prepare.hpp) and a body, back to back. An append completes when its entry is
// on stable storage; what queues up meanwhile shares one write and one fdatasync. Mode 0600: bodies
// hold password hashes.
//
// Opening replays all of it. A last entry that is incomplete or does not verify is a torn write: it
// is cut, its bytes are kept in `journal.wal.torn-{n}`. Damage with a valid entry behind it is not:
// opening refuses and names the position, because dropping entries would undo acknowledged changes.
//
// Room for the next changes is allocated ahead of the end, so that a full disk can be cleaned up
// through the server itself (deleting a topic is an entry too).
//
// Errors: a full disk refuses the append, which leaves nothing behind (what it wrote is cut back),
// and the next one tries again. After any other failed write, a failed sync, or when the cut fails,
// poisoned() is true and every append fails until a restart. Shard 0.
// docs/formats/wal.md
#pragma once

#include <expected>
#include <memory>
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
#include "wire/prepare.hpp"

namespace galgo::observe {
class Histogram;
}

namespace galgo::storage {

/// An entry above that is damage.
inline constexpr std::uint32_t kWalEntryBytesMax = 64 * 1024 * 1024;

struct WalFailure {
    Error error;
    std::string text;  ///< one line for the operator
};

class Wal : public coro::Anchored {
 public:
    /// Called for each entry in order; the body is borrowed. An error ends the opening with it.
    using OnEntry = UniqueFunction<Status(const wire::PrepareHeader& header, ConstBytes body)>;

    /// `path`'s directory exists. Makes the file when it is absent. `required_by`: what proves that
    /// entries were made before; when it is not empty, a file that is absent or has no valid first
    /// entry is refused and left as it is.
    static coro::Task<std::expected<std::unique_ptr<Wal>, WalFailure>> open(
        runtime::IoBackend& io, coro::ReadyQueue& ready, std::string path, OnEntry on_entry,
        std::string required_by = {});
    ~Wal() = default;

    class AppendAwaiter;
    /// co_await wal.append(bytes): Status. `entry` is the encoded header and the body.
    [[nodiscard]] AppendAwaiter append(std::vector<std::byte> entry);

    /// Records the time of every group's sync from now on. `into` outlives the log.
    void measure_syncs(observe::Histogram& into) noexcept { sync_times_ = &into; }
    /// Waits for what is queued and closes the file.
    coro::Task<void> close();

    [[nodiscard]] std::uint64_t size_bytes() const noexcept { return size_bytes_; }
    [[nodiscard]] std::uint64_t sync_count() const noexcept { return sync_count_; }
    /// Bytes that opening cut.
    [[nodiscard]] std::uint64_t cut_bytes() const noexcept { return cut_bytes_; }
    [[nodiscard]] bool poisoned() const noexcept { return poisoned_.has_value(); }

 private:
    Wal(runtime::IoBackend& io, coro::ReadyQueue& ready, std::string path);

    coro::Task<std::expected<void, WalFailure>> replay(OnEntry& on_entry,
                                                       const std::string& required_by);
    coro::Task<Result<bool>> valid_entry_behind(std::uint64_t position, std::uint64_t file_bytes);
    coro::Task<Status> cut(std::uint64_t position, std::uint64_t file_bytes);
    static coro::Task<void> commit(coro::Anchor<Wal> wal);
    coro::Task<void> reserve();
    coro::Task<Status> allocate(std::uint64_t bytes);
    coro::Task<Status> write_group(const std::vector<std::byte>& group);
    void enqueue(AppendAwaiter& entry);

    runtime::IoBackend& io_;
    coro::ReadyQueue& ready_;
    std::string path_;
    runtime::FileHandle file_ = runtime::kNoFile;
    std::uint64_t size_bytes_ = 0;
    std::uint64_t reserved_end_ = 0;  ///< the file's blocks reach so far; never below size_bytes_
    std::uint64_t sync_count_ = 0;
    observe::Histogram* sync_times_ = nullptr;
    std::uint64_t cut_bytes_ = 0;
    bool committing_ = false;
    std::optional<Error> poisoned_;
    IntrusiveList<AppendAwaiter, struct WalTag> queue_;
    coro::Scope scope_;
};

class [[nodiscard]] Wal::AppendAwaiter : public ListLink<struct WalTag>, public coro::ReadyNode {
 public:
    AppendAwaiter(Wal& wal, std::vector<std::byte> entry) noexcept
        : wal_(wal), entry_(std::move(entry)) {}
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) {
        handle = waiting;
        wal_.enqueue(*this);
    }
    [[nodiscard]] Status await_resume() const noexcept { return status_; }

 private:
    friend class Wal;
    Wal& wal_;
    std::vector<std::byte> entry_;
    Status status_;
};

inline Wal::AppendAwaiter Wal::append(std::vector<std::byte> entry) {
    return {*this, std::move(entry)};
}

}  // namespace galgo::storage

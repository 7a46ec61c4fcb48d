// StorageContext: what all partition logs of one shard share: the back end, the buffer pool, the
// shard's journal, the read handles, the packer of small batches and the iovec arrays of running
// flushes. Made by the shard; outlives its logs. One shard.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coro/ready_queue.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "memory/buffer_pool.hpp"
#include "memory/chunk_packer.hpp"
#include "runtime/io.hpp"
#include "storage/data_key.hpp"
#include "storage/file_cache.hpp"
#include "storage/read_ahead.hpp"
#include "storage/shard_journal.hpp"
#include "storage/trash.hpp"

namespace galgo::observe {
class Histogram;
}

namespace galgo::storage {

/// Most buffers of one vectored write.
inline constexpr std::size_t kWritePartsMax = 1024;

/// A recovery's turn to hold what it salvages; given back at its end at the latest.
class SalvageTurn {
 public:
    explicit SalvageTurn(coro::Semaphore& turns) noexcept : turns_(turns) {}
    SalvageTurn(const SalvageTurn&) = delete;
    SalvageTurn& operator=(const SalvageTurn&) = delete;
    ~SalvageTurn() { give(); }

    coro::Task<void> take() {
        if (!taken_) {
            co_await turns_.acquire();
            taken_ = true;
        }
    }
    void give() noexcept {
        if (std::exchange(taken_, false)) {
            turns_.release();
        }
    }

 private:
    coro::Semaphore& turns_;
    bool taken_ = false;
};

class StorageContext {
 public:
    using Parts = std::array<iovec, kWritePartsMax>;

    /// `trash_can`: where dropped segments and partitions wait for their deletion.
    StorageContext(runtime::IoBackend& io_backend, coro::ReadyQueue& ready_queue,
                   memory::BufferPool& buffer_pool, ShardJournal& shard_journal, Trash& trash_can,
                   std::size_t read_handles_max = 64)
        : io(io_backend),
          ready(ready_queue),
          pool(buffer_pool),
          journal(shard_journal),
          files(io_backend, ready_queue, read_handles_max),
          read_ahead(io_backend),
          packer(buffer_pool),
          trash(trash_can),
          salvage(ready_queue, 1) {}

    runtime::IoBackend& io;
    coro::ReadyQueue& ready;
    memory::BufferPool& pool;
    ShardJournal& journal;
    FileCache files;
    ReadAhead read_ahead;
    /// Small batches of all partitions share chunks: what pins a chunk also pins a journal file,
    /// and both are set free by the same pressure.
    memory::ChunkPacker packer;
    Trash& trash;
    /// Logs that hold whole batches from behind a torn one in memory: one at a time.
    coro::Semaphore salvage;
    observe::Histogram* sync_times = nullptr;  ///< of segment files; null = not recorded
    const DataKey* encryption = nullptr;       ///< of what is appended; null = plain

    [[nodiscard]] std::uint64_t next_log_number() noexcept { return ++log_number_; }

    /// Directories whose entries this run has synced, so that the logs below one need not all do it
    /// again; until the next directory is made.
    [[nodiscard]] bool is_stable_directory(const std::string& path) const {
        return stable_directories_.contains(path);
    }
    /// Taken before a sync.
    [[nodiscard]] std::uint64_t stable_mark() const noexcept { return directories_made_; }
    /// After it: counts unless a directory was made meanwhile.
    void note_stable_directory(const std::string& path, std::uint64_t mark) {
        if (mark == directories_made_) {
            stable_directories_.insert(path);
        }
    }
    /// After one was made.
    void forget_stable_directories() noexcept {
        ++directories_made_;
        stable_directories_.clear();
    }

    /// An array for one vectored write; as many exist as flushes ever ran side by side.
    [[nodiscard]] std::unique_ptr<Parts> take_parts() {
        if (free_parts_.empty()) {
            return std::make_unique<Parts>();
        }
        auto parts = std::move(free_parts_.back());
        free_parts_.pop_back();
        return parts;
    }
    void give_parts(std::unique_ptr<Parts> parts) { free_parts_.push_back(std::move(parts)); }

 private:
    std::uint64_t log_number_ = 0;
    std::set<std::string> stable_directories_;
    std::uint64_t directories_made_ = 0;
    std::vector<std::unique_ptr<Parts>> free_parts_;
};

}  // namespace galgo::storage

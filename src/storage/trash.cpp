// Renaming into the trash, and deletion of large files in small steps.
#include "storage/trash.hpp"

#include <cerrno>

#include "base/units.hpp"
#include "runtime/io_await.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint64_t kCutBytes = 32 * kMiB;
/// trash / partition / offsets / consumers
constexpr std::uint32_t kDepthMax = 4;

/// Cuts the file from its end; true when it is gone.
Task<Result<bool>> delete_file(runtime::IoBackend& io, coro::ReadyQueue& ready,
                               const std::string& path, std::size_t& steps) {
    GALGO_CO_TRY_ASSIGN(const runtime::FileFacts facts, io.file_facts(path));
    std::uint64_t size = facts.size_bytes;
    if (size > kCutBytes) {
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                            co_await runtime::open(io, path, runtime::OpenMode::kReadWrite));
        Status cut;
        while (size > kCutBytes && steps != 0 && cut.has_value()) {
            --steps;
            size -= kCutBytes;
            cut = co_await runtime::truncate(io, file, size);
            co_await coro::yield_to(ready);
        }
        (void)co_await runtime::close(io, file);
        GALGO_CO_TRY(cut);
    }
    if (size > kCutBytes || steps == 0) {
        co_return false;
    }
    --steps;
    GALGO_CO_TRY(co_await runtime::unlink(io, path));
    co_await coro::yield_to(ready);
    co_return true;
}

Task<Result<bool>> empty_directory(runtime::IoBackend& io, coro::ReadyQueue& ready,
                                   const std::string& directory, std::size_t& steps,
                                   std::uint32_t depth) {
    GALGO_CO_TRY_ASSIGN(const auto entries, io.list_directory(directory));
    bool all_gone = true;
    for (const runtime::DirectoryEntry& entry : entries) {
        if (steps == 0) {
            co_return false;  // the rest is not even looked at
        }
        const std::string path = directory + '/' + entry.name;
        Result<bool> gone = false;
        if (!entry.is_directory) {
            gone = co_await delete_file(io, ready, path, steps);
        } else if (depth > 1) {
            gone = co_await empty_directory(io, ready, path, steps, depth - 1);
            if (gone.has_value() && *gone) {
                const Status removed = co_await runtime::remove_directory(io, path);
                gone = removed.has_value();
            }
        }
        all_gone = all_gone && gone.has_value() && *gone;
    }
    co_return all_gone;
}

}  // namespace

Task<Status> Trash::take(runtime::IoBackend& io, std::string from, std::string name) {
    GALGO_CO_TRY(co_await runtime::make_directories(io, directory_));
    const std::string to = directory_ + '/' + name;
    const Status moved = co_await runtime::rename(io, from, to);
    if (moved.has_value()) {
        has_work_.store(true, std::memory_order_relaxed);
    } else if (moved.error().os_errno != ENOENT) {
        co_return moved;
    }
    co_return Status{};
}

void Trash::note_retired(PartitionKey partition, Incarnation incarnation) {
    const std::scoped_lock lock(retired_mutex_);
    const Life life(partition, incarnation);
    if (!retired_set_.insert(life).second) {
        return;
    }
    retired_.push_back(life);
    if (retired_.size() > kLivesMax) {
        retired_set_.erase(retired_.front());
        retired_.pop_front();
    }
}

bool Trash::is_retired(PartitionKey partition, Incarnation incarnation) const {
    const std::scoped_lock lock(retired_mutex_);
    return retired_set_.contains(Life(partition, incarnation));
}

std::vector<Trash::Life> Trash::retired_lives() const {
    const std::scoped_lock lock(retired_mutex_);
    return {retired_.begin(), retired_.end()};
}

Task<Result<bool>> Trash::empty(runtime::IoBackend& io, coro::ReadyQueue& ready,
                                std::size_t steps_max) {
    // First: what comes while we look is for the next call.
    has_work_.store(false, std::memory_order_relaxed);
    std::size_t steps = steps_max;
    Result<bool> emptied = co_await empty_directory(io, ready, directory_, steps, kDepthMax);
    if (!emptied.has_value() && emptied.error().os_errno == ENOENT) {
        co_return true;
    }
    if (!emptied.has_value() || !*emptied) {
        has_work_.store(true, std::memory_order_relaxed);
    }
    co_return emptied;
}

}  // namespace galgo::storage

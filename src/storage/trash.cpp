// Deletion of large files in small steps.
#include "storage/trash.hpp"

#include <cerrno>

#include "base/units.hpp"
#include "runtime/io_await.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint64_t kCutBytes = 32 * kMiB;

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

}  // namespace

Task<Result<bool>> empty_trash(runtime::IoBackend& io, coro::ReadyQueue& ready,
                               std::string directory, std::size_t steps_max) {
    auto entries = io.list_directory(directory);
    if (!entries.has_value()) {
        if (entries.error().os_errno == ENOENT) {
            co_return true;
        }
        co_return std::unexpected(entries.error());
    }
    bool all_gone = true;
    for (const runtime::DirectoryEntry& entry : *entries) {
        if (entry.is_directory) {
            continue;
        }
        const std::string path = directory + '/' + entry.name;
        const Result<bool> gone = co_await delete_file(io, ready, path, steps_max);
        all_gone = all_gone && gone.has_value() && *gone;
    }
    co_return all_gone;
}

}  // namespace galgo::storage

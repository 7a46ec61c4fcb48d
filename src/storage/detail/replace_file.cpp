#include "storage/detail/replace_file.hpp"

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"

namespace galgo::storage::detail {

namespace {

constexpr std::uint32_t kMode = 0640;
constexpr std::uint32_t kPrivateMode = 0600;

enum class Stable : std::uint8_t { kNo, kYes };

coro::Task<Status> replace(runtime::IoBackend& io, std::string directory, std::string name,
                           std::span<const ConstBytes> pieces, std::uint32_t mode, Stable stable) {
    const std::string path = directory + '/' + name;
    const std::string temporary = path + std::string(kTemporary);
    Result<runtime::FileHandle> opened =
        co_await runtime::open(io, temporary, runtime::OpenMode::kCreate, mode);
    if (!opened.has_value() && opened.error().os_errno == ENOENT) {
        GALGO_CO_TRY(co_await runtime::make_directories(io, directory));
        opened = co_await runtime::open(io, temporary, runtime::OpenMode::kCreate, mode);
    }
    GALGO_CO_TRY(opened);
    Status status;
    std::uint64_t at = 0;
    for (const ConstBytes piece : pieces) {
        if (status.has_value()) {
            status = co_await runtime::write_all(io, *opened, piece, at);
        }
        at += piece.size();
    }
    if (status.has_value() && stable == Stable::kYes) {
        // Without it a power loss may leave the new name on an empty file, when what told the same
        // is given up already.
        status = co_await runtime::sync(io, *opened);
    }
    (void)co_await runtime::close(io, *opened);
    if (status.has_value()) {
        status = co_await runtime::rename(io, temporary, path);
    }
    if (!status.has_value()) {
        (void)co_await runtime::unlink(io, temporary);
    }
    co_return status;
}

}  // namespace

coro::Task<Status> replace_file(runtime::IoBackend& io, std::string directory, std::string name,
                                ConstBytes bytes) {
    const std::array pieces{bytes};
    const Status status =
        co_await replace(io, std::move(directory), std::move(name), pieces, kMode, Stable::kYes);
    co_return status;
}

coro::Task<Status> replace_unsynced(runtime::IoBackend& io, std::string directory, std::string name,
                                    ConstBytes bytes) {
    const std::array pieces{bytes};
    const Status status =
        co_await replace(io, std::move(directory), std::move(name), pieces, kMode, Stable::kNo);
    co_return status;
}

coro::Task<Status> replace_private_file(runtime::IoBackend& io, std::string directory,
                                        std::string name, std::span<const ConstBytes> pieces) {
    return replace(io, std::move(directory), std::move(name), pieces, kPrivateMode, Stable::kYes);
}

coro::Task<void> remove_strays(runtime::IoBackend& io, std::string directory,
                               UniqueFunction<Stray(std::string_view name)> judge) {
    const Result<std::vector<runtime::DirectoryEntry>> entries = io.list_directory(directory);
    Status gone;
    if (!entries.has_value()) {
        gone = std::unexpected(entries.error());
    }
    for (std::size_t i = 0; entries.has_value() && i < entries->size(); ++i) {
        std::string_view name = (*entries)[i].name;
        const bool temporary = name.ends_with(kTemporary);
        if (temporary) {
            name.remove_suffix(kTemporary.size());
        }
        const Stray stray = judge(name);
        if (stray == Stray::kGoes || (temporary && stray == Stray::kStays)) {
            const std::string path = directory + '/' + (*entries)[i].name;
            const Status one = co_await runtime::unlink(io, path);
            gone = gone.has_value() ? one : gone;
        }
    }
    if (!gone.has_value()) {
        observe::log_warn("storage", "left-over files cannot be deleted",
                          {{"path", directory}, {"error", to_string(gone.error())}});
    }
}

}  // namespace galgo::storage::detail

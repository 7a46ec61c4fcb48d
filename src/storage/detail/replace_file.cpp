#include "storage/detail/replace_file.hpp"

#include <cerrno>

#include "runtime/io_await.hpp"

namespace galgo::storage::detail {

coro::Task<Status> replace_file(runtime::IoBackend& io, std::string directory, std::string name,
                                ConstBytes bytes) {
    const std::string path = directory + '/' + name;
    const std::string temporary = path + std::string(kTemporary);
    Result<runtime::FileHandle> opened =
        co_await runtime::open(io, temporary, runtime::OpenMode::kCreate);
    if (!opened.has_value() && opened.error().os_errno == ENOENT) {
        GALGO_CO_TRY(co_await runtime::make_directories(io, directory));
        opened = co_await runtime::open(io, temporary, runtime::OpenMode::kCreate);
    }
    GALGO_CO_TRY(opened);
    Status status = co_await runtime::write_all(io, *opened, bytes, 0);
    if (status.has_value()) {
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

}  // namespace galgo::storage::detail

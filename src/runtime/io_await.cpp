#include "runtime/io_await.hpp"

#include <cerrno>

namespace galgo::runtime {

using coro::Task;

Task<Result<FileHandle>> open(IoBackend& io, const std::string& path, OpenMode mode,
                              std::uint32_t mode_bits) {
    const std::int32_t result =
        co_await io_await([&](IoOp& op) { io.open(op, path.c_str(), mode, mode_bits); });
    if (result < 0) {
        co_return fail_os(-result);
    }
    co_return FileHandle{result};
}

Task<Status> close(IoBackend& io, FileHandle file) {
    const std::int32_t result = co_await io_await([&](IoOp& op) { io.close(op, file); });
    co_return to_status(result);
}

Task<Result<std::size_t>> read(IoBackend& io, FileHandle file, MutableBytes into,
                               std::uint64_t offset) {
    std::size_t done = 0;
    while (done < into.size()) {
        const std::int32_t result = co_await io_await(
            [&](IoOp& op) { io.read(op, file, into.subspan(done), offset + done); });
        if (result == -EINTR || result == -EAGAIN) {
            continue;
        }
        if (result < 0) {
            co_return fail_os(-result);
        }
        if (result == 0) {
            break;
        }
        done += static_cast<std::size_t>(result);
    }
    co_return done;
}

Task<Status> write_all(IoBackend& io, FileHandle file, ConstBytes from, std::uint64_t offset) {
    std::size_t done = 0;
    while (done < from.size()) {
        const std::int32_t result = co_await io_await(
            [&](IoOp& op) { io.write(op, file, from.subspan(done), offset + done); });
        if (result == -EINTR || result == -EAGAIN) {
            continue;
        }
        if (result <= 0) {
            co_return fail_os(result == 0 ? EIO : -result);
        }
        done += static_cast<std::size_t>(result);
    }
    co_return Status{};
}

Task<Status> sync(IoBackend& io, FileHandle file) {
    const std::int32_t result = co_await io_await([&](IoOp& op) { io.sync(op, file); });
    co_return to_status(result);
}

Task<Status> truncate(IoBackend& io, FileHandle file, std::uint64_t size_bytes) {
    const std::int32_t result =
        co_await io_await([&](IoOp& op) { io.truncate(op, file, size_bytes); });
    co_return to_status(result);
}

Task<Status> allocate(IoBackend& io, FileHandle file, std::uint64_t size_bytes) {
    std::int32_t result = -EINTR;
    while (result == -EINTR) {
        result = co_await io_await([&](IoOp& op) { io.allocate(op, file, 0, size_bytes); });
    }
    co_return to_status(result);
}

Task<Status> rename(IoBackend& io, const std::string& from, const std::string& to) {
    const std::int32_t result =
        co_await io_await([&](IoOp& op) { io.rename(op, from.c_str(), to.c_str()); });
    co_return to_status(result);
}

Task<Status> unlink(IoBackend& io, const std::string& path) {
    const std::int32_t result = co_await io_await([&](IoOp& op) { io.unlink(op, path.c_str()); });
    co_return to_status(result);
}

Task<Status> remove_directory(IoBackend& io, const std::string& path) {
    const std::int32_t result =
        co_await io_await([&](IoOp& op) { io.remove_directory(op, path.c_str()); });
    co_return to_status(result);
}

Task<Status> make_directories(IoBackend& io, const std::string& path, std::uint32_t mode_bits) {
    for (std::size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
        const std::string prefix = path.substr(0, end);
        const std::int32_t result =
            co_await io_await([&](IoOp& op) { io.make_directory(op, prefix.c_str(), mode_bits); });
        if (result < 0 && result != -EEXIST) {
            co_return fail_os(-result);
        }
        if (end == std::string::npos) {
            co_return Status{};
        }
    }
}

Task<Status> sync_directory(IoBackend& io, const std::string& path) {
    GALGO_CO_TRY_ASSIGN(const FileHandle directory, co_await open(io, path, OpenMode::kDirectory));
    const Status synced = co_await sync(io, directory);
    GALGO_CO_TRY(co_await close(io, directory));
    co_return synced;
}

}  // namespace galgo::runtime

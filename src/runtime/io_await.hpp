// Awaitable forms of the operations of IoBackend. Each is one awaiter in the caller's frame: no
// allocation, no queue; the completion resumes the coroutine inside poll().
//   Result<std::size_t> n = co_await read(io, file, buffer, offset);
#pragma once

#include <coroutine>
#include <cstdint>
#include <utility>

#include "base/error.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::runtime {

/// Runs `submit(op)` when awaited and yields the raw result (>= 0 or -errno).
template <class Submit>
class [[nodiscard]] IoAwaiter : private IoOp {
 public:
    explicit IoAwaiter(Submit submit) : submit_(std::move(submit)) {}
    IoAwaiter(const IoAwaiter&) = delete;
    IoAwaiter& operator=(const IoAwaiter&) = delete;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
        handle_ = handle;
        complete = [](IoOp& op, std::int32_t result) noexcept {
            auto& self = static_cast<IoAwaiter&>(op);
            self.result_ = result;
            self.handle_.resume();
        };
        submit_(static_cast<IoOp&>(*this));
    }
    std::int32_t await_resume() const noexcept { return result_; }

 private:
    Submit submit_;
    std::coroutine_handle<> handle_;
    std::int32_t result_ = 0;
};

/// Yields the raw result of `submit`.
template <class Submit>
[[nodiscard]] IoAwaiter<Submit> io_await(Submit submit) {
    return IoAwaiter<Submit>(std::move(submit));
}

[[nodiscard]] inline Result<std::size_t> to_size(std::int32_t result) noexcept {
    if (result < 0) {
        return fail_os(-result);
    }
    return static_cast<std::size_t>(result);
}
[[nodiscard]] inline Status to_status(std::int32_t result) noexcept {
    if (result < 0) {
        return fail_os(-result);
    }
    return {};
}

// The paths and buffers below must outlive the await, which they do as arguments of the awaited
// call.

[[nodiscard]] coro::Task<Result<FileHandle>> open(IoBackend& io, const std::string& path,
                                                  OpenMode mode, std::uint32_t mode_bits = 0640);
[[nodiscard]] coro::Task<Status> close(IoBackend& io, FileHandle file);
/// Reads until `into` is full or the file ends; returns the bytes read.
[[nodiscard]] coro::Task<Result<std::size_t>> read(IoBackend& io, FileHandle file,
                                                   MutableBytes into, std::uint64_t offset);
/// Writes all of `from`, going on after short writes.
[[nodiscard]] coro::Task<Status> write_all(IoBackend& io, FileHandle file, ConstBytes from,
                                           std::uint64_t offset);
[[nodiscard]] coro::Task<Status> sync(IoBackend& io, FileHandle file);
[[nodiscard]] coro::Task<Status> truncate(IoBackend& io, FileHandle file, std::uint64_t size_bytes);
/// Takes room for the file up to `size_bytes`; its size stays. truncate() to that size gives it
/// back.
[[nodiscard]] coro::Task<Status> allocate(IoBackend& io, FileHandle file, std::uint64_t size_bytes);
[[nodiscard]] coro::Task<Status> rename(IoBackend& io, const std::string& from,
                                        const std::string& to);
[[nodiscard]] coro::Task<Status> unlink(IoBackend& io, const std::string& path);
[[nodiscard]] coro::Task<Status> remove_directory(IoBackend& io, const std::string& path);
/// Makes `path` and its missing parents; an existing directory is success.
[[nodiscard]] coro::Task<Status> make_directories(IoBackend& io, const std::string& path,
                                                  std::uint32_t mode_bits = 0750);
/// Opens the directory, syncs its entries, closes it.
[[nodiscard]] coro::Task<Status> sync_directory(IoBackend& io, const std::string& path);

}  // namespace galgo::runtime

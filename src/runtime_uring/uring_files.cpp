// The file operations of UringBackend.
#include <dirent.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/check.hpp"
#include "runtime_uring/detail/abi.hpp"
#include "runtime_uring/uring_backend.hpp"

namespace galgo::runtime_uring {

using runtime::DirectoryEntry;
using runtime::DiskSpace;
using runtime::FileFacts;
using runtime::OpenMode;

namespace {

constexpr std::size_t kPartsMax = 1024;
constexpr std::size_t kBytesMax = 0x7FFFF000;  // what one call of the kernel takes

std::uint32_t length(std::size_t bytes) noexcept {
    return static_cast<std::uint32_t>(std::min(bytes, kBytesMax));
}
std::uint64_t address(const void* pointer) noexcept {
    return reinterpret_cast<std::uint64_t>(pointer);
}

std::uint32_t open_flags(OpenMode mode) noexcept {
    switch (mode) {
        case OpenMode::kRead:
            return O_RDONLY | O_CLOEXEC;
        case OpenMode::kReadWrite:
            return O_RDWR | O_CLOEXEC;
        case OpenMode::kCreate:
            return O_RDWR | O_CREAT | O_CLOEXEC;
        case OpenMode::kCreateExclusive:
            return O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
        case OpenMode::kDirectory:
            return O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    }
    return O_RDONLY | O_CLOEXEC;
}

}  // namespace

void UringBackend::open(IoOp& op, const char* path, OpenMode mode, std::uint32_t mode_bits) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_OPENAT, AT_FDCWD)) {
        sqe->addr = address(path);
        sqe->open_flags = open_flags(mode);
        sqe->len = mode_bits;
    }
}

void UringBackend::close(IoOp& op, FileHandle file) {
    if (closing_) {  // a descriptor must not stay open because the ring is on its way out
        const int result = ::close(file.value()) == 0 ? 0 : -errno;
        begin(op);
        complete_later(op, result);
        return;
    }
    (void)prepare(op, IORING_OP_CLOSE, file.value());
}

void UringBackend::read(IoOp& op, FileHandle file, MutableBytes into, std::uint64_t offset) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_READ, file.value())) {
        sqe->addr = address(into.data());
        sqe->len = length(into.size());
        sqe->off = offset;
    }
}

void UringBackend::write(IoOp& op, FileHandle file, ConstBytes from, std::uint64_t offset) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_WRITE, file.value())) {
        sqe->addr = address(from.data());
        sqe->len = length(from.size());
        sqe->off = offset;
    }
}

void UringBackend::writev(IoOp& op, FileHandle file, std::span<const iovec> parts,
                          std::uint64_t offset) {
    GALGO_CHECK(parts.size() <= kPartsMax);
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_WRITEV, file.value())) {
        sqe->addr = address(parts.data());
        sqe->len = static_cast<std::uint32_t>(parts.size());
        sqe->off = offset;
    }
}

void UringBackend::sync(IoOp& op, FileHandle file) {
    struct stat facts{};
    const bool is_directory = ::fstat(file.value(), &facts) == 0 && S_ISDIR(facts.st_mode);
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_FSYNC, file.value())) {
        sqe->fsync_flags = is_directory ? 0U : IORING_FSYNC_DATASYNC;
    }
}

/// A cut of a large file takes tens of milliseconds: too long for a turn of the loop.
struct UringBackend::OffloadedTruncate : runtime::OffloadJob {
    UringBackend& backend;
    IoOp& op;
    FileHandle file;
    std::uint64_t size_bytes;
    std::int32_t result = 0;
    bool has_run = false;

    OffloadedTruncate(UringBackend& the_backend, IoOp& the_op, FileHandle the_file,
                      std::uint64_t size)
        : backend(the_backend), op(the_op), file(the_file), size_bytes(size) {
        run = [](OffloadJob& job) noexcept { static_cast<OffloadedTruncate&>(job).cut(); };
        done = [](OffloadJob& job) noexcept {
            const std::unique_ptr<OffloadedTruncate> self(&static_cast<OffloadedTruncate&>(job));
            if (!self->has_run) {  // the process stops and refuses to work for others
                self->cut();
            }
            --self->backend.offloaded_;
            self->backend.complete_later(self->op, self->result);
        };
    }
    void cut() noexcept {
        has_run = true;
        result = ::ftruncate(file.value(), static_cast<off_t>(size_bytes)) == 0 ? 0 : -errno;
    }
};

void UringBackend::truncate(IoOp& op, FileHandle file, std::uint64_t size_bytes) {
    if (has_ftruncate_) {
        if (io_uring_sqe* sqe = prepare(op, abi::kOpFtruncate, file.value())) {
            sqe->off = size_bytes;
        }
        return;
    }
    begin(op);
    if (closing_) {
        complete_later(op, -ECANCELED);
        return;
    }
    auto job = std::make_unique<OffloadedTruncate>(*this, op, file, size_bytes);
    if (offload_ != nullptr && offload_->try_submit(*job)) {
        ++offloaded_;
        static_cast<void>(job.release());  // until it is done
        return;
    }
    job->cut();
    complete_later(op, job->result);
}

void UringBackend::allocate(IoOp& op, FileHandle file, std::uint64_t offset,
                            std::uint64_t size_bytes) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_FALLOCATE, file.value())) {
        sqe->off = offset;
        sqe->addr = size_bytes;
        sqe->len = FALLOC_FL_KEEP_SIZE;
    }
}

void UringBackend::prefetch(IoOp& op, FileHandle file, std::uint64_t offset,
                            std::uint64_t size_bytes) {
    // The kernel carries this advice out on a worker: queueing the requests may wait for the disk.
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_FADVISE, file.value())) {
        sqe->off = offset;
        sqe->len = length(static_cast<std::size_t>(size_bytes));
        sqe->fadvise_advice = POSIX_FADV_WILLNEED;
    }
}

void UringBackend::rename(IoOp& op, const char* from, const char* to) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_RENAMEAT, AT_FDCWD)) {
        sqe->addr = address(from);
        sqe->len = static_cast<std::uint32_t>(AT_FDCWD);
        sqe->off = address(to);
    }
}

void UringBackend::unlink(IoOp& op, const char* path) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_UNLINKAT, AT_FDCWD)) {
        sqe->addr = address(path);
    }
}

void UringBackend::make_directory(IoOp& op, const char* path, std::uint32_t mode_bits) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_MKDIRAT, AT_FDCWD)) {
        sqe->addr = address(path);
        sqe->len = mode_bits;
    }
}

void UringBackend::remove_directory(IoOp& op, const char* path) {
    if (io_uring_sqe* sqe = prepare(op, IORING_OP_UNLINKAT, AT_FDCWD)) {
        sqe->addr = address(path);
        sqe->unlink_flags = AT_REMOVEDIR;
    }
}

std::int32_t UringBackend::write_now(FileHandle file, ConstBytes from, std::uint64_t offset) {
    const ssize_t result =
        ::pwrite(file.value(), from.data(), length(from.size()), static_cast<off_t>(offset));
    return result < 0 ? -errno : static_cast<std::int32_t>(result);
}

Result<std::vector<DirectoryEntry>> UringBackend::list_directory(const std::string& path) {
    DIR* directory = ::opendir(path.c_str());
    if (directory == nullptr) {
        return fail_os(errno);
    }
    std::vector<DirectoryEntry> entries;
    for (;;) {
        errno = 0;
        const dirent* entry = ::readdir(directory);
        if (entry == nullptr) {
            break;
        }
        const std::string_view name = entry->d_name;
        if (name == "." || name == "..") {
            continue;
        }
        bool is_directory = entry->d_type == DT_DIR;
        if (entry->d_type == DT_UNKNOWN) {
            struct stat facts{};
            is_directory =
                ::fstatat(::dirfd(directory), entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISDIR(facts.st_mode);
        }
        entries.push_back({.name = std::string(name), .is_directory = is_directory});
    }
    const int error = errno;
    ::closedir(directory);
    if (error != 0) {
        return fail_os(error);
    }
    return entries;
}

Result<FileFacts> UringBackend::file_facts(const std::string& path) {
    struct stat facts{};
    if (::stat(path.c_str(), &facts) != 0) {
        return fail_os(errno);
    }
    return FileFacts{.size_bytes = static_cast<std::uint64_t>(facts.st_size),
                     .modified_us = static_cast<std::uint64_t>(facts.st_mtim.tv_sec) * 1'000'000 +
                                    static_cast<std::uint64_t>(facts.st_mtim.tv_nsec) / 1'000,
                     .is_directory = S_ISDIR(facts.st_mode)};
}

Result<DiskSpace> UringBackend::disk_space(const std::string& path) {
    struct statvfs facts{};
    if (::statvfs(path.c_str(), &facts) != 0) {
        return fail_os(errno);
    }
    return DiskSpace{.total_bytes = facts.f_blocks * facts.f_frsize,
                     .free_bytes = facts.f_bavail * facts.f_frsize};
}

}  // namespace galgo::runtime_uring

#include "storage/detail/keep_copy.hpp"

#include <cerrno>
#include <vector>

#include "runtime/io_await.hpp"
#include "storage/detail/free_name.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage::detail {

coro::Task<Status> keep_copy(runtime::IoBackend& io, std::string directory, std::string name) {
    const std::string path = directory + '/' + name;
    const Result<runtime::FileFacts> facts = io.file_facts(path);
    if (!facts.has_value() && facts.error().os_errno == ENOENT) {
        co_return Status{};
    }
    GALGO_CO_TRY(facts);
    GALGO_CO_TRY_ASSIGN(const std::string kept, first_free(io, path + ".damaged-"));
    if (facts->size_bytes > kKeepCopyBytesMax) {
        co_return co_await runtime::rename(io, path, kept);
    }
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(io, path, runtime::OpenMode::kRead));
    std::vector<std::byte> bytes(static_cast<std::size_t>(facts->size_bytes));
    Result<std::size_t> got = std::size_t{0};
    if (!bytes.empty()) {
        got = co_await runtime::read(io, file, bytes, 0);
    }
    (void)co_await runtime::close(io, file);
    if (!got.has_value() && got.error().os_errno == EIO) {
        co_return co_await runtime::rename(io, path, kept);  // what the disk does not give
    }
    GALGO_CO_TRY(got);
    bytes.resize(*got);
    (void)co_await runtime::unlink(io, kept + std::string(kTemporary));
    GALGO_CO_TRY(co_await replace_file(io, directory, kept.substr(directory.size() + 1), bytes));
    co_return co_await runtime::sync_directory(io, directory);
}

}  // namespace galgo::storage::detail

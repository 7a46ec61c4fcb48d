// Counted open files and the cache of read handles.
#include "storage/file_cache.hpp"

#include <algorithm>

#include "runtime/io_await.hpp"

namespace galgo::storage {

using coro::Task;

FileCache::FileCache(runtime::IoBackend& io, coro::ReadyQueue& ready, std::size_t capacity)
    : io_(io), capacity_(capacity), opened_(ready), closed_(ready) {
    GALGO_CHECK(capacity_ > 0);
    entries_.reserve(capacity_);
}

FileCache::~FileCache() {
    GALGO_CHECK(open_count_ == 0);
}

FileRef FileCache::adopt(runtime::FileHandle handle) {
    auto* file = new OpenFile;  // deletes itself when its close completes
    file->handle = handle;
    file->cache = this;
    ++open_count_;
    return FileRef(*file);
}

void FileCache::drop(OpenFile& file) noexcept {
    file.close_operation.file = &file;
    file.close_operation.complete = [](runtime::IoOp& op, std::int32_t) noexcept {
        OpenFile* closed = static_cast<OpenFile::CloseOperation&>(op).file;
        FileCache* cache = closed->cache;
        delete closed;
        if (--cache->open_count_ == 0) {
            cache->closed_.wake_all();
        }
    };
    io_.close(file.close_operation, file.handle);
}

FileRef FileCache::find(Key key) noexcept {
    for (Entry& entry : entries_) {
        if (entry.key == key) {
            entry.used_at = ++clock_;
            return entry.file;
        }
    }
    return {};
}

Task<Result<FileRef>> FileCache::open(Key key, const std::string& path) {
    if (FileRef found = find(key)) {
        co_return found;
    }
    while (std::ranges::contains(opening_, key)) {
        co_await opened_.wait();
        if (FileRef found = find(key)) {
            co_return found;
        }
    }
    opening_.push_back(key);
    const Result<runtime::FileHandle> handle =
        co_await runtime::open(io_, path, runtime::OpenMode::kRead);
    std::erase(opening_, key);
    opened_.wake_all();
    GALGO_CO_TRY(handle);
    FileRef file = adopt(*handle);
    if (entries_.size() == capacity_) {
        *std::ranges::min_element(entries_, {}, &Entry::used_at) =
            Entry{.key = key, .file = file, .used_at = ++clock_};
    } else {
        entries_.push_back(Entry{.key = key, .file = file, .used_at = ++clock_});
    }
    co_return file;
}

void FileCache::forget_log(std::uint64_t log) noexcept {
    std::erase_if(entries_, [log](const Entry& entry) { return entry.key.log == log; });
}

void FileCache::forget_segment(std::uint64_t log, Offset start) noexcept {
    std::erase_if(entries_, [&](const Entry& entry) {
        return entry.key.log == log && entry.key.start == start;
    });
}

Task<void> FileCache::close() {
    entries_.clear();
    while (open_count_ != 0) {
        co_await closed_.wait();
    }
}

}  // namespace galgo::storage

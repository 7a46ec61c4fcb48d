// FileRef: a counted open file; it closes by itself when the last holder lets go. FileCache: the
// bounded set of files of sealed segments that a shard keeps open for reading, least recently used
// out first. One shard.
//
// A file that is deleted while a read holds it stays readable through its reference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "coro/ready_queue.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"

namespace galgo::storage {

class FileCache;

/// An open file and where the last sequential reader of it stopped.
struct OpenFile {
    runtime::FileHandle handle = runtime::kNoFile;
    Offset hint_offset;  ///< the batch of this offset begins at hint_position, when has_hint
    std::uint64_t hint_position = 0;
    bool has_hint = false;
    std::uint8_t reader = 0;  ///< the place of its last one in ReadAhead

 private:
    friend class FileRef;
    friend class FileCache;
    struct CloseOperation : runtime::IoOp {
        OpenFile* file = nullptr;
    };
    FileCache* cache = nullptr;
    std::uint32_t references = 0;
    CloseOperation close_operation;
};

class FileRef {
 public:
    FileRef() noexcept = default;
    FileRef(const FileRef& other) noexcept : file_(other.file_) {
        if (file_ != nullptr) {
            ++file_->references;
        }
    }
    FileRef(FileRef&& other) noexcept : file_(std::exchange(other.file_, nullptr)) {}
    FileRef& operator=(FileRef other) noexcept {
        std::swap(file_, other.file_);
        return *this;
    }
    ~FileRef() { reset(); }

    explicit operator bool() const noexcept { return file_ != nullptr; }
    [[nodiscard]] OpenFile* operator->() const noexcept { return file_; }
    [[nodiscard]] runtime::FileHandle handle() const noexcept { return file_->handle; }
    void reset() noexcept;

 private:
    friend class FileCache;
    explicit FileRef(OpenFile& file) noexcept : file_(&file) { ++file.references; }
    OpenFile* file_ = nullptr;
};

class FileCache {
 public:
    struct Key {
        std::uint64_t log = 0;  ///< number of the partition log in this process
        Offset start;           ///< of the segment
        bool is_index = false;
        bool operator==(const Key&) const noexcept = default;
    };

    FileCache(runtime::IoBackend& io, coro::ReadyQueue& ready, std::size_t capacity = 64);
    ~FileCache();
    FileCache(const FileCache&) = delete;
    FileCache& operator=(const FileCache&) = delete;

    /// Takes over an open file; it is not kept here.
    [[nodiscard]] FileRef adopt(runtime::FileHandle handle);
    /// The file of `key`, opened for reading when it is not here; by one of those that ask for it
    /// side by side, so that many readers of a slow file take one worker of the kernel.
    coro::Task<Result<FileRef>> open(Key key, const std::string& path);
    /// Null when it is not here.
    [[nodiscard]] FileRef find(Key key) noexcept;
    /// Lets go of all files of a log, or of one segment.
    void forget_log(std::uint64_t log) noexcept;
    void forget_segment(std::uint64_t log, Offset start) noexcept;

    /// Lets go of everything and waits until all files that were ever handed out are closed.
    coro::Task<void> close();
    [[nodiscard]] std::size_t open_count() const noexcept { return open_count_; }

 private:
    friend class FileRef;
    struct Entry {
        Key key;
        FileRef file;
        std::uint64_t used_at = 0;
    };
    void drop(OpenFile& file) noexcept;

    runtime::IoBackend& io_;
    std::size_t capacity_;
    std::vector<Entry> entries_;
    std::vector<Key> opening_;
    coro::WaitList opened_;  ///< something is no longer in opening_
    std::uint64_t clock_ = 0;
    std::size_t open_count_ = 0;  ///< files with an open descriptor, closing ones included
    coro::WaitList closed_;
};

inline void FileRef::reset() noexcept {
    if (file_ != nullptr) {
        OpenFile& file = *std::exchange(file_, nullptr);
        if (--file.references == 0) {
            file.cache->drop(file);
        }
    }
}

}  // namespace galgo::storage

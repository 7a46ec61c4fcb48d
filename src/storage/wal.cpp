// The log of the metadata group.
#include "storage/wal.hpp"

#include <algorithm>
#include <cerrno>
#include <format>

#include "base/units.hpp"
#include "observe/histogram.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint32_t kModeBits = 0600;
constexpr std::size_t kWindowBytes = 1 * kMiB;
/// Bytes of one group commit; what is left waits for the next.
constexpr std::size_t kGroupBytesMax = 8 * kMiB;
/// Allocated ahead in one piece: a thousand entries and more. The next piece when half is used.
constexpr std::uint64_t kReserveBytes = 512 * kKiB;

std::string parent_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::unexpected<WalFailure> failure(const Error& error, std::string text) {
    return std::unexpected(WalFailure{.error = error, .text = std::move(text)});
}

std::string lost_text(const std::string& path, std::string_view what, std::string_view proof) {
    return std::format(
        "{} {}, but {}: restore the file from a copy, or start with --fresh to delete everything",
        path, what, proof);
}

}  // namespace

Wal::Wal(runtime::IoBackend& io, coro::ReadyQueue& ready, std::string path)
    : io_(io), ready_(ready), path_(std::move(path)), scope_(ready) {}

Task<std::expected<std::unique_ptr<Wal>, WalFailure>> Wal::open(runtime::IoBackend& io,
                                                                coro::ReadyQueue& ready,
                                                                std::string path, OnEntry on_entry,
                                                                std::string required_by) {
    std::unique_ptr<Wal> wal(new Wal(io, ready, std::move(path)));
    if (const Result<runtime::FileFacts> facts = io.file_facts(wal->path_);
        !facts.has_value() && !required_by.empty()) {
        co_return failure(facts.error(), lost_text(wal->path_, "is missing", required_by));
    }
    const Result<runtime::FileHandle> file =
        co_await runtime::open(io, wal->path_, runtime::OpenMode::kCreate, kModeBits);
    if (!file.has_value()) {
        co_return failure(file.error(),
                          std::format("cannot open {}: {}", wal->path_, to_string(file.error())));
    }
    wal->file_ = *file;
    // Always: a process that was killed may have made the file and not come this far.
    const std::string parent = parent_of(wal->path_);
    const Status synced = co_await runtime::sync_directory(io, parent);
    if (!synced.has_value()) {
        (void)co_await runtime::close(io, wal->file_);
        co_return failure(synced.error(),
                          std::format("cannot sync {}: {}", parent, to_string(synced.error())));
    }
    auto replayed = co_await wal->replay(on_entry, required_by);
    if (!replayed.has_value()) {
        (void)co_await runtime::close(io, wal->file_);
        co_return std::unexpected(std::move(replayed.error()));
    }
    co_await wal->reserve();
    co_return wal;
}

/// Without room on the disk an append fails before it has written anything. Where the file system
/// cannot do it, it finds out for itself.
Task<void> Wal::reserve() {
    if (reserved_end_ >= size_bytes_ + kReserveBytes / 2) {
        co_return;
    }
    (void)co_await allocate(kReserveBytes);
}

/// Blocks for `bytes` behind the end. Its error is that of a full disk.
Task<Status> Wal::allocate(std::uint64_t bytes) {
    const std::uint64_t position = size_bytes_;
    const int result = co_await runtime::io_await(
        [&](runtime::IoOp& op) { io_.allocate(op, file_, position, bytes); });
    if (result >= 0) {
        reserved_end_ = position + bytes;
    } else if (result == -ENOSPC || result == -EDQUOT) {
        co_return fail_os(-result);
    }
    co_return Status{};
}

Task<std::expected<void, WalFailure>> Wal::replay(OnEntry& on_entry,
                                                  const std::string& required_by) {
    const Result<runtime::FileFacts> facts = io_.file_facts(path_);
    if (!facts.has_value()) {
        co_return failure(facts.error(),
                          std::format("cannot read {}: {}", path_, to_string(facts.error())));
    }
    const std::uint64_t file_bytes = facts->size_bytes;
    std::vector<std::byte> head(wire::kPrepareHeaderSize);
    std::vector<std::byte> body;
    std::uint64_t position = 0;
    while (position < file_bytes) {
        const Result<std::size_t> got = co_await runtime::read(io_, file_, head, position);
        if (!got.has_value()) {
            co_return failure(got.error(),
                              std::format("cannot read {}: {}", path_, to_string(got.error())));
        }
        const auto header = wire::decode_prepare_header(ConstBytes(head).first(*got));
        if (!header.has_value() || header->size > kWalEntryBytesMax ||
            header->size > file_bytes - position) {
            break;
        }
        body.resize(header->body_size());
        const Result<std::size_t> body_got =
            co_await runtime::read(io_, file_, body, position + wire::kPrepareHeaderSize);
        if (!body_got.has_value()) {
            co_return failure(body_got.error(), std::format("cannot read {}: {}", path_,
                                                            to_string(body_got.error())));
        }
        if (*body_got != body.size() || !wire::prepare_body_matches(*header, body)) {
            break;
        }
        const Status taken = on_entry(*header, body);
        if (!taken.has_value()) {
            co_return failure(taken.error(),
                              std::format("{}: the entry at position {} cannot be applied: {}",
                                          path_, position, to_string(taken.error())));
        }
        position += header->size;
    }
    size_bytes_ = position;
    if (file_bytes == 0 && !required_by.empty()) {
        co_return failure(fail(ErrorCode::kInvalidFormat).error(),
                          lost_text(path_, "is empty", required_by));
    }
    if (position == file_bytes) {
        co_return std::expected<void, WalFailure>{};
    }
    const Result<bool> behind = co_await valid_entry_behind(position + 1, file_bytes);
    if (!behind.has_value()) {
        co_return failure(behind.error(),
                          std::format("cannot read {}: {}", path_, to_string(behind.error())));
    }
    if (*behind) {
        co_return failure(
            fail(ErrorCode::kInvalidFormat).error(),
            std::format("{} is damaged at position {} with valid entries behind it: restore the "
                        "file, or cut it there to give up what follows",
                        path_, position));
    }
    if (position == 0 && !required_by.empty()) {
        co_return failure(fail(ErrorCode::kInvalidFormat).error(),
                          lost_text(path_, "has no valid entry", required_by));
    }
    const Status done = co_await cut(position, file_bytes);
    if (!done.has_value()) {
        co_return failure(done.error(), std::format("cannot cut the torn tail of {}: {}", path_,
                                                    to_string(done.error())));
    }
    co_return std::expected<void, WalFailure>{};
}

/// Does a header that verifies stand anywhere at or behind `position`, with all of its body in the
/// file?
Task<Result<bool>> Wal::valid_entry_behind(std::uint64_t position, std::uint64_t file_bytes) {
    std::vector<std::byte> window;
    std::vector<std::byte> body;
    while (position + wire::kPrepareHeaderSize <= file_bytes) {
        window.resize(
            static_cast<std::size_t>(std::min<std::uint64_t>(kWindowBytes, file_bytes - position)));
        GALGO_CO_TRY_ASSIGN(const std::size_t got,
                            co_await runtime::read(io_, file_, window, position));
        if (got < wire::kPrepareHeaderSize) {
            break;
        }
        const ConstBytes bytes = ConstBytes(window).first(got);
        for (std::size_t at = 0; at + wire::kPrepareHeaderSize <= bytes.size(); ++at) {
            const auto header = wire::decode_prepare_header(bytes.subspan(at));
            if (!header.has_value() || header->size > file_bytes - position - at ||
                header->size > kWalEntryBytesMax) {
                continue;
            }
            body.resize(header->body_size());
            GALGO_CO_TRY_ASSIGN(
                const std::size_t body_got,
                co_await runtime::read(io_, file_, body, position + at + wire::kPrepareHeaderSize));
            if (body_got == body.size() && wire::prepare_body_matches(*header, body)) {
                co_return true;
            }
        }
        position += bytes.size() - wire::kPrepareHeaderSize + 1;
    }
    co_return false;
}

Task<Status> Wal::cut(std::uint64_t position, std::uint64_t file_bytes) {
    cut_bytes_ = file_bytes - position;
    observe::log_warn("storage", "cutting the torn tail of the metadata log",
                      {{"path", path_}, {"position", position}, {"bytes", cut_bytes_}});
    runtime::FileHandle copy = runtime::kNoFile;
    for (std::uint32_t n = 1; copy == runtime::kNoFile; ++n) {
        const std::string path = std::format("{}.torn-{}", path_, n);
        const Result<runtime::FileHandle> made =
            co_await runtime::open(io_, path, runtime::OpenMode::kCreateExclusive, kModeBits);
        if (made.has_value()) {
            copy = *made;
        } else if (made.error().os_errno != EEXIST) {
            co_return std::unexpected(made.error());
        }
    }
    Status status;
    std::vector<std::byte> buffer;
    for (std::uint64_t at = position; at < file_bytes && status.has_value(); at += buffer.size()) {
        buffer.resize(
            static_cast<std::size_t>(std::min<std::uint64_t>(kWindowBytes, file_bytes - at)));
        const Result<std::size_t> got = co_await runtime::read(io_, file_, buffer, at);
        if (!got.has_value()) {
            status = std::unexpected(got.error());
        } else {
            status = co_await runtime::write_all(io_, copy, ConstBytes(buffer).first(*got),
                                                 at - position);
        }
    }
    if (status.has_value()) {
        status = co_await runtime::sync(io_, copy);
    }
    (void)co_await runtime::close(io_, copy);
    if (!status.has_value() && status.error().os_errno != ENOSPC &&
        status.error().os_errno != EDQUOT) {
        co_return status;
    }
    GALGO_CO_TRY(co_await runtime::truncate(io_, file_, position));
    const Status synced = co_await runtime::sync(io_, file_);
    co_return synced;
}

// ---- appending
// -------------------------------------------------------------------------------------------

void Wal::enqueue(AppendAwaiter& entry) {
    GALGO_CHECK(entry.entry_.size() >= wire::kPrepareHeaderSize &&
                entry.entry_.size() <= kWalEntryBytesMax);
    queue_.push_back(entry);
    if (!committing_) {
        committing_ = true;
        scope_.spawn(&Wal::commit, coro::Anchor<Wal>(*this));
    }
}

/// One write and one sync for all that is queued, again and again until nothing is.
Task<void> Wal::commit(coro::Anchor<Wal> wal) {
    Wal& self = *wal;
    co_await coro::yield_to(self.ready_);  // what is appended in this turn goes along
    std::vector<std::byte> group;
    while (!self.queue_.empty()) {
        IntrusiveList<AppendAwaiter, WalTag> members;
        group.clear();
        while (
            !self.queue_.empty() &&
            (group.empty() || group.size() + self.queue_.front().entry_.size() <= kGroupBytesMax)) {
            AppendAwaiter& entry = self.queue_.pop_front();
            group.insert(group.end(), entry.entry_.begin(), entry.entry_.end());
            members.push_back(entry);
        }
        Status status;
        if (self.poisoned_.has_value()) {
            status = std::unexpected(*self.poisoned_);
        } else {
            status = co_await self.write_group(group);
        }
        while (!members.empty()) {
            AppendAwaiter& entry = members.pop_front();
            entry.status_ = status;
            self.ready_.push(entry);
        }
    }
    self.committing_ = false;
}

Task<Status> Wal::write_group(const std::vector<std::byte>& group) {
    if (reserved_end_ < size_bytes_ + group.size()) {
        GALGO_CO_TRY(co_await allocate(group.size()));
    }
    const Status written = co_await runtime::write_all(io_, file_, group, size_bytes_);
    if (!written.has_value()) {
        observe::log_error("storage", "write to the metadata log failed",
                           {{"path", path_}, {"errno", written.error().os_errno}});
        const Status back = co_await runtime::truncate(io_, file_, size_bytes_);
        reserved_end_ = size_bytes_;  // cutting may have given it back
        const bool full = written.error().os_errno == ENOSPC || written.error().os_errno == EDQUOT;
        if (!back.has_value() || !full) {
            poisoned_ = written.error();
        }
        co_return written;
    }
    const Instant sync_began = io_.now();
    const Status synced = co_await runtime::sync(io_, file_);
    if (!synced.has_value()) {
        // What was written may or may not be there after a restart; a later sync would not tell.
        observe::log_error("storage",
                           "sync of the metadata log failed; no more changes until a restart",
                           {{"path", path_}, {"errno", synced.error().os_errno}});
        poisoned_ = synced.error();
        co_return synced;
    }
    size_bytes_ += group.size();
    ++sync_count_;
    observe::record_time(sync_times_, sync_began, io_.now());
    co_await reserve();
    co_return Status{};
}

Task<void> Wal::close() {
    co_await scope_.close();
    if (file_ != runtime::kNoFile) {
        (void)co_await runtime::close(io_, std::exchange(file_, runtime::kNoFile));
    }
}

}  // namespace galgo::storage

// Appending to the log of the metadata group, and its files. Opening is in wal_recovery.cpp.
#include "storage/wal.hpp"

#include <algorithm>
#include <cerrno>
#include <format>

#include "base/units.hpp"
#include "observe/histogram.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/replace_file.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::uint32_t kModeBits = 0600;
/// Bytes of one group commit; what is left waits for the next.
constexpr std::size_t kGroupBytesMax = 1 * kMiB;
/// A new file is pre-written in pieces of that size.
constexpr std::size_t kFillBytes = 256 * kKiB;
constexpr std::size_t kWriteNowMax = 64 * kKiB;
/// Turns of the ready queue before a group is closed: those who were answered by the last one set
/// free others who wait for a place in the pipeline, and these join.
constexpr int kGatherYields = 4;

}  // namespace

Wal::Wal(runtime::IoBackend& io, coro::ReadyQueue& ready, Superblock& superblock, Options options)
    : io_(io),
      ready_(ready),
      superblock_(superblock),
      options_(std::move(options)),
      making_(ready, 1),
      scope_(ready) {
    GALGO_CHECK(options_.region_bytes % kWalBlockBytes == 0 &&
                options_.region_bytes >= kWalRegionBytesMin &&
                options_.region_bytes <= kWalRegionBytesMax);
}

void Wal::enqueue(AppendAwaiter& entry) {
    GALGO_CHECK(entry.entry_.size() >= wire::kPrepareHeaderSize &&
                entry.entry_.size() <= kWalEntryBytesMax && entry.op_ > std::max(queued_, head_));
    queued_ = entry.op_;
    queue_.push_back(entry);
    queued_bytes_ += padded_to_blocks(kWalBatchHeaderBytes + entry.entry_.size());
    start_commit();
}

void Wal::start_commit() {
    if (!committing_) {
        committing_ = true;
        scope_.spawn(&Wal::commit, coro::Anchor<Wal>(*this));
    }
}

/// One batch for all that is queued, again and again until nothing is.
Task<void> Wal::commit(coro::Anchor<Wal> wal) {
    Wal& self = *wal;
    std::vector<std::byte> batch;
    for (;;) {
        for (int i = 0; i < kGatherYields; ++i) {
            co_await coro::yield_to(self.ready_);
        }
        if (self.queue_.empty()) {
            if (self.mark_wanted_ && !self.poisoned_.has_value() && !self.ends_in_mark_) {
                const Status marked = co_await self.write_mark();
                if (marked.has_value()) {
                    co_await self.name_end();
                }
                self.mark_wanted_ = false;
                continue;
            }
            break;
        }
        IntrusiveList<AppendAwaiter, WalTag> members;
        batch.assign(kWalBatchHeaderBytes, std::byte{0});
        WalBatch facts{.op_before = self.head_, .op_first = self.queue_.front().op_};
        std::uint64_t blocks = 0;
        while (!self.queue_.empty() &&
               (facts.entry_count == 0 ||
                batch.size() + self.queue_.front().entry_.size() <= kGroupBytesMax)) {
            AppendAwaiter& entry = self.queue_.pop_front();
            batch.insert(batch.end(), entry.entry_.begin(), entry.entry_.end());
            blocks += padded_to_blocks(kWalBatchHeaderBytes + entry.entry_.size());
            ++facts.entry_count;
            facts.op_last = entry.op_;
            members.push_back(entry);
        }
        Status status;
        if (self.poisoned_.has_value()) {
            status = std::unexpected(*self.poisoned_);
        } else {
            status = co_await self.write_batch(facts, batch);
        }
        self.queued_bytes_ -= blocks;
        while (!members.empty()) {
            AppendAwaiter& entry = members.pop_front();
            entry.status_ = status;
            self.ready_.push(entry);
        }
    }
    self.mark_wanted_ = false;
    self.committing_ = false;
}

Task<Status> Wal::write_mark() {
    std::vector<std::byte> batch(kWalBatchHeaderBytes);
    const WalBatch facts{
        .kind = WalBatchKind::kMark, .op_before = head_, .op_first = head_, .op_last = head_};
    const Status status = co_await write_batch(facts, batch);
    co_return status;
}

/// Behind a mark, once for each time without changes: an older copy of the file, or one that lost
/// its end, does not pass for it from now on.
Task<void> Wal::name_end() {
    const OpNumber commit = head_;
    const Status named = co_await superblock_.update(
        [commit](SuperblockState& state) { state.commit = std::max(state.commit, commit); });
    if (!named.has_value()) {
        observe::log_error("storage",
                           "the superblock cannot be written; no more changes until a restart",
                           {{"path", options_.directory}, {"error", to_string(named.error())}});
        poisoned_ = named.error();
    }
}

/// `batch`: room for the header, then the entries.
Task<Status> Wal::write_batch(WalBatch facts, std::vector<std::byte>& batch) {
    facts.sequence = sequence_ + 1;
    facts.size_bytes = static_cast<std::uint32_t>(batch.size());
    batch.resize(facts.padded_bytes());
    if (batch.size() > room()) {
        GALGO_CO_TRY(co_await rotate(batch.size()));
    }
    seal_wal_batch(batch, facts, seal_of(files_.back().generation));
    const std::uint64_t position = position_;
    Status status = co_await write_copy(batch, position);
    if (status.has_value()) {
        status = co_await write_copy(batch, files_.back().region_bytes + position);
    }
    if (status.has_value() && options_.barriers) {
        const Instant began = io_.now();
        status = co_await runtime::sync(io_, file_);
        ++barrier_count_;
        if (facts.kind == WalBatchKind::kEntries) {  // nobody waits for a mark
            observe::record_time(sync_times_, began, io_.now());
        }
    }
    if (!status.has_value()) {
        // What was written may or may not be there after a restart; a later sync would not tell.
        observe::log_error("storage",
                           "write or sync of the metadata log failed; no more changes until a "
                           "restart",
                           {{"path", wal_path(options_.directory, files_.back().generation)},
                            {"error", to_string(status.error())}});
        poisoned_ = status.error();
        co_return status;
    }
    position_ += batch.size();
    log_bytes_ += batch.size();
    sequence_ = facts.sequence;
    head_ = facts.op_last;
    files_.back().op_last = head_;
    ends_in_mark_ = facts.kind == WalBatchKind::kMark;
    ++batch_count_;
    entry_count_ += facts.entry_count;
    start_making_ahead();
    co_return status;
}

Task<Status> Wal::write_copy(ConstBytes batch, std::uint64_t position) {
    std::size_t done = 0;
    if (batch.size() <= kWriteNowMax) {
        const std::int32_t written = io_.write_now(file_, batch, position);
        if (written < 0 && written != -EAGAIN && written != -EINTR) {
            co_return fail_os(-written);
        }
        done = written < 0 ? 0 : static_cast<std::size_t>(written);
    }
    if (done < batch.size()) {
        const Status rest =
            co_await runtime::write_all(io_, file_, batch.subspan(done), position + done);
        co_return rest;
    }
    co_return Status{};
}

// ---- files
// -------------------------------------------------------------------------------------------------

std::uint64_t Wal::room() const noexcept {
    return ends_torn_ ? 0 : files_.back().region_bytes - position_;
}

bool Wal::has_room(std::size_t entry_bytes) {
    if (!next_failed_ || next_file_ != runtime::kNoFile ||
        queued_bytes_ + padded_to_blocks(kWalBatchHeaderBytes + entry_bytes) <= room()) {
        return true;
    }
    start_making_ahead();
    return false;
}

/// One file in reserve, always: a torn batch may take the rest of this one away at any place, and
/// then the disk may have no room for another.
void Wal::start_making_ahead() {
    if (next_file_ == runtime::kNoFile && !making_ahead_ && !scope_.closed()) {
        making_ahead_ = true;
        scope_.spawn(&Wal::make_ahead, coro::Anchor<Wal>(*this));
    }
}

Task<void> Wal::make_ahead(coro::Anchor<Wal> wal) {
    (void)co_await wal->make_next(wal->options_.region_bytes);
    wal->making_ahead_ = false;
}

/// Goes over to the next generation, whose region holds a batch of that size.
Task<Status> Wal::rotate(std::uint64_t batch_bytes) {
    const std::uint64_t region_bytes =
        std::max(options_.region_bytes, kWalBlockBytes + batch_bytes);
    GALGO_CO_TRY(co_await make_next(region_bytes));
    const std::uint64_t generation = next_->generation;
    const OpNumber commit = head_;
    const Status named = co_await superblock_.update([generation, commit](SuperblockState& state) {
        state.wal_last = generation;
        state.commit = std::max(state.commit, commit);
    });
    if (!named.has_value()) {
        poisoned_ = named.error();
        co_return named;
    }
    (void)co_await runtime::close(
        io_, std::exchange(file_, std::exchange(next_file_, runtime::kNoFile)));
    next_->op_last = head_;
    files_.push_back(*next_);
    next_.reset();
    position_ = kWalBlockBytes;
    ends_torn_ = false;
    co_return Status{};
}

/// After success next_ is a file with regions of at least that size, and open: nothing that
/// can fail for want of anything is left to the moment when a batch needs it.
Task<Status> Wal::make_next(std::uint64_t region_bytes) {
    co_await making_.acquire();
    const std::uint64_t generation = files_.back().generation + 1;
    const std::string path = wal_path(options_.directory, generation);
    Status status;
    if (!next_.has_value() || next_->region_bytes < region_bytes) {
        const File file{.generation = generation, .region_bytes = region_bytes};
        status = co_await make_file(file);
        if (status.has_value()) {
            next_ = file;
        }
    }
    if (status.has_value() && next_file_ == runtime::kNoFile) {
        const Result<runtime::FileHandle> opened =
            co_await runtime::open(io_, path, runtime::OpenMode::kReadWrite);
        if (opened.has_value()) {
            next_file_ = *opened;
        } else {
            status = std::unexpected(opened.error());
        }
    }
    if (!status.has_value() && !next_failed_) {
        observe::log_error("storage", "the next file of the metadata log cannot be made",
                           {{"path", path}, {"error", to_string(status.error())}});
    }
    next_failed_ = next_file_ == runtime::kNoFile;
    making_.release();
    co_return status;
}

/// Pre-written, so that a barrier has no metadata of the file system to wait for and a full disk
/// does not matter to what has begun; complete under its name, or not there. Room is asked for
/// first: a try on a full disk costs nothing.
Task<Status> Wal::make_file(const File& file) {
    const std::string path = wal_path(options_.directory, file.generation);
    const std::string temporary = path + std::string(detail::kTemporary);
    // What an earlier try left goes first. It is not truncated: that may wait behind slow work in a
    // thread of its own (before Linux 6.9), and a change waits for this.
    const Status gone = co_await runtime::unlink(io_, temporary);
    if (!gone.has_value() && gone.error().os_errno != ENOENT) {
        co_return gone;
    }
    GALGO_CO_TRY_ASSIGN(
        const runtime::FileHandle handle,
        co_await runtime::open(io_, temporary, runtime::OpenMode::kCreateExclusive, kModeBits));
    Status status;
    const int reserved = co_await runtime::io_await(
        [&](runtime::IoOp& op) { io_.allocate(op, handle, 0, 2 * file.region_bytes); });
    if (reserved == -ENOSPC || reserved == -EDQUOT) {
        status = fail_os(-reserved);
    }
    const std::vector<std::byte> zeros(
        static_cast<std::size_t>(std::min<std::uint64_t>(kFillBytes, file.region_bytes)));
    for (std::uint64_t at = 0; at < 2 * file.region_bytes && status.has_value();) {
        const std::size_t size = static_cast<std::size_t>(
            std::min<std::uint64_t>(zeros.size(), 2 * file.region_bytes - at));
        status = co_await runtime::write_all(io_, handle, ConstBytes(zeros).first(size), at);
        at += size;
    }
    const std::vector<std::byte> header =
        encode_wal_header(seal_of(file.generation), file.region_bytes);
    if (status.has_value()) {
        status = co_await runtime::write_all(io_, handle, header, 0);
    }
    if (status.has_value()) {
        status = co_await runtime::write_all(io_, handle, header, file.region_bytes);
    }
    if (status.has_value()) {
        status = co_await runtime::sync(io_, handle);
    }
    (void)co_await runtime::close(io_, handle);
    if (status.has_value()) {
        // From here on a smaller file of that name may be gone, also when this fails.
        next_.reset();
        if (next_file_ != runtime::kNoFile) {
            (void)co_await runtime::close(io_, std::exchange(next_file_, runtime::kNoFile));
        }
        status = co_await runtime::rename(io_, temporary, path);
    }
    if (status.has_value()) {
        status = co_await runtime::sync_directory(io_, options_.directory);
    }
    if (!status.has_value()) {
        (void)co_await runtime::unlink(io_, temporary);
    }
    co_return status;
}

std::uint64_t Wal::first_generation_above(OpNumber op) const noexcept {
    for (const File& file : files_) {
        if (file.op_last > op) {
            return file.generation;
        }
    }
    return files_.back().generation;
}

Task<void> Wal::drop_before(std::uint64_t generation) {
    while (files_.size() > 1 && files_.front().generation < generation) {
        const std::string path = wal_path(options_.directory, files_.front().generation);
        files_.pop_front();
        const Status gone = co_await runtime::unlink(io_, path);
        if (!gone.has_value() && gone.error().os_errno != ENOENT) {
            observe::log_warn("storage", "an old file of the metadata log cannot be deleted",
                              {{"path", path}, {"error", to_string(gone.error())}});
        }
    }
}

// ---- the end
// -------------------------------------------------------------------------------------------------

void Wal::tick() {
    if (file_ == runtime::kNoFile || scope_.closed()) {
        return;
    }
    if (batch_count_ == ticked_batches_ && !ends_in_mark_ && queue_.empty()) {
        mark_wanted_ = true;
        start_commit();
    }
    ticked_batches_ = batch_count_;
}

Task<void> Wal::close() {
    if (file_ != runtime::kNoFile && !ends_in_mark_) {
        mark_wanted_ = true;
        start_commit();
    }
    co_await scope_.close();
    if (file_ != runtime::kNoFile) {
        (void)co_await runtime::close(io_, std::exchange(file_, runtime::kNoFile));
    }
    if (next_file_ != runtime::kNoFile) {
        (void)co_await runtime::close(io_, std::exchange(next_file_, runtime::kNoFile));
    }
}

}  // namespace galgo::storage

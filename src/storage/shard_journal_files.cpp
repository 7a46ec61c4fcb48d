// The files of the shard journal: made, recycled, given up.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/shard_journal.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::size_t kFillBytes = 256 * kKiB;
/// Between two lines that the journal has no place, or that its files cannot be made.
constexpr std::uint64_t kFullLineNs = 60 * kSecond;
const std::byte kZeros[kFillBytes] = {};

}  // namespace

std::string ShardJournal::path_of(std::uint64_t sequence) const {
    return options_.directory + '/' + journal_file_name(options_.shard, sequence);
}

std::uint32_t ShardJournal::find_ready() const noexcept {
    std::uint32_t found = kNone;
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
        if (files_[i].state == State::kReady &&
            (found == kNone || files_[i].sequence < files_[found].sequence)) {
            found = i;
        }
    }
    return found;
}

std::uint32_t ShardJournal::available_count() const noexcept {
    return static_cast<std::uint32_t>(std::ranges::count_if(files_, [](const File& file) {
        return file.state == State::kReady || file.state == State::kFree ||
               file.state == State::kAbsent || file.state == State::kMaking;
    }));
}

std::uint64_t ShardJournal::oldest_live() const noexcept {
    std::uint64_t oldest = 0;
    for (const File& file : files_) {
        if (file.live_count != 0 && (oldest == 0 || file.sequence < oldest)) {
            oldest = file.sequence;
        }
    }
    return oldest;
}

JournalStats ShardJournal::stats() const noexcept {
    JournalStats stats = stats_;
    stats.available_file_count = available_count();
    stats.oldest_live_sequence = oldest_live();
    for (const File& file : files_) {
        stats.file_count += file.handle != runtime::kNoFile ? 1 : 0;
        stats.live_record_count += file.live_count;
    }
    for (const SetAside& file : set_aside_) {
        ++stats.file_count;
        stats.live_record_count += file.live_count;
    }
    return stats;
}

void ShardJournal::seal_active() noexcept {
    File& file = files_[active_];
    file.state = State::kSealed;
    prior_ = active_;
    prior_sequence_ = file.sequence;
    prior_stable_ = file.stable_bytes;
    active_ = kNone;
    settle(file);
}

/// A sealed file without live records is free; a poisoned one waits for its deletion.
void ShardJournal::settle(File& file) noexcept {
    if (file.state == State::kSealed && file.live_count == 0 && !file.poisoned) {
        file.state = State::kFree;
    }
}

void ShardJournal::check_pressure() noexcept {
    const std::uint64_t oldest = is_scarce() ? oldest_live() : 0;
    if (oldest == 0 || pressure_hook_ == nullptr) {
        return;
    }
    // What pins the newest is left to its own thresholds while there is a file to write to.
    std::uint64_t last = next_sequence_ - 1;
    if (active_ != kNone) {
        const std::uint64_t newest_count = std::max<std::uint64_t>(1, files_.size() / 4);
        last = files_[active_].sequence - std::min(newest_count, files_[active_].sequence);
    }
    if (oldest <= last) {
        pressure_hook_(pressure_context_, last);
    }
}

bool ShardJournal::is_scarce() const noexcept {
    return available_count() < std::max<std::size_t>(2, files_.size() / 2);
}

std::uint64_t ShardJournal::blocking_sequence() const noexcept {
    return available_count() < 2 ? oldest_live() : 0;
}

/// Does one of the entries that wait for a sync name this slot?
bool ShardJournal::has_entries_of(std::uint32_t slot) noexcept {
    bool found = sync_in_flight_ && sync_slot_ == slot;
    for (Entries* entries : {&awaiting_sync_, &syncing_}) {
        entries->for_each([&](JournalEntry& entry) { found = found || entry.slot_ == slot; });
    }
    return found;
}

Task<bool> ShardJournal::set_aside(std::uint64_t file_sequence) {
    const auto found = std::ranges::find_if(files_, [&](const File& file) {
        return file.state == State::kSealed && file.sequence == file_sequence;
    });
    if (found == files_.end() || closing_ ||
        has_entries_of(static_cast<std::uint32_t>(found - files_.begin()))) {
        co_return false;
    }
    if (set_aside_.size() == kSetAsideMax) {
        if (available_count() == 0 && active_ == kNone && !pending_.empty()) {
            // Nothing says when a file will be released: who waits is told so, and may come again.
            ++stats_.failure_count;
            const Instant now = io_.now();
            if (now >= next_full_line_at_) {
                next_full_line_at_ = now.plus(kFullLineNs);
                observe::log_error(
                    "storage",
                    "the journal has no place left: its files hold records of "
                    "partitions that cannot be written",
                    {{"directory", options_.directory}, {"files_aside", set_aside_.size()}});
            }
            fail_pending(fail(ErrorCode::kTransientNotAccepted).error());
        }
        co_return false;
    }
    observe::log_warn("storage", "a journal file is kept for the next start: its records cannot go",
                      {{"sequence", file_sequence}, {"records", found->live_count}});
    set_aside_.push_back(
        {.sequence = file_sequence, .live_count = found->live_count, .poisoned = found->poisoned});
    const runtime::FileHandle handle = found->handle;
    *found = File{.state = State::kMaking};
    (void)co_await runtime::close(io_, handle);
    *found = File{};
    kick();
    co_return true;
}

bool ShardJournal::has_file_work() const noexcept {
    if (list_is_stale_) {
        return true;
    }
    if (std::ranges::any_of(set_aside_, [](const SetAside& f) { return f.live_count == 0; })) {
        return true;
    }
    bool can_make = false;
    for (const File& file : files_) {
        if (file.poisoned && file.state == State::kSealed && file.live_count == 0 &&
            !(sync_in_flight_ && &file == &files_[sync_slot_])) {
            return true;
        }
        can_make = can_make || file.state == State::kFree || file.state == State::kAbsent;
    }
    return can_make && find_ready() == kNone && io_.now() >= retry_make_at_;
}

/// Starts the background work when there is some and it does not run already.
void ShardJournal::kick() noexcept {
    if (!maintaining_ && !closing_ && has_file_work()) {
        maintaining_ = true;
        scope_.spawn(&ShardJournal::maintain, coro::Anchor<ShardJournal>(*this));
    }
}

Task<void> ShardJournal::maintain(coro::Anchor<ShardJournal> journal) {
    ShardJournal& self = *journal;
    if (std::exchange(self.list_is_stale_, false)) {
        (void)co_await self.write_list(std::nullopt);
    }
    co_await self.drop_poisoned();
    co_await self.drop_set_aside();
    if (self.find_ready() == kNone) {
        const Status made = co_await self.prepare_one();
        self.tell_making(made);
        if (made.has_value()) {
            self.make_error_ = {};
            self.retry_make_at_ = Instant{0};
        } else {
            ++self.stats_.failure_count;
            self.make_error_ = made.error();
            self.retry_make_at_ = self.io_.now().plus(kSecond);
            if (self.active_ == kNone) {
                self.fail_pending(made.error());
            }
        }
    }
    self.maintaining_ = false;
    self.pump();
    self.kick();
}

/// It is tried once a second: a line for each change, and one a minute while it stays as it is.
void ShardJournal::tell_making(const Status& made) {
    if (made.has_value()) {
        if (make_told_errno_ != 0 && find_ready() != kNone) {
            make_told_errno_ = 0;
            observe::log_info("storage", "journal files can be made again",
                              {{"directory", options_.directory}});
        }
        return;
    }
    const Instant now = io_.now();
    const std::int32_t error = made.error().os_errno;
    if (error == make_told_errno_ && now < next_make_line_at_) {
        return;
    }
    make_told_errno_ = error;
    next_make_line_at_ = now.plus(kFullLineNs);
    observe::log_error("storage", "cannot make a journal file",
                       {{"directory", options_.directory}, {"errno", error}});
}

/// The list of the files that may have records, and of the one that is `coming` under a new name.
/// A list that cannot be written is removed: it may not name what is about to go.
Task<Status> ShardJournal::write_list(std::optional<JournalList::Entry> coming) {
    if (options_.boot == 0) {
        co_return Status{};
    }
    JournalList list{.shard = options_.shard,
                     .epoch = options_.epoch,
                     .boot = options_.boot,
                     .file_bytes = options_.file_bytes,
                     .entries = {}};
    for (const File& file : files_) {
        if (file.state == State::kReady || file.state == State::kActive ||
            (file.state == State::kSealed && (file.live_count != 0 || !file.poisoned))) {
            list.entries.push_back(
                {.sequence = file.sequence,
                 .former = file.poisoned ? JournalList::kPoisoned : file.former});
        }
    }
    for (const SetAside& file : set_aside_) {
        if (file.live_count != 0) {
            list.entries.push_back(
                {.sequence = file.sequence, .former = file.poisoned ? JournalList::kPoisoned : 0});
        }
    }
    if (coming.has_value()) {
        list.entries.push_back(*coming);
    }
    const Status written = co_await write_journal_list(io_, options_.directory, std::move(list));
    if (written.has_value()) {
        co_return written;
    }
    const Status removed = co_await runtime::unlink(
        io_, options_.directory + '/' + journal_list_name(options_.shard, options_.epoch));
    co_return removed.has_value() || removed.error().os_errno == ENOENT ? Status{} : removed;
}

/// At a stop: what is released nobody will miss.
Task<void> ShardJournal::write_last_list() {
    for (File& file : files_) {
        if (file.live_count == 0) {
            file.state = State::kFree;
        }
    }
    (void)co_await write_list(std::nullopt);
}

/// Before the name of a file goes: nothing may need it any more, nor miss it.
Task<Status> ShardJournal::let_go(std::optional<JournalList::Entry> coming) {
    if (release_hook_ != nullptr) {
        co_await release_hook_(release_context_);
    }
    co_return co_await write_list(coming);
}

Task<void> ShardJournal::drop_poisoned() {
    for (std::uint32_t slot = 0; slot < files_.size(); ++slot) {
        File& file = files_[slot];
        if (!file.poisoned || file.state != State::kSealed || file.live_count != 0 ||
            (sync_in_flight_ && sync_slot_ == slot)) {
            continue;
        }
        file.state = State::kMaking;
        const std::string path = path_of(file.sequence);
        (void)co_await runtime::close(io_, file.handle);
        const Status listed = co_await let_go(std::nullopt);
        if (listed.has_value()) {
            (void)co_await runtime::unlink(io_, path);
        }
        file = File{};
    }
}

Task<void> ShardJournal::drop_set_aside() {
    for (;;) {
        const auto found =
            std::ranges::find_if(set_aside_, [](const SetAside& f) { return f.live_count == 0; });
        if (found == set_aside_.end()) {
            co_return;
        }
        const std::string path = path_of(found->sequence);
        set_aside_.erase(found);
        const Status listed = co_await let_go(std::nullopt);
        if (listed.has_value()) {
            (void)co_await runtime::unlink(io_, path);
        }
    }
}

/// Makes one file ready: a free one under a new sequence, or a new one. Success also when there is
/// no slot: then the entries wait for a release.
Task<Status> ShardJournal::prepare_one() {
    for (const State wanted : {State::kFree, State::kAbsent}) {
        for (std::uint32_t slot = 0; slot < files_.size(); ++slot) {
            if (files_[slot].state != wanted) {
                continue;
            }
            files_[slot].state = State::kMaking;
            Status made;
            if (wanted == State::kFree) {
                made = co_await recycle_file(slot);
            } else {
                made = co_await make_file(slot);
            }
            co_return made;
        }
    }
    co_return Status{};
}

Task<Status> ShardJournal::make_file(std::uint32_t slot) {
    File& file = files_[slot];
    file.sequence = next_sequence_++;
    file.former = 0;
    file.live_count = 0;
    file.poisoned = false;
    const std::string path = path_of(file.sequence);
    Status made = co_await fill_file(slot, path);
    if (made.has_value()) {
        made = co_await write_header(slot);
    }
    if (made.has_value()) {
        // Stable before the first record: a header that cannot be read is then no trace of a crash.
        made = co_await runtime::sync(io_, file.handle);
    }
    if (made.has_value()) {
        made = co_await write_list(JournalList::Entry{.sequence = file.sequence});
    }
    if (!made.has_value()) {
        if (file.handle != runtime::kNoFile) {
            (void)co_await runtime::close(io_, file.handle);
            (void)co_await runtime::unlink(io_, path);
        }
        file = File{};
        co_return made;
    }
    file.state = State::kReady;
    co_return made;
}

Task<Status> ShardJournal::fill_file(std::uint32_t slot, const std::string& path) {
    GALGO_CO_TRY_ASSIGN(
        files_[slot].handle,
        co_await runtime::open(io_, path, runtime::OpenMode::kCreateExclusive, 0600));
    const runtime::FileHandle handle = files_[slot].handle;
    for (std::uint64_t at = 0; at < options_.file_bytes; at += kFillBytes) {
        const std::size_t size = std::min<std::uint64_t>(kFillBytes, options_.file_bytes - at);
        GALGO_CO_TRY(co_await runtime::write_all(io_, handle, ConstBytes(kZeros, size), at));
    }
    GALGO_CO_TRY(co_await runtime::sync(io_, handle));
    co_return co_await runtime::sync_directory(io_, options_.directory);
}

Task<Status> ShardJournal::recycle_file(std::uint32_t slot) {
    File& file = files_[slot];
    const std::string from = path_of(file.sequence);
    const std::uint64_t sequence = next_sequence_++;
    const std::string to = path_of(sequence);
    Status renamed =
        co_await let_go(JournalList::Entry{.sequence = sequence, .former = file.sequence});
    if (renamed.has_value()) {
        renamed = co_await runtime::rename(io_, from, to);
    }
    if (!renamed.has_value()) {
        file.state = State::kFree;
        co_return renamed;
    }
    file.former = file.sequence;
    file.sequence = sequence;
    // The name is stable before the header is: a header that does not match its name is a file
    // without records.
    Status ready = co_await runtime::sync_directory(io_, options_.directory);
    if (ready.has_value()) {
        ready = co_await write_header(slot);
    }
    file.state = ready.has_value() ? State::kReady : State::kSealed;
    file.poisoned = !ready.has_value();
    co_return ready;
}

Task<Status> ShardJournal::write_header(std::uint32_t slot) {
    std::byte bytes[kJournalFileHeaderBytes];
    encode_journal_file_header(
        bytes,
        {.epoch = options_.epoch, .sequence = files_[slot].sequence, .shard = options_.shard});
    co_return co_await runtime::write_all(io_, files_[slot].handle, bytes, 0);
}

Task<Status> ShardJournal::open() {
    GALGO_CHECK(!maintaining_);
    maintaining_ = true;
    const Status made = co_await prepare_one();
    maintaining_ = false;
    if (!made.has_value()) {
        ++stats_.failure_count;
        make_error_ = made.error();
        retry_make_at_ = io_.now().plus(kSecond);
    }
    co_return made;
}

Task<void> ShardJournal::close() {
    stop_waiting();
    while (!idle()) {
        co_await idle_waiters_.wait();
    }
    closing_ = true;
    co_await scope_.close();
    co_await write_last_list();
    for (File& file : files_) {
        if (file.handle != runtime::kNoFile) {
            (void)co_await runtime::close(io_, file.handle);
            file.handle = runtime::kNoFile;
        }
    }
}

}  // namespace galgo::storage

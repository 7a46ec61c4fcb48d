// From the tail into segment files, and from there onto stable storage.
#include <algorithm>
#include <cerrno>

#include "observe/histogram.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/full_disk.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

/// Entries for which an index has room when its segment is opened: 6 KiB.
constexpr std::size_t kIndexRoom = 256;

/// Of a file system, an eighth of it or so much stays free of what is only preallocated.
constexpr std::uint64_t kLeftFreeBytesMax = 16 * kGiB;

/// Results of the back end are 32-bit.
constexpr std::uint64_t kWriteBytesMax = 1 * kGiB;

}  // namespace

std::string PartitionLog::path_of(Offset start, std::string_view extension) const {
    return directory_ + '/' + segment_file_name(start, extension);
}

// ---- when
// ------------------------------------------------------------------------------------------------

void PartitionLog::flush_if_due() {
    if (background_flush_ || closed_ || fence_.has_value() ||
        (tail_messages_ < options_.messages_required_to_save &&
         tail_bytes_ < options_.size_required_to_save)) {
        return;
    }
    drop_failed_front();
    if (!tail_.empty() && tail_.front().end() <= committed_end_) {
        background_flush_ = true;
        scope_.spawn(&PartitionLog::flush_in_background, coro::Anchor<PartitionLog>(*this));
    }
}

Task<void> PartitionLog::flush_in_background(coro::Anchor<PartitionLog> log) {
    PartitionLog& self = *log;
    // Not inside commit(): what commits in this turn goes along.
    co_await coro::yield_to(self.context_.ready);
    // The committed part as it is now: later commits start the next flush.
    std::uint64_t id = 0;
    for (std::size_t i = 0; i < self.tail_.size() && self.tail_[i].end() <= self.committed_end_;
         ++i) {
        id = self.tail_first_id_ + i;
    }
    if (id != 0 && !self.closed_) {
        (void)co_await self.flush_until(id);
        self.start_background_sync();
    }
    self.background_flush_ = false;
    self.flush_if_due();
}

void PartitionLog::start_background_sync() {
    if (!closed_ && synced_total_ != written_total_) {
        spawn_background_sync();
    }
}

void PartitionLog::spawn_background_sync() {
    background_sync_mark_ =
        written_total_;  // one on its way covers less: it is followed by another
    if (!background_sync_) {
        background_sync_ = true;
        scope_.spawn(&PartitionLog::sync_in_background, coro::Anchor<PartitionLog>(*this));
    }
}

Task<void> PartitionLog::sync_in_background(coro::Anchor<PartitionLog> log) {
    PartitionLog& self = *log;
    Status synced;
    while (synced.has_value() && !self.closed_ && self.synced_total_ < self.background_sync_mark_) {
        synced = co_await self.sync_until(self.background_sync_mark_);
    }
    if (synced.has_value() && self.is_unnamed_at_rest()) {
        self.named_total_ = self.written_total_;  // once: without it a start looks longer
        self.name_last_batch();
        (void)co_await self.write_index(self.writer_, self.segments_.back().size_bytes);
    }
    self.background_sync_ = false;
}

/// Nobody has written since the last rest(), all is stable, and no entry says so of the last batch.
bool PartitionLog::is_unnamed_at_rest() const noexcept {
    return !closed_ && !fence_.has_value() && rested_at_ == written_total_ &&
           synced_total_ == written_total_ && named_total_ != written_total_ &&
           writer_.index_file && !flush_running_;
}

// ---- flush
// -----------------------------------------------------------------------------------------------

/// Writes the tail up to the batch `id`. Whoever comes while a write is on its way waits and joins
/// the next.
Task<Status> PartitionLog::flush_until(std::uint64_t id) {
    while (tail_first_id_ <= id) {
        if (flush_running_) {
            co_await flush_done_.wait();
            continue;
        }
        if (fence_.has_value()) {
            co_return std::unexpected(*fence_);
        }
        if (closed_) {
            co_return fail(ErrorCode::kTransientNotAccepted);
        }
        GALGO_CO_TRY(co_await flush_once(id));
    }
    co_return Status{};
}

Task<Status> PartitionLog::flush_once(std::uint64_t id) {
    GALGO_CHECK(!flush_running_);
    flush_running_ = true;
    const Status status = co_await flush_chunk(id);
    flush_running_ = false;
    flush_done_.wake_all();
    if (!status.has_value()) {
        for (std::size_t i = 0; i < tail_.size(); ++i) {
            tail_[i].writing = false;
        }
        fence(status.error(), "segment write failed");
        co_return std::unexpected(*fence_);
    }
    tell_recovery();
    co_return status;
}

Task<Status> PartitionLog::flush_chunk(std::uint64_t id) {
    drop_failed_front();
    if (tail_.empty()) {
        co_return Status{};
    }
    do {
        GALGO_CO_TRY(co_await ensure_writer());
        drop_failed_front();  // some may have failed meanwhile
    } while (!writer_fits());
    auto parts = context_.take_parts();
    std::uint64_t bytes = 0;
    const std::size_t count = gather(*parts, id, bytes);
    Status written;
    if (options_.preallocate && count != 0) {
        written = co_await preallocate(segments_.back().size_bytes + bytes);
    }
    if (count != 0 && written.has_value()) {
        written = co_await write_parts(*parts, count, segments_.back().size_bytes);
    }
    context_.give_parts(std::move(parts));
    if (!written.has_value()) {
        // A part of it may stand there, and what is tried next may be shorter.
        has_leftover_ = true;
        (void)co_await cut_leftover();
        co_return written;
    }
    take_over_flushed();
    co_return Status{};
}

/// The batches up to `id` that fit into one write and into the segment (which may pass its size by
/// the last one).
std::size_t PartitionLog::gather(StorageContext::Parts& parts, std::uint64_t id,
                                 std::uint64_t& bytes) {
    const std::uint64_t size = segments_.back().size_bytes;
    std::size_t count = 0;
    for (std::size_t i = 0; i < tail_.size() && tail_first_id_ + i <= id; ++i) {
        TailBatch& batch = tail_[i];
        if (batch.failed) {
            continue;
        }
        if (count == parts.size() || size + bytes >= options_.segment_size ||
            (count != 0 && bytes + batch.bytes.size() > kWriteBytesMax)) {
            break;
        }
        // The kernel only reads through it.
        parts[count++] = {.iov_base = const_cast<std::byte*>(batch.bytes.bytes().data()),
                          .iov_len = batch.bytes.size()};
        bytes += batch.bytes.size();
        batch.writing = true;
    }
    return count;
}

/// The topic asked for it: room for the whole segment, at its first write in this run, again after
/// a cut, which gives it back, and for a last batch that passes the segment's size. Where that
/// would leave little for others the segment is written without; so it is when the file system
/// cannot do it.
Task<Status> PartitionLog::preallocate(std::uint64_t end) {
    if (end <= writer_.allocated_bytes) {
        co_return Status{};
    }
    const std::uint64_t wanted = std::max(end, options_.segment_size);
    const std::uint64_t more = wanted - segments_.back().size_bytes;
    const Result<runtime::DiskSpace> space = context_.io.disk_space(directory_);
    if (space.has_value() &&
        space->free_bytes < more + std::min(space->total_bytes / 8, kLeftFreeBytesMax)) {
        writer_.allocated_bytes = ~std::uint64_t{0};
        co_return Status{};
    }
    const FileRef file = writer_.log;
    const Status allocated = co_await runtime::allocate(context_.io, file.handle(), wanted);
    if (allocated.has_value()) {
        writer_.allocated_bytes = wanted;
        co_return allocated;
    }
    writer_.allocated_bytes = ~std::uint64_t{0};
    if (detail::is_full_disk(allocated.error())) {  // a part of it may be taken
        co_return co_await runtime::truncate(context_.io, file.handle(),
                                             segments_.back().size_bytes);
    }
    options_.preallocate = false;
    observe::log_warn("storage", "the file system does not preallocate segments",
                      {{"directory", directory_}, {"error", to_string(allocated.error())}});
    co_return Status{};
}

Task<Status> PartitionLog::write_parts(StorageContext::Parts& parts, std::size_t count,
                                       std::uint64_t position) {
    const FileRef file = writer_.log;
    std::size_t first = 0;
    while (first < count) {
        const std::int32_t result = co_await runtime::io_await([&](runtime::IoOp& op) {
            context_.io.writev(op, file.handle(), {parts.data() + first, count - first}, position);
        });
        if (result == -EINTR || result == -EAGAIN) {
            continue;
        }
        if (result <= 0) {
            co_return fail_os(result == 0 ? EIO : -result);
        }
        auto done = static_cast<std::size_t>(result);
        position += done;
        while (first < count && done >= parts[first].iov_len) {
            done -= parts[first++].iov_len;
        }
        if (done != 0) {
            parts[first].iov_base = static_cast<std::byte*>(parts[first].iov_base) + done;
            parts[first].iov_len -= done;
        }
    }
    co_return Status{};
}

/// What was written belongs to the segment now; reads find it there from this moment on.
void PartitionLog::take_over_flushed() {
    Segment& segment = segments_.back();
    while (!tail_.empty() && (tail_.front().writing || tail_.front().failed)) {
        TailBatch batch = tail_.pop_front();
        ++tail_first_id_;
        tail_bytes_ -= batch.bytes.size();
        tail_messages_ -= batch.count;
        if (!batch.writing) {
            continue;
        }
        const std::uint64_t messages_before = segment.message_count();
        const IndexEntry entry{
            .offset = batch.base, .timestamp = batch.timestamp, .position = segment.size_bytes};
        if (segment.size_bytes == 0) {
            segment.first = batch.base;
            segment.first_timestamp = batch.timestamp;
        }
        if (writer_.index.empty() ||
            entry.position - writer_.index.back().position >= kIndexStrideBytes) {
            writer_.index.push_back(entry);
        }
        writer_.last_batch = entry;
        segment.size_bytes += batch.bytes.size();
        segment.end = batch.end();
        totals_.bytes += batch.bytes.size();
        totals_.messages += segment.message_count() - messages_before;
        segment.last_timestamp = std::max(segment.last_timestamp, batch.timestamp);
        written_total_ += batch.bytes.size();
        if (batch.journal_sequence != 0) {
            release_records(batch.journal_sequence, 1);
        }
    }
}

/// Failed batches at the front that no write holds.
void PartitionLog::drop_failed_front() {
    while (!tail_.empty() && tail_.front().failed && !tail_.front().writing) {
        const TailBatch batch = tail_.pop_front();
        ++tail_first_id_;
        tail_bytes_ -= batch.bytes.size();
        tail_messages_ -= batch.count;
    }
}

// ---- sync
// ------------------------------------------------------------------------------------------------

/// Returns when everything written before `mark` is stable. What queues up meanwhile shares the
/// next sync.
Task<Status> PartitionLog::sync_until(std::uint64_t mark) {
    while (synced_total_ < mark) {
        if (sync_running_) {
            co_await sync_done_.wait();
            continue;
        }
        if (fence_.has_value() && !fence_is_temporary_) {
            co_return std::unexpected(*fence_);
        }
        GALGO_CO_TRY(co_await sync_once());
    }
    co_return Status{};
}

Task<Status> PartitionLog::sync_once() {
    GALGO_CHECK(!sync_running_);
    sync_running_ = true;
    const std::uint64_t mark = written_total_;
    const Offset end = flushed_end();
    Status status = co_await sync_files();
    if (status.has_value()) {
        synced_total_ = mark;
        if (options_.persisted && !parents_dirty_ && !entries_dirty_) {
            stable_end_ = std::max(stable_end_, end);
        }
        release_synced();
    } else {
        Error error = status.error();
        if (error.os_errno != EMFILE && error.os_errno != ENFILE) {
            // The kernel may have dropped what it could not write: only the journal and the tail
            // have it now. Those two come from opening the directory, before any sync.
            error.os_errno = EIO;
            sync_failed_ = true;
        }
        fence(error, "segment sync failed");
        // Never the errno that looks as if it passed: a second sync would only seem to help.
        status = std::unexpected(*fence_);
    }
    sync_running_ = false;
    sync_done_.wake_all();
    co_return status;
}

/// For a stop: a write that failed for good does not take away what was written before it.
Task<Status> PartitionLog::sync_fenced() {
    while (sync_running_) {
        co_await sync_done_.wait();
    }
    if (sync_failed_) {
        co_return std::unexpected(*fence_);
    }
    if (synced_total_ == written_total_) {
        co_return Status{};
    }
    if (!writer_.log) {  // a fenced log that rests keeps no files
        GALGO_CO_TRY(co_await open_writer());
    }
    co_return co_await sync_once();
}

Task<Status> PartitionLog::sync_files() {
    const FileRef active = writer_.log;
    const Offset active_start = writer_.start;
    const std::uint64_t active_bytes = segments_.empty() ? 0 : segments_.back().size_bytes;
    if (entries_dirty_) {
        entries_dirty_ = false;
        Status synced = co_await runtime::sync_directory(context_.io, directory_);
        if (synced.has_value() && parents_dirty_ && options_.persisted) {
            synced = co_await sync_parents();
            parents_dirty_ = !synced.has_value();
        }
        if (!synced.has_value()) {
            entries_dirty_ = true;
            co_return synced;
        }
    }
    if (active) {
        const Instant began = context_.io.now();
        GALGO_CO_TRY(co_await runtime::sync(context_.io, active.handle()));
        observe::record_time(context_.sync_times, began, context_.io.now());
        if (writer_.log && writer_.start == active_start) {
            (void)co_await write_index(writer_, active_bytes);
        }
    }
    co_return Status{};
}

/// Entries of the stable part of the log go to the disk. A failure costs nothing: they are derived,
/// and tried again by the next sync.
Task<Status> PartitionLog::write_index(Writer& writer, std::uint64_t stable_bytes) {
    constexpr std::size_t kEntriesPerWrite = 64;
    const FileRef file = writer.index_file;
    const Offset start = writer.start;
    const std::uint64_t seed = index_seed(partition_, incarnation_, start);
    std::size_t done = writer.index_on_disk;
    while (file && done < writer.index.size() && writer.index[done].position < stable_bytes) {
        std::byte bytes[kEntriesPerWrite * kIndexEntryBytes];
        std::size_t count = 0;
        while (count < kEntriesPerWrite && done + count < writer.index.size() &&
               writer.index[done + count].position < stable_bytes) {
            encode_index_entry(MutableBytes(bytes).subspan(count * kIndexEntryBytes),
                               writer.index[done + count], seed);
            ++count;
        }
        GALGO_CO_TRY(co_await runtime::write_all(context_.io, file.handle(),
                                                 ConstBytes(bytes, count * kIndexEntryBytes),
                                                 done * kIndexEntryBytes));
        done += count;
        // The active writer may have been sealed meanwhile: it then begins where it stood.
        if (writer.start != start || !writer.index_file) {
            break;
        }
        writer.index_on_disk = std::max(writer.index_on_disk, done);
    }
    if (&writer == &writer_ && writer_.start == start && writer_.index_file && !segments_.empty()) {
        segments_.back().index_entries = writer_.index_on_disk;
    }
    co_return Status{};
}

void PartitionLog::release_synced() {
    std::size_t done = 0;
    while (done < pending_releases_.size() &&
           pending_releases_[done].written_mark <= synced_total_) {
        context_.journal.release(pending_releases_[done].journal_sequence,
                                 pending_releases_[done].count);
        ++done;
    }
    pending_releases_.erase(pending_releases_.begin(),
                            pending_releases_.begin() + static_cast<std::ptrdiff_t>(done));
}

// ---- segments
// --------------------------------------------------------------------------------------------

/// A segment that takes more, with its files open. Called with a tail.
Task<Status> PartitionLog::ensure_writer() {
    if (!segments_.empty() && !last_is_sealed_ &&
        segments_.back().size_bytes >= options_.segment_size) {
        GALGO_CO_TRY(co_await seal());
    }
    if (segments_.empty() || last_is_sealed_ || !writer_fits()) {
        // Not behind what it will hold; and an end that recovery could not name yet is skipped.
        const Offset start = tail_.empty() ? recovered_end_ : tail_.front().base;
        const Status created = co_await create_segment(std::max(flushed_end(), start));
        co_return created;
    }
    if (!writer_.log) {
        const Status opened = co_await open_writer();
        co_return opened;
    }
    co_return Status{};
}

/// A segment begins with the offset of its name.
bool PartitionLog::writer_fits() const noexcept {
    return tail_.empty() || (!segments_.empty() && (segments_.back().size_bytes != 0 ||
                                                    tail_.front().base <= segments_.back().start));
}

/// Nothing stands behind the last batch of the last segment: a sealed one has to end with a batch.
Task<Status> PartitionLog::cut_leftover() {
    if (!std::exchange(has_leftover_, false) || segments_.empty()) {
        co_return Status{};
    }
    if (!writer_.log) {
        has_leftover_ = true;
        GALGO_CO_TRY(co_await open_writer());
    }
    const FileRef file = writer_.log;
    const Status cut =
        co_await runtime::truncate(context_.io, file.handle(), segments_.back().size_bytes);
    has_leftover_ = !cut.has_value();
    writer_.allocated_bytes = 0;
    co_return cut;
}

/// An entry for the last batch, which is stable: so is everything before it. The next start looks
/// at little more, and knows that damage there is not the trace of a crash.
void PartitionLog::name_last_batch() {
    if (writer_.last_batch.has_value() &&
        (writer_.index.empty() || writer_.index.back().position < writer_.last_batch->position)) {
        writer_.index.push_back(*writer_.last_batch);
    }
}

/// Makes the active segment stable and ends it. Only then the next one is written: so all that a
/// power loss can damage is in the last segment. Appends to the tail go on meanwhile.
Task<Status> PartitionLog::seal() {
    GALGO_CO_TRY(co_await cut_leftover());
    if (!writer_.log && segments_.back().size_bytes != 0) {
        (void)co_await open_writer();  // for the index: without its last entry a start looks longer
    }
    GALGO_CO_TRY(co_await sync_until(written_total_));
    if (writer_.index_file) {
        name_last_batch();
        (void)co_await write_index(writer_, segments_.back().size_bytes);
        (void)co_await runtime::sync(context_.io, writer_.index_file.handle());
    }
    if (options_.preallocate && writer_.log) {
        const FileRef file = writer_.log;  // what it did not need
        (void)co_await runtime::truncate(context_.io, file.handle(), segments_.back().size_bytes);
    }
    writer_ = Writer{};
    last_is_sealed_ = true;
    co_return Status{};
}

/// The directory, with the file that says whose it is: stable before anything else is in it. One
/// at a time: a flush and a checkpoint of offsets may come together.
Task<Status> PartitionLog::make_directory() {
    co_await making_directory_.acquire();
    Status made;
    if (!directory_exists_) {
        made = co_await runtime::make_directories(context_.io, directory_);
        context_.forget_stable_directories();
        if (made.has_value()) {
            made = co_await write_incarnation();
        }
        if (made.has_value()) {
            made = co_await runtime::sync_directory(context_.io, directory_);
        }
        if (made.has_value()) {
            made = co_await sync_parents();
        }
        directory_exists_ = made.has_value();
        parents_dirty_ = parents_dirty_ && !made.has_value();
    }
    making_directory_.release();
    co_return made;
}

Task<Status> PartitionLog::prepare_directory(bool stable) {
    GALGO_CO_TRY(co_await make_directory());
    if (stable && parents_dirty_) {
        GALGO_CO_TRY(co_await sync_parents());
        parents_dirty_ = false;
    }
    co_return Status{};
}

/// Each directory is an entry of the one above it.
Task<Status> PartitionLog::sync_parents() {
    for (std::size_t end = directory_.rfind('/');
         end != std::string::npos && end >= root_.size() && end != 0;
         end = directory_.rfind('/', end - 1)) {
        const std::string parent = directory_.substr(0, end);
        if (context_.is_stable_directory(parent)) {
            continue;
        }
        const std::uint64_t mark = context_.stable_mark();
        GALGO_CO_TRY(co_await runtime::sync_directory(context_.io, parent));
        context_.note_stable_directory(parent, mark);
    }
    co_return Status{};
}

Task<Status> PartitionLog::create_segment(Offset start) {
    if (!segments_.empty() && segments_.back().start >= start) {
        co_return fail_os(EEXIST);  // a damaged one that does not say where it ends
    }
    GALGO_CO_TRY(co_await cut_leftover());
    GALGO_CO_TRY(co_await make_directory());
    if (!segments_.empty() && segments_.back().size_bytes == 0 && entries_dirty_) {
        // Its name says where the one before ends: it may not come later than the next.
        GALGO_CO_TRY(co_await runtime::sync_directory(context_.io, directory_));
    }
    const Offset end = flushed_end();
    // Not behind a damaged one that does not say where it ends, nor over one that is not served.
    if (end < start && (segments_.empty() || segments_.back().start < end) && !is_occupied(end)) {
        GALGO_CO_TRY(co_await mark_hole(end));
    }
    const std::string index_path = path_of(start, kIndexExtension);
    GALGO_CO_TRY_ASSIGN(FileRef log, co_await open_empty_log(start));
    Writer writer{.start = start, .log = std::move(log)};
    const Result<runtime::FileHandle> index =
        co_await runtime::open(context_.io, index_path, runtime::OpenMode::kCreate);
    if (index.has_value()) {
        writer.index_file = context_.files.adopt(*index);
    }
    writer_ = std::move(writer);
    segments_.push_back({.start = start, .first = start, .end = start});
    last_is_sealed_ = false;
    entries_dirty_ = true;
    co_await drop_middle_marker();
    co_return Status{};
}

/// A log of that name holds something, and is not served.
bool PartitionLog::is_occupied(Offset start) const {
    const Result<runtime::FileFacts> facts = context_.io.file_facts(path_of(start, kLogExtension));
    return facts.has_value() && facts->size_bytes != 0;
}

/// A file of that name can only be the empty one of an attempt that failed half-way.
Task<Result<FileRef>> PartitionLog::open_empty_log(Offset start) {
    const std::string path = path_of(start, kLogExtension);
    const Result<runtime::FileFacts> facts = context_.io.file_facts(path);
    if (facts.has_value() && facts->size_bytes != 0) {
        co_return fail_os(EEXIST);
    }
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(context_.io, path, runtime::OpenMode::kCreate));
    co_return context_.files.adopt(file);
}

/// An empty segment where offsets begin that no batch has: otherwise a start could not tell them
/// from a file that is gone. Its name is stable before the next one is made.
Task<Status> PartitionLog::mark_hole(Offset start) {
    GALGO_CO_TRY(co_await open_empty_log(start));
    entries_dirty_ = true;
    GALGO_CO_TRY(co_await runtime::sync_directory(context_.io, directory_));
    segments_.push_back({.start = start, .first = start, .end = start});
    last_is_sealed_ = true;
    co_return Status{};
}

/// Of three empty ones in a row the first says where the hole begins and the last where it ends:
/// tries that fail do not add up to many files. A failure leaves it to the next one. Not where
/// files are damaged: one that was emptied looks the same.
Task<void> PartitionLog::drop_middle_marker() {
    const std::size_t count = segments_.size();
    if (count < 3 || has_stable_damage_ || segments_[count - 3].size_bytes != 0 ||
        segments_[count - 2].size_bytes != 0) {
        co_return;
    }
    const Offset start = segments_[count - 2].start;
    if (std::ranges::contains(begins_, start)) {
        co_return;  // the log may begin there
    }
    // The name that tells the next offset until now goes only when the new one is stable.
    const Status synced = co_await runtime::sync_directory(context_.io, directory_);
    if (synced.has_value()) {
        const Status moved = co_await move_to_trash(start);
        const auto middle = std::ranges::find(segments_, start, &Segment::start);
        if (moved.has_value() && middle != segments_.end()) {  // else a trim took it meanwhile
            segments_.erase(middle);
        }
    }
}

/// Opens the files of the last segment again (after a restart, or when they were dropped as idle).
Task<Status> PartitionLog::open_writer() {
    const Offset start = segments_.back().start;
    const std::string log_path = path_of(start, kLogExtension);
    const std::string index_path = path_of(start, kIndexExtension);
    GALGO_CO_TRY_ASSIGN(
        const runtime::FileHandle log,
        co_await runtime::open(context_.io, log_path, runtime::OpenMode::kReadWrite));
    FileRef log_file = context_.files.adopt(log);
    const Result<runtime::FileHandle> index =
        co_await runtime::open(context_.io, index_path, runtime::OpenMode::kCreate);
    if (index.has_value()) {
        FileRef index_file = context_.files.adopt(*index);
        const bool whole = co_await read_index(index_file);
        if (whole) {  // otherwise it is left as it is: what it says is right
            writer_.index_file = std::move(index_file);
        }
    }
    writer_.start = start;
    writer_.log = std::move(log_file);
    // An idle log gave the memory back; what comes now shall not ask for it entry by entry.
    writer_.index.reserve(writer_.index.size() + kIndexRoom);
    co_return Status{};
}

/// Entries that were dropped with the files of an idle log. False when they cannot be had.
Task<bool> PartitionLog::read_index(FileRef file) {
    if (!writer_.index.empty() || writer_.index_on_disk == 0) {
        co_return true;
    }
    std::vector<std::byte> bytes(writer_.index_on_disk * kIndexEntryBytes);
    const Result<std::size_t> got = co_await runtime::read(context_.io, file.handle(), bytes, 0);
    if (!got.has_value() || *got != bytes.size()) {
        co_return false;
    }
    const std::uint64_t seed = index_seed(partition_, incarnation_, segments_.back().start);
    std::vector<IndexEntry> entries;
    entries.reserve(writer_.index_on_disk);
    for (std::size_t at = 0; at < bytes.size(); at += kIndexEntryBytes) {
        const std::optional<IndexEntry> entry =
            decode_index_entry(ConstBytes(bytes).subspan(at, kIndexEntryBytes), seed);
        if (!entry.has_value()) {
            co_return false;
        }
        entries.push_back(*entry);
    }
    writer_.index = std::move(entries);
    co_return true;
}

bool PartitionLog::rest() {
    if (closed_) {
        return false;
    }
    if (!writer_.log) {
        const bool was_read = std::exchange(was_read_, false);
        const bool holds_files = std::exchange(reads_hold_files_, was_read);
        if (was_read || !holds_files) {
            return false;
        }
        context_.files.forget_log(log_number_);
        return true;
    }
    if (rested_at_ != written_total_) {
        rested_at_ = written_total_;
        return false;
    }
    const bool unsettled =
        (synced_total_ != written_total_ && !fence_.has_value()) || is_unnamed_at_rest();
    if (unsettled) {
        spawn_background_sync();
    }
    drop_idle_files();
    return unsettled || !writer_.log;
}

void PartitionLog::drop_idle_files() noexcept {
    const bool fenced_for_good = fence_.has_value() && !fence_is_temporary_;
    if (!flush_running_ && !sync_running_ && !background_sync_ &&
        (synced_total_ == written_total_ || fenced_for_good)) {
        writer_.log.reset();
        writer_.index_file.reset();
        if (writer_.index_on_disk == writer_.index.size()) {
            writer_.index = std::vector<IndexEntry>();  // the file has them; {} would keep memory
        }
        context_.files.forget_log(log_number_);
        tail_.shrink();
        uncommitted_.shrink();
    }
}

}  // namespace galgo::storage

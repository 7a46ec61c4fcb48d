// The write path of the shard journal: gather, write, sync, complete.
#include "storage/shard_journal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "observe/histogram.hpp"
#include "observe/log.hpp"

namespace galgo::storage {

ShardJournal::ShardJournal(runtime::IoBackend& io, coro::ReadyQueue& ready, JournalOptions options)
    : io_(io),
      ready_(ready),
      options_(std::move(options)),
      files_(options_.files_max),
      next_sequence_(options_.first_sequence),
      staging_(std::make_unique<std::byte[]>(kStagingBytes)),
      parts_(std::make_unique<iovec[]>(kRecordsPerWriteMax * 2)),
      scope_(ready),
      idle_waiters_(ready) {
    static_assert(kRecordsPerWriteMax * kJournalRecordHeaderBytes <= kStagingBytes);
    static_assert(kRecordsPerWriteMax * 2 <= 1024);
    static_assert(kJournalFileBytesMin >=
                  kJournalFileHeaderBytes + kJournalRecordHeaderBytes + kBulkBatchBytes);
    GALGO_CHECK(options_.files_max >= 3 && options_.files_max <= 64);
    GALGO_CHECK(options_.file_bytes >= kJournalFileBytesMin);
    set_aside_.reserve(kSetAsideMax);
    write_operation_.journal = sync_operation_.journal = this;
    write_operation_.complete = [](runtime::IoOp& op, std::int32_t result) noexcept {
        static_cast<Operation&>(op).journal->on_ring_write(result);
    };
    sync_operation_.complete = [](runtime::IoOp& op, std::int32_t result) noexcept {
        static_cast<Operation&>(op).journal->on_sync(result);
    };
}

ShardJournal::~ShardJournal() {
    GALGO_DCHECK(pending_.empty() && writing_.empty() && awaiting_sync_.empty() &&
                 syncing_.empty());
}

void ShardJournal::set_pressure_hook(PressureHook hook, void* context) noexcept {
    pressure_hook_ = hook;
    pressure_context_ = context;
}

void ShardJournal::set_release_hook(ReleaseHook hook, void* context) noexcept {
    release_hook_ = hook;
    release_context_ = context;
}

void ShardJournal::enqueue(JournalEntry& entry) noexcept {
    GALGO_CHECK(!closing_);
    GALGO_CHECK(entry.body.size() < kBulkBatchBytes);
    entry.record.body_bytes = static_cast<std::uint32_t>(entry.body.size());
    pending_.push_back(entry);
    pending_bytes_ += kJournalRecordHeaderBytes + entry.body.size();
}

void ShardJournal::end_of_turn() noexcept {
    pump();
}

void ShardJournal::stop_waiting() noexcept {
    draining_ = true;
    pump();
}

void ShardJournal::pump() noexcept {
    if (in_pump_) {
        return;  // a completion called us back: the loop below goes on
    }
    in_pump_ = true;
    while (!pending_.empty() && !ring_write_in_flight_ && ensure_active()) {
        write_gathered();
    }
    in_pump_ = false;
    start_sync();
    wake_if_idle();
}

/// Is there an active file with room for the first pending entry?
bool ShardJournal::ensure_active() noexcept {
    const std::uint64_t needed = kJournalRecordHeaderBytes + pending_.front().body.size();
    if (active_ != kNone && position_ + needed <= options_.file_bytes) {
        return true;
    }
    if (active_ != kNone) {
        seal_active();
    }
    active_ = find_ready();
    if (active_ == kNone) {
        if (make_error_.os_errno != 0 && io_.now() < retry_make_at_) {
            fail_pending(make_error_);
            return false;
        }
        check_pressure();
        kick();
        if (draining_ && !maintaining_) {
            // Nobody will release a file any more.
            fail_pending(fail(ErrorCode::kTransientNotAccepted).error());
        }
        return false;
    }
    File& file = files_[active_];
    file.state = State::kActive;
    file.used_bytes = file.stable_bytes = 0;
    position_ = kJournalFileHeaderBytes;
    seed_ =
        JournalFileHeader{
            .epoch = options_.epoch, .sequence = file.sequence, .shard = options_.shard}
            .seed();
    check_pressure();
    kick();
    return true;
}

void ShardJournal::write_gathered() noexcept {
    writing_bytes_ = take_for_write();
    if (writing_bytes_ > kStagingBytes) {
        submit_ring_write();
        return;
    }
    encode_to_staging(writing_bytes_);
    std::uint64_t done = 0;
    while (done < writing_bytes_) {
        const std::int32_t result = io_.write_now(
            files_[active_].handle, ConstBytes(staging_.get() + done, writing_bytes_ - done),
            position_ + done);
        if (result == -EINTR) {
            continue;
        }
        if (result <= 0) {
            fail_write(fail_os(result == 0 ? EIO : -result).error());
            return;
        }
        done += static_cast<std::uint64_t>(result);
    }
    finish_write();
}

/// Moves pending entries that go into one write to writing_; returns their bytes.
std::uint64_t ShardJournal::take_for_write() noexcept {
    const std::uint64_t room = options_.file_bytes - position_;
    std::uint64_t bytes = 0;
    for (std::size_t count = 0; count < kRecordsPerWriteMax && !pending_.empty(); ++count) {
        const std::uint64_t needed = kJournalRecordHeaderBytes + pending_.front().body.size();
        if (bytes + needed > room) {
            break;
        }
        writing_.push_back(pending_.pop_front());
        bytes += needed;
    }
    pending_bytes_ -= bytes;
    return bytes;
}

/// Replay tells damage from the trace of a crash by this.
void ShardJournal::note_stable(JournalRecord& record) noexcept {
    if (prior_ != kNone && files_[prior_].sequence == prior_sequence_ &&
        files_[prior_].state == State::kSealed) {
        prior_stable_ = files_[prior_].stable_bytes;
    }
    record.stable_bytes = files_[active_].stable_bytes;
    record.prior_sequence = prior_sequence_;
    record.prior_stable_bytes = prior_stable_;
}

void ShardJournal::encode_to_staging(std::uint64_t bytes) noexcept {
    const MutableBytes to(staging_.get(), bytes);
    std::size_t at = 0;
    writing_.for_each([&](JournalEntry& entry) {
        const ConstBytes body = entry.body.bytes();
        note_stable(entry.record);
        encode_journal_record(to.subspan(at), entry.record, body, seed_, position_ + at);
        at += kJournalRecordHeaderBytes;
        if (!body.empty()) {
            std::memcpy(to.data() + at, body.data(), body.size());
            at += body.size();
        }
    });
    GALGO_DCHECK(at == bytes);
}

void ShardJournal::submit_ring_write() noexcept {
    part_first_ = part_count_ = 0;
    std::uint64_t at = 0;
    std::size_t header = 0;
    writing_.for_each([&](JournalEntry& entry) {
        const ConstBytes body = entry.body.bytes();
        std::byte* place = staging_.get() + header;
        note_stable(entry.record);
        encode_journal_record({place, kJournalRecordHeaderBytes}, entry.record, body, seed_,
                              position_ + at);
        parts_[part_count_++] = {.iov_base = place, .iov_len = kJournalRecordHeaderBytes};
        if (!body.empty()) {
            // The kernel only reads through it.
            parts_[part_count_++] = {.iov_base = const_cast<std::byte*>(body.data()),
                                     .iov_len = body.size()};
        }
        header += kJournalRecordHeaderBytes;
        at += kJournalRecordHeaderBytes + body.size();
    });
    ring_write_in_flight_ = true;
    io_.writev(write_operation_, files_[active_].handle, {parts_.get(), part_count_}, position_);
}

void ShardJournal::on_ring_write(std::int32_t result) noexcept {
    std::uint64_t left = 0;
    if (result == -EINTR || result == -EAGAIN) {
        result = 0;
    } else if (result <= 0) {
        ring_write_in_flight_ = false;
        fail_write(fail_os(result == 0 ? EIO : -result).error());
        pump();
        return;
    }
    auto done = static_cast<std::size_t>(result);
    while (part_first_ < part_count_ && done >= parts_[part_first_].iov_len) {
        done -= parts_[part_first_++].iov_len;
    }
    if (part_first_ < part_count_) {
        iovec& part = parts_[part_first_];
        part.iov_base = static_cast<std::byte*>(part.iov_base) + done;
        part.iov_len -= done;
        for (std::size_t i = part_first_; i < part_count_; ++i) {
            left += parts_[i].iov_len;
        }
        io_.writev(write_operation_, files_[active_].handle,
                   {parts_.get() + part_first_, part_count_ - part_first_},
                   position_ + writing_bytes_ - left);
        return;
    }
    ring_write_in_flight_ = false;
    finish_write();
    pump();
}

void ShardJournal::finish_write() noexcept {
    File& file = files_[active_];
    if (file.poisoned) {
        // A sync of this file failed while the write was on its way.
        fail_write(fail_os(EIO).error());
        return;
    }
    position_ += writing_bytes_;
    file.used_bytes = position_;
    stats_.written_bytes += writing_bytes_;
    ++stats_.write_count;
    while (!writing_.empty()) {
        JournalEntry& entry = writing_.pop_front();
        entry.file_sequence = file.sequence;
        entry.slot_ = active_;
        ++file.live_count;
        if (entry.persist) {
            awaiting_sync_.push_back(entry);
        } else {
            complete(entry, {});
        }
    }
}

void ShardJournal::fail_write(const Error& error) noexcept {
    ++stats_.failure_count;
    File& file = files_[active_];
    observe::log_error("storage", "journal write failed; the file is given up",
                       {{"sequence", file.sequence}, {"errno", error.os_errno}});
    file.poisoned = list_is_stale_ = true;
    seal_active();
    active_ = kNone;
    while (!writing_.empty()) {
        complete(writing_.pop_front(), std::unexpected(error));
    }
    kick();
}

/// One fdatasync of the file of the first entry that waits; it covers everything written before.
void ShardJournal::start_sync() noexcept {
    if (sync_in_flight_ || awaiting_sync_.empty()) {
        return;
    }
    sync_slot_ = awaiting_sync_.front().slot_;
    while (!awaiting_sync_.empty() && awaiting_sync_.front().slot_ == sync_slot_) {
        syncing_.push_back(awaiting_sync_.pop_front());
    }
    sync_in_flight_ = true;
    sync_began_ = io_.now();
    sync_covers_ = files_[sync_slot_].used_bytes;
    io_.sync(sync_operation_, files_[sync_slot_].handle);
}

void ShardJournal::on_sync(std::int32_t result) noexcept {
    sync_in_flight_ = false;
    File& file = files_[sync_slot_];
    if (result >= 0) {
        ++stats_.sync_count;
        file.stable_bytes = std::max(file.stable_bytes, sync_covers_);
        observe::record_time(options_.sync_times, sync_began_, io_.now());
        while (!syncing_.empty()) {
            complete(syncing_.pop_front(), {});
        }
    } else {
        // What the kernel could not write may be gone from its cache: a second sync would only seem
        // to help.
        ++stats_.failure_count;
        const Error error = fail_os(-result).error();
        observe::log_error("storage", "journal sync failed; the file is given up",
                           {{"sequence", file.sequence}, {"errno", error.os_errno}});
        file.poisoned = list_is_stale_ = true;
        if (active_ == sync_slot_ && !ring_write_in_flight_) {
            seal_active();
            active_ = kNone;
        }
        while (!awaiting_sync_.empty() && awaiting_sync_.front().slot_ == sync_slot_) {
            syncing_.push_back(awaiting_sync_.pop_front());
        }
        while (!syncing_.empty()) {
            JournalEntry& entry = syncing_.pop_front();
            forget_records(file, 1);
            complete(entry, std::unexpected(error));
        }
        kick();
    }
    pump();
}

void ShardJournal::complete(JournalEntry& entry, Status status) noexcept {
    entry.status = status;
    entry.body.reset();
    entry.on_complete(entry);
}

void ShardJournal::fail_pending(const Error& error) noexcept {
    Entries failed;  // a completion may enqueue the next one
    while (!pending_.empty()) {
        failed.push_back(pending_.pop_front());
    }
    pending_bytes_ = 0;
    while (!failed.empty()) {
        complete(failed.pop_front(), std::unexpected(error));
    }
}

void ShardJournal::forget_records(File& file, std::uint64_t count) noexcept {
    GALGO_CHECK(file.live_count >= count);
    file.live_count -= count;
    settle(file);
}

void ShardJournal::release(std::uint64_t file_sequence, std::uint32_t count) noexcept {
    for (File& file : files_) {
        if (file.sequence == file_sequence &&
            (file.state == State::kActive || file.state == State::kSealed)) {
            forget_records(file, count);
            kick();
            return;
        }
    }
    for (SetAside& file : set_aside_) {
        if (file.sequence == file_sequence) {
            GALGO_CHECK(file.live_count >= count);
            file.live_count -= count;
            kick();
            return;
        }
    }
    GALGO_CHECK(count == 0);  // a released file has no live record
}

bool ShardJournal::idle() const noexcept {
    // The lists are only looked at; IntrusiveList::empty is const, front is not needed.
    return pending_.empty() && writing_.empty() && awaiting_sync_.empty() && syncing_.empty() &&
           !ring_write_in_flight_ && !sync_in_flight_;
}

void ShardJournal::wake_if_idle() noexcept {
    if (idle()) {
        idle_waiters_.wake_all();
    }
}

}  // namespace galgo::storage

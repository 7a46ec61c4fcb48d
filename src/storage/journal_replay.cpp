// Replay of the shard journals.
#include "storage/journal_replay.hpp"

#include <algorithm>
#include <cerrno>
#include <format>
#include <memory>
#include <tuple>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/detail/free_name.hpp"
#include "storage/stored_batch.hpp"

namespace galgo::storage {

using coro::Task;

namespace {

constexpr std::size_t kWindowBytes = 1 * kMiB;
static_assert(kWindowBytes > kJournalRecordHeaderBytes + kBulkBatchBytes);
constexpr std::uint64_t kFirstRecordAt = kJournalFileHeaderBytes;
constexpr std::byte kMagicFirst{'G'};  // of a record; looked for before all else
/// Behind the name of a journal file that is gone: an operator does without it.
constexpr std::string_view kGivenUp = ".given-up";

/// A header that is written over another one of the same boot differs from it in sequence and
/// checksum alone; of a crash in between these may be a mixture. (The first header of a file is
/// stable before its first record, and a file is used again while another one is written.)
bool may_be_torn(ConstBytes header, ShardIndex shard) noexcept {
    std::byte expected[kJournalFileHeaderBytes];
    encode_journal_file_header(expected, {.epoch = load<std::uint64_t>(header, 16),
                                          .sequence = load<std::uint64_t>(header, 24),
                                          .shard = shard});
    return std::ranges::equal(header.first(56), ConstBytes(expected).first(56));
}

/// What a record says of its batch; where the body is, and whether it is whole, is not in it.
JournaledBatch batch_of(const JournalRecord& record, std::uint32_t file) noexcept {
    return {.base_offset = record.base_offset,
            .message_count = record.message_count,
            .timestamp = record.timestamp,
            .op = record.op,
            .view = record.view,
            .batch_checksum = record.batch_checksum,
            .batch_length = record.batch_length,
            .file = file};
}

Task<Result<bool>> is_zero_behind_header(runtime::IoBackend& io, runtime::FileHandle handle) {
    const auto window = std::make_unique_for_overwrite<std::byte[]>(kWindowBytes);
    for (std::uint64_t at = kJournalFileHeaderBytes;;) {
        GALGO_CO_TRY_ASSIGN(const std::size_t got,
                            co_await runtime::read(io, handle, {window.get(), kWindowBytes}, at));
        if (got == 0) {
            co_return true;
        }
        if (!std::ranges::all_of(ConstBytes(window.get(), got),
                                 [](std::byte b) { return b == std::byte{0}; })) {
            co_return false;
        }
        at += got;
    }
}

}  // namespace

const JournalFacts* JournalReplay::find(PartitionKey partition, Incarnation incarnation) const {
    const auto found = partitions_.find({partition, incarnation});
    return found == partitions_.end() ? nullptr : &found->second;
}

JournalFacts& JournalReplay::facts_of(const JournalRecord& record) {
    JournalFacts& facts = partitions_[{record.partition, record.incarnation}];
    facts.partition = record.partition;
    facts.incarnation = record.incarnation;
    return facts;
}

/// Batches that are only named were looked for by the next boot. Commits of that one do not speak
/// of those that no record called committed before. That it took a batch says more: the log was not
/// fenced, so nothing acknowledged was missing. A changed offset does not: a fenced log takes
/// those.
void JournalReplay::settle_earlier_boots(JournalFacts& facts, const JournalRecord& record,
                                         std::uint64_t epoch) {
    const bool is_batch =
        record.kind == JournalKind::kBatch || record.kind == JournalKind::kBatchNamed;
    const bool takes_batches = is_batch && epoch > facts.last_batch_epoch;
    if (epoch > facts.last_epoch || takes_batches) {
        for (JournaledBatch& batch : facts.batches) {
            if (!batch.has_body() && (takes_batches || batch.op > facts.committed_op)) {
                batch.op = OpNumber{~std::uint64_t{0}};
            }
        }
    }
    facts.last_epoch = std::max(facts.last_epoch, epoch);
    facts.last_batch_epoch = std::max(facts.last_batch_epoch, is_batch ? epoch : 0);
}

void JournalReplay::take_record(const JournalRecord& record, std::uint32_t file,
                                std::uint64_t body_position) {
    ++record_count_;
    File& source = files_[file];
    source.stable_bytes = std::max(source.stable_bytes, record.stable_bytes);
    if (record.prior_sequence != 0) {
        std::uint64_t& prior = prior_stable_[{source.shard, record.prior_sequence}];
        prior = std::max(prior, record.prior_stable_bytes);
    }
    JournalFacts& facts = facts_of(record);
    settle_earlier_boots(facts, record, source.header.epoch);
    facts.committed_op = std::max(facts.committed_op, record.commit_op);
    facts.last_op = std::max(facts.last_op, record.op);
    facts.last_view = std::max(facts.last_view, record.view);
    if (record.kind == JournalKind::kOffsetSet || record.kind == JournalKind::kOffsetDelete) {
        facts.offsets.push_back({.consumer_kind = record.consumer_kind,
                                 .consumer_id = record.consumer_id,
                                 .deleted = record.kind == JournalKind::kOffsetDelete,
                                 .offset = record.base_offset,
                                 .op = record.op});
        return;
    }
    if (record.kind == JournalKind::kBatchDropped) {
        for (Gap& gap : gaps_) {
            gap.dropped = gap.dropped ||
                          (gap.record.has_value() && gap.record->partition == record.partition &&
                           gap.record->incarnation == record.incarnation &&
                           gap.record->base_offset == record.base_offset);
        }
        std::erase_if(facts.batches, [&record](const JournaledBatch& batch) {
            return batch.base_offset == record.base_offset;
        });
        return;
    }
    while (!facts.batches.empty() && facts.batches.back().end() > record.base_offset) {
        facts.batches.pop_back();
    }
    facts.batches.push_back(batch_of(record, file));
    facts.batches.back().body_position = record.kind == JournalKind::kBatch ? body_position : 0;
    facts.batches.back().is_of_this_boot = source.listed_bytes != 0;
    facts.end_named = std::max(facts.end_named, facts.batches.back().end());
}

Task<Status> JournalReplay::scan_file(runtime::IoBackend& io, std::uint32_t index) {
    File& file = files_[index];
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
    const auto window = std::make_unique_for_overwrite<std::byte[]>(kWindowBytes);
    const std::uint64_t seed = file.header.seed();
    std::uint64_t position = kJournalFileHeaderBytes;
    std::uint64_t window_at = 0;
    std::size_t window_size = 0;
    Status status;
    while (true) {
        // The window holds the largest record from `position` on, or all that the file has.
        const std::size_t offset_in_window = position - window_at;
        if (window_size == 0 ||
            offset_in_window + kJournalRecordHeaderBytes + kBulkBatchBytes > window_size) {
            if (window_size == 0 || window_at + window_size < file.size_bytes) {
                const Result<std::size_t> got =
                    co_await runtime::read(io, handle, {window.get(), kWindowBytes}, position);
                if (!got.has_value()) {
                    status = std::unexpected(got.error());
                    break;
                }
                window_at = position;
                window_size = *got;
                if (window_size == 0) {
                    break;
                }
                continue;
            }
        }
        const ConstBytes rest(window.get() + offset_in_window, window_size - offset_in_window);
        const auto record = decode_journal_record(rest);
        if (!record.has_value() || rest.size() < kJournalRecordHeaderBytes + record->body_bytes ||
            !verify_journal_record(rest,
                                   rest.subspan(kJournalRecordHeaderBytes, record->body_bytes),
                                   seed, position)) {
            // The trace of a crash, or damage: that is judged when all has been read.
            const auto behind = co_await find_record(io, handle, file, position + 1);
            if (!behind.has_value()) {
                status = std::unexpected(behind.error());
                break;
            }
            if (!behind->has_value()) {
                break;
            }
            auto named = co_await judge_record(io, handle, position, **behind);
            if (!named.has_value()) {
                status = std::unexpected(named.error());
                break;
            }
            gaps_.push_back(
                {.file = index, .position = position, .record = *named, .is_followed = true});
            position = **behind;
            window_size = 0;
            continue;
        }
        take_record(*record, index, position + kJournalRecordHeaderBytes);
        position += kJournalRecordHeaderBytes + record->body_bytes;
    }
    (void)co_await runtime::close(io, handle);
    file.valid_end = position;
    co_return status;
}

/// The first record of the file's present life at or behind `from`.
Task<Result<std::optional<std::uint64_t>>> JournalReplay::find_record(runtime::IoBackend& io,
                                                                      runtime::FileHandle handle,
                                                                      const File& file,
                                                                      std::uint64_t from) const {
    const std::uint64_t seed = file.header.seed();
    const auto window = std::make_unique_for_overwrite<std::byte[]>(kWindowBytes);
    while (from + kJournalRecordHeaderBytes <= file.size_bytes) {
        GALGO_CO_TRY_ASSIGN(const std::size_t got,
                            co_await runtime::read(io, handle, {window.get(), kWindowBytes}, from));
        if (got < kJournalRecordHeaderBytes) {
            break;
        }
        const ConstBytes bytes(window.get(), got);
        const bool is_last = from + got >= file.size_bytes;
        // A record that begins behind this may not be whole in the window.
        const std::size_t begins_max = is_last || got <= kJournalRecordHeaderBytes + kBulkBatchBytes
                                           ? got - kJournalRecordHeaderBytes
                                           : got - kJournalRecordHeaderBytes - kBulkBatchBytes;
        for (std::size_t at = 0; at <= begins_max; ++at) {
            if (bytes[at] != kMagicFirst) {
                continue;
            }
            const ConstBytes rest = bytes.subspan(at);
            const auto record = decode_journal_record(rest);
            if (record.has_value() &&
                rest.size() >= kJournalRecordHeaderBytes + record->body_bytes &&
                verify_journal_record(rest,
                                      rest.subspan(kJournalRecordHeaderBytes, record->body_bytes),
                                      seed, from + at)) {
                co_return from + at;
            }
        }
        if (is_last) {
            break;
        }
        from += begins_max + 1;
    }
    co_return std::nullopt;
}

/// What the bytes at `position` say when they can be believed: a header that fits to where the next
/// record begins, before a body that is no batch. Then the damage is in the body.
Task<Result<std::optional<JournalRecord>>> JournalReplay::judge_record(runtime::IoBackend& io,
                                                                       runtime::FileHandle handle,
                                                                       std::uint64_t position,
                                                                       std::uint64_t end) const {
    const std::uint64_t length = end - position;
    if (length <= kJournalRecordHeaderBytes ||
        length >= kJournalRecordHeaderBytes + kBulkBatchBytes) {
        co_return std::nullopt;
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(length));
    GALGO_CO_TRY_ASSIGN(const std::size_t got, co_await runtime::read(io, handle, bytes, position));
    const auto record = decode_journal_record(ConstBytes(bytes).first(got));
    if (got != bytes.size() || !record.has_value() || record->kind != JournalKind::kBatch ||
        kJournalRecordHeaderBytes + record->body_bytes != length ||
        validate_stored(ConstBytes(bytes).subspan(kJournalRecordHeaderBytes),
                        wire::OffsetDeltas::kContiguous)
            .has_value()) {
        co_return std::nullopt;
    }
    // Bytes of an earlier life could stand here, too: their place in the log is taken, or out of
    // order.
    const JournalFacts* facts = find(record->partition, record->incarnation);
    if (facts != nullptr) {
        const Offset record_end = record->base_offset.plus(record->message_count);
        const auto next = std::ranges::lower_bound(facts->batches, record->base_offset, {},
                                                   &JournaledBatch::base_offset);
        if ((next != facts->batches.end() &&
             (next->base_offset < record_end || next->op < record->op)) ||
            (next != facts->batches.begin() && std::prev(next)->end() > record->base_offset)) {
            co_return std::nullopt;
        }
    }
    co_return record;
}

/// A file whose header cannot be read is one of this life when any of its records says so. When
/// none does, bytes that are not zero are records of which nobody can tell anything, unless the
/// header is one that a crash has torn while the file was used again: then they are of an earlier
/// life.
Task<Status> JournalReplay::repair_header(runtime::IoBackend& io, File& file) {
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
    const Status repaired = co_await repair_header_of(io, handle, file);
    (void)co_await runtime::close(io, handle);
    co_return repaired;
}

Task<Status> JournalReplay::repair_header_of(runtime::IoBackend& io, runtime::FileHandle handle,
                                             File& file) {
    std::byte bytes[kJournalFileHeaderBytes] = {};
    GALGO_CO_TRY(co_await runtime::read(io, handle, bytes, 0));
    std::vector<std::uint64_t> epochs;
    bool epoch_is_known = false;
    for (const File& other : files_) {
        epochs.push_back(other.epoch_told);
        epoch_is_known = epoch_is_known || (&other != &file && other.epoch_told == file.epoch_told);
    }
    const bool is_torn = epoch_is_known && may_be_torn(bytes, file.shard);
    std::ranges::sort(epochs);
    epochs.erase(std::ranges::unique(epochs).begin(), epochs.end());
    for (const std::uint64_t epoch : epochs) {
        file.header = {.epoch = epoch, .sequence = file.sequence, .shard = file.shard};
        GALGO_CO_TRY_ASSIGN(const std::optional<std::uint64_t> found,
                            co_await find_record(io, handle, file, kFirstRecordAt));
        if (found.has_value()) {
            observe::log_error("storage",
                               "the header of a journal file is damaged; its records "
                               "are read all the same",
                               {{"file", file.path}, {"epoch", epoch}});
            file.readable = file.has_damage = true;
            // What no crash does to a header it has not done to the rest of its sector either.
            file.stable_bytes = is_torn ? 0 : kFirstRecordAt + 1;
            epoch_max_ = std::max(epoch_max_, epoch);
            co_return Status{};
        }
    }
    file.header = {};
    GALGO_CO_TRY_ASSIGN(const bool is_empty, co_await is_zero_behind_header(io, handle));
    // A file that was listed had its header before.
    const bool was_whole = file.listed_bytes != 0;
    if (!is_empty || was_whole) {
        file.has_damage = true;
        if (!is_torn || was_whole) {
            refuse(file, 0);
        }
    }
    co_return Status{};
}

/// Is what stands behind the last whole record the begin of one that would not fit?
Task<Result<bool>> JournalReplay::ends_inside_record(runtime::IoBackend& io, const File& file,
                                                     std::uint64_t position) const {
    std::byte bytes[kJournalRecordHeaderBytes];
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
    const Result<std::size_t> got = co_await runtime::read(io, handle, bytes, position);
    (void)co_await runtime::close(io, handle);
    GALGO_CO_TRY(got);
    const auto record = decode_journal_record(ConstBytes(bytes).first(*got));
    co_return *got < kJournalRecordHeaderBytes ||
        (record.has_value() &&
         position + kJournalRecordHeaderBytes + record->body_bytes > file.size_bytes);
}

/// Files that end before what was synced of them.
Task<Status> JournalReplay::judge_tails(runtime::IoBackend& io) {
    for (std::uint32_t i = 0; i < files_.size(); ++i) {
        File& file = files_[i];
        if (const auto prior = prior_stable_.find({file.shard, file.sequence});
            prior != prior_stable_.end()) {
            file.stable_bytes = std::max(file.stable_bytes, prior->second);
        }
        const std::uint64_t valid_end = std::max(file.valid_end, kFirstRecordAt);
        // All files of a boot are of one size before they get a header.
        const bool is_short =
            file.readable && (file.listed_bytes > file.size_bytes ||
                              std::ranges::any_of(files_, [&file](const File& other) {
                                  return other.header.epoch == file.header.epoch &&
                                         other.size_bytes > file.size_bytes;
                              }));
        if (is_short) {
            GALGO_CO_TRY_ASSIGN(const bool cut, co_await ends_inside_record(io, file, valid_end));
            file.stable_bytes = std::max(file.stable_bytes, cut ? valid_end + 1 : 0);
        }
        if (file.stable_bytes <= valid_end) {
            continue;
        }
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                            co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
        auto named = co_await judge_record(io, handle, valid_end, file.stable_bytes);
        (void)co_await runtime::close(io, handle);
        GALGO_CO_TRY(named);
        gaps_.push_back({.file = i, .position = valid_end, .record = *named});
    }
    co_return Status{};
}

void JournalReplay::judge_gaps() {
    for (const Gap& gap : gaps_) {
        File& file = files_[gap.file];
        // One write at a time: what the page cache has behind a record was written after it.
        const bool was_written = gap.is_followed && file.listed_bytes != 0;
        if (file.stable_bytes <= gap.position && !was_written) {
            observe::log_warn("storage", "a journal has whole records behind a torn one",
                              {{"file", file.path}, {"position", gap.position}});
            continue;
        }
        file.has_damage = true;
        if (gap.record.has_value()) {
            take_damaged(gap);
        } else {
            refuse(file, gap.position);
        }
    }
}

void JournalReplay::refuse(const File& file, std::uint64_t position) {
    const std::string line = std::format(
        "{0} is damaged at byte {1}, and it cannot be told whose acknowledged records are lost "
        "there: restore the file, or give up all that only it holds: move it away, and make an "
        "empty file {0}{2}",
        file.path, position, kGivenUp);
    observe::log_error("storage", line);
    if (refusal_.empty()) {
        refusal_ = line;
    }
}

/// The batch is named, its bytes are not here. Unless the log has them it knows that they are lost.
void JournalReplay::take_damaged(const Gap& gap) {
    const JournalRecord& record = *gap.record;
    observe::log_error("storage",
                       "a journal record is damaged; the file is kept, and its partition takes no "
                       "more messages unless its log has the batch",
                       {{"file", files_[gap.file].path},
                        {"position", gap.position},
                        {"partition", record.partition},
                        {"offset", record.base_offset}});
    ++damaged_count_;
    if (gap.dropped) {
        return;
    }
    JournalFacts& facts = facts_of(record);
    JournaledBatch batch = batch_of(record, gap.file);
    batch.damaged = true;
    const auto place = std::ranges::lower_bound(facts.batches, batch.base_offset, {},
                                                &JournaledBatch::base_offset);
    if ((place != facts.batches.end() && place->base_offset < batch.end()) ||
        (place != facts.batches.begin() && std::prev(place)->end() > batch.base_offset)) {
        return;  // a later record replaced it
    }
    facts.batches.insert(place, batch);
    facts.end_named = std::max(facts.end_named, batch.end());
    facts.last_op = std::max(facts.last_op, record.op);
}

/// All files that the list of an earlier start names are there, whole or not.
void JournalReplay::check_list(runtime::IoBackend& io, const JournalList& list) {
    for (const JournalList::Entry& entry : list.entries) {
        const auto found = std::ranges::find_if(files_, [&](const File& file) {
            return file.shard == list.shard &&
                   (file.sequence == entry.sequence ||
                    (entry.former != 0 && file.sequence == entry.former));
        });
        if (found != files_.end() && entry.former == JournalList::kPoisoned) {
            continue;
        }
        if (found != files_.end()) {
            found->listed_bytes = list.file_bytes;
            if (found->header_is_ours &&
                (found->header.shard != list.shard || (found->header.sequence != entry.sequence &&
                                                       found->header.sequence != entry.former))) {
                found->has_damage = true;  // another one was put in its place
                refuse(*found, 0);
            }
            continue;
        }
        const std::string path = directory_ + '/' + journal_file_name(list.shard, entry.sequence);
        if (io.file_facts(path + std::string(kGivenUp)).has_value()) {
            told_paths_.push_back(path + std::string(kGivenUp));
            continue;
        }
        const std::string line = std::format(
            "{0} is gone, and acknowledged messages may be in it alone: restore it, or give up "
            "what only it holds by an empty file {0}{1}",
            path, kGivenUp);
        observe::log_error("storage", line);
        if (refusal_.empty()) {
            refusal_ = line;
        }
    }
}

Task<Result<JournalReplay>> replay_journals(runtime::IoBackend& io, std::string directory,
                                            BootNumber boot) {
    JournalReplay replay;
    replay.directory_ = directory;
    auto entries = io.list_directory(directory);
    if (!entries.has_value()) {
        if (entries.error().os_errno == ENOENT) {
            co_return replay;
        }
        co_return std::unexpected(entries.error());
    }
    for (const runtime::DirectoryEntry& entry : *entries) {
        if (is_journal_list_name(entry.name) ||
            (entry.name.starts_with("journals-") && entry.name.ends_with(".tmp"))) {
            replay.told_paths_.push_back(directory + '/' + entry.name);
        }
        const auto name = parse_journal_file_name(entry.name);
        if (!name.has_value()) {
            continue;
        }
        replay.sequence_max_ = std::max(replay.sequence_max_, name->sequence);
        JournalReplay::File file{.path = directory + '/' + entry.name};
        file.sequence = name->sequence;
        file.shard = name->shard;
        GALGO_CO_TRY_ASSIGN(const runtime::FileFacts facts, io.file_facts(file.path));
        file.size_bytes = facts.size_bytes;
        GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                            co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
        std::byte bytes[kJournalFileHeaderBytes] = {};
        const Result<std::size_t> got = co_await runtime::read(io, handle, bytes, 0);
        (void)co_await runtime::close(io, handle);
        GALGO_CO_TRY(got);
        const auto header = decode_journal_file_header(ConstBytes(bytes, *got));
        // A header of another sequence is one of an earlier life: the crash came before the first
        // record.
        if (header.has_value()) {
            replay.epoch_max_ = std::max(replay.epoch_max_, header->epoch);
            file.header = *header;
            file.readable = header->sequence == name->sequence && header->shard == name->shard;
        }
        file.header_is_ours = header.has_value();
        file.epoch_told = load<std::uint64_t>(bytes, 16);
        replay.files_.push_back(std::move(file));
    }
    // A directory lists them in any order; what is said of them shall not depend on it.
    std::ranges::sort(replay.files_, {}, [](const JournalReplay::File& file) {
        return std::tuple(file.shard.value(), file.sequence);
    });
    const std::vector<std::string> lists = replay.told_paths_;
    for (const std::string& path : lists) {
        const std::optional<JournalList> list = co_await read_journal_list(io, path);
        if (list.has_value()) {
            replay.epoch_max_ = std::max(replay.epoch_max_, list->epoch);
            for (const JournalList::Entry& entry : list->entries) {  // also of one that is gone
                replay.sequence_max_ = std::max(replay.sequence_max_, entry.sequence);
            }
            if (boot != 0 && list->boot == boot) {
                replay.check_list(io, *list);
            }
        }
    }
    for (JournalReplay::File& file : replay.files_) {
        if (!file.header_is_ours) {
            GALGO_CO_TRY(co_await replay.repair_header(io, file));
        }
    }
    std::ranges::sort(replay.files_, {}, [](const JournalReplay::File& file) {
        return std::tuple(file.header.epoch, file.header.sequence, file.header.shard.value());
    });
    for (std::uint32_t i = 0; i < replay.files_.size(); ++i) {
        if (replay.files_[i].readable) {
            GALGO_CO_TRY(co_await replay.scan_file(io, i));
        }
    }
    GALGO_CO_TRY(co_await replay.judge_tails(io));
    replay.judge_gaps();
    co_return replay;
}

Task<Result<memory::BufRef>> JournalReplay::read_body(runtime::IoBackend& io,
                                                      memory::BufferPool& pool,
                                                      const JournaledBatch& batch) const {
    const File& file = files_[batch.file];
    GALGO_CHECK(batch.has_body() && batch.batch_length < kBulkBatchBytes);
    const std::size_t size = kJournalRecordHeaderBytes + batch.batch_length;
    const std::uint64_t position = batch.body_position - kJournalRecordHeaderBytes;
    GALGO_CO_TRY_ASSIGN(memory::BufRef buffer, pool.acquire(size, memory::AcquireClass::kReserved));
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle handle,
                        co_await runtime::open(io, file.path, runtime::OpenMode::kRead));
    const Result<std::size_t> got =
        co_await runtime::read(io, handle, buffer.mutable_bytes(), position);
    (void)co_await runtime::close(io, handle);
    GALGO_CO_TRY(got);
    const ConstBytes bytes = buffer.bytes();
    if (*got != size || !verify_journal_record(bytes, bytes.subspan(kJournalRecordHeaderBytes),
                                               file.header.seed(), position)) {
        co_return fail(ErrorCode::kCannotReadMessage);
    }
    co_return std::move(buffer).slice(kJournalRecordHeaderBytes, batch.batch_length);
}

Task<Status> JournalReplay::remove_files(runtime::IoBackend& io) const {
    for (const std::string& path : told_paths_) {  // first: they say that the files are there
        const Status removed = co_await runtime::unlink(io, path);
        if (!removed.has_value() && removed.error().os_errno != ENOENT) {
            co_return removed;
        }
    }
    for (const File& file : files_) {
        Status removed;
        if (file.has_damage ||
            (keep_files_->load(std::memory_order_relaxed) && file.valid_end > kFirstRecordAt)) {
            GALGO_CO_TRY_ASSIGN(const std::string kept,
                                detail::first_free(io, file.path + ".kept-"));
            removed = co_await runtime::rename(io, file.path, kept);
        } else {
            removed = co_await runtime::unlink(io, file.path);
        }
        if (!removed.has_value() && removed.error().os_errno != ENOENT) {
            co_return removed;
        }
    }
    if (!files_.empty()) {
        GALGO_CO_TRY(co_await runtime::sync_directory(io, directory_));
    }
    co_return Status{};
}

}  // namespace galgo::storage

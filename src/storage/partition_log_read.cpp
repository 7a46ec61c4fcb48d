// Reading a partition's log: plan synchronously, then read without touching the log again.
#include <algorithm>
#include <utility>

#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "storage/partition_log.hpp"

namespace galgo::storage {

using coro::Task;
using memory::BufRef;

namespace {

constexpr std::uint32_t kFewMessages = 16;
constexpr std::size_t kWindowSmall = 64 * kKiB;
constexpr std::size_t kWindowLarge = 256 * kKiB;
/// Batches of the tail that do not lie side by side are copied together up to here: that costs less
/// than a slice for each, and a plan that needs no memory of its own.
constexpr std::size_t kGatherBytesMax = 256 * kKiB;
/// What a ReadPlan holds in itself.
constexpr std::size_t kTailRunsMax = 8;
/// Polls that meet damage come again and again: a partition logs one line in so long, and the same
/// place again only after a minute.
constexpr std::uint64_t kUnreadableLineNs = 1 * kSecond;
constexpr std::uint64_t kSamePlaceLineNs = 60 * kSecond;
/// The place of such a line when it is no batch.
constexpr std::uint64_t kNoPosition = ~std::uint64_t{0};

/// What a reader is told of a stored batch that is not valid: a client that sent such a one would
/// get a finer code, which says nothing to one that reads.
Status as_damage(const Status& valid) {
    if (valid.has_value() || valid.error().os_errno != 0 ||
        valid.error().code == ErrorCode::kInvalidMessageChecksum ||
        valid.error().code == ErrorCode::kInvalidBatchChecksum) {
        return valid;
    }
    return fail(ErrorCode::kCannotReadMessage);
}

/// Batches that were packed or read one behind the other travel as one slice.
template <class Slices>
void add_slice(Slices& slices, BufRef slice) {
    if (slices.empty() || !slices.back().join(slice)) {
        slices.push_back(std::move(slice));
    }
}

}  // namespace

/// Cuts batches to what was asked for and collects the slices.
class PartitionLog::Collector {
 public:
    Collector(PartitionLog& log, const ReadPlan& plan) noexcept
        : log_(log),
          limit_(plan.limit),
          max_bytes_(plan.max_bytes),
          left_(plan.count),
          passes_loss_(plan.begins_anywhere) {
        result.next = plan.from;
    }

    [[nodiscard]] bool done() const noexcept {
        return full_ || left_ == 0 || result.next >= limit_;
    }

    [[nodiscard]] bool few() const noexcept { return left_ <= kFewMessages; }

    /// Takes what is wanted of the batch, which is plain and ends behind result.next.
    Status add(const BufRef& batch, const wire::BatchHeader& header) {
        const std::uint64_t from = std::max(result.next.value(), header.base_offset);
        if (from >= limit_.value()) {
            full_ = true;
            return {};
        }
        if (!passes_loss_ && log_.lost_within(result.next, Offset(from))) {
            return lost(result.next);
        }
        const auto first = static_cast<std::uint32_t>(from - header.base_offset);
        const auto count = static_cast<std::uint32_t>(
            std::min<std::uint64_t>({header.message_count - first, left_, limit_.value() - from}));
        if (count == header.message_count) {
            if (take_bytes(batch.size())) {
                add_slice(result.slices, batch);
                note(from, count);
            }
            return {};
        }
        const Result<wire::BatchSlice> sliced =
            wire::slice_batch(batch.bytes(), {.first = first, .count = count});
        if (!sliced.has_value()) {
            return as_damage(std::unexpected(sliced.error()));
        }
        const wire::BatchSlice& slice = *sliced;
        if (!take_bytes(slice.size())) {
            return {};
        }
        GALGO_TRY_ASSIGN(BufRef head, log_.context_.packer.pack(slice.header));
        result.slices.push_back(std::move(head));
        result.slices.push_back(batch.slice(slice.begin, slice.end - slice.begin));
        note(from, count);
        return {};
    }

    /// All that the plan names was looked at.
    Status end(const ReadPlan& plan) {
        const Offset behind = std::max(limit_, plan.from.next());
        if (result.message_count == 0 && plan.count != 0 && !passes_loss_ &&
            log_.lost_within(plan.from, behind)) {
            return lost(plan.from);
        }
        return {};
    }

    ReadSlices result;

 private:
    /// The messages before stay what was read.
    Status lost(Offset offset) {
        if (result.message_count == 0) {
            log_.tell_lost_poll(offset);
        }
        return fail(ErrorCode::kCannotReadMessage);
    }
    bool take_bytes(std::uint64_t bytes) noexcept {
        if (result.message_count != 0 && result.bytes + bytes > max_bytes_) {
            full_ = true;
            return false;
        }
        result.bytes += bytes;
        return true;
    }
    void note(std::uint64_t from, std::uint32_t count) noexcept {
        if (result.message_count == 0) {
            result.first = Offset(from);
        }
        result.message_count += count;
        result.next = Offset(from + count);
        left_ -= count;
        passes_loss_ = false;
    }

    PartitionLog& log_;
    Offset limit_;
    std::uint64_t max_bytes_;
    std::uint32_t left_;
    bool passes_loss_;
    bool full_ = false;
};

bool PartitionLog::lost_within(Offset from, Offset end) const noexcept {
    const auto range = std::ranges::upper_bound(lost_, from, {}, &LostRange::end);
    return from < end && range != lost_.end() && range->from < end;
}

bool PartitionLog::is_lost(Offset offset) const noexcept {
    return lost_within(offset, offset.next());
}

/// May a line tell of that place now? Then it is told.
bool PartitionLog::unreadable_line_due(Offset segment, std::uint64_t position) noexcept {
    const bool same_place =
        segment == unreadable_segment_told_ && position == unreadable_position_told_;
    const Instant now = context_.io.now();
    if (unreadable_told_at_ != Instant{0} &&
        now < unreadable_told_at_.plus(same_place ? kSamePlaceLineNs : kUnreadableLineNs)) {
        return false;
    }
    unreadable_told_at_ = now;
    unreadable_segment_told_ = segment;
    unreadable_position_told_ = position;
    return true;
}

void PartitionLog::tell_unreadable(const char* what, Offset segment, std::uint64_t position) {
    if (has_segment(segment) && unreadable_line_due(segment, position)) {  // else a trim took it
        observe::log_error(
            "storage", what,
            {{"directory", directory_}, {"segment", segment}, {"position", position}});
    }
}

void PartitionLog::tell_lost_poll(Offset offset) {
    if (unreadable_line_due(offset, kNoPosition)) {
        observe::log_error("storage", "a poll for messages that are lost",
                           {{"directory", directory_}, {"offset", offset}});
    }
}

/// The segment that holds `offset`, or the first one behind it.
std::size_t PartitionLog::find_segment(Offset offset) const noexcept {
    const auto behind = std::ranges::upper_bound(segments_, offset, {}, &Segment::start);
    return behind == segments_.begin() ? 0
                                       : static_cast<std::size_t>(behind - segments_.begin()) - 1;
}

/// The first tail batch that ends behind `offset`.
std::size_t PartitionLog::find_tail_index(Offset offset) const noexcept {
    std::size_t low = 0;
    std::size_t high = tail_.size();
    while (low < high) {
        const std::size_t middle = low + (high - low) / 2;
        if (tail_[middle].end() <= offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

ReadPlan::DiskRange PartitionLog::range_of(std::size_t index) const {
    const Segment& segment = segments_[index];
    ReadPlan::DiskRange range{.start = segment.start,
                              .size_bytes = segment.size_bytes,
                              .index_entries = segment.index_entries};
    if (writer_.log && writer_.start == segment.start) {
        range.file = writer_.log;
    } else {
        range.file = context_.files.find({.log = log_number_, .start = segment.start});
    }
    return range;
}

ReadPlan PartitionLog::plan_read(Offset from, std::uint32_t count, std::uint64_t max_bytes,
                                 Offset committed_end) const {
    ReadPlan plan{.from = from,
                  .limit = std::min(committed_end, end_offset_),
                  .count = count,
                  .max_bytes = max_bytes};
    if (count == 0 || from >= plan.limit) {
        return plan;
    }
    std::uint64_t planned_bytes = 0;
    const bool last_is_written =
        writer_.log && !segments_.empty() && writer_.start == segments_.back().start;
    for (std::size_t i = find_segment(from);
         i < segments_.size() && planned_bytes <= max_bytes && segments_[i].first < plan.limit;
         ++i) {
        const Segment& segment = segments_[i];
        if (segment.size_bytes == 0 || segment.end <= from) {
            continue;
        }
        ReadPlan::DiskRange range = range_of(i);
        if (segment.first >= from) {
            range.position = 0;
        } else if (i + 1 == segments_.size() && last_is_written && !writer_.index.empty()) {
            const auto behind =
                std::ranges::upper_bound(writer_.index, from, {}, &IndexEntry::offset);
            range.position = behind == writer_.index.begin() ? 0 : std::prev(behind)->position;
            range.from_index = true;
        }
        if (range.file && range.file->has_hint && range.file->hint_offset == from) {
            range.position = range.file->hint_position;
            range.from_index = false;
        }
        // Of the first one an unknown part is before `from`.
        planned_bytes += plan.disk.empty() ? 0 : segment.size_bytes;
        plan.disk.push_back(std::move(range));
    }
    plan_tail(plan, planned_bytes);
    return plan;
}

/// Adds what the tail has to a plan that reads `planned_bytes` from segments.
void PartitionLog::plan_tail(ReadPlan& plan, std::uint64_t planned_bytes) const {
    const std::size_t first = find_tail_index(plan.from);
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
    std::size_t runs = 0;
    BufRef run;
    std::size_t last = first;
    for (; last < tail_.size() && messages < plan.count &&
           planned_bytes + bytes <= plan.max_bytes && tail_[last].base < plan.limit;
         ++last) {
        const TailBatch& batch = tail_[last];
        if (batch.failed) {
            continue;
        }
        messages += batch.end().value() - std::max(batch.base, plan.from).value();
        bytes += batch.bytes.size();
        if (!run.join(batch.bytes)) {
            run = batch.bytes;
            ++runs;
        }
    }
    BufRef gathered;
    if (runs > kTailRunsMax && bytes <= kGatherBytesMax) {
        Result<BufRef> block = context_.pool.acquire(static_cast<std::size_t>(bytes));
        if (block.has_value()) {  // otherwise the plan holds them one by one
            gathered = std::move(*block);
        }
    }
    std::size_t filled = 0;
    for (std::size_t i = first; i < last; ++i) {
        const TailBatch& batch = tail_[i];
        if (batch.failed) {
            continue;
        }
        if (gathered) {
            std::ranges::copy(batch.bytes.bytes(), gathered.mutable_bytes().begin() +
                                                       static_cast<std::ptrdiff_t>(filled));
            filled += batch.bytes.size();
        } else {
            add_slice(plan.tail, batch.bytes);
        }
    }
    if (gathered) {
        plan.tail.push_back(std::move(gathered));
    }
}

Task<Result<ReadSlices>> PartitionLog::read(ReadPlan plan) {
    Collector collector(*this, plan);
    Status status;
    was_read_ = was_read_ || !plan.disk.empty();
    for (std::size_t i = 0; i < plan.disk.size() && !collector.done(); ++i) {
        ReadPlan::DiskRange& range = plan.disk[i];
        status = co_await read_range(range, collector);
        if (status.has_value()) {
            continue;
        }
        if (closed_ || has_segment(range.start)) {
            break;
        }
        // A trim took it meanwhile: a reply goes on from what is retained, or ends before the hole.
        status = {};
        if (collector.result.message_count != 0) {
            co_return std::move(collector.result);
        }
        ReadPlan again = plan_read(plan.from, plan.count, plan.max_bytes, plan.limit);
        again.begins_anywhere = plan.begins_anywhere;
        plan = std::move(again);
        i = ~std::size_t{0};
    }
    for (std::size_t i = 0; i < plan.tail.size() && status.has_value(); ++i) {
        const BufRef& run = plan.tail[i];
        std::size_t at = 0;
        while (at < run.size() && status.has_value() && !collector.done()) {
            const Result<wire::BatchHeader> header = decode_stored_header(run.bytes().subspan(at));
            GALGO_CHECK(header.has_value());  // it was stamped by us and has not left memory
            const auto length = static_cast<std::size_t>(header->batch_length);
            BufRef batch = run.slice(at, length);
            at += length;
            if (is_encrypted(batch.bytes())) {
                Result<BufRef> decrypted = co_await decrypt(std::move(batch));
                if (!decrypted.has_value()) {
                    status = std::unexpected(decrypted.error());
                    break;
                }
                batch = *std::move(decrypted);
            }
            status = collector.add(batch, *header);
        }
    }
    if (status.has_value()) {
        status = collector.end(plan);
    }
    if (!status.has_value() && collector.result.message_count == 0) {
        co_return std::unexpected(status.error());
    }
    co_return std::move(collector.result);
}

Task<Status> PartitionLog::open_range(ReadPlan::DiskRange& range) {
    if (!range.file) {
        const std::string path = path_of(range.start, kLogExtension);
        GALGO_CO_TRY_ASSIGN(range.file, co_await context_.files.open(
                                            {.log = log_number_, .start = range.start}, path));
    }
    co_return Status{};
}

/// Empty when there is none to look into: the log says the same, only slower.
Task<FileRef> PartitionLog::open_index(const ReadPlan::DiskRange& range) {
    if (range.index_entries == 0) {
        co_return FileRef{};
    }
    const std::string path = path_of(range.start, kIndexExtension);
    Result<FileRef> index = co_await context_.files.open(
        {.log = log_number_, .start = range.start, .is_index = true}, path);
    co_return index.has_value() ? std::move(*index) : FileRef{};
}

IndexFile PartitionLog::index_of(const ReadPlan::DiskRange& range,
                                 const FileRef& file) const noexcept {
    return {.file = file.handle(),
            .seed = index_seed(partition_, incarnation_, range.start),
            .places = range.index_entries,
            .log_bytes = range.size_bytes};
}

/// Where the search for `from` begins: never behind it.
Task<Result<std::uint64_t>> PartitionLog::begin_of(const ReadPlan::DiskRange& range, Offset from) {
    if (range.position.has_value()) {
        co_return *range.position;
    }
    const FileRef index = co_await open_index(range);
    if (!index) {
        co_return std::uint64_t{0};
    }
    Result<std::uint64_t> found =
        co_await find_by_offset(context_.io, index_of(range, index), from);
    co_return found;
}

/// The batch at `position`, that an index entry names, is not to be had: the cursor goes to the
/// last entry on disk that is `distance` before it, which doubles, so that damage of many entries
/// costs few look-ups. False: it is at the begin of the segment, and no entry is left to doubt.
Task<Result<bool>> PartitionLog::step_back(const ReadPlan::DiskRange& range, SegmentCursor& cursor,
                                           std::uint64_t position, std::uint64_t& distance) {
    std::uint64_t earlier = 0;
    const FileRef index = co_await open_index(range);
    if (index) {
        GALGO_CO_TRY_ASSIGN(earlier,
                            co_await find_before_position(context_.io, index_of(range, index),
                                                          position - std::min(position, distance)));
    }
    distance = std::max(distance * 2, kIndexStrideBytes);
    cursor.seek(earlier);
    co_return earlier != 0;
}

Task<Status> PartitionLog::read_range(ReadPlan::DiskRange& range, Collector& collector) {
    GALGO_CO_TRY(co_await open_range(range));
    GALGO_CO_TRY_ASSIGN(const std::uint64_t begin, co_await begin_of(range, collector.result.next));
    const FileRef file = range.file;
    // What an entry names has to be a batch that is not behind what is wanted, or the log is
    // damaged there.
    bool in_doubt = begin != 0 && (range.from_index || !range.position.has_value());
    std::uint64_t distance = 0;  // of the next step back
    const ReadAhead::Segment segment{
        .log = log_number_, .start = range.start, .size_bytes = range.size_bytes};
    context_.read_ahead.begin(segment, file, begin);
    const Instant began = context_.io.now();
    bool delivered = false;
    // The batch before, when only its header was looked at. What is wanted is in no batch when it
    // lies between two that follow each other: so both have to be right.
    std::optional<std::uint64_t> unverified;
    SegmentCursor cursor(context_.io, context_.pool, memory::AcquireClass::kNormal, file.handle(),
                         range.size_bytes, begin, collector.few() ? kWindowSmall : kWindowLarge);
    while (!collector.done()) {
        GALGO_CO_TRY_ASSIGN(SegmentStep step, co_await cursor.next(collector.result.next));
        const Offset wanted = collector.result.next;
        if (std::exchange(in_doubt, false) &&
            (step.kind != StepKind::kBatch || step.header.base_offset > wanted.value())) {
            GALGO_CO_TRY_ASSIGN(in_doubt,
                                co_await step_back(range, cursor, step.position, distance));
            continue;
        }
        if (step.kind == StepKind::kDamaged || (step.kind == StepKind::kBatch && delivered &&
                                                step.header.base_offset < wanted.value())) {
            tell_unreadable("no batch where one should be", range.start, step.position);
            co_return fail(ErrorCode::kCannotReadMessage);
        }
        if (step.kind == StepKind::kBatch && !step.bytes) {
            unverified = step.position;  // before what is wanted
            continue;
        }
        if (unverified.has_value() &&
            (step.kind == StepKind::kEnd || step.header.base_offset > wanted.value())) {
            GALGO_CO_TRY(co_await verify_at(range, *unverified));
        }
        if (step.kind == StepKind::kEnd) {
            break;
        }
        unverified.reset();
        if (options_.validate_checksum) {
            const Status valid = co_await verify_batch(context_.ready, step.bytes);
            if (!valid.has_value()) {
                tell_unreadable("damaged batch", range.start, step.position);
                co_return as_damage(valid);
            }
        }
        const Offset end(step.header.base_offset + step.header.message_count);
        if (is_encrypted(step.bytes.bytes())) {
            GALGO_CO_TRY_ASSIGN(step.bytes, co_await decrypt(std::move(step.bytes)));
        }
        GALGO_CO_TRY(collector.add(step.bytes, step.header));
        delivered = true;
        if (collector.result.next == end) {
            file->hint_offset = end;
            file->hint_position = cursor.position();
            file->has_hint = true;
        }
    }
    context_.read_ahead.end(segment, file, begin, cursor.position(),
                            context_.io.now().value() - began.value());
    co_return Status{};
}

/// All checksums of the batch there. The file of the range is open.
Task<Status> PartitionLog::verify_at(const ReadPlan::DiskRange& range, std::uint64_t position) {
    const FileRef file = range.file;
    SegmentCursor cursor(context_.io, context_.pool, memory::AcquireClass::kNormal, file.handle(),
                         range.size_bytes, position, kWindowSmall);
    GALGO_CO_TRY_ASSIGN(const SegmentStep step, co_await cursor.next(Offset{0}));
    Status valid = fail(ErrorCode::kCannotReadMessage);
    if (step.kind == StepKind::kBatch) {
        valid = co_await verify_batch(context_.ready, step.bytes);
    }
    if (!valid.has_value()) {
        tell_unreadable("damaged batch", range.start, position);
    }
    co_return as_damage(valid);
}

// ---- by time
// ---------------------------------------------------------------------------------------------

Task<Result<PartitionLog::TimeSearch>> PartitionLog::find_timestamp(std::size_t index,
                                                                    Timestamp timestamp) {
    ReadPlan::DiskRange range = range_of(index);
    was_read_ = true;
    if (writer_.log && writer_.start == range.start) {
        const auto at =
            std::ranges::lower_bound(writer_.index, timestamp, {}, &IndexEntry::timestamp);
        range.position = at == writer_.index.begin() ? 0 : std::prev(at)->position;
    }
    GALGO_CO_TRY(co_await open_range(range));
    std::uint64_t begin = range.position.value_or(0);
    if (!range.position.has_value()) {
        if (const FileRef index_file = co_await open_index(range); index_file) {
            GALGO_CO_TRY_ASSIGN(begin, co_await find_before_timestamp(
                                           context_.io, index_of(range, index_file), timestamp));
        }
    }
    const FileRef file = range.file;
    bool in_doubt = begin != 0;  // the batch that an entry names is before the time
    std::uint64_t distance = 0;  // of the next step back
    std::optional<std::uint64_t> before;
    SegmentCursor cursor(context_.io, context_.pool, memory::AcquireClass::kNormal, file.handle(),
                         range.size_bytes, begin, kWindowSmall);
    while (true) {
        GALGO_CO_TRY_ASSIGN(const SegmentStep step,
                            co_await cursor.next(Offset(~std::uint64_t{0})));
        if (std::exchange(in_doubt, false) &&
            (step.kind != StepKind::kBatch || step.header.base_timestamp_us >= timestamp.value())) {
            GALGO_CO_TRY_ASSIGN(in_doubt,
                                co_await step_back(range, cursor, step.position, distance));
            continue;
        }
        if (step.kind == StepKind::kDamaged) {
            co_return TimeSearch{.damaged = true};
        }
        if (step.kind == StepKind::kBatch && step.header.base_timestamp_us < timestamp.value()) {
            before = step.position;
            continue;
        }
        // Headers were looked at only. The two that the answer stands between have to be right.
        for (const std::optional<std::uint64_t> position :
             {before,
              step.kind == StepKind::kBatch ? std::optional(step.position) : std::nullopt}) {
            if (position.has_value()) {
                const Status valid = co_await verify_at(range, *position);
                if (!valid.has_value() && valid.error().os_errno != 0) {
                    co_return std::unexpected(valid.error());
                }
                if (!valid.has_value()) {
                    co_return TimeSearch{.damaged = true};
                }
            }
        }
        if (step.kind == StepKind::kEnd) {
            co_return TimeSearch{};
        }
        co_return TimeSearch{.offset = Offset(step.header.base_offset),
                             .is_first = step.position == 0};
    }
}

Task<Result<Offset>> PartitionLog::offset_at_or_after(Timestamp timestamp) {
    // Synchronously: the tail of this moment, in case no segment has it.
    Offset in_tail = end_offset_;
    bool tail_begins_before = false;
    for (std::size_t i = 0; i < tail_.size(); ++i) {
        if (!tail_[i].failed && tail_[i].timestamp >= timestamp) {
            in_tail = tail_[i].base;
            break;
        }
        tail_begins_before = tail_begins_before || !tail_[i].failed;
    }
    // Times do not descend: damage is behind us when something behind it is before the time.
    bool behind_damage = false;
    Offset from;
    while (true) {
        const auto next = std::ranges::find_if(segments_, [from](const Segment& segment) {
            return segment.start >= from && segment.size_bytes != 0;
        });
        if (next == segments_.end()) {
            break;
        }
        const Offset start = next->start;
        from = start.next();
        if (next->last_timestamp < timestamp) {
            behind_damage = false;
            continue;
        }
        const Result<TimeSearch> searched =
            co_await find_timestamp(static_cast<std::size_t>(next - segments_.begin()), timestamp);
        if (!has_segment(start)) {
            continue;  // a trim took it meanwhile
        }
        GALGO_CO_TRY(searched);
        const TimeSearch& found = *searched;
        if (found.damaged) {
            behind_damage = true;
            continue;
        }
        if (found.offset.has_value()) {
            if (behind_damage && found.is_first) {
                co_return fail(ErrorCode::kCannotReadMessage);
            }
            co_return *found.offset;
        }
        behind_damage = false;  // all of it is before the time
    }
    if (behind_damage && !tail_begins_before) {
        co_return fail(ErrorCode::kCannotReadMessage);
    }
    co_return in_tail;
}

}  // namespace galgo::storage

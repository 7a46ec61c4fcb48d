// Reading of segment files.
#include "storage/segment_reader.hpp"

#include <algorithm>
#include <cerrno>

#include "runtime/io_await.hpp"
#include "storage/stored_batch.hpp"

namespace galgo::storage {

using coro::Task;
using memory::BufRef;

namespace {

constexpr std::size_t kWindowBytesMax = 1 * kMiB;
constexpr std::size_t kVerifyStepBytes = 1 * kMiB;
/// What a candidate of find_valid_batch costs at least, when it has to be read: a system call is
/// not free.
constexpr std::uint64_t kCandidateCostMin = 16 * kKiB;
/// First window of find_valid_batch.
constexpr std::size_t kSearchBytesMin = 16 * kKiB;
/// Places of an index that a search looks at in a row for an entry that verifies.
constexpr std::uint32_t kBadEntriesMax = 64;

}  // namespace

SegmentCursor::SegmentCursor(runtime::IoBackend& io, memory::BufferPool& pool,
                             memory::AcquireClass admission, runtime::FileHandle file,
                             std::uint64_t size_bytes, std::uint64_t position,
                             std::size_t window_bytes) noexcept
    : io_(io),
      pool_(pool),
      admission_(admission),
      file_(file),
      size_bytes_(size_bytes),
      position_(position),
      window_bytes_(std::max(window_bytes, wire::kBatchHeaderSize)) {}

std::size_t SegmentCursor::available() const noexcept {
    if (position_ < window_at_ || position_ >= window_at_ + window_.size()) {
        return 0;
    }
    return window_.size() - static_cast<std::size_t>(position_ - window_at_);
}

/// Makes the window begin at the position and hold `wanted_bytes` or all there is; returns what it
/// holds: nothing when that cannot be read.
Task<Result<std::size_t>> SegmentCursor::fill(std::size_t wanted_bytes) {
    const std::uint64_t left = size_bytes_ - position_;
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(left, wanted_bytes));
    auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(left, std::max(wanted_bytes, window_bytes_)));
    unreadable_ = false;
    while (true) {
        window_.reset();  // the pool may give the same block again
        GALGO_CO_TRY_ASSIGN(BufRef buffer, pool_.acquire(size, admission_));
        const Result<std::size_t> got =
            co_await runtime::read(io_, file_, buffer.mutable_bytes(), position_);
        if (!got.has_value() && got.error().os_errno == EIO) {
            if (size > wanted) {
                size = wanted;  // the bad sector may lie behind what is wanted
                continue;
            }
            unreadable_ = true;
            co_return std::size_t{0};
        }
        GALGO_CO_TRY(got);
        buffer.resize(*got);
        window_ = std::move(buffer);
        window_at_ = position_;
        window_bytes_ = std::min(window_bytes_ * 4, kWindowBytesMax);
        co_return *got;
    }
}

Task<Result<SegmentStep>> SegmentCursor::next(Offset wanted_from) {
    SegmentStep step{.position = position_};
    if (position_ >= size_bytes_) {
        co_return step;
    }
    if (available() < wire::kBatchHeaderSize) {
        GALGO_CO_TRY_ASSIGN(const std::size_t got, co_await fill(wire::kBatchHeaderSize));
        if (got < wire::kBatchHeaderSize) {
            step.kind = StepKind::kDamaged;
            step.unreadable = unreadable_;
            co_return step;
        }
    }
    auto at = static_cast<std::size_t>(position_ - window_at_);
    const Result<wire::BatchHeader> header = decode_stored_header(window_.bytes().subspan(at));
    if (!header.has_value()) {
        step.kind = StepKind::kDamaged;
        co_return step;
    }
    step.header = *header;
    step.header_decoded = true;
    const bool end_wraps = header->base_offset > ~std::uint64_t{0} - header->message_count;
    if (end_wraps || header->batch_length > size_bytes_ - position_ ||
        header->batch_length > memory::kBlockBytesMax) {
        step.kind = StepKind::kDamaged;
        step.header_decoded = !end_wraps;
        co_return step;
    }
    const auto length = static_cast<std::size_t>(header->batch_length);
    if (header->base_offset + header->message_count > wanted_from.value()) {
        if (available() < length) {
            GALGO_CO_TRY_ASSIGN(const std::size_t got, co_await fill(length));
            if (got < length) {
                step.kind = StepKind::kDamaged;
                step.unreadable = unreadable_;
                co_return step;
            }
            at = 0;
        }
        step.bytes = window_.slice(at, length);
    }
    step.kind = StepKind::kBatch;
    position_ += length;
    co_return step;
}

namespace {

Task<Status> verify_encrypted(coro::ReadyQueue& ready, BufRef batch) {
    GALGO_CO_TRY_ASSIGN(EncryptedValidator validator, EncryptedValidator::begin(batch.bytes()));
    while (true) {
        const Result<bool> done = validator.step(kVerifyStepBytes);
        GALGO_CO_TRY(done);
        if (*done) {
            co_return Status{};
        }
        co_await coro::yield_to(ready);
    }
}

}  // namespace

Task<Status> verify_batch(coro::ReadyQueue& ready, const BufRef& batch) {
    if (batch.size() >= wire::kBatchHeaderSize && is_encrypted(batch.bytes())) {
        const Status valid = co_await verify_encrypted(ready, batch);
        co_return valid;
    }
    GALGO_CO_TRY_ASSIGN(wire::BatchValidator validator, wire::BatchValidator::begin(batch.bytes()));
    while (true) {
        const Result<bool> done = validator.step(kVerifyStepBytes);
        GALGO_CO_TRY(done);
        if (*done) {
            co_return Status{};
        }
        co_await coro::yield_to(ready);
    }
}

namespace {

/// The entry at `place`, or the nearest one before it that verifies, down to `low`; empty when none
/// of a few does. `place` names the one found.
Task<std::optional<IndexEntry>> read_entry(runtime::IoBackend& io, IndexFile index,
                                           std::uint64_t low, std::uint64_t& place) {
    for (std::uint32_t tries = 0; tries < kBadEntriesMax; ++tries, --place) {
        std::byte bytes[kIndexEntryBytes];
        const Result<std::size_t> got =
            co_await runtime::read(io, index.file, bytes, place * kIndexEntryBytes);
        if (got.has_value() && *got == kIndexEntryBytes) {
            const std::optional<IndexEntry> entry = decode_index_entry(bytes, index.seed);
            if (entry.has_value()) {
                co_return entry;
            }
        }
        if (place == low) {
            break;
        }
    }
    co_return std::nullopt;
}

/// Binary search for the last entry that is `before` the key. Bad places cost time only: an earlier
/// entry leads to the same batch.
template <class Before>
Task<Result<std::uint64_t>> find_entry(runtime::IoBackend& io, IndexFile index, Before before) {
    std::uint64_t low = 0;  // entries below it are before the key
    std::uint64_t high = index.places;
    std::uint64_t found = 0;
    while (low < high) {
        const std::uint64_t middle = low + (high - low) / 2;
        std::uint64_t place = middle;
        const std::optional<IndexEntry> entry = co_await read_entry(io, index, low, place);
        if (!entry.has_value()) {
            high = middle;
        } else if (entry->position < index.log_bytes && before(*entry)) {
            found = entry->position;
            low = middle + 1;
        } else {
            high = place;
        }
    }
    co_return found;
}

}  // namespace

Task<Result<std::uint64_t>> find_by_offset(runtime::IoBackend& io, IndexFile index, Offset key) {
    const auto before = [key](const IndexEntry& entry) { return entry.offset <= key; };
    co_return co_await find_entry(io, index, before);
}

Task<Result<std::uint64_t>> find_before_position(runtime::IoBackend& io, IndexFile index,
                                                 std::uint64_t position) {
    const auto before = [position](const IndexEntry& entry) { return entry.position < position; };
    co_return co_await find_entry(io, index, before);
}

Task<Result<std::uint64_t>> find_before_timestamp(runtime::IoBackend& io, IndexFile index,
                                                  Timestamp key) {
    const auto before = [key](const IndexEntry& entry) { return entry.timestamp < key; };
    co_return co_await find_entry(io, index, before);
}

Task<Result<std::optional<std::uint64_t>>> find_valid_batch(
    runtime::IoBackend& io, memory::BufferPool& pool, runtime::FileHandle file, std::uint64_t from,
    std::uint64_t size_bytes, Offset offset_min, std::uint64_t& work_left) {
    const auto spend = [&work_left](std::uint64_t bytes) {
        work_left -= std::min(work_left, bytes);
    };
    std::size_t window_bytes = kSearchBytesMin;  // the next batch is near more often than not
    while (from + wire::kBatchSizeMin <= size_bytes && work_left != 0) {
        const auto size =
            static_cast<std::size_t>(std::min<std::uint64_t>(window_bytes, size_bytes - from));
        window_bytes = std::min(window_bytes * 4, kWindowBytesMax);
        spend(size);
        GALGO_CO_TRY_ASSIGN(BufRef window, pool.acquire(size, memory::AcquireClass::kReserved));
        const Result<std::size_t> got =
            co_await runtime::read(io, file, window.mutable_bytes(), from);
        if (!got.has_value() && got.error().os_errno != EIO) {
            co_return std::unexpected(got.error());
        }
        if (!got.has_value() || *got < wire::kBatchSizeMin) {
            break;
        }
        const ConstBytes bytes = window.bytes().first(*got);
        for (std::size_t at = 0; at + wire::kBatchHeaderSize <= bytes.size() && work_left != 0;
             ++at) {
            // The cheap tests first: nearly every position fails them.
            const auto length = load<std::uint64_t>(bytes, at + 32);
            if (length < wire::kBatchSizeMin || length > size_bytes - from - at ||
                length > memory::kBlockBytesMax) {
                continue;
            }
            const ConstBytes here = bytes.subspan(at);
            const Result<wire::BatchHeader> header = decode_stored_header(here);
            if (!header.has_value() || header->base_offset < offset_min.value() ||
                header->base_offset > ~std::uint64_t{0} - header->message_count) {
                continue;
            }
            std::uint64_t hashed = wire::kBatchHeaderSize;
            const bool fits = first_part_fits(here, *header, hashed);
            spend(hashed);
            if (!fits) {
                continue;
            }
            const std::uint64_t position = from + at;
            if (length <= here.size()) {
                spend(length);
                if (validate_stored(here.first(static_cast<std::size_t>(length))).has_value()) {
                    co_return position;
                }
                continue;
            }
            if (length > work_left) {
                work_left = 0;
                break;
            }
            spend(std::max(length, kCandidateCostMin));
            GALGO_CO_TRY_ASSIGN(BufRef batch, pool.acquire(static_cast<std::size_t>(length),
                                                           memory::AcquireClass::kReserved));
            const Result<std::size_t> whole =
                co_await runtime::read(io, file, batch.mutable_bytes(), position);
            if (!whole.has_value() && whole.error().os_errno != EIO) {
                co_return std::unexpected(whole.error());
            }
            if (whole.has_value() && *whole == length &&
                validate_stored(batch.bytes()).has_value()) {
                co_return position;
            }
        }
        // The next window begins where a header would not have fitted into this one.
        from += bytes.size() - wire::kBatchHeaderSize + 1;
    }
    co_return std::nullopt;
}

}  // namespace galgo::storage

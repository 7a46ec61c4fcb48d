// Reading of segment files.
#include "storage/segment_reader.hpp"

#include <algorithm>

#include "runtime/io_await.hpp"

namespace galgo::storage {

using coro::Task;
using memory::BufRef;

namespace {

constexpr std::size_t kWindowBytesMax = 1 * kMiB;
constexpr std::size_t kVerifyStepBytes = 1 * kMiB;
/// Candidates of find_valid_batch that are hashed in vain before it gives up: bounds the work on
/// hostile bytes.
constexpr std::uint32_t kCandidatesMax = 4096;

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
/// holds.
Task<Result<std::size_t>> SegmentCursor::fill(std::size_t wanted_bytes) {
    const std::uint64_t left = size_bytes_ - position_;
    const auto size = static_cast<std::size_t>(
        std::min<std::uint64_t>(left, std::max(wanted_bytes, window_bytes_)));
    window_.reset();  // the pool may give the same block again
    GALGO_CO_TRY_ASSIGN(BufRef buffer, pool_.acquire(size, admission_));
    GALGO_CO_TRY_ASSIGN(const std::size_t got,
                        co_await runtime::read(io_, file_, buffer.mutable_bytes(), position_));
    buffer.resize(got);
    window_ = std::move(buffer);
    window_at_ = position_;
    window_bytes_ = std::min(window_bytes_ * 4, kWindowBytesMax);
    co_return got;
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
            co_return step;
        }
    }
    auto at = static_cast<std::size_t>(position_ - window_at_);
    const Result<wire::BatchHeader> header = wire::decode_batch_header(window_.bytes().subspan(at));
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

Task<Status> verify_batch(coro::ReadyQueue& ready, const BufRef& batch) {
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

/// Binary search for the last entry that is `before` the key.
template <class Before>
Task<Result<std::uint64_t>> find_entry(runtime::IoBackend& io, runtime::FileHandle index,
                                       std::uint64_t entry_count, std::uint64_t log_bytes,
                                       Before before) {
    std::uint64_t low = 0;  // entries below it are before the key
    std::uint64_t high = entry_count;
    std::uint64_t found = 0;
    while (low < high) {
        const std::uint64_t middle = low + (high - low) / 2;
        std::byte bytes[kIndexEntryBytes];
        GALGO_CO_TRY_ASSIGN(const std::size_t got,
                            co_await runtime::read(io, index, bytes, middle * kIndexEntryBytes));
        if (got != kIndexEntryBytes) {
            co_return std::uint64_t{0};
        }
        const IndexEntry entry = decode_index_entry(bytes);
        if (entry.position >= log_bytes) {
            co_return std::uint64_t{0};
        }
        if (before(entry)) {
            found = entry.position;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    co_return found;
}

}  // namespace

Task<Result<std::uint64_t>> find_by_offset(runtime::IoBackend& io, runtime::FileHandle index,
                                           std::uint64_t entry_count, Offset key,
                                           std::uint64_t log_bytes) {
    const auto before = [key](const IndexEntry& entry) { return entry.offset <= key; };
    co_return co_await find_entry(io, index, entry_count, log_bytes, before);
}

Task<Result<std::uint64_t>> find_before_timestamp(runtime::IoBackend& io, runtime::FileHandle index,
                                                  std::uint64_t entry_count, Timestamp key,
                                                  std::uint64_t log_bytes) {
    const auto before = [key](const IndexEntry& entry) { return entry.timestamp < key; };
    co_return co_await find_entry(io, index, entry_count, log_bytes, before);
}

Task<Result<std::optional<std::uint64_t>>> find_valid_batch(
    runtime::IoBackend& io, memory::BufferPool& pool, runtime::FileHandle file, std::uint64_t from,
    std::uint64_t size_bytes, Offset offset_min) {
    std::uint32_t candidates = 0;
    while (from + wire::kBatchSizeMin <= size_bytes) {
        const auto size =
            static_cast<std::size_t>(std::min<std::uint64_t>(kWindowBytesMax, size_bytes - from));
        GALGO_CO_TRY_ASSIGN(BufRef window, pool.acquire(size, memory::AcquireClass::kReserved));
        GALGO_CO_TRY_ASSIGN(const std::size_t got,
                            co_await runtime::read(io, file, window.mutable_bytes(), from));
        if (got < wire::kBatchSizeMin) {
            break;
        }
        const ConstBytes bytes = window.bytes().first(got);
        for (std::size_t at = 0; at + wire::kBatchHeaderSize <= bytes.size(); ++at) {
            // The cheap tests first: nearly every position fails them.
            const auto length = load<std::uint64_t>(bytes, at + 32);
            if (length < wire::kBatchSizeMin || length > size_bytes - from - at ||
                length > memory::kBlockBytesMax) {
                continue;
            }
            const Result<wire::BatchHeader> header = wire::decode_batch_header(bytes.subspan(at));
            if (!header.has_value() || header->base_offset < offset_min.value() ||
                header->base_offset > ~std::uint64_t{0} - header->message_count) {
                continue;
            }
            if (++candidates > kCandidatesMax) {
                co_return std::nullopt;
            }
            const std::uint64_t position = from + at;
            GALGO_CO_TRY_ASSIGN(BufRef batch, pool.acquire(static_cast<std::size_t>(length),
                                                           memory::AcquireClass::kReserved));
            GALGO_CO_TRY_ASSIGN(const std::size_t whole,
                                co_await runtime::read(io, file, batch.mutable_bytes(), position));
            if (whole == length && wire::BatchView::validate(batch.bytes()).has_value()) {
                co_return position;
            }
        }
        // The next window begins where a header would not have fitted into this one.
        from += bytes.size() - wire::kBatchHeaderSize + 1;
    }
    co_return std::nullopt;
}

}  // namespace galgo::storage

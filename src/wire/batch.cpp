// Codec, validation, stamping and slicing of message batches.
#include "wire/batch.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"

namespace galgo::wire {
namespace {

constexpr std::size_t kPartitionIdAt = 0;
constexpr std::size_t kBaseOffsetAt = 8;
constexpr std::size_t kBaseTimestampAt = 16;
constexpr std::size_t kOriginTimestampAt = 24;
constexpr std::size_t kBatchLengthAt = 32;
constexpr std::size_t kBatchChecksumAt = 40;
constexpr std::size_t kMessageCountAt = 48;
constexpr std::size_t kBatchReservedAt = 52;
static_assert(kBatchReservedAt == kMessageCountAt + 4 &&
              kBatchReservedAt + 204 == kBatchHeaderSize);

constexpr std::size_t kFrameChecksumAt = 0;
constexpr std::size_t kMessageIdAt = 8;
constexpr std::size_t kOffsetDeltaAt = 24;
constexpr std::size_t kTimestampDeltaAt = 28;
constexpr std::size_t kUserHeadersLengthAt = 32;
constexpr std::size_t kPayloadLengthAt = 36;
constexpr std::size_t kFrameReservedAt = 40;
static_assert(kMessageIdAt + 16 == kOffsetDeltaAt && kFrameReservedAt + 8 == kFrameHeaderSize);

constexpr std::size_t kDigestPrefixSize = 44;
// Frames from this size on may be hashed over several steps.
constexpr std::size_t kSplitFrameBytes = 256U * 1024U;

/// The header fields that the batch checksum covers, in its order.
std::array<std::byte, kDigestPrefixSize> digest_prefix(const BatchHeader& header) noexcept {
    std::array<std::byte, kDigestPrefixSize> prefix{};
    const MutableBytes to(prefix);
    store<std::uint64_t>(to, 0, header.partition_id);
    store<std::uint64_t>(to, 8, header.base_offset);
    store<std::uint64_t>(to, 16, header.base_timestamp_us);
    store<std::uint64_t>(to, 24, header.origin_timestamp_us);
    store<std::uint64_t>(to, 32, header.batch_length);
    store<std::uint32_t>(to, 40, header.message_count);
    return prefix;
}

/// One pass without an early exit, which the compiler turns into wide instructions: the bytes are
/// zero but in an attack.
bool reserved_is_zero(ConstBytes header) noexcept {
    static_assert((kBatchHeaderSize - kBatchReservedAt - 4) % sizeof(std::uint64_t) == 0);
    std::uint64_t any = load<std::uint32_t>(header, kBatchReservedAt);
    for (std::size_t at = kBatchReservedAt + 4; at < kBatchHeaderSize; at += sizeof(any)) {
        any |= load<std::uint64_t>(header, at);
    }
    return any == 0;
}

struct FrameCheck {
    std::uint64_t size = 0;
    ErrorCode error = ErrorCode::kOk;
};

/// Size of the frame at the start of `rest`, or what is wrong with it.
inline FrameCheck check_frame(ConstBytes rest) noexcept {
    if (rest.size() < kFrameHeaderSize) {
        return {.error = ErrorCode::kInvalidCommand};
    }
    const std::uint64_t size = kFrameHeaderSize +
                               std::uint64_t{load<std::uint32_t>(rest, kUserHeadersLengthAt)} +
                               load<std::uint32_t>(rest, kPayloadLengthAt);
    if (size > rest.size()) {
        return {.error = ErrorCode::kInvalidCommand};
    }
    if (load<std::uint64_t>(rest, kFrameReservedAt) != 0) {
        return {.error = ErrorCode::kInvalidReservedField};
    }
    return {.size = size};
}

/// Feeds frame checksums to the batch hash in blocks: one call for 8 bytes costs more than hashing
/// them.
class ChecksumFeed {
 public:
    explicit ChecksumFeed(crypto::Xxh3Stream& hash) noexcept : hash_(hash) {}
    void push(std::uint64_t checksum) noexcept {
        block_[used_++] = checksum;
        if (used_ == block_.size()) {
            flush();
        }
    }
    void flush() noexcept {
        hash_.update(std::as_bytes(std::span(block_).first(used_)));
        used_ = 0;
    }

 private:
    static constexpr std::size_t kBlock = 64;
    crypto::Xxh3Stream& hash_;
    std::array<std::uint64_t, kBlock> block_;  // filled before read
    std::size_t used_ = 0;
};

}  // namespace

std::uint64_t sealed_checksum(ConstBytes batch) noexcept {
    return load<std::uint64_t>(batch, kBatchChecksumAt);
}

Result<BatchHeader> decode_batch_header(ConstBytes bytes) noexcept {
    if (bytes.size() < kBatchHeaderSize) {
        return fail(ErrorCode::kInvalidCommand);
    }
    const BatchHeader header{.partition_id = load<std::uint64_t>(bytes, kPartitionIdAt),
                             .base_offset = load<std::uint64_t>(bytes, kBaseOffsetAt),
                             .base_timestamp_us = load<std::uint64_t>(bytes, kBaseTimestampAt),
                             .origin_timestamp_us = load<std::uint64_t>(bytes, kOriginTimestampAt),
                             .batch_length = load<std::uint64_t>(bytes, kBatchLengthAt),
                             .batch_checksum = load<std::uint64_t>(bytes, kBatchChecksumAt),
                             .message_count = load<std::uint32_t>(bytes, kMessageCountAt)};
    if (header.message_count == 0 || header.batch_length < kBatchHeaderSize ||
        header.frames_size() / kFrameHeaderSize < header.message_count) {
        return fail(ErrorCode::kInvalidCommand);
    }
    if (!reserved_is_zero(bytes)) {
        return fail(ErrorCode::kInvalidReservedField);
    }
    return header;
}

void encode_batch_header(MutableBytes to, const BatchHeader& header) noexcept {
    GALGO_CHECK(to.size() == kBatchHeaderSize);
    std::ranges::fill(to, std::byte{0});
    store<std::uint64_t>(to, kPartitionIdAt, header.partition_id);
    store<std::uint64_t>(to, kBaseOffsetAt, header.base_offset);
    store<std::uint64_t>(to, kBaseTimestampAt, header.base_timestamp_us);
    store<std::uint64_t>(to, kOriginTimestampAt, header.origin_timestamp_us);
    store<std::uint64_t>(to, kBatchLengthAt, header.batch_length);
    store<std::uint64_t>(to, kBatchChecksumAt, header.batch_checksum);
    store<std::uint32_t>(to, kMessageCountAt, header.message_count);
}

Result<MessageView> FrameCursor::next() noexcept {
    const ConstBytes rest = frames_.subspan(position_);
    const FrameCheck check = check_frame(rest);
    if (check.error != ErrorCode::kOk) {
        return fail(check.error);
    }
    const std::size_t frame_size = check.size;
    const std::size_t payload_size = load<std::uint32_t>(rest, kPayloadLengthAt);
    const std::size_t headers_size = load<std::uint32_t>(rest, kUserHeadersLengthAt);
    position_ += frame_size;
    return MessageView{.checksum = load<std::uint64_t>(rest, kFrameChecksumAt),
                       .id = load<u128>(rest, kMessageIdAt),
                       .offset_delta = load<std::uint32_t>(rest, kOffsetDeltaAt),
                       .timestamp_delta_us = load<std::uint32_t>(rest, kTimestampDeltaAt),
                       .payload = rest.subspan(kFrameHeaderSize, payload_size),
                       .user_headers = rest.subspan(kFrameHeaderSize + payload_size, headers_size),
                       .frame = rest.first(frame_size)};
}

BatchValidator::BatchValidator(ConstBytes batch, const BatchHeader& header,
                               OffsetDeltas deltas) noexcept
    : header_(header), frames_(batch.subspan(kBatchHeaderSize)) {
    if (deltas == OffsetDeltas::kContiguous) {
        // decode_batch_header left room for at least one frame.
        delta_next_ = load<std::uint32_t>(frames_, kOffsetDeltaAt);
    }
    batch_hash_.update(digest_prefix(header));
}

Result<BatchValidator> BatchValidator::begin(ConstBytes batch, OffsetDeltas deltas) noexcept {
    GALGO_TRY_ASSIGN(const BatchHeader header, decode_batch_header(batch));
    if (header.batch_length != batch.size()) {
        return fail(ErrorCode::kInvalidCommand);
    }
    return BatchValidator(batch, header, deltas);
}

Status BatchValidator::take_frame() noexcept {
    const FrameCheck check = check_frame(frames_);
    if (check.error != ErrorCode::kOk) {
        return fail(check.error, frames_done_);
    }
    if (frames_done_ == header_.message_count ||
        load<std::uint32_t>(frames_, kOffsetDeltaAt) != delta_next_) {
        return fail(ErrorCode::kInvalidCommand, frames_done_);
    }
    ++delta_next_;
    frame_checksum_ = load<std::uint64_t>(frames_, kFrameChecksumAt);
    frame_rest_ = frames_.subspan(kMessageIdAt, check.size - kMessageIdAt);
    frames_ = frames_.subspan(check.size);
    if (frame_rest_.size() >= kSplitFrameBytes) {
        frame_hash_.emplace();
    }
    return {};
}

Result<bool> BatchValidator::step(std::size_t bytes_max) noexcept {
    GALGO_DCHECK(bytes_max > 0);
    ChecksumFeed feed(batch_hash_);
    std::size_t budget = bytes_max;
    while (budget > 0) {
        if (!frame_hash_) {
            if (frames_.empty()) {
                break;
            }
            GALGO_TRY(take_frame());
        }
        std::uint64_t checksum = 0;
        if (frame_hash_) {
            const std::size_t part = std::min(budget, frame_rest_.size());
            frame_hash_->update(frame_rest_.first(part));
            frame_rest_ = frame_rest_.subspan(part);
            budget -= part;
            if (!frame_rest_.empty()) {
                break;
            }
            checksum = frame_hash_->digest();
            frame_hash_.reset();
        } else {
            checksum = crypto::xxh3_64(frame_rest_);
            budget -= std::min(budget, frame_rest_.size());
        }
        if (checksum != frame_checksum_) {
            return fail(ErrorCode::kInvalidMessageChecksum, frames_done_);
        }
        feed.push(checksum);
        ++frames_done_;
    }
    feed.flush();
    if (frame_hash_ || !frames_.empty()) {
        return false;
    }
    return finish();
}

Result<bool> BatchValidator::finish() noexcept {
    if (frames_done_ != header_.message_count) {
        return fail(ErrorCode::kInvalidCommand);
    }
    if (batch_hash_.digest() != header_.batch_checksum) {
        return fail(ErrorCode::kInvalidBatchChecksum);
    }
    return true;
}

Result<BatchView> BatchView::validate(ConstBytes batch, OffsetDeltas deltas) noexcept {
    GALGO_TRY_ASSIGN(const BatchHeader header, decode_batch_header(batch));
    if (header.batch_length != batch.size()) {
        return fail(ErrorCode::kInvalidCommand);
    }
    BatchValidator validator(batch, header, deltas);
    GALGO_TRY_ASSIGN(const bool done, validator.step(std::numeric_limits<std::size_t>::max()));
    GALGO_CHECK(done);
    return BatchView(batch, header);
}

Result<std::uint64_t> batch_checksum(const BatchHeader& header, ConstBytes frames) noexcept {
    crypto::Xxh3Stream hash;
    hash.update(digest_prefix(header));
    ChecksumFeed feed(hash);
    std::uint32_t count = 0;
    while (!frames.empty()) {
        const FrameCheck check = check_frame(frames);
        if (check.error != ErrorCode::kOk) {
            return fail(check.error, count);
        }
        feed.push(load<std::uint64_t>(frames, kFrameChecksumAt));
        frames = frames.subspan(check.size);
        ++count;
    }
    if (count != header.message_count) {
        return fail(ErrorCode::kInvalidCommand);
    }
    feed.flush();
    return hash.digest();
}

BatchHeader stamp_batch(MutableBytes header, ConstBytes frames, const BatchStamp& stamp) noexcept {
    GALGO_CHECK(header.size() == kBatchHeaderSize);
    const Result<BatchHeader> decoded = decode_batch_header(header);
    GALGO_CHECK(decoded.has_value());
    BatchHeader stamped = *decoded;
    stamped.partition_id = stamp.partition.value();
    stamped.base_offset = stamp.base_offset.value();
    stamped.base_timestamp_us = stamp.base_timestamp.value();
    const Result<std::uint64_t> checksum = batch_checksum(stamped, frames);
    GALGO_CHECK(checksum.has_value());
    stamped.batch_checksum = *checksum;
    store<std::uint64_t>(header, kPartitionIdAt, stamped.partition_id);
    store<std::uint64_t>(header, kBaseOffsetAt, stamped.base_offset);
    store<std::uint64_t>(header, kBaseTimestampAt, stamped.base_timestamp_us);
    store<std::uint64_t>(header, kBatchChecksumAt, stamped.batch_checksum);
    return stamped;
}

BatchHeader stamp_batch(MutableBytes batch, const BatchStamp& stamp) noexcept {
    GALGO_CHECK(batch.size() >= kBatchSizeMin);
    return stamp_batch(batch.first(kBatchHeaderSize), batch.subspan(kBatchHeaderSize), stamp);
}

Result<BatchSlice> slice_batch(ConstBytes batch, MessageRange range) noexcept {
    GALGO_TRY_ASSIGN(BatchHeader header, decode_batch_header(batch));
    if (header.batch_length > batch.size() || range.count == 0 ||
        range.first >= header.message_count || range.count > header.message_count - range.first) {
        return fail(ErrorCode::kInvalidCommand);
    }
    BatchSlice slice;
    slice.message_count = range.count;
    if (range.count == header.message_count) {
        std::ranges::copy(batch.first(kBatchHeaderSize), slice.header.begin());
        slice.begin = kBatchHeaderSize;
        slice.end = static_cast<std::size_t>(header.batch_length);
        return slice;
    }
    const ConstBytes frames = batch.subspan(kBatchHeaderSize, header.frames_size());
    FrameCursor cursor(frames);
    for (std::uint32_t i = 0; i < range.first; ++i) {
        GALGO_TRY(cursor.next());
    }
    const std::size_t begin = cursor.position();
    for (std::uint32_t i = 0; i < range.count; ++i) {
        GALGO_TRY(cursor.next());
    }
    const std::size_t end = cursor.position();
    header.message_count = range.count;
    header.batch_length = kBatchHeaderSize + (end - begin);
    GALGO_TRY_ASSIGN(header.batch_checksum,
                     batch_checksum(header, frames.subspan(begin, end - begin)));
    encode_batch_header(slice.header, header);
    slice.begin = kBatchHeaderSize + begin;
    slice.end = kBatchHeaderSize + end;
    return slice;
}

void BatchBuilder::reset(std::uint64_t origin_timestamp_us) {
    bytes_.resize(kBatchHeaderSize);
    origin_timestamp_us_ = origin_timestamp_us;
    message_count_ = 0;
}

void BatchBuilder::add(const MessageInput& message) {
    GALGO_CHECK(bytes_.size() >= kBatchHeaderSize);
    GALGO_CHECK(message.timestamp_us >= origin_timestamp_us_);
    const std::uint64_t timestamp_delta = message.timestamp_us - origin_timestamp_us_;
    constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
    GALGO_CHECK(timestamp_delta <= kU32Max);
    GALGO_CHECK(message.payload.size() <= kU32Max && message.user_headers.size() <= kU32Max);
    const std::size_t begin = bytes_.size();
    bytes_.resize(begin + kFrameHeaderSize);
    bytes_.insert(bytes_.end(), message.payload.begin(), message.payload.end());
    bytes_.insert(bytes_.end(), message.user_headers.begin(), message.user_headers.end());
    const MutableBytes frame = MutableBytes(bytes_).subspan(begin);
    store<u128>(frame, kMessageIdAt, message.id);
    store<std::uint32_t>(frame, kOffsetDeltaAt, message_count_);
    store<std::uint32_t>(frame, kTimestampDeltaAt, static_cast<std::uint32_t>(timestamp_delta));
    store<std::uint32_t>(frame, kUserHeadersLengthAt,
                         static_cast<std::uint32_t>(message.user_headers.size()));
    store<std::uint32_t>(frame, kPayloadLengthAt,
                         static_cast<std::uint32_t>(message.payload.size()));
    store<std::uint64_t>(frame, kFrameReservedAt, 0);
    store<std::uint64_t>(frame, kFrameChecksumAt, crypto::xxh3_64(frame.subspan(kMessageIdAt)));
    ++message_count_;
}

ConstBytes BatchBuilder::finish() {
    GALGO_CHECK(message_count_ > 0);
    BatchHeader header{.origin_timestamp_us = origin_timestamp_us_,
                       .batch_length = bytes_.size(),
                       .message_count = message_count_};
    const Result<std::uint64_t> checksum =
        batch_checksum(header, ConstBytes(bytes_).subspan(kBatchHeaderSize));
    GALGO_CHECK(checksum.has_value());
    header.batch_checksum = *checksum;
    encode_batch_header(MutableBytes(bytes_).first(kBatchHeaderSize), header);
    return bytes_;
}

}  // namespace galgo::wire

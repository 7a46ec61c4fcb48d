// The message batch: the unit that producers send, partitions store and polls return, in one layout
// throughout.
//
//   header, 256 bytes                                frame, 48 bytes and data
//     0 partition_id u64      stamped                   0 checksum u64: XXH3-64 of frame
//     bytes 8..end 8 base_offset u64       stamped                   8 id u128
//    16 base_timestamp u64 us stamped                  24 offset_delta u32: index in the batch as
//    produced 24 origin_timestamp u64 us                        28 timestamp_delta u32 us, against
//    origin_timestamp 32 batch_length u64: header and frames            32 user_headers_length u32
//    40 batch_checksum u64    recomputed               36 payload_length u32
//    48 message_count u32                              40 reserved u64, 0
//    52 reserved, 0                                    48 payload, then user headers
//
// Frames are packed and tile batch_length - 256 exactly. The batch checksum is XXH3-64 of the first
// six header fields but itself (44 bytes, in the order above, with message_count last) followed by
// the checksum of every frame: so stamping rehashes 8 bytes a message and never a payload. Frames
// are not changed after the producer. A slice (part of a stored batch, in a poll reply) keeps the
// three stamped fields, so its first offset_delta may be above 0. offset = base_offset +
// offset_delta. Pure; no allocation but in BatchBuilder. wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "crypto/hash.hpp"
#include "model/ids.hpp"

namespace galgo::wire {

inline constexpr std::size_t kBatchHeaderSize = 256;
inline constexpr std::size_t kFrameHeaderSize = 48;
/// Bytes of a batch of one empty message.
inline constexpr std::size_t kBatchSizeMin = kBatchHeaderSize + kFrameHeaderSize;

struct BatchHeader {
    std::uint64_t partition_id = 0;
    std::uint64_t base_offset = 0;
    std::uint64_t base_timestamp_us = 0;
    std::uint64_t origin_timestamp_us = 0;
    std::uint64_t batch_length = 0;
    std::uint64_t batch_checksum = 0;
    std::uint32_t message_count = 0;

    [[nodiscard]] std::uint64_t frames_size() const noexcept {
        return batch_length - kBatchHeaderSize;
    }
    constexpr bool operator==(const BatchHeader&) const noexcept = default;
};

/// Decodes the first 256 bytes of `bytes` (which may be shorter or longer than the batch) and
/// checks what the header says alone: message_count > 0 and batch_length with room for that many
/// frames (kInvalidCommand), reserved bytes zero (kInvalidReservedField).
[[nodiscard]] Result<BatchHeader> decode_batch_header(ConstBytes bytes) noexcept;
/// The checksum that a batch carries; `batch` begins with a whole header.
[[nodiscard]] std::uint64_t sealed_checksum(ConstBytes batch) noexcept;

/// Writes all 256 bytes of `to`.
void encode_batch_header(MutableBytes to, const BatchHeader& header) noexcept;

/// One frame. Borrows the batch.
struct MessageView {
    std::uint64_t checksum = 0;
    u128 id = 0;
    std::uint32_t offset_delta = 0;
    std::uint32_t timestamp_delta_us = 0;
    ConstBytes payload;
    ConstBytes user_headers;
    ConstBytes frame;  ///< all of it
};

/// Walks frames. Checks bounds and the reserved field, not checksums.
class FrameCursor {
 public:
    explicit FrameCursor(ConstBytes frames) noexcept : frames_(frames) {}

    [[nodiscard]] bool at_end() const noexcept { return position_ == frames_.size(); }
    [[nodiscard]] std::size_t position() const noexcept { return position_; }
    /// The frame at the cursor, which moves behind it. Errors: kInvalidCommand (it leaves the
    /// range, or the cursor is at the end), kInvalidReservedField; the cursor stays.
    [[nodiscard]] Result<MessageView> next() noexcept;

 private:
    ConstBytes frames_;
    std::size_t position_ = 0;
};

enum class OffsetDeltas : std::uint8_t {
    kFromZero,    ///< 0, 1, 2...: a batch as produced and as stored
    kContiguous,  ///< n, n + 1...: a slice
};

/// Checks a batch completely: layout, offset deltas, every frame checksum, the batch checksum. In
/// steps, so that the caller may yield between them. `batch` is borrowed from begin() to the last
/// step(). Errors: kInvalidCommand (layout), kInvalidReservedField, kInvalidMessageChecksum,
/// kInvalidBatchChecksum.
class BatchValidator {
 public:
    /// Checks the header and that `batch` has exactly batch_length bytes.
    [[nodiscard]] static Result<BatchValidator> begin(
        ConstBytes batch, OffsetDeltas deltas = OffsetDeltas::kFromZero) noexcept;

    /// Hashes about `bytes_max` bytes more (at least one byte). True when the batch is valid and
    /// done; an error ends the validator. Between calls the bytes must not change.
    [[nodiscard]] Result<bool> step(std::size_t bytes_max) noexcept;

    [[nodiscard]] const BatchHeader& header() const noexcept { return header_; }

 private:
    friend class BatchView;  // builds one in place: a copy moves a kilobyte of hash state
    BatchValidator(ConstBytes batch, const BatchHeader& header, OffsetDeltas deltas) noexcept;
    [[nodiscard]] Status take_frame() noexcept;
    [[nodiscard]] Result<bool> finish() noexcept;

    BatchHeader header_;
    ConstBytes frames_;  // not begun
    std::uint32_t frames_done_ = 0;
    std::uint32_t delta_next_ = 0;
    crypto::Xxh3Stream batch_hash_;
    // The frame that is being hashed: what is left of it, and its checksum as the producer wrote
    // it. A large frame takes several steps and then has a hash of its own.
    ConstBytes frame_rest_;
    std::uint64_t frame_checksum_ = 0;
    std::optional<crypto::Xxh3Stream> frame_hash_;
};

/// A checked batch. Borrows its bytes.
class BatchView {
 public:
    /// Checks everything at once (see BatchValidator for errors); for short batches, tests and
    /// tools.
    [[nodiscard]] static Result<BatchView> validate(
        ConstBytes batch, OffsetDeltas deltas = OffsetDeltas::kFromZero) noexcept;

    [[nodiscard]] const BatchHeader& header() const noexcept { return header_; }
    [[nodiscard]] ConstBytes bytes() const noexcept { return bytes_; }
    [[nodiscard]] ConstBytes frames() const noexcept { return bytes_.subspan(kBatchHeaderSize); }
    [[nodiscard]] FrameCursor cursor() const noexcept { return FrameCursor(frames()); }

 private:
    BatchView(ConstBytes bytes, const BatchHeader& header) noexcept
        : bytes_(bytes), header_(header) {}
    ConstBytes bytes_;
    BatchHeader header_;
};

/// XXH3-64 over the header fields and the checksums of the frames, which must tile `frames` in the
/// number of message_count. Error: kInvalidCommand, kInvalidReservedField.
[[nodiscard]] Result<std::uint64_t> batch_checksum(const BatchHeader& header,
                                                   ConstBytes frames) noexcept;

struct BatchStamp {
    model::PartitionId partition;
    Offset base_offset;
    Timestamp base_timestamp;  ///< broker time of the whole batch, microseconds
};

/// Writes `stamp` and the new checksum into the header of a batch that was validated before (a bad
/// layout is a programmer error). `header` is the first 256 bytes, `frames` the rest; they need not
/// be adjacent. Returns the header as it now stands.
BatchHeader stamp_batch(MutableBytes header, ConstBytes frames, const BatchStamp& stamp) noexcept;
/// The same for a batch in one piece.
BatchHeader stamp_batch(MutableBytes batch, const BatchStamp& stamp) noexcept;

/// Part of a batch: a header of its own and the byte range of its frames in the batch it was cut
/// from.
struct BatchSlice {
    std::array<std::byte, kBatchHeaderSize> header;
    std::size_t begin = 0;  ///< from the start of the batch, so at least 256
    std::size_t end = 0;
    std::uint32_t message_count = 0;

    [[nodiscard]] std::size_t size() const noexcept { return kBatchHeaderSize + (end - begin); }
};

struct MessageRange {
    std::uint32_t first = 0;  ///< index of a message in the batch, 0-based
    std::uint32_t count = 0;  ///< at least 1
};

/// Cuts `range` out of a stored batch. The whole range keeps the header bytes as they are. Walks
/// headers of frames only. Errors: kInvalidCommand, kInvalidReservedField (bytes that are no batch,
/// a range outside of it).
[[nodiscard]] Result<BatchSlice> slice_batch(ConstBytes batch, MessageRange range) noexcept;

/// A message to be put into a batch.
struct MessageInput {
    u128 id = 0;
    std::uint64_t timestamp_us =
        0;  ///< not before the origin timestamp, at most 2^32 - 1 us behind it
    ConstBytes payload;
    ConstBytes user_headers;
};

/// Builds a batch as producers send it: for clients and tests. Reusable.
class BatchBuilder {
 public:
    /// Drops what was built.
    void reset(std::uint64_t origin_timestamp_us);
    void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
    void add(const MessageInput& message);
    [[nodiscard]] std::uint32_t message_count() const noexcept { return message_count_; }
    /// Completes the header of at least one message. The bytes live until the next reset.
    [[nodiscard]] ConstBytes finish();

 private:
    std::vector<std::byte> bytes_;
    std::uint64_t origin_timestamp_us_ = 0;
    std::uint32_t message_count_ = 0;
};

}  // namespace galgo::wire

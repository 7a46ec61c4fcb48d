// Codec, validation, stamping, encryption and decryption of stored batches.
#include "storage/stored_batch.hpp"

#include <algorithm>
#include <limits>

#include "base/check.hpp"
#include "storage/detail/checksum.hpp"

namespace galgo::storage {

namespace {

// Of a batch header: wire/batch.hpp.
constexpr std::size_t kPartitionIdAt = 0;
constexpr std::size_t kBaseOffsetAt = 8;
constexpr std::size_t kBaseTimestampAt = 16;
constexpr std::size_t kOriginTimestampAt = 24;
constexpr std::size_t kBatchLengthAt = 32;
constexpr std::size_t kBatchChecksumAt = 40;
constexpr std::size_t kMessageCountAt = 48;

// Of an encrypted one, behind that: docs/formats/encryption.md.
constexpr std::size_t kMagicAt = 52;
constexpr std::size_t kVersionAt = 56;
constexpr std::size_t kAlgorithmAt = 57;
constexpr std::size_t kZeroAt = 58;
constexpr std::size_t kKeyIdAt = 60;
constexpr std::size_t kSaltAt = 68;
constexpr std::size_t kCounterAt = 84;
constexpr std::size_t kFramesSizeAt = 92;
constexpr std::size_t kBodyHashAt = 100;
constexpr std::size_t kUsedBytes = 108;

constexpr std::uint32_t kMagic = 0x314e4547;  // "GEN1"
constexpr std::uint8_t kVersion = 1;
constexpr std::uint8_t kAlgorithm = 1;  // AES-256-GCM

// Of a frame: wire/batch.hpp.
constexpr std::size_t kOffsetDeltaAt = 24;
constexpr std::size_t kUserHeadersLengthAt = 32;
constexpr std::size_t kPayloadLengthAt = 36;
constexpr std::size_t kFrameReservedAt = 40;

std::uint64_t chunk_count(std::uint64_t frames_size) noexcept {
    return frames_size / kCipherChunkBytes + (frames_size % kCipherChunkBytes != 0 ? 1 : 0);
}

/// XXH3-64 of all that the header says but itself: bytes 0..39 and 48..107. The hash of what
/// follows the header is among them.
std::uint64_t header_checksum(ConstBytes header) noexcept {
    std::array<std::byte, kUsedBytes - 8> hashed{};
    std::ranges::copy(header.first(kBatchChecksumAt), hashed.begin());
    std::ranges::copy(header.subspan(kMessageCountAt, kUsedBytes - kMessageCountAt),
                      hashed.begin() + kBatchChecksumAt);
    return detail::checksum(hashed);
}

using Associated = std::array<std::byte, 8 + 4 + kBodyHashAt - kMagicAt>;

/// What a tag covers besides the frames: bytes 24..31, 48..51 and 52..99.
Associated associated_of(ConstBytes header) noexcept {
    Associated bytes{};
    std::ranges::copy(header.subspan(kOriginTimestampAt, 8), bytes.begin());
    std::ranges::copy(header.subspan(kMessageCountAt, kBodyHashAt - kMessageCountAt),
                      bytes.begin() + 8);
    return bytes;
}

crypto::AeadNonce nonce_of(ConstBytes header, std::uint32_t chunk) noexcept {
    crypto::AeadNonce nonce{};
    store<std::uint64_t>(nonce, 0, load<std::uint64_t>(header, kCounterAt));
    store<std::uint32_t>(nonce, 8, chunk);
    return nonce;
}

Salt salt_of(ConstBytes header) noexcept {
    Salt salt{};
    std::ranges::copy(header.subspan(kSaltAt, kSaltBytes), salt.begin());
    return salt;
}

Result<wire::BatchHeader> decode_encrypted_header(ConstBytes bytes) noexcept {
    const wire::BatchHeader header{
        .partition_id = load<std::uint64_t>(bytes, kPartitionIdAt),
        .base_offset = load<std::uint64_t>(bytes, kBaseOffsetAt),
        .base_timestamp_us = load<std::uint64_t>(bytes, kBaseTimestampAt),
        .origin_timestamp_us = load<std::uint64_t>(bytes, kOriginTimestampAt),
        .batch_length = load<std::uint64_t>(bytes, kBatchLengthAt),
        .batch_checksum = load<std::uint64_t>(bytes, kBatchChecksumAt),
        .message_count = load<std::uint32_t>(bytes, kMessageCountAt)};
    const auto frames_size = load<std::uint64_t>(bytes, kFramesSizeAt);
    if (header.message_count == 0 || header.batch_length < wire::kBatchHeaderSize ||
        frames_size > header.frames_size() ||
        frames_size / wire::kFrameHeaderSize < header.message_count ||
        header.frames_size() - frames_size != chunk_count(frames_size) * crypto::kAeadTagSize) {
        return fail(ErrorCode::kInvalidCommand);
    }
    const ConstBytes rest = bytes.subspan(kUsedBytes, wire::kBatchHeaderSize - kUsedBytes);
    if (load<std::uint8_t>(bytes, kVersionAt) != kVersion ||
        load<std::uint8_t>(bytes, kAlgorithmAt) != kAlgorithm ||
        load<std::uint16_t>(bytes, kZeroAt) != 0 ||
        std::ranges::any_of(rest, [](std::byte byte) { return byte != std::byte{0}; })) {
        return fail(ErrorCode::kInvalidReservedField);
    }
    return header;
}

/// The first frame of a plain batch.
bool first_frame_fits(ConstBytes bytes, const wire::BatchHeader& header,
                      std::uint64_t& hashed) noexcept {
    if (bytes.size() < wire::kBatchSizeMin) {
        return true;
    }
    const ConstBytes frame = bytes.subspan(wire::kBatchHeaderSize);
    const std::uint64_t size = wire::kFrameHeaderSize +
                               std::uint64_t{load<std::uint32_t>(frame, kPayloadLengthAt)} +
                               load<std::uint32_t>(frame, kUserHeadersLengthAt);
    if (load<std::uint32_t>(frame, kOffsetDeltaAt) != 0 ||
        load<std::uint64_t>(frame, kFrameReservedAt) != 0 || size > header.frames_size() ||
        (header.message_count == 1 && size != header.frames_size())) {
        return false;
    }
    if (size > frame.size()) {
        return true;
    }
    hashed += size;
    return load<std::uint64_t>(frame, 0) ==
           detail::checksum(frame.first(static_cast<std::size_t>(size)).subspan(8));
}

}  // namespace

Result<wire::BatchHeader> decode_stored_header(ConstBytes bytes) noexcept {
    const Result<wire::BatchHeader> plain = wire::decode_batch_header(bytes);
    // The part that a plain header has zero is the first of what it is judged by last.
    if (plain.has_value() || plain.error().code != ErrorCode::kInvalidReservedField ||
        !is_encrypted(bytes)) {
        return plain;
    }
    return decode_encrypted_header(bytes);
}

bool is_encrypted(ConstBytes batch) noexcept {
    return load<std::uint32_t>(batch, kMagicAt) == kMagic;
}

bool first_part_fits(ConstBytes bytes, const wire::BatchHeader& header,
                     std::uint64_t& hashed) noexcept {
    if (!is_encrypted(bytes)) {
        return first_frame_fits(bytes, header, hashed);
    }
    hashed += kUsedBytes;
    return header_checksum(bytes) == header.batch_checksum;
}

Result<wire::BatchHeader> validate_stored(ConstBytes batch, wire::OffsetDeltas deltas) noexcept {
    if (batch.size() >= wire::kBatchHeaderSize && is_encrypted(batch)) {
        GALGO_TRY_ASSIGN(EncryptedValidator validator, EncryptedValidator::begin(batch));
        GALGO_TRY(validator.step(std::numeric_limits<std::size_t>::max()));
        return validator.header();
    }
    GALGO_TRY_ASSIGN(const wire::BatchView view, wire::BatchView::validate(batch, deltas));
    return view.header();
}

EncryptedValidator::EncryptedValidator(ConstBytes batch, const wire::BatchHeader& header) noexcept
    : header_(header),
      rest_(batch.subspan(wire::kBatchHeaderSize)),
      expected_(load<std::uint64_t>(batch, kBodyHashAt)) {}

Result<EncryptedValidator> EncryptedValidator::begin(ConstBytes batch) noexcept {
    if (batch.size() < wire::kBatchHeaderSize || !is_encrypted(batch)) {
        return fail(ErrorCode::kInvalidCommand);
    }
    GALGO_TRY_ASSIGN(const wire::BatchHeader header, decode_encrypted_header(batch));
    if (header.batch_length != batch.size()) {
        return fail(ErrorCode::kInvalidCommand);
    }
    if (header_checksum(batch) != header.batch_checksum) {
        return fail(ErrorCode::kInvalidBatchChecksum);
    }
    return EncryptedValidator(batch, header);
}

Result<bool> EncryptedValidator::step(std::size_t bytes_max) noexcept {
    const std::size_t part = std::min(bytes_max, rest_.size());
    hash_.update(rest_.first(part));
    rest_ = rest_.subspan(part);
    if (!rest_.empty()) {
        return false;
    }
    if (hash_.digest() != expected_) {
        return fail(ErrorCode::kInvalidBatchChecksum);
    }
    return true;
}

void stamp_encrypted(MutableBytes batch, const wire::BatchStamp& stamp) noexcept {
    GALGO_CHECK(batch.size() >= wire::kBatchHeaderSize && is_encrypted(batch));
    store<std::uint64_t>(batch, kPartitionIdAt, stamp.partition.value());
    store<std::uint64_t>(batch, kBaseOffsetAt, stamp.base_offset.value());
    store<std::uint64_t>(batch, kBaseTimestampAt, stamp.base_timestamp.value());
    store<std::uint64_t>(batch, kBatchChecksumAt, header_checksum(batch));
}

std::size_t encrypted_size(std::size_t plain_size) noexcept {
    GALGO_CHECK(plain_size >= wire::kBatchHeaderSize);
    return plain_size + static_cast<std::size_t>(chunk_count(plain_size - wire::kBatchHeaderSize) *
                                                 crypto::kAeadTagSize);
}

std::size_t decrypted_size(ConstBytes batch) noexcept {
    return wire::kBatchHeaderSize +
           static_cast<std::size_t>(load<std::uint64_t>(batch, kFramesSizeAt));
}

std::uint64_t key_id_of(ConstBytes batch) noexcept {
    return load<std::uint64_t>(batch, kKeyIdAt);
}

// ---- the cipher
// -------------------------------------------------------------------------------------------

BatchCipher::BatchCipher(const DataKey& key, PartitionKey partition, Incarnation incarnation,
                         const Salt& salt) noexcept
    : key_(key), partition_(partition), incarnation_(incarnation), writer_(derive(salt)) {}

BatchCipher::Derived BatchCipher::derive(const Salt& salt) const noexcept {
    return {.salt = salt,
            .cipher = crypto::Aes256Gcm(key_.batch_key(salt, partition_, incarnation_))};
}

/// The key of the opening that had this salt.
crypto::Aes256Gcm& BatchCipher::reader(const Salt& salt) noexcept {
    if (salt == writer_.salt) {
        return writer_.cipher;
    }
    if (!reader_.has_value() || reader_->salt != salt) {
        reader_.emplace(derive(salt));
    }
    return reader_->cipher;
}

BatchCipher::Encryption BatchCipher::encrypt(ConstBytes plain, MutableBytes to) noexcept {
    GALGO_CHECK(plain.size() >= wire::kBatchSizeMin && to.size() == encrypted_size(plain.size()));
    const MutableBytes header = to.first(wire::kBatchHeaderSize);
    std::ranges::fill(header, std::byte{0});
    std::ranges::copy(plain.subspan(kOriginTimestampAt, 8),
                      header.subspan(kOriginTimestampAt).begin());
    std::ranges::copy(plain.subspan(kMessageCountAt, 4), header.subspan(kMessageCountAt).begin());
    store<std::uint64_t>(header, kBatchLengthAt, to.size());
    store<std::uint32_t>(header, kMagicAt, kMagic);
    store<std::uint8_t>(header, kVersionAt, kVersion);
    store<std::uint8_t>(header, kAlgorithmAt, kAlgorithm);
    store<std::uint64_t>(header, kKeyIdAt, key_.id());
    std::ranges::copy(writer_.salt, header.subspan(kSaltAt).begin());
    store<std::uint64_t>(header, kCounterAt, counter_++);
    const ConstBytes frames = plain.subspan(wire::kBatchHeaderSize);
    store<std::uint64_t>(header, kFramesSizeAt, frames.size());
    return Encryption(*this, frames, to);
}

bool BatchCipher::Encryption::step() noexcept {
    const std::size_t size = std::min(frames_.size(), kCipherChunkBytes);
    const MutableBytes sealed = to_.subspan(at_, size + crypto::kAeadTagSize);
    cipher_.writer_.cipher.seal(nonce_of(to_, chunk_), associated_of(to_), frames_.first(size),
                                sealed);
    hash_.update(sealed);
    frames_ = frames_.subspan(size);
    at_ += sealed.size();
    ++chunk_;
    if (!frames_.empty()) {
        return false;
    }
    store<std::uint64_t>(to_, kBodyHashAt, hash_.digest());
    return true;
}

Result<BatchCipher::Decryption> BatchCipher::decrypt(ConstBytes batch, MutableBytes to) noexcept {
    GALGO_CHECK(is_encrypted(batch) && to.size() == decrypted_size(batch) &&
                batch.size() == encrypted_size(to.size()));
    if (key_id_of(batch) != key_.id()) {
        return fail(ErrorCode::kCannotDecryptData);
    }
    return Decryption(*this, batch, to);
}

Result<bool> BatchCipher::Decryption::step() noexcept {
    const std::size_t size = std::min(to_.size() - done_, kCipherChunkBytes);
    const ConstBytes sealed = batch_.subspan(at_, size + crypto::kAeadTagSize);
    if (!cipher_.reader(salt_of(batch_))
             .open(nonce_of(batch_, chunk_), associated_of(batch_), sealed,
                   to_.subspan(done_, size))) {
        return fail(ErrorCode::kCannotDecryptData);
    }
    at_ += sealed.size();
    done_ += size;
    ++chunk_;
    if (done_ != to_.size()) {
        return false;
    }
    const Result<wire::BatchHeader> stored = decode_encrypted_header(batch_);
    if (!stored.has_value()) {
        return fail(ErrorCode::kCannotDecryptData);
    }
    wire::BatchHeader header = *stored;
    header.batch_length = to_.size();
    const Result<std::uint64_t> checksum =
        wire::batch_checksum(header, to_.subspan(wire::kBatchHeaderSize));
    if (!checksum.has_value()) {
        return fail(ErrorCode::kCannotDecryptData);
    }
    header.batch_checksum = *checksum;
    wire::encode_batch_header(to_.first(wire::kBatchHeaderSize), header);
    return true;
}

}  // namespace galgo::storage

// Stored batches, plain and encrypted: docs/formats/encryption.md. The one place that knows both.
//
// A plain one stands on disk as on the wire (wire/batch.hpp). An encrypted one has the same first
// 52 bytes of header, which stay clear: where it belongs, its times, how many messages it has, its
// length and its checksum, all of the bytes as they are stored. So segments, journals, indexes and
// recovery need no key. Behind them the header says how the frames were encrypted; then they
// follow, in chunks of 1 MiB, each with a tag.
//
// What a tag proves: the frames, how many there are, their origin time, and that they were written
// by this life of this partition. Not the offset and the broker's time, which a batch gets later:
// only the checksum, which is no secret, covers those. One shard.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "crypto/aead.hpp"
#include "crypto/hash.hpp"
#include "storage/data_key.hpp"
#include "wire/batch.hpp"

namespace galgo::storage {

/// Frames are encrypted in pieces of this size.
inline constexpr std::size_t kCipherChunkBytes = 1024 * 1024;

/// Whatever the form: the first 256 bytes of a stored batch, checked as far as they say it alone;
/// batch_length and batch_checksum are of the bytes as stored. Errors: kInvalidCommand,
/// kInvalidReservedField.
[[nodiscard]] Result<wire::BatchHeader> decode_stored_header(ConstBytes bytes) noexcept;
/// Of a header that was decoded.
[[nodiscard]] bool is_encrypted(ConstBytes batch) noexcept;
/// Could the batch whose begin `bytes` holds be whole? Looks at the first part that has a checksum
/// of its own, as far as it is here; adds what it hashed to `hashed`.
[[nodiscard]] bool first_part_fits(ConstBytes bytes, const wire::BatchHeader& header,
                                   std::uint64_t& hashed) noexcept;
/// All checksums of one batch of either form at once. `deltas` as in wire::BatchValidator.
[[nodiscard]] Result<wire::BatchHeader> validate_stored(
    ConstBytes batch, wire::OffsetDeltas deltas = wire::OffsetDeltas::kFromZero) noexcept;

/// Checks the checksums of an encrypted batch, in steps. Needs no key. Borrows the batch.
class EncryptedValidator {
 public:
    /// Errors: kInvalidCommand, kInvalidReservedField, kInvalidBatchChecksum.
    [[nodiscard]] static Result<EncryptedValidator> begin(ConstBytes batch) noexcept;
    /// Hashes at most `bytes_max` bytes more. True when it is valid and done.
    [[nodiscard]] Result<bool> step(std::size_t bytes_max) noexcept;

    [[nodiscard]] const wire::BatchHeader& header() const noexcept { return header_; }

 private:
    EncryptedValidator(ConstBytes batch, const wire::BatchHeader& header) noexcept;

    wire::BatchHeader header_;
    ConstBytes rest_;
    std::uint64_t expected_;
    crypto::Xxh3Stream hash_;
};

/// What stamp_batch does, for an encrypted batch: the frames are not looked at.
void stamp_encrypted(MutableBytes batch, const wire::BatchStamp& stamp) noexcept;

/// Bytes of a batch of `plain_size` bytes when it is encrypted.
[[nodiscard]] std::size_t encrypted_size(std::size_t plain_size) noexcept;
/// The opposite, of a batch whose header was decoded.
[[nodiscard]] std::size_t decrypted_size(ConstBytes batch) noexcept;
/// Id of the key that an encrypted batch names.
[[nodiscard]] std::uint64_t key_id_of(ConstBytes batch) noexcept;

/// The keys of one opening of a log. Outlives its jobs.
class BatchCipher {
 public:
    /// `salt`: drawn at random for this opening, and used for no other.
    BatchCipher(const DataKey& key, PartitionKey partition, Incarnation incarnation,
                const Salt& salt) noexcept;

    /// Encrypts one batch in steps of one chunk.
    class Encryption {
     public:
        /// True when it is done.
        [[nodiscard]] bool step() noexcept;

     private:
        friend BatchCipher;
        Encryption(BatchCipher& cipher, ConstBytes frames, MutableBytes to) noexcept
            : cipher_(cipher), frames_(frames), to_(to) {}
        BatchCipher& cipher_;
        ConstBytes frames_;  ///< not encrypted yet
        MutableBytes to_;
        std::size_t at_ = wire::kBatchHeaderSize;
        std::uint32_t chunk_ = 0;
        crypto::Xxh3Stream hash_;
    };
    /// `plain`: a valid batch; `to` has encrypted_size() of it. Both stay where they are until the
    /// last step. The batch is not stamped then.
    [[nodiscard]] Encryption encrypt(ConstBytes plain, MutableBytes to) noexcept;

    /// Decrypts one batch in steps of one chunk.
    class Decryption {
     public:
        /// True when it is done, and `to` holds the batch that was encrypted, stamped as this one.
        /// CannotDecryptData: a tag does not fit, or what was encrypted is no batch.
        [[nodiscard]] Result<bool> step() noexcept;

     private:
        friend BatchCipher;
        Decryption(BatchCipher& cipher, ConstBytes batch, MutableBytes to) noexcept
            : cipher_(cipher), batch_(batch), to_(to) {}
        BatchCipher& cipher_;
        ConstBytes batch_;
        MutableBytes to_;
        std::size_t at_ = wire::kBatchHeaderSize;  ///< in batch_
        std::size_t done_ = wire::kBatchHeaderSize;
        std::uint32_t chunk_ = 0;
    };
    /// `batch`: encrypted, its header decoded; `to` has decrypted_size() of it. CannotDecryptData:
    /// it names another key.
    [[nodiscard]] Result<Decryption> decrypt(ConstBytes batch, MutableBytes to) noexcept;

 private:
    struct Derived {
        Salt salt;
        crypto::Aes256Gcm cipher;
    };
    [[nodiscard]] Derived derive(const Salt& salt) const noexcept;
    [[nodiscard]] crypto::Aes256Gcm& reader(const Salt& salt) noexcept;

    const DataKey& key_;
    PartitionKey partition_;
    Incarnation incarnation_;
    Derived writer_;
    std::uint64_t counter_ = 0;      ///< of batches encrypted
    std::optional<Derived> reader_;  ///< of the opening that was read last, when it was another
};

}  // namespace galgo::storage

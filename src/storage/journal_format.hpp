// Byte layout of the shard journal's files, docs/formats/journal.md. Pure: no I/O.
//
// A file is a 64-byte header, then records back to back, then zeros or bytes of an earlier life.
// The checksum of a record is seeded with the file's identity (epoch, shard, sequence) and its
// position, so that a byte of an earlier life never reads as a record of this one. Bytes from disk
// are never asserted on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/ids.hpp"
#include "base/units.hpp"

namespace galgo::storage {

inline constexpr std::size_t kJournalFileHeaderBytes = 64;
inline constexpr std::size_t kJournalRecordHeaderBytes = 128;
/// A batch of this size or more goes to its segment at once; the journal names it only.
inline constexpr std::size_t kBulkBatchBytes = 64 * kKiB;
inline constexpr std::uint64_t kJournalFileBytesDefault = 8 * kMiB;
/// Room for the header and one record of the largest body.
inline constexpr std::uint64_t kJournalFileBytesMin = 128 * kKiB;
inline constexpr std::uint32_t kJournalVersion = 1;

struct JournalFileHeader {
    std::uint64_t epoch = 0;     ///< boot that made the file; strictly increasing
    std::uint64_t sequence = 0;  ///< of the file within its shard and epoch, from 1
    ShardIndex shard{0};

    bool operator==(const JournalFileHeader&) const noexcept = default;
    /// Seed of the checksums of this file's records.
    [[nodiscard]] std::uint64_t seed() const noexcept;
};

enum class JournalKind : std::uint8_t {
    kBatch = 1,         ///< a batch with its bytes
    kBatchNamed = 2,    ///< a batch whose bytes are in the segment
    kOffsetSet = 3,     ///< consumer offset := base_offset
    kOffsetDelete = 4,  ///< consumer offset removed
    kBatchDropped = 5,  ///< the batch named before at that offset failed: it was never acknowledged
};

struct JournalRecord {
    JournalKind kind = JournalKind::kBatch;
    std::uint8_t consumer_kind = 0;  ///< kOffset*: 1 consumer, 2 group
    std::uint32_t consumer_id = 0;   ///< kOffset*
    PartitionKey partition;
    Incarnation incarnation;
    OpNumber op;
    OpNumber commit_op;  ///< highest op known as committed when the record was written
    ViewNumber view;
    Offset base_offset;  ///< of the batch, or the consumer's offset
    std::uint32_t message_count = 0;
    Timestamp timestamp;
    std::uint64_t batch_checksum = 0;
    std::uint64_t batch_length = 0;  ///< bytes of the batch in its segment
    std::uint32_t body_bytes = 0;    ///< behind this header; 0 for all but kBatch
    // What the writer knew as synced when it wrote the record: bytes of this file, and of the file
    // that it wrote before. Damage in there is not the trace of a crash. 0: nothing.
    std::uint64_t stable_bytes = 0;
    std::uint64_t prior_sequence = 0;
    std::uint64_t prior_stable_bytes = 0;

    bool operator==(const JournalRecord&) const noexcept = default;
};

void encode_journal_file_header(MutableBytes to, const JournalFileHeader& header) noexcept;
/// Empty when magic, version or checksum are not ours.
[[nodiscard]] std::optional<JournalFileHeader> decode_journal_file_header(ConstBytes from) noexcept;

/// Writes 128 bytes. `seed` is the file's, `position` the record's in the file.
void encode_journal_record(MutableBytes to, const JournalRecord& record, ConstBytes body,
                           std::uint64_t seed, std::uint64_t position) noexcept;
/// Looks at the 128 bytes alone: empty when they cannot be a record. The checksum is not verified.
[[nodiscard]] std::optional<JournalRecord> decode_journal_record(ConstBytes header) noexcept;
/// Does the checksum bind header, body, file and position together?
[[nodiscard]] bool verify_journal_record(ConstBytes header, ConstBytes body, std::uint64_t seed,
                                         std::uint64_t position) noexcept;

/// "journal-3-0000000000000007.wal"
[[nodiscard]] std::string journal_file_name(ShardIndex shard, std::uint64_t sequence);
struct JournalFileName {
    ShardIndex shard{0};
    std::uint64_t sequence = 0;
};
[[nodiscard]] std::optional<JournalFileName> parse_journal_file_name(
    std::string_view name) noexcept;

}  // namespace galgo::storage

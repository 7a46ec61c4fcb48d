// Encoding and decoding of journal file headers and records.
#include "storage/journal_format.hpp"

#include <algorithm>
#include <charconv>
#include <format>

#include "storage/detail/checksum.hpp"

namespace galgo::storage {

namespace {

constexpr std::uint64_t kFileMagic = 0x31564A4F474C4147ULL;  // "GALGOJV1"
constexpr std::uint32_t kRecordMagic = 0x314A5247;           // "GRJ1"

// Record header. The checksum covers bytes 16..128 and the body.
constexpr std::size_t kAtMagic = 0;
constexpr std::size_t kAtKind = 4;
constexpr std::size_t kAtConsumerKind = 5;
constexpr std::size_t kAtChecksum = 8;
constexpr std::size_t kAtPartition = 16;
constexpr std::size_t kAtIncarnation = 24;
constexpr std::size_t kAtOp = 32;
constexpr std::size_t kAtCommitOp = 40;
constexpr std::size_t kAtBaseOffset = 48;
constexpr std::size_t kAtTimestamp = 56;
constexpr std::size_t kAtBatchChecksum = 64;
constexpr std::size_t kAtBatchLength = 72;
constexpr std::size_t kAtView = 80;
constexpr std::size_t kAtMessageCount = 84;
constexpr std::size_t kAtBodyBytes = 88;
constexpr std::size_t kAtConsumerId = 92;
constexpr std::size_t kAtKindAgain = 96;  // kind and consumer kind again, under the checksum
constexpr std::size_t kAtStableBytes = 104;
constexpr std::size_t kAtPriorSequence = 112;
constexpr std::size_t kAtPriorStableBytes = 120;
static_assert(kAtPriorStableBytes + 8 == kJournalRecordHeaderBytes);

std::uint64_t record_checksum(ConstBytes header, ConstBytes body, std::uint64_t seed,
                              std::uint64_t position) noexcept {
    return detail::bound_checksum(header.subspan(16, kJournalRecordHeaderBytes - 16), body,
                                  seed + position);
}

}  // namespace

std::uint64_t JournalFileHeader::seed() const noexcept {
    std::byte words[24];
    store<std::uint64_t>(words, 0, epoch);
    store<std::uint64_t>(words, 8, sequence);
    store<std::uint64_t>(words, 16, shard.value());
    return detail::checksum(words);
}

void encode_journal_file_header(MutableBytes to, const JournalFileHeader& header) noexcept {
    GALGO_CHECK(to.size() >= kJournalFileHeaderBytes);
    std::fill_n(to.begin(), kJournalFileHeaderBytes, std::byte{0});
    store<std::uint64_t>(to, 0, kFileMagic);
    store<std::uint32_t>(to, 8, kJournalVersion);
    store<std::uint32_t>(to, 12, header.shard.value());
    store<std::uint64_t>(to, 16, header.epoch);
    store<std::uint64_t>(to, 24, header.sequence);
    store<std::uint64_t>(to, 56, detail::checksum(to.first(56)));
}

std::optional<JournalFileHeader> decode_journal_file_header(ConstBytes from) noexcept {
    if (from.size() < kJournalFileHeaderBytes || load<std::uint64_t>(from, 0) != kFileMagic ||
        load<std::uint32_t>(from, 8) != kJournalVersion || load<std::uint32_t>(from, 12) > 0xFFFF ||
        load<std::uint64_t>(from, 56) != detail::checksum(from.first(56))) {
        return std::nullopt;
    }
    return JournalFileHeader{
        .epoch = load<std::uint64_t>(from, 16),
        .sequence = load<std::uint64_t>(from, 24),
        .shard = ShardIndex(static_cast<std::uint16_t>(load<std::uint32_t>(from, 12)))};
}

void encode_journal_record(MutableBytes to, const JournalRecord& record, ConstBytes body,
                           std::uint64_t seed, std::uint64_t position) noexcept {
    GALGO_CHECK(to.size() >= kJournalRecordHeaderBytes);
    GALGO_CHECK(body.size() == record.body_bytes);
    GALGO_CHECK(record.body_bytes < kBulkBatchBytes);
    std::fill_n(to.begin(), kJournalRecordHeaderBytes, std::byte{0});
    store<std::uint32_t>(to, kAtMagic, kRecordMagic);
    store<std::uint8_t>(to, kAtKind, static_cast<std::uint8_t>(record.kind));
    store<std::uint8_t>(to, kAtConsumerKind, record.consumer_kind);
    store<std::uint64_t>(to, kAtPartition, record.partition.value());
    store<std::uint64_t>(to, kAtIncarnation, record.incarnation.value());
    store<std::uint64_t>(to, kAtOp, record.op.value());
    store<std::uint64_t>(to, kAtCommitOp, record.commit_op.value());
    store<std::uint64_t>(to, kAtBaseOffset, record.base_offset.value());
    store<std::uint64_t>(to, kAtTimestamp, record.timestamp.value());
    store<std::uint64_t>(to, kAtBatchChecksum, record.batch_checksum);
    store<std::uint64_t>(to, kAtBatchLength, record.batch_length);
    store<std::uint32_t>(to, kAtView, record.view.value());
    store<std::uint32_t>(to, kAtMessageCount, record.message_count);
    store<std::uint32_t>(to, kAtBodyBytes, record.body_bytes);
    store<std::uint32_t>(to, kAtConsumerId, record.consumer_id);
    store<std::uint8_t>(to, kAtKindAgain, static_cast<std::uint8_t>(record.kind));
    store<std::uint8_t>(to, kAtKindAgain + 1, record.consumer_kind);
    store<std::uint64_t>(to, kAtStableBytes, record.stable_bytes);
    store<std::uint64_t>(to, kAtPriorSequence, record.prior_sequence);
    store<std::uint64_t>(to, kAtPriorStableBytes, record.prior_stable_bytes);
    store<std::uint64_t>(to, kAtChecksum, record_checksum(to, body, seed, position));
}

std::optional<JournalRecord> decode_journal_record(ConstBytes header) noexcept {
    if (header.size() < kJournalRecordHeaderBytes ||
        load<std::uint32_t>(header, kAtMagic) != kRecordMagic) {
        return std::nullopt;
    }
    const auto kind = load<std::uint8_t>(header, kAtKind);
    JournalRecord record{
        .kind = static_cast<JournalKind>(kind),
        .consumer_kind = load<std::uint8_t>(header, kAtConsumerKind),
        .consumer_id = load<std::uint32_t>(header, kAtConsumerId),
        .partition = PartitionKey(load<std::uint64_t>(header, kAtPartition)),
        .incarnation = Incarnation(load<std::uint64_t>(header, kAtIncarnation)),
        .op = OpNumber(load<std::uint64_t>(header, kAtOp)),
        .commit_op = OpNumber(load<std::uint64_t>(header, kAtCommitOp)),
        .view = ViewNumber(load<std::uint32_t>(header, kAtView)),
        .base_offset = Offset(load<std::uint64_t>(header, kAtBaseOffset)),
        .message_count = load<std::uint32_t>(header, kAtMessageCount),
        .timestamp = Timestamp(load<std::uint64_t>(header, kAtTimestamp)),
        .batch_checksum = load<std::uint64_t>(header, kAtBatchChecksum),
        .batch_length = load<std::uint64_t>(header, kAtBatchLength),
        .body_bytes = load<std::uint32_t>(header, kAtBodyBytes),
        .stable_bytes = load<std::uint64_t>(header, kAtStableBytes),
        .prior_sequence = load<std::uint64_t>(header, kAtPriorSequence),
        .prior_stable_bytes = load<std::uint64_t>(header, kAtPriorStableBytes),
    };
    if (kind < 1 || kind > 5 || kind != load<std::uint8_t>(header, kAtKindAgain) ||
        record.consumer_kind != load<std::uint8_t>(header, kAtKindAgain + 1)) {
        return std::nullopt;
    }
    if (record.kind == JournalKind::kBatch) {
        if (record.body_bytes == 0 || record.body_bytes >= kBulkBatchBytes ||
            record.body_bytes != record.batch_length) {
            return std::nullopt;
        }
    } else if (record.body_bytes != 0) {
        return std::nullopt;
    }
    if (record.kind != JournalKind::kOffsetSet && record.kind != JournalKind::kOffsetDelete) {
        // An end that wraps cannot be a batch of ours.
        if (record.message_count == 0 ||
            record.base_offset.value() > ~std::uint64_t{0} - record.message_count) {
            return std::nullopt;
        }
    }
    return record;
}

bool verify_journal_record(ConstBytes header, ConstBytes body, std::uint64_t seed,
                           std::uint64_t position) noexcept {
    return load<std::uint64_t>(header, kAtChecksum) ==
           record_checksum(header, body, seed, position);
}

std::string journal_file_name(ShardIndex shard, std::uint64_t sequence) {
    return std::format("journal-{}-{:016}.wal", shard.value(), sequence);
}

std::optional<JournalFileName> parse_journal_file_name(std::string_view name) noexcept {
    constexpr std::string_view kPrefix = "journal-";
    constexpr std::string_view kSuffix = ".wal";
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) ||
        name.size() < kPrefix.size() + kSuffix.size() + 18) {
        return std::nullopt;
    }
    name.remove_prefix(kPrefix.size());
    name.remove_suffix(kSuffix.size());
    const std::size_t dash = name.find('-');
    if (dash == std::string_view::npos || name.size() - dash - 1 != 16) {
        return std::nullopt;
    }
    std::uint16_t shard = 0;
    std::uint64_t sequence = 0;
    const char* end = name.data() + name.size();
    const auto [shard_end, shard_error] = std::from_chars(name.data(), name.data() + dash, shard);
    const auto [sequence_end, sequence_error] =
        std::from_chars(name.data() + dash + 1, end, sequence);
    if (shard_error != std::errc{} || shard_end != name.data() + dash ||
        sequence_error != std::errc{} || sequence_end != end) {
        return std::nullopt;
    }
    return JournalFileName{.shard = ShardIndex(shard), .sequence = sequence};
}

}  // namespace galgo::storage

// Makes damaged bytes of our formats verify again.
#include "seal.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "crypto/hash.hpp"
#include "storage/journal_format.hpp"
#include "storage/stored_batch.hpp"
#include "wire/batch.hpp"
#include "wire/prepare.hpp"

namespace galgo::fuzz {
namespace {

// wire/batch.hpp
constexpr std::size_t kBatchBaseOffsetAt = 8;
constexpr std::size_t kBatchLengthAt = 32;
constexpr std::size_t kBatchChecksumAt = 40;
constexpr std::size_t kBatchCountAt = 48;
constexpr std::size_t kBatchReservedAt = 52;
constexpr std::size_t kEncryptedBodyHashAt = 100;  // docs/formats/encryption.md
constexpr std::size_t kFrameOffsetDeltaAt = 24;
constexpr std::size_t kFrameHeadersLengthAt = 32;
constexpr std::size_t kFramePayloadLengthAt = 36;
constexpr std::size_t kFrameReservedAt = 40;

// docs/formats/journal.md
constexpr std::size_t kRecordKindAt = 4;
constexpr std::size_t kRecordConsumerKindAt = 5;
constexpr std::size_t kRecordBodyBytesAt = 88;
constexpr std::uint64_t kOffsetDistanceMax = 1000;

// docs/formats/wal.md: operations that the log knows, src/metadata/operation.hpp.
constexpr std::array<std::uint8_t, 26> kLogOperations{1,   3,   128, 129, 130, 131, 132, 133, 134,
                                                      135, 136, 137, 139, 140, 141, 142, 143, 144,
                                                      145, 146, 147, 148, 149, 200, 201, 202};
constexpr std::uint8_t kRegister = 1;

std::uint64_t small(std::uint64_t value, std::uint64_t bound) {
    return value < bound ? value : value % bound;
}

/// Bytes of the frame at the begin, 0 when it is not whole.
std::size_t frame_size(ConstBytes bytes) {
    if (bytes.size() < wire::kFrameHeaderSize) {
        return 0;
    }
    const std::size_t size = wire::kFrameHeaderSize +
                             std::size_t{load<std::uint32_t>(bytes, kFrameHeadersLengthAt)} +
                             std::size_t{load<std::uint32_t>(bytes, kFramePayloadLengthAt)};
    return size <= bytes.size() ? size : 0;
}

}  // namespace

std::size_t seal_batch(MutableBytes bytes, bool structure) {
    if (bytes.size() < wire::kBatchSizeMin) {
        return 0;
    }
    if (const auto stored = storage::decode_stored_header(bytes);
        stored && storage::is_encrypted(bytes) && stored->batch_length <= bytes.size()) {
        // The sums are right again, the tags are not.
        const MutableBytes batch = bytes.first(static_cast<std::size_t>(stored->batch_length));
        store<std::uint64_t>(batch, kEncryptedBodyHashAt,
                             crypto::xxh3_64(batch.subspan(wire::kBatchHeaderSize)));
        storage::stamp_encrypted(
            batch,
            {.partition = model::PartitionId(static_cast<std::uint32_t>(stored->partition_id)),
             .base_offset = Offset(stored->base_offset),
             .base_timestamp = Timestamp(stored->base_timestamp_us)});
        return batch.size();
    }
    std::size_t end = bytes.size();
    if (!structure) {
        const auto length = load<std::uint64_t>(bytes, kBatchLengthAt);
        if (length < wire::kBatchSizeMin || length > bytes.size()) {
            return 0;
        }
        end = static_cast<std::size_t>(length);
    }
    const std::uint32_t wanted = load<std::uint32_t>(bytes, kBatchCountAt);
    std::uint32_t count = 0;
    std::size_t at = wire::kBatchHeaderSize;
    while (at < end && !(structure && wanted != 0 && count == wanted)) {
        const MutableBytes rest = bytes.subspan(at, end - at);
        std::size_t size = frame_size(rest);
        if (size == 0) {
            if (!structure || rest.size() < wire::kFrameHeaderSize || count != 0) {
                break;
            }
            // The only frame takes what is there.
            store<std::uint32_t>(rest, kFrameHeadersLengthAt, 0);
            store<std::uint32_t>(rest, kFramePayloadLengthAt,
                                 static_cast<std::uint32_t>(rest.size() - wire::kFrameHeaderSize));
            size = rest.size();
        }
        if (structure) {
            store<std::uint32_t>(rest, kFrameOffsetDeltaAt, count);
            store<std::uint64_t>(rest, kFrameReservedAt, 0);
        }
        store<std::uint64_t>(rest, 0, crypto::xxh3_64(rest.subspan(8, size - 8)));
        at += size;
        ++count;
    }
    if (structure) {
        store<std::uint32_t>(bytes, kBatchCountAt, count);
        store<std::uint64_t>(bytes, kBatchLengthAt, at);
        std::ranges::fill(
            bytes.subspan(kBatchReservedAt, wire::kBatchHeaderSize - kBatchReservedAt),
            std::byte{0});
        end = at;
    }
    if (const auto header = wire::decode_batch_header(bytes)) {
        const ConstBytes frames =
            ConstBytes(bytes).subspan(wire::kBatchHeaderSize, end - wire::kBatchHeaderSize);
        if (const auto checksum = wire::batch_checksum(*header, frames)) {
            store<std::uint64_t>(bytes, kBatchChecksumAt, *checksum);
        }
    }
    return end;
}

void seal_log(MutableBytes bytes, bool structure) {
    std::uint64_t next = 0;
    while (bytes.size() >= wire::kBatchSizeMin) {
        if (structure) {
            const auto base = load<std::uint64_t>(bytes, kBatchBaseOffsetAt);
            if (base < next || base - next > kOffsetDistanceMax) {
                store<std::uint64_t>(bytes, kBatchBaseOffsetAt, next + base % 3);
            }
            // Mostly the batches of one log, from its begin on.
            if (next == 0 && base % 8 != 7) {
                store<std::uint64_t>(bytes, kBatchBaseOffsetAt, 0);
            }
            if (base % 16 != 15) {
                store<std::uint64_t>(bytes, 0, 0);
            }
        }
        const std::size_t size = seal_batch(bytes, structure);
        if (size == 0) {
            return;
        }
        next = load<std::uint64_t>(bytes, kBatchBaseOffsetAt) +
               load<std::uint32_t>(bytes, kBatchCountAt);
        bytes = bytes.subspan(size);
    }
}

void seal_journal(MutableBytes bytes, std::uint64_t sequence, bool structure) {
    if (bytes.size() < storage::kJournalFileHeaderBytes) {
        return;
    }
    storage::JournalFileHeader file{.epoch = load<std::uint64_t>(bytes, 16),
                                    .sequence = load<std::uint64_t>(bytes, 24)};
    if (structure) {
        file.epoch = small(file.epoch, 4);
        file.sequence = sequence;
    }
    storage::encode_journal_file_header(bytes, file);
    std::size_t at = storage::kJournalFileHeaderBytes;
    while (bytes.size() - at >= storage::kJournalRecordHeaderBytes) {
        const MutableBytes head = bytes.subspan(at);
        const std::size_t room = head.size() - storage::kJournalRecordHeaderBytes;
        storage::JournalRecord record{
            .kind = static_cast<storage::JournalKind>(load<std::uint8_t>(head, kRecordKindAt)),
            .consumer_kind = load<std::uint8_t>(head, kRecordConsumerKindAt),
            .consumer_id = load<std::uint32_t>(head, 92),
            .partition = PartitionKey(load<std::uint64_t>(head, 16)),
            .incarnation = Incarnation(load<std::uint64_t>(head, 24)),
            .op = OpNumber(load<std::uint64_t>(head, 32)),
            .commit_op = OpNumber(load<std::uint64_t>(head, 40)),
            .view = ViewNumber(load<std::uint32_t>(head, 80)),
            .base_offset = Offset(load<std::uint64_t>(head, 48)),
            .message_count = load<std::uint32_t>(head, 84),
            .timestamp = Timestamp(load<std::uint64_t>(head, 56)),
            .batch_checksum = load<std::uint64_t>(head, 64),
            .batch_length = load<std::uint64_t>(head, 72),
            .body_bytes = load<std::uint32_t>(head, kRecordBodyBytesAt),
            .stable_bytes = load<std::uint64_t>(head, 104),
            .prior_sequence = load<std::uint64_t>(head, 112),
            .prior_stable_bytes = load<std::uint64_t>(head, 120)};
        if (structure) {
            record.kind = static_cast<storage::JournalKind>(
                1 + small(static_cast<std::uint64_t>(record.kind) - 1, 5));
            record.partition = PartitionKey(small(record.partition.value(), 2));
            record.incarnation = Incarnation(small(record.incarnation.value(), 2));
            record.base_offset = Offset(small(record.base_offset.value(), 64));
            // Mostly the mark is where the writer could have been: not behind the record.
            record.stable_bytes = small(record.stable_bytes, at + at / 8);
            record.prior_sequence = small(record.prior_sequence, 3);
            record.prior_stable_bytes = small(record.prior_stable_bytes, 4 * kKiB);
            record.message_count =
                static_cast<std::uint32_t>(small(record.message_count, 1U << 20U));
            if (record.kind != storage::JournalKind::kBatch) {
                record.body_bytes = 0;
                record.message_count = std::max<std::uint32_t>(record.message_count, 1);
            } else {
                const MutableBytes body = head.subspan(storage::kJournalRecordHeaderBytes);
                const auto bound = std::min<std::size_t>(room, storage::kBulkBatchBytes - 1);
                if (body.size() < wire::kBatchSizeMin) {
                    return;
                }
                store<std::uint64_t>(body, kBatchBaseOffsetAt, record.base_offset.value());
                const std::size_t size = seal_batch(body.first(bound), true);
                record.body_bytes = static_cast<std::uint32_t>(size);
                record.batch_length = size;
                record.message_count = load<std::uint32_t>(body, kBatchCountAt);
                record.batch_checksum = load<std::uint64_t>(body, kBatchChecksumAt);
            }
        }
        if (record.body_bytes > room || record.body_bytes >= storage::kBulkBatchBytes) {
            return;
        }
        storage::encode_journal_record(
            head, record, head.subspan(storage::kJournalRecordHeaderBytes, record.body_bytes),
            file.seed(), at);
        at += storage::kJournalRecordHeaderBytes + record.body_bytes;
    }
}

void seal_entries(MutableBytes bytes, bool structure) {
    std::uint64_t op = 0;
    std::map<std::uint64_t, std::uint64_t> sessions;
    while (bytes.size() >= wire::kPrepareHeaderSize) {
        std::uint64_t size = load<std::uint32_t>(bytes, 32);
        if (size < wire::kPrepareHeaderSize || size > bytes.size()) {
            if (!structure) {
                return;
            }
            size =
                std::min<std::uint64_t>(bytes.size(), wire::kPrepareHeaderSize + small(size, 64));
        }
        auto operation = load<std::uint8_t>(bytes, 30);
        std::uint64_t client = load<std::uint64_t>(bytes, 80);
        std::uint64_t session = load<std::uint64_t>(bytes, 96);
        std::uint32_t user = load<std::uint32_t>(bytes, 120);
        std::uint64_t entry_op = load<std::uint64_t>(bytes, 40);
        u128 whole_client = load<u128>(bytes, 80);
        if (structure) {
            if (std::ranges::find(kLogOperations, operation) == kLogOperations.end()) {
                operation = kLogOperations[operation % kLogOperations.size()];
            }
            if (entry_op <= op || entry_op - op > kOffsetDistanceMax) {
                entry_op = op + 1;
            }
            client = 1 + small(client, 4);
            whole_client = client;
            session = operation == kRegister ? 0 : sessions[client];
            user = static_cast<std::uint32_t>(small(user, 3));
            if (operation == kRegister) {
                sessions[client] = entry_op;
            }
        }
        op = entry_op;
        wire::PrepareHeader header{.parent = load<std::uint64_t>(bytes, 16),
                                   .operation = static_cast<wire::Operation>(operation),
                                   .view = ViewNumber(load<std::uint32_t>(bytes, 36)),
                                   .op = OpNumber(entry_op),
                                   .commit = OpNumber(load<std::uint64_t>(bytes, 48)),
                                   .timestamp = Timestamp(load<std::uint64_t>(bytes, 56)),
                                   .group = load<std::uint64_t>(bytes, 64),
                                   .client = ClientId(whole_client),
                                   .session = SessionId(session),
                                   .request = RequestNumber(load<std::uint64_t>(bytes, 104)),
                                   .request_checksum = load<std::uint64_t>(bytes, 112),
                                   .user = model::UserId(user)};
        const auto whole = static_cast<std::size_t>(size);
        wire::encode_prepare_header(
            bytes.first(wire::kPrepareHeaderSize), header,
            bytes.subspan(wire::kPrepareHeaderSize, whole - wire::kPrepareHeaderSize));
        bytes = bytes.subspan(whole);
    }
}

void seal_wal(MutableBytes bytes, bool structure) {
    std::uint64_t sequence = 0;
    OpNumber head;
    for (std::size_t at = 0; at + storage::kWalBatchHeaderBytes <= bytes.size();) {
        const MutableBytes rest = bytes.subspan(at);
        storage::WalBatch batch{
            .kind = static_cast<storage::WalBatchKind>(load<std::uint16_t>(rest, 14)),
            .sequence = load<std::uint64_t>(rest, 16),
            .op_before = OpNumber(load<std::uint64_t>(rest, 56)),
            .op_first = OpNumber(load<std::uint64_t>(rest, 24)),
            .op_last = OpNumber(load<std::uint64_t>(rest, 32)),
            .entry_count = load<std::uint32_t>(rest, 40),
            .size_bytes = load<std::uint32_t>(rest, 44)};
        if (batch.size_bytes < storage::kWalBatchHeaderBytes || batch.size_bytes > rest.size()) {
            if (!structure) {
                return;
            }
            batch.size_bytes = static_cast<std::uint32_t>(
                std::min<std::size_t>(rest.size(), storage::kWalBlockBytes));
        }
        const MutableBytes entries = rest.subspan(storage::kWalBatchHeaderBytes,
                                                  batch.size_bytes - storage::kWalBatchHeaderBytes);
        seal_entries(entries, structure);
        if (structure) {
            batch.kind = storage::WalBatchKind::kEntries;
            batch.sequence = ++sequence;
            batch.op_before = batch.op_first = batch.op_last = head;
            batch.entry_count = 0;
            std::size_t taken = 0;
            while (entries.size() - taken >= wire::kPrepareHeaderSize) {
                // The ops of each batch begin anew: behind those of the one before.
                const MutableBytes entry = entries.subspan(taken);
                auto header = wire::decode_prepare_header(entry);
                if (!header.has_value() || header->size > entry.size()) {
                    break;
                }
                if (header->op <= batch.op_last) {
                    header->op = batch.op_last.next();
                    wire::encode_prepare_header(
                        entry.first(wire::kPrepareHeaderSize), *header,
                        entry.subspan(wire::kPrepareHeaderSize, header->body_size()));
                }
                batch.op_first = batch.entry_count == 0 ? header->op : batch.op_first;
                batch.op_last = header->op;
                ++batch.entry_count;
                taken += header->size;
            }
            batch.size_bytes = static_cast<std::uint32_t>(storage::kWalBatchHeaderBytes + taken);
            batch.kind = batch.entry_count == 0 ? storage::WalBatchKind::kMark : batch.kind;
            head = batch.op_last;
        }
        // What is missing of the last block is zeros on the disk.
        std::vector<std::byte> whole(batch.padded_bytes());
        std::ranges::copy(rest.first(std::min(rest.size(), whole.size())), whole.begin());
        storage::seal_wal_batch(whole, batch, kWalSeal);
        std::ranges::copy(ConstBytes(whole).first(storage::kWalBatchHeaderBytes), rest.begin());
        at += whole.size();
    }
}

}  // namespace galgo::fuzz

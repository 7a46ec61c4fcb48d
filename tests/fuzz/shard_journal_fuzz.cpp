// Any bytes as two journal files and the segment they protect: two u16 say how many bytes the
// journals have, the rest is the log file. Laws beyond those of log_rig.hpp:
//   * the records at the begin of a file count, each from its own bytes; more may stand behind
//     bytes that are none;
//   * a refused start is refused again, and changes no file;
//   * without damage only a log that waits for stable storage is fenced;
//   * the facts of a partition ascend without overlap; every body that is there is what was named;
//   * the log's end is behind every offset that a record names, and a body that is whole and fits
//   is
//     read from the log afterwards.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "log_rig.hpp"
#include "seal.hpp"
#include "storage/journal_format.hpp"
#include "wire/batch.hpp"

namespace galgo::fuzz {
namespace {

constexpr std::size_t kInputBytesMax = 128 * kKiB;
constexpr std::size_t kLengthsBytes = 4;

struct Parts {
    std::size_t first = 0;
    std::size_t second = 0;
};
Parts split(ConstBytes bytes) {
    const std::size_t size = bytes.size() - kLengthsBytes;
    const std::size_t first = std::min<std::size_t>(load<std::uint16_t>(bytes, 0), size);
    return {.first = first,
            .second = std::min<std::size_t>(load<std::uint16_t>(bytes, 2), size - first)};
}

/// Records at the begin of one file by a plain walk; what verifies encodes to the same bytes.
std::uint64_t walk(ConstBytes file, std::uint64_t sequence) {
    const auto header = storage::decode_journal_file_header(file);
    if (!header || header->sequence != sequence || header->shard != ShardIndex{0}) {
        return 0;
    }
    std::uint64_t count = 0;
    std::size_t at = storage::kJournalFileHeaderBytes;
    while (true) {
        const ConstBytes rest = file.subspan(at);
        const auto record = storage::decode_journal_record(rest);
        if (!record || record->body_bytes > rest.size() - storage::kJournalRecordHeaderBytes) {
            return count;
        }
        const ConstBytes body =
            rest.subspan(storage::kJournalRecordHeaderBytes, record->body_bytes);
        if (!storage::verify_journal_record(rest, body, header->seed(), at)) {
            return count;
        }
        std::byte encoded[storage::kJournalRecordHeaderBytes];
        storage::encode_journal_record(encoded, *record, body, header->seed(), at);
        GALGO_CHECK(storage::decode_journal_record(encoded) == record);
        ++count;
        at += storage::kJournalRecordHeaderBytes + record->body_bytes;
    }
}

void check_facts(const storage::JournalReplay& replay) {
    for (const auto& [key, facts] : replay.partitions()) {
        GALGO_CHECK(key.first == facts.partition && key.second == facts.incarnation);
        Offset end;
        for (const storage::JournaledBatch& batch : facts.batches) {
            GALGO_CHECK(batch.message_count != 0);
            GALGO_CHECK(batch.base_offset >= end);
            end = batch.end();
            GALGO_CHECK(end <= facts.end_named);
        }
    }
}

void run(ConstBytes bytes) {
    const Parts parts = split(bytes);
    const ConstBytes files[] = {bytes.subspan(kLengthsBytes, parts.first),
                                bytes.subspan(kLengthsBytes + parts.first, parts.second)};
    const ConstBytes log = bytes.subspan(kLengthsBytes + parts.first + parts.second);
    // One that waits for stable storage is fenced by what is missing, the other goes on.
    LogRig rig({.persisted = load<std::uint16_t>(bytes, 0) % 2 != 0});
    std::uint64_t records = 0;
    std::string paths[2];
    for (std::uint64_t i = 0; i < 2; ++i) {
        paths[i] = kStateDirectory + '/' + storage::journal_file_name(ShardIndex{0}, i + 1);
        rig.disk().write_file(paths[i], files[i]);
        records += walk(files[i], i + 1);
    }
    if (!log.empty() && !is_foreign(log)) {  // that fences, whatever the journals say
        rig.write("00000000000000000000.log", log);
    }
    if (!rig.try_open()) {
        const std::string refusal = rig.replay().refusal();
        const bool opened = rig.try_open();
        GALGO_CHECK(!opened && rig.replay().refusal() == refusal);
        for (std::size_t i = 0; i < 2; ++i) {
            const auto now = rig.disk().read_file(paths[i]);
            GALGO_CHECK(now.has_value() && std::ranges::equal(*now, files[i]));
        }
        return;
    }
    GALGO_CHECK(rig.replay().record_count() >= records);
    check_facts(rig.replay());
    const storage::JournalFacts* facts = rig.replay().find(PartitionKey{0}, Incarnation{0});
    if (facts != nullptr) {
        GALGO_CHECK(rig.log().end_offset() >= facts->end_named);
    }
    const bool fenced = rig.log().fenced().has_value();
    GALGO_CHECK(!fenced || rig.log().options().persisted || rig.replay().damaged_count() != 0);
    const Offset end = rig.log().end_offset();
    const std::vector<ReadMessage> messages = rig.read_all(3, true);
    rig.close();
    rig.check_indexes();

    rig.open();
    GALGO_CHECK(rig.log().fenced().has_value() == fenced);
    GALGO_CHECK(rig.read_all(1000, true) == messages);
    GALGO_CHECK(rig.log().recovery().cut_bytes == 0);
    GALGO_CHECK(rig.log().end_offset() == end);
}

}  // namespace
}  // namespace galgo::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size >= galgo::fuzz::kLengthsBytes && size <= galgo::fuzz::kInputBytesMax) {
        galgo::fuzz::run(std::as_bytes(std::span(data, size)));
    }
    return 0;
}

extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure) {
    using namespace galgo::fuzz;
    if (size < kLengthsBytes) {
        return;
    }
    const auto bytes = std::as_writable_bytes(std::span(data, size));
    const Parts parts = split(bytes);
    seal_journal(bytes.subspan(kLengthsBytes, parts.first), 1, structure);
    seal_journal(bytes.subspan(kLengthsBytes + parts.first, parts.second), 2, structure);
    seal_log(bytes.subspan(kLengthsBytes + parts.first + parts.second), structure);
}

// Any bytes as the log file of a segment, without an index. Laws beyond those of log_rig.hpp,
// against a plain walk over the same bytes:
//   * the whole batches at the begin are kept to the last byte, all else is cut and counted;
//   * nothing that is there comes back under another offset, and no offset that a kept batch has is
//     given to an append; what is appended is read back, before and after a restart;
//   * a log that begins with another batch than its name says is fenced, kept and not read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "log_rig.hpp"
#include "seal.hpp"
#include "storage/stored_batch.hpp"
#include "wire/batch.hpp"

namespace galgo::fuzz {
namespace {

constexpr std::size_t kInputBytesMax = 256 * kKiB;
const std::string kLogName = "00000000000000000000.log";
/// Appends behind such an end cannot wrap.
constexpr Offset kEndMax{std::uint64_t{1} << 62U};

struct Prefix {
    std::size_t bytes = 0;
    bool encrypted = false;  ///< one of them
    std::vector<ReadMessage> messages;
};

/// The valid batches at the begin.
Prefix walk(ConstBytes bytes) {
    Prefix prefix;
    std::uint64_t end = 0;
    while (true) {
        const ConstBytes rest = bytes.subspan(prefix.bytes);
        const auto header = storage::decode_stored_header(rest);
        if (!header || header->batch_length > rest.size() || header->base_offset < end ||
            header->partition_id != 0 ||
            header->base_offset > ~std::uint64_t{0} - header->message_count) {
            return prefix;
        }
        const auto size = static_cast<std::size_t>(header->batch_length);
        if (!storage::validate_stored(rest.first(size))) {
            return prefix;
        }
        prefix.encrypted = prefix.encrypted || storage::is_encrypted(rest);
        const auto view = wire::BatchView::validate(rest.first(size));
        wire::FrameCursor cursor(view ? view->frames() : ConstBytes{});
        while (!cursor.at_end()) {
            const auto message = cursor.next();
            prefix.messages.push_back(
                {.offset = Offset(header->base_offset + message->offset_delta),
                 .timestamp = Timestamp(header->base_timestamp_us),
                 .checksum = message->checksum});
        }
        end = header->base_offset + header->message_count;
        prefix.bytes += size;
    }
}

/// A header of an encrypted batch anywhere.
bool has_encrypted(ConstBytes bytes) {
    for (std::size_t at = 0; at + wire::kBatchHeaderSize <= bytes.size(); ++at) {
        if (storage::is_encrypted(bytes.subspan(at)) &&
            storage::decode_stored_header(bytes.subspan(at)).has_value()) {
            return true;
        }
    }
    return false;
}

void check_foreign(ConstBytes bytes) {
    LogRig rig;
    rig.write(kLogName, bytes);
    for (int boot = 0; boot < 2; ++boot) {
        rig.open();
        GALGO_CHECK(rig.log().fenced().has_value());
        GALGO_CHECK(rig.read_all(10, true).empty());
        GALGO_CHECK(!rig.append(1).has_value());
        rig.close();
        const Bytes kept = rig.file(kLogName).value_or(Bytes{});
        GALGO_CHECK(std::ranges::equal(kept, bytes));
    }
}

/// Encrypted batches stand as they are, whether their tags fit or not; what can be read of them
/// stays the same.
void check_encrypted(ConstBytes bytes, const Prefix& prefix) {
    LogRig rig;
    rig.write(kLogName, bytes);
    rig.open();
    GALGO_CHECK(!rig.log().fenced().has_value());
    GALGO_CHECK(rig.log().recovery_complete());
    GALGO_CHECK(rig.log().recovery().cut_bytes == bytes.size() - prefix.bytes);
    const std::vector<ReadMessage> messages = rig.read_all(3, false);
    const Offset end = rig.log().end_offset();
    rig.close();
    rig.check_indexes();
    const Bytes kept = rig.file(kLogName).value_or(Bytes{});
    GALGO_CHECK(kept.size() >= prefix.bytes);
    GALGO_CHECK(std::ranges::equal(std::span(kept).first(prefix.bytes), bytes.first(prefix.bytes)));

    rig.open();
    GALGO_CHECK(rig.log().recovery().cut_bytes == 0);
    GALGO_CHECK(rig.log().end_offset() == end);
    GALGO_CHECK(rig.read_all(3, false) == messages);
}

void run(ConstBytes bytes) {
    if (is_foreign(bytes)) {
        check_foreign(bytes);
        return;
    }
    const Prefix prefix = walk(bytes);
    // Behind damage, too: whole batches there are written again.
    if (prefix.encrypted || has_encrypted(bytes.subspan(prefix.bytes))) {
        check_encrypted(bytes, prefix);
        return;
    }
    LogRig rig;
    rig.write(kLogName, bytes);
    rig.open();
    GALGO_CHECK(!rig.log().fenced().has_value());
    GALGO_CHECK(rig.log().recovery_complete());
    GALGO_CHECK(rig.log().recovery().cut_bytes == bytes.size() - prefix.bytes);
    GALGO_CHECK(rig.log().recovery().lost_message_count == 0);
    std::vector<ReadMessage> messages = rig.read_all(3, true);
    GALGO_CHECK(messages.size() >= prefix.messages.size());
    GALGO_CHECK(
        std::ranges::equal(prefix.messages, std::span(messages).first(prefix.messages.size())));
    if (rig.log().recovery().salvaged_batch_count == 0) {
        GALGO_CHECK(messages.size() == prefix.messages.size());
    }
    const Offset end = rig.log().end_offset();
    if (!messages.empty()) {
        GALGO_CHECK(rig.log().first_offset() == messages.front().offset);
        GALGO_CHECK(messages.back().offset < end);
    }
    rig.close();
    rig.check_indexes();
    const Bytes kept = rig.file(kLogName).value_or(Bytes{});
    if (prefix.bytes != 0) {
        GALGO_CHECK(kept.size() >= prefix.bytes);
        GALGO_CHECK(
            std::ranges::equal(std::span(kept).first(prefix.bytes), bytes.first(prefix.bytes)));
    }

    rig.open();
    GALGO_CHECK(rig.log().recovery().cut_bytes == 0);
    GALGO_CHECK(rig.log().end_offset() == end);
    GALGO_CHECK(rig.read_all(1000, true) == messages);
    // An append makes a journal file, which costs more than all before it: one input in four.
    if (end >= kEndMax || bytes.size() % 4 != 0) {
        return;
    }
    GALGO_CHECK(rig.append(2).has_value());
    GALGO_CHECK(rig.log().end_offset() == end.plus(2));
    const std::vector<ReadMessage> appended = rig.read_all(7, true);
    GALGO_CHECK(appended.size() == messages.size() + 2);
    GALGO_CHECK(appended[messages.size()].offset == end);
    rig.close();
    rig.check_indexes();

    rig.open();
    GALGO_CHECK(rig.read_all(1000, true) == appended);
}

}  // namespace
}  // namespace galgo::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size <= galgo::fuzz::kInputBytesMax) {
        galgo::fuzz::run(std::as_bytes(std::span(data, size)));
    }
    return 0;
}

extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure) {
    galgo::fuzz::seal_log(std::as_writable_bytes(std::span(data, size)), structure);
}

// Fuzzes a whole frame: the three header shapes and the log's own, and the body by the decoder that
// its operation and code choose. Laws: nothing crashes; a header without a fault encodes and
// decodes to itself; what decodes of the body obeys command_laws.hpp; a reply's payload is inside
// its frame.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "command_laws.hpp"
#include "fuzz_target.hpp"
#include "wire/command_table.hpp"
#include "wire/header.hpp"
#include "wire/prepare.hpp"
#include "wire/reply_decoders.hpp"

namespace galgo::wire {
namespace {

bool inside(ConstBytes part, ConstBytes whole) {
    return part.empty() || (std::to_address(part.begin()) >= std::to_address(whole.begin()) &&
                            std::to_address(part.end()) <= std::to_address(whole.end()));
}

void decode_reply(ConstBytes frame) {
    const auto header = decode_reply_header(frame);
    if (!header) {
        return;
    }
    const auto payload = reply_payload(*header, frame.subspan(kHeaderSize));
    if (!payload) {
        return;
    }
    GALGO_CHECK(inside(*payload, frame));
    (void)decode_login_reply(*payload);
    (void)decode_stream(*payload);
    (void)decode_topic_details(*payload);
    (void)decode_send_confirmation(*payload);
    (void)decode_consumer_offset(*payload);
    (void)decode_sync_reply(*payload);
}

void check_prepare(ConstBytes bytes, ConstBytes body) {
    auto header = decode_prepare_header(bytes);
    if (!header) {
        return;
    }
    const PrepareHeader before = *header;
    if (!prepare_body_matches(*header, body)) {
        return;
    }
    std::array<std::byte, kPrepareHeaderSize> encoded{};
    encode_prepare_header(encoded, *header, body);
    // Reserved bytes are covered by the checksum and not kept.
    header->checksum = before.checksum;
    GALGO_CHECK(*header == before);
    GALGO_CHECK(decode_prepare_header(encoded).has_value());
}

void check_request(const RequestHeader& header) {
    std::array<std::byte, kHeaderSize> encoded{};
    encode_request_header(encoded, header);
    const DecodedRequestHeader again = decode_request_header(encoded, kMaxFrameBytesDefault);
    GALGO_CHECK(again.fault == HeaderFault::kNone);
    GALGO_CHECK(again.header.size == header.size);
    GALGO_CHECK(again.header.operation == header.operation);
    if (header.operation == Operation::kNonReplicated) {
        GALGO_CHECK(again.header.code == header.code);
    }
    GALGO_CHECK(again.header.client == header.client);
    GALGO_CHECK(again.header.session == header.session);
    GALGO_CHECK(again.header.request == header.request);
    GALGO_CHECK(again.header.request_checksum == header.request_checksum);
}

void run(ConstBytes frame) {
    if (frame.size() < kHeaderSize) {
        return;
    }
    const ConstBytes bytes = frame.first(kHeaderSize);
    const ConstBytes body = frame.subspan(kHeaderSize);
    check_prepare(bytes, body);
    (void)decode_eviction(bytes);
    decode_reply(frame);
    const DecodedRequestHeader decoded = decode_request_header(bytes, kMaxFrameBytesDefault);
    GALGO_CHECK((decoded.fault == HeaderFault::kSize) ==
                (decoded.header.size < kHeaderSize || decoded.header.size > kMaxFrameBytesDefault));
    if (decoded.fault != HeaderFault::kNone) {
        return;
    }
    check_request(decoded.header);
    if (decoded.header.operation == Operation::kNonReplicated) {
        check_command(decoded.header.code, body);
    } else if (const CommandRow* row = find_command(decoded.header.operation)) {
        check_command(row->code, body);
    }
}

}  // namespace
}  // namespace galgo::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    galgo::wire::run(std::as_bytes(std::span(data, size)));
    return 0;
}

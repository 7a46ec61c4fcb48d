// Fuzzes batches: validation whole and in steps agree; the messages of a valid batch are as many as
// it says, numbered from 0, and tile its frames; it stays valid when stamped and in every slice;
// what a builder makes of its messages is a batch again; readers of unchecked batches (slices, poll
// replies) never leave their bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "seal.hpp"
#include "wire/batch.hpp"
#include "wire/reply_decoders.hpp"

namespace galgo::wire {
namespace {

Result<bool> validate_in_steps(ConstBytes batch, OffsetDeltas deltas) {
    GALGO_TRY_ASSIGN(BatchValidator validator, BatchValidator::begin(batch, deltas));
    for (;;) {
        GALGO_TRY_ASSIGN(const bool done, validator.step(7));
        if (done) {
            return true;
        }
    }
}

void check_agreement(ConstBytes batch, OffsetDeltas deltas) {
    const auto whole = BatchView::validate(batch, deltas);
    const auto stepped = validate_in_steps(batch, deltas);
    GALGO_CHECK(whole.has_value() == stepped.has_value());
    if (!whole) {
        GALGO_CHECK(whole.error() == stepped.error());
    }
}

/// Every message, in bounds.
void check_messages(const BatchView& view) {
    FrameCursor cursor = view.cursor();
    std::uint32_t count = 0;
    std::size_t frames_size = 0;
    while (!cursor.at_end()) {
        const auto message = cursor.next();
        GALGO_CHECK(message.has_value());
        GALGO_CHECK(message->offset_delta == count);
        GALGO_CHECK(message->frame.size() ==
                    kFrameHeaderSize + message->payload.size() + message->user_headers.size());
        GALGO_CHECK(message->checksum == crypto::xxh3_64(message->frame.subspan(8)));
        frames_size += message->frame.size();
        GALGO_CHECK(cursor.position() == frames_size);
        ++count;
    }
    GALGO_CHECK(count == view.header().message_count);
    GALGO_CHECK(frames_size == view.header().frames_size());
    GALGO_CHECK(view.bytes().size() == view.header().batch_length);
}

/// What a producer would send of the same messages.
void check_rebuilt(const BatchView& view) {
    BatchBuilder builder;
    const std::uint64_t origin = view.header().origin_timestamp_us;
    builder.reset(origin);
    FrameCursor cursor = view.cursor();
    while (!cursor.at_end()) {
        const auto message = cursor.next();
        if (origin > ~std::uint64_t{0} - message->timestamp_delta_us) {
            return;  // a time that no producer can name
        }
        builder.add({.id = message->id,
                     .timestamp_us = origin + message->timestamp_delta_us,
                     .payload = message->payload,
                     .user_headers = message->user_headers});
    }
    const auto again = BatchView::validate(builder.finish());
    GALGO_CHECK(again.has_value());
    GALGO_CHECK(std::ranges::equal(again->frames(), view.frames()));
}

void check_valid(ConstBytes bytes) {
    std::vector<std::byte> batch(bytes.begin(), bytes.end());
    const BatchHeader header = stamp_batch(batch, {.partition = model::PartitionId(1),
                                                   .base_offset = Offset(2),
                                                   .base_timestamp = Timestamp(3)});
    GALGO_CHECK(BatchView::validate(batch).has_value());
    const std::uint32_t half = header.message_count / 2;
    for (const MessageRange range :
         {MessageRange{0, half}, MessageRange{half, header.message_count - half}}) {
        const auto slice = slice_batch(batch, range);
        GALGO_CHECK(slice.has_value() == (range.count > 0));
        if (!slice) {
            continue;
        }
        std::vector<std::byte> cut(slice->header.begin(), slice->header.end());
        cut.insert(cut.end(), batch.begin() + static_cast<std::ptrdiff_t>(slice->begin),
                   batch.begin() + static_cast<std::ptrdiff_t>(slice->end));
        GALGO_CHECK(BatchView::validate(cut, OffsetDeltas::kContiguous).has_value());
    }
}

void run(ConstBytes bytes) {
    check_agreement(bytes, OffsetDeltas::kFromZero);
    check_agreement(bytes, OffsetDeltas::kContiguous);
    if (const auto view = BatchView::validate(bytes)) {
        check_messages(*view);
        check_rebuilt(*view);
        check_valid(bytes);
    }
    const auto first = bytes.empty() ? std::uint32_t{0} : std::to_integer<std::uint32_t>(bytes[0]);
    (void)slice_batch(bytes, {.first = first, .count = 1});
    (void)slice_batch(bytes, {.first = 0, .count = first});
    auto reader = PollReplyReader::begin(bytes);
    while (reader) {
        const auto message = reader->next();
        if (!message || !*message) {
            break;
        }
    }
}

}  // namespace
}  // namespace galgo::wire

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    galgo::wire::run(std::as_bytes(std::span(data, size)));
    return 0;
}

extern "C" void seal_fuzz_input(std::uint8_t* data, std::size_t size, bool structure) {
    galgo::fuzz::seal_batch(std::as_writable_bytes(std::span(data, size)), structure);
}

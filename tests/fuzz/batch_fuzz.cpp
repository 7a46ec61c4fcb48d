// Fuzzes batches: validation whole and in steps agree; a valid batch stays valid when stamped and
// in every slice; readers of unchecked batches (slices, poll replies) never leave their bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "base/check.hpp"
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
    if (BatchView::validate(bytes)) {
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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    galgo::wire::run(std::as_bytes(std::span(data, size)));
    return 0;
}

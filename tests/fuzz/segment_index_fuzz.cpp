// Any bytes as the index files of a sound log of two segments: the first two bytes say how many of
// the others belong to the first. Law: the index is derived, so a log with a wrong one answers like
// a log with none: same bounds, same messages from every offset, same offset for every time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "fuzz_target.hpp"
#include "log_rig.hpp"
#include "storage/segment_format.hpp"
#include "wire/batch.hpp"

namespace galgo::fuzz {
namespace {

constexpr std::size_t kInputBytesMax = 16 * kKiB;
constexpr Offset kFirstStart{5};
constexpr Offset kFirstEnd{25};
constexpr Offset kSecondStart{40};
constexpr std::uint32_t kBatches = 6;  // a segment

struct Model {
    Bytes logs[2];
    std::vector<ReadMessage> messages;
    Offset first_end;
    Offset end;
};

Model make_model() {
    Model model;
    Offset at = kFirstStart;
    std::uint64_t time = 1000;
    for (Bytes& log : model.logs) {
        for (std::uint32_t i = 0; i < kBatches; ++i) {
            const std::uint32_t count = 1 + i % 3;
            const Bytes batch = make_batch(at, count, Timestamp(time));
            const auto view = wire::BatchView::validate(batch);
            wire::FrameCursor cursor = view->cursor();
            while (!cursor.at_end()) {
                const auto message = cursor.next();
                model.messages.push_back({.offset = at.plus(message->offset_delta),
                                          .timestamp = Timestamp(time),
                                          .checksum = message->checksum});
            }
            log.insert(log.end(), batch.begin(), batch.end());
            at = at.plus(count + (i % 5 == 4 ? 2 : 0));  // holes
            time += i % 4 == 1 ? 0 : 10;                 // and equal times
        }
        model.end = model.messages.back().offset.next();
        model.first_end = model.first_end == Offset{0} ? model.end : model.first_end;
        at = kSecondStart;
    }
    return model;
}

void check(LogRig& rig, const Model& model) {
    GALGO_CHECK(rig.log().first_offset() == model.messages.front().offset);
    GALGO_CHECK(rig.log().end_offset() == model.end);
    GALGO_CHECK(rig.log().last_timestamp() == model.messages.back().timestamp);
    for (std::uint64_t from = 0; from < model.end.value(); ++from) {
        if (from > kFirstEnd.value() && from < kSecondStart.value()) {
            continue;  // far from any message
        }
        const auto got = rig.read(Offset(from), 4);
        GALGO_CHECK(got.has_value());
        const auto behind =
            std::ranges::lower_bound(model.messages, Offset(from), {}, &ReadMessage::offset);
        const auto wanted = std::min<std::ptrdiff_t>(4, model.messages.end() - behind);
        GALGO_CHECK(std::ranges::equal(*got, std::span(behind, static_cast<std::size_t>(wanted))));
    }
    for (std::uint64_t time = 990; time < model.messages.back().timestamp.value() + 10;
         time += 10) {
        const auto got = rig.offset_at_or_after(Timestamp(time));
        GALGO_CHECK(got.has_value());
        const auto wanted = std::ranges::find_if(
            model.messages,
            [time](const ReadMessage& message) { return message.timestamp.value() >= time; });
        GALGO_CHECK(*got == (wanted == model.messages.end() ? model.end : wanted->offset));
    }
}

void run(std::size_t split, ConstBytes bytes) {
    static const Model model = make_model();
    const Offset starts[] = {kFirstStart, kSecondStart};
    split = std::min(split, bytes.size());
    const ConstBytes indexes[] = {bytes.first(split), bytes.subspan(split)};
    LogRig rig;
    for (const Offset hole : {Offset{0}, model.first_end}) {
        rig.write(storage::segment_file_name(hole, storage::kLogExtension), {});
    }
    for (int i = 0; i < 2; ++i) {
        rig.write(storage::segment_file_name(starts[i], storage::kLogExtension), model.logs[i]);
        rig.write(storage::segment_file_name(starts[i], storage::kIndexExtension), indexes[i]);
    }
    rig.open();
    GALGO_CHECK(!rig.log().fenced().has_value());
    GALGO_CHECK(rig.log().recovery().cut_bytes == 0);
    check(rig, model);
    rig.close();
    rig.open();
    GALGO_CHECK(rig.read_all(1000, true) == model.messages);
}

}  // namespace
}  // namespace galgo::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size >= 2 && size <= galgo::fuzz::kInputBytesMax) {
        const auto bytes = std::as_bytes(std::span(data, size));
        galgo::fuzz::run(galgo::load<std::uint16_t>(bytes, 0), bytes.subspan(2));
    }
    return 0;
}

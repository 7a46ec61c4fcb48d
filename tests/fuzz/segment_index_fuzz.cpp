// Any bytes as the index files of a sound log of two segments: the first two bytes say how many of
// the others belong to the first; by their highest bit, entries whose check is 0 get the right one.
// Laws:
//   * an entry that does not verify says nothing: the log answers like one without an index, with
//     the same bounds, the same messages from every offset, and the same offset for every time;
//   * a last entry that verifies and is not true fences: the log is not what it was, and stays as
//   it
//     is;
//   * a verified entry is never cut away.
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

constexpr std::uint16_t kSealed = 0x8000;
constexpr Offset kStarts[] = {kFirstStart, kSecondStart};

struct Model {
    Bytes logs[2];
    std::vector<storage::IndexEntry> batches[2];
    std::vector<ReadMessage> messages;
    Offset first_end;
    Offset end;
};

Model make_model() {
    Model model;
    Offset at = kFirstStart;
    std::uint64_t time = 1000;
    for (int segment = 0; segment < 2; ++segment) {
        Bytes& log = model.logs[segment];
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
            model.batches[segment].push_back(
                {.offset = at, .timestamp = Timestamp(time), .position = log.size()});
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

std::uint64_t seed_of(int segment) {
    return storage::index_seed(PartitionKey{0}, Incarnation{0}, kStarts[segment]);
}

/// Entries whose check is 0 get the right one.
void seal_index(MutableBytes index, int segment) {
    for (std::size_t at = 0; at + storage::kIndexEntryBytes <= index.size();
         at += storage::kIndexEntryBytes) {
        const auto place = index.subspan(at, storage::kIndexEntryBytes);
        storage::IndexEntry entry = storage::decode_unchecked_entry(place);
        if (entry.position <= storage::kIndexPositionMax) {
            storage::encode_index_entry(place, entry, seed_of(segment));
        }
    }
}

/// Those that verify, by position; of several at one position the first in the file counts.
std::vector<storage::IndexEntry> verified(ConstBytes index, int segment) {
    std::vector<storage::IndexEntry> entries;
    for (std::size_t at = 0; at + storage::kIndexEntryBytes <= index.size();
         at += storage::kIndexEntryBytes) {
        const auto entry = storage::decode_index_entry(index.subspan(at), seed_of(segment));
        if (entry.has_value() && entry->offset != Offset{~std::uint64_t{0}}) {
            entries.push_back(*entry);
        }
    }
    std::ranges::stable_sort(entries, {}, &storage::IndexEntry::position);
    return entries;
}

/// The word of a format without checks, that there was more than there is.
bool says_more_unchecked(ConstBytes index, const Model& model) {
    const std::size_t places = index.size() / storage::kIndexEntryBytes;
    if (places == 0 || !verified(index, 1).empty()) {
        return false;
    }
    const auto place = [index](std::size_t at) {
        return storage::decode_unchecked_entry(index.subspan(at * storage::kIndexEntryBytes));
    };
    return place(0).position == 0 && place(0).offset == kSecondStart &&
           place(places - 1).position >= model.logs[1].size();
}

void run(std::uint16_t head, ConstBytes bytes) {
    static const Model model = make_model();
    const std::size_t split = std::min<std::size_t>(head & ~kSealed, bytes.size());
    Bytes indexes[] = {Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(split)),
                       Bytes(bytes.begin() + static_cast<std::ptrdiff_t>(split), bytes.end())};
    LogRig rig;
    for (const Offset hole : {Offset{0}, model.first_end}) {
        rig.write(storage::segment_file_name(hole, storage::kLogExtension), {});
    }
    bool proves_otherwise = false;  // by a last entry
    bool any_is_wrong = false;      // of those that verify: noticed where a start looks
    for (int i = 0; i < 2; ++i) {
        if ((head & kSealed) != 0) {
            seal_index(indexes[i], i);
        }
        const auto entries = verified(indexes[i], i);
        for (const storage::IndexEntry& entry : entries) {
            any_is_wrong = any_is_wrong ||
                           std::ranges::find(model.batches[i], entry) == model.batches[i].end();
        }
        if (!entries.empty()) {
            const auto last =
                std::ranges::find(entries, entries.back().position, &storage::IndexEntry::position);
            proves_otherwise = proves_otherwise ||
                               std::ranges::find(model.batches[i], *last) == model.batches[i].end();
        }
        rig.write(storage::segment_file_name(kStarts[i], storage::kLogExtension), model.logs[i]);
        rig.write(storage::segment_file_name(kStarts[i], storage::kIndexExtension), indexes[i]);
    }
    rig.open();
    const bool fenced = rig.log().fenced().has_value();
    GALGO_CHECK(fenced || !proves_otherwise);
    GALGO_CHECK(!fenced || any_is_wrong || says_more_unchecked(indexes[1], model));
    GALGO_CHECK(rig.log().recovery().cut_bytes == 0);
    if (!fenced) {
        check(rig, model);
    }
    rig.close();
    for (int i = 0; i < 2; ++i) {
        const auto log = rig.file(storage::segment_file_name(kStarts[i], storage::kLogExtension));
        GALGO_CHECK(log == model.logs[i]);
        const auto index =
            rig.file(storage::segment_file_name(kStarts[i], storage::kIndexExtension));
        const auto before = verified(indexes[i], i);
        const auto after = verified(index.value_or(Bytes{}), i);
        for (std::size_t at = 0; at < before.size(); ++at) {
            const bool alone = std::ranges::count(before, before[at].position,
                                                  &storage::IndexEntry::position) == 1;
            GALGO_CHECK(!alone || std::ranges::find(after, before[at]) != after.end());
        }
    }
    rig.open();
    GALGO_CHECK(rig.log().fenced().has_value() == fenced);
    GALGO_CHECK(fenced || rig.read_all(1000, true) == model.messages);
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

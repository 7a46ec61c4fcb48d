#include "reply.hpp"

#include <format>

#include "wire/batch.hpp"

namespace galgo::log_model {

namespace {

Difference take_batch(ConstBytes bytes, Reply& reply) {
    const auto view = wire::BatchView::validate(bytes, wire::OffsetDeltas::kContiguous);
    if (!view.has_value()) {
        return std::format("a batch of a reply does not verify: {}", to_string(view.error()));
    }
    wire::FrameCursor cursor = view->cursor();
    while (!cursor.at_end()) {
        const auto message = cursor.next();
        if (!message.has_value()) {
            return "a frame of a reply cannot be read";
        }
        const std::uint64_t offset = view->header().base_offset + message->offset_delta;
        if (!reply.messages.empty() && offset <= reply.messages.back().offset) {
            return std::format("offset {} follows {}", offset, reply.messages.back().offset);
        }
        reply.messages.push_back({.offset = offset,
                                  .base = view->header().base_offset,
                                  .index = message->offset_delta,
                                  .frame_bytes = static_cast<std::uint32_t>(message->frame.size()),
                                  .serial = static_cast<std::uint64_t>(message->id >> 16U),
                                  .checksum = message->checksum,
                                  .timestamp = view->header().base_timestamp_us});
    }
    return std::nullopt;
}

}  // namespace

Difference take_apart(const storage::ReadSlices& slices, Reply& reply) {
    std::vector<std::byte> all;
    all.reserve(slices.bytes);
    for (const memory::BufRef& slice : slices.slices) {
        all.insert(all.end(), slice.bytes().begin(), slice.bytes().end());
    }
    reply.bytes += all.size();
    if (all.size() != slices.bytes) {
        return std::format("a reply of {} bytes says it has {}", all.size(), slices.bytes);
    }
    const std::size_t before = reply.messages.size();
    for (std::size_t at = 0; at < all.size();) {
        const auto header = wire::decode_batch_header(ConstBytes(all).subspan(at));
        if (!header.has_value() || header->batch_length > all.size() - at) {
            return "the batches of a reply do not tile it";
        }
        if (Difference found = take_batch(ConstBytes(all).subspan(at, header->batch_length), reply);
            found.has_value()) {
            return found;
        }
        at += header->batch_length;
    }
    const std::size_t count = reply.messages.size() - before;
    if (count != slices.message_count) {
        return std::format("a reply of {} messages says it has {}", count, slices.message_count);
    }
    if (count != 0 && (slices.first.value() != reply.messages[before].offset ||
                       slices.next.value() != reply.messages.back().offset + 1)) {
        return "first or next of a reply is not that of its messages";
    }
    return std::nullopt;
}

}  // namespace galgo::log_model

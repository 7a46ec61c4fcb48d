// Reply: what a handler leaves behind for the connection to send. One object a connection, cleared
// and used again for each request, so that a request in steady state allocates nothing.
//
// A frame reply is header + head bytes + slices. Small bodies live in `head`; payload travels as
// slices of pool buffers, which the connection keeps until the send has completed. The connection
// fills in the header's size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "memory/buffer.hpp"
#include "wire/header.hpp"

namespace galgo::net {

enum class ReplyKind : std::uint8_t {
    kNothing,   ///< no frame goes out and the connection stays
    kFrame,     ///< `header`, `head`, `slices`
    kEviction,  ///< `eviction`
};

struct Reply {
    ReplyKind kind = ReplyKind::kNothing;
    wire::ReplyHeader header;
    wire::EvictionHeader eviction;
    std::vector<std::byte> head;  ///< first part of the body; capacity is kept across requests
    std::vector<memory::BufRef> slices;  ///< the rest of it, in order; capacity is kept

    void clear() noexcept {
        kind = ReplyKind::kNothing;
        header = {};
        head.clear();
        slices.clear();
    }
    /// Makes this a frame that echoes `request`, with an empty body and status 0.
    void start_frame(const wire::RequestHeader& request) {
        clear();
        kind = ReplyKind::kFrame;
        header = wire::reply_to(request);
    }
    void set_status(const wire::RequestHeader& request, ErrorCode status) {
        start_frame(request);
        header.status = status;
    }
    void set_eviction(ClientId client, wire::EvictionReason reason) {
        clear();
        kind = ReplyKind::kEviction;
        eviction = {.client = client, .reason = reason};
    }
    void append(ConstBytes bytes) { head.insert(head.end(), bytes.begin(), bytes.end()); }
    [[nodiscard]] std::size_t body_size() const noexcept {
        std::size_t size = head.size();
        for (const memory::BufRef& slice : slices) {
            size += slice.size();
        }
        return size;
    }
};

}  // namespace galgo::net

// The log's own form of CreateTopic (see operation.hpp).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "wire/primitives.hpp"

namespace galgo::metadata::detail {

struct CreateTopicBody {
    wire::Identifier stream;
    std::uint32_t partition_count = 0;
    std::string_view name;
    ConstBytes explicit_block;
    ConstBytes derived_block;
};

[[nodiscard]] inline std::vector<std::byte> encode_create_topic(const CreateTopicBody& body) {
    ByteWriter to;
    wire::put_identifier(to, body.stream);
    to.put<std::uint32_t>(body.partition_count);
    wire::put_name(to, body.name);
    wire::put_block32(to, body.explicit_block);
    wire::put_block32(to, body.derived_block);
    return std::move(to).take();
}

/// Error: kInvalidCommand.
[[nodiscard]] inline Result<CreateTopicBody> decode_create_topic(ConstBytes bytes) noexcept {
    wire::FieldReader from(bytes);
    CreateTopicBody body;
    body.stream = from.identifier();
    body.partition_count = from.u32();
    body.name = from.name();
    body.explicit_block = from.block32();
    body.derived_block = from.block32();
    return from.finish(body);
}

}  // namespace galgo::metadata::detail

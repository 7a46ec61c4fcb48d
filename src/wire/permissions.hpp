// Codec of model::Permissions.
//   10 bytes of global rights | has_streams u8 | per stream: id u32, 6 bytes, has_topics u8,
//   [per topic: id u32, 4 bytes, has_next u8]..., has_next u8
// Any nonzero byte is true. We write streams and topics in the order of their ids.
// wire: iggy_binary_protocol 0.11.0.
#pragma once

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "model/permissions.hpp"

namespace galgo::wire {

/// `bytes` must be consumed exactly. Of an id given twice the last one counts. Error:
/// kInvalidCommand.
[[nodiscard]] Result<model::Permissions> decode_permissions(ConstBytes bytes);

void put_permissions(ByteWriter& to, const model::Permissions& permissions);

}  // namespace galgo::wire

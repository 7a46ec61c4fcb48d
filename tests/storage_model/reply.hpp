// A poll's reply taken apart into messages, every checksum verified.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "storage/partition_log.hpp"

namespace galgo::log_model {

/// What a law found broken, in words; nothing: it holds.
using Difference = std::optional<std::string>;

/// A message as a reader sees it.
struct SeenMessage {
    std::uint64_t offset = 0;
    std::uint64_t base = 0;   ///< of its batch
    std::uint32_t index = 0;  ///< in its batch
    std::uint32_t frame_bytes = 0;
    std::uint64_t serial = 0;    ///< of the send that it came with
    std::uint64_t checksum = 0;  ///< of the frame
    std::uint64_t timestamp = 0;
};

struct Reply {
    std::vector<SeenMessage> messages;
    std::uint64_t bytes = 0;
};

/// Appends to `reply`.
[[nodiscard]] Difference take_apart(const storage::ReadSlices& slices, Reply& reply);

}  // namespace galgo::log_model

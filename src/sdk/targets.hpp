// Request bodies of the message path that are encoded once and patched for each request: what names
// the partition stays, what changes stands at fixed places from the end. So a send or a poll
// allocates nothing. One thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.hpp"
#include "model/ids.hpp"
#include "wire/primitives.hpp"

namespace galgo::sdk {

/// One partition of a topic. Borrows names.
struct PartitionRef {
    wire::Identifier stream;
    wire::Identifier topic;
    model::PartitionId partition;
};

/// Everything in front of the batch of a SendMessages request.
class SendTarget {
 public:
    explicit SendTarget(const PartitionRef& to);
    /// `messages_count` is above 0. Lives until the next call.
    [[nodiscard]] ConstBytes metadata_for(std::uint32_t messages_count) noexcept;

 private:
    std::vector<std::byte> bytes_;
};

struct PollSpec {
    wire::PollingStrategy strategy;
    std::uint32_t count = 1;
    bool auto_commit = false;
};

/// The body of a PollMessages request.
class PollTarget {
 public:
    PollTarget(const wire::ConsumerRef& consumer, const PartitionRef& from);
    /// Lives until the next call.
    [[nodiscard]] ConstBytes body_for(const PollSpec& spec) noexcept;

 private:
    std::vector<std::byte> bytes_;
};

}  // namespace galgo::sdk

// Counters of one partition, on a cache line of their own. The partition's owner shard alone writes
// them (but for the turn); every other shard reads them for the statistics in replies. A reader may
// see two counters from two moments, never a torn one.
//
// The registry hands one line to both copies of the metadata (and to every later replay of the same
// operation): it is keyed by partition *and* incarnation, so a copy that lags behind never touches
// the line of a partition's next life. It lives on shard 0 beside the state and is used there only;
// the lines themselves are shared by all shards through the partition rows that hold them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/ids.hpp"

namespace galgo::metadata {

/// A look at the counters.
struct PartitionCounters {
    std::uint64_t message_count = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t sealed_bytes = 0;    ///< of segments that retention may take
    std::uint64_t offset_first = 0;    ///< lowest offset that can be read
    std::uint64_t offset_current = 0;  ///< last committed offset; 0 while the partition is empty
    std::uint32_t segment_count = 0;   ///< 0 until the partition is materialised

    constexpr bool operator==(const PartitionCounters&) const noexcept = default;
};

class alignas(64) PartitionStats {
 public:
    PartitionStats() noexcept = default;
    PartitionStats(const PartitionStats&) = delete;
    PartitionStats& operator=(const PartitionStats&) = delete;

    /// Owner shard only.
    void store(const PartitionCounters& counters) noexcept {
        message_count_.store(counters.message_count, std::memory_order_relaxed);
        size_bytes_.store(counters.size_bytes, std::memory_order_relaxed);
        sealed_bytes_.store(counters.sealed_bytes, std::memory_order_relaxed);
        offset_first_.store(counters.offset_first, std::memory_order_relaxed);
        offset_current_.store(counters.offset_current, std::memory_order_relaxed);
        segment_count_.store(counters.segment_count, std::memory_order_relaxed);
    }
    /// Any shard.
    [[nodiscard]] PartitionCounters load() const noexcept {
        return PartitionCounters{.message_count = message_count_.load(std::memory_order_relaxed),
                                 .size_bytes = size_bytes_.load(std::memory_order_relaxed),
                                 .sealed_bytes = sealed_bytes_.load(std::memory_order_relaxed),
                                 .offset_first = offset_first_.load(std::memory_order_relaxed),
                                 .offset_current = offset_current_.load(std::memory_order_relaxed),
                                 .segment_count = segment_count_.load(std::memory_order_relaxed)};
    }
    /// 0, 1, 2...: whose turn it is of those among whom this partition counts. Any shard.
    [[nodiscard]] std::uint32_t next_turn() noexcept {
        return turn_.fetch_add(1, std::memory_order_relaxed);
    }

 private:
    std::atomic<std::uint64_t> message_count_{0};
    std::atomic<std::uint64_t> size_bytes_{0};
    std::atomic<std::uint64_t> sealed_bytes_{0};
    std::atomic<std::uint64_t> offset_first_{0};
    std::atomic<std::uint64_t> offset_current_{0};
    std::atomic<std::uint32_t> segment_count_{0};
    std::atomic<std::uint32_t> turn_{0};
};
static_assert(sizeof(PartitionStats) == 64);

class PartitionStatsRegistry {
 public:
    PartitionStatsRegistry() = default;
    PartitionStatsRegistry(const PartitionStatsRegistry&) = delete;
    PartitionStatsRegistry& operator=(const PartitionStatsRegistry&) = delete;

    /// The line of this life of the partition, all zeros when it is new.
    [[nodiscard]] std::shared_ptr<PartitionStats> get_or_create(PartitionKey key,
                                                                Incarnation incarnation) {
        std::shared_ptr<PartitionStats>& line = lines_[{key, incarnation}];
        if (line == nullptr) {
            line = std::make_shared<PartitionStats>();
        }
        return line;
    }
    /// Forgets the line; rows that still hold it keep it alive. Unknown ones are fine: the other
    /// copy was here first.
    void remove(PartitionKey key, Incarnation incarnation) { lines_.erase({key, incarnation}); }

    [[nodiscard]] std::size_t size() const noexcept { return lines_.size(); }

 private:
    std::map<std::pair<PartitionKey, Incarnation>, std::shared_ptr<PartitionStats>> lines_;
};

}  // namespace galgo::metadata

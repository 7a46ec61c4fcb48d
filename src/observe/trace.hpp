// The last 256 things a shard did, for the crash report. Recording is five relaxed stores; the dump
// is async-signal-safe and may run on any thread while the shard goes on (an entry being
// overwritten may then mix two events, which a crash report can live with).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/ids.hpp"

namespace galgo::observe {

class TraceRing {
 public:
    static constexpr std::size_t kCapacity = 256;

    TraceRing() = default;
    TraceRing(const TraceRing&) = delete;
    TraceRing& operator=(const TraceRing&) = delete;

    /// `event` is a string literal: the pointer is kept.
    void record(Instant now, const char* event, std::uint64_t a = 0, std::uint64_t b = 0) noexcept {
        const std::uint64_t next = next_.load(std::memory_order_relaxed);
        Entry& entry = entries_[next % kCapacity];
        entry.instant_ns.store(now.value(), std::memory_order_relaxed);
        entry.event.store(event, std::memory_order_relaxed);
        entry.a.store(a, std::memory_order_relaxed);
        entry.b.store(b, std::memory_order_relaxed);
        next_.store(next + 1, std::memory_order_release);
    }

    [[nodiscard]] std::uint64_t recorded() const noexcept {
        return next_.load(std::memory_order_acquire);
    }

    /// Oldest first, one line an event: "  123456789 event a b". Async-signal-safe.
    void dump(int fd) const noexcept;

 private:
    struct Entry {
        std::atomic<std::uint64_t> instant_ns{0};
        std::atomic<const char*> event{nullptr};
        std::atomic<std::uint64_t> a{0};
        std::atomic<std::uint64_t> b{0};
    };
    std::array<Entry, kCapacity> entries_{};
    std::atomic<std::uint64_t> next_{0};
};

/// Names the ring of a shard for `trace` and `dump_traces`; nullptr takes it away. The ring
/// outlives its registration. Shards above 255 are not traced.
void set_trace_ring(ShardIndex shard, TraceRing* ring) noexcept;

/// Records on the ring of this thread's shard; nothing when there is none.
void trace(Instant now, const char* event, std::uint64_t a = 0, std::uint64_t b = 0) noexcept;

/// Every registered ring under a heading. Async-signal-safe.
void dump_traces(int fd) noexcept;

}  // namespace galgo::observe

// LeftRight<T>: a value that every shard reads by one atomic load and one shard changes. There are
// two copies. Readers use the published one; the writer changes the hidden one, publishes it by
// counting the epoch up (its parity names the published copy) and repeats the same changes on the
// other copy once no reader can still look at it.
//
// A reader says once a loop turn, holding no reference, that it has seen the current epoch:
// announce(). A reference from read() is good until the reader's next announce() or park(): never
// across a suspension. A parked reader (asleep, not started, stopped) counts as outside; readers
// start parked. The hidden copy is free when every reader is parked or has announced the current
// epoch.
//
// T has `apply(const Op&)`, deterministic: it runs once on each copy. The writer is one coroutine
// of one shard: until_writable(), any number of apply(), publish(). What comes while the old
// readers are still inside is gathered by its owner (shard/metadata_plane.cpp) and goes with the
// next publish, so that one publish carries a whole group commit. A change is visible to every
// shard when publish() has returned.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/units.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"
#include "runtime/loop.hpp"
#include "runtime/spsc_lane.hpp"

namespace galgo::runtime {

template <class T, class Op = typename T::Op>
class LeftRight {
 public:
    /// Both copies start as `initial`.
    LeftRight(std::size_t shard_count, const T& initial) : copies_{initial, initial} {
        for (std::size_t i = 0; i < shard_count; ++i) {
            readers_.push_back(std::make_unique<Reader>());
        }
    }
    LeftRight(const LeftRight&) = delete;
    LeftRight& operator=(const LeftRight&) = delete;

    // ---- readers: each shard for itself
    // ------------------------------------------------------------

    /// The published copy. The shard is not parked (checked in debug builds).
    [[nodiscard]] const T& read(ShardIndex shard) const noexcept {
        GALGO_DCHECK(seen(shard).load(std::memory_order_relaxed) != kParked);
        return copies_[epoch_.load(std::memory_order_acquire) & 1];
    }
    /// The shard holds no reference any more. Ends parking.
    void announce(ShardIndex shard) noexcept {
        std::atomic<std::uint64_t>& mine = seen(shard);
        const std::uint64_t before = mine.load(std::memory_order_relaxed);
        if (before == kParked) {
            unpark(shard);
            return;
        }
        const std::uint64_t epoch = epoch_.load(std::memory_order_acquire);
        if (epoch != before) {
            mine.store(epoch, std::memory_order_release);
        }
    }
    void park(ShardIndex shard) noexcept { seen(shard).store(kParked, std::memory_order_release); }
    /// The writer may have taken us for absent a moment ago: only an epoch that is still current
    /// after it was published as seen is safe, for then the writer waits for us.
    void unpark(ShardIndex shard) noexcept {
        std::atomic<std::uint64_t>& mine = seen(shard);
        std::uint64_t epoch = epoch_.load(std::memory_order_seq_cst);
        for (;;) {
            mine.store(epoch, std::memory_order_seq_cst);
            const std::uint64_t again = epoch_.load(std::memory_order_seq_cst);
            if (again == epoch) {
                return;
            }
            epoch = again;
        }
    }

    /// Announces once a turn and parks while the loop sleeps. Call on the shard; detach before the
    /// loop's thread ends by park().
    void attach(ShardIndex shard, Loop& loop) {
        Reader& reader = *readers_[shard.value()];
        reader.owner = this;
        reader.shard = shard;
        loop.add_turn_start(
            [this, shard] {
                announce(shard);
                return false;
            },
            "left-right announce");
        loop.add_sleep_gate(reader);
        unpark(shard);
    }

    // ---- the writer
    // --------------------------------------------------------------------------------

    /// Suspends until apply() is allowed; call it before the next suspension. Readers move on at
    /// the end of a turn and tell nobody: it looks again each turn, and after kTurnsAwake of them
    /// each millisecond, so that a long turn of another shard does not keep this one from sleeping.
    coro::Task<void> until_writable(Loop& loop) {
        for (std::uint32_t turns = 0; !old_copy_free(); ++turns) {
            if (turns < kTurnsAwake) {
                co_await coro::yield_to(loop.ready());
            } else {
                co_await loop.sleep_for(kMillisecond);
            }
        }
    }

    /// May the hidden copy be changed?
    [[nodiscard]] bool old_copy_free() noexcept {
        if (!waiting_for_readers_) {
            return true;
        }
        const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);
        for (const std::unique_ptr<Reader>& reader : readers_) {
            const std::uint64_t seen = reader->seen.load(std::memory_order_seq_cst);
            if (seen != kParked && seen < epoch) {
                return false;
            }
        }
        waiting_for_readers_ = false;
        return true;
    }

    /// Applies one change to the hidden copy now and returns what apply() returns; it becomes
    /// visible by publish(). old_copy_free() (checked).
    decltype(auto) apply(Op op) {
        GALGO_CHECK(old_copy_free());
        catch_up();
        applied_.push_back(std::move(op));
        return hidden().apply(std::as_const(applied_.back()));
    }
    /// Makes everything applied visible to all shards; nothing happens when nothing was applied.
    void publish() {
        if (applied_.empty()) {
            return;
        }
        std::swap(replay_, applied_);
        applied_.clear();
        epoch_.store(epoch_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
        waiting_for_readers_ = true;
    }

    /// Number of publishes so far.
    [[nodiscard]] std::uint64_t epoch() const noexcept {
        return epoch_.load(std::memory_order_acquire);
    }

 private:
    static constexpr std::uint64_t kParked = UINT64_MAX;
    static constexpr std::uint32_t kTurnsAwake = 64;  // some 50 us of a loop without work

    struct Reader : SleepGate {
        alignas(kCacheLineBytes) std::atomic<std::uint64_t> seen{kParked};
        LeftRight* owner = nullptr;
        ShardIndex shard;
        [[nodiscard]] bool before_sleep() noexcept override {
            owner->park(shard);
            return true;
        }
        void after_sleep() noexcept override { owner->unpark(shard); }
    };

    [[nodiscard]] std::atomic<std::uint64_t>& seen(ShardIndex shard) const noexcept {
        return readers_[shard.value()]->seen;
    }
    [[nodiscard]] T& hidden() noexcept {
        return copies_[(epoch_.load(std::memory_order_relaxed) + 1) & 1];
    }
    void catch_up() {
        for (const Op& op : replay_) {
            hidden().apply(op);
        }
        replay_.clear();
    }

    std::array<T, 2> copies_;
    alignas(kCacheLineBytes) std::atomic<std::uint64_t> epoch_{0};
    std::vector<std::unique_ptr<Reader>> readers_;
    // The writer's:
    bool waiting_for_readers_ = false;
    std::vector<Op> applied_;  // on the hidden copy, not published
    std::vector<Op> replay_;   // published, not yet on the hidden copy
};

}  // namespace galgo::runtime

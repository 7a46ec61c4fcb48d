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
// T has `apply(const Op&)`, deterministic: it runs once on each copy. The writer is one thread and
// never spins: try_publish() says "not yet" and is asked again at the end of the next turn,
// gathering ops meanwhile; so one publish carries all that came since the last. Coroutines of the
// writer's shard await it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "coro/sync.hpp"
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

    /// Publishes what is enqueued at the end of every turn of this loop, and keeps the loop from
    /// blocking while something waits for readers to move on. Once, on the writer's shard.
    void attach_writer(Loop& loop) {
        GALGO_CHECK(!waiters_.has_value());
        waiters_.emplace(loop.ready());
        writer_gate_.owner = this;
        loop.add_turn_end(
            [this] {
                (void)try_publish();
                if (!waiters_->empty() && old_copy_free()) {
                    waiters_->wake_all();
                }
            },
            "left-right publish");
        loop.add_sleep_gate(writer_gate_);
    }
    /// Suspends until everything enqueued so far is visible to all shards. After attach_writer().
    coro::Task<void> until_published() {
        const std::uint64_t target = enqueued_total_;
        while (published_total_ < target) {
            co_await waiters_->wait();
        }
    }
    /// Suspends until apply() is allowed; call it before the next suspension. After
    /// attach_writer().
    coro::Task<void> until_writable() {
        while (!pending_.empty() || !old_copy_free()) {
            co_await waiters_->wait();
        }
    }

    /// Gathers a change for the next publish.
    void enqueue(Op op) {
        pending_.push_back(std::move(op));
        ++enqueued_total_;
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
    /// visible by publish(). old_copy_free() (checked) and nothing enqueued.
    decltype(auto) apply(Op op) {
        GALGO_CHECK(old_copy_free() && pending_.empty());
        catch_up();
        applied_.push_back(std::move(op));
        return hidden().apply(std::as_const(applied_.back()));
    }
    /// What apply() built up so far: published copy plus unpublished changes. old_copy_free()
    /// (checked).
    [[nodiscard]] const T& writer_view() {
        GALGO_CHECK(old_copy_free());
        catch_up();
        return hidden();
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

    /// Once a turn: applies and publishes what is enqueued. False: old readers are still inside,
    /// the ops stay enqueued. True: nothing is left unpublished.
    bool try_publish() {
        if (pending_.empty()) {
            return true;
        }
        if (!old_copy_free()) {
            return false;
        }
        catch_up();
        for (Op& op : pending_) {
            hidden().apply(std::as_const(op));
            applied_.push_back(std::move(op));
        }
        pending_.clear();
        publish();
        published_total_ = enqueued_total_;
        if (waiters_.has_value()) {
            waiters_->wake_all();
        }
        return true;
    }

    /// Number of publishes so far.
    [[nodiscard]] std::uint64_t epoch() const noexcept {
        return epoch_.load(std::memory_order_acquire);
    }
    [[nodiscard]] std::size_t enqueued_count() const noexcept { return pending_.size(); }

 private:
    static constexpr std::uint64_t kParked = UINT64_MAX;

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

    struct WriterGate : SleepGate {
        LeftRight* owner = nullptr;
        [[nodiscard]] bool before_sleep() noexcept override {
            return owner->pending_.empty() && owner->waiters_->empty();
        }
        void after_sleep() noexcept override {}
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
    std::uint64_t enqueued_total_ = 0;
    std::uint64_t published_total_ = 0;
    std::optional<coro::WaitList> waiters_;
    WriterGate writer_gate_;
    std::vector<Op> pending_;  // enqueued, on neither copy
    std::vector<Op> applied_;  // on the hidden copy, not published
    std::vector<Op> replay_;   // published, not yet on the hidden copy
};

}  // namespace galgo::runtime

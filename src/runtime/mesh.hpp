// Mesh: how shards talk. Every ordered pair of shards has two bounded lanes: requests one way, and
// the replies to them the other way. The place of a reply is reserved when its request is sent, so
// a reply can always be pushed and two shards with full lanes never block each other. A full lane
// is told to the sender, who answers with a retryable error; nothing is dropped and nobody waits.
//
// A port is one shard's end, used on that shard's thread. A message is moved into the lane; a shard
// that is awake finds it in its next turn. Only a target that has published "about to sleep" is
// woken, once, at the end of the sender's turn (flush()). Both sides put a sequentially consistent
// fence between their store and their look at the other's (the sender: message, then flag; the
// sleeper: flag, then lanes), so at least one of them sees the other.
//
// Memory: n*n lanes of each kind; capacity * message size each, touched as they are used.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "runtime/io.hpp"
#include "runtime/loop.hpp"
#include "runtime/shard_portable.hpp"
#include "runtime/spsc_lane.hpp"

namespace galgo::runtime {

struct MeshOptions {
    std::size_t shard_count = 1;
    std::size_t lane_capacity = 1024;  ///< rounded up to a power of two; requests and replies each
};

/// Counters of one ordered pair; any thread may read.
struct MeshPairStats {
    std::uint64_t sent = 0;         ///< requests and posts pushed
    std::uint64_t answered = 0;     ///< replies to them that the sender took
    std::uint64_t full = 0;         ///< refused because the lane or the reply reservation was full
    std::size_t request_depth = 0;  ///< requests in the lane now
    std::size_t reply_depth = 0;    ///< replies to them in the lane back now
};

template <class Request, class Reply>
class Mesh {
    static_assert(is_shard_portable<Request>, "a request holds owned values only");
    static_assert(is_shard_portable<Reply>, "a reply holds owned values only");

 public:
    class Port;

    explicit Mesh(MeshOptions options) : shard_count_(options.shard_count) {
        GALGO_CHECK(shard_count_ > 0 && shard_count_ < kShardCountMax);
        const std::size_t capacity = std::bit_ceil(options.lane_capacity);
        pairs_.reserve(shard_count_ * shard_count_);
        for (std::size_t i = 0; i < shard_count_ * shard_count_; ++i) {
            pairs_.push_back(std::make_unique<Pair>(capacity));
        }
        for (std::size_t i = 0; i < shard_count_; ++i) {
            ports_.push_back(
                std::make_unique<Port>(*this, ShardIndex{static_cast<std::uint16_t>(i)}));
        }
    }

    [[nodiscard]] std::size_t shard_count() const noexcept { return shard_count_; }
    /// The end of `shard`, for use on that shard only.
    [[nodiscard]] Port& port(ShardIndex shard) noexcept { return *ports_[shard.value()]; }

    [[nodiscard]] MeshPairStats stats(ShardIndex from, ShardIndex to) const noexcept {
        const Pair& there = pair(from, to);
        return {.sent = there.sent.load(std::memory_order_relaxed),
                .answered = there.answered.load(std::memory_order_relaxed),
                .full = there.full.load(std::memory_order_relaxed),
                .request_depth = there.requests.size(),
                .reply_depth = there.replies.size()};
    }

    class Port : public SleepGate {
     public:
        Port(Mesh& mesh, ShardIndex self) : mesh_(mesh), self_(self), touched_(mesh.shard_count_) {}

        /// Registers the sleep gate and the flush; the shard adds its drain as a turn-start hook.
        void attach(Loop& loop) {
            io_ = &loop.io();
            loop.add_sleep_gate(*this);
            loop.add_turn_end([this] { flush(); }, "mesh flush");
        }
        /// Without a loop (tests, simulator): who wakes the others, and flush() is the caller's.
        void attach(IoBackend& io) noexcept { io_ = &io; }

        [[nodiscard]] ShardIndex self() const noexcept { return self_; }

        /// Sends a request that `to` answers by exactly one reply(). False: full, `request`
        /// untouched.
        [[nodiscard]] bool try_send(ShardIndex to, Request&& request) noexcept {
            Pair& pair = mesh_.pair(self_, to);
            if (pair.awaited == pair.replies.capacity() || !push(pair, to, std::move(request))) {
                count(pair.full);
                return false;
            }
            ++pair.awaited;
            return true;
        }
        /// Sends a request that is not answered. False: full, `request` untouched.
        [[nodiscard]] bool try_post(ShardIndex to, Request&& request) noexcept {
            Pair& pair = mesh_.pair(self_, to);
            if (!push(pair, to, std::move(request))) {
                count(pair.full);
                return false;
            }
            return true;
        }
        /// Answers one request of `to`; cannot fail, because the request reserved the place
        /// (checked).
        void reply(ShardIndex to, Reply&& reply) noexcept {
            GALGO_CHECK(mesh_.pair(to, self_).replies.try_push(std::move(reply)));
            touched_[to.value()] = true;
            any_touched_ = true;
        }

        /// Takes at most about `count_max` messages, replies first, fairly over the peers:
        /// on_request(ShardIndex from, Request&&), on_reply(ShardIndex from, Reply&&). Returns the
        /// number.
        template <class OnRequest, class OnReply>
        std::size_t drain(OnRequest&& on_request, OnReply&& on_reply, std::size_t count_max = 256) {
            const std::size_t n = mesh_.shard_count_;
            const std::size_t share = std::max<std::size_t>(1, count_max / n);
            std::size_t taken = 0;
            for (std::size_t i = 0; i < n && taken < count_max; ++i) {
                first_ = first_ + 1 == n ? 0 : first_ + 1;
                const ShardIndex peer{static_cast<std::uint16_t>(first_)};
                Pair& out = mesh_.pair(self_, peer);
                for (std::size_t k = 0; k < share && !out.replies.empty(); ++k, ++taken) {
                    --out.awaited;
                    count(out.answered);
                    on_reply(peer, out.replies.pop());
                }
                Pair& in = mesh_.pair(peer, self_);
                for (std::size_t k = 0; k < share && !in.requests.empty(); ++k, ++taken) {
                    on_request(peer, in.requests.pop());
                }
            }
            return taken;
        }

        /// Wakes the targets of this turn's messages that sleep. One fence however many messages.
        void flush() noexcept {
            if (!any_touched_) {
                return;
            }
            any_touched_ = false;
            std::atomic_thread_fence(std::memory_order_seq_cst);
            for (std::size_t i = 0; i < touched_.size(); ++i) {
                if (!touched_[i]) {
                    continue;
                }
                touched_[i] = false;
                std::atomic<bool>& asleep = mesh_.ports_[i]->asleep_;
                if (asleep.load(std::memory_order_relaxed) &&
                    asleep.exchange(false, std::memory_order_relaxed)) {
                    GALGO_CHECK(io_ != nullptr);
                    io_->wake(ShardIndex{static_cast<std::uint16_t>(i)});
                }
            }
        }

        [[nodiscard]] bool has_work() noexcept {
            for (std::size_t i = 0; i < mesh_.shard_count_; ++i) {
                const ShardIndex peer{static_cast<std::uint16_t>(i)};
                if (!mesh_.pair(self_, peer).replies.empty() ||
                    !mesh_.pair(peer, self_).requests.empty()) {
                    return true;
                }
            }
            return false;
        }
        /// Replies this shard still waits for from `to`.
        [[nodiscard]] std::size_t awaited(ShardIndex to) const noexcept {
            return mesh_.pair(self_, to).awaited;
        }

        [[nodiscard]] bool before_sleep() noexcept override {
            flush();
            asleep_.store(true, std::memory_order_relaxed);
            std::atomic_thread_fence(std::memory_order_seq_cst);
            if (has_work()) {
                asleep_.store(false, std::memory_order_relaxed);
                return false;
            }
            return true;
        }
        void after_sleep() noexcept override { asleep_.store(false, std::memory_order_relaxed); }

     private:
        static void count(std::atomic<std::uint64_t>& counter) noexcept {
            counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        }
        [[nodiscard]] bool push(auto& pair, ShardIndex to, Request&& request) noexcept {
            if (!pair.requests.try_push(std::move(request))) {
                return false;
            }
            count(pair.sent);
            touched_[to.value()] = true;
            any_touched_ = true;
            return true;
        }

        Mesh& mesh_;
        const ShardIndex self_;
        IoBackend* io_ = nullptr;
        std::vector<bool> touched_;
        bool any_touched_ = false;
        std::size_t first_ = 0;
        alignas(kCacheLineBytes) std::atomic<bool> asleep_{false};
    };

 private:
    static constexpr std::size_t kShardCountMax = 1024;

    struct Pair {
        explicit Pair(std::size_t capacity) : requests(capacity), replies(capacity) {}
        SpscLane<Request> requests;  // from -> to
        SpscLane<Reply> replies;     // to -> from
        // The sending shard's:
        std::size_t awaited = 0;  // requests sent whose reply was not drained
        std::atomic<std::uint64_t> sent{0};
        std::atomic<std::uint64_t> answered{0};
        std::atomic<std::uint64_t> full{0};
    };

    [[nodiscard]] Pair& pair(ShardIndex from, ShardIndex to) const noexcept {
        GALGO_DCHECK(from.value() < shard_count_ && to.value() < shard_count_);
        return *pairs_[from.value() * shard_count_ + to.value()];
    }

    const std::size_t shard_count_;
    std::vector<std::unique_ptr<Pair>> pairs_;
    std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace galgo::runtime

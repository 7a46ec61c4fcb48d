// TestWorld: one seed, one clock, one network, disks and backends, and a driver that runs
// coroutines on them until they end. A run that does not end is a failed check that prints the
// seed.
//
//   TestWorld world(seed);
//   Node& node = world.add_node();                    // a process with one shard; add_shard() for
//   more Status stored = world.run(node, store(*node.io, ...)); node.io->crash_after(17); if
//   (!world.run_until_crash(node, store(*node.io, ...))) { ... it ended before the crash ... }
//   world.kill(node);                                  // unwinds everything that was suspended
//   (destroy the objects of the dead process here)
//   world.restart(node, CrashKind::kPower);            // a new backend and loop on what the disk
//   kept
//
// run() drives all nodes of the world, so that their clocks agree. A run that was started stays
// valid until it ends or its node is killed; its result is in a shared state, not in the caller's
// frame. All shards run on the calling thread; this_shard() is set before each does, and is 0 in
// between.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "base/this_shard.hpp"
#include "coro/ready_queue.hpp"
#include "coro/task.hpp"
#include "runtime/io.hpp"
#include "runtime/loop.hpp"
#include "runtime_sim/sim_backend.hpp"
#include "runtime_sim/sim_clock.hpp"
#include "runtime_sim/sim_disk.hpp"
#include "runtime_sim/sim_network.hpp"
#include "runtime_sim/sim_random.hpp"

namespace galgo::runtime_sim {

/// One shard of one process. `io` and `loop` are new after a restart; the disk is that of the
/// process.
struct Node {
    std::uint32_t process = 0;
    ShardIndex shard{0};
    std::string ip;
    bool dead = false;  ///< after kill()
    std::shared_ptr<SimDisk> disk;
    std::unique_ptr<SimBackend> io;
    std::unique_ptr<runtime::Loop> loop;

    [[nodiscard]] coro::ReadyQueue& queue() const noexcept { return loop->ready(); }
};

class TestWorld {
 public:
    static constexpr std::uint64_t kTurnsMax = 2'000'000;

    explicit TestWorld(std::uint64_t seed)
        : seed_(seed), random_(seed), network_(random_.next(), clock_) {
        set_this_shard(ShardIndex{0});
    }
    TestWorld(const TestWorld&) = delete;
    TestWorld& operator=(const TestWorld&) = delete;
    ~TestWorld() {
        for (const auto& node : nodes_) {
            kill(*node);
        }
        set_this_shard(kNoShard);
    }

    [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
    [[nodiscard]] SimClock& clock() noexcept { return clock_; }
    [[nodiscard]] SimNetwork& network() noexcept { return network_; }
    [[nodiscard]] SimRandom& random() noexcept { return random_; }

    /// The first is at 127.0.0.1, the next at 127.0.0.2, and so on.
    Node& add_node(DiskOptions disk_options = {}) {
        auto node = std::make_unique<Node>();
        node->process = process_count_++;
        node->ip = "127.0.0." + std::to_string(process_count_);
        node->disk = std::make_shared<SimDisk>(random_.next(), &clock_, disk_options);
        nodes_.push_back(std::move(node));
        start(*nodes_.back());
        return *nodes_.back();
    }

    /// Another shard of the process of `node`: they share disk, address and fate, and can wake each
    /// other.
    Node& add_shard(Node& node) {
        auto added = std::make_unique<Node>();
        added->process = node.process;
        added->ip = node.ip;
        added->disk = node.disk;
        for (const auto& other : nodes_) {
            added->shard = other->process == node.process ? other->shard.next() : added->shard;
        }
        nodes_.push_back(std::move(added));
        start(*nodes_.back());
        return *nodes_.back();
    }

    /// One turn of every node. When all are at rest, time moves to the next event or timer, at most
    /// to `limit`. False when nothing is left to happen before it.
    bool turn(Instant limit = kNever) {
        bool worked = false;
        Instant next = limit;
        for (const auto& node : nodes_) {
            if (!node->dead) {
                set_this_shard(node->shard);
                worked = node->loop->run_turn() || worked;
                next = std::min(next, node->loop->next_wake());
            }
        }
        set_this_shard(ShardIndex{0});
        return worked || next <= clock_.now() || clock_.advance_to_event(next);
    }
    /// Turns until `done()`. False when nothing can happen any more; too many turns fail a check.
    template <class Done>
    bool run_until(const Done& done) {
        for (std::uint64_t turns = 0; turns < kTurnsMax; ++turns) {
            if (done()) {
                return true;
            }
            if (!turn()) {
                return done();
            }
        }
        fail_hang("too many turns");
    }
    /// Turns for this long in virtual time.
    void run_for(std::uint64_t nanoseconds) {
        const Instant end = clock_.now().plus(nanoseconds);
        for (std::uint64_t turns = 0; clock_.now() < end; ++turns) {
            if (turns == kTurnsMax) {
                fail_hang("too many turns");
            }
            turn(end);
        }
    }

    /// Runs the task to its end and returns its value. A task that cannot end fails a check.
    template <class T>
    T run(Node& node, coro::Task<T> task) {
        set_this_shard(node.shard);
        auto state = start_task<T>(task.release_handle());
        const bool done = run_until([&] { return state->done; });
        if (!done) {
            fail_hang(node.io->crashed() ? "the node crashed: use run_until_crash"
                                         : "nothing left to happen and the task has not ended");
        }
        return take(*state);
    }
    /// Runs until the task has ended (its value) or the node passed its crash point (nothing). What
    /// the task refers to must then outlive kill(), which lets it unwind: pass names, not
    /// temporaries.
    template <class T>
    auto run_until_crash(Node& node, coro::Task<T> task) {
        set_this_shard(node.shard);
        auto state = start_task<T>(task.release_handle());
        const bool stopped = run_until([&] { return state->done || node.io->crashed(); });
        if (!stopped) {
            fail_hang("nothing left to happen, no crash and the task has not ended");
        }
        using Value = std::conditional_t<std::is_void_v<T>, bool, T>;
        if (!state->done) {
            return std::optional<Value>{};
        }
        if constexpr (std::is_void_v<T>) {
            return std::optional<Value>{true};
        } else {
            return std::optional<Value>{take(*state)};
        }
    }

    /// The process of this node dies, all its shards with it: what is suspended on its backends and
    /// ready queues unwinds. What waits for a timer or an event does not: the test stops that in
    /// its own way, or runs such code only where it ends by itself.
    void kill(Node& node) {
        for (int round = 0; round < 100'000; ++round) {
            bool at_rest = true;
            for (const auto& shard : nodes_) {
                if (shard->process == node.process) {
                    set_this_shard(shard->shard);
                    shard->dead = true;
                    shard->io->drop_all();
                    at_rest = shard->queue().run(256) == 0 && shard->io->in_flight_count() == 0 &&
                              at_rest;
                }
            }
            set_this_shard(ShardIndex{0});
            if (at_rest) {
                return;
            }
        }
        fail_hang("a killed process does not come to rest");
    }
    /// After kill() and after the objects of the old process are gone.
    void restart(Node& node, CrashKind kind, UnsyncedFate fate = UnsyncedFate::kSeeded) {
        kill(node);
        for (const auto& shard : nodes_) {
            if (shard->process == node.process) {
                shard->loop.reset();
                shard->io.reset();
            }
        }
        node.disk->crash(kind, fate);
        for (const auto& shard : nodes_) {
            if (shard->process == node.process) {
                start(*shard);
            }
        }
    }

    [[noreturn]] void fail_hang(const char* why) const {
        std::fprintf(stderr, "simulated world with seed %llu: %s\n",
                     static_cast<unsigned long long>(seed_), why);
        check_failed("the simulated run ends", "test_world.hpp", __LINE__);
    }

 private:
    template <class T>
    struct State {
        bool done = false;
        std::optional<std::conditional_t<std::is_void_v<T>, bool, T>> value;
    };
    template <class T>
    static T take(State<T>& state) {
        if constexpr (!std::is_void_v<T>) {
            return *std::move(state.value);
        }
    }
    /// Starts at once and frees itself at its end.
    struct Driver {
        struct promise_type {
            Driver get_return_object() const noexcept { return {}; }
            [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
            [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
            void return_void() const noexcept {}
            [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
        };
    };

    template <class T>
    static Driver drive(typename coro::Task<T>::Handle handle, std::shared_ptr<State<T>> state) {
        if constexpr (std::is_void_v<T>) {
            co_await coro::detail::TaskAwaiter<T>(handle);
            state->value.emplace(true);
        } else {
            state->value.emplace(co_await coro::detail::TaskAwaiter<T>(handle));
        }
        state->done = true;
    }
    template <class T>
    static std::shared_ptr<State<T>> start_task(typename coro::Task<T>::Handle handle) {
        auto state = std::make_shared<State<T>>();
        drive<T>(handle, state);
        return state;
    }

    void start(Node& node) {
        node.io = std::make_unique<SimBackend>(clock_, *node.disk, network_,
                                               SimBackendOptions{.seed = random_.next(),
                                                                 .process = node.process,
                                                                 .shard = node.shard,
                                                                 .ip = node.ip});
        node.loop = std::make_unique<runtime::Loop>(*node.io, runtime::LoopOptions{});
        node.dead = false;
    }

    std::uint64_t seed_;
    SimRandom random_;
    SimClock clock_;
    SimNetwork network_;
    std::vector<std::unique_ptr<Node>> nodes_;
    std::uint32_t process_count_ = 0;
};

}  // namespace galgo::runtime_sim

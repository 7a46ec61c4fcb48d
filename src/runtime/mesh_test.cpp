#include "runtime/mesh.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "coro/scope.hpp"
#include "fake_io_test.hpp"
#include "runtime/ticket.hpp"

namespace galgo::runtime {
namespace {

struct Query {
    static constexpr bool kShardPortable = true;
    Ticket ticket;
    std::uint64_t value = 0;
};
struct Answer {
    static constexpr bool kShardPortable = true;
    Ticket ticket;
    std::unique_ptr<std::uint64_t> value;
};
using TestMesh = Mesh<std::variant<Query, std::string>, Answer>;
constexpr ShardIndex kA{0};
constexpr ShardIndex kB{1};

static_assert(is_shard_portable<std::variant<Query, std::string>>);
static_assert(is_shard_portable<std::optional<std::vector<std::uint64_t>>>);
static_assert(is_shard_portable<Result<ShardIndex>>);
static_assert(!is_shard_portable<std::string_view>);
static_assert(!is_shard_portable<int*>);
static_assert(!is_shard_portable<int&>);
static_assert(!is_shard_portable<std::span<const std::byte>>);
static_assert(!is_shard_portable<std::variant<int, const char*>>);

TEST(Mesh, RequestsAndRepliesArriveInOrder) {
    TestMesh mesh({.shard_count = 2, .lane_capacity = 4});
    auto& a = mesh.port(kA);
    auto& b = mesh.port(kB);
    ASSERT_TRUE(a.try_send(kB, Query{.value = 1}));
    ASSERT_TRUE(a.try_post(kB, std::string("note")));
    ASSERT_TRUE(a.try_send(kB, Query{.value = 2}));
    EXPECT_EQ(mesh.stats(kA, kB).request_depth, 3u);
    std::string seen;
    EXPECT_EQ(b.drain(
                  [&](ShardIndex from, std::variant<Query, std::string>&& request) {
                      EXPECT_EQ(from, kA);
                      if (auto* query = std::get_if<Query>(&request)) {
                          seen += std::to_string(query->value);
                          b.reply(from,
                                  {.value = std::make_unique<std::uint64_t>(query->value * 10)});
                      } else {
                          seen += std::get<std::string>(request);
                      }
                  },
                  [](ShardIndex, Answer&&) { FAIL(); }),
              3u);
    EXPECT_EQ(seen, "1note2");
    EXPECT_EQ(a.awaited(kB), 2u);
    std::vector<std::uint64_t> answers;
    a.drain([](ShardIndex, auto&&) { FAIL(); },
            [&](ShardIndex, Answer&& answer) { answers.push_back(*answer.value); });
    EXPECT_EQ(answers, (std::vector<std::uint64_t>{10, 20}));
    EXPECT_EQ(a.awaited(kB), 0u);
    EXPECT_EQ(mesh.stats(kA, kB).sent, 3u);
    EXPECT_EQ(mesh.stats(kA, kB).answered, 2u);
    EXPECT_EQ(mesh.stats(kB, kA).answered, 0u);
}

TEST(Mesh, AFullLaneAndAFullReservationAreRefusedAndCounted) {
    TestMesh mesh({.shard_count = 2, .lane_capacity = 4});
    auto& a = mesh.port(kA);
    auto& b = mesh.port(kB);
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(a.try_send(kB, Query{}));
    }
    std::variant<Query, std::string> refused = std::string("kept");
    EXPECT_FALSE(a.try_post(kB, std::move(refused)));
    EXPECT_EQ(std::get<std::string>(refused), "kept");
    // The requests are taken, but their replies are still owed: no room for a fifth.
    std::size_t taken = b.drain([](ShardIndex, auto&&) {}, [](ShardIndex, Answer&&) {});
    EXPECT_EQ(taken, 4u);
    EXPECT_FALSE(a.try_send(kB, Query{}));
    EXPECT_TRUE(a.try_post(kB, std::string("posts need no reservation")));
    for (int i = 0; i < 4; ++i) {
        b.reply(kA, {});
    }
    EXPECT_FALSE(a.try_send(kB, Query{}));
    EXPECT_EQ(a.drain([](ShardIndex, auto&&) {}, [](ShardIndex, Answer&&) {}), 4u);
    EXPECT_TRUE(a.try_send(kB, Query{}));
    EXPECT_EQ(mesh.stats(kA, kB).full, 3u);
}

TEST(MeshDeathTest, AReplyWithoutARequestIsCaught) {
    TestMesh mesh({.shard_count = 2, .lane_capacity = 1});
    mesh.port(kB).reply(kA, {});
    EXPECT_DEATH(mesh.port(kB).reply(kA, {}), "try_push");
}

TEST(Mesh, OnlyASleepingTargetIsWokenAndOnlyOnce) {
    TestMesh mesh({.shard_count = 2, .lane_capacity = 8});
    FakeIo io;
    auto& a = mesh.port(kA);
    auto& b = mesh.port(kB);
    a.attach(io);
    ASSERT_TRUE(a.try_send(kB, Query{}));
    a.flush();
    EXPECT_TRUE(io.woken.empty());
    EXPECT_FALSE(b.before_sleep());  // a message waits
    b.drain([](ShardIndex, auto&&) {}, [](ShardIndex, Answer&&) {});
    EXPECT_TRUE(b.before_sleep());
    ASSERT_TRUE(a.try_send(kB, Query{}));
    ASSERT_TRUE(a.try_send(kB, Query{}));
    a.flush();
    a.flush();
    EXPECT_EQ(io.woken, std::vector<ShardIndex>{kB});
    b.after_sleep();
    ASSERT_TRUE(a.try_send(kB, Query{}));
    a.flush();
    EXPECT_EQ(io.woken.size(), 1u);
}

struct Desk : coro::Anchored {
    coro::ReadyQueue ready;
    coro::Scope scope{ready};
    TicketTable<std::string> table{kA, 2, ready};
    std::string got;
};
coro::Task<void> await_ticket(coro::Anchor<Desk> desk, Ticket ticket) {
    const std::string reply = co_await desk->table.wait(ticket);
    desk->got += reply;
}

TEST(Ticket, CompletesAWaiterAndIgnoresStaleReplies) {
    Desk desk;
    const auto first = desk.table.open();
    const auto second = desk.table.open();
    ASSERT_TRUE(first && second);
    EXPECT_FALSE(desk.table.open().has_value());
    desk.scope.spawn(await_ticket, coro::Anchor(desk), *first);
    EXPECT_TRUE(desk.table.complete(*first, "one"));
    EXPECT_FALSE(desk.table.complete(*first, "twice"));
    EXPECT_EQ(desk.got, "");
    desk.ready.run(10);
    EXPECT_EQ(desk.got, "one");
    EXPECT_FALSE(desk.table.complete(*first, "late"));
    // A reply that was there before the wait.
    EXPECT_TRUE(desk.table.complete(*second, "two"));
    desk.scope.spawn(await_ticket, coro::Anchor(desk), *second);
    EXPECT_EQ(desk.got, "onetwo");
    // Abandoned: the slot is reused under another generation.
    const auto given_up = desk.table.open();
    desk.table.abandon(*given_up);
    const auto reused = desk.table.open();
    EXPECT_EQ(reused->slot, given_up->slot);
    EXPECT_NE(reused->generation, given_up->generation);
    EXPECT_FALSE(desk.table.complete(*given_up, "stale"));
    EXPECT_FALSE(desk.table.complete(
        {.shard = kB, .slot = reused->slot, .generation = reused->generation}, "x"));
    EXPECT_FALSE(desk.table.complete({.shard = kA, .slot = 99, .generation = 1}, "x"));
    EXPECT_EQ(desk.table.open_count(), 1u);
    desk.table.abandon(*reused);
}

// Two threads, each sends and answers with lanes far too small: no deadlock, no loss, order kept.
TEST(Mesh, TwoBusyShardsNeverBlockEachOther) {
    constexpr std::uint64_t kMessages = 50'000;
    TestMesh mesh({.shard_count = 2, .lane_capacity = 8});
    std::atomic<int> done{0};
    auto run = [&](ShardIndex self, ShardIndex other) {
        auto& port = mesh.port(self);
        std::uint64_t sent = 0;
        std::uint64_t answered = 0;
        std::uint64_t served = 0;
        bool announced = false;
        while (done.load() < 2) {
            while (sent < kMessages && port.try_send(other, Query{.value = sent})) {
                ++sent;
            }
            const std::size_t taken = port.drain(
                [&](ShardIndex from, std::variant<Query, std::string>&& request) {
                    const std::uint64_t value = std::get<Query>(request).value;
                    EXPECT_EQ(value, served);
                    ++served;
                    port.reply(from, {.value = std::make_unique<std::uint64_t>(value + 1)});
                },
                [&](ShardIndex, Answer&& answer) {
                    ++answered;
                    EXPECT_EQ(*answer.value, answered);
                });
            if (!announced && answered == kMessages && served == kMessages) {
                announced = true;
                ++done;
            }
            if (taken == 0) {
                std::this_thread::yield();
            }
        }
        EXPECT_EQ(answered, kMessages);
    };
    std::thread thread(run, kB, kA);
    run(kA, kB);
    thread.join();
    EXPECT_EQ(mesh.stats(kA, kB).request_depth, 0u);
}

}  // namespace
}  // namespace galgo::runtime

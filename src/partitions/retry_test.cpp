// Sends that are repeated, and sends that find the pipeline full.
#include <gtest/gtest.h>

#include <vector>

#include "coro/scope.hpp"
#include "test_table.hpp"

namespace galgo::partitions {
namespace {

using coro::Task;
using runtime_sim::DiskOp;

struct Sent {
    std::uint64_t request = 1;
    std::byte payload{1};
    std::uint64_t session = 5;
};

Task<Result<Offset>> send(TableRig& rig, Sent sent) {
    GALGO_CO_TRY_ASSIGN(PartitionHandle handle, co_await TableRig::open(rig, kLife));
    wire::BatchBuilder builder;
    builder.reset(1);
    const std::vector<std::byte> payload(100, sent.payload);
    builder.add({.id = 1, .timestamp_us = 1, .payload = payload, .user_headers = {}});
    const ConstBytes built = builder.finish();
    memory::BufRef batch = *rig.pool.acquire(built.size());
    std::ranges::copy(built, batch.mutable_bytes().begin());
    Result<Offset> base = co_await handle->append(
        {.batch = std::move(batch),
         .message_count = 1,
         .producer = {.session = SessionId{sent.session}, .request = RequestNumber{sent.request}}});
    co_return base;
}

/// Sends that are begun in one step, and how they ended.
struct Together : coro::Anchored {
    explicit Together(TableRig& on) : rig(on), scope(on.node.queue()) {}
    void start(Sent sent) { scope.spawn(run, coro::Anchor<Together>(*this), sent); }
    static Task<void> run(coro::Anchor<Together> together, Sent sent) {
        Result<Offset> base = co_await send(together->rig, sent);
        together->results.push_back(base);
    }
    void finish() { rig.world.run(rig.node, scope.close()); }

    TableRig& rig;
    coro::Scope scope;
    std::vector<Result<Offset>> results;  ///< in the order of their ends
};

std::uint32_t count(TableRig& rig) {
    return *rig.world.run(rig.node, TableRig::count_of(rig, 0));
}

TEST(Retry, IsAnsweredWithTheFirstConfirmation) {
    TableRig rig;
    EXPECT_EQ(*rig.world.run(rig.node, send(rig, {})), Offset{0});
    EXPECT_EQ(*rig.world.run(rig.node, send(rig, {.request = 2})), Offset{1});
    EXPECT_EQ(*rig.world.run(rig.node, send(rig, {})), Offset{0});
    EXPECT_EQ(*rig.world.run(rig.node, send(rig, {.payload = std::byte{2}})), Offset{2});
    EXPECT_EQ(*rig.world.run(rig.node, send(rig, {.session = 6})), Offset{3});
    EXPECT_EQ(count(rig), 4U);
}

TEST(Retry, OfASendOnItsWayWaitsForIt) {
    TableRig rig;
    Together together(rig);
    for (int i = 0; i < 3; ++i) {
        together.start({});
    }
    together.finish();
    ASSERT_EQ(together.results.size(), 3U);
    for (const Result<Offset>& base : together.results) {
        EXPECT_EQ(*base, Offset{0});
    }
    EXPECT_EQ(count(rig), 1U);
}

TEST(Retry, OfAFailedSendIsANewOne) {
    TableRig rig;
    ASSERT_TRUE(rig.world.run(rig.node, send(rig, {})).has_value());
    rig.node.disk->add_fault({.op = DiskOp::kSync, .path_contains = "journal", .times = 1});
    const Result<Offset> failed = rig.world.run(rig.node, send(rig, {.request = 2}));
    ASSERT_FALSE(failed.has_value());
    rig.node.disk->clear_faults();
    rig.world.run_for(2 * kSecond);  // the journal has another file
    const Result<Offset> again = rig.world.run(rig.node, send(rig, {.request = 2}));
    ASSERT_TRUE(again.has_value()) << to_string(again.error());
    EXPECT_GE(*again, Offset{1});
}

TEST(Retry, IsForgottenWithTheSession) {
    TableRig rig;
    EXPECT_EQ(*rig.world.run(rig.node, send(rig, {})), Offset{0});
    rig.table->retries().end_session(SessionId{5});
    EXPECT_EQ(*rig.world.run(rig.node, send(rig, {})), Offset{1});
}

// 32 in the pipeline and 64 behind them; they go in the order of asking.
TEST(Admission, WaitsInOrderAndRefusesWhenTooManyWait) {
    TableRig rig;
    ASSERT_TRUE(rig.append_now(0, 10).has_value());
    Together together(rig);
    for (std::uint64_t request = 1; request <= 100; ++request) {
        together.start({.request = request});
    }
    together.finish();
    const std::vector<Result<Offset>>& results = together.results;
    ASSERT_EQ(results.size(), 100U);
    for (std::size_t i = 0; i < 4; ++i) {
        ASSERT_FALSE(results[i].has_value());
        EXPECT_EQ(results[i].error().code, ErrorCode::kTransientNotAccepted);
    }
    for (std::size_t i = 4; i < results.size(); ++i) {
        ASSERT_TRUE(results[i].has_value());
        EXPECT_EQ(*results[i], Offset{i - 3});
    }
    EXPECT_EQ(count(rig), 97U);
}

}  // namespace
}  // namespace galgo::partitions

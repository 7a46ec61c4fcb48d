#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "coro/scope.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"

namespace galgo::coro {
namespace {

Task<int> answer() {
    co_return 42;
}
Task<std::string> describe(const std::string& what) {
    const int value = co_await answer();
    co_return what + std::to_string(value);
}
Task<void> run_describe(std::shared_ptr<std::string> out) {
    *out = co_await describe("the answer is ");
}

TEST(Task, ReturnsThroughNestedAwaits) {
    ReadyQueue queue;
    Scope scope(queue);
    auto out = std::make_shared<std::string>();
    scope.spawn(run_describe, out);
    EXPECT_EQ(*out, "the answer is 42");
    EXPECT_EQ(scope.inside(), 0u);
}

Task<int> count_down(int n) {
    int sum = 0;
    for (int i = 0; i < n; ++i) {
        sum += co_await answer();
    }
    co_return sum;
}
Task<void> run_many(std::shared_ptr<int> out) {
    *out = co_await count_down(1'000'000);
}

TEST(Task, DoesNotGrowTheStack) {
    ReadyQueue queue;
    Scope scope(queue);
    auto out = std::make_shared<int>(0);
    scope.spawn(run_many, out);
    EXPECT_EQ(*out, 42'000'000);
}

struct Gate : Anchored {
    explicit Gate(ReadyQueue& queue) : event(queue), semaphore(queue, 2) {}
    Event event;
    Semaphore semaphore;
    std::vector<int> order;
};

Task<int> wait_then(Gate& gate, int value) {
    co_await gate.event.wait();
    gate.order.push_back(value);
    co_return value;
}
Task<void> run_all(Anchor<Gate> gate) {
    auto [a, b] = co_await all(wait_then(*gate, 1), wait_then(*gate, 2));
    gate->order.push_back(a + b);
}

TEST(All, ResumesWhenTheLastEnds) {
    ReadyQueue queue;
    Gate gate(queue);
    Scope scope(queue);
    scope.spawn(run_all, Anchor(gate));
    EXPECT_EQ(scope.inside(), 1u);
    gate.event.set();
    while (queue.run(16) != 0) {
    }
    EXPECT_EQ(gate.order, (std::vector{1, 2, 3}));
    EXPECT_EQ(scope.inside(), 0u);
}

Task<void> run_all_at_once(std::shared_ptr<int> out) {
    auto [a, b] = co_await all(answer(), answer());
    *out = a + b;
}

TEST(All, WorksWhenNobodySuspends) {
    ReadyQueue queue;
    Scope scope(queue);
    auto out = std::make_shared<int>(0);
    scope.spawn(run_all_at_once, out);
    EXPECT_EQ(*out, 84);
}

Task<void> take_units(Anchor<Gate> gate, int id, int units) {
    co_await gate->semaphore.acquire(static_cast<std::size_t>(units));
    gate->order.push_back(id);
}
Task<void> close_scope(Anchor<Gate> gate, std::shared_ptr<Scope> scope) {
    co_await scope->close();
    gate->order.push_back(99);
}

TEST(Semaphore, ServesInOrder) {
    ReadyQueue queue;
    Gate gate(queue);
    auto scope = std::make_shared<Scope>(queue);
    Scope outer(queue);
    scope->spawn(take_units, Anchor(gate), 1, 2);
    scope->spawn(take_units, Anchor(gate), 2, 2);
    scope->spawn(take_units, Anchor(gate), 3, 1);
    outer.spawn(close_scope, Anchor(gate), scope);
    EXPECT_EQ(gate.order, (std::vector{1}));
    gate.semaphore.release(1);
    EXPECT_EQ(queue.run(16), 0u);
    gate.semaphore.release(2);
    while (queue.run(16) != 0) {
    }
    EXPECT_EQ(gate.order, (std::vector{1, 2, 3, 99}));
}

Task<void> yields(Anchor<Gate> gate, std::shared_ptr<ReadyQueue> queue) {
    for (int i = 0; i < 3; ++i) {
        gate->order.push_back(i);
        co_await yield_to(*queue);
    }
}

TEST(ReadyQueue, RunsOnlyWhatWasQueued) {
    auto queue = std::make_shared<ReadyQueue>();
    Gate gate(*queue);
    Scope scope(*queue);
    scope.spawn(yields, Anchor(gate), queue);
    EXPECT_EQ(queue->run(16), 1u);
    EXPECT_EQ(queue->run(16), 1u);
    EXPECT_EQ(queue->run(16), 1u);
    EXPECT_EQ(queue->run(16), 0u);
    EXPECT_EQ(gate.order, (std::vector{0, 1, 2}));
}

}  // namespace
}  // namespace galgo::coro

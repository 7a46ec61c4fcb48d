// What a step costs: no allocation once the pool has a pipeline, alone and as one of three. The
// time is printed, not judged: this is a build with checks. `./x bench consensus` judges it in a
// release build.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "consensus/replica.hpp"

namespace {
std::size_t g_allocations = 0;
}  // namespace

// Counts what the whole binary allocates.
void* operator new(std::size_t size) {
    ++g_allocations;
    void* memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) {
        std::abort();
    }
    return memory;
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace galgo::consensus {
namespace {

constexpr int kRounds = 20'000;

struct Count {
    std::size_t before = g_allocations;
    [[nodiscard]] std::size_t since() const { return g_allocations - before; }
};

TEST(StepCost, AloneARequestAndItsCommitAllocateNothing) {
    PipelinePool pool;
    const ReplicaOptions options;
    Replica replica(pool, options, GroupId{1}, Incarnation{1});
    EffectList effects;
    replica.step(Boot{}, effects);
    const auto round = [&](std::uint64_t i) {
        effects.clear();
        replica.step(ClientRequest{.token = Token{i}, .wall = Timestamp{i}, .body = BodyDigest{i}},
                     effects);
        const Prepare prepare = std::get<Append>(effects.view()[0]).prepare;
        effects.clear();
        replica.step(
            AppendDone{
                .op = prepare.op, .identity = prepare.identity, .status = AppendStatus::kDurable},
            effects);
        GALGO_CHECK(std::holds_alternative<Commit>(effects.view()[0]));
    };
    round(0);  // the pool gets its first pipeline
    const Count count;
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 1; i <= kRounds; ++i) {
        round(i);
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(count.since(), 0u);
    EXPECT_EQ(replica.commit(), OpNumber{kRounds + 1});
    std::printf("a group of one: %lld ns for a request and its commit (two steps)\n",
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count() / kRounds));
}

TEST(StepCost, ThreeReplicasAllocateNothing) {
    PipelinePool pool;
    ReplicaOptions options[3];
    std::unique_ptr<Replica> replicas[3];
    EffectList effects;
    for (std::uint8_t i = 0; i < 3; ++i) {
        options[i].replica = ReplicaIndex{i};
        options[i].replica_count = 3;
        replicas[i] = std::make_unique<Replica>(pool, options[i], GroupId{1}, Incarnation{1});
        effects.clear();
        replicas[i]->step(Boot{.fresh = true}, effects);
        const SuperblockState state = std::get<PersistSuperblock>(effects.view()[0]).state;
        effects.clear();
        replicas[i]->step(SuperblockDone{.state = state, .written = true}, effects);
    }
    EffectList more;
    const auto done = [](const Prepare& prepare) {
        return AppendDone{
            .op = prepare.op, .identity = prepare.identity, .status = AppendStatus::kDurable};
    };
    const auto round = [&](std::uint64_t i) {
        effects.clear();
        replicas[0]->step(
            ClientRequest{.token = Token{i}, .wall = Timestamp{i}, .body = BodyDigest{i}}, effects);
        const Prepare prepare = std::get<Append>(effects.view()[0]).prepare;
        const Frame frame = std::get<Send>(effects.view()[1]).frame.values();
        more.clear();
        replicas[0]->step(done(prepare), more);
        for (const std::uint8_t backup : {std::uint8_t{1}, std::uint8_t{2}}) {
            more.clear();
            replicas[backup]->step(Received{.peer = ReplicaIndex{0}, .frame = frame}, more);
            more.clear();
            replicas[backup]->step(done(prepare), more);
            const Frame ok = std::get<Send>(more.view()[0]).frame.values();
            more.clear();
            replicas[0]->step(Received{.peer = ReplicaIndex{backup}, .frame = ok}, more);
        }
    };
    for (std::uint64_t i = 0; i < 3; ++i) {
        round(i);
    }
    const Count count;
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t i = 3; i < kRounds; ++i) {
        round(i);
    }
    const auto spent = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(count.since(), 0u);
    EXPECT_EQ(replicas[0]->commit(), OpNumber{kRounds});
    EXPECT_EQ(replicas[1]->commit(), OpNumber{kRounds - 1});
    std::printf("three replicas: %lld ns for a request on all of them (eight steps)\n",
                static_cast<long long>(
                    std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count() / kRounds));
}

TEST(StepCost, AThousandBusyGroupsAllocateOnlyTheFirstTime) {
    PipelinePool pool;
    const ReplicaOptions options;
    std::vector<std::unique_ptr<Replica>> replicas;
    std::vector<Prepare> prepares(1000);
    EffectList effects;
    for (std::uint64_t i = 0; i < prepares.size(); ++i) {
        replicas.push_back(std::make_unique<Replica>(pool, options, GroupId{i}, Incarnation{1}));
        replicas.back()->step(Boot{}, effects);
    }
    const auto round = [&](std::uint64_t wall) {
        for (std::size_t i = 0; i < replicas.size(); ++i) {
            effects.clear();
            replicas[i]->step(
                ClientRequest{.token = Token{i}, .wall = Timestamp{wall}, .body = BodyDigest{i}},
                effects);
            prepares[i] = std::get<Append>(effects.view()[0]).prepare;
        }
        for (std::size_t i = 0; i < replicas.size(); ++i) {
            effects.clear();
            replicas[i]->step(AppendDone{.op = prepares[i].op,
                                         .identity = prepares[i].identity,
                                         .status = AppendStatus::kDurable},
                              effects);
        }
    };
    const Count first;
    round(1);
    EXPECT_GE(first.since(), replicas.size());
    const Count second;
    round(2);
    EXPECT_EQ(second.since(), 0u);
}

TEST(StepCost, AnIdleGroupIsSmall) {
    const Count count;
    PipelinePool pool;
    const ReplicaOptions options;
    Replica replica(pool, options, GroupId{1}, Incarnation{1});
    EffectList effects;
    replica.step(Boot{}, effects);
    EXPECT_EQ(count.since(), 0u);
    EXPECT_FALSE(replica.wants_ticks());
    EXPECT_LE(sizeof(Replica), 128u);
}

}  // namespace
}  // namespace galgo::consensus

#include "shard/hash_steps.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "coro/scope.hpp"
#include "crypto/hash.hpp"

namespace galgo::shard {
namespace {

struct Hashing : coro::Anchored {
    coro::ReadyQueue ready;
    std::vector<std::byte> bytes;
    std::optional<std::uint64_t> digest;
};

coro::Task<void> hash(coro::Anchor<Hashing> run) {
    run->digest = co_await hash_in_steps(run->ready, run->bytes);
}

// The digest is that of all bytes; others get a turn before each further step.
TEST(HashSteps, OthersGetATurnBetweenTwoSteps) {
    struct Row {
        std::size_t size;
        std::size_t turns;
    };
    for (const Row& row :
         {Row{0, 0}, Row{1000, 0}, Row{kHashStepBytes, 0}, Row{kHashStepBytes + 1, 1},
          Row{2 * kHashStepBytes, 1}, Row{2 * kHashStepBytes + 1, 2}}) {
        Hashing run;
        run.bytes.resize(row.size);
        for (std::size_t i = 0; i < row.size; i += 97) {
            run.bytes[i] = static_cast<std::byte>(i % 251);
        }
        coro::Scope scope(run.ready);
        scope.spawn(hash, coro::Anchor<Hashing>(run));
        std::size_t turns = 0;
        while (run.ready.run(1) != 0) {
            ++turns;
        }
        EXPECT_EQ(turns, row.turns) << row.size;
        EXPECT_EQ(run.digest, crypto::xxh3_64(run.bytes)) << row.size;
    }
}

}  // namespace
}  // namespace galgo::shard

// Steady state: no call of the general allocator for a message, on the whole way from the frame to
// the reply, for every way of sending and polling (message_cases.hpp).
//
// What is counted and what is not: account.hpp. Not counted are the simulator and the client.
// Counted is all code of the server on both shards while the requests run, flushes and syncs in the
// background included, and the counts are 0 and not "nearly 0".
// What may allocate in a running server, by the second or by the megabyte and not by the message,
// and does not happen while these runs are counted: housekeeping (once a second, with the
// checkpoint of stored offsets), opening a partition, the next journal file (every 8 MiB), the next
// segment, a doubling of the open segment's index (14 times a GiB), a poll of more than 4 MiB.
//
// Coroutine frames come from lists; in builds with the address sanitizer from the general
// allocator, on purpose (coro/frame_pool.hpp). Only there they are taken off the count.
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "message_cases.hpp"
#include "message_world.hpp"

namespace galgo::performance {
namespace {

#if __has_feature(address_sanitizer)
constexpr bool kFramesArePooled = false;
#else
constexpr bool kFramesArePooled = true;
#endif

std::uint64_t calls_of(const Cost& cost) {
    return kFramesArePooled ? cost.allocator_calls : cost.allocator_calls - cost.frame_calls;
}

/// Keeps the compiler from removing an allocation.
void keep(const void* memory) {
    asm volatile("" : : "g"(memory) : "memory");
}

TEST(AllocationCounter, SeesWhatIsAllocatedInsideTheBracketOnly) {
    ASSERT_TRUE(allocator_is_watched());
    MessageWorld world;
    const Cost inside = world.run_bracketed([] {
        void* plain = std::malloc(100);
        keep(plain);
        std::free(plain);
        auto* object = new int(1);
        keep(object);
        delete object;
        std::vector<int> grown(1000);
        keep(grown.data());
        {
            const Outside other;
            std::vector<int> not_ours(1000);
            keep(not_ours.data());
        }
    });
    EXPECT_EQ(inside.allocator_calls, 3u);
    EXPECT_GE(inside.allocator_bytes, 100 + sizeof(int) + 1000 * sizeof(int));
    const Cost nothing = world.run_bracketed([] {});
    EXPECT_EQ(nothing.allocator_calls, 0u);
}

TEST(AllocationCounter, SeesWhatIsAllocatedInATurnOfEitherShard) {
    MessageWorld world;
    for (const Owner owner : {Owner::kLocal, Owner::kForeign}) {
        Case what = allocation_cases().front();
        what.owner = owner;
        const Cost clean = world.run(what);
        what.planted = 3;
        const Cost planted = world.run(what);
        EXPECT_EQ(calls_of(clean), 0u);
        EXPECT_EQ(calls_of(planted), 3u);
    }
}

class SteadyState : public ::testing::TestWithParam<Case> {};

TEST_P(SteadyState, CallsNoAllocatorForAMessage) {
    MessageWorld world;
    const Cost cost = world.run(GetParam());
    EXPECT_EQ(cost.requests, GetParam().measured);
    EXPECT_GE(cost.messages, cost.requests);
    EXPECT_LT(cost.virtual_ns, kQuietNs) << "the run has to be shorter to be free of housekeeping";
    EXPECT_EQ(calls_of(cost), 0u) << "in " << cost.messages << " messages, " << cost.allocator_bytes
                                  << " bytes. To find who: galgo-message-cost --trap '"
                                  << GetParam().name << "' in a debugger";
}

INSTANTIATE_TEST_SUITE_P(MessagePath, SteadyState, ::testing::ValuesIn(allocation_cases()),
                         [](const ::testing::TestParamInfo<Case>& tested) {
                             std::string name;
                             for (const char c : tested.param.name) {
                                 if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
                                     name += c;
                                 } else if (!name.empty() && name.back() != '_') {
                                     name += '_';
                                 }
                             }
                             return name;
                         });

}  // namespace
}  // namespace galgo::performance

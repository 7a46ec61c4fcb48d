// Recovery over files that anything may have happened to: it neither crashes nor hangs nor loses
// what is whole, and the log takes appends afterwards or says why not.
#include "test_rig.hpp"

namespace galgo::storage {
namespace {

using runtime_sim::CrashKind;
using runtime_sim::SimRandom;

/// Flips, overwrites, cuts, inserts or repeats.
void mutate(SimRandom& random, std::vector<std::byte>& bytes) {
    const std::uint64_t times = 1 + random.below(4);
    for (std::uint64_t i = 0; i < times; ++i) {
        const std::size_t at = bytes.empty() ? 0 : random.below(bytes.size());
        const std::size_t length = std::min<std::size_t>(bytes.size() - at, random.below(400));
        const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end = place + static_cast<std::ptrdiff_t>(length);
        switch (random.below(6)) {
            case 0:
                if (!bytes.empty()) {
                    bytes[at] ^= static_cast<std::byte>(1U << random.below(8));
                }
                break;
            case 1:
                std::fill(place, end, static_cast<std::byte>(random.below(256)));
                break;
            case 2:
                bytes.resize(at);
                break;
            case 3:
                bytes.erase(place, end);
                break;
            case 4: {
                const std::vector<std::byte> copy(place, end);
                bytes.insert(
                    bytes.begin() + static_cast<std::ptrdiff_t>(random.below(bytes.size() + 1)),
                    copy.begin(), copy.end());
                break;
            }
            default:
                std::generate(place, end,
                              [&] { return static_cast<std::byte>(random.below(256)); });
                break;
        }
    }
}

TEST(HostileBytes, RecoveryTakesAnything) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(seed);
        Rig rig(
            seed,
            {.segment_size = 20'000, .messages_required_to_save = 10, .persisted = seed % 2 == 0},
            128 * kKiB);
        SimRandom random(seed);
        ASSERT_NO_FATAL_FAILURE(rig.start());
        for (int i = 0; i < 40; ++i) {
            ASSERT_TRUE(
                rig.append_now(1 + static_cast<std::uint32_t>(random.below(3)), random.below(2000))
                    .has_value());
        }
        if (random.percent(50)) {
            rig.stop();
        } else {
            rig.crash(CrashKind::kPower);
        }
        for (const std::string& path : rig.node.disk->list_all()) {
            if (!path.ends_with('/') && random.percent(50)) {
                auto bytes = *rig.node.disk->read_file(path);
                mutate(random, bytes);
                rig.node.disk->write_file(path, bytes);
            }
        }
        ASSERT_NO_FATAL_FAILURE(rig.start());
        const Offset end = rig.log->end_offset();
        std::uint64_t errors = 0;
        for (Offset at = rig.log->first_offset(); at < end && errors < 500;) {
            const auto got = rig.read_now(at, 5);
            if (!got.has_value() || got->message_count == 0) {
                ++errors;
                at = at.next();
                continue;
            }
            for (const auto& batch : Rig::batches_of(*got)) {
                const auto view = wire::BatchView::validate(batch, wire::OffsetDeltas::kContiguous);
                EXPECT_TRUE(view.has_value());
            }
            at = got->next;
        }
        (void)rig.world.run(rig.node, rig.log->offset_at_or_after(Timestamp(1'000'020)));
        if (!rig.log->fenced().has_value()) {
            EXPECT_TRUE(rig.append_now(1, 100).has_value());
            EXPECT_GE(rig.log->end_offset(), end);
            ASSERT_NO_FATAL_FAILURE(rig.restart());
            EXPECT_GE(rig.log->end_offset(), end);
            EXPECT_EQ(rig.read_now(end, 1)->message_count, 1U);
        }
        rig.stop();
    }
}

}  // namespace
}  // namespace galgo::storage

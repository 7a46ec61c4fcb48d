// The metadata plane on the simulated disk: groups share barriers, snapshots are taken under load
// and the log before them goes, a full disk refuses and passes.
#include "shard/metadata_plane.hpp"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.hpp"
#include "coro/scope.hpp"
#include "gmock/gmock.h"
#include "metadata/snapshot.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "shard/metadata_recovery.hpp"
#include "wire/requests.hpp"

namespace galgo::shard {
namespace {

using coro::Task;
using runtime_sim::CrashKind;

const std::string kDirectory = "/metadata";
constexpr std::uint8_t kPipelineMax = 64;

metadata::Admitted create_stream(const std::string& name) {
    ByteWriter body;
    wire::CreateStreamRequest{.name = name, .options = {}}.encode(body);
    Result<metadata::Admitted> admitted = metadata::admit(
        metadata::State(), {.operation = wire::Operation::kCreateStream, .body = body.bytes()});
    EXPECT_TRUE(admitted.has_value());
    return *std::move(admitted);
}

/// One life of a node's metadata plane, and what the disk kept for the next.
struct PlaneRig : coro::Anchored {
    explicit PlaneRig(std::uint64_t seed, storage::MetadataFiles::Options given = {},
                      bool with_thread = false)
        : world(seed),
          node(world.add_node()),
          options(std::move(given)),
          has_offload_thread(with_thread) {
        world.run(node, runtime::make_directories(*node.io, kDirectory));
        node.disk->sync_all();
        options.directory = kDirectory;
        options.identity.salt = 5;
        open();
    }
    ~PlaneRig() { stop(); }
    PlaneRig(const PlaneRig&) = delete;
    PlaneRig& operator=(const PlaneRig&) = delete;

    void open() {
        trash = std::make_unique<storage::Trash>("/trash");
        auto found = world.run(
            node, recover_metadata(*node.io, node.queue(), options, {}, registry, *trash));
        ASSERT_TRUE(found.has_value()) << found.error().text;
        files = std::move(found->files);
        world.run(node, files->sweep());
        clients = std::move(found->clients);
        pair = std::make_unique<MetadataPair>(
            1, MetadataCopy{.state = std::move(found->state), .registry = &registry});
        pair->attach(ShardIndex{0}, *node.loop);
        offload = std::make_unique<runtime::OffloadQueue>(std::uint16_t{1}, 8U, [](ShardIndex) {});
        if (has_offload_thread) {
            offload_thread =
                std::thread([this] { offload->run_worker(runtime::OffloadLane::kUrgent); });
        } else {
            offload->stop();  // nobody waits in it: run_worker() does what is there and returns
        }
        node.loop->add_turn_start(
            [this] {
                if (!has_offload_thread) {
                    offload->run_worker(runtime::OffloadLane::kUrgent);
                }
                return offload->collect();
            },
            "offload");
        plane = std::make_unique<MetadataPlane>(
            *node.loop, *pair, *clients, *files,
            MetadataPlane::Options{.pipeline_max = kPipelineMax,
                                   .head = found->head,
                                   .last_timestamp = found->last_timestamp,
                                   .offload = offload.get(),
                                   .trash = trash.get()});
        plane->start();
        world.run(node, plane->settle_snapshot());
    }
    void stop() {
        if (plane != nullptr) {
            world.run(node, plane->stop());
            world.run(node, files->close());
        }
        world.kill(node);
        if (offload_thread.joinable()) {
            offload->stop();
            offload_thread.join();
        }
        plane.reset();
        files.reset();
        pair.reset();
        offload.reset();
    }
    void restart() {
        stop();
        world.restart(node, CrashKind::kPower);
        open();
    }

    /// Makes `count` streams, one after the other. The first refusal ends it.
    static Task<ErrorCode> make_streams(PlaneRig& rig, std::string prefix, int count) {
        for (int i = 0; i < count; ++i) {
            const Status made =
                co_await rig.plane->propose_own(create_stream(prefix + std::to_string(i)));
            if (!made.has_value()) {
                co_return made.error().code;
            }
            ++rig.made;
        }
        co_return ErrorCode::kOk;
    }
    /// A change that is larger than a file of the log, with nothing in it: to be refused.
    static Task<ErrorCode> make_large(PlaneRig& rig) {
        metadata::Admitted large = create_stream("large");
        large.body.resize(std::size_t{2} * rig.options.region_bytes);
        const Status made = co_await rig.plane->propose_own(std::move(large));
        co_return made.has_value() ? ErrorCode::kOk : made.error().code;
    }
    static Task<void> make_streams_beside(coro::Anchor<PlaneRig> rig, int number, int count) {
        const ErrorCode end = co_await make_streams(*rig, long_prefix(number), count);
        EXPECT_EQ(end, ErrorCode::kOk);
    }
    /// So long that the state becomes large.
    static std::string long_prefix(int number) {
        return "c" + std::to_string(number) + "-" + std::string(120, 'x');
    }
    /// Asks the client table on and on, and gives an offload thread time: virtual time waits for
    /// nobody.
    static Task<void> ask_until_stopped(coro::Anchor<PlaneRig> rig) {
        while (!rig->stop_asking) {
            const MetadataReply reply = co_await rig->plane->submit(
                {.operation = wire::Operation::kCreateStream, .client = ClientId{9}});
            EXPECT_TRUE(reply.eviction.has_value());
            EXPECT_NE(rig->pair->read(ShardIndex{0}).state.op(), OpNumber{0});
            std::this_thread::sleep_for(std::chrono::microseconds(20));
            co_await rig->node.loop->sleep_for(kMillisecond);
        }
    }
    /// Snapshots are encoded on a thread of their own under load.
    static Task<void> load_beside_a_thread(PlaneRig& rig, int clients, int each) {
        const ErrorCode first = co_await make_streams(rig, "first", 1);
        EXPECT_EQ(first, ErrorCode::kOk);
        coro::Scope scope(rig.node.queue());
        scope.spawn(&PlaneRig::ask_until_stopped, coro::Anchor<PlaneRig>(rig));
        co_await load(rig, clients, each);
        rig.stop_asking = true;
        co_await scope.close();
    }
    /// The plane stops while many changes are on their way; each is answered.
    static Task<void> stop_in_the_middle(PlaneRig& rig, int clients) {
        coro::Scope scope(rig.node.queue());
        for (int i = 0; i < clients; ++i) {
            scope.spawn(&PlaneRig::make_streams_until_refused, coro::Anchor<PlaneRig>(rig), i);
        }
        while (!rig.plane->snapshot_running() || rig.made < clients) {
            co_await rig.node.loop->sleep_for(10 * kMicrosecond);
        }
        co_await rig.plane->stop();
        co_await scope.close();
    }
    static Task<void> make_streams_until_refused(coro::Anchor<PlaneRig> rig, int number) {
        const ErrorCode end = co_await make_streams(*rig, long_prefix(number), 1000);
        EXPECT_EQ(end, ErrorCode::kTransientNotAccepted);
    }
    /// Many at once, each with one change in flight.
    static Task<void> load(PlaneRig& rig, int clients, int each) {
        coro::Scope scope(rig.node.queue());
        for (int i = 0; i < clients; ++i) {
            scope.spawn(&PlaneRig::make_streams_beside, coro::Anchor<PlaneRig>(rig), i, each);
        }
        co_await scope.close();
    }

    [[nodiscard]] std::vector<std::byte> published() const {
        return metadata::encode_snapshot(pair->read(ShardIndex{0}).state);
    }
    [[nodiscard]] std::size_t count_files(const std::string& part) const {
        std::size_t count = 0;
        for (const std::string& path : node.disk->list_all()) {
            count += path.find(part) != std::string::npos ? 1U : 0U;
        }
        return count;
    }

    runtime_sim::TestWorld world;
    runtime_sim::Node& node;
    storage::MetadataFiles::Options options;
    metadata::PartitionStatsRegistry registry;
    std::unique_ptr<storage::Trash> trash;
    std::unique_ptr<storage::MetadataFiles> files;
    std::unique_ptr<metadata::ClientTable> clients;
    std::unique_ptr<MetadataPair> pair;
    std::unique_ptr<runtime::OffloadQueue> offload;
    bool has_offload_thread;
    std::thread offload_thread;
    std::unique_ptr<MetadataPlane> plane;
    bool stop_asking = false;
    int made = 0;
};

TEST(MetadataDurability, ChangesOfManyClientsShareBarriers) {
    PlaneRig rig(1);
    const std::uint64_t before = rig.files->wal().barrier_count();
    rig.world.run(rig.node, PlaneRig::load(rig, 2 * kPipelineMax, 8));
    EXPECT_EQ(rig.made, 2 * kPipelineMax * 8);
    const std::uint64_t barriers = rig.files->wal().barrier_count() - before;
    EXPECT_GE(rig.files->wal().entry_count(), 16 * barriers) << barriers << " barriers";
}

TEST(MetadataDurability, SnapshotsAreTakenUnderLoadAndNobodyIsRefused) {
    PlaneRig rig(2);
    rig.stop();
    rig.world.restart(rig.node, CrashKind::kPower);
    rig.options.tail_ops_max = 256;
    rig.options.snapshot_ops = 128;
    rig.options.region_bytes = 16 * storage::kWalBlockBytes;
    rig.open();
    rig.world.run(rig.node, PlaneRig::load(rig, 100, 20));
    EXPECT_EQ(rig.made, 2000);
    EXPECT_GE(rig.files->snapshot_count(), 7U);
    EXPECT_LE(rig.count_files("/snapshot."), 3U);
    const std::vector<std::byte> before = rig.published();
    rig.restart();
    EXPECT_GE(rig.files->loaded_snapshot_op().value(), 1000U);
    EXPECT_EQ(rig.published(), before);
}

TEST(MetadataDurability, AFullDiskRefusesUntilThereIsRoom) {
    PlaneRig rig(3);
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "a", 5)), ErrorCode::kOk);
    rig.node.disk->set_capacity(rig.node.disk->used_bytes());
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 2000)),
              ErrorCode::kTransientNotAccepted);
    EXPECT_FALSE(rig.plane->fenced());
    EXPECT_GT(rig.made, 100) << "what is made ahead takes changes";
    const int made = rig.made;
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "c", 1)),
              ErrorCode::kTransientNotAccepted);
    rig.node.disk->set_capacity(1ULL << 40U);
    rig.world.run_for(2 * kSecond);
    // The first ones ask for the room that is there now.
    for (int i = 0; i < 20 && rig.made == made; ++i) {
        (void)rig.world.run(rig.node, PlaneRig::make_streams(rig, "d", 1));
        rig.world.run_for(kSecond);
    }
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "e", 600)), ErrorCode::kOk);
    const std::vector<std::byte> before = rig.published();
    rig.restart();
    EXPECT_EQ(rig.published(), before);
    EXPECT_EQ(rig.pair->read(ShardIndex{0}).state.find_stream(wire::Identifier::named("c0")),
              nullptr);
}

// The number of a refused change is gone, its place in the log is not: however many were refused,
// changes go on without a restart.
TEST(MetadataDurability, RefusedChangesDoNotUseUpTheLog) {
    PlaneRig rig(
        6,
        {.tail_ops_max = 256, .snapshot_ops = 128, .region_bytes = 32 * storage::kWalBlockBytes});
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "a", 20)), ErrorCode::kOk);
    rig.world.run_for(kSecond);
    // The next file is there, and each of these asks for a larger one.
    rig.node.disk->add_fault({.op = runtime_sim::DiskOp::kWrite,
                              .path_contains = "journal.wal.0000000002.tmp",
                              .times = 100'000,
                              .error = ENOSPC});
    const OpNumber before = rig.plane->commit();
    for (int i = 0; i < 300; ++i) {
        EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_large(rig)),
                  ErrorCode::kTransientNotAccepted);
    }
    rig.node.disk->clear_faults();
    rig.world.run_for(2 * kSecond);
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 10)), ErrorCode::kOk);
    EXPECT_GT(rig.plane->commit().value() - before.value(), 256U) << "numbers were left out";
    EXPECT_EQ(rig.files->snapshot_count(), 0U) << "few entries need no snapshot";
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "c", 600)), ErrorCode::kOk);
    EXPECT_GE(rig.files->snapshot_count(), 4U);
    const std::vector<std::byte> published = rig.published();
    rig.restart();
    EXPECT_EQ(rig.published(), published);
}

TEST(MetadataDurability, AFailedSnapshotIsTriedAgain) {
    PlaneRig rig(4);
    rig.stop();
    rig.world.restart(rig.node, CrashKind::kPower);
    rig.options.tail_ops_max = 256;
    rig.options.snapshot_ops = 10;
    rig.open();
    rig.node.disk->add_fault({.op = runtime_sim::DiskOp::kRename,
                              .path_contains = "snapshot.",
                              .times = 1,
                              .error = EIO});
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "a", 15)), ErrorCode::kOk);
    EXPECT_EQ(rig.files->snapshot_count(), 0U);
    rig.world.run_for(2 * kSecond);
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 15)), ErrorCode::kOk);
    rig.world.run_for(kSecond);
    EXPECT_GE(rig.files->snapshot_count(), 1U);
    EXPECT_FALSE(rig.plane->fenced());
}

// More changes at once than the tail takes: those that find no room wait until the ones before them
// are published, because only then a snapshot can cover these.
TEST(MetadataDurability, ABurstLargerThanTheTailWaitsForSnapshots) {
    PlaneRig rig(9, {.tail_ops_max = 8, .snapshot_ops = 4});
    rig.world.run(rig.node, PlaneRig::load(rig, 2 * kPipelineMax, 3));
    EXPECT_EQ(rig.made, 2 * kPipelineMax * 3);
    EXPECT_GE(rig.files->snapshot_count(), 8U);
    EXPECT_THAT(rig.plane->faults(), testing::IsEmpty());
}

TEST(MetadataDurability, ATailThatNoSnapshotRelievesRefusesAndRecovers) {
    PlaneRig rig(10, {.tail_ops_max = 16, .snapshot_ops = 8});
    rig.node.disk->add_fault(
        {.op = runtime_sim::DiskOp::kWrite, .path_contains = "/snapshot.", .times = 1'000'000});
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "a", 17)),
              ErrorCode::kTransientNotAccepted);
    EXPECT_EQ(rig.made, 16);
    rig.world.run_for(5 * kSecond);
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 1)),
              ErrorCode::kTransientNotAccepted);
    EXPECT_THAT(rig.plane->faults(), testing::SizeIs(1));
    EXPECT_EQ(rig.files->snapshot_count(), 0U);
    rig.node.disk->clear_faults();
    rig.world.run_for(2 * kSecond);
    rig.plane->tick();
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "c", 20)), ErrorCode::kOk);
    EXPECT_THAT(rig.plane->faults(), testing::IsEmpty());
    const std::vector<std::byte> before = rig.published();
    rig.restart();
    EXPECT_EQ(rig.published(), before);
}

TEST(MetadataDurability, AStopAnswersWhatIsOnItsWay) {
    PlaneRig rig(12, {.tail_ops_max = 32, .snapshot_ops = 8});
    rig.world.run(rig.node, PlaneRig::stop_in_the_middle(rig, 2 * kPipelineMax));
    const std::vector<std::byte> before = rig.published();
    rig.plane.reset();
    rig.world.run(rig.node, rig.files->close());
    rig.restart();
    EXPECT_EQ(rig.published(), before);
}

// For the thread sanitizer: the encoder reads what the loop reads.
TEST(MetadataDurability, SnapshotsAreEncodedBesideTheLoop) {
    PlaneRig rig(11, {.tail_ops_max = 64, .snapshot_ops = 16}, true);
    rig.world.run(rig.node, PlaneRig::load_beside_a_thread(rig, 8, 30));
    EXPECT_EQ(rig.made, 241);
    EXPECT_GE(rig.files->snapshot_count(), 5U);
}

// Logins fill the queue of the offload thread, which does none of them; neither a change nor a
// snapshot waits for one.
TEST(MetadataDurability, ASnapshotDoesNotWaitBehindALoadedQueue) {
    PlaneRig rig(7, {.tail_ops_max = 256, .snapshot_ops = 10});
    std::vector<runtime::OffloadJob> hashes(8);
    for (runtime::OffloadJob& hash : hashes) {
        hash.run = [](runtime::OffloadJob&) noexcept {};
        hash.done = [](runtime::OffloadJob&) noexcept {};
    }
    const auto fill = [](PlaneRig& r, std::vector<runtime::OffloadJob>& jobs) -> Task<bool> {
        for (runtime::OffloadJob& job : jobs) {
            if (!r.offload->try_submit(job)) {
                co_return false;
            }
        }
        co_return true;
    };
    EXPECT_TRUE(rig.world.run(rig.node, fill(rig, hashes)));
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "a", 10)), ErrorCode::kOk);
    rig.world.run_for(500 * kMillisecond);  // less than the time to the next try
    EXPECT_EQ(rig.files->snapshot_count(), 1U);
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 5)), ErrorCode::kOk);
    rig.offload->run_worker(runtime::OffloadLane::kBackground);
    rig.stop();
}

TEST(MetadataDurability, ASuperblockThatCannotBeWrittenFencesAndTheSnapshotStays) {
    for (const std::uint64_t skip : {0U, 1U}) {
        PlaneRig rig(8, {.tail_ops_max = 256, .snapshot_ops = 10});
        rig.node.disk->add_fault({.op = runtime_sim::DiskOp::kSync,
                                  .path_contains = "superblock",
                                  .skip = skip,
                                  .times = 1});
        EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "a", 10)), ErrorCode::kOk);
        rig.world.run_for(kSecond);
        EXPECT_TRUE(rig.plane->fenced());
        EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 1)),
                  ErrorCode::kTransientNotCommitted);
        EXPECT_EQ(rig.count_files("/snapshot."), 1U) << "the superblock may name it";
        const std::vector<std::byte> before = rig.published();
        rig.restart();
        EXPECT_EQ(rig.published(), before);
        EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 1)), ErrorCode::kOk);
    }
}

TEST(MetadataDurability, ALogThatCannotBeWrittenFences) {
    PlaneRig rig(5);
    rig.node.disk->add_fault(
        {.op = runtime_sim::DiskOp::kSync, .path_contains = "journal.wal", .times = 1});
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "a", 1)),
              ErrorCode::kTransientNotCommitted);
    EXPECT_TRUE(rig.plane->fenced());
    EXPECT_EQ(rig.world.run(rig.node, PlaneRig::make_streams(rig, "b", 1)),
              ErrorCode::kTransientNotCommitted);
}

}  // namespace
}  // namespace galgo::shard

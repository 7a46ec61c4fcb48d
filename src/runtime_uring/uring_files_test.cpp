#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>
#include <vector>

#include "runtime/offload.hpp"
#include "test_loop_test.hpp"

namespace galgo::runtime_uring {
namespace {

using coro::Anchor;
using coro::Task;
using runtime::FileHandle;
using runtime::io_await;
using runtime::IoOp;
using runtime::OpenMode;

Task<void> round_trip(Anchor<TestShard> s, std::string dir, std::shared_ptr<bool> done) {
    UringBackend& io = s->io();
    const std::string deep = dir + "/a/b/c";
    const Status made = co_await runtime::make_directories(io, deep);
    EXPECT_TRUE(made.has_value());
    const Status again = co_await runtime::make_directories(io, deep);
    EXPECT_TRUE(again.has_value());
    const std::string path = deep + "/file.tmp";
    const Result<FileHandle> absent = co_await runtime::open(io, path, OpenMode::kRead);
    EXPECT_FALSE(absent.has_value());
    EXPECT_EQ(absent.error().os_errno, ENOENT);
    const Result<FileHandle> file =
        co_await runtime::open(io, path, OpenMode::kCreateExclusive, 0600);
    EXPECT_TRUE(file.has_value());
    const Result<FileHandle> twice =
        co_await runtime::open(io, path, OpenMode::kCreateExclusive, 0600);
    EXPECT_EQ(twice.error().os_errno, EEXIST);

    std::vector<std::byte> data(300'000);
    for (std::size_t i = 0; i < data.size(); ++i) {
        data[i] = static_cast<std::byte>(i * 7 + i / 256);
    }
    const int allocated = co_await io_await([&](IoOp& op) { io.allocate(op, *file, 0, kMiB); });
    EXPECT_EQ(allocated, 0);
    const Status written = co_await runtime::write_all(io, *file, data, 0);
    EXPECT_TRUE(written.has_value());
    EXPECT_EQ(io.file_facts(path)->size_bytes, data.size());  // allocation keeps the visible size
    std::array<iovec, 2> parts{iovec{data.data(), 1000}, iovec{data.data() + 5000, 500}};
    const int gathered = co_await io_await([&](IoOp& op) { io.writev(op, *file, parts, 300'000); });
    EXPECT_EQ(gathered, 1500);
    EXPECT_EQ(io.write_now(*file, ConstBytes(data).first(10), 301'500), 10);
    const Status synced = co_await runtime::sync(io, *file);
    EXPECT_TRUE(synced.has_value());

    const int asked = co_await io_await([&](IoOp& op) { io.prefetch(op, *file, 0, kMiB); });
    EXPECT_EQ(asked, 0);
    std::vector<std::byte> back(400'000);
    const Result<std::size_t> got = co_await runtime::read(io, *file, back, 0);
    EXPECT_EQ(*got, 301'510u);
    EXPECT_TRUE(std::equal(data.begin(), data.end(), back.begin()));
    EXPECT_TRUE(std::equal(data.begin() + 5000, data.begin() + 5500, back.begin() + 301'000));
    const Result<std::size_t> behind = co_await runtime::read(io, *file, back, 1'000'000);
    EXPECT_EQ(*behind, 0u);
    const Status cut = co_await runtime::truncate(io, *file, 1234);
    EXPECT_TRUE(cut.has_value());
    const Status closed = co_await runtime::close(io, *file);
    EXPECT_TRUE(closed.has_value());
    const Status renamed = co_await runtime::rename(io, path, deep + "/file");
    EXPECT_TRUE(renamed.has_value());
    const Status directory_synced = co_await runtime::sync_directory(io, deep);
    EXPECT_TRUE(directory_synced.has_value());

    EXPECT_EQ(io.file_facts(path).error().os_errno, ENOENT);
    EXPECT_EQ(io.file_facts(deep + "/file")->size_bytes, 1234u);
    EXPECT_GT(io.file_facts(deep)->modified_us, 1'600'000'000'000'000u);
    EXPECT_TRUE(io.file_facts(deep)->is_directory);
    EXPECT_EQ(io.list_directory(deep)->size(), 1u);
    EXPECT_EQ(io.list_directory(dir + "/a")->front().name, "b");
    EXPECT_TRUE(io.list_directory(dir + "/a")->front().is_directory);
    EXPECT_EQ(io.list_directory(dir + "/none").error().os_errno, ENOENT);
    EXPECT_GT(io.disk_space(dir)->total_bytes, io.disk_space(dir)->free_bytes);

    const Status not_empty = co_await runtime::remove_directory(io, deep);
    EXPECT_EQ(not_empty.error().os_errno, ENOTEMPTY);
    const Status unlinked = co_await runtime::unlink(io, deep + "/file");
    EXPECT_TRUE(unlinked.has_value());
    const Status removed = co_await runtime::remove_directory(io, deep);
    EXPECT_TRUE(removed.has_value());
    *done = true;
}

TEST(UringFiles, RoundTrip) {
    TempDirectory directory;
    UringGroup group(1);
    TestShard shard(group);
    auto done = std::make_shared<bool>(false);
    shard.scope.spawn(round_trip, Anchor(shard), directory.path(), done);
    ASSERT_TRUE(shard.run_to_end());
    EXPECT_TRUE(*done);
    EXPECT_EQ(shard.io().in_flight(), 0u);
}

struct CountedOp : IoOp {
    int completed = 0;
    std::int32_t result = 0;
    CountedOp() {
        complete = [](IoOp& op, std::int32_t value) noexcept {
            auto& self = static_cast<CountedOp&>(op);
            ++self.completed;
            self.result = value;
        };
    }
};

// More operations than both queues hold: the submission queue is submitted when full, and
// completions that do not fit wait in the kernel. None is lost.
class UringQueues : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutIndexArray, UringQueues, ::testing::Bool());

TEST_P(UringQueues, FullQueuesLoseNothing) {
    TempDirectory directory;
    UringGroup group(1);
    TestShard shard(group, ShardIndex{0},
                    {.ring = {.sq_entries = 8, .cq_entries = 16, .index_array = GetParam()}});
    const int fd = ::open((directory.path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::write(fd, "x", 1), 1);
    std::vector<CountedOp> ops(1000);
    std::vector<std::byte> bytes(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
        shard.io().read(ops[i], FileHandle{fd}, MutableBytes(bytes).subspan(i, 1), 0);
        EXPECT_EQ(ops[i].completed, 0) << "never inside the submitting call";
    }
    const Instant end = shard.io().now().plus(10 * kSecond);
    while (shard.io().in_flight() != 0 && shard.io().now() < end) {
        (void)shard.io().poll(shard.io().now().plus(10 * kMillisecond));
    }
    for (const CountedOp& op : ops) {
        ASSERT_EQ(op.completed, 1);
        ASSERT_EQ(op.result, 1);
    }
    ::close(fd);
}

// The kernel refuses a completion ring that is smaller than the submission ring.
TEST(UringRing, ALargeSubmissionRingHasALargerCompletionRing) {
    EXPECT_EQ(ring_options(1).cq_entries, 4096U);
    EXPECT_EQ(ring_options(2048).cq_entries, 4096U);
    EXPECT_EQ(ring_options(4097).cq_entries, 16'384U);
    EXPECT_EQ(ring_options(kSqEntriesMax).cq_entries, 65'536U);
    for (const std::uint32_t entries : {1U, 4096U, 4097U, 8192U}) {
        Ring ring;
        const Status opened = ring.open(ring_options(entries));
        ASSERT_TRUE(opened.has_value()) << entries << ": " << to_string(opened.error());
        EXPECT_GE(ring.sq_entries(), entries);
    }
}

TEST(UringFiles, ErrorsAreResults) {
    UringGroup group(1);
    TestShard shard(group);
    CountedOp op;
    std::array<std::byte, 4> bytes{};
    shard.io().read(op, FileHandle{9999}, bytes, 0);
    while (op.completed == 0) {
        (void)shard.io().poll(shard.io().now().plus(kSecond));
    }
    EXPECT_EQ(op.result, -EBADF);
    EXPECT_EQ(shard.io().write_now(FileHandle{9999}, bytes, 0), -EBADF);
}

// As on kernels before 6.9: the cut runs on the offload thread, and completes in a later turn.
class UringTruncate : public ::testing::Test {
 protected:
    UringTruncate() {
        fd_ = ::open((directory_.path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        EXPECT_EQ(::ftruncate(fd_, 1000), 0);
        shard_.io().use_offload(&offload_);
        shard_.loop.add_turn_start([this] { return offload_.collect(); });
    }
    ~UringTruncate() override {
        shard_.io().shutdown();
        ::close(fd_);
    }
    void run_worker() {
        offload_.stop();  // it returns when it has done what is there
        std::thread([this] { offload_.run_worker(runtime::OffloadLane::kBackground); }).join();
    }
    [[nodiscard]] off_t size() const {
        struct stat facts{};
        EXPECT_EQ(::fstat(fd_, &facts), 0);
        return facts.st_size;
    }

    TempDirectory directory_;
    UringGroup group_{1};
    runtime::OffloadQueue offload_{1, 4, [this](ShardIndex shard) { group_.wake(shard); }};
    TestShard shard_{group_, ShardIndex{0}, {.ftruncate = false}};
    int fd_ = -1;
};

TEST_F(UringTruncate, RunsOffTheLoop) {
    CountedOp op;
    shard_.io().truncate(op, FileHandle{fd_}, 10);
    shard_.io().cancel(op);  // comes too late, as for everything that runs
    for (int i = 0; i < 3; ++i) {
        shard_.loop.run_turn();
    }
    EXPECT_EQ(op.completed, 0);
    EXPECT_EQ(size(), 1000) << "the shard's own thread did it";
    run_worker();
    EXPECT_EQ(size(), 10);
    EXPECT_EQ(op.completed, 0) << "only in a turn of the loop";
    for (int i = 0; i < 3; ++i) {
        shard_.loop.run_turn();
    }
    EXPECT_EQ(op.completed, 1);
    EXPECT_EQ(op.result, 0);
    EXPECT_EQ(shard_.io().in_flight(), 0u);
}

TEST_F(UringTruncate, TellsItsErrorAndSurvivesAFullQueue) {
    std::vector<CountedOp> ops(6);  // two more than the queue takes
    for (CountedOp& op : ops) {
        shard_.io().truncate(op, FileHandle{9999}, 10);
        EXPECT_EQ(op.completed, 0) << "never inside the submitting call";
    }
    run_worker();
    for (int i = 0; i < 3; ++i) {
        shard_.loop.run_turn();
    }
    for (const CountedOp& op : ops) {
        EXPECT_EQ(op.completed, 1);
        EXPECT_EQ(op.result, -EBADF);
    }
}

TEST_F(UringTruncate, IsDoneThoughTheQueueRefuses) {
    CountedOp op;
    shard_.io().truncate(op, FileHandle{fd_}, 10);
    offload_.refuse();
    run_worker();
    for (int i = 0; i < 3; ++i) {
        shard_.loop.run_turn();
    }
    EXPECT_EQ(op.completed, 1);
    EXPECT_EQ(op.result, 0);
    EXPECT_EQ(size(), 10);
}

TEST_F(UringTruncate, ShutdownWaitsForIt) {
    CountedOp op;
    shard_.io().truncate(op, FileHandle{fd_}, 10);
    std::thread worker([this] { offload_.run_worker(runtime::OffloadLane::kBackground); });
    shard_.io().shutdown();
    EXPECT_EQ(op.completed, 1);
    EXPECT_EQ(size(), 10);
    CountedOp late;
    shard_.io().truncate(late, FileHandle{fd_}, 5);
    (void)shard_.io().poll(Instant{0});
    EXPECT_EQ(late.result, -ECANCELED);
    EXPECT_EQ(size(), 10);
    offload_.stop();
    worker.join();
}

// The lock file is locked as long as the ring lives, though our own descriptor is gone.
TEST(UringFiles, AHeldFileKeepsItsLock) {
    TempDirectory directory;
    const std::string path = directory.path() + "/LOCK";
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
    const int other = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    {
        UringGroup group(1);
        TestShard shard(group);
        ASSERT_TRUE(shard.io().hold_file(fd).has_value());
        EXPECT_FALSE(shard.io().hold_file(9999).has_value());
        ::close(fd);
        EXPECT_EQ(::flock(other, LOCK_EX | LOCK_NB), -1);
    }
    bool free = false;
    for (int i = 0; i < 1000 && !free; ++i) {  // the kernel gives the ring up a little later
        free = ::flock(other, LOCK_EX | LOCK_NB) == 0;
        ::usleep(5000);
    }
    EXPECT_TRUE(free);
    ::close(other);
}

}  // namespace
}  // namespace galgo::runtime_uring

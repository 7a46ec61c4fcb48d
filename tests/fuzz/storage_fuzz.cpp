// Any bytes as a segment, an index, a journal file or the metadata log: recovery ends, reads end,
// and the log takes an append afterwards or says why not. Byte 0 chooses the file.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/check.hpp"
#include "memory/buffer_pool.hpp"
#include "runtime/io_await.hpp"
#include "runtime_sim/test_world.hpp"
#include "storage/journal_replay.hpp"
#include "storage/partition_log.hpp"
#include "storage/shard_journal.hpp"
#include "storage/storage_context.hpp"
#include "storage/wal.hpp"

namespace {

using namespace galgo;
using coro::Task;

constexpr std::size_t kInputBytesMax = 256 * 1024;

struct Process {
    runtime_sim::TestWorld world{1};
    runtime_sim::Node& node = world.add_node();
    memory::BufferPool pool{memory::PoolOptions{.budget_bytes = 32 * kMiB}};
    storage::JournalReplay replay;
    storage::Trash trash{"/trash"};
    std::unique_ptr<storage::ShardJournal> journal;
    std::unique_ptr<storage::StorageContext> context;
    std::unique_ptr<storage::PartitionLog> log;
};

Task<Status> open_read_close(Process& process) {
    runtime::IoBackend& io = *process.node.io;
    GALGO_CO_TRY(co_await runtime::make_directories(io, "/state"));
    GALGO_CO_TRY_ASSIGN(process.replay, co_await storage::replay_journals(io, "/state"));
    process.journal = std::make_unique<storage::ShardJournal>(
        io, process.node.queue(),
        storage::JournalOptions{.directory = "/state",
                                .epoch = process.replay.next_epoch(),
                                .first_sequence = process.replay.next_sequence(),
                                .file_bytes = storage::kJournalFileBytesMin});
    process.node.loop->add_turn_end([journal = process.journal.get()] { journal->end_of_turn(); });
    GALGO_CO_TRY(co_await process.journal->open());
    process.context = std::make_unique<storage::StorageContext>(
        io, process.node.queue(), process.pool, *process.journal, process.trash);
    GALGO_CO_TRY_ASSIGN(process.log, co_await storage::PartitionLog::open(
                                         *process.context, "/", "/p", PartitionKey{0},
                                         Incarnation{0}, storage::LogOptions{}, &process.replay));
    storage::PartitionLog& log = *process.log;
    Offset at = log.first_offset();
    for (int i = 0; i < 64 && at < log.end_offset(); ++i) {
        const auto got = co_await log.read(log.plan_read(at, 3, kMiB, log.committed_end()));
        at = got.has_value() && got->message_count != 0 ? got->next : at.next();
    }
    (void)co_await log.offset_at_or_after(Timestamp{1});
    const Status closed = co_await log.close();
    GALGO_CHECK(closed.has_value() || log.fenced().has_value());
    co_await process.journal->close();
    co_await process.context->files.close();
    co_return Status{};
}

Task<bool> open_wal(Process& process) {
    auto wal = co_await storage::Wal::open(
        *process.node.io, process.node.queue(), "/wal",
        [](const wire::PrepareHeader&, ConstBytes) -> Status { return {}; });
    if (wal.has_value()) {
        co_await (*wal)->close();
    }
    co_return wal.has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1 || size > kInputBytesMax) {
        return 0;
    }
    Process process;
    const ConstBytes bytes(reinterpret_cast<const std::byte*>(data + 1), size - 1);
    runtime_sim::SimDisk& disk = *process.node.disk;
    disk.write_file("/p/keep", {});
    switch (data[0] % 4) {
        case 0:
            disk.write_file("/p/00000000000000000000.log", bytes);
            break;
        case 1: {
            // The first 24 bytes are the index, the rest is the log.
            const std::size_t split = bytes.size() < 24 ? bytes.size() : 24;
            disk.write_file("/p/00000000000000000000.index", bytes.first(split));
            disk.write_file("/p/00000000000000000000.log", bytes.subspan(split));
            break;
        }
        case 2:
            disk.write_file("/state/journal-0-0000000000000001.wal", bytes);
            break;
        default:
            disk.write_file("/wal", bytes);
            (void)process.world.run(process.node, open_wal(process));
            return 0;
    }
    const Status done = process.world.run(process.node, open_read_close(process));
    GALGO_CHECK(done.has_value());
    process.log.reset();
    process.world.kill(process.node);
    process.context.reset();
    process.journal.reset();
    return 0;
}

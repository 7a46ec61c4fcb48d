// SimBackend: the IoBackend of tests, over SimDisk, SimNetwork and SimClock of one world. Single
// thread.
//
// * An operation takes effect and completes in a later poll(), after a seeded latency; operations
// that
//   overlap complete in a seeded order.
// * poll(wait_until) never blocks: when nothing is ready it moves the virtual clock to the next
// event or
//   deadline of the whole world. It may return 0 before wait_until when another backend has
//   something to do first. Each poll costs turn_ns of virtual time.
// * One seed and one sequence of calls give one sequence of completions: trace_hash() compares
// runs.
//
// Crash tests. crash_after(n) lets n more operations through (write_now counts) and never completes
// one that is submitted later; crashed() turns true with the first of those. Then the test
//   1. calls drop_all(): everything in flight completes with -ECANCELED, so that coroutines unwind
//   and
//      free their frames (nothing for the leak checker to find); of what was truly in flight the
//      disk keeps a seeded part. What the unwinding code submits is cancelled too and touches
//      nothing. Coroutines that wait for something else (a queue, an event) need the test to run
//      its ReadyQueue and to drop again: TestWorld::kill does both.
//   2. destroys the server objects and this backend,
//   3. calls SimDisk::crash(kind) and starts anew on the same disk.
// The destructor completes nothing: what is still in flight then is leaked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "runtime/io.hpp"
#include "runtime_sim/sim_clock.hpp"
#include "runtime_sim/sim_disk.hpp"
#include "runtime_sim/sim_network.hpp"
#include "runtime_sim/sim_random.hpp"

namespace galgo::runtime_sim {

struct SimBackendOptions {
    std::uint64_t seed = 1;
    std::uint32_t process = 0;
    ShardIndex shard{0};
    std::string ip = "127.0.0.1";  ///< where connections come from
    std::uint32_t chunk_count = 64;
    std::uint32_t chunk_bytes = 4096;
    std::uint64_t turn_ns = kMicrosecond;
};

class SimBackend final : public runtime::IoBackend,
                         public SimClock::Participant,
                         public SocketUser {
 public:
    using IoOp = runtime::IoOp;
    using FileHandle = runtime::FileHandle;
    using SocketHandle = runtime::SocketHandle;

    SimBackend(SimClock& clock, SimDisk& disk, SimNetwork& network, SimBackendOptions options);
    ~SimBackend() override;

    // ---- for tests
    // -----------------------------------------------------------------------------------
    void crash_after(std::uint64_t operation_count) { operations_left_ = operation_count; }
    [[nodiscard]] bool crashed() const noexcept { return crashed_; }
    /// The process dies: see above. Its sockets are closed. May be called again.
    void drop_all();
    /// The i-th submission from now completes with -errno and does nothing else; 0 = the next.
    void fail_submission(std::uint64_t index, std::int32_t error) {
        injected_errors_[submission_count_ + index] = error;
    }
    [[nodiscard]] std::size_t in_flight_count() const noexcept { return pending_.size(); }
    [[nodiscard]] std::uint64_t submission_count() const noexcept { return submission_count_; }
    [[nodiscard]] std::uint64_t completion_count() const noexcept { return completion_count_; }
    [[nodiscard]] std::uint64_t trace_hash() const noexcept { return trace_hash_; }
    [[nodiscard]] std::size_t free_chunk_count() const noexcept { return free_chunks_.size(); }
    /// A range of a file that prefetch() named; it changes nothing here.
    struct Prefetch {
        std::string path;
        std::uint64_t offset = 0;
        std::uint64_t size_bytes = 0;
    };
    [[nodiscard]] const std::vector<Prefetch>& prefetches() const noexcept { return prefetches_; }

    // ---- IoBackend
    // -----------------------------------------------------------------------------------
    void open(IoOp& op, const char* path, runtime::OpenMode mode, std::uint32_t mode_bits) override;
    void close(IoOp& op, FileHandle file) override;
    void read(IoOp& op, FileHandle file, MutableBytes into, std::uint64_t offset) override;
    void write(IoOp& op, FileHandle file, ConstBytes from, std::uint64_t offset) override;
    void writev(IoOp& op, FileHandle file, std::span<const iovec> parts,
                std::uint64_t offset) override;
    void sync(IoOp& op, FileHandle file) override;
    void truncate(IoOp& op, FileHandle file, std::uint64_t size_bytes) override;
    void allocate(IoOp& op, FileHandle file, std::uint64_t offset,
                  std::uint64_t size_bytes) override;
    void prefetch(IoOp& op, FileHandle file, std::uint64_t offset,
                  std::uint64_t size_bytes) override;
    void rename(IoOp& op, const char* from, const char* to) override;
    void unlink(IoOp& op, const char* path) override;
    void make_directory(IoOp& op, const char* path, std::uint32_t mode_bits) override;
    void remove_directory(IoOp& op, const char* path) override;
    std::int32_t write_now(FileHandle file, ConstBytes from, std::uint64_t offset) override;
    Result<std::vector<runtime::DirectoryEntry>> list_directory(const std::string& path) override;
    Result<runtime::FileFacts> file_facts(const std::string& path) override;
    Result<runtime::DiskSpace> disk_space(const std::string& path) override;

    Result<SocketHandle> listen(const runtime::SocketAddress& address) override;
    runtime::SocketAddress local_address(SocketHandle socket) override;
    runtime::SocketAddress peer_address(SocketHandle socket) override;
    void accept(IoOp& op, SocketHandle listener) override;
    void connect(IoOp& op, const runtime::SocketAddress& address) override;
    void receive_any(IoOp& op, SocketHandle socket) override;
    void return_chunk(const runtime::ReceivedChunk& chunk) override;
    void receive(IoOp& op, SocketHandle socket, MutableBytes into) override;
    void send(IoOp& op, SocketHandle socket, std::span<const iovec> parts) override;
    void shutdown_socket(SocketHandle socket) override;
    void close_socket(SocketHandle socket) override;

    void cancel(IoOp& op) override;
    Instant now() override { return clock_.now(); }
    Timestamp wall_now() override { return clock_.wall_now(); }
    std::size_t poll(Instant wait_until) override;
    void wake(ShardIndex shard) override { network_.wake(options_.process, shard); }

    // ---- SimClock::Participant, SocketUser
    // -----------------------------------------------------------
    [[nodiscard]] Instant next_event() const override;
    [[nodiscard]] Instant sleeps_until() const override { return sleeps_until_; }
    void retry(std::uint64_t operation) override;
    void wake_up() override;
    [[nodiscard]] std::uint32_t process() const override { return options_.process; }
    [[nodiscard]] ShardIndex shard() const override { return options_.shard; }

 private:
    enum class Kind : std::uint8_t {
        kOpen,
        kClose,
        kRead,
        kWrite,
        kWritev,
        kSync,
        kTruncate,
        kAllocate,
        kPrefetch,
        kRename,
        kUnlink,
        kMakeDirectory,
        kRemoveDirectory,
        kAccept,
        kConnect,
        kReceiveAny,
        kReceive,
        kSend,
    };
    /// Time, a seeded tie-breaker, the operation's number.
    using Due = std::tuple<Instant, std::uint64_t, std::uint64_t>;
    struct Pending {
        IoOp* op = nullptr;
        Kind kind = Kind::kOpen;
        runtime::OpenMode mode = runtime::OpenMode::kRead;
        FileHandle file = runtime::kNoFile;
        SocketHandle socket = runtime::kNoSocket;
        MutableBytes into{};
        ConstBytes from{};
        std::span<const iovec> parts{};
        std::uint64_t offset = 0;
        std::uint64_t size_bytes = 0;
        std::uint64_t sync_token = 0;
        std::string path{};
        std::string path_to{};
        runtime::SocketAddress address{};
        std::size_t sent_bytes = 0;
        bool hangs = false;  ///< submitted after the crash point
        std::optional<std::int32_t>
            fixed_result{};        ///< cancelled or made to fail: does nothing else
        std::optional<Due> due{};  ///< absent while it waits for a socket
    };

    void submit(IoOp& op, Pending pending);
    /// Counts one operation; true when it lies behind the crash point.
    [[nodiscard]] bool passes_crash_point();
    [[nodiscard]] std::uint64_t draw_latency(const Pending& pending);
    [[nodiscard]] std::uint64_t delay_of(const Pending& pending) const;
    void schedule(std::uint64_t id, Pending& pending, std::uint64_t latency_ns);
    std::size_t run_due();
    /// Carries the operation out; kWouldBlock when a socket is not ready.
    [[nodiscard]] std::int32_t execute(std::uint64_t id, Pending& pending);
    [[nodiscard]] std::int32_t execute_writev(const Pending& pending);
    [[nodiscard]] std::int32_t execute_receive_any(Pending& pending);
    [[nodiscard]] std::int32_t execute_send(std::uint64_t id, Pending& pending);
    void drop_effects(Pending& pending);
    void finish(std::uint64_t id, std::int32_t result);
    void forget_effects(std::uint64_t id, Pending& pending);
    void trace(std::uint64_t value) noexcept;
    void trace_bytes(ConstBytes bytes) noexcept;

    SimClock& clock_;
    SimDisk& disk_;
    SimNetwork& network_;
    SimBackendOptions options_;
    SimRandom random_;
    std::map<std::uint64_t, Pending> pending_;
    std::set<Due> due_;
    std::map<std::uint64_t, std::int32_t> injected_errors_;
    std::unique_ptr<std::byte[]> chunks_;
    std::vector<std::uint32_t> free_chunks_;
    Instant sleeps_until_ = kNever;
    std::optional<std::uint64_t> operations_left_;
    std::uint64_t next_id_ = 1;
    std::uint64_t submission_count_ = 0;
    std::uint64_t completion_count_ = 0;
    std::vector<Prefetch> prefetches_;
    std::uint64_t trace_hash_ = 0xCBF29CE484222325ULL;
    bool woken_ = false;
    bool crashed_ = false;
    bool dead_ = false;  ///< after drop_all
};

}  // namespace galgo::runtime_sim

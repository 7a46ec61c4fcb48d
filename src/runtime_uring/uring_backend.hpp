// UringBackend: the IoBackend of the server, one io_uring a shard. Made, used and destroyed on the
// shard's thread. One system call submits what a turn queued and brings what is done; while nothing
// is queued or done, poll() without waiting makes none.
//
// Lifetime: an operation in flight owns its buffers. shutdown() cancels all of them and waits until
// the last has completed (their callbacks run), so afterwards nothing of the kernel touches our
// memory.
//
// Buffered writes never complete inline through io_uring on ext4: they run on the kernel's workers,
// whose number and CPUs are set here. At most one write in flight a file is the caller's
// discipline. write_now() is a plain pwrite (0.6 us against 5 us at 512 bytes).
//
// Limits: RingOptions' queues (a full submission queue is submitted at once), 256 receive chunks of
// 8 KiB.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.hpp"
#include "runtime/io.hpp"
#include "runtime/offload.hpp"
#include "runtime_uring/buffer_ring.hpp"
#include "runtime_uring/ring.hpp"
#include "runtime_uring/uring_group.hpp"

namespace galgo::runtime_uring {

namespace detail {
enum class OpKind : std::uint8_t;
}  // namespace detail

struct UringOptions {
    RingOptions ring;
    std::uint32_t chunk_count = 256;  ///< power of two
    std::uint32_t chunk_bytes = 8 * 1024;
    /// Kernel workers for files (a NUMA node). They are made when the others wait for a disk: as
    /// many operations of a slow part of it may hang without delaying those of other files.
    std::uint32_t file_workers_max = 32;
    std::uint32_t other_workers_max = 4;  ///< and for everything that may block for ever
    std::uint32_t listen_backlog = 1024;
    bool ftruncate = true;  ///< false: without that operation, as on kernels before 6.9
};

class UringBackend final : public runtime::IoBackend {
 public:
    using IoOp = runtime::IoOp;
    using FileHandle = runtime::FileHandle;
    using SocketHandle = runtime::SocketHandle;
    using SocketAddress = runtime::SocketAddress;

    /// On the shard's thread. Errors carry the errno: see explain_setup_failure().
    [[nodiscard]] static Result<std::unique_ptr<UringBackend>> create(
        UringGroup& group, ShardIndex shard, const UringOptions& options = {});
    ~UringBackend() override;

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

    Result<SocketHandle> listen(const SocketAddress& address) override;
    SocketAddress local_address(SocketHandle socket) override;
    SocketAddress peer_address(SocketHandle socket) override;
    void accept(IoOp& op, SocketHandle listener) override;
    void connect(IoOp& op, const SocketAddress& address) override;
    void receive_any(IoOp& op, SocketHandle socket) override;
    void return_chunk(const runtime::ReceivedChunk& chunk) override;
    void receive(IoOp& op, SocketHandle socket, MutableBytes into) override;
    void send(IoOp& op, SocketHandle socket, std::span<const iovec> parts) override;
    void shutdown_socket(SocketHandle socket) override;
    void close_socket(SocketHandle socket) override;

    void cancel(IoOp& op) override;
    Instant now() override;
    Timestamp wall_now() override;
    std::size_t poll(Instant wait_until) override;
    void wake(ShardIndex shard) override;

    /// From now on what the ring has no operation for runs on the offload thread of `queue`, which
    /// this shard collects from every turn; null (and before the first call): on this one, at once.
    /// `queue` outlives shutdown().
    void use_offload(runtime::OffloadQueue* queue) noexcept { offload_ = queue; }
    /// Keeps a descriptor (the data directory's lock) open in the kernel until the last I/O of this
    /// ring has ended, even after a kill. Once.
    [[nodiscard]] Status hold_file(int fd);
    /// Cancels everything in flight and waits for it; their callbacks run. New operations complete
    /// with -ECANCELED. The other shards no longer wake this one. The destructor calls it.
    void shutdown();

    [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
    /// Receive chunks lent out now.
    [[nodiscard]] std::uint32_t chunks_lent() const noexcept { return buffers_.lent(); }
    /// io_uring_enter calls so far.
    [[nodiscard]] std::uint64_t enter_count() const noexcept { return enter_count_; }

 private:
    // Arguments that the kernel reads while it consumes the entry, one place an entry.
    union SideData {
        msghdr message;
        sockaddr_storage address;
    };

    UringBackend(UringGroup& group, ShardIndex shard, const UringOptions& options);
    [[nodiscard]] Status start();
    io_uring_sqe* next_sqe();
    /// Submits of what is queued as much as the kernel takes now.
    void submit_some();
    /// An entry for `op`, or nullptr when it was refused (then it completes by itself).
    io_uring_sqe* prepare(IoOp& op, std::uint8_t opcode, int fd, detail::OpKind kind);
    io_uring_sqe* prepare(IoOp& op, std::uint8_t opcode, int fd) {
        return prepare(op, opcode, fd, detail::OpKind{0});
    }
    struct OffloadedTruncate;
    void begin(IoOp& op) noexcept;
    void complete_later(IoOp& op, std::int32_t result) noexcept;
    std::size_t run_local();
    std::size_t reap();
    std::size_t on_completion(const io_uring_cqe& cqe);
    void finish(IoOp& op, std::int32_t result);
    void set_aside_completions();
    int enter(bool wait, std::uint64_t timeout_ns) noexcept;

    UringGroup& group_;
    const ShardIndex shard_;
    const UringOptions options_;
    Ring ring_;
    BufferRing buffers_;
    std::vector<SideData> side_;
    std::vector<io_uring_cqe> set_aside_;  // reaped while submitting; run by the next poll
    IoOp* local_first_ = nullptr;          // to complete without the kernel
    IoOp* local_last_ = nullptr;
    std::size_t in_flight_ = 0;
    std::uint64_t enter_count_ = 0;
    runtime::OffloadQueue* offload_ = nullptr;
    std::size_t offloaded_ = 0;  ///< of those in flight
    bool has_ftruncate_ = false;
    bool woken_self_ = false;
    bool closing_ = false;
};

}  // namespace galgo::runtime_uring

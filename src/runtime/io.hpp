// IoBackend: the one seam between our code and the operating system. runtime_uring implements it
// with io_uring, runtime_sim with a virtual clock, an in-memory network and a faulty disk;
// everything above runs unchanged on both.
//
// Rules of the seam:
//  * One backend belongs to one shard and is called on that shard's thread only.
//  * An operation is an IoOp owned by the caller. From submission to completion the op, the
//  buffers,
//    the iovec array and the path belong to the operation and must stay where they are.
//  * `complete(op, result)` runs on the shard's thread inside poll(); result >= 0, or -errno. It is
//    called exactly once for each submission, never inside the submitting call.
//  * cancel() asks; the op still completes (with its result, or -ECANCELED) and owns its buffers
//  until then.
//  * Methods that return a value are synchronous and are named so in their comment.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "base/unique_function.hpp"

namespace galgo::runtime {

using FileHandle = StrongId<struct FileHandleTag, std::int32_t>;
using SocketHandle = StrongId<struct SocketHandleTag, std::int32_t>;
inline constexpr FileHandle kNoFile{-1};
inline constexpr SocketHandle kNoSocket{-1};

/// A chunk that receive_any() filled: lent by the backend until return_chunk().
struct ReceivedChunk {
    std::byte* data = nullptr;
    std::uint32_t size_bytes = 0;
    std::uint32_t id = 0;
    [[nodiscard]] ConstBytes bytes() const noexcept { return {data, size_bytes}; }
};

struct IoOp {
    using Complete = void (*)(IoOp& op, std::int32_t result) noexcept;

    Complete complete = nullptr;
    ReceivedChunk chunk;             ///< set by receive_any on success
    bool in_flight = false;          ///< maintained by the backend
    std::uint64_t backend_words[4];  ///< the backend's own, meaningless to others
};

enum class OpenMode : std::uint8_t {
    kRead,             ///< must exist
    kReadWrite,        ///< must exist
    kCreate,           ///< read-write, made when absent, kept when present
    kCreateExclusive,  ///< read-write, -EEXIST when present
    kDirectory,        ///< for sync of its entries
};

struct DirectoryEntry {
    std::string name;
    bool is_directory = false;
};

struct FileFacts {
    std::uint64_t size_bytes = 0;
    std::uint64_t modified_us = 0;  ///< microseconds since the epoch
    bool is_directory = false;
};

struct DiskSpace {
    std::uint64_t total_bytes = 0;
    std::uint64_t free_bytes = 0;  ///< free to an unprivileged process
};

/// "127.0.0.1:8090", "[::1]:8090". IP literals only; port 0 asks for a free one.
struct SocketAddress {
    std::string ip;
    std::uint16_t port = 0;
};

class IoBackend {
 public:
    IoBackend() = default;
    IoBackend(const IoBackend&) = delete;
    IoBackend& operator=(const IoBackend&) = delete;
    virtual ~IoBackend() = default;

    // ---- files
    // -------------------------------------------------------------------------------------
    /// Result: the FileHandle's value. `mode_bits` is used when the file is made (0600 for
    /// metadata).
    virtual void open(IoOp& op, const char* path, OpenMode mode, std::uint32_t mode_bits) = 0;
    virtual void close(IoOp& op, FileHandle file) = 0;
    /// Result: bytes read, short only at the end of the file; 0 = at or behind the end.
    virtual void read(IoOp& op, FileHandle file, MutableBytes into, std::uint64_t offset) = 0;
    /// Result: bytes written; may be short (the caller goes on from there).
    virtual void write(IoOp& op, FileHandle file, ConstBytes from, std::uint64_t offset) = 0;
    /// At most 1024 parts. Result: bytes written; may be short.
    virtual void writev(IoOp& op, FileHandle file, std::span<const iovec> parts,
                        std::uint64_t offset) = 0;
    /// fdatasync of a file, fsync of a directory. Result 0.
    virtual void sync(IoOp& op, FileHandle file) = 0;
    virtual void truncate(IoOp& op, FileHandle file, std::uint64_t size_bytes) = 0;
    /// fallocate that keeps the visible size.
    virtual void allocate(IoOp& op, FileHandle file, std::uint64_t offset,
                          std::uint64_t size_bytes) = 0;
    /// That part of the file will be read soon: asks the system to bring it into its cache, and
    /// waits at most for the requests to be queued. Changes nothing else. Result 0.
    virtual void prefetch(IoOp& op, FileHandle file, std::uint64_t offset,
                          std::uint64_t size_bytes) = 0;
    virtual void rename(IoOp& op, const char* from, const char* to) = 0;
    virtual void unlink(IoOp& op, const char* path) = 0;
    virtual void make_directory(IoOp& op, const char* path, std::uint32_t mode_bits) = 0;
    virtual void remove_directory(IoOp& op, const char* path) = 0;

    /// Synchronous. A small write (<= 64 KiB) done inline where that measures better than a trip
    /// through the ring; returns bytes written or -errno.
    virtual std::int32_t write_now(FileHandle file, ConstBytes from, std::uint64_t offset) = 0;
    /// Synchronous, for boot and the offload thread: entries without "." and "..", in no set order.
    virtual Result<std::vector<DirectoryEntry>> list_directory(const std::string& path) = 0;
    /// Synchronous; ENOENT in os_errno when absent.
    virtual Result<FileFacts> file_facts(const std::string& path) = 0;
    /// Synchronous; also on the offload threads.
    virtual Result<DiskSpace> disk_space(const std::string& path) = 0;

    // ---- sockets
    // -----------------------------------------------------------------------------------
    /// Synchronous. Binds and listens (SO_REUSEADDR). EADDRINUSE is the caller's to retry.
    virtual Result<SocketHandle> listen(const SocketAddress& address) = 0;
    /// Synchronous. The address a socket is bound to / connected with.
    virtual SocketAddress local_address(SocketHandle socket) = 0;
    virtual SocketAddress peer_address(SocketHandle socket) = 0;
    /// Result: the SocketHandle's value of one new connection (no-delay set; it breaks within
    /// a minute when its peer's host is gone). It may be used by the backend of any shard of this
    /// process, one at a time.
    virtual void accept(IoOp& op, SocketHandle listener) = 0;
    virtual void connect(IoOp& op,
                         const SocketAddress& address) = 0;  ///< Result: SocketHandle's value.
    /// Receives into a small chunk of the backend, so that an idle connection holds no buffer.
    /// Result: bytes (op.chunk is set and must be returned), 0 at end of stream, -ENOBUFS when no
    /// chunk is free (try again after chunks came back).
    virtual void receive_any(IoOp& op, SocketHandle socket) = 0;
    virtual void return_chunk(const ReceivedChunk& chunk) = 0;
    /// Receives into the caller's buffer; result: bytes (at least 1), 0 at end of stream.
    virtual void receive(IoOp& op, SocketHandle socket, MutableBytes into) = 0;
    /// Sends all parts; result: bytes sent, short only when the connection failed midway. At most
    /// 1024 parts.
    virtual void send(IoOp& op, SocketHandle socket, std::span<const iovec> parts) = 0;
    /// Synchronous. Ends both directions: pending receives complete with 0 or an error.
    virtual void shutdown_socket(SocketHandle socket) = 0;
    virtual void close_socket(SocketHandle socket) = 0;

    // ---- the rest
    // ----------------------------------------------------------------------------------
    virtual void cancel(IoOp& op) = 0;

    /// Monotonic nanoseconds, and microseconds of wall time. Read afresh at each call.
    [[nodiscard]] virtual Instant now() = 0;
    [[nodiscard]] virtual Timestamp wall_now() = 0;

    /// Submits what was queued and completes what is done; returns the number of completions.
    /// `wait_until` in the past or 0: never blocks. Otherwise blocks until a completion, a wake or
    /// that time.
    virtual std::size_t poll(Instant wait_until) = 0;
    /// Ends the blocking poll of another shard of this process (or its next one).
    virtual void wake(ShardIndex shard) = 0;

    /// poll() calls it before it runs the first completion: the loop leaves its sleeping state
    /// there, so that nothing of the shard runs while the shard still counts as asleep.
    void set_awake_hook(UniqueFunction<void()> hook) { awake_hook_ = std::move(hook); }

 protected:
    void call_awake_hook() {
        if (awake_hook_) {
            awake_hook_();
        }
    }

 private:
    UniqueFunction<void()> awake_hook_;
};

}  // namespace galgo::runtime

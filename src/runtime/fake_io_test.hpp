// An IoBackend without any I/O for the tests of this module: a clock that the test moves, and a
// poll that counts how it was called. Every operation is a programmer error.
#pragma once

#include <functional>

#include "runtime/io.hpp"

namespace galgo::runtime {

class FakeIo : public IoBackend {
 public:
    Instant clock{1'000'000'000};
    std::vector<Instant> waits;  ///< wait_until of each poll
    std::vector<ShardIndex> woken;
    std::function<void()> during_sleep;  ///< runs in a poll that would block, before the awake hook
    std::size_t completions_next = 0;    ///< what the next poll says
    std::function<void()> on_complete;   ///< runs as the completion

    void open(IoOp&, const char*, OpenMode, std::uint32_t) override { unexpected(); }
    void close(IoOp&, FileHandle) override { unexpected(); }
    void read(IoOp&, FileHandle, MutableBytes, std::uint64_t) override { unexpected(); }
    void write(IoOp&, FileHandle, ConstBytes, std::uint64_t) override { unexpected(); }
    void writev(IoOp&, FileHandle, std::span<const iovec>, std::uint64_t) override { unexpected(); }
    void sync(IoOp&, FileHandle) override { unexpected(); }
    void truncate(IoOp&, FileHandle, std::uint64_t) override { unexpected(); }
    void allocate(IoOp&, FileHandle, std::uint64_t, std::uint64_t) override { unexpected(); }
    void prefetch(IoOp&, FileHandle, std::uint64_t, std::uint64_t) override { unexpected(); }
    void rename(IoOp&, const char*, const char*) override { unexpected(); }
    void unlink(IoOp&, const char*) override { unexpected(); }
    void make_directory(IoOp&, const char*, std::uint32_t) override { unexpected(); }
    void remove_directory(IoOp&, const char*) override { unexpected(); }
    std::int32_t write_now(FileHandle, ConstBytes, std::uint64_t) override { return -5; }
    Result<std::vector<DirectoryEntry>> list_directory(const std::string&) override {
        return fail_os(2);
    }
    Result<FileFacts> file_facts(const std::string&) override { return fail_os(2); }
    Result<DiskSpace> disk_space(const std::string&) override { return fail_os(2); }
    Result<SocketHandle> listen(const SocketAddress&) override { return fail_os(98); }
    SocketAddress local_address(SocketHandle) override { return {}; }
    SocketAddress peer_address(SocketHandle) override { return {}; }
    void accept(IoOp&, SocketHandle) override { unexpected(); }
    void connect(IoOp&, const SocketAddress&) override { unexpected(); }
    void receive_any(IoOp&, SocketHandle) override { unexpected(); }
    void return_chunk(const ReceivedChunk&) override {}
    void receive(IoOp&, SocketHandle, MutableBytes) override { unexpected(); }
    void send(IoOp&, SocketHandle, std::span<const iovec>) override { unexpected(); }
    void shutdown_socket(SocketHandle) override {}
    void close_socket(SocketHandle) override {}
    void cancel(IoOp&) override {}

    Instant now() override { return clock; }
    Timestamp wall_now() override { return Timestamp{clock.value() / 1000}; }
    std::size_t poll(Instant wait_until) override {
        waits.push_back(wait_until);
        if (wait_until > clock) {
            if (wait_until != Instant{UINT64_MAX}) {
                clock = wait_until;
            }
            if (during_sleep) {
                during_sleep();
            }
            call_awake_hook();
        }
        if (completions_next != 0 && on_complete) {
            on_complete();
        }
        return std::exchange(completions_next, 0);
    }
    void wake(ShardIndex shard) override { woken.push_back(shard); }

 private:
    static void unexpected() { GALGO_CHECK(false); }
};

}  // namespace galgo::runtime

// CountingBackend: draws the line between the server and the simulator. Every call passes through
// to the simulated back end with the bracket closed (account.hpp); every completion, and the hook
// that runs before the first one, comes back through here with the bracket open.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "account.hpp"
#include "base/check.hpp"
#include "runtime/io.hpp"

namespace galgo::performance {

class CountingBackend final : public runtime::IoBackend {
    using IoOp = runtime::IoOp;
    using FileHandle = runtime::FileHandle;
    using SocketHandle = runtime::SocketHandle;

 public:
    explicit CountingBackend(runtime::IoBackend& inner) : inner_(inner) {
        inner_.set_awake_hook([this] {
            const Inside server;
            call_awake_hook();
        });
    }
    ~CountingBackend() override {
        inner_.set_awake_hook([] {});
    }

    void open(IoOp& op, const char* path, runtime::OpenMode mode,
              std::uint32_t mode_bits) override {
        submit(op, [&] { inner_.open(op, path, mode, mode_bits); });
    }
    void close(IoOp& op, FileHandle file) override {
        submit(op, [&] { inner_.close(op, file); });
    }
    void read(IoOp& op, FileHandle file, MutableBytes into, std::uint64_t offset) override {
        submit(op, [&] { inner_.read(op, file, into, offset); });
    }
    void write(IoOp& op, FileHandle file, ConstBytes from, std::uint64_t offset) override {
        submit(op, [&] { inner_.write(op, file, from, offset); });
    }
    void writev(IoOp& op, FileHandle file, std::span<const iovec> parts,
                std::uint64_t offset) override {
        submit(op, [&] { inner_.writev(op, file, parts, offset); });
    }
    void sync(IoOp& op, FileHandle file) override {
        submit(op, [&] { inner_.sync(op, file); });
    }
    void truncate(IoOp& op, FileHandle file, std::uint64_t size_bytes) override {
        submit(op, [&] { inner_.truncate(op, file, size_bytes); });
    }
    void allocate(IoOp& op, FileHandle file, std::uint64_t offset,
                  std::uint64_t size_bytes) override {
        submit(op, [&] { inner_.allocate(op, file, offset, size_bytes); });
    }
    void prefetch(IoOp& op, FileHandle file, std::uint64_t offset,
                  std::uint64_t size_bytes) override {
        submit(op, [&] { inner_.prefetch(op, file, offset, size_bytes); });
    }
    void rename(IoOp& op, const char* from, const char* to) override {
        submit(op, [&] { inner_.rename(op, from, to); });
    }
    void unlink(IoOp& op, const char* path) override {
        submit(op, [&] { inner_.unlink(op, path); });
    }
    void make_directory(IoOp& op, const char* path, std::uint32_t mode_bits) override {
        submit(op, [&] { inner_.make_directory(op, path, mode_bits); });
    }
    void remove_directory(IoOp& op, const char* path) override {
        submit(op, [&] { inner_.remove_directory(op, path); });
    }
    std::int32_t write_now(FileHandle file, ConstBytes from, std::uint64_t offset) override {
        const Outside simulator;
        return inner_.write_now(file, from, offset);
    }
    // What returns a vector or a string allocates for its caller: that counts.
    Result<std::vector<runtime::DirectoryEntry>> list_directory(const std::string& path) override {
        return inner_.list_directory(path);
    }
    Result<runtime::FileFacts> file_facts(const std::string& path) override {
        const Outside simulator;
        return inner_.file_facts(path);
    }
    Result<runtime::DiskSpace> disk_space(const std::string& path) override {
        const Outside simulator;
        return inner_.disk_space(path);
    }

    Result<SocketHandle> listen(const runtime::SocketAddress& address) override {
        return inner_.listen(address);
    }
    runtime::SocketAddress local_address(SocketHandle socket) override {
        return inner_.local_address(socket);
    }
    runtime::SocketAddress peer_address(SocketHandle socket) override {
        return inner_.peer_address(socket);
    }
    void accept(IoOp& op, SocketHandle listener) override {
        submit(op, [&] { inner_.accept(op, listener); });
    }
    void connect(IoOp& op, const runtime::SocketAddress& address) override {
        submit(op, [&] { inner_.connect(op, address); });
    }
    void receive_any(IoOp& op, SocketHandle socket) override {
        submit(op, [&] { inner_.receive_any(op, socket); });
    }
    void return_chunk(const runtime::ReceivedChunk& chunk) override {
        const Outside simulator;
        inner_.return_chunk(chunk);
    }
    void receive(IoOp& op, SocketHandle socket, MutableBytes into) override {
        submit(op, [&] { inner_.receive(op, socket, into); });
    }
    void send(IoOp& op, SocketHandle socket, std::span<const iovec> parts) override {
        submit(op, [&] { inner_.send(op, socket, parts); });
    }
    void shutdown_socket(SocketHandle socket) override {
        const Outside simulator;
        inner_.shutdown_socket(socket);
    }
    void close_socket(SocketHandle socket) override {
        const Outside simulator;
        inner_.close_socket(socket);
    }
    void cancel(IoOp& op) override {
        const Outside simulator;
        inner_.cancel(op);
    }
    Instant now() override {
        const Outside simulator;
        return inner_.now();
    }
    Timestamp wall_now() override {
        const Outside simulator;
        return inner_.wall_now();
    }
    std::size_t poll(Instant wait_until) override {
        const Outside simulator;
        CountingBackend* const before = std::exchange(t_polling, this);
        const std::size_t completions = inner_.poll(wait_until);
        t_polling = before;
        return completions;
    }
    void wake(ShardIndex shard) override {
        const Outside simulator;
        inner_.wake(shard);
    }

 private:
    template <class Submit>
    void submit(IoOp& op, Submit&& submit_inner) {
        const Outside simulator;
        completions_[&op] = op.complete;
        op.complete = [](IoOp& done, std::int32_t result) noexcept {
            GALGO_CHECK(t_polling != nullptr);
            t_polling->finish(done, result);
        };
        submit_inner();
    }
    void finish(IoOp& op, std::int32_t result) noexcept {
        const auto found = completions_.find(&op);
        GALGO_CHECK(found != completions_.end());
        op.complete = found->second;
        completions_.erase(found);
        const Inside server;
        op.complete(op, result);
    }

    static inline constinit thread_local CountingBackend* t_polling = nullptr;

    runtime::IoBackend& inner_;
    std::unordered_map<IoOp*, IoOp::Complete> completions_;
};

}  // namespace galgo::performance

// The two ends of a loopback connection, blocking sockets on both.
#include "bench/limits.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/bytes.hpp"
#include "wire/batch.hpp"

namespace galgo::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kAckSize = 16;

class Descriptor {
 public:
    Descriptor() noexcept = default;
    explicit Descriptor(int number) noexcept : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    ~Descriptor() {
        if (number_ >= 0) {
            ::close(number_);
        }
    }
    [[nodiscard]] int get() const noexcept { return number_; }
    [[nodiscard]] bool is_open() const noexcept { return number_ >= 0; }

 private:
    int number_ = -1;
};

struct Pair {
    Descriptor near;
    Descriptor far;
};

Result<Pair> connected_pair() {
    const Descriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (!listener.is_open() || ::bind(listener.get(), any, size) != 0 ||
        ::listen(listener.get(), 1) != 0 || ::getsockname(listener.get(), any, &size) != 0) {
        return fail_os(errno, ErrorCode::kTcpError);
    }
    Pair pair{.near = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), .far = {}};
    if (!pair.near.is_open() || ::connect(pair.near.get(), any, size) != 0) {
        return fail_os(errno, ErrorCode::kTcpError);
    }
    pair.far = Descriptor(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!pair.far.is_open()) {
        return fail_os(errno, ErrorCode::kTcpError);
    }
    const int one = 1;
    for (const Descriptor* end : {&pair.near, &pair.far}) {
        (void)::setsockopt(end->get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    }
    return pair;
}

/// False at the end of the stream and on errors, which end a run either way.
bool receive(int socket, MutableBytes to) {
    for (std::size_t got = 0; got < to.size();) {
        const ssize_t count = ::recv(socket, to.data() + got, to.size() - got, 0);
        if (count <= 0) {
            return false;
        }
        got += static_cast<std::size_t>(count);
    }
    return true;
}

bool transmit(int socket, ConstBytes from) {
    for (std::size_t sent = 0; sent < from.size();) {
        const ssize_t count = ::send(socket, from.data() + sent, from.size() - sent, MSG_NOSIGNAL);
        if (count <= 0) {
            return false;
        }
        sent += static_cast<std::size_t>(count);
    }
    return true;
}

bool is_valid(ConstBytes batch) {
    Result<wire::BatchValidator> validator = wire::BatchValidator::begin(batch);
    return validator && validator->step(batch.size()).value_or(false);
}

bool write_at(int file, ConstBytes from, std::uint64_t position) {
    for (std::size_t done = 0; done < from.size();) {
        const ssize_t count = ::pwrite(file, from.data() + done, from.size() - done,
                                       static_cast<off_t>(position + done));
        if (count <= 0) {
            return false;
        }
        done += static_cast<std::size_t>(count);
    }
    return true;
}

enum class Duty : std::uint8_t { kStore, kServe, kEcho };

struct Shape {
    const char* name;
    Duty duty;
    ConstBytes request;
    std::size_t answer_size;
    std::uint64_t count;
    std::uint32_t messages;       ///< a request
    std::uint64_t payload_bytes;  ///< a request
};

/// The far end: answers until the near end shuts down. Returns the CPU that its thread used after
/// `warmup` answers, or nothing if something failed.
std::optional<ProcessSample> answer(int socket, int file, const Shape& shape,
                                    const LimitOptions& options) {
    std::vector<std::byte> request(shape.request.size());
    std::vector<std::byte> reply(shape.answer_size);
    const auto used = [] {
        rusage usage{};
        (void)::getrusage(RUSAGE_THREAD, &usage);
        const auto seconds = [](const timeval& time) {
            return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
        };
        return ProcessSample{.user_seconds = seconds(usage.ru_utime),
                             .system_seconds = seconds(usage.ru_stime)};
    };
    ProcessSample before = used();
    std::uint64_t position = 0;
    for (std::uint64_t answered = 0; receive(socket, request); ++answered) {
        if (answered == options.warmup) {
            before = used();
        }
        switch (shape.duty) {
            case Duty::kStore:
                if (!is_valid(request) || !write_at(file, request, position) ||
                    (options.sync && ::fdatasync(file) != 0)) {
                    return std::nullopt;
                }
                position += request.size();
                break;
            case Duty::kServe:
                if (::pread(file, reply.data(), reply.size(), static_cast<off_t>(position)) !=
                    static_cast<ssize_t>(reply.size())) {
                    return std::nullopt;
                }
                position += reply.size();
                break;
            case Duty::kEcho:
                break;
        }
        if (!transmit(socket, reply)) {
            return std::nullopt;
        }
    }
    return difference(used(), before);
}

Result<Row> run(const Shape& shape, int file, const LimitOptions& options) {
    GALGO_TRY_ASSIGN(Pair pair, connected_pair());
    std::optional<ProcessSample> used;
    std::thread thread([&] {
        used = answer(pair.far.get(), file, shape, options);
        // Whatever ended it, the near end must not wait for more.
        (void)::shutdown(pair.far.get(), SHUT_RDWR);
    });
    observe::Histogram nanoseconds;
    std::vector<std::byte> reply(shape.answer_size);
    Row row{.server = "limit", .name = shape.name};
    bool fine = true;
    for (std::uint32_t i = 0; i < options.warmup && fine; ++i) {
        fine = transmit(pair.near.get(), shape.request) && receive(pair.near.get(), reply);
    }
    const Clock::time_point start = Clock::now();
    const Clock::time_point end = start + std::chrono::seconds(options.time_limit_seconds);
    Clock::time_point last = start;
    for (std::uint64_t i = 0; i < shape.count && last < end && fine; ++i) {
        fine = transmit(pair.near.get(), shape.request) && receive(pair.near.get(), reply);
        const Clock::time_point now = Clock::now();
        nanoseconds.record(static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(now - last).count()));
        last = now;
    }
    (void)::shutdown(pair.near.get(), SHUT_WR);
    thread.join();
    if (!fine || !used) {
        return fail(ErrorCode::kIoError);
    }
    row.seconds = std::chrono::duration<double>(last - start).count();
    row.requests = nanoseconds.count();
    row.messages = row.requests * shape.messages;
    row.payload_bytes = row.requests * shape.payload_bytes;
    row.used = used;
    set_latencies(row, nanoseconds);
    return row;
}

std::vector<std::byte> build_batch(std::uint32_t messages, const std::vector<std::byte>& payload) {
    wire::BatchBuilder builder;
    builder.reset(1);
    for (std::uint32_t i = 0; i < messages; ++i) {
        builder.add({.id = i + 1, .timestamp_us = 1, .payload = payload});
    }
    const ConstBytes built = builder.finish();
    return {built.begin(), built.end()};
}

Result<Descriptor> make_file(const std::string& folder) {
    std::string path = folder + "/galgo-bench-XXXXXX";
    Descriptor file(::mkostemp(path.data(), O_CLOEXEC));
    // Unlinked at once: the kernel removes it whatever ends the run.
    if (!file.is_open() || ::unlink(path.c_str()) != 0) {
        return fail_os(errno);
    }
    return file;
}

}  // namespace

Result<std::vector<Row>> measure_limits(const LimitOptions& options) {
    if (options.message_size == 0 || options.batch == 0 || options.round_trip_size == 0) {
        return fail(ErrorCode::kInvalidConfiguration);
    }
    const std::vector<std::byte> batch =
        build_batch(options.batch, std::vector<std::byte>(options.message_size, std::byte{7}));
    const std::vector<std::byte> payload(options.round_trip_size, std::byte{9});
    const std::vector<std::byte> single = build_batch(1, payload);
    const std::array<std::byte, kAckSize> ack{};
    const std::uint64_t batch_payload = std::uint64_t{options.batch} * options.message_size;
    const std::uint64_t batches = (options.total_bytes + batch_payload - 1) / batch_payload;

    GALGO_TRY_ASSIGN(Descriptor file, make_file(options.folder));
    std::vector<Row> rows;
    GALGO_TRY_ASSIGN(Row stored, run({.name = "produce",
                                      .duty = Duty::kStore,
                                      .request = batch,
                                      .answer_size = kAckSize,
                                      .count = batches,
                                      .messages = options.batch,
                                      .payload_bytes = batch_payload},
                                     file.get(), options));
    // No more than was stored, or the file ends too early.
    GALGO_TRY_ASSIGN(Row served, run({.name = "consume",
                                      .duty = Duty::kServe,
                                      .request = ack,
                                      .answer_size = batch.size(),
                                      .count = stored.requests,
                                      .messages = options.batch,
                                      .payload_bytes = batch_payload},
                                     file.get(), options));
    rows.push_back(std::move(stored));
    rows.push_back(std::move(served));
    GALGO_TRY_ASSIGN(file, make_file(options.folder));
    GALGO_TRY_ASSIGN(Row acknowledged, run({.name = "send-ack",
                                            .duty = Duty::kStore,
                                            .request = single,
                                            .answer_size = kAckSize,
                                            .count = options.round_trips,
                                            .messages = 1,
                                            .payload_bytes = options.round_trip_size},
                                           file.get(), options));
    rows.push_back(std::move(acknowledged));
    GALGO_TRY_ASSIGN(Row echoed, run({.name = "echo",
                                      .duty = Duty::kEcho,
                                      .request = payload,
                                      .answer_size = payload.size(),
                                      .count = options.round_trips,
                                      .messages = 1,
                                      .payload_bytes = options.round_trip_size},
                                     file.get(), options));
    rows.push_back(std::move(echoed));
    return rows;
}

}  // namespace galgo::bench

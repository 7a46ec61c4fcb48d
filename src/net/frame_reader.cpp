#include "net/frame_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/timed_io.hpp"

namespace galgo::net {

using coro::Task;
using memory::BufRef;

namespace {

constexpr std::uint64_t kChunkRetryNs = kMillisecond;
constexpr std::uint64_t kMemoryRetryNsMin = kMillisecond;
constexpr std::uint64_t kMemoryRetryNsMax = 50 * kMillisecond;

}  // namespace

FrameReader::FrameReader(runtime::Loop& loop, memory::BufferPool& pool,
                         const ConnectionOptions& options, ConnectionCounters& counters,
                         runtime::SocketHandle socket) noexcept
    : loop_(loop),
      pool_(pool),
      options_(options),
      counters_(counters),
      socket_(socket),
      sleeper_(loop) {}

FrameReader::~FrameReader() {
    drop_source();
}

Task<ReadEnd> FrameReader::read(bool authenticated, SilentPeer& silence, Frame& frame) {
    frame.body.reset();
    const ReadEnd header_end = co_await read_header(authenticated, silence);
    if (header_end != ReadEnd::kFrame) {
        co_return header_end;
    }
    const std::uint32_t size_max =
        authenticated ? options_.frame_bytes_max
                      : std::min(options_.anonymous_frame_bytes_max, options_.frame_bytes_max);
    const wire::DecodedRequestHeader decoded = wire::decode_request_header(header_, size_max);
    frame.header = decoded.header;
    frame.fault = decoded.fault;
    // The client number is looked at for itself: another fault may have been found before it.
    if (decoded.fault == wire::HeaderFault::kSize || decoded.fault == wire::HeaderFault::kCommand ||
        decoded.header.client.value() == 0) {
        co_return ReadEnd::kProtocol;
    }
    if (decoded.header.body_size() != 0) {
        const ReadEnd body_end =
            co_await read_body(authenticated, decoded.header.body_size(), frame.body);
        if (body_end != ReadEnd::kFrame) {
            co_return body_end;
        }
    }
    co_return put_leftover_aside(authenticated) ? ReadEnd::kFrame : ReadEnd::kTimeout;
}

Task<ReadEnd> FrameReader::read_header(bool authenticated, SilentPeer& silence) {
    std::size_t filled = 0;
    while (filled < header_.size()) {
        if (waiting_.empty()) {
            const ReadEnd end = co_await next_chunk(filled == 0 ? runtime::kNever : deadline_);
            if (end != ReadEnd::kFrame) {
                co_return end;
            }
        }
        if (filled == 0) {
            silence.unlink();
            start_clock(authenticated);
        }
        filled += take(MutableBytes(header_).subspan(filled));
    }
    co_return ReadEnd::kFrame;
}

/// Reads a body of `size` bytes, not 0 and within the bounds.
Task<ReadEnd> FrameReader::read_body(bool authenticated, std::size_t size, BufRef& body) {
    renew_clock(authenticated);
    const ReadEnd acquired = co_await acquire(authenticated, size, body);
    if (acquired != ReadEnd::kFrame) {
        co_return acquired;
    }
    renew_clock(authenticated);  // the wait for memory was not the peer's
    const MutableBytes into = body.mutable_bytes();
    std::size_t filled = take(into);
    if (filled < size && size >= options_.direct_body_bytes) {
        const ReadEnd end = co_await read_direct(authenticated, into.subspan(filled));
        co_return end;
    }
    while (filled < size) {
        const ReadEnd end = co_await next_chunk(deadline_);
        if (end != ReadEnd::kFrame) {
            co_return end;
        }
        const std::size_t count = take(into.subspan(filled));
        filled += count;
        count_progress(authenticated, count);
    }
    co_return ReadEnd::kFrame;
}

Task<ReadEnd> FrameReader::read_direct(bool authenticated, MutableBytes into) {
    while (!into.empty()) {
        const TimedResult result = co_await timed_io(
            loop_, deadline_, [&](runtime::IoOp& op) { loop_.io().receive(op, socket_, into); });
        if (result.value == -EINTR) {
            continue;
        }
        if (result.value <= 0) {
            co_return result.timed_out ? ReadEnd::kTimeout : ReadEnd::kClosed;
        }
        const auto count = static_cast<std::size_t>(result.value);
        ConnectionCounters::add(counters_.bytes_in, count);
        into = into.subspan(count);
        count_progress(authenticated, count);
    }
    co_return ReadEnd::kFrame;
}

/// A full pool is back-pressure: nothing more is read from this peer until a buffer is free or the
/// time of its frame is over.
Task<ReadEnd> FrameReader::acquire(bool authenticated, std::size_t bytes, BufRef& into) {
    std::uint64_t pause_ns = kMemoryRetryNsMin;
    for (bool first = true;; first = false) {
        Result<BufRef> buffer = pool_.acquire(bytes, admission(authenticated));
        if (buffer.has_value()) {
            into = std::move(*buffer);
            co_return ReadEnd::kFrame;
        }
        if (first) {
            ConnectionCounters::add(counters_.memory_waits);
        }
        if (buffer.error().retry == RetryClass::kNever || loop_.now() >= deadline_) {
            co_return ReadEnd::kTimeout;
        }
        if (!put_leftover_aside(authenticated)) {
            co_return ReadEnd::kTimeout;
        }
        const bool slept = co_await sleeper_.sleep_for(pause_ns);
        if (!slept) {
            co_return ReadEnd::kClosed;
        }
        pause_ns = std::min(2 * pause_ns, kMemoryRetryNsMax);
    }
}

/// Receives into a lent chunk; nothing is waiting when it is called, something is when it succeeds.
Task<ReadEnd> FrameReader::next_chunk(Instant limit) {
    for (;;) {
        const TimedResult result = co_await timed_io(
            loop_, limit, [&](runtime::IoOp& op) { loop_.io().receive_any(op, socket_); });
        if (result.value > 0) {
            chunk_ = result.chunk;
            waiting_ = chunk_.bytes();
            ConnectionCounters::add(counters_.bytes_in, waiting_.size());
            co_return ReadEnd::kFrame;
        }
        if (result.timed_out) {
            co_return ReadEnd::kTimeout;
        }
        if (result.value != -ENOBUFS && result.value != -EINTR) {
            co_return ReadEnd::kClosed;
        }
        // All chunks of the shard are being taken apart; they come back within a turn or two. Until
        // then a receive ends before its timer can, so the time is looked at here.
        if (result.value == -ENOBUFS) {
            if (loop_.now() >= limit) {
                co_return ReadEnd::kTimeout;
            }
            const bool slept = co_await sleeper_.sleep_for(kChunkRetryNs);
            if (!slept) {
                co_return ReadEnd::kClosed;
            }
        }
    }
}

/// Moves waiting bytes into `into`; a source that is used up goes back.
std::size_t FrameReader::take(MutableBytes into) noexcept {
    const std::size_t count = std::min(waiting_.size(), into.size());
    if (count != 0) {
        std::memcpy(into.data(), waiting_.data(), count);
        waiting_ = waiting_.subspan(count);
    }
    if (waiting_.empty()) {
        drop_source();
    }
    return count;
}

/// A wait may take long, for a handler or for memory: the chunk of a pipelining peer must not take
/// part in it. The pool's reserve is not for peers, so when the pool has nothing, the heap has to
/// do. False: not that either, as peers without a login have enough of it.
bool FrameReader::put_leftover_aside(bool authenticated) noexcept {
    if (chunk_.data == nullptr) {
        return true;
    }
    const std::size_t count = waiting_.size();
    Result<BufRef> buffer = pool_.acquire(count, admission(authenticated));
    if (buffer.has_value()) {
        BufRef copy = std::move(*buffer);
        std::memcpy(copy.mutable_bytes().data(), waiting_.data(), count);
        drop_source();
        leftover_ = std::move(copy);
        waiting_ = leftover_.bytes();
    } else {
        std::size_t charge = 0;
        if (!authenticated) {
            charge = count;
            const std::uint64_t held =
                counters_.anonymous_heap_bytes.load(std::memory_order_relaxed);
            if (held + charge > options_.anonymous_heap_bytes_max) {
                return false;
            }
        }
        auto copy = std::make_unique_for_overwrite<std::byte[]>(count);
        std::memcpy(copy.get(), waiting_.data(), count);
        drop_source();
        leftover_on_heap_ = std::move(copy);
        waiting_ = {leftover_on_heap_.get(), count};
        anonymous_heap_bytes_ = charge;
        ConnectionCounters::add(counters_.anonymous_heap_bytes, charge);
    }
    return true;
}

void FrameReader::drop_source() noexcept {
    waiting_ = {};
    leftover_.reset();
    leftover_on_heap_.reset();
    ConnectionCounters::subtract(counters_.anonymous_heap_bytes,
                                 std::exchange(anonymous_heap_bytes_, 0));
    if (chunk_.data != nullptr) {
        loop_.io().return_chunk(std::exchange(chunk_, {}));
    }
}

void FrameReader::start_clock(bool authenticated) noexcept {
    progress_bytes_ = 0;
    deadline_ = loop_.now().plus(authenticated ? options_.progress_timeout_ns
                                               : options_.anonymous_frame_timeout_ns);
}

/// An anonymous frame has so long from its first byte on, whatever comes of it.
void FrameReader::renew_clock(bool authenticated) noexcept {
    if (authenticated) {
        start_clock(authenticated);
    }
}

/// A step buys time only when it is large enough: a peer that sends a byte now and then must not
/// hold the buffer of a large frame, and with it the pool, for ever.
void FrameReader::count_progress(bool authenticated, std::size_t bytes) noexcept {
    progress_bytes_ += bytes;
    if (progress_bytes_ >= kProgressBytesMin) {
        renew_clock(authenticated);
    }
}

memory::AcquireClass FrameReader::admission(bool authenticated) noexcept {
    return authenticated ? memory::AcquireClass::kNormal : memory::AcquireClass::kAnonymous;
}

}  // namespace galgo::net

#include "observe/trace.hpp"

#include <unistd.h>

#include <cstring>

#include "base/this_shard.hpp"

namespace galgo::observe {
namespace {

constexpr std::size_t kShardsTraced = 256;
constinit std::array<std::atomic<TraceRing*>, kShardsTraced> g_rings{};

/// One line of output, put together without the C library's formatting: that is not signal-safe.
class Line {
 public:
    void add(const char* text) noexcept {
        for (; *text != '\0' && size_ < sizeof buffer_; ++text) {
            buffer_[size_++] = *text;
        }
    }
    void add(std::uint64_t number) noexcept {
        char digits[21];
        char* begin = digits + sizeof digits - 1;
        *begin = '\0';
        do {
            *--begin = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number != 0);
        add(begin);
    }
    void write_to(int fd) noexcept {
        std::size_t done = 0;
        while (done < size_) {
            const ssize_t n = ::write(fd, buffer_ + done, size_ - done);
            if (n <= 0) {
                break;
            }
            done += static_cast<std::size_t>(n);
        }
        size_ = 0;
    }

 private:
    char buffer_[256];
    std::size_t size_ = 0;
};

}  // namespace

void TraceRing::dump(int fd) const noexcept {
    const std::uint64_t end = recorded();
    const std::uint64_t begin = end > kCapacity ? end - kCapacity : 0;
    for (std::uint64_t i = begin; i < end; ++i) {
        const Entry& entry = entries_[i % kCapacity];
        const char* event = entry.event.load(std::memory_order_relaxed);
        Line line;
        line.add("  ");
        line.add(entry.instant_ns.load(std::memory_order_relaxed));
        line.add(" ");
        line.add(event == nullptr ? "?" : event);
        line.add(" ");
        line.add(entry.a.load(std::memory_order_relaxed));
        line.add(" ");
        line.add(entry.b.load(std::memory_order_relaxed));
        line.add("\n");
        line.write_to(fd);
    }
}

void set_trace_ring(ShardIndex shard, TraceRing* ring) noexcept {
    if (shard.value() < kShardsTraced) {
        g_rings[shard.value()].store(ring, std::memory_order_release);
    }
}

void trace(Instant now, const char* event, std::uint64_t a, std::uint64_t b) noexcept {
    const std::uint16_t shard = this_shard().value();
    if (shard >= kShardsTraced) {
        return;
    }
    if (TraceRing* ring = g_rings[shard].load(std::memory_order_acquire)) {
        ring->record(now, event, a, b);
    }
}

void dump_traces(int fd) noexcept {
    for (std::size_t shard = 0; shard < kShardsTraced; ++shard) {
        if (const TraceRing* ring = g_rings[shard].load(std::memory_order_acquire)) {
            Line line;
            line.add("last events of shard ");
            line.add(std::uint64_t{shard});
            line.add(":\n");
            line.write_to(fd);
            ring->dump(fd);
        }
    }
}

}  // namespace galgo::observe

// Metrics: counters, gauges and histograms, updated without a lock by the one shard that owns the
// instance and read by whoever writes the exposition. Instances that share a name (one a shard,
// told apart by their labels) make one family. Registration takes a mutex and belongs to start-up;
// a metric lives as long as its registry. Names end in their unit (`_total` for counters).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "observe/histogram.hpp"

namespace galgo::observe {

/// One writer. Any reader.
class Counter {
 public:
    void add(std::uint64_t count = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
    }
    /// For a count that is kept elsewhere: shows `total`, which never goes back.
    void follow(std::uint64_t total) noexcept { value_.store(total, std::memory_order_relaxed); }
    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

 private:
    std::atomic<std::uint64_t> value_{0};
};

/// `set` from anywhere; `add` from one writer.
class Gauge {
 public:
    void set(std::int64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
    void add(std::int64_t change) noexcept { set(value() + change); }
    [[nodiscard]] std::int64_t value() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

 private:
    std::atomic<std::int64_t> value_{0};
};

/// What a histogram's values are: decides the bounds and the scale of its exposition.
enum class HistogramUnit : std::uint8_t {
    kNanoseconds,  ///< shown in seconds; name it `_seconds`
    kBytes,
};

struct MetricInfo {
    std::string_view name;  ///< [a-zA-Z_:][a-zA-Z0-9_:]*
    std::string_view help;  ///< one sentence
};

using Labels = std::vector<std::pair<std::string, std::string>>;

class Registry {
 public:
    Registry() = default;
    Registry(const Registry&) = delete;
    Registry& operator=(const Registry&) = delete;

    /// The instance of that name and those labels; made on first call. Asking for a name again with
    /// another kind, or a malformed name, is a programmer error.
    [[nodiscard]] Counter& counter(const MetricInfo& info, const Labels& labels = {});
    [[nodiscard]] Gauge& gauge(const MetricInfo& info, const Labels& labels = {});
    [[nodiscard]] Histogram& histogram(const MetricInfo& info, HistogramUnit unit,
                                       const Labels& labels = {});

    /// Appends everything in Prometheus text format 0.0.4, families in order of registration.
    void exposition(std::string& out) const;

    static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

 private:
    enum class Kind : std::uint8_t { kCounter, kGauge, kHistogram };
    struct Instance {
        std::string labels;  ///< `shard="0",x="y"`, escaped, no braces
        std::size_t index = 0;
    };
    struct Family {
        std::string name;
        std::string help;
        Kind kind = Kind::kCounter;
        HistogramUnit unit = HistogramUnit::kNanoseconds;
        std::vector<Instance> instances;
    };

    std::size_t find_or_add(const MetricInfo& info, Kind kind, HistogramUnit unit,
                            const Labels& labels);
    void write_family(const Family& family, std::string& out) const;

    mutable std::mutex mutex_;
    std::vector<Family> families_;
    // Deques: an instance never moves.
    std::deque<Counter> counters_;
    std::deque<Gauge> gauges_;
    std::deque<Histogram> histograms_;
};

}  // namespace galgo::observe

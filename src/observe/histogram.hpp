// A log-linear histogram: 32 buckets an octave, so a value read back is within 1.6 % of the value
// recorded. One writer, any number of readers: a record is a relaxed load and store, no lock
// prefix. Readers see each bucket untorn; a sum over buckets may miss records made meanwhile.
// Values are nanoseconds or bytes; at and above 2^44 (about 4.9 hours) they share the last bucket.
// About 10 KiB an instance. Used by the metrics and by the load generator.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/ids.hpp"

namespace galgo::observe {

class Histogram {
 public:
    static constexpr std::uint32_t kSubBits = 5;
    static constexpr std::uint64_t kSubCount = 1ULL << kSubBits;
    static constexpr std::uint32_t kValueBits = 44;
    static constexpr std::size_t kBucketCount = (kValueBits - kSubBits + 1) * kSubCount;

    Histogram() = default;
    Histogram(const Histogram&) = delete;
    Histogram& operator=(const Histogram&) = delete;

    /// The writer only.
    void record(std::uint64_t value) noexcept { record_many(value, 1); }
    void record_many(std::uint64_t value, std::uint64_t times) noexcept;

    /// Adds what `other` holds; `this` counts as the writer.
    void merge(const Histogram& other) noexcept;
    void reset() noexcept;

    [[nodiscard]] std::uint64_t count() const noexcept { return count_.load(kRelaxed); }
    [[nodiscard]] std::uint64_t sum() const noexcept { return sum_.load(kRelaxed); }
    /// Exact; 0 when empty.
    [[nodiscard]] std::uint64_t max() const noexcept { return max_.load(kRelaxed); }
    [[nodiscard]] std::uint64_t min() const noexcept;
    [[nodiscard]] double mean() const noexcept;
    /// `percent` in [0, 100]: the smallest recorded value that at least so many percent of the
    /// records do not exceed, to within 1.6 %. 0 when empty; percentile(100) is max().
    [[nodiscard]] std::uint64_t percentile(double percent) const noexcept;
    /// Records whose bucket lies at or below `limit` by its middle.
    [[nodiscard]] std::uint64_t count_at_most(std::uint64_t limit) const noexcept;

    [[nodiscard]] static constexpr std::size_t bucket_of(std::uint64_t value) noexcept {
        if (value < kSubCount) {
            return static_cast<std::size_t>(value);
        }
        const auto octave = static_cast<std::uint32_t>(std::bit_width(value)) - 1;
        if (octave >= kValueBits) {
            return kBucketCount - 1;
        }
        const std::uint64_t sub = (value >> (octave - kSubBits)) & (kSubCount - 1);
        return static_cast<std::size_t>((octave - kSubBits + 1) * kSubCount + sub);
    }
    /// Middle of a bucket's range, the value reported for it.
    [[nodiscard]] static constexpr std::uint64_t bucket_middle(std::size_t bucket) noexcept {
        if (bucket < kSubCount) {
            return bucket;
        }
        const std::uint64_t shift = bucket / kSubCount - 1;
        const std::uint64_t low = (kSubCount + bucket % kSubCount) << shift;
        return low + ((1ULL << shift) >> 1);
    }

 private:
    static constexpr auto kRelaxed = std::memory_order_relaxed;

    std::array<std::atomic<std::uint64_t>, kBucketCount> buckets_{};
    std::atomic<std::uint64_t> count_{0};
    std::atomic<std::uint64_t> sum_{0};
    std::atomic<std::uint64_t> max_{0};
    std::atomic<std::uint64_t> min_{UINT64_MAX};
};

/// How long something took, for code that also runs without metrics: `into` may be null.
inline void record_time(Histogram* into, Instant began, Instant ended) noexcept {
    if (into != nullptr) {
        into->record(ended > began ? ended.value() - began.value() : 0);
    }
}

}  // namespace galgo::observe

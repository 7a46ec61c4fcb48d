#include "observe/histogram.hpp"

#include <algorithm>
#include <cmath>

namespace galgo::observe {

void Histogram::record_many(std::uint64_t value, std::uint64_t times) noexcept {
    std::atomic<std::uint64_t>& bucket = buckets_[bucket_of(value)];
    bucket.store(bucket.load(kRelaxed) + times, kRelaxed);
    count_.store(count() + times, kRelaxed);
    sum_.store(sum() + value * times, kRelaxed);
    if (value > max()) {
        max_.store(value, kRelaxed);
    }
    if (value < min_.load(kRelaxed)) {
        min_.store(value, kRelaxed);
    }
}

void Histogram::merge(const Histogram& other) noexcept {
    for (std::size_t i = 0; i < kBucketCount; ++i) {
        const std::uint64_t added = other.buckets_[i].load(kRelaxed);
        if (added != 0) {
            buckets_[i].store(buckets_[i].load(kRelaxed) + added, kRelaxed);
        }
    }
    count_.store(count() + other.count(), kRelaxed);
    sum_.store(sum() + other.sum(), kRelaxed);
    max_.store(std::max(max(), other.max()), kRelaxed);
    min_.store(std::min(min_.load(kRelaxed), other.min_.load(kRelaxed)), kRelaxed);
}

void Histogram::reset() noexcept {
    for (std::atomic<std::uint64_t>& bucket : buckets_) {
        bucket.store(0, kRelaxed);
    }
    count_.store(0, kRelaxed);
    sum_.store(0, kRelaxed);
    max_.store(0, kRelaxed);
    min_.store(UINT64_MAX, kRelaxed);
}

std::uint64_t Histogram::min() const noexcept {
    const std::uint64_t value = min_.load(kRelaxed);
    return value == UINT64_MAX ? 0 : value;
}

double Histogram::mean() const noexcept {
    const std::uint64_t records = count();
    return records == 0 ? 0.0 : static_cast<double>(sum()) / static_cast<double>(records);
}

std::uint64_t Histogram::percentile(double percent) const noexcept {
    const std::uint64_t records = count();
    if (records == 0) {
        return 0;
    }
    if (percent >= 100.0) {
        return max();
    }
    // A little less, so that 99.9 % of 20000 is 19980 whatever the rounding of 99.9.
    const double share = static_cast<double>(records) * std::max(percent, 0.0) / 100.0;
    const double wanted = std::ceil(share * (1.0 - 1e-12));
    const std::uint64_t rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBucketCount; ++i) {
        seen += buckets_[i].load(kRelaxed);
        if (seen >= rank) {
            // The middle of a bucket may lie beyond what was recorded; the extremes are exact.
            return std::max(min(), std::min(bucket_middle(i), max()));
        }
    }
    return max();
}

std::uint64_t Histogram::count_at_most(std::uint64_t limit) const noexcept {
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBucketCount && bucket_middle(i) <= limit; ++i) {
        seen += buckets_[i].load(kRelaxed);
    }
    return seen;
}

}  // namespace galgo::observe

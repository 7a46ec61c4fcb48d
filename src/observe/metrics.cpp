#include "observe/metrics.hpp"

#include <algorithm>
#include <array>
#include <format>
#include <span>

#include "base/check.hpp"

namespace galgo::observe {
namespace {

/// An upper bound as Prometheus shows it and as the histogram counts it.
struct Bound {
    std::string_view text;
    std::uint64_t value;
};

constexpr auto kSecondBounds = std::to_array<Bound>({
    {"0.00001", 10'000},    {"0.000025", 25'000},  {"0.00005", 50'000},    {"0.0001", 100'000},
    {"0.00025", 250'000},   {"0.0005", 500'000},   {"0.001", 1'000'000},   {"0.0025", 2'500'000},
    {"0.005", 5'000'000},   {"0.01", 10'000'000},  {"0.025", 25'000'000},  {"0.05", 50'000'000},
    {"0.1", 100'000'000},   {"0.25", 250'000'000}, {"0.5", 500'000'000},   {"1", 1'000'000'000},
    {"2.5", 2'500'000'000}, {"5", 5'000'000'000},  {"10", 10'000'000'000},
});
constexpr auto kByteBounds = std::to_array<Bound>({
    {"64", 64},
    {"256", 256},
    {"1024", 1024},
    {"4096", 4096},
    {"16384", 16'384},
    {"65536", 65'536},
    {"262144", 262'144},
    {"1048576", 1'048'576},
    {"4194304", 4'194'304},
    {"16777216", 16'777'216},
    {"67108864", 67'108'864},
});

bool is_metric_name(std::string_view name) {
    const auto is_letter = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == ':';
    };
    return !name.empty() && is_letter(name.front()) && std::ranges::all_of(name, [&](char c) {
        return is_letter(c) || (c >= '0' && c <= '9');
    });
}

std::string escaped(std::string_view text, bool quotes_too) {
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\\\";
        } else if (c == '\n') {
            out += "\\n";
        } else if (c == '"' && quotes_too) {
            out += "\\\"";
        } else {
            out += c;
        }
    }
    return out;
}

std::string labels_text(const Labels& labels) {
    std::string out;
    for (const auto& [name, value] : labels) {
        GALGO_CHECK(is_metric_name(name));
        out += std::format("{}{}=\"{}\"", out.empty() ? "" : ",", name, escaped(value, true));
    }
    return out;
}

std::string braced(const std::string& labels) {
    return labels.empty() ? "" : "{" + labels + "}";
}

/// Nanoseconds as seconds, exact: "0.000001500".
std::string seconds_text(std::uint64_t nanoseconds) {
    return std::format("{}.{:09}", nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000);
}

void write_histogram(const std::string& name, const std::string& labels, HistogramUnit unit,
                     const Histogram& histogram, std::string& out) {
    const bool in_seconds = unit == HistogramUnit::kNanoseconds;
    const std::span<const Bound> bounds =
        in_seconds ? std::span<const Bound>(kSecondBounds) : std::span<const Bound>(kByteBounds);
    const std::string prefix = labels.empty() ? "" : labels + ",";
    // The total is read last, so that no bucket exceeds it while the writer goes on.
    std::string lines;
    std::uint64_t highest = 0;
    for (const Bound& bound : bounds) {
        highest = histogram.count_at_most(bound.value);
        lines += std::format("{}_bucket{{{}le=\"{}\"}} {}\n", name, prefix, bound.text, highest);
    }
    const std::uint64_t sum = histogram.sum();
    const std::uint64_t count = std::max(highest, histogram.count());
    out += lines;
    out += std::format("{}_bucket{{{}le=\"+Inf\"}} {}\n", name, prefix, count);
    out += std::format("{}_sum{} {}\n", name, braced(labels),
                       in_seconds ? seconds_text(sum) : std::to_string(sum));
    out += std::format("{}_count{} {}\n", name, braced(labels), count);
}

}  // namespace

Counter& Registry::counter(const MetricInfo& info, const Labels& labels) {
    const std::scoped_lock lock(mutex_);
    return counters_[find_or_add(info, Kind::kCounter, {}, labels)];
}

Gauge& Registry::gauge(const MetricInfo& info, const Labels& labels) {
    const std::scoped_lock lock(mutex_);
    return gauges_[find_or_add(info, Kind::kGauge, {}, labels)];
}

Histogram& Registry::histogram(const MetricInfo& info, HistogramUnit unit, const Labels& labels) {
    const std::scoped_lock lock(mutex_);
    return histograms_[find_or_add(info, Kind::kHistogram, unit, labels)];
}

std::size_t Registry::find_or_add(const MetricInfo& info, Kind kind, HistogramUnit unit,
                                  const Labels& labels) {
    GALGO_CHECK(is_metric_name(info.name));
    auto family = std::ranges::find(families_, info.name, &Family::name);
    if (family == families_.end()) {
        families_.push_back(Family{.name = std::string(info.name),
                                   .help = std::string(info.help),
                                   .kind = kind,
                                   .unit = unit,
                                   .instances = {}});
        family = families_.end() - 1;
    }
    GALGO_CHECK(family->kind == kind);
    GALGO_CHECK(family->unit == unit);
    std::string text = labels_text(labels);
    const auto known = std::ranges::find(family->instances, text, &Instance::labels);
    if (known != family->instances.end()) {
        return known->index;
    }
    std::size_t index = 0;
    switch (kind) {
        case Kind::kCounter:
            index = counters_.size();
            counters_.emplace_back();
            break;
        case Kind::kGauge:
            index = gauges_.size();
            gauges_.emplace_back();
            break;
        case Kind::kHistogram:
            index = histograms_.size();
            histograms_.emplace_back();
            break;
    }
    family->instances.push_back(Instance{.labels = std::move(text), .index = index});
    return index;
}

void Registry::exposition(std::string& out) const {
    const std::scoped_lock lock(mutex_);
    for (const Family& family : families_) {
        write_family(family, out);
    }
}

void Registry::write_family(const Family& family, std::string& out) const {
    constexpr std::array<std::string_view, 3> kTypes{"counter", "gauge", "histogram"};
    out += std::format("# HELP {} {}\n", family.name, escaped(family.help, false));
    out +=
        std::format("# TYPE {} {}\n", family.name, kTypes[static_cast<std::size_t>(family.kind)]);
    for (const Instance& instance : family.instances) {
        switch (family.kind) {
            case Kind::kCounter:
                out += std::format("{}{} {}\n", family.name, braced(instance.labels),
                                   counters_[instance.index].value());
                break;
            case Kind::kGauge:
                out += std::format("{}{} {}\n", family.name, braced(instance.labels),
                                   gauges_[instance.index].value());
                break;
            case Kind::kHistogram:
                write_histogram(family.name, instance.labels, family.unit,
                                histograms_[instance.index], out);
                break;
        }
    }
}

}  // namespace galgo::observe

// Formatting and medians.
#include "bench/report.hpp"

#include <algorithm>
#include <format>
#include <functional>

#include "base/check.hpp"

namespace galgo::bench {
namespace {

double rate(double amount, double seconds) {
    return seconds > 0 ? amount / seconds : 0;
}

std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\';
        }
        if (static_cast<unsigned char>(c) >= 0x20) {
            out += c;
        }
    }
    return out;
}

double factor(double value, double base) {
    return base > 0 ? value / base : 0;
}

}  // namespace

double Row::megabytes_per_second() const noexcept {
    return rate(static_cast<double>(payload_bytes) / 1e6, seconds);
}

double Row::messages_per_second() const noexcept {
    return rate(static_cast<double>(messages), seconds);
}

std::optional<double> Row::cpu_seconds_per_gigabyte() const noexcept {
    if (!used || payload_bytes == 0) {
        return std::nullopt;
    }
    return used->cpu_seconds() / (static_cast<double>(payload_bytes) / 1e9);
}

void set_latencies(Row& row, const observe::Histogram& nanoseconds) {
    const auto microseconds = [&](double percent) {
        return static_cast<double>(nanoseconds.percentile(percent)) / 1e3;
    };
    row.p50_us = microseconds(50);
    row.p99_us = microseconds(99);
    row.p999_us = microseconds(99.9);
    row.max_us = static_cast<double>(nanoseconds.max()) / 1e3;
}

std::string header_line(Format format) {
    if (format == Format::kJson) {
        return {};
    }
    return std::format(
        "{:<22} {:<16} {:>9} {:>10} {:>9} {:>9} {:>9} {:>7} {:>6} {:>6} {:>9} {:>9}\n", "server",
        "what", "MB/s", "msg/s", "p50 us", "p99 us", "p99.9 us", "s", "cpu s", "cpu/GB", "wchar MB",
        "disk MB");
}

std::string line(const Row& row, Format format) {
    const ProcessSample used = row.used.value_or(ProcessSample{});
    if (format == Format::kJson) {
        std::string out = std::format(
            R"({{"server":"{}","name":"{}","requests":{},"messages":{},"payload_bytes":{},)"
            R"("seconds":{:.6f},"mb_per_s":{:.3f},"messages_per_s":{:.1f},"p50_us":{:.3f},)"
            R"("p99_us":{:.3f},"p999_us":{:.3f},"max_us":{:.3f})",
            escaped(row.server), escaped(row.name), row.requests, row.messages, row.payload_bytes,
            row.seconds, row.megabytes_per_second(), row.messages_per_second(), row.p50_us,
            row.p99_us, row.p999_us, row.max_us);
        if (row.used) {
            out += std::format(
                R"(,"user_s":{:.3f},"system_s":{:.3f},"cpu_s_per_gb":{:.4f},"wchar":{},)"
                R"("write_bytes":{})",
                used.user_seconds, used.system_seconds, row.cpu_seconds_per_gigabyte().value_or(0),
                used.write_calls_bytes, used.storage_write_bytes);
        }
        return out + "}\n";
    }
    std::string out =
        std::format("{:<22} {:<16} {:>9.1f} {:>10.0f} {:>9.1f} {:>9.1f} {:>9.1f} {:>7.2f}",
                    row.server, row.name, row.megabytes_per_second(), row.messages_per_second(),
                    row.p50_us, row.p99_us, row.p999_us, row.seconds);
    if (row.used) {
        out += std::format(" {:>6.2f} {:>6.2f} {:>9.1f} {:>9.1f}", used.cpu_seconds(),
                           row.cpu_seconds_per_gigabyte().value_or(0),
                           static_cast<double>(used.write_calls_bytes) / 1e6,
                           static_cast<double>(used.storage_write_bytes) / 1e6);
    }
    return out + "\n";
}

Row median(std::span<const Row> rows) {
    GALGO_CHECK(!rows.empty());
    const auto middle = [](auto values) {
        std::sort(values.begin(), values.end());
        return values[(values.size() - 1) / 2];
    };
    const auto of = [&](auto field) {
        std::vector<std::decay_t<decltype(field(rows.front()))>> values;
        for (const Row& row : rows) {
            values.push_back(field(row));
        }
        return middle(std::move(values));
    };
    Row out = rows.front();
    out.requests = of([](const Row& r) { return r.requests; });
    out.messages = of([](const Row& r) { return r.messages; });
    out.payload_bytes = of([](const Row& r) { return r.payload_bytes; });
    out.seconds = of([](const Row& r) { return r.seconds; });
    out.p50_us = of([](const Row& r) { return r.p50_us; });
    out.p99_us = of([](const Row& r) { return r.p99_us; });
    out.p999_us = of([](const Row& r) { return r.p999_us; });
    out.max_us = of([](const Row& r) { return r.max_us; });
    if (std::ranges::all_of(rows, [](const Row& row) { return row.used.has_value(); })) {
        // One round's sample: user and system time of different rounds do not add up.
        std::vector<ProcessSample> samples;
        for (const Row& row : rows) {
            samples.push_back(*row.used);
        }
        std::ranges::sort(samples, {}, &ProcessSample::cpu_seconds);
        out.used = samples[(samples.size() - 1) / 2];
    } else {
        out.used.reset();
    }
    return out;
}

std::string ratio_line(const Row& row, const Row& base, Format format) {
    const double throughput = factor(row.messages_per_second(), base.messages_per_second());
    const double p50 = factor(row.p50_us, base.p50_us);
    const double p99 = factor(row.p99_us, base.p99_us);
    const double cpu = factor(row.cpu_seconds_per_gigabyte().value_or(0),
                              base.cpu_seconds_per_gigabyte().value_or(0));
    if (format == Format::kJson) {
        return std::format(
            R"({{"ratio":"{}","server":"{}","base":"{}","throughput":{:.4f},"p50":{:.4f},)"
            R"("p99":{:.4f},"cpu_per_gb":{:.4f}}})"
            "\n",
            escaped(row.name), escaped(row.server), escaped(base.server), throughput, p50, p99,
            cpu);
    }
    return std::format("{:<12} {} to {}: throughput x{:.3f}, p50 x{:.3f}, p99 x{:.3f}, cpu/GB {}\n",
                       row.name, row.server, base.server, throughput, p50, p99,
                       cpu > 0 ? std::format("x{:.3f}", cpu) : "-");
}

}  // namespace galgo::bench

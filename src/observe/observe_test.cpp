// Histogram against sorted samples, exposition text, log ring, log thread and retention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <sstream>
#include <thread>
#include <vector>

#include "base/this_shard.hpp"
#include "observe/detail/line_ring.hpp"
#include "observe/detail/logger.hpp"
#include "observe/histogram.hpp"
#include "observe/log.hpp"
#include "observe/metrics.hpp"

namespace galgo::observe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Histogram, PercentilesAreWithinTwoPercentOfSortedSamples) {
    std::mt19937_64 random(7);
    for (const double spread : {0.5, 2.0, 4.0}) {
        std::lognormal_distribution<double> latency(std::log(50'000.0), spread);
        auto histogram = std::make_unique<Histogram>();
        std::vector<std::uint64_t> samples;
        for (int i = 0; i < 20'000; ++i) {
            const auto value = static_cast<std::uint64_t>(std::min(latency(random), 1e12));
            samples.push_back(value);
            histogram->record(value);
        }
        std::ranges::sort(samples);
        // In hundredths of a percent: the rank is then exact.
        for (const std::size_t hundredths : {10U, 100U, 2500U, 5000U, 9000U, 9900U, 9990U, 9999U}) {
            const std::size_t rank = (hundredths * samples.size() + 9999) / 10'000;
            const double percent = static_cast<double>(hundredths) / 100.0;
            const auto exact = static_cast<double>(samples[rank - 1]);
            const auto shown = static_cast<double>(histogram->percentile(percent));
            EXPECT_LE(std::abs(shown - exact), 0.02 * exact + 1) << percent;
        }
        EXPECT_EQ(histogram->percentile(100), samples.back());
        EXPECT_EQ(histogram->max(), samples.back());
        EXPECT_EQ(histogram->min(), samples.front());
        EXPECT_EQ(histogram->count(), samples.size());
    }
}

TEST(Histogram, BucketsAreMonotoneAndCoverEveryValue) {
    std::size_t last = 0;
    for (std::uint64_t value = 0; value < 100'000; ++value) {
        const std::size_t bucket = Histogram::bucket_of(value);
        ASSERT_GE(bucket, last);
        ASSERT_LE(bucket, last + 1);
        last = bucket;
    }
    for (std::size_t bucket = 0; bucket < Histogram::kBucketCount; ++bucket) {
        ASSERT_EQ(Histogram::bucket_of(Histogram::bucket_middle(bucket)), bucket);
    }
    EXPECT_EQ(Histogram::bucket_of(UINT64_MAX), Histogram::kBucketCount - 1);
    EXPECT_EQ(Histogram::bucket_of((1ULL << 44) - 1), Histogram::kBucketCount - 1);
}

TEST(Histogram, EmptySingleMergeReset) {
    auto a = std::make_unique<Histogram>();
    auto b = std::make_unique<Histogram>();
    EXPECT_EQ(a->percentile(50), 0U);
    EXPECT_EQ(a->min(), 0U);
    EXPECT_EQ(a->mean(), 0.0);
    a->record(1000);
    EXPECT_EQ(a->percentile(0), 1000U);
    EXPECT_EQ(a->percentile(50), 1000U);
    b->record_many(10, 3);
    b->record(UINT64_MAX);
    a->merge(*b);
    EXPECT_EQ(a->count(), 5U);
    EXPECT_EQ(a->min(), 10U);
    EXPECT_EQ(a->max(), UINT64_MAX);
    EXPECT_EQ(a->percentile(50), 10U);
    EXPECT_EQ(a->percentile(80), 1000U);  // middle of the bucket 992..1007
    EXPECT_EQ(a->count_at_most(10), 3U);
    EXPECT_EQ(a->count_at_most(9), 0U);
    a->reset();
    EXPECT_EQ(a->count(), 0U);
    EXPECT_EQ(a->percentile(99), 0U);
}

TEST(Metrics, ExpositionIsTheGoldenText) {
    Registry registry;
    Counter& zero = registry.counter({.name = "frame_drops_total", .help = "Frames dropped."},
                                     {{"shard", "0"}, {"reason", "full"}});
    Gauge& streams = registry.gauge({.name = "streams", .help = "Streams.\nNow \\ here."});
    Counter& one = registry.counter({.name = "frame_drops_total", .help = "Frames dropped."},
                                    {{"shard", "1"}, {"reason", "a\"b\\c\nd"}});
    zero.follow(1);
    zero.follow(3);
    one.add();
    streams.set(-2);
    std::string text = "before\n";
    registry.exposition(text);
    EXPECT_EQ(text,
              "before\n"
              "# HELP frame_drops_total Frames dropped.\n"
              "# TYPE frame_drops_total counter\n"
              "frame_drops_total{shard=\"0\",reason=\"full\"} 3\n"
              "frame_drops_total{shard=\"1\",reason=\"a\\\"b\\\\c\\nd\"} 1\n"
              "# HELP streams Streams.\\nNow \\\\ here.\n"
              "# TYPE streams gauge\n"
              "streams -2\n");
    EXPECT_EQ(&registry.counter({.name = "frame_drops_total", .help = ""},
                                {{"shard", "0"}, {"reason", "full"}}),
              &zero);
}

TEST(Metrics, HistogramExposition) {
    Registry registry;
    Histogram& bytes =
        registry.histogram({.name = "write_bytes", .help = "Bytes."}, HistogramUnit::kBytes);
    Histogram& time = registry.histogram({.name = "commit_seconds", .help = "Commit."},
                                         HistogramUnit::kNanoseconds, {{"shard", "0"}});
    bytes.record(10);
    bytes.record(100);
    bytes.record(1ULL << 40);
    time.record(30'000);
    time.record(20'000'000'000);
    std::string text;
    registry.exposition(text);
    EXPECT_THAT(text, testing::StartsWith("# HELP write_bytes Bytes.\n"
                                          "# TYPE write_bytes histogram\n"
                                          "write_bytes_bucket{le=\"64\"} 1\n"
                                          "write_bytes_bucket{le=\"256\"} 2\n"));
    EXPECT_THAT(text, HasSubstr("write_bytes_bucket{le=\"67108864\"} 2\n"
                                "write_bytes_bucket{le=\"+Inf\"} 3\n"
                                "write_bytes_sum 1099511627886\n"
                                "write_bytes_count 3\n"));
    EXPECT_THAT(text, HasSubstr("commit_seconds_bucket{shard=\"0\",le=\"0.000025\"} 0\n"
                                "commit_seconds_bucket{shard=\"0\",le=\"0.00005\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("commit_seconds_bucket{shard=\"0\",le=\"+Inf\"} 2\n"
                                "commit_seconds_sum{shard=\"0\"} 20.000030000\n"
                                "commit_seconds_count{shard=\"0\"} 2\n"));
}

TEST(MetricsDeathTest, RefusesNonsense) {
    Registry registry;
    static_cast<void>(registry.counter({.name = "a_total", .help = ""}));
    EXPECT_DEATH(static_cast<void>(registry.gauge({.name = "a_total", .help = ""})), "kind");
    EXPECT_DEATH(static_cast<void>(registry.gauge({.name = "1a", .help = ""})), "is_metric_name");
}

TEST(LineRing, KeepsOrderAndRefusesWhenFull) {
    detail::LineRing ring;
    for (std::size_t i = 0; i < detail::LineRing::kCapacity; ++i) {
        ASSERT_TRUE(ring.push(LogLevel::kInfo, std::to_string(i)));
    }
    EXPECT_FALSE(ring.push(LogLevel::kInfo, "one too many"));
    std::size_t next = 0;
    const auto expect_next = [&next](LogLevel, std::string_view line) {
        EXPECT_EQ(line, std::to_string(next++));
    };
    ASSERT_TRUE(ring.pop(expect_next));
    EXPECT_TRUE(ring.push(LogLevel::kError, std::to_string(detail::LineRing::kCapacity)));
    EXPECT_FALSE(ring.push(LogLevel::kInfo, "again too many"));
    while (ring.pop(expect_next)) {
    }
    EXPECT_EQ(next, detail::LineRing::kCapacity + 1);
    EXPECT_TRUE(ring.empty());
}

TEST(LineRing, ManyProducersLoseNothingThatWasAccepted) {
    detail::LineRing ring;
    constexpr std::uint64_t kEach = 5000;
    constexpr std::size_t kProducers = 3;
    std::atomic<std::size_t> running{kProducers};
    std::vector<std::thread> producers;
    for (std::size_t p = 0; p < kProducers; ++p) {
        producers.emplace_back([&ring, &running, p] {
            for (std::uint64_t i = 0; i < kEach; ++i) {
                const std::string line = std::to_string(p) + " " + std::to_string(i);
                while (!ring.push(LogLevel::kInfo, line)) {
                    std::this_thread::yield();
                }
            }
            running.fetch_sub(1);
        });
    }
    std::vector<std::uint64_t> next(kProducers, 0);
    const auto check = [&next](LogLevel, std::string_view line) {
        const auto producer = static_cast<std::size_t>(line[0] - '0');
        EXPECT_EQ(line.substr(2), std::to_string(next[producer]++));
    };
    while (running.load() != 0 || !ring.empty()) {
        if (!ring.pop(check)) {
            std::this_thread::yield();
        }
    }
    for (std::thread& producer : producers) {
        producer.join();
    }
    EXPECT_THAT(next, testing::Each(kEach));
}

TEST(LogLine, HasTimeLevelShardModuleMessageAndFields) {
    const std::string line = detail::format_line(LogLevel::kWarn, "net", "closed\nnow",
                                                 {{"peer", "a b"},
                                                  {"bytes", std::uint64_t{12}},
                                                  {"delta", -3},
                                                  {"ok", true},
                                                  {"offset", Offset{9}},
                                                  {"empty", ""},
                                                  {"text", std::string("x\ty")}});
    EXPECT_THAT(line, testing::MatchesRegex(
                          "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{6}Z  WARN main net: "
                          "closed.nnow peer=\"a b\" bytes=12 delta=-3 ok=true offset=9 "
                          "empty=\"\" text=x\\?y"));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    std::thread([] {
        set_this_shard(ShardIndex{2});
        EXPECT_THAT(detail::format_line(LogLevel::kInfo, "net", "up", {}),
                    HasSubstr("Z  INFO shard-2 net: up"));
    }).join();
}

TEST(LogLine, IsCutAtItsLimit) {
    const std::string line = detail::format_line(LogLevel::kInfo, "net", std::string(5000, 'x'),
                                                 {{"k", "v"}, {"l", "w"}});
    EXPECT_EQ(line.size(), detail::LineRing::kLineBytesMax);
}

TEST(LogFilter, ByLevelAndModule) {
    ASSERT_TRUE(set_log_filter("warn, net=debug,storage=OFF"));
    EXPECT_TRUE(log_enabled(LogLevel::kWarn, "shard"));
    EXPECT_FALSE(log_enabled(LogLevel::kInfo, "shard"));
    EXPECT_TRUE(log_enabled(LogLevel::kDebug, "net"));
    EXPECT_FALSE(log_enabled(LogLevel::kTrace, "net"));
    EXPECT_FALSE(log_enabled(LogLevel::kError, "storage"));
    for (const char* bad : {"loud", "net=", "=info", "net=loud", "a=b=c"}) {
        EXPECT_FALSE(set_log_filter(bad)) << bad;
    }
    EXPECT_TRUE(log_enabled(LogLevel::kDebug, "net"));  // unchanged
    ASSERT_TRUE(set_log_filter("info"));
    EXPECT_FALSE(log_enabled(LogLevel::kDebug, "net"));
}

class LogFiles : public testing::Test {
 protected:
    void SetUp() override {
        std::string name = (fs::temp_directory_path() / "galgo_log_XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
    }
    void TearDown() override {
        stop_log();
        fs::remove_all(directory_);
    }
    [[nodiscard]] std::string text_of(const std::string& name) const {
        std::ostringstream text;
        text << std::ifstream(directory_ / name).rdbuf();
        return text.str();
    }
    void make(const std::string& name, std::size_t size, std::time_t age) const {
        std::ofstream(directory_ / name) << std::string(size, 'x');
        const std::time_t then = std::time(nullptr) - age;
        const utimbuf times{.actime = then, .modtime = then};
        ASSERT_EQ(utime((directory_ / name).c_str(), &times), 0);
    }

    fs::path directory_;
};

TEST_F(LogFiles, LinesBeforeTheStartAreKeptAndStopDrains) {
    log_info("server", "early", {{"n", 1}});
    log_debug("server", "not wanted");
    ASSERT_EQ(start_log({.to_stdout = false, .directory = (directory_ / "logs").string()}), "");
    for (int i = 0; i < 500; ++i) {
        log_info("server", "late", {{"n", i}});
    }
    log_write_now("crash\n");
    stop_log();
    const std::string text = text_of("logs/iggy-server.log");
    EXPECT_THAT(text, HasSubstr("main server: early n=1\n"));
    EXPECT_THAT(text, HasSubstr("late n=499\n"));
    EXPECT_THAT(text, HasSubstr("crash\n"));
    EXPECT_THAT(text, Not(HasSubstr("not wanted")));
    EXPECT_EQ(std::ranges::count(text, '\n'), 502);
}

struct Ticks {
    std::atomic<int> count{0};
    static std::uint64_t run(void* context) noexcept {
        static_cast<Ticks*>(context)->count.fetch_add(1);
        return 1'000'000;
    }
};

TEST_F(LogFiles, TheTickComesInSilenceAndAmongLines) {
    const auto wait_for = [](const Ticks& ticks, int goal) {
        for (int i = 0; i < 20'000 && ticks.count.load() < goal; ++i) {
            if (i % 2 == 0) {
                log_info("server", "beside the ticks", {{"i", i}});
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        return ticks.count.load() >= goal;
    };
    Ticks ticks;
    ASSERT_EQ(start_log({.to_stdout = false, .directory = directory_.string()},
                        {.run = &Ticks::run, .context = &ticks}),
              "");
    EXPECT_TRUE(wait_for(ticks, 20));
    stop_log();
    const int after = ticks.count.load();
    EXPECT_THAT(text_of("iggy-server.log"), HasSubstr("beside the ticks i=0\n"));
    // Nobody ticks for a log that was started without.
    ASSERT_EQ(start_log({.to_stdout = false, .directory = directory_.string()}), "");
    log_info("server", "no tick");
    stop_log();
    EXPECT_EQ(ticks.count.load(), after);
}

TEST_F(LogFiles, OverflowIsCountedAndReported) {
    const std::uint64_t dropped_before = log_dropped_lines();
    for (std::size_t i = 0; i < detail::LineRing::kCapacity + 10; ++i) {
        log_info("server", "flood", {{"n", i}});
    }
    EXPECT_EQ(log_dropped_lines() - dropped_before, 10U);
    ASSERT_EQ(start_log({.to_stdout = false, .directory = directory_.string()}), "");
    stop_log();
    const std::string text = text_of("iggy-server.log");
    EXPECT_THAT(text, HasSubstr("flood n=1023\n"));
    EXPECT_THAT(text, Not(HasSubstr("flood n=1024\n")));
    EXPECT_THAT(text, HasSubstr("WARN main observe: log lines lost, the queue was full lines=10 "));
}

TEST_F(LogFiles, AFileThatCannotBeOpenedIsReported) {
    std::ofstream(directory_ / "plain") << "x";
    EXPECT_NE(start_log({.to_stdout = false, .directory = (directory_ / "plain" / "x").string()}),
              "");
    log_info("server", "still alive");
    EXPECT_NE(start_log({}), "");  // twice
}

TEST_F(LogFiles, RotateBySizeWithinTheTotal) {
    ASSERT_EQ(start_log({.to_stdout = false,
                         .directory = directory_.string(),
                         .max_file_size = 4096,
                         .max_total_size = 12'288}),
              "");
    for (int i = 0; i < 400; ++i) {
        log_info("server", "a line of some length so that files fill", {{"n", i}});
        if (i % 100 == 99) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
    }
    stop_log();
    std::size_t files = 0;
    for (const auto& entry : fs::directory_iterator(directory_)) {
        EXPECT_LE(entry.file_size(), 4096U);
        ++files;
    }
    EXPECT_EQ(files, 4U);  // the current one and three rotated
    EXPECT_THAT(text_of("iggy-server.log"), HasSubstr("n=399\n"));
}

TEST_F(LogFiles, OldOnesGoByAgeThenBySize) {
    make("iggy-server.log", 100, 999);
    make("iggy-server.1.log", 100, 50);
    make("iggy-server.2.log", 100, 100);
    make("iggy-server.3.log", 100, 200);
    make("other.log", 100, 5000);
    LogSettings settings{.directory = directory_.string(), .retention_ns = 150 * 1'000'000'000ULL};
    EXPECT_EQ(remove_old_logs(settings, std::time(nullptr)), 1U);
    EXPECT_FALSE(fs::exists(directory_ / "iggy-server.3.log"));
    settings.max_total_size = 250;
    EXPECT_EQ(remove_old_logs(settings, std::time(nullptr)), 1U);
    EXPECT_FALSE(fs::exists(directory_ / "iggy-server.2.log"));
    settings.max_total_size = 1;
    EXPECT_EQ(remove_old_logs(settings, std::time(nullptr)), 1U);
    EXPECT_TRUE(fs::exists(directory_ / "iggy-server.log"));
    EXPECT_TRUE(fs::exists(directory_ / "other.log"));
    EXPECT_EQ(remove_old_logs({.directory = "/nonexistent"}, 0), 0U);
}

TEST(RateLimit, PassesSoManyASecond) {
    RateLimit limit(2);
    EXPECT_TRUE(limit.allow(Instant{1}));
    EXPECT_TRUE(limit.allow(Instant{2}));
    EXPECT_FALSE(limit.allow(Instant{999'999'999}));
    EXPECT_FALSE(limit.allow(Instant{999'999'999}));
    EXPECT_TRUE(limit.allow(Instant{1'000'000'000}));
    EXPECT_EQ(limit.take_suppressed(), 2U);
    EXPECT_EQ(limit.take_suppressed(), 0U);
    EXPECT_FALSE(RateLimit(0).allow(Instant{5}));
}

}  // namespace
}  // namespace galgo::observe

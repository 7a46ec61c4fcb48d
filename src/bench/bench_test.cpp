// Parsing of /proc, rows and medians, and short runs of the limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "bench/compare.hpp"
#include "bench/limits.hpp"
#include "bench/process_sample.hpp"
#include "bench/report.hpp"
#include "bench/workload.hpp"

namespace galgo::bench {
namespace {

using ::testing::HasSubstr;

TEST(ProcessSample, ReadsFieldsBehindAHostileName) {
    const auto sample =
        parse_process_sample("17 (a) 1 2 (b)) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 2 0\n",
                             "rchar: 5\nwchar: 1000\nsyscr: 1\nread_bytes: 3\nwrite_bytes: 4096\n"
                             "cancelled_write_bytes: 7\n",
                             100);
    ASSERT_TRUE(sample.has_value());
    EXPECT_DOUBLE_EQ(sample->user_seconds, 2.5);
    EXPECT_DOUBLE_EQ(sample->system_seconds, 0.5);
    EXPECT_DOUBLE_EQ(sample->cpu_seconds(), 3.0);
    EXPECT_EQ(sample->write_calls_bytes, 1000U);
    EXPECT_EQ(sample->storage_write_bytes, 4096U);
}

TEST(ProcessSample, NothingForOtherText) {
    EXPECT_FALSE(parse_process_sample("", "", 100).has_value());
    EXPECT_FALSE(parse_process_sample("17 (a) S 1 2 3", "", 100).has_value());
    EXPECT_FALSE(parse_process_sample("17 (a) S 1 2 3 4 5 6 7 8 9 10 250", "", 100).has_value());
    EXPECT_FALSE(parse_process_sample("17 (a) S 1 2 3 4 5 6 7 8 9 10 x y", "", 100).has_value());
}

TEST(ProcessSample, OfThisProcessAndOfNone) {
    EXPECT_TRUE(sample_process(static_cast<std::uint32_t>(::getpid())).has_value());
    EXPECT_FALSE(sample_process(0).has_value());
}

Row row_of(double seconds) {
    return {.server = "s",
            .name = "produce",
            .requests = 10,
            .messages = 1000,
            .payload_bytes = 2'000'000,
            .seconds = seconds,
            .p50_us = seconds * 10};
}

TEST(Report, ComputesRates) {
    Row row = row_of(0.5);
    EXPECT_DOUBLE_EQ(row.megabytes_per_second(), 4.0);
    EXPECT_DOUBLE_EQ(row.messages_per_second(), 2000.0);
    EXPECT_FALSE(row.cpu_seconds_per_gigabyte().has_value());
    row.used = ProcessSample{.user_seconds = 0.001, .system_seconds = 0.003};
    EXPECT_DOUBLE_EQ(row.cpu_seconds_per_gigabyte().value(), 2.0);
    EXPECT_DOUBLE_EQ(Row{}.megabytes_per_second(), 0.0);
}

TEST(Report, TakesPercentilesInMicroseconds) {
    observe::Histogram histogram;
    histogram.record_many(1000, 98);
    histogram.record_many(1'000'000, 2);
    Row row;
    set_latencies(row, histogram);
    EXPECT_NEAR(row.p50_us, 1.0, 0.05);
    EXPECT_NEAR(row.p99_us, 1000.0, 20.0);
    EXPECT_DOUBLE_EQ(row.max_us, 1000.0);
}

TEST(Report, PrintsJsonThatNamesEveryNumber) {
    Row row = row_of(0.5);
    row.server = "a\"b";
    const std::string plain = line(row, Format::kJson);
    EXPECT_THAT(plain, HasSubstr(R"("server":"a\"b","name":"produce","requests":10)"));
    EXPECT_THAT(plain, HasSubstr(R"("mb_per_s":4.000)"));
    EXPECT_EQ(plain.find("cpu_s_per_gb"), std::string::npos);
    EXPECT_TRUE(plain.ends_with("}\n"));
    row.used = ProcessSample{.user_seconds = 1};
    EXPECT_THAT(line(row, Format::kJson), HasSubstr(R"("cpu_s_per_gb":500.0000)"));
    EXPECT_TRUE(header_line(Format::kJson).empty());
    EXPECT_THAT(line(row, Format::kTable), HasSubstr("produce"));
}

TEST(Report, MedianOfEachField) {
    std::vector<Row> rows{row_of(3), row_of(1), row_of(2)};
    EXPECT_DOUBLE_EQ(median(rows).seconds, 2.0);
    EXPECT_DOUBLE_EQ(median(rows).p50_us, 20.0);
    rows.push_back(row_of(4));
    EXPECT_DOUBLE_EQ(median(rows).seconds, 2.0);
    EXPECT_FALSE(median(rows).used.has_value());
    for (Row& row : rows) {
        row.used = ProcessSample{.user_seconds = row.seconds, .system_seconds = 10 / row.seconds};
    }
    EXPECT_DOUBLE_EQ(median(rows).used->cpu_seconds(), 6.5);
    EXPECT_THAT(ratio_line(row_of(2), row_of(1), Format::kTable), HasSubstr("throughput x0.500"));
    EXPECT_THAT(ratio_line(row_of(2), row_of(1), Format::kJson), HasSubstr(R"("p50":2.0000)"));
}

const LimitOptions kSmall{.message_size = 100,
                          .batch = 10,
                          .total_bytes = 20'000,
                          .round_trips = 30,
                          .warmup = 3,
                          .time_limit_seconds = 20};

TEST(Limits, CountsWhatItDid) {
    const Result<std::vector<Row>> rows = measure_limits(kSmall);
    ASSERT_TRUE(rows.has_value());
    ASSERT_EQ(rows->size(), 4U);
    EXPECT_EQ((*rows)[0].name, "produce");
    EXPECT_EQ((*rows)[0].requests, 20U);
    EXPECT_EQ((*rows)[0].messages, 200U);
    EXPECT_EQ((*rows)[0].payload_bytes, 20'000U);
    EXPECT_EQ((*rows)[1].name, "consume");
    EXPECT_EQ((*rows)[1].requests, 20U);
    EXPECT_EQ((*rows)[2].name, "send-ack");
    EXPECT_EQ((*rows)[3].name, "echo");
    EXPECT_EQ((*rows)[3].messages, 30U);
    EXPECT_GT((*rows)[3].p50_us, 0.0);
    EXPECT_TRUE((*rows)[3].used.has_value());
}

TEST(Limits, ReportsAFolderThatIsNotThere) {
    LimitOptions options = kSmall;
    options.folder = "/nonexistent";
    EXPECT_EQ(measure_limits(options).error().os_errno, ENOENT);
    options = kSmall;
    options.batch = 0;
    EXPECT_EQ(measure_limits(options).error().code, ErrorCode::kInvalidConfiguration);
}

TEST(Workload, RefusesShapesThatFitNoFrame) {
    WorkloadOptions options;
    options.batch = 1'000'000;
    EXPECT_EQ(produce(options).error().code, ErrorCode::kInvalidConfiguration);
    options = {};
    options.stream.clear();
    EXPECT_EQ(consume(options).error().code, ErrorCode::kInvalidConfiguration);
    options = {};
    options.round_trip_size = 0;
    EXPECT_EQ(round_trips(options).error().code, ErrorCode::kInvalidConfiguration);
}

TEST(Compare, PrintsRowsMediansAndRatiosOfTheMachine) {
    std::string out;
    const Status done = compare({.servers = {}, .limits = kSmall, .rounds = 2},
                                [&](const std::string& text) { out += text; });
    ASSERT_TRUE(done.has_value());
    EXPECT_THAT(out, HasSubstr("send-ack"));
    EXPECT_THAT(out, HasSubstr("medians of 2 rounds"));
}

}  // namespace
}  // namespace galgo::bench

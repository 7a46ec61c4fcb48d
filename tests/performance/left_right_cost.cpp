// galgo-left-right-cost: what a look at the published metadata costs a shard, in nanoseconds, alone
// and while shard 0 publishes changes as fast as its readers let it.
//
//   galgo-left-right-cost [ROUNDS]    ROUNDS: of each case, 15 when not given
//
// The metadata are those of the server: 1000 topics in 100 streams. A reader announces itself once
// every 64 reads, as a loop does once a turn. `load` is the published copy alone, `topic` finds a
// topic by two names in it. Prints the median, the best and the worst of the rounds, and how often
// the writer published. Means something in a release build on a machine with two free cores.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "shard/metadata_store.hpp"
#include "wire/requests.hpp"

using namespace galgo;

/// The one read of the protocol, apart, so that its instructions can be looked at.
extern "C" [[gnu::noinline, gnu::used]] const shard::MetadataCopy* galgo_left_right_read(
    const shard::MetadataPair& pair, ShardIndex shard);
const shard::MetadataCopy* galgo_left_right_read(const shard::MetadataPair& pair,
                                                 ShardIndex shard) {
    return &pair.read(shard);
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kStreams = 100;
constexpr std::uint32_t kTopicsAStream = 10;
constexpr std::size_t kReadsATurn = 64;
constexpr std::size_t kTurnsARound = 20'000;
constexpr ShardIndex kWriter{0};
constexpr ShardIndex kReader{1};

void stay_on(unsigned cpu) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(cpu % std::max(1U, std::thread::hardware_concurrency()), &cpus);
    pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);  // better than nothing: no failure
}

/// The pair and the log that made it.
class Metadata {
 public:
    Metadata() {
        for (std::uint32_t i = 0; i < kStreams; ++i) {
            const std::string stream = "stream-" + std::to_string(i);
            change(wire::Operation::kCreateStream,
                   wire::CreateStreamRequest{.name = stream, .options = {}});
            for (std::uint32_t k = 0; k < kTopicsAStream; ++k) {
                const std::string topic = "topic-" + std::to_string(k);
                change(wire::Operation::kCreateTopic,
                       wire::CreateTopicRequest{.stream = wire::Identifier::named(stream),
                                                .partitions_count = 4,
                                                .name = topic,
                                                .options = {}});
            }
            pair.publish();
        }
    }

    template <class Request>
    void change(wire::Operation operation, const Request& request) {
        ByteWriter body;
        request.encode(body);
        Result<metadata::Admitted> admitted =
            metadata::admit(pair.read(kWriter).state, {.operation = operation,
                                                       .body = body.bytes(),
                                                       .user = model::kRootUserId,
                                                       .sealed = nullptr});
        GALGO_CHECK(admitted.has_value());
        ++op_;
        pair.announce(kWriter);
        while (!pair.old_copy_free()) {
        }
        const metadata::ApplyOutcome outcome =
            pair.apply({.prepare = {.operation = admitted->operation,
                                    .op = OpNumber{op_},
                                    .timestamp = Timestamp{op_},
                                    .user = model::kRootUserId},
                        .body = std::move(admitted->body)});
        GALGO_CHECK(outcome.result == ErrorCode::kOk);
    }

    metadata::PartitionStatsRegistry registry;
    shard::MetadataPair pair{
        2, shard::MetadataCopy{.state = metadata::State({}), .registry = &registry}};

 private:
    std::uint64_t op_ = 0;
};

/// Nanoseconds a read of one round.
template <class Read>
double round(Metadata& metadata, const Read& read) {
    std::uint64_t seen = 0;
    const auto start = Clock::now();
    for (std::size_t turn = 0; turn < kTurnsARound; ++turn) {
        metadata.pair.announce(kReader);
        for (std::size_t i = 0; i < kReadsATurn; ++i) {
            seen += read();
            asm volatile("" : "+r"(seen) : : "memory");  // each read is a read
        }
    }
    const auto time = Clock::now() - start;
    GALGO_CHECK(seen != 0);
    return std::chrono::duration<double, std::nano>(time).count() /
           static_cast<double>(kTurnsARound * kReadsATurn);
}

template <class Read>
void measure(const char* name, Metadata& metadata, std::size_t rounds, bool with_writer,
             const Read& read) {
    std::atomic<bool> stop{false};
    const std::uint64_t before = metadata.pair.epoch();
    std::thread writer;
    const auto start = Clock::now();
    if (with_writer) {
        writer = std::thread([&] {
            stay_on(0);
            metadata.pair.unpark(kWriter);
            while (!stop.load(std::memory_order_relaxed)) {
                metadata.change(wire::Operation::kCreateStream,
                                wire::CreateStreamRequest{.name = "one more", .options = {}});
                metadata.pair.publish();
                metadata.change(wire::Operation::kDeleteStream,
                                wire::StreamRequest{wire::Identifier::named("one more")});
                metadata.pair.publish();
            }
            metadata.pair.park(kWriter);
        });
    }
    std::vector<double> samples;
    for (std::size_t i = 0; i < rounds; ++i) {
        samples.push_back(round(metadata, read));
    }
    metadata.pair.park(kReader);
    stop = true;
    if (writer.joinable()) {
        writer.join();
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    metadata.pair.unpark(kReader);
    std::ranges::sort(samples);
    std::printf("%-6s %-14s %7.2f ns a read (%.2f to %.2f), %.0f publishes a second\n", name,
                with_writer ? "with a writer" : "alone", samples[samples.size() / 2],
                samples.front(), samples.back(),
                static_cast<double>(metadata.pair.epoch() - before) / seconds);
}

}  // namespace

int main(int argc, char** argv) {
    const long rounds = argc > 1 ? std::atol(argv[1]) : 15;
    if (argc > 2 || rounds <= 0) {
        std::fputs("usage: galgo-left-right-cost [rounds]\n", stderr);
        return 1;
    }
    stay_on(1);
    Metadata metadata;
    metadata.pair.unpark(kReader);
    const auto stream = wire::Identifier::named("stream-50");
    const auto topic = wire::Identifier::named("topic-5");
    for (const bool with_writer : {false, true}) {
        measure("load", metadata, static_cast<std::size_t>(rounds), with_writer,
                [&] { return metadata.pair.read(kReader).registry != nullptr ? 1U : 0U; });
        measure("topic", metadata, static_cast<std::size_t>(rounds), with_writer, [&] {
            return metadata.pair.read(kReader).state.find_topic(stream, topic)->id.value() + 1;
        });
    }
    return 0;
}

// Preparation (stream, connections, batches, warm-up) on the calling thread, then one thread a
// connection for the timed loop.
#include "bench/workload.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "crypto/hash.hpp"
#include "sdk/client.hpp"
#include "wire/batch.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::bench {
namespace {

using Clock = std::chrono::steady_clock;
using observe::Histogram;

constexpr std::string_view kTopicName = "topic";
constexpr std::uint32_t kConnectionsMax = 256;
constexpr std::uint64_t kBatchBytesMax = 60'000'000;
/// Batches that a producer sends in turn, so that its memory is not one cache-resident megabyte.
constexpr std::size_t kBatchesBuilt = 4;
const wire::ConsumerRef kConsumer{.id = wire::Identifier::numbered(1)};

std::uint64_t nanoseconds_since(Clock::time_point start) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

std::uint64_t now_us() {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                          std::chrono::system_clock::now().time_since_epoch())
                                          .count());
}

Status check_options(const WorkloadOptions& options) {
    const std::uint64_t batch_bytes =
        std::uint64_t{options.batch} *
        (std::uint64_t{options.message_size} + wire::kFrameHeaderSize);
    const bool sound = options.message_size > 0 && options.batch > 0 && options.partitions > 0 &&
                       options.producers > 0 && options.producers <= kConnectionsMax &&
                       options.round_trip_size > 0 && batch_bytes <= kBatchBytesMax &&
                       options.round_trip_size <= kBatchBytesMax && !options.stream.empty() &&
                       options.stream.size() + 3 <= model::kNameSizeMax;
    return sound ? Status{} : fail(ErrorCode::kInvalidConfiguration);
}

Result<sdk::Client> log_in(const WorkloadOptions& options) {
    GALGO_TRY_ASSIGN(sdk::Client client, sdk::Client::connect(options.server));
    GALGO_TRY(client.login({.username = options.username, .password = options.password}));
    return client;
}

Status drop(sdk::Client& client, const std::string& stream) {
    const Status dropped = client.delete_stream(wire::Identifier::named(stream));
    if (!dropped && dropped.error().code != ErrorCode::kStreamIdNotFound &&
        dropped.error().code != ErrorCode::kResourceNotFound) {
        return dropped;
    }
    return {};
}

struct NewStream {
    const std::string& name;
    std::uint32_t partitions;
    Durability durability;
    const std::string& segment_size;
};

Status create(sdk::Client& client, const NewStream& wanted) {
    GALGO_TRY(drop(client, wanted.name));
    GALGO_TRY(client.create_stream(wanted.name));
    std::vector<sdk::TopicOption> topic_options;
    if (wanted.durability != Durability::kServerDefault) {
        topic_options.push_back(
            {.key = wire::kOptionDurability,
             .value = wanted.durability == Durability::kPersisted ? "persisted" : "replicated"});
    }
    if (!wanted.segment_size.empty()) {
        topic_options.push_back({.key = wire::kOptionSegmentSize, .value = wanted.segment_size});
    }
    return client.create_topic({.stream = wire::Identifier::named(wanted.name),
                                .name = kTopicName,
                                .partitions_count = wanted.partitions,
                                .options = topic_options});
}

sdk::PartitionRef partition_of(const std::string& stream, std::uint32_t partition) {
    return {.stream = wire::Identifier::named(stream),
            .topic = wire::Identifier::named(kTopicName),
            .partition = model::PartitionId(partition)};
}

/// Which process to look at; 0 for none.
std::uint32_t server_process(sdk::Client& client, const WorkloadOptions& options) {
    if (options.process_id != 0) {
        return options.process_id;
    }
    const std::string& host = options.server.host;
    if (host != "localhost" && host != "::1" && !host.starts_with("127.")) {
        return 0;
    }
    const Result<sdk::Stats> stats = client.stats();
    return stats ? stats->process_id : 0;
}

struct BatchShape {
    std::uint32_t messages;
    std::uint32_t message_size;
};

std::vector<std::byte> build_batch(wire::BatchBuilder& builder, const BatchShape& shape,
                                   std::uint32_t seed) {
    std::vector<std::byte> payload(shape.message_size);
    const std::uint64_t origin = now_us();
    builder.reset(origin);
    for (std::uint32_t i = 0; i < shape.messages; ++i) {
        for (std::size_t at = 0; at < payload.size(); ++at) {
            payload[at] = static_cast<std::byte>((at * 31 + i * 7 + seed) & 0xFFU);
        }
        builder.add(
            {.id = (u128{seed} << 32U) + i + 1, .timestamp_us = origin, .payload = payload});
    }
    const ConstBytes built = builder.finish();
    return {built.begin(), built.end()};
}

/// One connection and what its thread counts.
struct Worker {
    sdk::Client client;
    std::unique_ptr<Histogram> nanoseconds = std::make_unique<Histogram>();
    std::uint64_t messages = 0;
    std::uint64_t payload_bytes = 0;
    Status status;
};

struct Timed {
    const char* name;
    const WorkloadOptions& options;
    std::uint32_t process_id;
};

/// Runs `loop(index)` on a thread for each of `workers` and sums up.
template <class Loop>
Result<Row> run_timed(const Timed& timed, std::vector<Worker>& workers, Loop loop) {
    const std::optional<ProcessSample> before = sample_process(timed.process_id);
    const Clock::time_point start = Clock::now();
    std::vector<std::thread> threads;
    for (std::size_t i = 1; i < workers.size(); ++i) {
        threads.emplace_back([&, i] { workers[i].status = loop(i, start); });
    }
    workers[0].status = loop(std::size_t{0}, start);
    for (std::thread& thread : threads) {
        thread.join();
    }
    Row row{.server = sdk::to_string(timed.options.server), .name = timed.name};
    row.seconds = static_cast<double>(nanoseconds_since(start)) / 1e9;
    const std::optional<ProcessSample> after = sample_process(timed.process_id);
    if (before && after) {
        row.used = difference(*after, *before);
    }
    Histogram all;
    for (const Worker& worker : workers) {
        GALGO_TRY(worker.status);
        all.merge(*worker.nanoseconds);
        row.messages += worker.messages;
        row.payload_bytes += worker.payload_bytes;
    }
    row.requests = all.count();
    set_latencies(row, all);
    return row;
}

std::chrono::seconds limit_of(const WorkloadOptions& options) {
    return std::chrono::seconds(options.time_limit_seconds);
}

/// Reads one partition from its start to its end, or `requests_max` polls of it.
class PartitionReader {
 public:
    /// `consumer` 0: by offsets; else what is next for that consumer, whose offset is stored.
    PartitionReader(const WorkloadOptions& options, std::uint32_t partition, std::uint32_t consumer)
        : options_(options),
          auto_commit_(consumer != 0),
          target_(auto_commit_ ? wire::ConsumerRef{.id = wire::Identifier::numbered(consumer)}
                               : kConsumer,
                  partition_of(options.stream, partition)) {}

    /// True at the end of the partition.
    Result<bool> poll(Worker& worker) {
        const Clock::time_point asked = Clock::now();
        GALGO_TRY_ASSIGN(wire::PollReplyReader reader,
                         worker.client.poll(target_, {.strategy = strategy(),
                                                      .count = options_.batch,
                                                      .auto_commit = auto_commit_}));
        worker.nanoseconds->record(nanoseconds_since(asked));
        if (reader.prefix().messages_count == 0) {
            return true;
        }
        for (;;) {
            GALGO_TRY_ASSIGN(const std::optional<wire::PollReplyReader::Message> message,
                             reader.next());
            if (!message) {
                break;
            }
            GALGO_TRY(take(*message));
            ++worker.messages;
            worker.payload_bytes += message->view.payload.size();
        }
        return next_offset_ > reader.prefix().current_offset.value();
    }

    [[nodiscard]] std::uint64_t messages() const { return messages_; }
    [[nodiscard]] bool began_at_zero() const { return began_at_zero_; }

 private:
    [[nodiscard]] wire::PollingStrategy strategy() const {
        if (auto_commit_) {
            return {.kind = wire::PollingKind::kNext};
        }
        return {.kind = wire::PollingKind::kOffset, .value = next_offset_};
    }

    Status take(const wire::PollReplyReader::Message& message) {
        if (messages_ == 0) {
            next_offset_ = message.offset.value();
            began_at_zero_ = next_offset_ == 0;
        }
        if (message.offset.value() != next_offset_) {
            return fail(ErrorCode::kInvalidOffset);
        }
        if (message.view.payload.size() != options_.message_size) {
            return fail(ErrorCode::kInvalidMessagePayloadLength);
        }
        if (options_.verify && crypto::xxh3_64(message.view.frame.subspan(sizeof(std::uint64_t))) !=
                                   message.view.checksum) {
            return fail(ErrorCode::kInvalidMessageChecksum);
        }
        ++next_offset_;
        ++messages_;
        return {};
    }

    const WorkloadOptions& options_;
    bool auto_commit_;
    sdk::PollTarget target_;
    std::uint64_t next_offset_ = 0;
    std::uint64_t messages_ = 0;
    bool began_at_zero_ = true;
};

}  // namespace

Result<Row> produce(const WorkloadOptions& options) {
    GALGO_TRY(check_options(options));
    GALGO_TRY_ASSIGN(sdk::Client control, log_in(options));
    if (options.create) {
        GALGO_TRY(create(control, {.name = options.stream,
                                   .partitions = options.partitions,
                                   .durability = options.durability,
                                   .segment_size = options.segment_size}));
    }
    std::vector<Worker> workers;
    std::vector<sdk::SendTarget> targets;
    std::vector<std::vector<std::byte>> batches;
    wire::BatchBuilder builder;
    for (std::uint32_t i = 0; i < kBatchesBuilt; ++i) {
        batches.push_back(build_batch(
            builder, {.messages = options.batch, .message_size = options.message_size}, i));
    }
    for (std::uint32_t i = 0; i < options.producers; ++i) {
        GALGO_TRY_ASSIGN(sdk::Client client, log_in(options));
        workers.push_back({.client = std::move(client)});
        targets.emplace_back(partition_of(options.stream, i % options.partitions));
        for (std::uint32_t sent = 0; sent < options.warmup; ++sent) {
            GALGO_TRY(workers.back().client.send(targets.back(), batches[sent % kBatchesBuilt]));
        }
    }
    const std::uint64_t batch_payload = std::uint64_t{options.batch} * options.message_size;
    const std::uint64_t sends = (options.total_bytes + batch_payload - 1) / batch_payload;
    const auto loop = [&](std::size_t index, Clock::time_point start) -> Status {
        Worker& worker = workers[index];
        const std::uint64_t share =
            sends / workers.size() + (index < sends % workers.size() ? 1 : 0);
        Clock::time_point last = Clock::now();
        for (std::uint64_t i = 0; i < share && last - start < limit_of(options); ++i) {
            GALGO_TRY(worker.client.send(targets[index], batches[i % kBatchesBuilt]));
            worker.nanoseconds->record(nanoseconds_since(last));
            last = Clock::now();
            worker.messages += options.batch;
            worker.payload_bytes += batch_payload;
        }
        return {};
    };
    return run_timed(
        {.name = "produce", .options = options, .process_id = server_process(control, options)},
        workers, loop);
}

Result<Row> consume(const WorkloadOptions& options) {
    GALGO_TRY(check_options(options));
    GALGO_TRY_ASSIGN(sdk::Client control, log_in(options));
    GALGO_TRY_ASSIGN(const std::optional<wire::TopicDetails> topic,
                     control.topic(wire::Identifier::named(options.stream),
                                   wire::Identifier::named(kTopicName)));
    if (!topic || topic->partitions.empty()) {
        return fail(ErrorCode::kResourceNotFound);
    }
    const std::size_t partitions = topic->partitions.size();
    std::vector<Worker> workers;
    for (std::uint32_t i = 0; i < std::min<std::size_t>(options.producers, partitions); ++i) {
        GALGO_TRY_ASSIGN(sdk::Client client, log_in(options));
        workers.push_back({.client = std::move(client)});
        Worker& worker = workers.back();
        PartitionReader reader(options, i, 0);
        for (std::uint32_t polled = 0; polled < options.warmup; ++polled) {
            GALGO_TRY_ASSIGN(const bool at_end, reader.poll(worker));
            if (at_end) {
                break;
            }
        }
        worker.nanoseconds->reset();
        worker.messages = 0;
        worker.payload_bytes = 0;
    }
    const auto loop = [&](std::size_t index, Clock::time_point start) -> Status {
        for (std::size_t at = index; at < partitions; at += workers.size()) {
            PartitionReader reader(options, static_cast<std::uint32_t>(at),
                                   options.auto_commit_consumer);
            for (bool at_end = false; !at_end;) {
                GALGO_TRY_ASSIGN(at_end, reader.poll(workers[index]));
                if (!at_end && Clock::now() - start >= limit_of(options)) {
                    return {};
                }
            }
            if (reader.began_at_zero() &&
                reader.messages() != topic->partitions[at].messages_count) {
                return fail(ErrorCode::kInvalidMessagesCount);
            }
        }
        return {};
    };
    return run_timed(
        {.name = "consume", .options = options, .process_id = server_process(control, options)},
        workers, loop);
}

Result<std::vector<Row>> round_trips(const WorkloadOptions& options) {
    GALGO_TRY(check_options(options));
    GALGO_TRY_ASSIGN(sdk::Client control, log_in(options));
    const std::string stream = options.stream + "-rt";
    GALGO_TRY(create(control, {.name = stream,
                               .partitions = 1,
                               .durability = options.durability,
                               .segment_size = options.segment_size}));
    const std::uint32_t process_id = server_process(control, options);
    wire::BatchBuilder builder;
    const std::vector<std::byte> batch =
        build_batch(builder, {.messages = 1, .message_size = options.round_trip_size}, 0);
    std::vector<Worker> workers;
    GALGO_TRY_ASSIGN(sdk::Client client, log_in(options));
    workers.push_back({.client = std::move(client)});
    sdk::SendTarget to(partition_of(stream, 0));
    sdk::PollTarget from(kConsumer, partition_of(stream, 0));
    std::uint64_t next_offset = 0;

    const auto send_one = [&](Worker& worker) -> Status {
        GALGO_TRY(worker.client.send(to, batch));
        ++next_offset;
        return {};
    };
    const auto poll_one = [&](Worker& worker) -> Status {
        GALGO_TRY_ASSIGN(wire::PollReplyReader reader,
                         worker.client.poll(from, {.strategy = {.kind = wire::PollingKind::kOffset,
                                                                .value = next_offset - 1}}));
        GALGO_TRY_ASSIGN(const auto message, reader.next());
        if (!message || message->offset.value() != next_offset - 1) {
            return fail(ErrorCode::kInvalidOffset);
        }
        return {};
    };
    const auto run = [&](const char* name, bool polls) {
        workers[0].nanoseconds->reset();
        workers[0].messages = 0;
        workers[0].payload_bytes = 0;
        return run_timed({.name = name, .options = options, .process_id = process_id}, workers,
                         [&](std::size_t index, Clock::time_point start) -> Status {
                             Worker& worker = workers[index];
                             Clock::time_point last = Clock::now();
                             for (std::uint32_t i = 0;
                                  i < options.round_trips && last - start < limit_of(options);
                                  ++i) {
                                 GALGO_TRY(send_one(worker));
                                 if (polls) {
                                     GALGO_TRY(poll_one(worker));
                                 }
                                 worker.nanoseconds->record(nanoseconds_since(last));
                                 last = Clock::now();
                                 ++worker.messages;
                                 worker.payload_bytes += options.round_trip_size;
                             }
                             return {};
                         });
    };
    for (std::uint32_t i = 0; i < options.warmup; ++i) {
        GALGO_TRY(send_one(workers[0]));
        GALGO_TRY(poll_one(workers[0]));
    }
    std::vector<Row> rows;
    GALGO_TRY_ASSIGN(Row acks, run("send-ack", false));
    rows.push_back(std::move(acks));
    if (!options.ack_only) {
        GALGO_TRY_ASSIGN(Row both, run("send+poll", true));
        rows.push_back(std::move(both));
    }
    GALGO_TRY(drop(control, stream));
    return rows;
}

Result<Row> change_metadata(const WorkloadOptions& options, std::uint64_t requests) {
    GALGO_TRY(check_options(options));
    GALGO_TRY_ASSIGN(sdk::Client control, log_in(options));
    std::vector<Worker> workers;
    for (std::uint32_t i = 0; i < options.producers; ++i) {
        GALGO_TRY_ASSIGN(sdk::Client client, log_in(options));
        workers.push_back({.client = std::move(client)});
        GALGO_TRY(drop(workers.back().client, options.stream + std::to_string(i)));
    }
    const auto loop = [&](std::size_t index, Clock::time_point start) -> Status {
        Worker& worker = workers[index];
        const std::string name = options.stream + std::to_string(index);
        const std::uint64_t pairs = requests / 2 / workers.size();
        Clock::time_point last = Clock::now();
        for (std::uint64_t i = 0; i < 2 * pairs && last - start < limit_of(options); ++i) {
            if (i % 2 == 0) {
                GALGO_TRY(worker.client.create_stream(name));
            } else {
                GALGO_TRY(worker.client.delete_stream(wire::Identifier::named(name)));
            }
            worker.nanoseconds->record(nanoseconds_since(last));
            last = Clock::now();
            ++worker.messages;
        }
        return drop(worker.client, name);
    };
    return run_timed(
        {.name = "metadata", .options = options, .process_id = server_process(control, options)},
        workers, loop);
}

Status drop_stream(const WorkloadOptions& options) {
    GALGO_TRY_ASSIGN(sdk::Client client, log_in(options));
    return drop(client, options.stream);
}

}  // namespace galgo::bench

#include "server/http_backend.hpp"

#include <format>

#include "base/units.hpp"
#include "metadata/read_replies.hpp"

namespace galgo::server {

namespace {

constexpr std::uint64_t kStuckTurnNs = 2 * kSecond;

observe::Labels shard_label(std::size_t shard) {
    return {{"shard", std::to_string(shard)}};
}

std::int64_t as_gauge(std::uint64_t value) noexcept {
    return static_cast<std::int64_t>(value);
}

}  // namespace

HTTPBackend::HTTPBackend(shard::Process& process, runtime::IoBackend& io,
                         const std::vector<std::atomic<shard::Shard*>>& shards,
                         observe::Registry& registry)
    : process_(process), io_(io), shards_(shards), registry_(registry) {}

std::vector<std::string> HTTPBackend::health_faults() {
    std::vector<std::string> faults;
    const std::uint64_t now = io_.now().value();
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        shard::Shard* shard = shards_[i].load(std::memory_order_acquire);
        if (shard == nullptr) {
            faults.push_back(std::format("shard {} is not running", i));
            continue;
        }
        const std::uint64_t since =
            shard->loop().stall_probe().running_since_ns.load(std::memory_order_relaxed);
        if (since != 0 && now > since && now - since > kStuckTurnNs) {
            faults.push_back(
                std::format("shard {} made no turn for {} s", i, (now - since) / kSecond));
        }
        for (std::string& fault : shard->health().report().faults) {
            faults.push_back(std::move(fault));
        }
    }
    return faults;
}

void HTTPBackend::refresh() {
    const metadata::Totals totals =
        metadata::totals_of(process_.metadata.read(ShardIndex{0}).state);
    const auto gauge = [this](const char* name, const char* help, std::uint64_t value,
                              const observe::Labels& labels = {}) {
        registry_.gauge({name, help}, labels).set(as_gauge(value));
    };
    const auto counter = [this](const char* name, const char* help, std::uint64_t value,
                                const observe::Labels& labels = {}) {
        registry_.counter({name, help}, labels).follow(value);
    };
    gauge("galgo_streams", "Streams.", totals.stream_count);
    gauge("galgo_topics", "Topics.", totals.topic_count);
    gauge("galgo_partitions", "Partitions.", totals.partition_count);
    gauge("galgo_consumer_groups", "Consumer groups.", totals.group_count);
    gauge("galgo_segments", "Segments of all partitions.", totals.segment_count);
    gauge("galgo_messages", "Messages in all partitions.", totals.message_count);
    gauge("galgo_messages_bytes", "Bytes of all partitions.", totals.size_bytes);
    gauge("galgo_clients", "Open client connections.",
          process_.node.client_count.load(std::memory_order_relaxed));

    gauge("galgo_disk_free_bytes", "Free on the file system of the data directory.",
          process_.disk_room.free_bytes());
    gauge("galgo_disk_reserved_bytes", "Of those, what messages leave alone.",
          process_.disk_room.reserve_bytes());
    counter("galgo_disk_refusals_total", "Sends that were refused because the disk is full.",
            process_.disk_room.refusals());

    const memory::PoolStats pool = process_.pool.stats();
    gauge("galgo_pool_budget_bytes", "Budget of the buffer pool.", pool.budget_bytes);
    gauge("galgo_pool_in_use_bytes", "Buffers in use.", pool.in_use_bytes);
    gauge("galgo_pool_cached_bytes", "Free buffers kept for reuse.", pool.cached_bytes);
    counter("galgo_pool_refusals_total", "Requests for a buffer that were refused.",
            pool.refusal_count[0] + pool.refusal_count[1] + pool.refusal_count[2]);

    const std::size_t count = shards_.size();
    for (std::size_t from = 0; from < count; ++from) {
        for (std::size_t to = 0; to < count; ++to) {
            const runtime::MeshPairStats pair =
                process_.mesh.stats(ShardIndex{static_cast<std::uint16_t>(from)},
                                    ShardIndex{static_cast<std::uint16_t>(to)});
            const observe::Labels labels{{"from", std::to_string(from)},
                                         {"to", std::to_string(to)}};
            counter("galgo_mesh_requests_total", "Messages from one shard to another.", pair.sent,
                    labels);
            counter("galgo_mesh_replies_total", "Replies to them that came back.", pair.answered,
                    labels);
            counter("galgo_mesh_refused_total", "Messages refused because a lane was full.",
                    pair.full, labels);
            gauge("galgo_mesh_request_depth", "Messages waiting in a lane.", pair.request_depth,
                  labels);
            gauge("galgo_mesh_reply_depth", "Replies waiting in a lane.", pair.reply_depth, labels);
        }
    }
    for (std::size_t i = 0; i < count; ++i) {
        shard::Shard* shard = shards_[i].load(std::memory_order_acquire);
        if (shard == nullptr) {
            continue;
        }
        const observe::Labels labels = shard_label(i);
        const runtime::TurnStats& turns = shard->loop().stats();
        counter("galgo_loop_turns_total", "Turns of a shard's loop.",
                turns.turns.load(std::memory_order_relaxed), labels);
        counter("galgo_loop_slow_turns_total", "Turns above 10 ms.",
                turns.slow_turns.load(std::memory_order_relaxed), labels);
        const net::ConnectionCounters& connections = shard->connections().counters();
        const auto value = [](const std::atomic<std::uint64_t>& counter) {
            return counter.load(std::memory_order_relaxed);
        };
        gauge("galgo_connections", "Open connections of a shard.", value(connections.open), labels);
        counter("galgo_connections_accepted_total", "Connections taken over by a shard.",
                value(connections.accepted), labels);
        counter("galgo_connections_refused_total",
                "Connections closed at once because too many were open.",
                value(connections.refused), labels);
        counter("galgo_connections_displaced_total",
                "Connections without a login and long silent, closed for new ones.",
                value(connections.displaced), labels);
        counter("galgo_frames_received_total", "Request frames.", value(connections.frames_in),
                labels);
        counter("galgo_frames_sent_total", "Reply frames.", value(connections.frames_out), labels);
        counter("galgo_received_bytes_total", "Bytes from clients.", value(connections.bytes_in),
                labels);
        counter("galgo_sent_bytes_total", "Bytes to clients.", value(connections.bytes_out),
                labels);
        const shard::HealthReport report = shard->health().report();
        gauge("galgo_open_partitions", "Partitions that were touched.", report.open_partitions,
              labels);
        counter("galgo_retries_answered_total",
                "Repeated sends that were answered with their first confirmation.",
                report.retries_answered, labels);
        gauge("galgo_retention_held_back_bytes",
              "Due for removal, but a consumer with a stored offset has not read them.",
              report.held_back_bytes, labels);
        counter("galgo_retention_given_up_bytes_total",
                "Removed before a consumer with a stored offset had read them: held back too long.",
                report.given_up_bytes, labels);
        counter("galgo_read_ahead_bytes_total",
                "Asked of the system ahead of consumers that read segments from the disk.",
                report.read_ahead_bytes, labels);
        gauge("galgo_journal_files", "Files of the shard's journal.", report.journal.file_count,
              labels);
        gauge("galgo_journal_live_records", "Journal records not in a segment yet.",
              report.journal.live_record_count, labels);
        counter("galgo_journal_written_bytes_total", "Bytes written to the journal.",
                report.journal.written_bytes, labels);
        if (i == 0) {
            counter("galgo_metadata_changes_total", "Changes in the metadata log since the start.",
                    report.metadata.entry_count);
            counter("galgo_metadata_batches_total",
                    "Groups of changes that were written at once, and marks.",
                    report.metadata.batch_count);
            counter("galgo_metadata_barriers_total", "Barriers of the metadata log.",
                    report.metadata.barrier_count);
            counter("galgo_metadata_snapshots_total", "Snapshots of the metadata.",
                    report.metadata.snapshot_count);
            gauge("galgo_metadata_log_files", "Files of the metadata log.",
                  report.metadata.file_count);
        }
        counter("galgo_journal_writes_total", "Writes to the journal.", report.journal.write_count,
                labels);
        counter("galgo_journal_syncs_total", "Syncs of the journal.", report.journal.sync_count,
                labels);
        counter("galgo_journal_failures_total",
                "Failed writes, syncs and file creations of the journal.",
                report.journal.failure_count, labels);
    }
}

void HTTPBackend::metrics(std::string& out) {
    refresh();
    registry_.exposition(out);
}

}  // namespace galgo::server

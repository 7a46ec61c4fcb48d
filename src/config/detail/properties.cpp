// The table of all keys. Names, defaults and bounds answer to the reference's configuration file,
// so that an existing file and IGGY_* environment keep working. wire: core/server/config.toml and
// core/configs/src/server_config (0.9.0-edge.5); upper limit of message sizes: iggy_common 0.11.0.
#include <algorithm>
#include <array>

#include "base/units.hpp"
#include "config/detail/property.hpp"

namespace galgo::config::detail {
namespace {

constexpr std::uint64_t kU32Max = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kVarIntMax = (1ULL << 62) - 1;
constexpr std::uint64_t kMessageSizeMax = 256 * kMiB;
// A login fits, and the answer to a poll has room for messages.
constexpr std::uint64_t kFrameSizeMin = 64 * kKiB;
constexpr std::uint64_t kPoolMin = 512 * kMiB;
constexpr std::uint64_t kPoolMax = 1024 * 1024 * kMiB;  // what the pool reserves addresses for
constexpr Bounds kNonzero{.min = 1};

using C = const Config&;

#define FIELD(path)                                             \
    Field {                                                     \
        [](Config& config) -> FieldRef { return &config.path; } \
    }
// The same, for what is not yet acted upon. Not for what belongs to a switch that this version
// refuses or warns of by itself (TLS, cluster, telemetry, QUIC, WebSocket).
#define NOT_YET(path)                                                  \
    Field {                                                            \
        [](Config& config) -> FieldRef { return &config.path; }, false \
    }
#define WHEN(path) [](C config) -> bool { return config.path; }

constexpr auto kB = Kind::kBool;
constexpr auto kN = Kind::kCount;
constexpr auto kS = Kind::kString;
constexpr auto kD = Kind::kDuration;
constexpr auto kZ = Kind::kSize;
constexpr auto kO = Kind::kOptionalSize;
constexpr auto kL = Kind::kStrings;
constexpr auto kX = Kind::kSecret;

constexpr std::string_view kCert = "core/certs/iggy_cert.pem";
constexpr std::string_view kKey = "core/certs/iggy_key.pem";

// clang-format off
constexpr auto kProperties = std::to_array<Property>({
{"consumer_group.rebalancing_timeout", kD, "30s", "How long a member may keep a partition it was asked to give up.", NOT_YET(consumer_group.rebalancing_timeout_ns), kNonzero},

{"data_maintenance.messages.cleaner_enabled", kB, "true", "Remove segments past their expiry or size limit.", FIELD(data_maintenance.messages.cleaner_enabled)},
{"data_maintenance.messages.interval", kD, "1m", "Time between two passes of the segment cleaner.", FIELD(data_maintenance.messages.interval_ns), kNonzero, WHEN(data_maintenance.messages.cleaner_enabled)},
{"data_maintenance.messages.held_back_max", kD, "7days", "How long a stored offset keeps messages that are due for removal; 0 = for ever.", FIELD(data_maintenance.messages.held_back_max_ns)},

{"personal_access_token.max_tokens_per_user", kN, "100", "Personal access tokens that one user may hold.", FIELD(personal_access_token.max_tokens_per_user), {1, kU32Max}},
{"personal_access_token.cleaner.enabled", kB, "true", "Remove expired tokens.", FIELD(personal_access_token.cleaner.enabled)},
{"personal_access_token.cleaner.interval", kD, "1m", "Time between two passes of the token cleaner.", FIELD(personal_access_token.cleaner.interval_ns), kNonzero, WHEN(personal_access_token.cleaner.enabled)},

{"heartbeat.enabled", kB, "true", "Close connections that fall silent.", NOT_YET(heartbeat.enabled)},
{"heartbeat.interval", kD, "30s", "Expected time between two heartbeats of a client.", NOT_YET(heartbeat.interval_ns), kNonzero, WHEN(heartbeat.enabled)},

{"system.path", kS, "local_data", "Data directory, relative to the working directory.", FIELD(system.path)},
{"system.reserved_space", kZ, "256 MiB", "Free space of the data directory's file system that messages leave alone; at most a 32nd of it, 0 = none.", FIELD(system.reserved_space)},
{"system.runtime.path", kS, "runtime", "Below the data directory; current_config.toml is written there.", FIELD(system.runtime_path)},
{"system.logging.path", kS, "logs", "Below the data directory.", FIELD(system.logging.path)},
{"system.logging.level", kS, "info", "Level, or levels by module: info,net=debug. RUST_LOG wins.", FIELD(system.logging.level)},
{"system.logging.file_enabled", kB, "true", "Write the log to a file too.", FIELD(system.logging.file_enabled)},
{"system.logging.max_file_size", kZ, "500 MB", "Size at which the log file is rotated; 0 = never.", FIELD(system.logging.max_file_size)},
{"system.logging.max_total_size", kZ, "4 GB", "All log files together; 0 = unlimited.", FIELD(system.logging.max_total_size)},
{"system.logging.rotation_check_interval", kD, "1h", "How often age and total size are checked.", FIELD(system.logging.rotation_check_interval_ns), {.min = kSecond}},
{"system.logging.retention", kD, "7days", "Age at which a rotated file is removed.", FIELD(system.logging.retention_ns), {.min = kSecond}},
{"system.encryption.enabled", kB, "false", "Encrypt messages (payloads and headers) at rest: docs/formats/encryption.md. Batches written before stay plain.", FIELD(system.encryption.enabled)},
{"system.encryption.key", kX, "", "Base64 of 32 random bytes. The data cannot be read without it; it cannot be changed later.", FIELD(system.encryption.key)},
{"system.stream.path", kS, "streams", "Below the data directory.", NOT_YET(system.stream_path)},
{"system.topic.path", kS, "topics", "Below a stream's directory.", NOT_YET(system.topic_path)},
{"system.partition.path", kS, "partitions", "Below a topic's directory.", NOT_YET(system.partition_path)},
{"system.partition.validate_checksum", kB, "true", "Check the hash of each batch that is read from disk.", FIELD(system.partition_validate_checksum)},
{"system.segment.archive_expired", kB, "false", "Must stay false.", FIELD(system.segment_archive_expired)},
{"system.recovery.recreate_missing_state", kB, "false", "Must stay false.", FIELD(system.recovery_recreate_missing_state)},
{"system.memory_pool.enabled", kB, "true", "Bound the memory of message buffers; false has no effect.", FIELD(system.memory_pool.enabled)},
{"system.memory_pool.size", kZ, "4 GiB", "Bytes in use and cached, of all shards; a multiple of 4096.", FIELD(system.memory_pool.size), {kPoolMin, kPoolMax}},
{"system.memory_pool.bucket_capacity", kN, "8192", "Free buffers kept of one size class; a power of two.", FIELD(system.memory_pool.bucket_capacity), {128, 1ULL << 31}},
{"system.sharding.cpu_allocation", Kind::kCPUAllocation, "numa:auto", "Shards: all, a count, or numa:auto for one a physical core.", FIELD(system.sharding.cpu_allocation)},
{"system.sharding.pin_cores", kB, "true", "Bind each shard to its CPU.", FIELD(system.sharding.pin_cores)},
{"system.sharding.inbox_capacity", kN, "1024", "Requests that wait for a shard.", FIELD(system.sharding.inbox_capacity), {1, 1'048'576}},
{"system.sharding.reply_inbox_capacity", kN, "1024", "Replies that wait for a shard.", NOT_YET(system.sharding.reply_inbox_capacity), {1, 1'048'576}},
{"system.sharding.shutdown_drain_timeout", kD, "10s", "How long a stop waits for requests in flight.", NOT_YET(system.sharding.shutdown_drain_timeout_ns), {1, 600 * kSecond}},
{"system.sharding.shutdown_poll_interval", kD, "50ms", "How often a shard looks for the order to stop.", NOT_YET(system.sharding.shutdown_poll_interval_ns), {1, 5 * kSecond}},
{"system.sharding.shutdown_join_timeout", kD, "30s", "How long the main thread waits for the shards.", NOT_YET(system.sharding.shutdown_join_timeout_ns), {.max = 900 * kSecond}},
{"system.sharding.reconcile_periodic_interval", kD, "1s", "Time between two passes that compare partitions with metadata.", NOT_YET(system.sharding.reconcile_periodic_interval_ns), {1, 30 * kSecond}},
{"system.sharding.busy_poll", kD, "30us", "How long an idle shard looks for work before it sleeps; off = at once.", FIELD(system.sharding.busy_poll_ns), {.max = kSecond}},

{"quic.enabled", kB, "true", "Listen for QUIC; not available in this version.", FIELD(quic.enabled)},
{"quic.address", kS, "127.0.0.1:8080", "IP address and port; port 0 picks one.", FIELD(quic.address)},
{"quic.max_concurrent_bidi_streams", kN, "1", "Streams that a client may hold open.", FIELD(quic.max_concurrent_bidi_streams), {1, kU32Max}},
{"quic.initial_mtu", kZ, "1200 B", "Datagram size before path discovery.", FIELD(quic.initial_mtu), {1200, 65'535}},
{"quic.send_window", kZ, "64 MiB", "Unacknowledged bytes to a client.", FIELD(quic.send_window), {.max = kVarIntMax}},
{"quic.receive_window", kZ, "64 MiB", "Bytes a client may have in flight.", FIELD(quic.receive_window), {.max = kU32Max}},
{"quic.stream_receive_window", kZ, "64 MiB", "The same for one stream; at most quic.receive_window.", FIELD(quic.stream_receive_window), {1, kU32Max}},
{"quic.keep_alive_interval", kD, "10s", "Time between keep-alive frames; 0 = off.", FIELD(quic.keep_alive_interval_ns)},
{"quic.max_idle_timeout", kD, "30s", "Silence after which a connection is closed; 0 = off.", FIELD(quic.max_idle_timeout_ns)},
{"quic.certificate.self_signed", kB, "true", "Make a certificate at start.", FIELD(quic.certificate_self_signed)},
{"quic.certificate.cert_file", kS, "", "Certificate, PEM.", FIELD(quic.certificate_cert_file)},
{"quic.certificate.key_file", kS, "", "Private key, PEM.", FIELD(quic.certificate_key_file)},

{"tcp.enabled", kB, "true", "Listen for TCP.", FIELD(tcp.enabled)},
{"tcp.address", kS, "127.0.0.1:8090", "IP address and port; port 0 picks one.", FIELD(tcp.address)},
{"tcp.tls.enabled", kB, "false", "TLS on this port; not available in this version.", FIELD(tcp.tls.enabled)},
{"tcp.tls.self_signed", kB, "true", "Make a certificate when there is no file.", FIELD(tcp.tls.self_signed)},
{"tcp.tls.cert_file", kS, kCert, "Certificate, PEM.", FIELD(tcp.tls.cert_file)},
{"tcp.tls.key_file", kS, kKey, "Private key, PEM.", FIELD(tcp.tls.key_file)},

{"http.enabled", kB, "true", "Serve ping, health and metrics; the REST API is not available in this version.", FIELD(http.enabled)},
{"http.address", kS, "127.0.0.1:3000", "IP address and port.", FIELD(http.address)},
{"http.max_request_size", kZ, "2 MB", "Largest request body.", FIELD(http.max_request_size), {1, kMessageSizeMax}},
{"http.web_ui", kB, "false", "Serve the web interface below /ui.", NOT_YET(http.web_ui)},
{"http.cors.enabled", kB, "true", "Answer cross-origin requests.", FIELD(http.cors.enabled)},
{"http.cors.allowed_methods", kL, "[GET, POST, PUT, DELETE]", "Methods.", FIELD(http.cors.allowed_methods)},
{"http.cors.allowed_origins", kL, "[*]", "Origins; * stands alone.", FIELD(http.cors.allowed_origins)},
{"http.cors.allowed_headers", kL, "[content-type, authorization]", "Request headers.", FIELD(http.cors.allowed_headers)},
{"http.cors.exposed_headers", kL, "[iggy-view]", "Response headers that scripts may read.", FIELD(http.cors.exposed_headers)},
{"http.cors.allow_credentials", kB, "false", "Allow cookies and authorization; then no list may hold *.", FIELD(http.cors.allow_credentials)},
{"http.cors.allow_private_network", kB, "false", "Allow requests from public pages.", FIELD(http.cors.allow_private_network)},
{"http.jwt.algorithm", kS, "HS256", "HS256, HS384 or HS512.", NOT_YET(http.jwt.algorithm)},
{"http.jwt.issuer", kS, "iggy.apache.org", "Issuer of our tokens.", NOT_YET(http.jwt.issuer)},
{"http.jwt.audience", kS, "iggy.apache.org", "Audience of our tokens.", NOT_YET(http.jwt.audience)},
{"http.jwt.valid_issuers", kL, "[iggy.apache.org]", "Issuers accepted.", NOT_YET(http.jwt.valid_issuers)},
{"http.jwt.valid_audiences", kL, "[iggy.apache.org]", "Audiences accepted.", NOT_YET(http.jwt.valid_audiences)},
{"http.jwt.access_token_expiry", Kind::kExpiry, "1h", "Life of a token, or never_expire.", NOT_YET(http.jwt.access_token_expiry)},
{"http.jwt.clock_skew", kD, "5s", "Tolerance between clocks.", NOT_YET(http.jwt.clock_skew_ns)},
{"http.jwt.not_before", kD, "0s", "Delay before a token is valid.", NOT_YET(http.jwt.not_before_ns)},
{"http.jwt.encoding_secret", kX, "", "Key to sign with; empty = random at each start.", NOT_YET(http.jwt.encoding_secret)},
{"http.jwt.decoding_secret", kX, "", "Key to verify with; empty = random at each start.", NOT_YET(http.jwt.decoding_secret)},
{"http.jwt.use_base64_secret", kB, "false", "The secrets are base64.", NOT_YET(http.jwt.use_base64_secret)},
{"http.jwt.trusted_issuers", Kind::kTables, "", "Foreign issuers: issuer, audience, jwks_url, user_id.", NOT_YET(http.jwt.trusted_issuers)},
{"http.metrics.enabled", kB, "true", "Serve metrics to Prometheus.", FIELD(http.metrics_enabled)},
{"http.metrics.endpoint", kS, "/metrics", "Path of the metrics.", FIELD(http.metrics_endpoint)},
{"http.tls.enabled", kB, "false", "TLS on this port; not available in this version.", FIELD(http.tls.enabled)},
{"http.tls.cert_file", kS, kCert, "Certificate, PEM.", FIELD(http.tls.cert_file)},
{"http.tls.key_file", kS, kKey, "Private key, PEM.", FIELD(http.tls.key_file)},

{"websocket.enabled", kB, "true", "Listen for WebSocket; not available in this version.", FIELD(websocket.enabled)},
{"websocket.address", kS, "127.0.0.1:8092", "IP address and port; port 0 picks one.", FIELD(websocket.address)},
{"websocket.read_buffer_size", kO, "", "Read buffer; unset = 128 KiB.", FIELD(websocket.read_buffer_size), kNonzero},
{"websocket.write_buffer_size", kO, "", "Write buffer; unset = 128 KiB.", FIELD(websocket.write_buffer_size), kNonzero},
{"websocket.max_write_buffer_size", kO, "", "Bytes that may wait for a client; unset = unlimited.", FIELD(websocket.max_write_buffer_size), kNonzero},
{"websocket.max_message_size", kO, "", "Largest message; unset = 64 MiB.", FIELD(websocket.max_message_size), kNonzero},
{"websocket.max_frame_size", kO, "", "Largest frame; unset = 16 MiB.", FIELD(websocket.max_frame_size), kNonzero},
{"websocket.accept_unmasked_frames", kB, "false", "Accept frames that break the masking rule.", FIELD(websocket.accept_unmasked_frames)},
{"websocket.tls.enabled", kB, "false", "TLS on this port; not available in this version.", FIELD(websocket.tls.enabled)},
{"websocket.tls.self_signed", kB, "true", "Make a certificate when there is no file.", FIELD(websocket.tls.self_signed)},
{"websocket.tls.cert_file", kS, kCert, "Certificate, PEM.", FIELD(websocket.tls.cert_file)},
{"websocket.tls.key_file", kS, kKey, "Private key, PEM.", FIELD(websocket.tls.key_file)},

{"telemetry.enabled", kB, "false", "Send traces and logs by OTLP; not available in this version.", FIELD(telemetry.enabled)},
{"telemetry.service_name", kS, "iggy", "Name of this service.", FIELD(telemetry.service_name)},
{"telemetry.logs.transport", kS, "grpc", "grpc or http.", FIELD(telemetry.logs_transport)},
{"telemetry.logs.endpoint", kS, "http://localhost:7281/v1/logs", "Where logs go.", FIELD(telemetry.logs_endpoint)},
{"telemetry.traces.transport", kS, "grpc", "grpc or http.", FIELD(telemetry.traces_transport)},
{"telemetry.traces.endpoint", kS, "http://localhost:7281/v1/traces", "Where traces go.", FIELD(telemetry.traces_endpoint)},

{"cluster.enabled", kB, "false", "Replicate to other nodes; not available in this version.", FIELD(cluster.enabled)},
{"cluster.name", kS, "iggy-cluster", "Part of the identity on disk.", FIELD(cluster.name)},
{"cluster.heartbeat_timeout", kD, "5s", "Silence of the primary that starts a view change.", FIELD(cluster.heartbeat_timeout_ns), {.min = 2 * kSecond}, WHEN(cluster.enabled)},
{"cluster.commit_broadcast_interval", kD, "500ms", "Time between two commit messages of the primary.", FIELD(cluster.commit_broadcast_interval_ns), kNonzero, WHEN(cluster.enabled)},
{"cluster.prepare_retransmit_interval", kD, "250ms", "Time before a prepare is sent again.", FIELD(cluster.prepare_retransmit_interval_ns), kNonzero, WHEN(cluster.enabled)},
{"cluster.view_change_retransmit_interval", kD, "500ms", "Time before a view change message is sent again.", FIELD(cluster.view_change_retransmit_interval_ns), kNonzero, WHEN(cluster.enabled)},
{"cluster.view_change_status_timeout", kD, "5s", "Time before a stuck view change moves on.", FIELD(cluster.view_change_status_timeout_ns), kNonzero, WHEN(cluster.enabled)},
{"cluster.request_start_view_retransmit_interval", kD, "1s", "Time before a missing view is asked for again.", FIELD(cluster.request_start_view_retransmit_interval_ns), kNonzero, WHEN(cluster.enabled)},
{"cluster.view_probe_attempts_max", kN, "5", "Questions for the view before a node gives up.", FIELD(cluster.view_probe_attempts_max), {1, 100}, WHEN(cluster.enabled)},
{"cluster.repair_retry_interval", kD, "1s", "Time before a missing prepare is asked for again.", FIELD(cluster.repair_retry_interval_ns), kNonzero, WHEN(cluster.enabled)},
{"cluster.repair_chunk_max", kN, "128", "Prepares in one repair answer.", FIELD(cluster.repair_chunk_max), {1, 1024}},
{"cluster.superblock_wedged_fatal_timeout", kD, "2m", "How long a superblock may fail to be written; 0 = for ever.", FIELD(cluster.superblock_wedged_fatal_timeout_ns)},
{"cluster.auth.enabled", kB, "false", "Nodes prove that they know the secret.", FIELD(cluster.auth_enabled)},
{"cluster.auth.shared_secret", kX, "", "At least 32 bytes.", FIELD(cluster.auth_shared_secret)},
{"cluster.auth.previous_shared_secret", kX, "", "Accepted while a new one is rolled out.", FIELD(cluster.auth_previous_shared_secret)},
{"cluster.tls.enabled", kB, "false", "TLS between nodes; needs cluster.auth.", FIELD(cluster.tls.enabled)},
{"cluster.tls.self_signed", kB, "false", "Make a certificate at start.", FIELD(cluster.tls.self_signed)},
{"cluster.tls.cert_file", kS, "", "Certificate, PEM.", FIELD(cluster.tls.cert_file)},
{"cluster.tls.key_file", kS, "", "Private key, PEM.", FIELD(cluster.tls.key_file)},
{"cluster.tls.ca_file", kS, "", "Certificate authority, PEM.", FIELD(cluster.tls_ca_file)},
{"cluster.coordinator.skip_shard_zero_for_replicas", kB, "true", "Keep node connections off shard 0.", FIELD(cluster.skip_shard_zero_for_replicas)},
{"cluster.coordinator.skip_shard_zero_for_clients", kB, "false", "Keep client connections off shard 0.", NOT_YET(cluster.skip_shard_zero_for_clients)},
{"cluster.nodes", Kind::kTables, "", "The nodes: name, ip, replica_id, ports, advertised addresses.", FIELD(cluster.nodes)},

{"metadata.prepare_queue_depth", kN, "32", "Metadata operations in flight.", FIELD(metadata.prepare_queue_depth), {1, 127}},
{"metadata.journal_slots", kN, "1024", "Changes in the metadata log behind the last snapshot; one is taken at half of them, or at 512. At least 4 times the larger of 64 and the queue depth.", FIELD(metadata.journal_slots), {.max = 1'048'576}},
{"metadata.clients_table_max", kN, "8192", "Sessions; HTTP may take half.", FIELD(metadata.clients_table_max), {2, 65'536}},

{"partition.prepare_queue_depth", kN, "32", "Operations of one partition in flight.", FIELD(partition.prepare_queue_depth), {1, 127}},
{"partition.evicted_ring_capacity", kN, "4096", "Operations kept for repair.", NOT_YET(partition.evicted_ring_capacity), {1, 65'536}},
{"partition.evicted_ring_bytes_max", kZ, "16 MiB", "Bytes kept for repair.", NOT_YET(partition.evicted_ring_bytes_max), {1, 256 * kMiB}},
{"partition.transfer_served_cache_bytes_max", kZ, "2176 MiB", "Segments held in memory while they are sent to a node.", NOT_YET(partition.transfer_served_cache_bytes_max), {1, 64 * kGiB}},
{"partition.transfer_artifact_bytes_max", kZ, "1088 MiB", "Largest segment sent to a node; at least 1 GiB and a message.", NOT_YET(partition.transfer_artifact_bytes_max), {1, 64 * kGiB}},
{"partition.consumer_offsets_max", kN, "65536", "Stored offsets of one partition, of consumers and of groups each.", FIELD(partition.consumer_offsets_max), {1, 1'048'576}},

{"message_bus.max_batch", kN, "256", "Frames in one write.", NOT_YET(message_bus.max_batch), {1, 512}},
{"message_bus.max_message_size", kZ, "64 MiB", "Largest frame.", FIELD(message_bus.max_message_size), {kFrameSizeMin, kMessageSizeMax}},
{"message_bus.peer_queue_capacity", kN, "256", "Frames that wait for a node; more than cluster.repair_chunk_max.", NOT_YET(message_bus.peer_queue_capacity), {1, kU32Max}},
{"message_bus.reconnect_period", kD, "5s", "Time between attempts to reach a node.", NOT_YET(message_bus.reconnect_period_ns), kNonzero},
{"message_bus.close_peer_timeout", kD, "2s", "How long a node connection may take to close.", NOT_YET(message_bus.close_peer_timeout_ns), kNonzero},
{"message_bus.close_grace", kD, "2s", "How long a client connection may take to close.", NOT_YET(message_bus.close_grace_ns), kNonzero},
{"message_bus.handshake_grace", kD, "10s", "How long a handshake may take.", NOT_YET(message_bus.handshake_grace_ns), kNonzero},
});
// clang-format on
#undef FIELD
#undef NOT_YET
#undef WHEN

constexpr auto kRelocated = std::to_array<RelocatedKey>({
    {"system.topic.max_size", "max_topic_size"},
    {"system.topic.message_expiry", "message_expiry"},
    {"system.partition.enforce_fsync", "durability"},
    {"system.partition.messages_required_to_save", "messages_required_to_save"},
    {"system.partition.size_of_messages_required_to_save", "size_of_messages_required_to_save"},
    {"system.segment.size", "segment_size"},
    {"system.segment.preallocate", "preallocate_segments"},
    {"system.message_deduplication", ""},
    {"extra", ""},
});

}  // namespace

std::span<const Property> properties() noexcept {
    return kProperties;
}

const Property* find_property(std::string_view key) noexcept {
    const auto found = std::ranges::find(kProperties, key, &Property::key);
    return found == kProperties.end() ? nullptr : &*found;
}

std::span<const RelocatedKey> relocated_keys() noexcept {
    return kRelocated;
}

}  // namespace galgo::config::detail

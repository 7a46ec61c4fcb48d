// The effective configuration as plain values, nested as the TOML tables are. Modules receive the
// part they need, never the store it was read from.
//
// Values: sizes in bytes, durations in nanoseconds (suffix _ns), so that they fit timers as they
// are. Defaults are not here but in the property table (detail/properties.cpp), which declares each
// key once; a value-initialised Config is all zeros, `default_config()` of config/loader.hpp is the
// real default. A Config that came out of the loader satisfies every rule of detail/validate.cpp.
// Immutable after boot; may be read from any thread. All keys take effect at start only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/cpu_allocation.hpp"

namespace galgo::config {

/// When something expires: never, when the server says, or a time after it was made.
struct Expiry {
    enum class Kind : std::uint8_t { kNever, kServerDefault, kAfter };
    Kind kind = Kind::kNever;
    std::uint64_t after_ns = 0;  ///< with kAfter only

    bool operator==(const Expiry&) const = default;
};

struct ConsumerGroupConfig {
    std::uint64_t rebalancing_timeout_ns = 0;
    bool operator==(const ConsumerGroupConfig&) const = default;
};

struct DataMaintenanceConfig {
    struct Messages {
        bool cleaner_enabled = false;
        std::uint64_t interval_ns = 0;
        std::uint64_t held_back_max_ns = 0;  ///< 0 = for ever
        bool operator==(const Messages&) const = default;
    };
    Messages messages;
    bool operator==(const DataMaintenanceConfig&) const = default;
};

/// `enabled` with a period: the token cleaner and the heartbeat verifier.
struct PeriodicConfig {
    bool enabled = false;
    std::uint64_t interval_ns = 0;
    bool operator==(const PeriodicConfig&) const = default;
};

struct PersonalAccessTokenConfig {
    std::uint64_t max_tokens_per_user = 0;
    PeriodicConfig cleaner;
    bool operator==(const PersonalAccessTokenConfig&) const = default;
};

struct SystemConfig {
    struct Logging {
        std::string path;
        std::string level;  ///< "info" or "info,net=debug"
        bool file_enabled = false;
        std::uint64_t max_file_size = 0;   ///< 0 = one unbounded file
        std::uint64_t max_total_size = 0;  ///< 0 = unlimited
        std::uint64_t rotation_check_interval_ns = 0;
        std::uint64_t retention_ns = 0;
        bool operator==(const Logging&) const = default;
    };
    struct Encryption {
        bool enabled = false;
        std::string key;  ///< secret; base64 of 32 bytes
        bool operator==(const Encryption&) const = default;
    };
    struct MemoryPool {
        bool enabled = false;  ///< false has no effect: the pool is always there
        std::uint64_t size = 0;
        std::uint64_t bucket_capacity = 0;
        bool operator==(const MemoryPool&) const = default;
    };
    struct Sharding {
        CPUAllocation cpu_allocation;
        bool pin_cores = false;
        std::uint64_t inbox_capacity = 0;
        std::uint64_t reply_inbox_capacity = 0;
        std::uint64_t shutdown_drain_timeout_ns = 0;
        std::uint64_t shutdown_poll_interval_ns = 0;
        std::uint64_t shutdown_join_timeout_ns = 0;
        std::uint64_t reconcile_periodic_interval_ns = 0;
        std::uint64_t busy_poll_ns = 0;  ///< 0 = a shard without work sleeps at once
        bool operator==(const Sharding&) const = default;
    };

    std::string path;                  ///< data root; relative to the working directory
    std::uint64_t reserved_space = 0;  ///< bytes that messages leave free
    std::string runtime_path;
    Logging logging;
    Encryption encryption;
    std::string stream_path;
    std::string topic_path;
    std::string partition_path;
    bool partition_validate_checksum = false;
    bool segment_archive_expired = false;
    bool recovery_recreate_missing_state = false;
    MemoryPool memory_pool;
    Sharding sharding;
    bool operator==(const SystemConfig&) const = default;
};

struct TLSConfig {
    bool enabled = false;
    bool self_signed = false;  ///< HTTP has no such key: always false there
    std::string cert_file;
    std::string key_file;
    bool operator==(const TLSConfig&) const = default;
};

struct QUICConfig {
    bool enabled = false;
    std::string address;
    std::uint64_t max_concurrent_bidi_streams = 0;
    std::uint64_t initial_mtu = 0;
    std::uint64_t send_window = 0;
    std::uint64_t receive_window = 0;
    std::uint64_t stream_receive_window = 0;
    std::uint64_t keep_alive_interval_ns = 0;  ///< 0 = off
    std::uint64_t max_idle_timeout_ns = 0;     ///< 0 = off
    bool certificate_self_signed = false;
    std::string certificate_cert_file;
    std::string certificate_key_file;
    bool operator==(const QUICConfig&) const = default;
};

struct TCPConfig {
    bool enabled = false;
    std::string address;
    TLSConfig tls;
    bool operator==(const TCPConfig&) const = default;
};

struct HTTPConfig {
    struct CORS {
        bool enabled = false;
        std::vector<std::string> allowed_methods;
        std::vector<std::string> allowed_origins;
        std::vector<std::string> allowed_headers;
        std::vector<std::string> exposed_headers;
        bool allow_credentials = false;
        bool allow_private_network = false;
        bool operator==(const CORS&) const = default;
    };
    struct TrustedIssuer {
        std::string issuer;
        std::string audience;
        std::string jwks_url;
        std::uint64_t user_id = 0;
        bool operator==(const TrustedIssuer&) const = default;
    };
    struct JWT {
        std::string algorithm;
        std::string issuer;
        std::string audience;
        std::vector<std::string> valid_issuers;
        std::vector<std::string> valid_audiences;
        Expiry access_token_expiry;
        std::uint64_t clock_skew_ns = 0;
        std::uint64_t not_before_ns = 0;
        std::string encoding_secret;  ///< secret
        std::string decoding_secret;  ///< secret
        bool use_base64_secret = false;
        std::vector<TrustedIssuer> trusted_issuers;
        bool operator==(const JWT&) const = default;
    };

    bool enabled = false;
    std::string address;
    std::uint64_t max_request_size = 0;
    bool web_ui = false;
    CORS cors;
    JWT jwt;
    bool metrics_enabled = false;
    std::string metrics_endpoint;
    TLSConfig tls;
    bool operator==(const HTTPConfig&) const = default;
};

struct WebSocketConfig {
    bool enabled = false;
    std::string address;
    std::optional<std::uint64_t> read_buffer_size;
    std::optional<std::uint64_t> write_buffer_size;
    std::optional<std::uint64_t> max_write_buffer_size;
    std::optional<std::uint64_t> max_message_size;
    std::optional<std::uint64_t> max_frame_size;
    bool accept_unmasked_frames = false;
    TLSConfig tls;
    bool operator==(const WebSocketConfig&) const = default;
};

struct TelemetryConfig {
    bool enabled = false;
    std::string service_name;
    std::string logs_transport;
    std::string logs_endpoint;
    std::string traces_transport;
    std::string traces_endpoint;
    bool operator==(const TelemetryConfig&) const = default;
};

struct MetadataConfig {
    std::uint64_t prepare_queue_depth = 0;
    std::uint64_t journal_slots = 0;
    std::uint64_t clients_table_max = 0;
    bool operator==(const MetadataConfig&) const = default;
};

struct PartitionConfig {
    std::uint64_t prepare_queue_depth = 0;
    std::uint64_t evicted_ring_capacity = 0;
    std::uint64_t evicted_ring_bytes_max = 0;
    std::uint64_t transfer_served_cache_bytes_max = 0;
    std::uint64_t transfer_artifact_bytes_max = 0;
    std::uint64_t consumer_offsets_max = 0;
    bool operator==(const PartitionConfig&) const = default;
};

struct MessageBusConfig {
    std::uint64_t max_batch = 0;
    std::uint64_t max_message_size = 0;
    std::uint64_t peer_queue_capacity = 0;
    std::uint64_t reconnect_period_ns = 0;
    std::uint64_t close_peer_timeout_ns = 0;
    std::uint64_t close_grace_ns = 0;
    std::uint64_t handshake_grace_ns = 0;
    bool operator==(const MessageBusConfig&) const = default;
};

struct AdvertisedAddress {
    std::string client_cidr;
    std::string address;
    bool operator==(const AdvertisedAddress&) const = default;
};

struct ClusterNode {
    std::string name;
    std::string ip;
    std::uint64_t replica_id = 0;
    std::optional<std::uint64_t> tcp_port;
    std::optional<std::uint64_t> quic_port;
    std::optional<std::uint64_t> http_port;
    std::optional<std::uint64_t> websocket_port;
    std::optional<std::uint64_t> tcp_replica_port;
    std::string advertised_address;  ///< empty = none
    std::vector<AdvertisedAddress> advertised_addresses;
    bool operator==(const ClusterNode&) const = default;
};

struct ClusterConfig {
    bool enabled = false;
    std::string name;
    std::uint64_t heartbeat_timeout_ns = 0;
    std::uint64_t commit_broadcast_interval_ns = 0;
    std::uint64_t prepare_retransmit_interval_ns = 0;
    std::uint64_t view_change_retransmit_interval_ns = 0;
    std::uint64_t view_change_status_timeout_ns = 0;
    std::uint64_t request_start_view_retransmit_interval_ns = 0;
    std::uint64_t view_probe_attempts_max = 0;
    std::uint64_t repair_retry_interval_ns = 0;
    std::uint64_t repair_chunk_max = 0;
    std::uint64_t superblock_wedged_fatal_timeout_ns = 0;  ///< 0 = never
    bool auth_enabled = false;
    std::string auth_shared_secret;           ///< secret
    std::string auth_previous_shared_secret;  ///< secret
    TLSConfig tls;
    std::string tls_ca_file;
    bool skip_shard_zero_for_replicas = false;
    bool skip_shard_zero_for_clients = false;
    std::vector<ClusterNode> nodes;
    bool operator==(const ClusterConfig&) const = default;
};

/// Set by environment variables of their own, not by a key of the file.
struct RuntimeConfig {
    /// IGGY_SHARD_RUNTIME_CAPACITY, submission entries a shard: 1..=32768, what the kernel takes
    std::uint64_t ring_capacity = 4096;
    std::uint64_t event_interval = 128;  ///< IGGY_SHARD_EVENT_INTERVAL, tasks polled a loop turn
    bool operator==(const RuntimeConfig&) const = default;
};

struct Config {
    ConsumerGroupConfig consumer_group;
    DataMaintenanceConfig data_maintenance;
    PersonalAccessTokenConfig personal_access_token;
    PeriodicConfig heartbeat;
    SystemConfig system;
    QUICConfig quic;
    TCPConfig tcp;
    HTTPConfig http;
    WebSocketConfig websocket;
    TelemetryConfig telemetry;
    ClusterConfig cluster;
    MetadataConfig metadata;
    PartitionConfig partition;
    MessageBusConfig message_bus;
    RuntimeConfig runtime;
    bool operator==(const Config&) const = default;
};

}  // namespace galgo::config

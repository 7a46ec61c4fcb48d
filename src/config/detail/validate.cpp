// The rules that refuse a start: bounds from the table, then relations between keys, then features
// that this version does not have. The first broken rule is reported; the order is that of the
// table. wire: core/configs/src/server_config/validators.rs (0.9.0-edge.5)
#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <format>
#include <set>

#include "base/units.hpp"
#include "config/detail/property.hpp"
#include "config/encryption_key.hpp"
#include "config/print.hpp"

namespace galgo::config::detail {
namespace {

using Rule = std::optional<Violation> (*)(const Config&);

std::optional<Violation> broken(std::string key, std::string requirement, std::string value = "") {
    return Violation{std::move(key), std::move(value), std::move(requirement)};
}

bool is_blank(std::string_view text) {
    return text.find_first_not_of(" \t") == std::string_view::npos;
}

bool is_ip(const std::string& text) {
    in6_addr address{};
    return inet_pton(AF_INET, text.c_str(), &address) == 1 ||
           inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

/// "127.0.0.1:80" or "[::1]:80".
bool is_socket_address(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string::npos || text.find('\0') != std::string::npos) {
        return false;
    }
    std::string host = text.substr(0, colon);
    const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
    if (in_brackets) {
        host = host.substr(1, host.size() - 2);
    }
    if (in_brackets != (host.find(':') != std::string::npos)) {
        return false;
    }
    std::uint16_t port = 0;
    const char* begin = text.data() + colon + 1;
    const char* end = text.data() + text.size();
    const auto [last, error] = std::from_chars(begin, end, port);
    return is_ip(host) && error == std::errc{} && last == end;
}

std::optional<std::uint64_t> number_of(const FieldRef& field) {
    if (const auto* plain = std::get_if<std::uint64_t*>(&field)) {
        return **plain;
    }
    if (const auto* optional = std::get_if<std::optional<std::uint64_t>*>(&field)) {
        return **optional;
    }
    return std::nullopt;
}

std::optional<Violation> check_bounds(const Config& config) {
    Config scratch = config;  // the table hands out mutable fields
    for (const Property& property : properties()) {
        const std::optional<std::uint64_t> value = number_of(property.field(scratch));
        if (!value || (property.bounded_when && !property.bounded_when(config))) {
            continue;
        }
        if (*value < property.bounds.min || *value > property.bounds.max) {
            return broken(std::string(property.key), bounds_text(property.kind, property.bounds));
        }
    }
    return std::nullopt;
}

std::optional<Violation> check_addresses(const Config& config) {
    struct Listener {
        const char* key;
        bool enabled;
        const std::string& address;
    };
    const std::array listeners{
        Listener{"quic.address", config.quic.enabled, config.quic.address},
        Listener{"tcp.address", config.tcp.enabled, config.tcp.address},
        Listener{"http.address", config.http.enabled, config.http.address},
        Listener{"websocket.address", config.websocket.enabled, config.websocket.address}};
    for (const Listener& listener : listeners) {
        if (listener.enabled && !is_socket_address(listener.address)) {
            return broken(listener.key,
                          "must be an IP address and a port such as 127.0.0.1:8090 or [::1]:8090");
        }
    }
    return std::nullopt;
}

std::optional<Violation> check_system(const Config& config) {
    const SystemConfig& system = config.system;
    if (system.path.empty()) {
        return broken("system.path", "must not be empty");
    }
    if (is_blank(system.logging.level)) {
        return broken("system.logging.level", "must not be empty");
    }
    if (system.logging.max_total_size != 0 &&
        system.logging.max_total_size < system.logging.max_file_size) {
        return broken("system.logging.max_total_size",
                      "must be 0 or at least system.logging.max_file_size");
    }
    if (system.encryption.enabled && !decode_encryption_key(system.encryption.key)) {
        return broken("system.encryption.key", "must be base64 of 32 bytes");
    }
    if (system.segment_archive_expired) {
        return broken("system.segment.archive_expired", "not supported, must be false");
    }
    if (system.recovery_recreate_missing_state) {
        return broken("system.recovery.recreate_missing_state", "not supported, must be false");
    }
    if (system.memory_pool.size % 4096 != 0) {
        return broken("system.memory_pool.size", "must be a multiple of 4096 bytes");
    }
    if (!std::has_single_bit(system.memory_pool.bucket_capacity)) {
        return broken("system.memory_pool.bucket_capacity", "must be a power of two");
    }
    const SystemConfig::Sharding& sharding = system.sharding;
    if (sharding.shutdown_poll_interval_ns > sharding.shutdown_drain_timeout_ns) {
        return broken("system.sharding.shutdown_poll_interval",
                      "must be at most system.sharding.shutdown_drain_timeout");
    }
    if (sharding.shutdown_join_timeout_ns < sharding.shutdown_drain_timeout_ns) {
        return broken("system.sharding.shutdown_join_timeout",
                      "must be at least system.sharding.shutdown_drain_timeout");
    }
    return std::nullopt;
}

std::optional<Violation> check_quic(const Config& config) {
    const QUICConfig& quic = config.quic;
    if (quic.stream_receive_window > quic.receive_window) {
        return broken("quic.stream_receive_window", "must be at most quic.receive_window");
    }
    if (quic.enabled && !quic.certificate_self_signed) {
        if (quic.certificate_cert_file.empty()) {
            return broken("quic.certificate.cert_file",
                          "must be set when quic.certificate.self_signed is false");
        }
        if (quic.certificate_key_file.empty()) {
            return broken("quic.certificate.key_file",
                          "must be set when quic.certificate.self_signed is false");
        }
    }
    return std::nullopt;
}

std::optional<Violation> check_cors(const Config& config) {
    const HTTPConfig::CORS& cors = config.http.cors;
    if (!config.http.enabled || !cors.enabled) {
        return std::nullopt;
    }
    const auto& origins = cors.allowed_origins;
    if (const auto star = std::ranges::find(origins, "*");
        star != origins.end() && star != origins.begin()) {
        return broken("http.cors.allowed_origins", R"("*" may only be the first entry)");
    }
    if (cors.allow_credentials) {
        const auto has_wildcard = [](const std::vector<std::string>& list) {
            return std::ranges::find(list, "*") != list.end();
        };
        if (has_wildcard(origins) || has_wildcard(cors.allowed_headers) ||
            has_wildcard(cors.exposed_headers)) {
            return broken("http.cors.allow_credentials",
                          R"(must be false while allowed_origins, allowed_headers or )"
                          R"(exposed_headers of http.cors hold "*")");
        }
    }
    return std::nullopt;
}

std::optional<Violation> check_http(const Config& config) {
    const HTTPConfig& http = config.http;
    if (!http.metrics_endpoint.starts_with('/')) {
        return broken("http.metrics.endpoint", "must start with '/'");
    }
    if (!http.enabled) {
        return std::nullopt;
    }
    const std::string& algorithm = http.jwt.algorithm;
    if (algorithm != "HS256" && algorithm != "HS384" && algorithm != "HS512") {
        return broken("http.jwt.algorithm", "must be HS256, HS384 or HS512");
    }
    if (http.jwt.access_token_expiry.kind == Expiry::Kind::kServerDefault) {
        return broken("http.jwt.access_token_expiry", "must be a duration or never_expire");
    }
    for (std::size_t i = 0; i < http.jwt.trusted_issuers.size(); ++i) {
        const HTTPConfig::TrustedIssuer& issuer = http.jwt.trusted_issuers[i];
        const std::string key = std::format("http.jwt.trusted_issuers[{}]", i);
        if (is_blank(issuer.issuer)) {
            return broken(key + ".issuer", "must not be empty", quoted(issuer.issuer));
        }
        if (is_blank(issuer.audience)) {
            return broken(key + ".audience", "must not be empty", quoted(issuer.audience));
        }
        if (is_blank(issuer.jwks_url)) {
            return broken(key + ".jwks_url", "must not be empty", quoted(issuer.jwks_url));
        }
        if (issuer.user_id == 0) {
            return broken(key + ".user_id", "must be the id of a user other than root", "0");
        }
    }
    if (http.tls.enabled && http.tls.cert_file.empty()) {
        return broken("http.tls.cert_file", "must be set when http.tls.enabled is true");
    }
    if (http.tls.enabled && http.tls.key_file.empty()) {
        return broken("http.tls.key_file", "must be set when http.tls.enabled is true");
    }
    return std::nullopt;
}

std::optional<Violation> check_websocket(const Config& config) {
    const WebSocketConfig& websocket = config.websocket;
    const std::uint64_t bus_max = config.message_bus.max_message_size;
    const std::uint64_t write_buffer = websocket.write_buffer_size.value_or(128 * kKiB);
    if (websocket.max_write_buffer_size && *websocket.max_write_buffer_size <= write_buffer) {
        return broken(
            "websocket.max_write_buffer_size",
            "must be more than websocket.write_buffer_size, " + format_byte_size(write_buffer));
    }
    if (websocket.max_message_size && *websocket.max_message_size > bus_max) {
        return broken("websocket.max_message_size",
                      "must be at most message_bus.max_message_size, " + format_byte_size(bus_max));
    }
    if (websocket.max_frame_size && *websocket.max_frame_size > bus_max) {
        return broken("websocket.max_frame_size",
                      "must be at most message_bus.max_message_size, " + format_byte_size(bus_max));
    }
    if (websocket.max_frame_size && websocket.max_message_size &&
        *websocket.max_frame_size > *websocket.max_message_size) {
        return broken("websocket.max_frame_size", "must be at most websocket.max_message_size");
    }
    return std::nullopt;
}

std::optional<Violation> check_telemetry(const Config& config) {
    const TelemetryConfig& telemetry = config.telemetry;
    const auto is_transport = [](std::string_view text) {
        return text == "grpc" || text == "http";
    };
    if (!is_transport(telemetry.logs_transport)) {
        return broken("telemetry.logs.transport", "must be grpc or http");
    }
    if (!is_transport(telemetry.traces_transport)) {
        return broken("telemetry.traces.transport", "must be grpc or http");
    }
    if (!telemetry.enabled) {
        return std::nullopt;
    }
    if (is_blank(telemetry.service_name)) {
        return broken("telemetry.service_name", "must not be empty");
    }
    if (is_blank(telemetry.logs_endpoint)) {
        return broken("telemetry.logs.endpoint", "must not be empty");
    }
    if (is_blank(telemetry.traces_endpoint)) {
        return broken("telemetry.traces.endpoint", "must not be empty");
    }
    return std::nullopt;
}

std::optional<Violation> check_queues(const Config& config) {
    const std::uint64_t slots_min =
        4 * std::max<std::uint64_t>(64, config.metadata.prepare_queue_depth);
    if (config.metadata.journal_slots < slots_min) {
        return broken("metadata.journal_slots", std::format("must be at least {}", slots_min));
    }
    const std::uint64_t artifact_min = kGiB + config.message_bus.max_message_size;
    if (config.partition.transfer_artifact_bytes_max < artifact_min) {
        return broken("partition.transfer_artifact_bytes_max",
                      "must be at least 1 GiB and message_bus.max_message_size, " +
                          format_byte_size(artifact_min));
    }
    if (config.message_bus.peer_queue_capacity <= config.cluster.repair_chunk_max) {
        return broken("message_bus.peer_queue_capacity",
                      std::format("must be more than cluster.repair_chunk_max, {}",
                                  config.cluster.repair_chunk_max));
    }
    return std::nullopt;
}

std::optional<Violation> check_cluster_security(const Config& config) {
    constexpr std::size_t kSecretBytesMin = 32;
    const ClusterConfig& cluster = config.cluster;
    const std::string& secret = cluster.auth_shared_secret;
    const std::string& previous = cluster.auth_previous_shared_secret;
    if ((cluster.auth_enabled || !secret.empty()) && secret.size() < kSecretBytesMin) {
        return broken("cluster.auth.shared_secret", "must have at least 32 bytes");
    }
    if (!previous.empty() && previous.size() < kSecretBytesMin) {
        return broken("cluster.auth.previous_shared_secret", "must have at least 32 bytes");
    }
    if (!previous.empty() && previous == secret) {
        return broken("cluster.auth.previous_shared_secret",
                      "must differ from cluster.auth.shared_secret");
    }
    if (!cluster.tls.enabled) {
        return std::nullopt;
    }
    if (!cluster.auth_enabled) {
        return broken("cluster.tls.enabled", "needs cluster.auth.enabled");
    }
    if (!cluster.tls.self_signed) {
        const auto rule = "must be set unless cluster.tls.self_signed is true";
        if (cluster.tls.cert_file.empty()) {
            return broken("cluster.tls.cert_file", rule);
        }
        if (cluster.tls.key_file.empty()) {
            return broken("cluster.tls.key_file", rule);
        }
        if (cluster.tls_ca_file.empty()) {
            return broken("cluster.tls.ca_file", rule);
        }
    }
    return std::nullopt;
}

std::optional<Violation> check_cluster_times(const Config& config) {
    const ClusterConfig& cluster = config.cluster;
    if (cluster.superblock_wedged_fatal_timeout_ns != 0 &&
        cluster.superblock_wedged_fatal_timeout_ns < 30 * kSecond) {
        return broken("cluster.superblock_wedged_fatal_timeout", "must be 0 or at least 30s");
    }
    if (!cluster.enabled) {
        return std::nullopt;
    }
    if (is_blank(cluster.name)) {
        return broken("cluster.name", "must not be empty");
    }
    // Divided, not multiplied: a long interval must not wrap.
    if (cluster.heartbeat_timeout_ns / 4 < cluster.commit_broadcast_interval_ns) {
        return broken("cluster.heartbeat_timeout",
                      "must be at least 4 times cluster.commit_broadcast_interval");
    }
    if (cluster.view_change_status_timeout_ns / 4 < cluster.view_change_retransmit_interval_ns) {
        return broken("cluster.view_change_status_timeout",
                      "must be at least 4 times cluster.view_change_retransmit_interval");
    }
    return std::nullopt;
}

std::optional<Violation> check_cluster_node(const Config& config, const ClusterNode& node,
                                            const std::string& key,
                                            std::set<std::string>& endpoints) {
    struct Port {
        const char* name;
        bool needed;
        std::optional<std::uint64_t> port;
    };
    const std::array ports{Port{"tcp", true, node.tcp_port},
                           Port{"quic", config.quic.enabled, node.quic_port},
                           Port{"http", config.http.enabled, node.http_port},
                           Port{"websocket", config.websocket.enabled, node.websocket_port},
                           Port{"tcp_replica", true, node.tcp_replica_port}};
    for (const Port& port : ports) {
        const std::string port_key = std::format("{}.ports.{}", key, port.name);
        if (!port.port) {
            if (port.needed) {
                return broken(port_key, "must be set for each enabled transport", "unset");
            }
            continue;
        }
        if (*port.port == 0) {
            return broken(port_key, "must be in 1..=65535", "0");
        }
        if (!endpoints.insert(std::format("{}:{}", node.ip, *port.port)).second) {
            return broken(port_key, "must be used once on an address", std::to_string(*port.port));
        }
    }
    if (node.advertised_addresses.size() > 16) {
        return broken(key + ".advertised_addresses", "must have at most 16 entries",
                      std::to_string(node.advertised_addresses.size()));
    }
    return std::nullopt;
}

std::optional<Violation> check_cluster_nodes(const Config& config) {
    const std::vector<ClusterNode>& nodes = config.cluster.nodes;
    if (!config.cluster.enabled) {
        return std::nullopt;
    }
    if (nodes.empty() || nodes.size() > 255) {
        return broken("cluster.nodes", "must have 1..=255 entries");
    }
    std::set<std::string> names;
    std::set<std::uint64_t> ids;
    std::set<std::string> endpoints;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const ClusterNode& node = nodes[i];
        const std::string key = std::format("cluster.nodes[{}]", i);
        if (is_blank(node.name) || !names.insert(node.name).second) {
            return broken(key + ".name", "must be set and differ from the others",
                          quoted(node.name));
        }
        if (is_blank(node.ip)) {
            return broken(key + ".ip", "must not be empty", quoted(node.ip));
        }
        if (node.replica_id >= nodes.size() || !ids.insert(node.replica_id).second) {
            return broken(key + ".replica_id",
                          std::format("must be below {} and differ from the others", nodes.size()),
                          std::to_string(node.replica_id));
        }
        if (auto violation = check_cluster_node(config, node, key, endpoints)) {
            return violation;
        }
    }
    return std::nullopt;
}

std::optional<Violation> check_features(const Config& config) {
    struct Feature {
        const char* key;
        bool enabled;
    };
    const std::array features{Feature{"tcp.tls.enabled", config.tcp.tls.enabled},
                              Feature{"http.tls.enabled", config.http.tls.enabled},
                              Feature{"websocket.tls.enabled", config.websocket.tls.enabled},
                              Feature{"cluster.enabled", config.cluster.enabled},
                              Feature{"telemetry.enabled", config.telemetry.enabled}};
    for (const Feature& feature : features) {
        if (feature.enabled) {
            return broken(feature.key, "not available in this version");
        }
    }
    return std::nullopt;
}

constexpr std::array<Rule, 12> kRules{
    check_bounds,        check_system,        check_quic,
    check_addresses,     check_cors,          check_http,
    check_websocket,     check_telemetry,     check_cluster_security,
    check_cluster_times, check_cluster_nodes, check_queues};

}  // namespace

std::optional<Violation> validate(const Config& config) {
    for (const Rule rule : kRules) {
        if (auto violation = rule(config)) {
            return violation;
        }
    }
    return check_features(config);
}

}  // namespace galgo::config::detail

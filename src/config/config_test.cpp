// Loading: defaults, file, environment, warnings, and each rule that refuses a start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "config/cpu_allocation.hpp"
#include "config/cpu_topology.hpp"
#include "config/detail/node.hpp"
#include "config/detail/property.hpp"
#include "config/loader.hpp"
#include "config/print.hpp"

namespace galgo::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr std::uint64_t kSec = 1'000'000'000;
constexpr std::uint64_t kGiBytes = 1ULL << 30;

std::expected<Loaded, ConfigFault> load(std::string_view toml,
                                        const Environment& environment = {}) {
    return load_config_text(toml, "test.toml", environment);
}

/// The line of the fault, or "no fault".
std::string fault_of(std::string_view toml, const Environment& environment = {}) {
    const auto loaded = load(toml, environment);
    return loaded ? "no fault" : loaded.error().one_line;
}

TEST(ConfigDefaults, AreValidAndAsDocumented) {
    const auto loaded = load("");
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    EXPECT_THAT(loaded->warnings, IsEmpty());
    const Config& config = loaded->config;
    EXPECT_EQ(config, default_config());
    EXPECT_EQ(config.consumer_group.rebalancing_timeout_ns, 30 * kSec);
    EXPECT_EQ(config.tcp.address, "127.0.0.1:8090");
    EXPECT_EQ(config.http.max_request_size, 2'000'000U);
    EXPECT_THAT(config.http.cors.allowed_methods, ElementsAre("GET", "POST", "PUT", "DELETE"));
    EXPECT_THAT(config.http.cors.allowed_origins, ElementsAre("*"));
    EXPECT_EQ(config.http.jwt.access_token_expiry,
              (Expiry{.kind = Expiry::Kind::kAfter, .after_ns = 3600 * kSec}));
    EXPECT_EQ(config.system.logging.max_file_size, 500'000'000U);
    EXPECT_EQ(config.system.logging.retention_ns, 7 * 86'400 * kSec);
    EXPECT_EQ(config.system.memory_pool.size, 4 * kGiBytes);
    EXPECT_EQ(config.system.sharding.cpu_allocation, CPUAllocation(NUMAAuto{}));
    EXPECT_EQ(config.system.sharding.busy_poll_ns, 30'000U);
    EXPECT_EQ(config.partition.transfer_artifact_bytes_max, 1088ULL << 20);
    EXPECT_EQ(config.message_bus.max_message_size, 64ULL << 20);
    EXPECT_FALSE(config.websocket.max_message_size.has_value());
    EXPECT_TRUE(config.quic.enabled);
    EXPECT_TRUE(config.websocket.enabled);
    EXPECT_EQ(config.runtime, RuntimeConfig{});
}

TEST(ConfigTable, KeysAreUniqueAndTablesContiguous) {
    std::set<std::string_view> keys;
    std::set<std::string_view> closed;
    std::string_view table;
    for (const detail::Property& property : detail::properties()) {
        EXPECT_TRUE(keys.insert(property.key).second) << property.key;
        EXPECT_FALSE(property.description.empty()) << property.key;
        if (property.kind == detail::Kind::kTables) {
            continue;
        }
        const std::string_view own = property.key.substr(0, property.key.rfind('.'));
        if (own != table) {
            EXPECT_TRUE(closed.insert(own).second) << own << " is opened twice";
            table = own;
        }
    }
    EXPECT_EQ(detail::properties().front().key, "consumer_group.rebalancing_timeout");
}

TEST(ConfigTable, NoTwoPropertiesShareAField) {
    Config config;
    std::set<const void*> fields;
    for (const detail::Property& property : detail::properties()) {
        const void* field =
            std::visit([](auto* p) { return static_cast<const void*>(p); }, property.field(config));
        EXPECT_TRUE(fields.insert(field).second) << property.key;
    }
}

TEST(ConfigFile, SetsValuesOfEachType) {
    const auto loaded = load(R"(
[consumer_group]
rebalancing_timeout = "1 m 30 s"
[http]
enabled = false
max_request_size = 4096
[http.cors]
allowed_origins = ["https://a", "https://b"]
[http.jwt]
access_token_expiry = "never_expire"
encoding_secret = "s3cret"
[websocket]
max_message_size = "1.5 MiB"
[system.sharding]
cpu_allocation = 2
busy_poll = "off"
[partition]
consumer_offsets_max = 10
)");
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    const Config& config = loaded->config;
    EXPECT_EQ(config.consumer_group.rebalancing_timeout_ns, 90 * kSec);
    EXPECT_FALSE(config.http.enabled);
    EXPECT_EQ(config.http.max_request_size, 4096U);
    EXPECT_THAT(config.http.cors.allowed_origins, ElementsAre("https://a", "https://b"));
    EXPECT_EQ(config.http.jwt.access_token_expiry, Expiry{});
    EXPECT_EQ(config.http.jwt.encoding_secret, "s3cret");
    EXPECT_EQ(config.websocket.max_message_size, 1'572'864U);
    EXPECT_EQ(config.system.sharding.cpu_allocation, CPUAllocation(CPUCount{2}));
    EXPECT_EQ(config.system.sharding.busy_poll_ns, 0U);
    EXPECT_EQ(config.partition.consumer_offsets_max, 10U);
}

TEST(ConfigFile, ReadsArraysOfTables) {
    const auto loaded = load(R"(
[[cluster.nodes]]
name = "a"
ip = "10.0.0.1"
replica_id = 0
ports = { tcp = 8090, tcp_replica = 9090 }
advertised_addresses = [{ client_cidr = "10.0.0.0/8", address = "x" }]
[[cluster.nodes]]
name = "b"
ip = "10.0.0.2"
replica_id = 1
colour = "red"
[[http.jwt.trusted_issuers]]
issuer = "i"
audience = "a"
jwks_url = "https://x"
user_id = 4
)");
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    const auto& nodes = loaded->config.cluster.nodes;
    ASSERT_THAT(nodes, SizeIs(2));
    EXPECT_EQ(nodes[0].tcp_port, 8090U);
    EXPECT_EQ(nodes[0].tcp_replica_port, 9090U);
    EXPECT_FALSE(nodes[0].quic_port.has_value());
    ASSERT_THAT(nodes[0].advertised_addresses, SizeIs(1));
    EXPECT_EQ(nodes[0].advertised_addresses[0].client_cidr, "10.0.0.0/8");
    EXPECT_EQ(nodes[1].name, "b");
    ASSERT_THAT(loaded->config.http.jwt.trusted_issuers, SizeIs(1));
    EXPECT_EQ(loaded->config.http.jwt.trusted_issuers[0].user_id, 4U);
    EXPECT_THAT(loaded->warnings,
                ElementsAre(HasSubstr("colour"), HasSubstr("http.jwt.trusted_issuers")));
}

TEST(ConfigFile, UnknownKeysWarnWithASuggestion) {
    const auto loaded = load("[http]\nadress = \"x\"\n[weather]\nrain = true\n");
    ASSERT_TRUE(loaded);
    EXPECT_THAT(loaded->warnings, testing::UnorderedElementsAre(
                                      testing::AllOf(HasSubstr("\"http.adress\" in test.toml"),
                                                     HasSubstr("did you mean http.address")),
                                      HasSubstr("unknown key \"weather\"")));
}

TEST(ConfigFile, RefusesWhatIsNotTOML) {
    EXPECT_THAT(fault_of("\n\n[http\n"), HasSubstr("config: test.toml: not valid TOML: line 3"));
    EXPECT_THAT(fault_of("a" + std::string(500, '.') + "b = 1"), HasSubstr("dots"));
    EXPECT_THAT(fault_of("a = " + std::string(40, '[') + std::string(40, ']')),
                HasSubstr("levels deep"));
    EXPECT_THAT(fault_of(std::string(300'000, '#')), HasSubstr("longer than"));
}

TEST(ConfigFile, MalformedTableHeadersRefuse) {
    for (const char* toml : {"[=]", "[.a]", "[a.=]", "[ ,]", "[[", "[[=]]", "[\"", "[a", "[#]",
                             "[]", "a.=1", ".a=1", "[a.\n]", "[@]", "a = {=}", "a = {.b=1}"}) {
        EXPECT_THAT(fault_of(toml), HasSubstr("not valid TOML")) << toml;
    }
}

TEST(ConfigFile, TakesTextBeyondASCII) {
    const auto loaded =
        load("# Gr\u00FC\u00DFe \u20AC \U0001F600\nsystem.path = \"d\u00E9p\u00F4t\" # \u00E9\n");
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    EXPECT_EQ(loaded->config.system.path, "d\u00E9p\u00F4t");
    EXPECT_NE(fault_of("\u00E9 = 1"), "no fault");
    EXPECT_NE(fault_of("a\u00E9 = 1"), "no fault");
    EXPECT_NE(fault_of("a \uFDD0 = \uFFFF"), "no fault");
}

TEST(ConfigFile, LineBreaksInKeysStayInOneLine) {
    EXPECT_THAT(fault_of("extra.\"a\\nb\" = 1"), Not(HasSubstr("\n")));
    EXPECT_THAT(fault_of("[[cluster.nodes]]\nports = { \"a\\nb\" = { c = 1 }, tcp = \"x\\ny\" }"),
                Not(HasSubstr("\n")));
    const auto loaded = load("\"a\\nb\" = 1\n[[cluster.nodes]]\n\"c\\nd\" = 1");
    ASSERT_TRUE(loaded);
    EXPECT_THAT(loaded->warnings, SizeIs(2));
    EXPECT_THAT(loaded->warnings, testing::Each(Not(HasSubstr("\n"))));
}

struct Refusal {
    const char* toml;
    const char* line;  ///< part of the one line
};

class ConfigRules : public testing::TestWithParam<Refusal> {};

TEST_P(ConfigRules, RefuseWithOneLine) {
    const std::string line = fault_of(GetParam().toml);
    EXPECT_THAT(line, HasSubstr(GetParam().line));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_TRUE(line.starts_with("config: ")) << line;
    EXPECT_THAT(line, HasSubstr("(from "));
}

INSTANTIATE_TEST_SUITE_P(
    Types, ConfigRules,
    testing::Values(
        Refusal{"http.enabled = 1", "http.enabled = 1: must be true or false (from test.toml)"},
        Refusal{"http.enabled = \"true\"", "must be true or false"},
        Refusal{"http = 1", "http = 1: must be a table"},
        Refusal{"tcp.address = 5", "tcp.address = 5: must be a string"},
        Refusal{"message_bus.max_batch = -1", "must be a whole number"},
        Refusal{"message_bus.max_batch = 1.5",
                "message_bus.max_batch = 1.5: must be a whole number"},
        Refusal{"http.max_request_size = \"2 XB\"", "must be a size such as"},
        Refusal{"heartbeat.interval = 30", "must be a duration with a unit"},
        Refusal{"heartbeat.interval = \"soon\"", "must be a duration with a unit"},
        Refusal{"http.jwt.access_token_expiry = \"200 years\"", "must be a duration of at most"},
        Refusal{"http.cors.allowed_methods = \"GET\"", "must be a list of strings"},
        Refusal{"http.cors.allowed_methods = [1]", "must be a list of strings"},
        Refusal{"http.jwt.encoding_secret = 123", "\"******\": must be a string"},
        Refusal{"system.sharding.cpu_allocation = \"0..4\"", "not available in this version"},
        Refusal{"system.sharding.cpu_allocation = \"numa:nodes=0\"", "\"numa:auto\""},
        Refusal{"system.sharding.cpu_allocation = 0", "must be \"all\", a number of shards"},
        Refusal{"system.sharding.cpu_allocation = true", "must be \"all\", a number of shards"},
        Refusal{"cluster.nodes = 1", "must be a list of tables"},
        Refusal{"cluster.nodes = [1]", "must be a list of tables"},
        Refusal{"cluster.nodes = [{ replica_id = 256 }]", "replica_id = 256: must be at most 255"},
        Refusal{"cluster.nodes = [{ ports.tcp = 65536 }]", "ports.tcp = 65536: must be at most"}));

INSTANTIATE_TEST_SUITE_P(
    Relocated, ConfigRules,
    testing::Values(
        Refusal{"system.topic.max_size = 1", "use the topic option max_topic_size"},
        Refusal{"system.topic.message_expiry = 1", "use the topic option message_expiry"},
        Refusal{"system.partition.enforce_fsync = true",
                "system.partition.enforce_fsync = true: moved, use the topic option durability"},
        Refusal{"system.partition.messages_required_to_save = 1",
                "use the topic option messages_required_to_save"},
        Refusal{"system.partition.size_of_messages_required_to_save = 1",
                "use the topic option size_of_messages_required_to_save"},
        Refusal{"system.segment.size = \"1 GiB\"", "use the topic option segment_size"},
        Refusal{"system.segment.size.nested = 1", "use the topic option segment_size"},
        Refusal{"system.segment.preallocate = true", "use the topic option preallocate_segments"},
        Refusal{"[system.message_deduplication]\nenabled = true", "removed, delete it"},
        Refusal{"[extra]\nx = 1", "extra = {...}: removed, delete it"}));

INSTANTIATE_TEST_SUITE_P(
    Values, ConfigRules,
    testing::Values(
        Refusal{"consumer_group.rebalancing_timeout = \"0\"",
                "\"0s\": must be more than 0 (from test.toml)"},
        Refusal{"data_maintenance.messages.interval = \"0\"", "data_maintenance.messages.interval"},
        Refusal{"http.address = \"localhost:80\"",
                "http.address = \"localhost:80\": must be an IP"},
        Refusal{"tcp.address = \"127.0.0.1\"", "must be an IP address and a port"},
        Refusal{"quic.address = \"::1:80\"", "must be an IP address and a port"},
        Refusal{"websocket.address = \"1.2.3.4:65536\"", "must be an IP address and a port"},
        Refusal{"http.max_request_size = \"257 MiB\"", "at most 256 MiB"},
        Refusal{"http.cors.allowed_origins = [\"a\", \"*\"]", "only be the first entry"},
        Refusal{"http.cors.allow_credentials = true",
                "http.cors.allow_credentials = true: must be"},
        Refusal{"http.cors = { allow_credentials = true, allowed_origins = [], "
                "exposed_headers = [\"*\"] }",
                "http.cors.allow_credentials"},
        Refusal{"http.jwt.algorithm = \"RS256\"", "must be HS256, HS384 or HS512"},
        Refusal{"http.jwt.access_token_expiry = \"default\"", "must be a duration or never_expire"},
        Refusal{"http.jwt.trusted_issuers = [{ user_id = 1 }]",
                "http.jwt.trusted_issuers[0].issuer = \"\": must not be empty (from test.toml)"},
        Refusal{"http.jwt.trusted_issuers = [{ issuer = \"i\" }]", "[0].audience"},
        Refusal{"http.jwt.trusted_issuers = [{ issuer = \"i\", audience = \"a\" }]",
                "[0].jwks_url"},
        Refusal{
            "http.jwt.trusted_issuers = [{ issuer = \"i\", audience = \"a\", jwks_url = \"u\" }]",
            "[0].user_id = 0: must be"},
        Refusal{
            "http.metrics.endpoint = \"metrics\"",
            "config: http.metrics.endpoint = \"metrics\": must start with '/' (from test.toml)"},
        Refusal{"http.tls = { enabled = true, cert_file = \"\" }", "http.tls.cert_file"},
        Refusal{"http.tls = { enabled = true, key_file = \"\" }", "http.tls.key_file"},
        Refusal{"quic.max_concurrent_bidi_streams = 0", "must be in 1..=4294967295"},
        Refusal{"quic.max_concurrent_bidi_streams = 4294967296", "must be in 1..=4294967295"},
        Refusal{"quic.initial_mtu = 1199", "at least 1.2 KB"},
        Refusal{"quic.initial_mtu = 65536", "quic.initial_mtu"},
        Refusal{"quic.send_window = \"4096 PiB\"", "quic.send_window"},
        Refusal{"quic.receive_window = \"4 GiB\"", "quic.receive_window"},
        Refusal{"quic.stream_receive_window = 0", "more than 0"},
        Refusal{"quic.stream_receive_window = \"65 MiB\"", "must be at most quic.receive_window"},
        Refusal{"quic.certificate.self_signed = false", "quic.certificate.cert_file"},
        Refusal{"quic.certificate = { self_signed = false, cert_file = \"c\" }",
                "quic.certificate.key_file"},
        Refusal{"websocket.read_buffer_size = 0", "websocket.read_buffer_size = \"0 B\": must be"},
        Refusal{"websocket.write_buffer_size = 0", "must be more than 0"},
        Refusal{"websocket.max_write_buffer_size = \"unlimited\"", "must be more than 0"},
        Refusal{"websocket.max_write_buffer_size = \"128 KiB\"",
                "must be more than websocket.write"},
        Refusal{"websocket = { write_buffer_size = 10, max_write_buffer_size = 10 }", "10 B"},
        Refusal{"websocket.max_message_size = \"65 MiB\"", "message_bus.max_message_size, 64 MiB"},
        Refusal{"websocket.max_frame_size = \"65 MiB\"", "message_bus.max_message_size, 64 MiB"},
        Refusal{"websocket = { max_frame_size = 20, max_message_size = 10 }",
                "must be at most websocket.max_message_size"},
        Refusal{"personal_access_token.max_tokens_per_user = 0", "must be in 1..=4294967295"},
        Refusal{"personal_access_token.cleaner.interval = \"0\"", "personal_access_token.cleaner"},
        Refusal{"heartbeat.interval = \"0\"", "heartbeat.interval"}));

INSTANTIATE_TEST_SUITE_P(
    System, ConfigRules,
    testing::Values(
        Refusal{"system.path = \"\"", "system.path"},
        Refusal{"system.logging.level = \" \"", "system.logging.level"},
        Refusal{"system.logging.max_total_size = \"1 MB\"",
                "at least system.logging.max_file_size"},
        Refusal{"system.logging.rotation_check_interval = \"999ms\"", "must be at least 1s"},
        Refusal{"system.logging.retention = \"0\"", "must be at least 1s"},
        Refusal{"system.encryption = { enabled = true, key = \"abc\" }",
                "system.encryption.key = \"******\": must be base64 of 32 bytes"},
        Refusal{"system.encryption.enabled = true", "system.encryption.key"},
        Refusal{"system.encryption = { enabled = true, "
                "key = \"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MD-=\" }",
                "system.encryption.key = \"******\": must be base64 of 32 bytes"},
        Refusal{"system.segment.archive_expired = true", "must be false"},
        Refusal{"system.recovery.recreate_missing_state = true", "must be false"},
        Refusal{"system.memory_pool.size = \"511 MiB\"", "must be at least 512 MiB"},
        Refusal{"system.memory_pool.size = 536870913", "must be a multiple of 4096"},
        Refusal{"system.memory_pool.size = \"2 TiB\"", "1 TiB"},
        Refusal{"system.memory_pool = { enabled = false, size = 0 }", "must be at least 512 MiB"},
        Refusal{"system.memory_pool = { enabled = false, size = 536870913 }",
                "must be a multiple of 4096"},
        Refusal{"system.memory_pool = { enabled = false, bucket_capacity = 1 }", "in 128..="},
        Refusal{"system.memory_pool = { enabled = false, bucket_capacity = 129 }",
                "must be a power of two"},
        Refusal{"system.memory_pool.bucket_capacity = 64", "must be in 128..="},
        Refusal{"system.memory_pool.bucket_capacity = 129", "must be a power of two"},
        Refusal{"system.sharding.inbox_capacity = 0", "must be in 1..=1048576"},
        Refusal{"system.sharding.reply_inbox_capacity = 1048577", "must be in 1..=1048576"},
        Refusal{"system.sharding.shutdown_drain_timeout = \"0\"", "shutdown_drain_timeout"},
        Refusal{"system.sharding.shutdown_drain_timeout = \"601 s\"", "at most 10m"},
        Refusal{"system.sharding.shutdown_poll_interval = \"0\"", "shutdown_poll_interval"},
        Refusal{"system.sharding.shutdown_poll_interval = \"6 s\"", "at most 5s"},
        Refusal{"system.sharding = { shutdown_poll_interval = \"2s\", "
                "shutdown_drain_timeout = \"1s\" }",
                "must be at most system.sharding.shutdown_drain_timeout"},
        Refusal{"system.sharding.shutdown_join_timeout = \"9s\"",
                "must be at least system.sharding"},
        Refusal{"system.sharding.shutdown_join_timeout = \"901s\"", "must be at most 15m"},
        Refusal{"system.sharding.reconcile_periodic_interval = \"0\"",
                "reconcile_periodic_interval"},
        Refusal{"system.sharding.reconcile_periodic_interval = \"31s\"", "at most 30s"},
        Refusal{"system.sharding.busy_poll = \"2s\"", "must be at most 1s"},
        Refusal{"metadata.prepare_queue_depth = 0", "must be in 1..=127"},
        Refusal{"metadata.prepare_queue_depth = 128", "must be in 1..=127"},
        Refusal{"metadata.journal_slots = 1048577", "must be at most 1048576"},
        Refusal{"metadata.journal_slots = 255", "must be at least 256"},
        Refusal{"metadata = { journal_slots = 399, prepare_queue_depth = 100 }", "at least 400"},
        Refusal{"metadata.clients_table_max = 1", "must be in 2..=65536"},
        Refusal{"partition.prepare_queue_depth = 0", "must be in 1..=127"},
        Refusal{"partition.evicted_ring_capacity = 65537", "must be in 1..=65536"},
        Refusal{"partition.evicted_ring_bytes_max = \"257 MiB\"", "at most 256 MiB"},
        Refusal{"partition.transfer_served_cache_bytes_max = 0", "at most 64 GiB"},
        Refusal{"partition.transfer_artifact_bytes_max = \"65 GiB\"", "at most 64 GiB"},
        Refusal{"partition.transfer_artifact_bytes_max = \"1087 MiB\"", "1088 MiB"},
        Refusal{"partition.consumer_offsets_max = 0", "must be in 1..="},
        Refusal{"message_bus.max_batch = 513", "must be in 1..=512"},
        Refusal{"message_bus.max_message_size = 257", "at least 64 KiB"},
        Refusal{"message_bus.max_message_size = 65535", "at least 64 KiB"},
        Refusal{"message_bus.max_message_size = \"257 MiB\"", "at most 256 MiB"},
        Refusal{"message_bus.peer_queue_capacity = 128",
                "must be more than cluster.repair_chunk_max"},
        Refusal{"message_bus.reconnect_period = \"0\"", "message_bus.reconnect_period"},
        Refusal{"message_bus.close_peer_timeout = \"0\"", "message_bus.close_peer_timeout"},
        Refusal{"message_bus.close_grace = \"0\"", "message_bus.close_grace"},
        Refusal{"message_bus.handshake_grace = \"0\"", "message_bus.handshake_grace"}));

INSTANTIATE_TEST_SUITE_P(
    ClusterAndTelemetry, ConfigRules,
    testing::Values(
        Refusal{"cluster = { enabled = true, heartbeat_timeout = \"1s\" }", "at least 2s"},
        Refusal{"cluster = { enabled = true, heartbeat_timeout = \"2s\", "
                "commit_broadcast_interval = \"600ms\" }",
                "at least 4 times cluster.commit_broadcast_interval"},
        Refusal{"cluster = { enabled = true, commit_broadcast_interval = \"0\" }",
                "cluster.commit_broadcast_interval"},
        Refusal{"cluster = { enabled = true, prepare_retransmit_interval = \"0\" }",
                "cluster.prepare_retransmit_interval"},
        Refusal{"cluster = { enabled = true, view_change_retransmit_interval = \"0\" }",
                "cluster.view_change_retransmit_interval"},
        Refusal{"cluster = { enabled = true, view_change_status_timeout = \"1s\" }",
                "at least 4 times cluster.view_change_retransmit_interval"},
        Refusal{"cluster = { enabled = true, request_start_view_retransmit_interval = \"0\" }",
                "cluster.request_start_view_retransmit_interval"},
        Refusal{"cluster = { enabled = true, view_probe_attempts_max = 101 }", "in 1..=100"},
        Refusal{"cluster = { enabled = true, repair_retry_interval = \"0\" }",
                "cluster.repair_retry_interval"},
        Refusal{"cluster = { enabled = true, name = \" \" }", "cluster.name"},
        Refusal{"cluster.repair_chunk_max = 0", "in 1..=1024"},
        Refusal{"cluster.repair_chunk_max = 1025", "in 1..=1024"},
        Refusal{"cluster.superblock_wedged_fatal_timeout = \"29s\"", "must be 0 or at least 30s"},
        Refusal{"cluster.auth.enabled = true", "at least 32 bytes"},
        Refusal{"cluster.auth.shared_secret = \"short\"", "\"******\": must have at least 32"},
        Refusal{"cluster.auth.previous_shared_secret = \"short\"", "at least 32 bytes"},
        Refusal{"cluster.auth = { shared_secret = \"01234567890123456789012345678901\", "
                "previous_shared_secret = \"01234567890123456789012345678901\" }",
                "must differ from"},
        Refusal{"cluster.tls.enabled = true", "needs cluster.auth.enabled"},
        Refusal{"cluster.tls.enabled = true\n[cluster.auth]\nenabled = true\n"
                "shared_secret = \"01234567890123456789012345678901\"",
                "cluster.tls.cert_file"},
        Refusal{"cluster.enabled = true", "cluster.nodes = [...]: must have 1..=255 entries"},
        Refusal{"cluster = { enabled = true, nodes = [{ name = \"a\" }] }", "cluster.nodes[0].ip"},
        Refusal{
            "cluster = { enabled = true, nodes = [{ name = \"a\", ip = \"x\", replica_id = 1 }] }",
            "cluster.nodes[0].replica_id = 1"},
        Refusal{"cluster = { enabled = true, nodes = [{ name = \"a\", ip = \"x\" }] }",
                "cluster.nodes[0].ports.tcp = unset: must be set"},
        Refusal{
            "cluster = { enabled = true, nodes = [{ name = \"a\", ip = \"x\", ports = { tcp = 0 } "
            "}] }",
            "cluster.nodes[0].ports.tcp = 0"},
        Refusal{"cluster = { enabled = true, nodes = [{ name = \"a\", ip = \"x\", "
                "ports = { tcp = 1, quic = 1 } }] }",
                "cluster.nodes[0].ports.quic = 1: must be used once"},
        Refusal{"cluster = { enabled = true, nodes = [{ name = \"a\", ip = \"x\", ports = "
                "{ tcp = 1, quic = 2, http = 3, websocket = 4, tcp_replica = 5 } }] }",
                "cluster.enabled = true: not available in this version"},
        Refusal{"telemetry.logs.transport = \"udp\"", "must be grpc or http"},
        Refusal{"telemetry.traces.transport = \"udp\"", "must be grpc or http"},
        Refusal{"telemetry = { enabled = true, service_name = \"\" }", "telemetry.service_name"},
        Refusal{"telemetry = { enabled = true, logs.endpoint = \"\" }", "telemetry.logs.endpoint"},
        Refusal{"telemetry = { enabled = true, traces.endpoint = \"\" }", "telemetry.traces.end"},
        Refusal{"telemetry.enabled = true", "not available in this version"},
        Refusal{"tcp.tls.enabled = true",
                "tcp.tls.enabled = true: not available in this version (from test.toml)"},
        Refusal{"http.tls.enabled = true", "http.tls.enabled = true: not available"},
        Refusal{"websocket.tls.enabled = true", "not available in this version"}));

TEST(ConfigRulesThatDoNotApply, LetTheValuePass) {
    for (const char* toml :
         {"data_maintenance.messages = { cleaner_enabled = false, interval = \"0\" }",
          "heartbeat = { enabled = false, interval = \"0\" }",
          "personal_access_token.cleaner = { enabled = false, interval = \"0\" }",
          "http = { enabled = false, jwt.algorithm = \"RS256\", address = \"x\" }",
          "quic = { enabled = false, address = \"\", certificate.self_signed = false }",
          "system.logging.max_total_size = 0", "cluster.heartbeat_timeout = \"1s\"",
          "cluster.superblock_wedged_fatal_timeout = \"0\"", "quic.keep_alive_interval = 0",
          "tcp.address = \"[::1]:0\"", "message_bus.max_message_size = 65536"}) {
        EXPECT_EQ(fault_of(toml), "no fault") << toml;
    }
}

TEST(ConfigWarnings, OneLineNamesWhatIsSetAndNotActedUpon) {
    const auto loaded = load(R"(
[heartbeat]
enabled = true
interval = "7s"
[system.stream]
path = "streams"
[http]
web_ui = true
[http.jwt]
encoding_secret = "hush-hush"
[tcp]
address = "127.0.0.1:1"
)",
                             {{"IGGY_MESSAGE_BUS_MAX_BATCH", "12"},
                              {"IGGY_PERSONAL_ACCESS_TOKEN_CLEANER_ENABLED", "false"},
                              {"IGGY_SYSTEM_TOPIC_PATH", ""}});
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    // In the order of the table; what is set to its default, or by nobody, is not named.
    EXPECT_THAT(loaded->warnings,
                ElementsAre("config: not yet acted upon in this version: "
                            "heartbeat.interval, http.web_ui, http.jwt.encoding_secret, "
                            "message_bus.max_batch"));
}

TEST(ConfigWarnings, TheLineOfWhatIsNotActedUponFitsIntoTheLog) {
    Environment environment;
    for (const detail::Property& property : detail::properties()) {
        if (property.field.is_acted_upon || property.kind != detail::Kind::kDuration) {
            continue;
        }
        // Within all bounds, the relations between the shutdown times included.
        const bool is_join = property.key == "system.sharding.shutdown_join_timeout";
        environment.emplace_back(detail::variable_name(property.key), is_join ? "20s" : "3s");
    }
    for (const char* name :
         {"IGGY_SYSTEM_STREAM_PATH", "IGGY_SYSTEM_TOPIC_PATH", "IGGY_SYSTEM_PARTITION_PATH",
          "IGGY_HTTP_JWT_ISSUER", "IGGY_HTTP_JWT_AUDIENCE", "IGGY_HTTP_JWT_ENCODING_SECRET",
          "IGGY_HTTP_JWT_DECODING_SECRET"}) {
        environment.emplace_back(name, "other");
    }
    for (const char* name :
         {"IGGY_METADATA_JOURNAL_SLOTS", "IGGY_PARTITION_EVICTED_RING_CAPACITY",
          "IGGY_PARTITION_EVICTED_RING_BYTES_MAX", "IGGY_MESSAGE_BUS_PEER_QUEUE_CAPACITY",
          "IGGY_PERSONAL_ACCESS_TOKEN_MAX_TOKENS_PER_USER",
          "IGGY_SYSTEM_SHARDING_REPLY_INBOX_CAPACITY",
          "IGGY_PARTITION_TRANSFER_SERVED_CACHE_BYTES_MAX"}) {
        environment.emplace_back(name, "2000");
    }
    const auto loaded = load("", environment);
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    ASSERT_THAT(loaded->warnings, SizeIs(1));
    EXPECT_LT(loaded->warnings[0].size(), 700U);
    EXPECT_THAT(loaded->warnings[0], testing::EndsWith(" more"));
}

TEST(ConfigWarnings, ThePoolCannotBeSwitchedOff) {
    const auto loaded = load("system.memory_pool.enabled = false");
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    EXPECT_FALSE(loaded->config.system.memory_pool.enabled);
    EXPECT_THAT(loaded->warnings,
                ElementsAre(HasSubstr("system.memory_pool.enabled = false has no effect")));
}

TEST(ConfigEnvironment, OverridesTheFileByTheTypeOfTheProperty) {
    const auto loaded = load("tcp.address = \"1.1.1.1:1\"\nhttp.web_ui = false",
                             {{"IGGY_TCP_ADDRESS", "2.2.2.2:2"},
                              {"IGGY_HTTP_WEB_UI", "TRUE"},
                              {"IGGY_MESSAGE_BUS_MAX_BATCH", "12"},
                              {"IGGY_SYSTEM_MEMORY_POOL_SIZE", "1 GiB"},
                              {"IGGY_HTTP_MAX_REQUEST_SIZE", "5000"},
                              {"IGGY_HEARTBEAT_INTERVAL", "7 s"},
                              {"IGGY_SYSTEM_SHARDING_CPU_ALLOCATION", "3"},
                              {"IGGY_HTTP_JWT_ENCODING_SECRET", "123456"},
                              {"IGGY_HTTP_JWT_ISSUER", "true"},
                              {"IGGY_HTTP_JWT_AUDIENCE", "1e5"},
                              {"IGGY_HTTP_CORS_ALLOWED_HEADERS", "[a, \"b, c\", d]"},
                              {"IGGY_HTTP_CORS_EXPOSED_HEADERS", "[]"},
                              {"IGGY_QUIC_ADDRESS", ""},
                              {"PATH", "/bin"}});
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    const Config& config = loaded->config;
    EXPECT_EQ(config.tcp.address, "2.2.2.2:2");
    EXPECT_TRUE(config.http.web_ui);
    EXPECT_EQ(config.message_bus.max_batch, 12U);
    EXPECT_EQ(config.system.memory_pool.size, kGiBytes);
    EXPECT_EQ(config.http.max_request_size, 5000U);
    EXPECT_EQ(config.heartbeat.interval_ns, 7 * kSec);
    EXPECT_EQ(config.system.sharding.cpu_allocation, CPUAllocation(CPUCount{3}));
    EXPECT_EQ(config.http.jwt.encoding_secret, "123456");
    EXPECT_EQ(config.http.jwt.issuer, "true");
    EXPECT_EQ(config.http.jwt.audience, "1e5");
    EXPECT_THAT(config.http.cors.allowed_headers, ElementsAre("a", "b, c", "d"));
    EXPECT_THAT(config.http.cors.exposed_headers, IsEmpty());
    EXPECT_EQ(config.quic.address, "127.0.0.1:8080");
    EXPECT_THAT(loaded->warnings, ElementsAre(HasSubstr("not yet acted upon")));
}

TEST(ConfigEnvironment, BadValuesNameTheVariable) {
    EXPECT_EQ(fault_of("", {{"IGGY_HTTP_ENABLED", "maybe"}}),
              "config: http.enabled = \"maybe\": must be true or false (from IGGY_HTTP_ENABLED)");
    EXPECT_THAT(fault_of("", {{"IGGY_METADATA_CLIENTS_TABLE_MAX", "1"}}),
                HasSubstr("(from IGGY_METADATA_CLIENTS_TABLE_MAX)"));
    EXPECT_THAT(fault_of("", {{"IGGY_MESSAGE_BUS_MAX_BATCH", "many"}}), HasSubstr("whole number"));
    EXPECT_THAT(fault_of("", {{"IGGY_HTTP_CORS_ALLOWED_METHODS", "GET"}}), HasSubstr("list"));
    EXPECT_THAT(fault_of("", {{"IGGY_HTTP_CORS_ALLOWED_METHODS", "[\"GET]"}}), HasSubstr("list"));
}

TEST(ConfigEnvironment, RelocatedNamesRefuse) {
    EXPECT_THAT(fault_of("", {{"IGGY_SYSTEM_SEGMENT_SIZE", "1 GiB"}}),
                HasSubstr("use the topic option segment_size (from IGGY_SYSTEM_SEGMENT_SIZE)"));
    EXPECT_THAT(fault_of("", {{"IGGY_SYSTEM_MESSAGE_DEDUPLICATION_ENABLED", "true"}}),
                HasSubstr("removed"));
    EXPECT_THAT(fault_of("", {{"IGGY_EXTRA_X", "1"}}), HasSubstr("extra"));
    EXPECT_EQ(fault_of("", {{"IGGY_SYSTEM_SEGMENT_SIZE", ""}}), "no fault");
    EXPECT_EQ(fault_of("", {{"IGGY_EXTRAORDINARY", "1"}}), "no fault");
}

TEST(ConfigEnvironment, ArraysOfTablesReplaceThoseOfTheFile) {
    const auto loaded =
        load("[[cluster.nodes]]\nname = \"file\"\n[[cluster.nodes]]\nname = \"file2\"\n",
             {{"IGGY_CLUSTER_NODES_1_NAME", "b"},
              {"IGGY_CLUSTER_NODES_1_PORTS_TCP_REPLICA", "99"},
              {"IGGY_CLUSTER_NODES_1_ADVERTISED_ADDRESSES_0_CLIENT_CIDR", "10.0.0.0/8"},
              {"IGGY_CLUSTER_NODES_1_ADVERTISED_ADDRESSES_0_ADDRESS", "x"},
              {"IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_ISSUER", "1"},
              {"IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_AUDIENCE", "a"},
              {"IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_JWKS_URL", "u"},
              {"IGGY_HTTP_JWT_TRUSTED_ISSUERS_0_USER_ID", "7"}});
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    EXPECT_THAT(loaded->warnings, ElementsAre(HasSubstr("upon in this version: http.jwt.trusted_"
                                                        "issuers")));
    const auto& nodes = loaded->config.cluster.nodes;
    ASSERT_THAT(nodes, SizeIs(2));
    EXPECT_EQ(nodes[0], ClusterNode{});  // a gap is an empty table
    EXPECT_EQ(nodes[1].name, "b");
    EXPECT_EQ(nodes[1].tcp_replica_port, 99U);
    ASSERT_THAT(nodes[1].advertised_addresses, SizeIs(1));
    EXPECT_EQ(nodes[1].advertised_addresses[0].address, "x");
    EXPECT_EQ(loaded->config.http.jwt.trusted_issuers[0].issuer, "1");
    EXPECT_EQ(loaded->config.http.jwt.trusted_issuers[0].user_id, 7U);
}

TEST(ConfigEnvironment, UnknownNamesWarnKnownOutsidersDoNot) {
    const auto loaded = load("", {{"IGGY_TCP_ADRESS", "x"},
                                  {"IGGY_CLUSTER_NODES_256_NAME", "x"},
                                  {"IGGY_ROOT_USERNAME", "iggy"},
                                  {"IGGY_ROOT_PASSWORD", "iggy"},
                                  {"IGGY_CONFIG_PATH", "x"},
                                  {"IGGY_ENV_PATH", "x"},
                                  {"IGGY_DISPLAY_CONFIG", "1"}});
    ASSERT_TRUE(loaded);
    ASSERT_THAT(loaded->warnings, SizeIs(2));
    EXPECT_THAT(loaded->warnings[0], HasSubstr("did you mean IGGY_TCP_ADDRESS"));
    EXPECT_LE(std::ranges::count(loaded->warnings[0], ','), 1);  // three names at most
    EXPECT_THAT(loaded->warnings[1], HasSubstr("IGGY_CLUSTER_NODES_256_NAME"));
}

TEST(ConfigEnvironment, RuntimeKnobsFallBack) {
    auto loaded =
        load("", {{"IGGY_SHARD_RUNTIME_CAPACITY", "512"}, {"IGGY_SHARD_EVENT_INTERVAL", "64"}});
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->config.runtime.ring_capacity, 512U);
    EXPECT_EQ(loaded->config.runtime.event_interval, 64U);
    loaded = load("", {{"IGGY_SHARD_RUNTIME_CAPACITY", "32768"},
                       {"IGGY_SHARD_EVENT_INTERVAL", "4294967295"}});
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->config.runtime.ring_capacity, 32'768U);
    EXPECT_EQ(loaded->config.runtime.event_interval, 4'294'967'295U);
    EXPECT_THAT(loaded->warnings, IsEmpty());
    // More than the kernel takes is no reason to refuse a start, like every bad value of these two.
    loaded = load("", {{"IGGY_SHARD_RUNTIME_CAPACITY", "32769"}});
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->config.runtime, RuntimeConfig{});
    EXPECT_THAT(loaded->warnings, ElementsAre(HasSubstr("must be in 1..=32768; 4096 is used")));
    loaded = load("", {{"IGGY_SHARD_RUNTIME_CAPACITY", "x"}, {"IGGY_SHARD_EVENT_INTERVAL", "0"}});
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->config.runtime, RuntimeConfig{});
    EXPECT_THAT(loaded->warnings, SizeIs(2));
}

TEST(ConfigRootCredentials, AreBothOrNeither) {
    EXPECT_FALSE(root_credentials({})->has_value());
    const auto both =
        root_credentials({{"IGGY_ROOT_USERNAME", "abc"}, {"IGGY_ROOT_PASSWORD", "def"}});
    ASSERT_TRUE(both && both->has_value());
    EXPECT_EQ((*both)->password, "def");
    EXPECT_FALSE(root_credentials({{"IGGY_ROOT_USERNAME", "abc"}}));
    EXPECT_FALSE(root_credentials({{"IGGY_ROOT_USERNAME", "ab"}, {"IGGY_ROOT_PASSWORD", "def"}}));
    EXPECT_FALSE(root_credentials(
        {{"IGGY_ROOT_USERNAME", "abc"}, {"IGGY_ROOT_PASSWORD", std::string(101, 'x')}}));
}

class ConfigFiles : public testing::Test {
 protected:
    void SetUp() override {
        std::string name =
            (std::filesystem::temp_directory_path() / "galgo_config_XXXXXX").string();
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        directory_ = name;
        options_ = {.working_directory = name, .system_file = name + "/etc.toml"};
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }
    void write(const std::string& name, std::string_view text) const {
        std::ofstream(directory_ / name) << text;
    }

    std::filesystem::path directory_;
    LoadOptions options_;
};

TEST_F(ConfigFiles, AreLookedUpInOrder) {
    auto loaded = load_config({}, options_);
    ASSERT_TRUE(loaded);
    EXPECT_EQ(loaded->source_path, "");
    write("etc.toml", "tcp.address = \"127.0.0.1:1\"");
    EXPECT_EQ(load_config({}, options_)->config.tcp.address, "127.0.0.1:1");
    write("galgo.toml", "tcp.address = \"127.0.0.1:2\"");
    EXPECT_EQ(load_config({}, options_)->config.tcp.address, "127.0.0.1:2");
    write("own.toml", "tcp.address = \"127.0.0.1:3\"");
    loaded = load_config({{"IGGY_CONFIG_PATH", "own.toml"}}, options_);
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    EXPECT_EQ(loaded->config.tcp.address, "127.0.0.1:3");
    EXPECT_THAT(loaded->source_path, HasSubstr("own.toml"));
    // A relative path is searched in the parents too.
    std::filesystem::create_directories(directory_ / "a" / "b");
    loaded = load_config({{"IGGY_CONFIG_PATH", "own.toml"}},
                         {.working_directory = (directory_ / "a" / "b").string()});
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    EXPECT_EQ(loaded->config.tcp.address, "127.0.0.1:3");
}

TEST_F(ConfigFiles, NamedButMissingRefuses) {
    const auto missing = load_config({{"IGGY_CONFIG_PATH", "/nonexistent/x.toml"}}, options_);
    ASSERT_FALSE(missing);
    EXPECT_THAT(missing.error().one_line,
                HasSubstr("/nonexistent/x.toml\": there is no such file"));
    EXPECT_FALSE(load_config({{"IGGY_CONFIG_PATH", directory_.string()}}, options_));
}

TEST_F(ConfigFiles, DotenvCompletesTheEnvironment) {
    write(".env", "# comment\nA=1\nexport B=\"two words\"\nC='x'\r\nbad line\n1 X=2\nA=3\n");
    Environment environment{{"C", "kept"}};
    EXPECT_EQ(merge_dotenv(environment, directory_.string()), (directory_ / ".env").string());
    EXPECT_EQ(find_variable(environment, "A"), "1");
    EXPECT_EQ(find_variable(environment, "B"), "two words");
    EXPECT_EQ(find_variable(environment, "C"), "kept");
    EXPECT_THAT(environment, SizeIs(3));
    Environment named{{"IGGY_ENV_PATH", "/nonexistent"}};
    EXPECT_EQ(merge_dotenv(named, directory_.string()), "");
}

TEST(ConfigPrint, RoundTrips) {
    const auto loaded = load(R"(
[system.sharding]
cpu_allocation = 1
busy_poll = "17us"
[websocket]
max_frame_size = 1234567
[http.jwt]
access_token_expiry = "2h"
[tcp]
address = "127.0.0.1:0"
[system]
path = "with \"quotes\" and \\ and \t"
[http.cors]
exposed_headers = []
[[http.jwt.trusted_issuers]]
issuer = "i"
audience = "a"
jwks_url = "u"
user_id = 1
[[cluster.nodes]]
name = "n"
ip = "10.0.0.1"
ports = { tcp = 1 }
advertised_addresses = [{ client_cidr = "10.0.0.0/8", address = "x" }, { client_cidr = "c" }]
)");
    ASSERT_TRUE(loaded) << loaded.error().one_line;
    const std::string text = print_config(loaded->config);
    EXPECT_TRUE(
        text.starts_with("[consumer_group]\nrebalancing_timeout = \"30s\"\n\n"
                         "[data_maintenance.messages]\n"))
        << text;
    EXPECT_THAT(text, HasSubstr("\n[tcp]\nenabled = true\naddress = \"127.0.0.1:0\"\n"));
    EXPECT_THAT(text, HasSubstr("\ncpu_allocation = 1\n"));
    EXPECT_THAT(text, HasSubstr("\nretention = \"7days\"\n"));
    EXPECT_THAT(text, HasSubstr("\nmax_file_size = \"500 MB\"\n"));
    EXPECT_THAT(text, HasSubstr("\ninitial_mtu = \"1.2 KB\"\n"));
    EXPECT_THAT(text, Not(HasSubstr("read_buffer_size")));
    const auto again = load(text);
    ASSERT_TRUE(again) << again.error().one_line << "\n" << text;
    EXPECT_EQ(again->config, loaded->config);
    EXPECT_THAT(again->warnings, ElementsAre("config: not yet acted upon in this version: "
                                             "http.jwt.access_token_expiry, "
                                             "http.jwt.trusted_issuers"));
}

TEST(ConfigPrint, OmitsSecrets) {
    Config config = default_config();
    config.http.jwt.encoding_secret = "hush-hush";
    config.cluster.auth_shared_secret = "hush-hush";
    const std::string text = print_config(config);
    EXPECT_THAT(text, Not(HasSubstr("hush-hush")));
    EXPECT_THAT(text, Not(HasSubstr("secret = \"")));
}

TEST(ConfigPrint, ReferenceNamesEveryKey) {
    const std::string page = print_reference();
    for (const detail::Property& property : detail::properties()) {
        EXPECT_THAT(page, HasSubstr("`" + std::string(property.key) + "`"));
    }
    EXPECT_THAT(page, HasSubstr("Close connections that fall silent. Not yet acted upon. |\n"));
    EXPECT_THAT(page, HasSubstr("| IP address and port; port 0 picks one. |\n"));
}

TEST(ConfigFormat, Sizes) {
    for (const auto& [bytes, text] : std::initializer_list<std::pair<std::uint64_t, const char*>>{
             {0, "0 B"},
             {1, "1 B"},
             {999, "999 B"},
             {1000, "1 KB"},
             {1024, "1 KiB"},
             {1200, "1.2 KB"},
             {1250, "1.25 KB"},
             {1234, "1234 B"},
             {4 * kGiBytes, "4 GiB"},
             {4'000'000'000, "4 GB"},
             {1088ULL << 20, "1088 MiB"},
             {18'446'744'073'709'551'615ULL, "18446744073709551615 B"}}) {
        EXPECT_EQ(format_byte_size(bytes), text);
    }
}

TEST(ConfigFormat, Durations) {
    for (const auto& [ns, text] :
         std::initializer_list<std::pair<std::uint64_t, const char*>>{{0, "0s"},
                                                                      {1, "1ns"},
                                                                      {30'000, "30us"},
                                                                      {50'000'000, "50ms"},
                                                                      {60 * kSec, "1m"},
                                                                      {5400 * kSec, "1h 30m"},
                                                                      {86'400 * kSec, "1day"},
                                                                      {7 * 86'400 * kSec, "7days"},
                                                                      {31'557'600 * kSec, "1year"},
                                                                      {kSec + 1, "1s 1ns"}}) {
        EXPECT_EQ(format_duration(ns), text);
    }
}

TEST(CPUAllocationText, ParsesAndRefuses) {
    EXPECT_EQ(parse_cpu_allocation("all"), CPUAllocation(AllCPUs{}));
    EXPECT_EQ(parse_cpu_allocation("numa:auto"), CPUAllocation(NUMAAuto{}));
    EXPECT_EQ(parse_cpu_allocation("16"), CPUAllocation(CPUCount{16}));
    for (const char* text : {"", "0", "-1", " 1", "1 ", "ALL", "0..4", "numa:", "numa:nodes=0,1",
                             "numa:cores=2;no_ht=true", "65535", "99999999999"}) {
        const auto parsed = parse_cpu_allocation(text);
        ASSERT_FALSE(parsed) << text;
        EXPECT_THAT(parsed.error(), HasSubstr("numa:auto"));
    }
    EXPECT_EQ(cpu_allocation_literal(AllCPUs{}), "\"all\"");
    EXPECT_EQ(cpu_allocation_literal(NUMAAuto{}), "\"numa:auto\"");
    EXPECT_EQ(cpu_allocation_literal(CPUCount{4}), "4");
}

CPUTopology four_threads_on_two_cores() {
    return {.allowed_cpus = {3, 1, 2, 0},
            .available_parallelism = 4,
            .locations = {{0, 0, 0}, {1, 1, 0}, {2, 0, 0}, {3, 1, 0}}};
}

TEST(CPUAllocationResolve, CountsAndCores) {
    const CPUTopology topology = four_threads_on_two_cores();
    EXPECT_THAT(*resolve_cpus(AllCPUs{}, topology), ElementsAre(0, 1, 2, 3));
    EXPECT_THAT(*resolve_cpus(CPUCount{3}, topology), ElementsAre(0, 1, 2));
    EXPECT_THAT(*resolve_cpus(NUMAAuto{}, topology), ElementsAre(0, 1));
    EXPECT_THAT(resolve_cpus(CPUCount{5}, topology).error(), HasSubstr("4 CPUs"));
}

TEST(CPUAllocationResolve, MindsMaskQuotaAndNodes) {
    CPUTopology topology = four_threads_on_two_cores();
    topology.allowed_cpus = {2, 3};
    EXPECT_THAT(*resolve_cpus(NUMAAuto{}, topology), ElementsAre(2, 3));
    EXPECT_THAT(*resolve_cpus(AllCPUs{}, topology), ElementsAre(2, 3));
    EXPECT_FALSE(resolve_cpus(CPUCount{3}, topology));
    topology.available_parallelism = 1;
    EXPECT_THAT(*resolve_cpus(AllCPUs{}, topology), ElementsAre(2));
    EXPECT_THAT(*resolve_cpus(NUMAAuto{}, topology), ElementsAre(2));
    topology = four_threads_on_two_cores();
    topology.allowed_cpus = {0, 2};
    EXPECT_THAT(*resolve_cpus(NUMAAuto{}, topology), ElementsAre(0));
    topology.allowed_cpus = {};
    EXPECT_FALSE(resolve_cpus(AllCPUs{}, topology));
    EXPECT_THAT(*resolve_cpus(NUMAAuto{}, {.allowed_cpus = {5, 6}, .available_parallelism = 2}),
                ElementsAre(5, 6));
}

TEST(CPUAllocationResolve, TwoNodesGiveOneShardACoreAndAWarning) {
    CPUTopology topology = four_threads_on_two_cores();
    topology.locations[1].node = 1;  // CPUs 1 and 3 are the core of a second socket
    topology.locations[3].node = 1;
    auto cpus = resolve_cpus(NUMAAuto{}, topology);
    ASSERT_TRUE(cpus.has_value()) << cpus.error();
    EXPECT_THAT(*cpus, ElementsAre(0, 1));
    const auto warning = numa_warning(NUMAAuto{}, *cpus, topology);
    ASSERT_TRUE(warning.has_value());
    EXPECT_THAT(*warning, HasSubstr("2 shards are spread over 2 NUMA nodes"));
    EXPECT_EQ(warning->find('\n'), std::string::npos);
    EXPECT_FALSE(numa_warning(AllCPUs{}, {0, 1, 2, 3}, topology).has_value());
    EXPECT_FALSE(numa_warning(CPUCount{2}, {0, 1}, topology).has_value());
    // A mask or a quota that leaves one node leaves nothing to say.
    topology.allowed_cpus = {1, 3};
    cpus = resolve_cpus(NUMAAuto{}, topology);
    ASSERT_TRUE(cpus.has_value()) << cpus.error();
    EXPECT_THAT(*cpus, ElementsAre(1));
    EXPECT_FALSE(numa_warning(NUMAAuto{}, *cpus, topology).has_value());
    topology = {.allowed_cpus = {5, 6}, .available_parallelism = 2};
    EXPECT_FALSE(numa_warning(NUMAAuto{}, {5, 6}, topology).has_value());
}

TEST(CPUTopologyOfThisMachine, GivesAtLeastOneShard) {
    const CPUTopology topology = read_cpu_topology();
    ASSERT_FALSE(topology.allowed_cpus.empty());
    EXPECT_GE(topology.available_parallelism, 1U);
    EXPECT_TRUE(resolve_cpus(AllCPUs{}, topology));
}

}  // namespace
}  // namespace galgo::config

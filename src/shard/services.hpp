// What a handler may use: the published metadata, the router, the offload thread, and facts of this
// node. One per shard, built by Shard; references stay valid for the shard's life.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/loop.hpp"
#include "runtime/offload.hpp"
#include "shard/disk_room.hpp"
#include "shard/metadata_store.hpp"
#include "shard/router.hpp"
#include "shard/session.hpp"
#include "wire/replies.hpp"

namespace galgo::shard {

/// Facts of the process that replies show. Filled by the server before the listeners accept;
/// read-only then, but for the counters.
struct NodeFacts {
    std::string cluster_name = "single-node";
    std::string node_name = "galgo-node";
    std::string ip = "127.0.0.1";
    std::uint16_t tcp_port = 0;
    std::uint16_t quic_port = 0;  ///< 0: not offered
    std::uint16_t http_port = 0;
    std::uint16_t websocket_port = 0;
    std::string server_version;
    std::string data_path;
    Timestamp started_at;
    std::uint32_t frame_bytes_max = 64U << 20;
    std::atomic<std::uint32_t> client_count{0};  ///< open client connections on all shards
};

/// The part of GET_STATS that only the operating system knows, with the texts it borrows.
struct SystemStats {
    wire::StatsReply reply;
    std::string hostname;
    std::string os_name;
    std::string os_version;
    std::string kernel_version;
};

/// Fills the figures of GET_STATS that come from the operating system. Runs on the offload thread.
using ReadSystemStats = void (*)(const NodeFacts& node, SystemStats& stats);

struct Services {
    runtime::Loop& loop;
    MetadataReader metadata;
    Router& router;
    SessionIndex& sessions;
    runtime::OffloadQueue& offload;
    NodeFacts& node;
    DiskRoom::Share disk_room;
    ReadSystemStats read_system_stats = nullptr;
    bool stopping = false;  ///< connections are being ended, nothing is tried again
};

}  // namespace galgo::shard

// Node: the whole server as one object, in the order in which things start and the reverse in which
// they stop. main() builds it, runs it and returns its exit code. Wiring only: what it starts is
// elsewhere.
//
// Threads: the caller becomes shard 0; shards 1..n-1, the offload thread (nice 19), the urgent one
// and the log thread are started here. Nothing else runs.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "config/environment.hpp"
#include "config/loader.hpp"
#include "coro/sync.hpp"
#include "http/http_server.hpp"
#include "memory/buffer_pool.hpp"
#include "net/tcp_listener.hpp"
#include "runtime/offload.hpp"
#include "runtime_uring/stall_detector.hpp"
#include "runtime_uring/uring_backend.hpp"
#include "runtime_uring/uring_group.hpp"
#include "server/http_backend.hpp"
#include "server/options.hpp"
#include "server/shard_observer.hpp"
#include "shard/shard.hpp"
#include "storage/data_directory.hpp"
#include "storage/data_key.hpp"
#include "storage/journal_replay.hpp"
#include "storage/metadata_files.hpp"
#include "storage/trash.hpp"

namespace galgo::server {

class Node {
 public:
    Node(Options options, config::Loaded loaded, config::Environment environment,
         std::vector<int> cpus);
    ~Node();

    /// Starts, serves until SIGINT, SIGTERM or SIGHUP, stops. 0: everything acknowledged is in the
    /// files of its partition or, where those take no more, in the journals for the next start. 1:
    /// the start failed, for a reason that went to stderr and, once that is open, to the log; or
    /// something acknowledged may be lost. A signal during the start or another one during the
    /// stop ends the process; so does a shard whose ring or CPU is refused.
    int run();

 private:
    // boot, in order
    [[nodiscard]] bool open_data_directory();
    [[nodiscard]] bool open_log();
    [[nodiscard]] bool open_rings();
    [[nodiscard]] bool check_key();
    [[nodiscard]] bool note_key();
    [[nodiscard]] bool replay();
    void make_histograms();
    void run_offload(const char* name, runtime::OffloadLane lane);
    [[nodiscard]] bool open_metadata(metadata::State& state);
    [[nodiscard]] metadata::StateOptions state_options() const;
    coro::Task<bool> sweep_metadata();
    [[nodiscard]] runtime::LoopOptions loop_options(ShardIndex shard) const;
    template <class T>
    T run_alone(UniqueFunction<coro::Task<T>()> start);
    void start_threads();
    coro::Task<void> serve();
    coro::Task<bool> bring_up();
    [[nodiscard]] bool shards_recovered() const;
    coro::Task<void> remove_old_journals();
    coro::Task<void> finish_upgrade();
    coro::Task<bool> reset_sessions();
    static coro::Task<void> finish_boot(coro::Anchor<shard::Shard> shard, std::uintptr_t node);
    coro::Task<bool> ensure_root(shard::MetadataPlane& plane);
    coro::Task<bool> open_listeners();
    coro::Task<Status> write_current_config();
    void print_endpoints() const;
    static coro::Task<void> serve_on_loop(coro::Anchor<shard::Shard> shard, std::uintptr_t node);
    void run_shard(ShardIndex shard);
    coro::Task<void> stop();
    [[nodiscard]] bool refuse(const std::string& why) const;

    Options options_;
    config::Config config_;
    std::vector<std::string> warnings_;
    config::Environment environment_;
    std::vector<int> cpus_;          ///< one a shard
    std::vector<int> allowed_cpus_;  ///< of the process
    std::string data_path_;

    std::optional<storage::DataDirectory> directory_;
    std::optional<storage::DataKey> data_key_;  ///< messages are encrypted with it
    runtime::FileHandle signals_ = runtime::kNoFile;
    std::unique_ptr<runtime_uring::UringGroup> rings_;
    std::unique_ptr<memory::BufferPool> pool_;
    std::unique_ptr<runtime_uring::UringBackend> io_;  ///< shard 0's
    std::unique_ptr<runtime::Loop> loop0_;             ///< replay runs on it before shard 0 does
    std::unique_ptr<shard::ShardMesh> mesh_;
    std::unique_ptr<runtime::OffloadQueue> offload_;
    std::unique_ptr<runtime_uring::StallDetector> stalls_;  ///< the log thread asks it
    observe::Registry registry_;
    std::vector<std::unique_ptr<ShardObserver>> observers_;
    std::vector<shard::ShardTimes> times_;
    observe::Histogram* metadata_sync_ = nullptr;

    metadata::PartitionStatsRegistry stats_registry_;
    std::unique_ptr<storage::MetadataFiles> metadata_files_;
    storage::JournalReplay replay_;
    storage::BootNumber boot_ = 0;
    storage::LedgerClaims claims_;
    storage::Trash trash_;
    std::optional<shard::DiskRoom> disk_room_;
    std::unique_ptr<shard::MetadataPair> metadata_;
    std::unique_ptr<metadata::ClientTable> clients_;
    shard::NodeFacts facts_;
    std::unique_ptr<shard::Process> process_;
    shard::Shard* shard0_ = nullptr;  ///< while its loop runs
    std::unique_ptr<net::TcpListener> tcp_;
    std::unique_ptr<HTTPBackend> http_backend_;
    std::unique_ptr<http::HttpServer> http_;

    std::vector<std::thread> threads_;
    std::atomic<std::uint32_t> shards_started_{0};
    std::unique_ptr<runtime::Sleeper> boot_wait_;  ///< shard 0's
    bool config_is_written_ = false;
    std::unique_ptr<coro::Event> boot_finished_;  ///< set by finish_boot(); null: it never ran
    bool boot_is_late_ = false;                   ///< finish_boot() was needed
    bool old_journals_are_removed_ = false;
    bool sessions_are_reset_ = false;
    std::vector<std::atomic<shard::Shard*>> shards_;  ///< for metrics; set by each shard's thread
    std::uint32_t next_connection_ = 1;
    std::uint32_t next_shard_ = 0;
    OpNumber replayed_op_;
    Timestamp replayed_timestamp_;
    int exit_code_ = 0;
};

}  // namespace galgo::server

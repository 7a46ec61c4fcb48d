#include "server/node.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <format>

#include "config/print.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "runtime_uring/pinning.hpp"
#include "runtime_uring/probe.hpp"
#include "server/crash_report.hpp"
#include "server/http_backend.hpp"
#include "server/signals.hpp"
#include "server/socket_address.hpp"
#include "server/system_stats.hpp"
#include "server/version.hpp"

namespace galgo::server {

namespace {

constexpr std::uint32_t kOffloadJobsMax = 256;
/// Descriptors that clients never get: HTTP connections, rings, journals, logs, and the segments of
/// the partitions in use. Otherwise idle connections keep an acknowledged topic from being written.
constexpr std::uint64_t kDescriptorsOfNodeMin = 64;
constexpr std::uint64_t kConnectionsMin = 16;

/// How many client connections one of `shards` shards may hold, given the limit of the process.
std::uint32_t connections_max_of_shard(std::size_t shards) {
    constexpr std::uint32_t kMost = net::ConnectionOptions{}.connections_max;
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return kMost;
    }
    const std::uint64_t all = limit.rlim_cur;
    const std::uint64_t kept = std::max(kDescriptorsOfNodeMin, all / 4);
    const std::uint64_t left = all > kept + kConnectionsMin ? all - kept : kConnectionsMin;
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(kMost, std::max<std::uint64_t>(left / shards, 1)));
}

void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

}  // namespace

Node::Node(Options options, config::Loaded loaded, config::Environment environment,
           std::vector<int> cpus)
    : options_(options),
      config_(std::move(loaded.config)),
      warnings_(std::move(loaded.warnings)),
      environment_(std::move(environment)),
      cpus_(std::move(cpus)),
      data_path_(config_.system.path),
      trash_(data_path_ + "/trash"),
      shards_(cpus_.size()) {}

Node::~Node() = default;

/// Says why the start ends here, on the terminal and in the log.
bool Node::refuse(const std::string& why) const {
    observe::log_error("server", "refusing to start", {{"reason", why}});
    std::fprintf(stderr, "galgo-server: %s\n", why.c_str());
    return false;
}

int Node::run() {
    Result<runtime::FileHandle> signals = open_signal_file();
    if (!signals.has_value()) {
        std::fprintf(stderr, "galgo-server: signals: %s\n", to_string(signals.error()).c_str());
        return 1;
    }
    signals_ = *signals;
    raise_descriptor_limit();
    // What may wait can be interrupted; what starts a thread gives it the blocked signals.
    let_signals_end_start();
    bool ready = open_data_directory();
    hold_signals();
    ready = ready && open_log();
    let_signals_end_start();
    ready = ready && open_rings() && replay();
    hold_signals();
    if (!ready) {
        observe::stop_log();
        return 1;
    }
    start_threads();
    let_signals_end_start();  // until bring_up() has opened the listeners
    run_shard(ShardIndex{0});
    for (std::thread& thread : threads_) {
        thread.join();
    }
    loop0_.reset();
    io_.reset();
    observe::log_info("server", "stopped", {{"exit_code", exit_code_}});
    observe::stop_log();
    return exit_code_;
}

bool Node::open_data_directory() {
    std::expected<storage::DataDirectory, std::string> opened =
        storage::DataDirectory::open({.path = data_path_, .fresh = options_.fresh});
    if (!opened.has_value()) {
        // One line: the log has no file yet and would say the same on the same terminal.
        std::fprintf(stderr, "galgo-server: %s\n", opened.error().c_str());
        return false;
    }
    directory_.emplace(*std::move(opened));
    return true;
}

bool Node::open_log() {
    const config::SystemConfig::Logging& logging = config_.system.logging;
    stalls_ = std::make_unique<runtime_uring::StallDetector>();
    const std::string fault = observe::start_log(
        {.to_stdout = true,
         .directory = logging.file_enabled ? data_path_ + "/" + logging.path : "",
         .max_file_size = logging.max_file_size,
         .max_total_size = logging.max_total_size,
         .retention_ns = logging.retention_ns,
         .check_interval_ns = logging.rotation_check_interval_ns},
        {.run =
             [](void* stalls) noexcept {
                 return static_cast<runtime_uring::StallDetector*>(stalls)->tick();
             },
         .context = stalls_.get()});
    if (!fault.empty()) {
        observe::log_warn("server", "no log file", {{"reason", fault}});
    }
    for (const std::string& warning : warnings_) {
        observe::log_warn("config", warning);
    }
    if (config_.quic.enabled) {
        observe::log_warn("server",
                          "QUIC is not available in this version; its port is shown as 0");
    }
    if (config_.websocket.enabled) {
        observe::log_warn("server",
                          "WebSocket is not available in this version; its port is shown as 0");
    }
    return true;
}

bool Node::open_rings() {
    if (const Status usable = runtime_uring::probe(); !usable.has_value()) {
        return refuse(runtime_uring::explain_setup_failure(usable.error().os_errno));
    }
    rings_ = std::make_unique<runtime_uring::UringGroup>(cpus_.size());
    allowed_cpus_ = runtime_uring::allowed_cpus();
    const std::optional<int> cpu =
        config_.system.sharding.pin_cores ? std::optional(cpus_[0]) : std::nullopt;
    if (const Status entered = runtime_uring::enter_shard_thread(ShardIndex{0}, cpu);
        !entered.has_value()) {
        return refuse("cannot pin shard 0: " + to_string(entered.error()));
    }
    Result<std::unique_ptr<runtime_uring::UringBackend>> io = runtime_uring::UringBackend::create(
        *rings_, ShardIndex{0},
        {.ring = runtime_uring::ring_options(
             static_cast<std::uint32_t>(config_.runtime.ring_capacity))});
    if (!io.has_value()) {
        return refuse(runtime_uring::explain_setup_failure(io.error().os_errno));
    }
    io_ = *std::move(io);
    if (const Status held = io_->hold_file(directory_->lock_descriptor()); !held.has_value()) {
        observe::log_warn("server", "the lock file cannot be held by the ring",
                          {{"error", to_string(held.error())}});
    }
    make_histograms();
    loop0_ = std::make_unique<runtime::Loop>(*io_, loop_options(ShardIndex{0}));
    pool_ = std::make_unique<memory::BufferPool>(memory::PoolOptions{
        .budget_bytes = config_.system.memory_pool.size,
        .class_capacity = static_cast<std::uint32_t>(config_.system.memory_pool.bucket_capacity),
        .shard_count = static_cast<std::uint16_t>(cpus_.size())});
    mesh_ = std::make_unique<shard::ShardMesh>(runtime::MeshOptions{
        .shard_count = cpus_.size(),
        .lane_capacity = static_cast<std::size_t>(config_.system.sharding.inbox_capacity)});
    offload_ = std::make_unique<runtime::OffloadQueue>(
        static_cast<std::uint16_t>(cpus_.size()), kOffloadJobsMax,
        [rings = rings_.get()](ShardIndex shard) { rings->wake(shard); });
    return true;
}

/// Before the shards, so that recording needs no look-up.
void Node::make_histograms() {
    const auto histogram = [this](const char* name, const char* help, observe::Labels labels) {
        return &registry_.histogram({name, help}, observe::HistogramUnit::kNanoseconds, labels);
    };
    const char* commit = "galgo_commit_seconds";
    const char* commit_help =
        "From the admission of a batch (partition) or change (metadata) to the moment it is "
        "committed and visible.";
    const char* sync = "galgo_sync_seconds";
    const char* sync_help = "Time of one fdatasync; what waited for it shared it.";
    for (std::size_t i = 0; i < cpus_.size(); ++i) {
        const std::string shard = std::to_string(i);
        observers_.push_back(std::make_unique<ShardObserver>(*histogram(
            "galgo_loop_turn_seconds", "Time of one turn of a shard's loop.", {{"shard", shard}})));
        times_.push_back(
            {.partition_commit =
                 histogram(commit, commit_help, {{"log", "partition"}, {"shard", shard}}),
             .metadata_commit =
                 i == 0 ? histogram(commit, commit_help, {{"log", "metadata"}, {"shard", shard}})
                        : nullptr,
             .journal_sync = histogram(sync, sync_help, {{"file", "journal"}, {"shard", shard}}),
             .segment_sync = histogram(sync, sync_help, {{"file", "segment"}, {"shard", shard}})});
    }
    metadata_sync_ = histogram(sync, sync_help, {{"file", "metadata_log"}, {"shard", "0"}});
}

runtime::LoopOptions Node::loop_options(ShardIndex shard) const {
    // Shards that fill all cores would take the time from the clients beside them.
    const bool may_spin = cpus_.size() < std::thread::hardware_concurrency();
    return {.event_interval = static_cast<std::uint32_t>(config_.runtime.event_interval),
            .busy_poll_ns = may_spin ? config_.system.sharding.busy_poll_ns : 0,
            .observer = observers_[shard.value()].get()};
}

void Node::start_threads() {
    facts_.cluster_name = "single-node";
    facts_.server_version = kServerVersion;
    facts_.data_path = data_path_;
    facts_.started_at = io_->wall_now();
    facts_.frame_bytes_max = static_cast<std::uint32_t>(config_.message_bus.max_message_size);
    const Result<runtime::DiskSpace> space = io_->disk_space(data_path_);
    const shard::JournalSize journal = space.has_value()
                                           ? shard::journal_size(space->total_bytes, cpus_.size())
                                           : shard::JournalSize{};
    disk_room_.emplace(config_.system.reserved_space,
                       journal.file_bytes * journal.files_max * cpus_.size());
    disk_room_->update(space.has_value() ? std::optional(*space) : std::nullopt);
    process_ = std::make_unique<shard::Process>(shard::Process{
        .pool = *pool_,
        .mesh = *mesh_,
        .metadata = *metadata_,
        .clients = *clients_,
        .offload = *offload_,
        .node = facts_,
        .disk_room = *disk_room_,
        .read_system_stats = read_system_stats,
        .data_path = data_path_,
        .trash = trash_,
        .replay = &replay_,
        .claims = &claims_,
        .boot = boot_,
        .journal = journal,
        .validate_checksum = config_.system.partition_validate_checksum,
        .encryption = data_key_ ? &*data_key_ : nullptr,
        .consumer_offsets_max = static_cast<std::uint32_t>(config_.partition.consumer_offsets_max),
        .partition_pipeline_max = static_cast<std::uint8_t>(config_.partition.prepare_queue_depth),
        .metadata_pipeline_max = static_cast<std::uint8_t>(config_.metadata.prepare_queue_depth),
        .metadata_head = replayed_op_,
        .metadata_timestamp = replayed_timestamp_,
        .tokens_per_user_max =
            static_cast<std::uint32_t>(config_.personal_access_token.max_tokens_per_user),
        .token_cleaner_interval_ns = config_.personal_access_token.cleaner.enabled
                                         ? config_.personal_access_token.cleaner.interval_ns
                                         : 0,
        .cleaner = {.enabled = config_.data_maintenance.messages.cleaner_enabled,
                    .interval_ns = config_.data_maintenance.messages.interval_ns,
                    .held_back_max_ns = config_.data_maintenance.messages.held_back_max_ns},
        .connections = {.frame_bytes_max = facts_.frame_bytes_max,
                        .connections_max = connections_max_of_shard(cpus_.size())},
        .times = times_});
    http_backend_ = std::make_unique<HTTPBackend>(*process_, *io_, shards_, registry_);
    threads_.emplace_back([this] {
        setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), 19);
        run_offload("offload", runtime::OffloadLane::kBackground);
    });
    threads_.emplace_back([this] { run_offload("offload-urgent", runtime::OffloadLane::kUrgent); });
    for (std::size_t i = 1; i < cpus_.size(); ++i) {
        threads_.emplace_back([this, i] {
            const CrashStack crash_stack;
            run_shard(ShardIndex{static_cast<std::uint16_t>(i)});
        });
    }
}

/// The life of an offload thread: on any CPU of the process, not on that of the shard that began
/// it.
void Node::run_offload(const char* name, runtime::OffloadLane lane) {
    const CrashStack crash_stack;
    runtime_uring::name_this_thread(name);
    if (const Status spread = runtime_uring::pin_this_thread(allowed_cpus_); !spread.has_value()) {
        observe::log_warn("server", "an offload thread stays on the CPU of shard 0",
                          {{"error", to_string(spread.error())}});
    }
    offload_->run_worker(lane);
}

/// The life of one shard's thread; shard 0 is the caller's.
void Node::run_shard(ShardIndex index) {
    std::unique_ptr<runtime_uring::UringBackend> own;
    if (index != ShardIndex{0}) {
        const std::optional<int> cpu =
            config_.system.sharding.pin_cores ? std::optional(cpus_[index.value()]) : std::nullopt;
        const Status entered = runtime_uring::enter_shard_thread(index, cpu);
        Result<std::unique_ptr<runtime_uring::UringBackend>> io =
            runtime_uring::UringBackend::create(
                *rings_, index,
                {.ring = runtime_uring::ring_options(
                     static_cast<std::uint32_t>(config_.runtime.ring_capacity))});
        if (!entered.has_value() || !io.has_value()) {
            static_cast<void>(
                refuse(io.has_value() ? "cannot pin a shard: " + to_string(entered.error())
                                      : runtime_uring::explain_setup_failure(io.error().os_errno)));
            std::_Exit(1);  // nothing was acknowledged yet
        }
        own = *std::move(io);
        const Status held = own->hold_file(directory_->lock_descriptor());
        static_cast<void>(held);
    }
    std::unique_ptr<runtime::Loop> own_loop;
    if (own != nullptr) {
        own_loop = std::make_unique<runtime::Loop>(*own, loop_options(index));
    }
    runtime::Loop& loop = own_loop != nullptr ? *own_loop : *loop0_;
    (own != nullptr ? *own : *io_).use_offload(offload_.get());
    auto shard = std::make_unique<shard::Shard>(
        *process_, index, loop, index == ShardIndex{0} ? metadata_files_.get() : nullptr);
    shards_[index.value()].store(shard.get(), std::memory_order_release);
    stalls_->watch(loop.stall_probe());
    shard->scope().spawn(serve_on_loop, coro::Anchor<shard::Shard>(*shard),
                         reinterpret_cast<std::uintptr_t>(this));
    loop.run();
    stalls_->unwatch();
    shards_[index.value()].store(nullptr, std::memory_order_release);
    metadata_->park(index);
    if (index == ShardIndex{0}) {
        offload_->stop();
        http_.reset();
        tcp_.reset();
        boot_wait_.reset();
    }
    if (own != nullptr) {
        own->shutdown();
    } else {
        io_->shutdown();
    }
    shard.reset();
    pool_->stop_shard();
}

}  // namespace galgo::server

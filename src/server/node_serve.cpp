// The part of Node that runs on shard loops: bring up, listeners, stop.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <format>

#include "base/bytes.hpp"
#include "config/print.hpp"
#include "crypto/password.hpp"
#include "crypto/random.hpp"
#include "observe/log.hpp"
#include "runtime/io_await.hpp"
#include "server/http_backend.hpp"
#include "server/node.hpp"
#include "server/signals.hpp"
#include "server/socket_address.hpp"
#include "server/version.hpp"

namespace galgo::server {

using coro::Task;

namespace {

constexpr std::size_t kGeneratedPasswordSize = 24;
constexpr std::uint64_t kStartPollNs = kMillisecond;
/// How often is tried again what a full disk kept from being done at the start.
constexpr std::uint64_t kBootRetryNs = kSecond;
constexpr std::size_t kSignalInfoSize = 128;  // sizeof(signalfd_siginfo)

}  // namespace

/// First task of every shard's loop. Shard 0's serves until a signal and stops everybody.
Task<void> Node::serve_on_loop(coro::Anchor<shard::Shard> shard, std::uintptr_t node) {
    Node& self = *reinterpret_cast<Node*>(node);
    co_await shard->start();
    self.shards_started_.fetch_add(1, std::memory_order_release);
    if (shard->self() != ShardIndex{0}) {
        co_return;
    }
    self.shard0_ = &*shard;
    co_await self.serve();
    shard->loop().stop();
}

Task<void> Node::serve() {
    const bool up = co_await bring_up();
    if (up) {
        std::array<std::byte, kSignalInfoSize> info;
        const std::int32_t got = co_await runtime::io_await(
            [&](runtime::IoOp& op) { io_->read(op, signals_, info, 0); });
        const int number = got >= 4 ? static_cast<int>(load<std::uint32_t>(info, 0)) : 0;
        observe::log_info("server", "stopping", {{"signal", number}});
        let_signals_end_stop(number);
    } else {
        exit_code_ = 1;
        let_signals_end_stop(0);
    }
    co_await stop();
}

Task<bool> Node::bring_up() {
    while (shards_started_.load(std::memory_order_acquire) < cpus_.size()) {
        co_await shard0_->loop().sleep_for(kStartPollNs);
    }
    boot_wait_ = std::make_unique<runtime::Sleeper>(shard0_->loop());
    if (shards_recovered()) {
        co_await remove_old_journals();
        co_await finish_upgrade();
    } else {
        observe::log_error("server",
                           "journals of the last run are kept until all partitions are recovered",
                           {{"directory", data_path_ + "/state"}});
    }
    shard::MetadataPlane& plane = *shard0_->plane();
    co_await plane.settle_snapshot();
    const bool root = co_await ensure_root(plane);
    if (!root) {
        co_return false;
    }
    const bool reset = co_await reset_sessions();
    if (!reset) {
        co_return false;
    }
    const bool listening = co_await open_listeners();
    if (!listening) {
        co_return false;
    }
    // Nobody was accepted yet: the loop has not turned since the listeners began.
    hold_signals();
    const Status written = co_await write_current_config();
    if (!written.has_value()) {
        if (written.error().os_errno != ENOSPC && written.error().os_errno != EDQUOT) {
            co_return refuse("current_config.toml cannot be written: " +
                             to_string(written.error()));
        }
        observe::log_warn("server", "no room for current_config.toml; it is written later");
    }
    config_is_written_ = written.has_value();
    if (!config_is_written_ || !old_journals_are_removed_ || !sessions_are_reset_) {
        boot_is_late_ = true;
        boot_finished_ = std::make_unique<coro::Event>(shard0_->loop().ready());
        shard0_->scope().spawn(finish_boot, coro::Anchor<shard::Shard>(*shard0_),
                               reinterpret_cast<std::uintptr_t>(this));
    }
    print_endpoints();
    co_return true;
}

/// Ends the sessions of the last run, before the first one of this run begins. A log without room
/// takes that later; until then no client can log in. False: refused.
Task<bool> Node::reset_sessions() {
    shard::MetadataPlane& plane = *shard0_->plane();
    const Status reset = co_await plane.propose_own(metadata::make_reset_sessions(
        static_cast<std::uint32_t>(config_.metadata.clients_table_max)));
    sessions_are_reset_ = reset.has_value();
    if (sessions_are_reset_) {
        plane.accept_clients();
        if (boot_is_late_) {
            observe::log_info("server", "there is room for the metadata log; clients may log in");
        }
        co_return true;
    }
    if (reset.error().code != ErrorCode::kTransientNotAccepted && boot_is_late_) {
        // The plane is fenced: it refuses by itself, and health says so.
        plane.accept_clients();
        sessions_are_reset_ = true;
        co_return true;
    }
    if (reset.error().code != ErrorCode::kTransientNotAccepted) {
        co_return refuse(std::format("the metadata log in {}/metadata cannot be written: {}",
                                     data_path_, to_string(reset.error())));
    }
    plane.hold_clients();
    if (!boot_is_late_) {
        observe::log_error("server",
                           "no room for the metadata log: nobody can log in until there is; make "
                           "room on its disk, tried again each second",
                           {{"directory", data_path_ + "/metadata"}});
    }
    co_return true;
}

bool Node::shards_recovered() const {
    return std::ranges::all_of(shards_, [](const std::atomic<shard::Shard*>& shard) {
        const shard::Shard* running = shard.load(std::memory_order_acquire);
        return running != nullptr && running->recovered();
    });
}

Task<void> Node::remove_old_journals() {
    const Status removed = co_await replay_.remove_files(*io_);
    old_journals_are_removed_ = removed.has_value();
    // Those of shards that are no more; and all when this run keeps none.
    const std::size_t kept = boot_ == 0 ? 0 : cpus_.size();
    co_await storage::remove_ledgers(*io_, data_path_ + "/state",
                                     ShardIndex{static_cast<std::uint16_t>(kept)});
    if (!removed.has_value() && !boot_is_late_) {
        observe::log_warn("server", "journals of the last run are left, tried again",
                          {{"error", to_string(removed.error())}});
    }
}

/// All partitions are open, so nothing in the directory is of the format before.
Task<void> Node::finish_upgrade() {
    if (!directory_->is_upgrading()) {
        co_return;
    }
    const Result<std::string> problem =
        co_await runtime::offload(*offload_, [this] { return directory_->finish_upgrade(); });
    if (problem.has_value() && problem->empty()) {
        observe::log_info("server", "the data directory is upgraded",
                          {{"directory", data_path_}, {"format", storage::kDataFormatVersion}});
    } else {
        observe::log_warn("server", "the upgrade of the data directory is left to the next start",
                          {{"error", problem.has_value() ? *problem : to_string(problem.error())}});
    }
}

/// What a full disk kept from being done at the start, once there is room.
Task<void> Node::finish_boot(coro::Anchor<shard::Shard>, std::uintptr_t node) {
    Node& self = *reinterpret_cast<Node*>(node);
    while (co_await self.boot_wait_->sleep_for(kBootRetryNs)) {
        if (!self.config_is_written_) {
            const Status written = co_await self.write_current_config();
            self.config_is_written_ = written.has_value();
        }
        if (!self.old_journals_are_removed_ && self.shards_recovered()) {
            co_await self.remove_old_journals();
            if (self.old_journals_are_removed_) {
                co_await self.finish_upgrade();
                observe::log_info("server", "all partitions are recovered");
            }
        }
        if (!self.sessions_are_reset_) {
            static_cast<void>(co_await self.reset_sessions());
        }
        if (self.config_is_written_ && self.old_journals_are_removed_ && self.sessions_are_reset_) {
            break;
        }
    }
    self.boot_finished_->set();
}

/// Root is created once, in the log. Later values of the environment do not change it.
Task<bool> Node::ensure_root(shard::MetadataPlane& plane) {
    const std::expected<std::optional<config::RootCredentials>, config::ConfigFault> given =
        config::root_credentials(environment_);
    if (!given.has_value()) {
        co_return refuse(given.error().one_line);
    }
    const bool exists =
        metadata_->read(ShardIndex{0}).state.find_user(wire::Identifier::numbered(0)) != nullptr;
    if (exists) {
        if (given->has_value()) {
            observe::log_warn("server",
                              "root exists; IGGY_ROOT_USERNAME and IGGY_ROOT_PASSWORD are ignored");
        }
        co_return true;
    }
    std::string name = "iggy";
    std::string password;
    if (given->has_value()) {
        name = (*given)->username;
        password = (*given)->password;
    } else {
        password = crypto::random_alphanumeric(kGeneratedPasswordSize);
    }
    const Result<Result<std::string>> hash = co_await runtime::offload(
        *offload_, [&password] { return crypto::hash_password(password); });
    if (!hash.has_value() || !hash->has_value()) {
        co_return refuse("the root password cannot be hashed");
    }
    const Status created = co_await plane.propose_own(metadata::make_create_root(name, **hash));
    if (!created.has_value()) {
        co_return refuse(std::format(
            "root cannot be created: {}{}", to_string(created.error()),
            created.error().code == ErrorCode::kTransientNotAccepted
                ? std::format(": no room in {}/metadata; make room on its disk", data_path_)
                : ""));
    }
    if (!given->has_value()) {
        // To the terminal only: the log is a file that others may read.
        std::fprintf(stderr, "Generated root user: %s  password: %s  (shown once)\n", name.c_str(),
                     password.c_str());
    }
    co_return true;
}

Task<bool> Node::open_listeners() {
    runtime::Loop& loop = shard0_->loop();
    if (config_.tcp.enabled) {
        tcp_ = std::make_unique<net::TcpListener>(loop);
        const Status bound = co_await tcp_->listen(parse_address(config_.tcp.address));
        if (!bound.has_value()) {
            co_return refuse(std::format("tcp.address = \"{}\" cannot be listened on: {}",
                                         config_.tcp.address, to_string(bound.error())));
        }
        facts_.ip = tcp_->address().ip;
        facts_.tcp_port = tcp_->address().port;
        config_.tcp.address = format_address(tcp_->address());
    }
    if (config_.http.enabled) {
        const config::HTTPConfig::CORS& cors = config_.http.cors;
        http_ = std::make_unique<http::HttpServer>(
            loop, *http_backend_,
            http::HttpOptions{.body_bytes_max = config_.http.max_request_size,
                              .metrics_enabled = config_.http.metrics_enabled,
                              .metrics_endpoint = config_.http.metrics_endpoint,
                              .cors = {.enabled = cors.enabled,
                                       .allowed_methods = cors.allowed_methods,
                                       .allowed_origins = cors.allowed_origins,
                                       .allowed_headers = cors.allowed_headers,
                                       .exposed_headers = cors.exposed_headers,
                                       .allow_credentials = cors.allow_credentials,
                                       .allow_private_network = cors.allow_private_network}});
        const Status bound = co_await http_->listen(parse_address(config_.http.address));
        if (!bound.has_value()) {
            co_return refuse(std::format("http.address = \"{}\" cannot be listened on: {}",
                                         config_.http.address, to_string(bound.error())));
        }
        facts_.http_port = http_->address().port;
        config_.http.address = format_address(http_->address());
        http_->start();
    }
    if (tcp_ != nullptr) {
        tcp_->start([this](runtime::SocketHandle socket, runtime::SocketAddress peer) {
            const ShardIndex target{static_cast<std::uint16_t>(next_shard_)};
            next_shard_ = (next_shard_ + 1) % static_cast<std::uint32_t>(cpus_.size());
            shard0_->place_connection(
                target, socket,
                {.id = model::ConnectionId{next_connection_++}, .peer = format_address(peer)});
        });
    }
    co_return true;
}

Task<Status> Node::write_current_config() {
    const std::string directory = data_path_ + "/" + config_.system.runtime_path;
    GALGO_CO_TRY(co_await runtime::make_directories(*io_, directory));
    const std::string path = directory + "/current_config.toml";
    const std::string temporary = path + ".tmp";
    const std::string text = config::print_config(config_);
    GALGO_CO_TRY_ASSIGN(const runtime::FileHandle file,
                        co_await runtime::open(*io_, temporary, runtime::OpenMode::kCreate));
    Status status = co_await runtime::truncate(*io_, file, 0);
    if (status.has_value()) {
        status = co_await runtime::write_all(*io_, file, as_bytes(text), 0);
    }
    const Status closed = co_await runtime::close(*io_, file);
    GALGO_CO_TRY(status);
    GALGO_CO_TRY(closed);
    co_return co_await runtime::rename(*io_, temporary, path);
}

void Node::print_endpoints() const {
    std::printf("galgo-server %s is ready: tcp %s, http %s, %zu shard%s, data in %s\n", kVersion,
                tcp_ != nullptr ? config_.tcp.address.c_str() : "off",
                http_ != nullptr ? config_.http.address.c_str() : "off", cpus_.size(),
                cpus_.size() == 1 ? "" : "s", data_path_.c_str());
    std::fflush(stdout);
}

/// The reverse of bring_up(): nobody new comes in, connections end, partitions close.
Task<void> Node::stop() {
    if (tcp_ != nullptr) {
        co_await tcp_->stop();
    }
    if (http_ != nullptr) {
        co_await http_->stop();
    }
    if (boot_wait_ != nullptr) {
        boot_wait_->interrupt();
    }
    if (boot_finished_ != nullptr) {  // it looks at the other shards, which end below
        co_await boot_finished_->wait();
    }
    const bool clean = co_await shard0_->stop_all();
    if (!clean) {
        exit_code_ = 1;
    }
    co_await metadata_files_->close();
}

}  // namespace galgo::server

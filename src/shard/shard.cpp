#include "shard/shard.hpp"

#include <algorithm>
#include <format>
#include <optional>
#include <utility>

#include "observe/log.hpp"
#include "wire/placement.hpp"

namespace galgo::shard {

using coro::Anchor;
using coro::Task;

namespace {

constexpr std::size_t kReplySlotCount = 8192;
constexpr std::uint64_t kHousekeepingNs = kSecond;
/// Files, or pieces of 32 MiB of large ones, deleted at a time.
constexpr std::size_t kTrashStepsMax = 256;
constexpr std::uint32_t kExpiredTokensPerOperation = 256;

ShardTimes times_of(const Process& process, ShardIndex self) {
    return self.value() < process.times.size() ? process.times[self.value()] : ShardTimes{};
}

storage::JournalOptions journal_options(const Process& process, ShardIndex self) {
    return {.directory = process.data_path + "/state",
            .shard = self,
            .epoch = process.replay->next_epoch(),
            .first_sequence = process.replay->next_sequence(),
            .file_bytes = process.journal.file_bytes,
            .files_max = process.journal.files_max,
            .boot = process.boot,
            .sync_times = times_of(process, self).journal_sync};
}

/// Of those partitions that this shard owns.
std::vector<storage::LedgerRow> claims_of(const Process& process, ShardIndex self) {
    const auto shards = static_cast<std::uint16_t>(process.mesh.shard_count());
    std::vector<storage::LedgerRow> claims;
    if (process.claims == nullptr) {
        return claims;
    }
    for (const auto& [life, row] : *process.claims) {
        if (wire::shard_of(life.first, shards) == self) {
            claims.push_back(row);
        }
    }
    return claims;
}

}  // namespace

JournalSize journal_size(std::uint64_t disk_bytes, std::size_t shard_count) noexcept {
    constexpr std::uint64_t kFilesMin = 3;
    constexpr std::uint64_t kFilesMax = 16;
    constexpr std::uint64_t kDiskShare = 32;
    const std::uint64_t share = disk_bytes / kDiskShare / shard_count;
    const std::uint64_t file_bytes = std::clamp<std::uint64_t>(
        share / kFilesMin / kMiB * kMiB, kMiB, storage::kJournalFileBytesDefault);
    return {.file_bytes = file_bytes,
            .files_max =
                static_cast<std::uint32_t>(std::clamp(share / file_bytes, kFilesMin, kFilesMax))};
}

Shard::Shard(Process& process, ShardIndex self, runtime::Loop& loop, storage::MetadataFiles* files)
    : process_(process),
      self_(self),
      loop_(loop),
      port_(process.mesh.port(self)),
      slots_(self, kReplySlotCount, loop_.ready()),
      journal_(loop_.io(), loop_.ready(), journal_options(process, self)),
      table_(loop_, process.pool, journal_,
             {.data_path = process.data_path,
              .trash = process.trash,
              .validate_checksum = process.validate_checksum,
              .encryption = process.encryption,
              .consumer_offsets_max = process.consumer_offsets_max,
              .pipeline_max = process.partition_pipeline_max,
              .replay = process.replay,
              .claims = claims_of(process, self),
              .boot = process.boot,
              .commit_times = times_of(process, self).partition_commit,
              .segment_sync_times = times_of(process, self).segment_sync}),
      owner_(table_, MetadataReader(process.metadata, self)),
      plane_(files == nullptr ? nullptr
                              : std::make_unique<MetadataPlane>(
                                    loop_, process.metadata, process.clients, *files,
                                    MetadataPlane::Options{
                                        .pipeline_max = process.metadata_pipeline_max,
                                        .head = process.metadata_head,
                                        .last_timestamp = process.metadata_timestamp,
                                        .tokens_per_user_max = process.tokens_per_user_max,
                                        .on_changes =
                                            [this](const std::vector<metadata::Change>& changes) {
                                                on_changes(changes);
                                            },
                                        .commit_times = times_of(process, self).metadata_commit,
                                        .offload = &process.offload,
                                        .trash = &process.trash})),
      router_(process.mesh, self, slots_, owner_, plane_.get()),
      services_{.loop = loop_,
                .metadata = MetadataReader(process.metadata, self),
                .router = router_,
                .sessions = sessions_,
                .offload = process.offload,
                .node = process.node,
                .disk_room = DiskRoom::Share(process.disk_room),
                .read_system_stats = process.read_system_stats},
      dispatcher_(services_),
      connections_(loop_, process.pool, dispatcher_, process.connections),
      cleaner_(loop_, table_, MetadataReader(process.metadata, self), process.cleaner),
      housekeeping_(loop_),
      housekeeping_done_(loop_.ready()),
      cleaning_done_(loop_.ready()),
      scope_(loop_.ready()),
      chore_scope_(loop_.ready()),
      deliveries_(loop_.ready()) {
    process.metadata.attach(self, loop_);
    port_.attach(loop_);
    loop_.add_turn_start([this] { return drain(); }, "mesh drain");
    loop_.add_turn_start([this] {
        process_.pool.collect();
        return process_.offload.collect();
    });
    loop_.add_turn_end([this] { journal_.end_of_turn(); }, "journal");
}

Shard::~Shard() = default;

Task<void> Shard::start() {
    const Status opened = co_await journal_.open();
    if (!opened.has_value()) {
        observe::log_error("shard", "the journal could not be made; sends are refused until it can",
                           {{"error", to_string(opened.error())}});
    }
    if (plane_ != nullptr) {
        plane_->start();
    }
    co_await owner_.open_existing(static_cast<std::uint16_t>(process_.mesh.shard_count()), self_,
                                  *process_.replay);
    co_await check_recovery();
    scope_.spawn(housekeep, Anchor(*this));
    scope_.spawn(clean, Anchor(*this));
}

Task<void> Shard::check_recovery() {
    if (owner_.recovered()) {
        co_await table_.write_ledger();  // it says from now on what the old journals said
        table_.end_recovery();
        recovered_.store(true, std::memory_order_release);
    }
}

Task<void> Shard::clean(Anchor<Shard> shard) {
    co_await shard->cleaner_.run();
    shard->cleaning_done_.set();
}

/// Once a second: what may lag behind the journal goes to its files.
Task<void> Shard::housekeep(Anchor<Shard> shard) {
    while (co_await shard->housekeeping_.sleep_for(kHousekeepingNs)) {
        shard->begin_chores();
        shard->table_.rest();
        if (shard->plane_ != nullptr) {
            co_await shard->remove_expired_tokens();
        }
        shard->cleaner_.set_urgent(shard->process_.disk_room.is_full());
        HealthReport report{.faults = shard->table_.faults(),
                            .journal = shard->journal_.stats(),
                            .open_partitions = shard->table_.open_count(),
                            .retries_answered = shard->table_.retries().answered(),
                            .held_back_bytes = shard->cleaner_.held_back_bytes(),
                            .given_up_bytes = shard->cleaner_.given_up_bytes(),
                            .read_ahead_bytes = shard->table_.read_ahead_bytes()};
        if (const std::optional<Error> fault = shard->journal_.fault(); fault.has_value()) {
            report.faults.push_back(std::format("shard {} has no journal, messages are refused: {}",
                                                shard->self_.value(), to_string(*fault)));
        }
        if (shard->plane_ != nullptr) {
            MetadataPlane& plane = *shard->plane_;
            plane.tick();
            for (std::string& fault : plane.faults()) {
                report.faults.push_back(std::move(fault));
            }
            if (std::optional<std::string> fault = shard->process_.disk_room.fault()) {
                report.faults.push_back(*std::move(fault));
            }
            const storage::MetadataFiles& files = plane.files();
            report.metadata = {.entry_count = files.wal().entry_count(),
                               .batch_count = files.wal().batch_count(),
                               .barrier_count = files.wal().barrier_count(),
                               .file_count = files.wal().file_count(),
                               .snapshot_count = files.snapshot_count()};
        }
        if (const std::size_t count = shard->owner_.unopened_count(); count != 0) {
            report.faults.push_back(std::format("{} partitions cannot be opened", count));
        }
        shard->health_.update(std::move(report));
    }
    shard->housekeeping_done_.set();
}

void Shard::begin_chores() {
    if (!std::exchange(chores_.checkpoints, true)) {
        chore_scope_.spawn(checkpoint, Anchor(*this));
    }
    if (!recovered() && !std::exchange(chores_.recovers, true)) {
        chore_scope_.spawn(complete_recovery, Anchor(*this));
    }
    if (!std::exchange(chores_.keeps_ledger, true)) {
        chore_scope_.spawn(keep_ledger, Anchor(*this));
    }
    if (plane_ == nullptr) {
        return;  // one shard for all
    }
    if (process_.trash.has_work() && !std::exchange(chores_.empties_trash, true)) {
        chore_scope_.spawn(empty_trash, Anchor(*this));
    }
    if (!std::exchange(chores_.looks_at_disk, true)) {
        chore_scope_.spawn(look_at_disk, Anchor(*this));
    }
}

Task<void> Shard::checkpoint(Anchor<Shard> shard) {
    co_await shard->table_.checkpoint();
    shard->chores_.checkpoints = false;
}

Task<void> Shard::complete_recovery(Anchor<Shard> shard) {
    co_await shard->owner_.complete_recovery();
    co_await shard->check_recovery();
    shard->chores_.recovers = false;
}

Task<void> Shard::keep_ledger(Anchor<Shard> shard) {
    co_await shard->table_.keep_ledger();
    shard->chores_.keeps_ledger = false;
}

/// What was dropped gives back its room.
Task<void> Shard::empty_trash(Anchor<Shard> shard) {
    const Result<bool> emptied = co_await shard->process_.trash.empty(
        shard->loop_.io(), shard->loop_.ready(), kTrashStepsMax);
    static_cast<void>(emptied);  // what is left is tried again in a second
    shard->chores_.empties_trash = false;
}

/// On the urgent thread: a queue of password hashes must not make a full disk look free.
Task<void> Shard::look_at_disk(Anchor<Shard> shard) {
    runtime::IoBackend& io = shard->loop_.io();
    const std::string& path = shard->process_.data_path;
    const Result<Result<runtime::DiskSpace>> looked = co_await runtime::offload_urgent(
        shard->process_.offload, [&io, &path] { return io.disk_space(path); });
    if (looked.has_value()) {
        const Result<runtime::DiskSpace>& space = *looked;
        shard->process_.disk_room.update(space.has_value() ? std::optional(*space) : std::nullopt);
    }
    shard->chores_.looks_at_disk = false;
}

/// Expired tokens are refused by themselves; removing them frees their names and their place.
Task<void> Shard::remove_expired_tokens() {
    const std::uint64_t interval_ns = process_.token_cleaner_interval_ns;
    const Instant now = loop_.io().now();
    if (interval_ns == 0 || now.value() - tokens_cleaned_at_.value() < interval_ns) {
        co_return;
    }
    tokens_cleaned_at_ = now;
    while (services_.metadata.state().has_expired_tokens(loop_.wall_now())) {
        const Status removed =
            co_await plane_->propose_own(metadata::make_expire_tokens(kExpiredTokensPerOperation));
        if (!removed.has_value()) {
            co_return;
        }
    }
}

bool Shard::drain() {
    const std::size_t count = port_.drain(
        [this](ShardIndex from, Request&& request) { on_request(from, std::move(request)); },
        [this](ShardIndex, ReplyMessage&& reply) { on_reply(std::move(reply)); });
    return count != 0;
}

void Shard::on_reply(ReplyMessage&& reply) {
    slots_.complete(reply.ticket, std::move(reply.body));
}

void Shard::on_request(ShardIndex from, Request&& request) {
    struct Visitor {
        Shard& shard;
        ShardIndex from;
        void operator()(AppendCommand& c) {
            shard.scope_.spawn(serve_append, Anchor(shard), from, std::move(c));
        }
        void operator()(PollQuery& q) { shard.scope_.spawn(serve_poll, Anchor(shard), from, q); }
        void operator()(OffsetCommand& c) {
            shard.scope_.spawn(serve_offset, Anchor(shard), from, c);
        }
        void operator()(DeleteSegmentsCommand& c) {
            shard.scope_.spawn(serve_delete_segments, Anchor(shard), from, c);
        }
        void operator()(MetadataCommand& c) {
            shard.scope_.spawn(serve_metadata, Anchor(shard), from, std::move(c));
        }
        void operator()(RegisterCommand& c) {
            shard.scope_.spawn(serve_register, Anchor(shard), from, c);
        }
        void operator()(EndSessionCommand& c) {
            shard.scope_.spawn(serve_end_session, Anchor(shard), from, c);
        }
        void operator()(AdoptConnection& c) {
            shard.connections_.adopt(c.socket, std::move(c.facts));
        }
        void operator()(RetirePartition& c) { shard.scope_.spawn(serve_retire, Anchor(shard), c); }
        void operator()(ForgetGroup& c) {
            shard.scope_.spawn(serve_forget_group, Anchor(shard), c);
        }
        void operator()(SessionEnded& c) {
            shard.sessions_.end(c.client, c.session);
            shard.table_.retries().end_session(c.session);
        }
        void operator()(StopCommand& c) { shard.scope_.spawn(serve_stop, Anchor(shard), from, c); }
    };
    std::visit(Visitor{*this, from}, request);
}

Task<void> Shard::serve_append(Anchor<Shard> shard, ShardIndex from, AppendCommand command) {
    Result<Offset> base =
        co_await shard->owner_.append(command.partition, std::move(command.request));
    shard->port_.reply(from, {.ticket = command.ticket, .body = AppendReply{std::move(base)}});
}

Task<void> Shard::serve_poll(Anchor<Shard> shard, ShardIndex from, PollQuery query) {
    Result<partitions::PollResult> result =
        co_await shard->owner_.poll(query.partition, query.request, query.fence);
    shard->port_.reply(from, {.ticket = query.ticket, .body = PollReply{std::move(result)}});
}

Task<void> Shard::serve_offset(Anchor<Shard> shard, ShardIndex from, OffsetCommand command) {
    Result<std::optional<partitions::StoredOffset>> result = co_await shard->owner_.offset(command);
    shard->port_.reply(from, {.ticket = command.ticket, .body = OffsetReply{result}});
}

Task<void> Shard::serve_delete_segments(Anchor<Shard> shard, ShardIndex from,
                                        DeleteSegmentsCommand command) {
    const Status done = co_await shard->owner_.delete_segments(command.partition, command.count);
    shard->port_.reply(from, {.ticket = command.ticket, .body = DeleteSegmentsReply{done}});
}

Task<void> Shard::serve_metadata(Anchor<Shard> shard, ShardIndex from, MetadataCommand command) {
    GALGO_CHECK(shard->plane_ != nullptr);
    const runtime::Ticket ticket = command.ticket;
    MetadataReply reply = co_await shard->plane_->submit(std::move(command));
    shard->port_.reply(from, {.ticket = ticket, .body = std::move(reply)});
}

Task<void> Shard::serve_register(Anchor<Shard> shard, ShardIndex from, RegisterCommand command) {
    GALGO_CHECK(shard->plane_ != nullptr);
    MetadataReply reply = co_await shard->plane_->register_client(command.client, command.login);
    shard->port_.reply(from, {.ticket = command.ticket, .body = std::move(reply)});
}

Task<void> Shard::serve_end_session(Anchor<Shard> shard, ShardIndex from,
                                    EndSessionCommand command) {
    GALGO_CHECK(shard->plane_ != nullptr);
    MetadataReply reply = co_await shard->plane_->end_session(command.client, command.session);
    shard->port_.reply(from, {.ticket = command.ticket, .body = std::move(reply)});
}

Task<void> Shard::serve_retire(Anchor<Shard> shard, RetirePartition command) {
    co_await shard->owner_.retire(command);
}

Task<void> Shard::serve_forget_group(Anchor<Shard> shard, ForgetGroup command) {
    co_await shard->owner_.forget_group(command);
}

Task<void> Shard::serve_stop(Anchor<Shard> shard, ShardIndex from, StopCommand command) {
    const StopReply reply = co_await shard->stop(command.phase);
    shard->port_.reply(from, {.ticket = command.ticket, .body = reply});
    if (command.phase == StopPhase::kPartitions) {
        shard->loop_.stop();
    }
}

void Shard::place_connection(ShardIndex target, runtime::SocketHandle socket,
                             net::ConnectionFacts facts) {
    if (target == self_) {
        connections_.adopt(socket, std::move(facts));
    } else if (!port_.try_post(target,
                               AdoptConnection{.socket = socket, .facts = std::move(facts)})) {
        loop_.io().close_socket(socket);
    }
}

/// What a published change means for the owners of partitions and the holders of sessions.
void Shard::on_changes(const std::vector<metadata::Change>& changes) {
    for (const metadata::Change& change : changes) {
        switch (change.kind) {
            case metadata::ChangeKind::kPartitionDeleted:
                process_.trash.note_retired(change.partition, change.incarnation_before);
                tell_owner(change.partition,
                           RetirePartition{.key = change.partition,
                                           .keep_from = change.incarnation_before.next(),
                                           .deleted = true});
                break;
            case metadata::ChangeKind::kPartitionPurged:
                process_.trash.note_retired(change.partition, change.incarnation_before);
                tell_owner(change.partition, RetirePartition{.key = change.partition,
                                                             .keep_from = change.incarnation});
                break;
            case metadata::ChangeKind::kGroupDeleted: {
                const metadata::Topic* topic = process_.metadata.read(self_).state.find_topic(
                    wire::Identifier::numbered(change.stream.value()),
                    wire::Identifier::numbered(change.topic.value()));
                for (std::uint32_t i = 0; topic != nullptr && i < topic->partition_count(); ++i) {
                    const PartitionKey key = model::pack_partition_key(change.stream, change.topic,
                                                                       model::PartitionId{i});
                    tell_owner(key, ForgetGroup{.key = key, .group = change.group});
                }
                break;
            }
            case metadata::ChangeKind::kSessionEnded:
                for (std::uint16_t i = 0; i < process_.mesh.shard_count(); ++i) {
                    tell(ShardIndex{i},
                         SessionEnded{.client = change.client, .session = change.session});
                }
                break;
            default:
                break;
        }
    }
}

void Shard::tell_owner(PartitionKey key, Request&& message) {
    tell(router_.owner_of(key), std::move(message));
}

/// Posts a message that needs no answer; when the lane is full, a task of its own tries again.
void Shard::tell(ShardIndex shard, Request&& message) {
    if (shard == self_) {
        on_request(self_, std::move(message));
        return;
    }
    if (!port_.try_post(shard, std::move(message))) {
        // NOLINTNEXTLINE(bugprone-use-after-move): a refused message is untouched
        deliveries_.spawn(deliver, Anchor(*this), shard, std::move(message));
    }
}

Task<void> Shard::deliver(Anchor<Shard> shard, ShardIndex to, Request message) {
    // NOLINTNEXTLINE(bugprone-use-after-move): a refused message is untouched
    while (!shard->port_.try_post(to, std::move(message))) {
        co_await shard->loop_.sleep_for(kMillisecond);
    }
}

Task<StopReply> Shard::stop(StopPhase phase) {
    StopReply reply;
    if (phase == StopPhase::kConnections) {
        services_.stopping = true;
        process_.offload.refuse();
        // Requests that wait for room in the journal would keep their connections open for ever.
        journal_.stop_waiting();
        co_await connections_.stop();
        co_return reply;
    }
    housekeeping_.interrupt();
    cleaner_.stop();
    co_await housekeeping_done_.wait();
    co_await cleaning_done_.wait();
    co_await chore_scope_.close();
    const Status closed = co_await table_.close_all();
    reply.clean = closed.has_value();
    co_await journal_.close();
    co_return reply;
}

Task<bool> Shard::stop_all() {
    bool clean = true;
    journal_.stop_waiting();
    for (const StopPhase phase : {StopPhase::kConnections, StopPhase::kPartitions}) {
        if (phase == StopPhase::kPartitions && plane_ != nullptr) {
            co_await plane_->stop();
            // Nothing more is told. What waits for room in a lane goes before the stop: a shard
            // that has ended carries out nothing and makes no room.
            co_await deliveries_.close();
        }
        // All are told before one is awaited: the requests of one shard wait for the others.
        std::vector<runtime::Ticket> tickets;
        for (std::uint16_t i = 0; i < process_.mesh.shard_count(); ++i) {
            const ShardIndex shard{i};
            if (shard == self_) {
                continue;
            }
            const std::optional<runtime::Ticket> ticket = slots_.open();
            GALGO_CHECK(ticket.has_value());
            while (!port_.try_send(shard, StopCommand{.ticket = *ticket, .phase = phase})) {
                co_await loop_.sleep_for(kMillisecond);
            }
            tickets.push_back(*ticket);
        }
        for (const runtime::Ticket ticket : tickets) {
            const ReplyBody reply = co_await slots_.wait(ticket);
            clean = clean && std::get<StopReply>(reply).clean;
        }
        const StopReply own = co_await stop(phase);
        clean = clean && own.clean;
    }
    co_return clean;
}

}  // namespace galgo::shard

#include "world.hpp"

#include <bit>
#include <utility>

#include "base/this_shard.hpp"
#include "runtime/io_await.hpp"

namespace galgo::log_model {

using coro::Task;
using partitions::Counters;
using partitions::PartitionHandle;

World::World(std::uint64_t seed, std::uint64_t journal_bytes, runtime_sim::DiskOptions disk)
    : sim_(seed),
      node_(sim_.add_node(disk)),
      pool_(memory::PoolOptions{.budget_bytes = 64 * kMiB}),
      journal_bytes_(journal_bytes) {}

World::~World() {
    if (journal_ != nullptr) {
        kill(runtime_sim::CrashKind::kProcess, runtime_sim::UnsyncedFate::kKeepAll);
    }
}

void World::add_partition(partitions::PartitionOptions options) {
    const auto number = static_cast<std::uint32_t>(places_.size());
    places_.push_back({.key = model::pack_partition_key(model::StreamId{0}, model::TopicId{0},
                                                        model::PartitionId{number}),
                       .options = options,
                       .counters = {}});
}

void World::settle() {
    static_cast<void>(sim_.run_until([this] {
        return node_.io->crashed() ||
               (node_.io->in_flight_count() == 0 && node_.loop->next_wake() != Instant{0});
    }));
}

// ---- start and stop

std::optional<Status> World::start() {
    return sim_.run_until_crash(node_, boot(*this));
}

Task<Status> World::boot(World& world) {
    runtime::IoBackend& io = *world.node_.io;
    GALGO_CO_TRY(co_await runtime::make_directories(io, "/data/state"));
    GALGO_CO_TRY(co_await runtime::sync_directory(io, "/data"));
    GALGO_CO_TRY(co_await runtime::sync_directory(io, "/"));
    GALGO_CO_TRY_ASSIGN(world.replay_,
                        co_await storage::replay_journals(io, "/data/state", world.boot_));
    if (!world.replay_.refusal().empty()) {
        co_return fail(ErrorCode::kCannotReadMessage);
    }
    world.journal_ = std::make_unique<storage::ShardJournal>(
        io, world.node_.queue(),
        storage::JournalOptions{.directory = "/data/state",
                                .epoch = world.replay_.next_epoch(),
                                .first_sequence = world.replay_.next_sequence(),
                                .file_bytes = world.journal_bytes_,
                                .files_max = 4,
                                .boot = world.boot_});
    world.node_.loop->add_turn_end([journal = world.journal_.get()] { journal->end_of_turn(); });
    storage::LedgerClaims claims = co_await storage::load_ledgers(io, "/data/state", world.boot_);
    const Status opened = co_await world.journal_->open();
    static_cast<void>(opened);  // it is usable all the same
    world.table_ = std::make_unique<partitions::PartitionTable>(
        *world.node_.loop, world.pool_, *world.journal_,
        partitions::TableOptions{.data_path = "/data",
                                 .trash = world.trash_,
                                 .consumer_offsets_max = kConsumerOffsetsMax,
                                 .replay = &world.replay_,
                                 .claims = world.living(claims),
                                 .boot = world.boot_});
    world.recovered_ = false;
    co_await world.finish_recovery();
    co_return Status{};
}

/// As the metadata says: claims for a life that ended mean nothing.
std::vector<storage::LedgerRow> World::living(const storage::LedgerClaims& claims) const {
    std::vector<storage::LedgerRow> rows;
    for (const Place& place : places_) {
        const auto found = claims.find({place.key, place.incarnation});
        if (found != claims.end()) {
            rows.push_back(found->second);
        }
    }
    return rows;
}

Task<Result<PartitionHandle>> World::open(std::size_t index) {
    const Place& place = places_[index];
    Result<PartitionHandle> handle =
        co_await table_->open(place.key, place.incarnation, place.options,
                              [this, index, life = place.incarnation](const Counters& counters) {
                                  if (places_[index].incarnation == life) {
                                      places_[index].counters = counters;
                                  }
                              });
    co_return handle;
}

/// The old journals go when every partition that they know of has what they say.
Task<void> World::finish_recovery() {
    bool all = true;
    for (std::size_t i = 0; i < places_.size(); ++i) {
        const Result<PartitionHandle> opened = co_await open(i);
        all = all && opened.has_value();
    }
    co_await table_->complete_recovery();
    if (all && !recovered_ && table_->recovered()) {
        co_await table_->write_ledger();
        const Status removed = co_await replay_.remove_files(*node_.io);
        if (removed.has_value()) {
            table_->end_recovery();
            recovered_ = true;
        }
    }
}

Task<void> World::housekeeping() {
    co_await table_->checkpoint();
    table_->rest();
    if (!recovered_) {
        co_await finish_recovery();
    }
    co_await table_->keep_ledger();
    if (trash_.has_work()) {
        const Result<bool> emptied = co_await trash_.empty(*node_.io, node_.queue(), 64);
        static_cast<void>(emptied);
    }
}

Task<void> World::purge(std::size_t index, bool deleted) {
    Place& place = places_[index];
    trash_.note_retired(place.key, place.incarnation);  // the entry of the metadata log
    place.incarnation = place.incarnation.next();
    place.counters = {};
    co_await table_->retire(place.key, place.incarnation, deleted);
}

std::optional<Status> World::stop() {
    std::optional<Status> stopped = sim_.run_until_crash(node_, shut_down(*this));
    if (!stopped.has_value()) {
        return stopped;
    }
    sim_.kill(node_);
    table_.reset();
    journal_.reset();
    trace_hash_ = std::rotl(trace_hash_ ^ node_.io->trace_hash(), 7);
    sim_.restart(node_, runtime_sim::CrashKind::kProcess);
    return stopped;
}

Task<Status> World::shut_down(World& world) {
    const Status closed = co_await world.table_->close_all();
    co_await world.journal_->close();
    co_return closed;
}

// ---- crash

/// A dead process can write nothing any more, so its ordinary end is the way to free what it has.
Task<void> World::shut_down_dead(World& world) {
    if (world.table_ != nullptr) {
        const Status closed = co_await world.table_->close_all();
        static_cast<void>(closed);
    }
    if (world.journal_ != nullptr) {
        co_await world.journal_->close();
    }
    world.ended_ = true;
}

namespace {

/// Starts a task and frees it at its end.
struct Detached {
    struct promise_type {
        Detached get_return_object() const noexcept { return {}; }
        [[nodiscard]] std::suspend_never initial_suspend() const noexcept { return {}; }
        [[nodiscard]] std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
};

Detached drive(Task<void>::Handle handle) {
    co_await coro::detail::TaskAwaiter<void>(handle);
}

}  // namespace

void World::kill(runtime_sim::CrashKind kind, runtime_sim::UnsyncedFate fate) {
    constexpr int kRoundsMax = 100'000;
    const auto turn = [this] {
        sim_.kill(node_);
        if (journal_ != nullptr) {
            journal_->stop_waiting();
        }
        set_this_shard(node_.shard);
        node_.loop->run_turn();
        sim_.clock().advance(kMillisecond);
    };
    for (int i = 0; i < 8; ++i) {
        turn();
    }
    ended_ = false;
    set_this_shard(node_.shard);
    drive(shut_down_dead(*this).release_handle());
    for (int i = 0; !ended_; ++i) {
        if (i == kRoundsMax) {
            sim_.fail_hang("a killed process does not end");
        }
        turn();
    }
    sim_.kill(node_);
    table_.reset();
    journal_.reset();
    replay_ = {};
    trace_hash_ = std::rotl(trace_hash_ ^ node_.io->trace_hash(), 7);
    boot_ += kind == runtime_sim::CrashKind::kPower ? 1 : 0;
    sim_.restart(node_, kind, fate);
}

}  // namespace galgo::log_model

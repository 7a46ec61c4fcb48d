// Shard: everything one core owns - loop, journal, partitions, connections - and, on shard 0, the
// metadata plane. Built on its thread by the server; start and stop order are in shard.cpp and
// nowhere else. What crosses shards arrives in on_request(); what a client asks arrives through the
// dispatcher.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "coro/scope.hpp"
#include "coro/sync.hpp"
#include "memory/buffer_pool.hpp"
#include "net/connection_set.hpp"
#include "partitions/partition_table.hpp"
#include "runtime/loop.hpp"
#include "runtime/offload.hpp"
#include "shard/cleaner.hpp"
#include "shard/dispatch.hpp"
#include "shard/health.hpp"
#include "shard/message.hpp"
#include "shard/metadata_plane.hpp"
#include "shard/metadata_store.hpp"
#include "shard/partition_owner.hpp"
#include "shard/router.hpp"
#include "shard/services.hpp"
#include "storage/shard_journal.hpp"
#include "storage/trash.hpp"

namespace galgo::observe {
class Histogram;
}

namespace galgo::shard {

/// Where one shard records how long things take, and nobody else; null = not recorded.
struct ShardTimes {
    observe::Histogram* partition_commit = nullptr;
    observe::Histogram* metadata_commit = nullptr;
    observe::Histogram* journal_sync = nullptr;
    observe::Histogram* segment_sync = nullptr;
};

/// Of each shard's journal.
struct JournalSize {
    std::uint64_t file_bytes = storage::kJournalFileBytesDefault;
    std::uint32_t files_max = 16;
};
/// All shards together take a 32nd of the file system at most, or three files of 1 MiB each.
[[nodiscard]] JournalSize journal_size(std::uint64_t disk_bytes, std::size_t shard_count) noexcept;

/// What all shards of the process share. Outlives them.
struct Process {
    memory::BufferPool& pool;
    ShardMesh& mesh;
    MetadataPair& metadata;
    metadata::ClientTable& clients;  ///< shard 0's alone
    runtime::OffloadQueue& offload;
    NodeFacts& node;
    DiskRoom& disk_room;
    ReadSystemStats read_system_stats = nullptr;
    std::string data_path;
    storage::Trash& trash;
    const storage::JournalReplay* replay = nullptr;  ///< of earlier runs; never null
    /// What the ledgers of earlier runs say of partitions that live; null = nothing.
    const storage::LedgerClaims* claims = nullptr;
    storage::BootNumber boot = 0;  ///< of the machine; 0 = not known
    JournalSize journal;
    bool validate_checksum = true;
    const storage::DataKey* encryption = nullptr;  ///< null = messages stay plain
    std::uint32_t consumer_offsets_max = 0;
    std::uint8_t partition_pipeline_max = 32;
    std::uint8_t metadata_pipeline_max = 32;
    OpNumber metadata_head;        ///< last entry of the metadata log
    Timestamp metadata_timestamp;  ///< its stamp
    std::uint32_t tokens_per_user_max = metadata::kTokensPerUserMaxDefault;
    std::uint64_t token_cleaner_interval_ns = 0;  ///< 0 = expired tokens stay
    CleanerOptions cleaner;
    net::ConnectionOptions connections;
    std::vector<ShardTimes> times{};  ///< one a shard, or none
};

class Shard : public coro::Anchored {
 public:
    /// `loop` is this shard's and outlives it; `files` on shard 0 only, null elsewhere.
    Shard(Process& process, ShardIndex self, runtime::Loop& loop, storage::MetadataFiles* files);
    ~Shard();

    [[nodiscard]] runtime::Loop& loop() noexcept { return loop_; }
    [[nodiscard]] ShardIndex self() const noexcept { return self_; }
    [[nodiscard]] MetadataPlane* plane() noexcept { return plane_.get(); }
    [[nodiscard]] Router& router() noexcept { return router_; }
    [[nodiscard]] coro::Scope& scope() noexcept { return scope_; }
    [[nodiscard]] net::ConnectionSet& connections() noexcept { return connections_; }
    /// Readable by other threads.
    [[nodiscard]] const Health& health() const noexcept { return health_; }

    /// Opens the journal, starts the plane, opens the partitions that have files.
    coro::Task<void> start();
    /// Every partition of this shard is whole without the journals of earlier runs. Often true
    /// after start(), else once a full disk has room again or files can be opened. Readable by
    /// other threads.
    [[nodiscard]] bool recovered() const noexcept {
        return recovered_.load(std::memory_order_acquire);
    }
    /// Gives a fresh connection to this shard or, by one message, to another, which owns the socket
    /// from now on. It is closed when nobody can take it.
    void place_connection(ShardIndex target, runtime::SocketHandle socket,
                          net::ConnectionFacts facts);
    /// One phase of the stop, on this shard.
    coro::Task<StopReply> stop(StopPhase phase);
    /// Shard 0: both phases on all shards. True when everything was flushed.
    coro::Task<bool> stop_all();

 private:
    static coro::Task<void> clean(coro::Anchor<Shard> shard);
    static coro::Task<void> housekeep(coro::Anchor<Shard> shard);
    /// What housekeeping begins and does not wait for: a slow file of one partition keeps neither
    /// the others' files nor the look at the disk waiting.
    struct Chores {
        bool checkpoints = false;
        bool recovers = false;
        bool keeps_ledger = false;
        bool empties_trash = false;
        bool looks_at_disk = false;
    };
    void begin_chores();
    static coro::Task<void> checkpoint(coro::Anchor<Shard> shard);
    static coro::Task<void> complete_recovery(coro::Anchor<Shard> shard);
    static coro::Task<void> empty_trash(coro::Anchor<Shard> shard);
    static coro::Task<void> look_at_disk(coro::Anchor<Shard> shard);
    static coro::Task<void> keep_ledger(coro::Anchor<Shard> shard);
    coro::Task<void> check_recovery();
    coro::Task<void> remove_expired_tokens();
    bool drain();
    void on_request(ShardIndex from, Request&& request);
    void on_reply(ReplyMessage&& reply);
    void on_changes(const std::vector<metadata::Change>& changes);
    void tell(ShardIndex shard, Request&& message);
    void tell_owner(PartitionKey key, Request&& message);

    static coro::Task<void> serve_append(coro::Anchor<Shard> shard, ShardIndex from,
                                         AppendCommand command);
    static coro::Task<void> serve_poll(coro::Anchor<Shard> shard, ShardIndex from, PollQuery query);
    static coro::Task<void> serve_offset(coro::Anchor<Shard> shard, ShardIndex from,
                                         OffsetCommand command);
    static coro::Task<void> serve_delete_segments(coro::Anchor<Shard> shard, ShardIndex from,
                                                  DeleteSegmentsCommand command);
    static coro::Task<void> serve_metadata(coro::Anchor<Shard> shard, ShardIndex from,
                                           MetadataCommand command);
    static coro::Task<void> serve_register(coro::Anchor<Shard> shard, ShardIndex from,
                                           RegisterCommand command);
    static coro::Task<void> serve_end_session(coro::Anchor<Shard> shard, ShardIndex from,
                                              EndSessionCommand command);
    static coro::Task<void> serve_stop(coro::Anchor<Shard> shard, ShardIndex from,
                                       StopCommand command);
    static coro::Task<void> serve_retire(coro::Anchor<Shard> shard, RetirePartition command);
    static coro::Task<void> serve_forget_group(coro::Anchor<Shard> shard, ForgetGroup command);
    static coro::Task<void> deliver(coro::Anchor<Shard> shard, ShardIndex to, Request message);

    Process& process_;
    ShardIndex self_;
    runtime::Loop& loop_;
    ShardMesh::Port& port_;
    ReplySlots slots_;
    storage::ShardJournal journal_;
    partitions::PartitionTable table_;
    PartitionOwner owner_;
    std::unique_ptr<MetadataPlane> plane_;
    Router router_;
    SessionIndex sessions_;
    Services services_;
    Dispatcher dispatcher_;
    net::ConnectionSet connections_;
    Cleaner cleaner_;
    Health health_;
    runtime::Sleeper housekeeping_;
    coro::Event housekeeping_done_;
    coro::Event cleaning_done_;
    std::atomic<bool> recovered_{false};
    Instant tokens_cleaned_at_;
    Chores chores_;  ///< that are on their way
    coro::Scope scope_;
    coro::Scope chore_scope_;
    coro::Scope deliveries_;  ///< of messages that found their lane full
};

}  // namespace galgo::shard

// The metadata log of this node: every change of streams, topics, partitions, groups and sessions
// is prepared, written with a barrier, committed, applied and published here, and only then
// answered. Shard 0 only; other shards reach it through the router.
//
// A command: client table (is it a repetition?) -> admit (decode and bound) -> consensus group (op
// number) -> WAL (group commit) -> commit -> apply to the hidden copy -> publish -> reply. What
// commits while the old readers are still inside is applied and published together. A full disk
// refuses changes with 58 while it is full, and so does a next file or a snapshot that cannot be
// made: nothing of the change is written, and it is tried again. A failed write or sync of the log,
// and every one of the superblock, fences the plane: reads and messages go on, changes are refused
// with 57 until a restart, because nobody knows what the disk holds. (The end of a session is
// refused for good: the restart ends it.)
//
// When a pipeline is full, commands wait for a place in it, so that those answered by one barrier
// make room for a full group of the next. Every so many changes the published state is encoded on
// the urgent offload thread (nothing is published meanwhile), written as a snapshot, and the log
// before it goes. Commands wait for a snapshot that the log needs to go on.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "coro/scope.hpp"
#include "coro/sync.hpp"
#include "coro/task.hpp"
#include "metadata/client_table.hpp"
#include "metadata/operation.hpp"
#include "replication/group_driver.hpp"
#include "runtime/loop.hpp"
#include "runtime/offload.hpp"
#include "shard/message.hpp"
#include "shard/metadata_store.hpp"
#include "storage/metadata_files.hpp"
#include "storage/trash.hpp"

namespace galgo::observe {
class Histogram;
}

namespace galgo::shard {

class MetadataPlane : public coro::Anchored {
 public:
    /// Tells the shards what a published change means for them. Called on shard 0, in log order.
    using OnChanges = std::function<void(const std::vector<metadata::Change>& changes)>;

    struct Options {
        std::uint8_t pipeline_max = 32;
        OpNumber head;             ///< last entry of the log
        Timestamp last_timestamp;  ///< its stamp
        std::uint32_t tokens_per_user_max = metadata::kTokensPerUserMaxDefault;
        OnChanges on_changes;
        observe::Histogram* commit_times =
            nullptr;                               ///< admission to published; null = not recorded
        runtime::OffloadQueue* offload = nullptr;  ///< null: snapshots are encoded here
        /// Knows the lives of partitions that ended; null: snapshots tell of none.
        const storage::Trash* trash = nullptr;
    };

    /// `pair` and `clients` hold what `files` replayed to; all outlive the plane.
    MetadataPlane(runtime::Loop& loop, MetadataPair& pair, metadata::ClientTable& clients,
                  storage::MetadataFiles& files, Options options);
    ~MetadataPlane();

    /// Begins to publish. Called once, on the running loop.
    void start();
    /// Refuses new commands and returns when those in flight were answered.
    coro::Task<void> stop();

    /// A client's command; the reply carries its whole body.
    coro::Task<MetadataReply> submit(MetadataCommand command);
    /// A new session for `client`, whose credentials were verified. The session number is the
    /// reply's `op`. Evicts when the user or the token is gone, or the password another, by the
    /// time it is logged.
    coro::Task<MetadataReply> register_client(ClientId client, metadata::Login login);
    /// Logout or loss of the connection. Nothing happens when the session is not the client's
    /// current one. Status 57: an operation of the client is on its way, ask again; 58: busy, ask
    /// again; any other: it will not end before a restart.
    coro::Task<MetadataReply> end_session(ClientId client, SessionId session);
    /// An operation of the server itself, with root's rights.
    coro::Task<Status> propose_own(metadata::Admitted admitted);
    /// Takes a snapshot now if one is due. Before the first proposal of a start, so that it finds
    /// room.
    coro::Task<void> settle_snapshot();
    /// Clients are refused with 58 from here on, until accept_clients(). For a start that could not
    /// write yet what has to come before their first change.
    void hold_clients() noexcept { clients_held_ = true; }
    void accept_clients() noexcept { clients_held_ = false; }
    /// Once a second.
    void tick();

    [[nodiscard]] OpNumber commit() const noexcept { return driver_.group().commit(); }
    [[nodiscard]] const storage::MetadataFiles& files() const noexcept { return files_; }
    [[nodiscard]] bool fenced() const noexcept { return fenced_; }
    [[nodiscard]] bool snapshot_running() const noexcept { return snapshot_running_; }
    /// Why changes are refused; empty when they are not.
    [[nodiscard]] std::vector<std::string> faults() const;

 private:
    /// One operation on its way; lives in the frame of the command that proposed it.
    struct InFlight : replication::Proposal {
        using Proposal::Proposal;
        LoggedOperation operation;
        metadata::ApplyOutcome applied;  ///< set when it settles with kOk
    };

    coro::Task<ErrorCode> propose(InFlight& in_flight, metadata::Admitted admitted);
    coro::Task<ErrorCode> propose_for_client(InFlight& in_flight, metadata::Admitted admitted);
    void on_commit(InFlight& in_flight);
    [[nodiscard]] bool has_room(std::size_t entry_bytes);
    static coro::Task<void> publish_loop(coro::Anchor<MetadataPlane> plane);
    bool start_snapshot();
    static coro::Task<void> take_snapshot(coro::Anchor<MetadataPlane> plane);
    void tail_has_moved() noexcept;
    void publish_committed();
    void fence(const Error& error);
    void note_no_room();
    [[nodiscard]] MetadataReply transient(ErrorCode code) const;

    runtime::Loop& loop_;
    MetadataPair& pair_;
    metadata::ClientTable& clients_;  ///< changes with the published state
    storage::MetadataFiles& files_;
    Options options_;
    consensus::PipelinePool pipelines_;
    consensus::ReplicaOptions group_options_;
    replication::GroupDriver driver_;
    std::set<ClientId> clients_in_flight_;
    std::deque<InFlight*> committed_;  ///< in log order, not applied yet
    coro::Event work_;                 ///< something was committed, or stop
    coro::Semaphore places_;           ///< in the pipeline
    std::uint32_t waiting_count_ = 0;  ///< for a place
    OpNumber head_;                    ///< last op that was admitted
    std::uint64_t tail_count_;         ///< entries behind the last snapshot, those on their way too
    std::uint64_t applied_count_;      ///< those of them that are published
    OpNumber applied_;                 ///< last op of the published state
    Timestamp applied_timestamp_;
    bool snapshot_running_ = false;
    coro::Event tail_moved_;       ///< pulsed: published, snapshot ended, append failed, fenced
    Instant next_snapshot_at_{0};  ///< after a failure: not before
    coro::Event publishable_;      ///< nobody encodes the published copy elsewhere
    coro::Scope scope_;
    bool stopping_ = false;
    bool fenced_ = false;
    bool clients_held_ = false;
    bool lacks_room_ = false;  ///< the last change was refused for want of it
    Instant next_room_line_at_{0};
};

}  // namespace galgo::shard

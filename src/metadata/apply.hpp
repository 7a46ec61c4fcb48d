// Executes committed operations on a State: the one place where metadata changes.
//
// Called on shard 0, in log order, once for each of the two copies of the state, and again for the
// whole log at a start. The outcome depends on the state and the prepare only: both copies, every
// replica and every replay give the same one. The shard layer acts on the outcome of the first copy
// (publishes, tells the owners of partitions, answers the client) and drops the second.
//
// Order of the checks of a client's operation: target (not found), right (41), then what the
// operation itself demands. A refusal is an outcome like any other: it was committed, takes its
// place in the client table and is answered again when the request is repeated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error_code.hpp"
#include "base/ids.hpp"
#include "metadata/operation.hpp"
#include "metadata/partition_stats.hpp"
#include "metadata/state.hpp"
#include "model/ids.hpp"

namespace galgo::metadata {

enum class ChangeKind : std::uint8_t {
    kPartitionCreated,  ///< partition, incarnation
    kPartitionDeleted,  ///< partition, incarnation_before: files and offsets of that life may go
    kPartitionPurged,   ///< partition, incarnation_before, incarnation: restart at offset 0, no
                        ///< offsets
    kTopicCreated,      ///< stream, topic
    kTopicUpdated,      ///< stream, topic: name or options (retention) changed
    kTopicDeleted,      ///< stream, topic; its partitions were listed before
    kStreamCreated,     ///< stream
    kStreamUpdated,     ///< stream: name changed
    kStreamDeleted,     ///< stream; its topics were listed before
    kGroupCreated,      ///< stream, topic, group
    kGroupChanged,      ///< stream, topic, group: assignment and generation
    kGroupDeleted,      ///< stream, topic, group: its stored offsets must go
    kUserCreated,       ///< user
    kUserUpdated,       ///< user: name, status, password or permissions
    kUserDeleted,       ///< user; its tokens are gone with it, its sessions were listed before
    kTokensChanged,     ///< user: a token was made or removed
    kSessionStarted,    ///< client, session, user
    kSessionEnded,      ///< client, session: unbind its connection if there is one
};

/// One effect of an operation; the comment of its kind names the fields that count.
struct Change {
    ChangeKind kind{};
    model::StreamId stream{};
    model::TopicId topic{};
    model::GroupId group{};
    PartitionKey partition{};
    Incarnation incarnation_before{};
    Incarnation incarnation{};
    ClientId client{};
    SessionId session{};
    model::UserId user{};

    constexpr bool operator==(const Change&) const noexcept = default;
};

struct ApplyOutcome {
    ErrorCode result = ErrorCode::kOk;  ///< not kOk: result entry; nothing was changed
    std::vector<std::byte> payload;     ///< what follows the result section of a success
    std::vector<Change> changes;        ///< in the order in which they took effect

    bool operator==(const ApplyOutcome&) const noexcept = default;
};

/// Applies the operation behind state.op(): prepare.op must be above it. A body that does not
/// decode is refused with kInvalidCommand like any other error (it can only come from a damaged or
/// foreign log).
[[nodiscard]] ApplyOutcome apply(State& state, PartitionStatsRegistry& registry,
                                 const PrepareView& prepare);

/// The whole body of the reply: result section and payload, or the rejection. A logout has none. To
/// a token that was created the edge adds the token.
[[nodiscard]] std::vector<std::byte> reply_body(LogOperation operation,
                                                const ApplyOutcome& outcome);

class ClientTable;
/// Brings the client table up to date with an applied operation: sessions that started and ended,
/// and the reply of a client's metadata operation. `reply` is what classify() hands out again for
/// this request; but a token that was created is not shown again, the repetition is refused with
/// 51.
void record_commit(ClientTable& table, const PrepareView& prepare, const ApplyOutcome& outcome,
                   ConstBytes reply);
/// Could the table have let this entry into the log? What it answers by itself is never logged, and
/// record_commit() takes that for granted: ask first about what comes from a disk.
[[nodiscard]] bool may_be_logged(const ClientTable& table, const PrepareView& prepare) noexcept;

}  // namespace galgo::metadata

// What goes into a replica: events as plain values. Whoever runs the replica (replication/ in the
// server, the simulator in tests) makes them; all that a replica knows of time, disk and network
// comes this way.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "base/ids.hpp"
#include "consensus/frames.hpp"
#include "consensus/head.hpp"
#include "consensus/types.hpp"

namespace galgo::consensus {

/// What a replica keeps outside its log: written before the first frame of a view is sent.
struct SuperblockState {
    ClusterId cluster;
    ReplicaIndex replica;
    std::uint8_t replica_count = 1;
    ViewNumber view;
    ViewNumber log_view;  ///< the last view whose log is the log of this replica
    Head commit_max;      ///< a lower bound
    constexpr bool operator==(const SuperblockState&) const noexcept = default;
};

/// What the log of this group holds, as its recovery found it.
struct LogSummary {
    Head head;  ///< last entry; everything before it is there
    /// Known to be committed, by the last entry; may lie beyond the head. Not looked at in a group
    /// of one.
    Head commit;
    Timestamp last_timestamp;  ///< stamp of the last entry
};

/// The first event, once. With more than one replica a superblock must be there, or `fresh` and an
/// empty log: a replica that lost what it promised must not come back as one that promised nothing.
struct Boot {
    std::optional<SuperblockState> superblock;
    LogSummary log;
    TickCount now;
    /// It is known from elsewhere (whoever set up the group) that this replica never spoke in it.
    /// Not looked at where there is a superblock.
    bool fresh = false;
};

/// Time went on. A group of one needs none.
struct Tick {
    TickCount now;
    std::uint64_t random = 0;  ///< drawn by the caller; spreads what groups send again in time
};

/// A client asks for one operation. The caller keeps the body under `token` until the effect
/// Append names its op, then under that.
struct ClientRequest {
    Token token;
    Timestamp wall;  ///< now
    BodyDigest body;
};

/// A frame came. `peer` is whom the connection belongs to, not what the frame says. The seal of the
/// frame and the digest of a prepare's body were checked.
struct Received {
    ReplicaIndex peer;
    Frame frame;
};

/// The append of an entry ended. kDurable: it reached the level that the group promises (page cache
/// or stable storage). kFailed: nothing may be promised.
enum class AppendStatus : std::uint8_t { kDurable, kFailed };
struct AppendDone {
    OpNumber op;
    Identity identity;
    AppendStatus status = AppendStatus::kFailed;
};

/// The superblock write ended; `written` says whether `state` is on stable storage now.
struct SuperblockDone {
    SuperblockState state;
    bool written = false;
};

/// The answer to an effect Read.
enum class ReadStatus : std::uint8_t {
    kPresent,
    kAbsent,  ///< not in the log: never was, or below its beginning
    kFaulty,  ///< it is there and cannot be read or is corrupt
};
struct ReadDone {
    OpNumber op;
    ReadStatus status = ReadStatus::kAbsent;
    Prepare prepare;  ///< kPresent only
};

using Event =
    std::variant<Boot, Tick, ClientRequest, Received, AppendDone, SuperblockDone, ReadDone>;

}  // namespace galgo::consensus

// The sessions of the metadata log: which client ids may write, since which Register, for which
// user. Part of the replicated state, and of what every shard can read (a node checks a parent
// session there). What was answered to a client is not here but in the client table, on shard 0
// only.
//
// Bounded: when `sessions_max` clients are registered, the next one pushes out the client whose
// last committed operation is the oldest. The bound takes part in the state machine, so it comes
// from the log: kResetSessions brings it, and a snapshot keeps it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "model/ids.hpp"

namespace galgo::metadata {

inline constexpr std::uint32_t kSessionsMaxDefault = 8192;

struct Session {
    SessionId epoch;  ///< op of the Register that made it
    model::UserId user;
    OpNumber last_commit;  ///< last committed operation of this client

    constexpr bool operator==(const Session&) const noexcept = default;
};

class Sessions {
 public:
    explicit Sessions(std::size_t sessions_max) : sessions_max_(sessions_max) {
        GALGO_CHECK(sessions_max > 0);
    }

    /// Null when the client has none. Valid until the next change.
    [[nodiscard]] const Session* find(ClientId client) const noexcept {
        const auto found = by_client_.find(client);
        return found == by_client_.end() ? nullptr : &found->second;
    }
    /// The client that must go before a new client id has room; ask again after it is gone.
    [[nodiscard]] std::optional<ClientId> next_evicted() const noexcept {
        if (by_client_.size() < sessions_max_) {
            return std::nullopt;
        }
        return by_last_commit_.begin()->second;
    }
    /// The client has no session and there is room.
    void start(ClientId client, Session session) {
        GALGO_CHECK(by_client_.size() < sessions_max_);
        const bool added = by_client_.emplace(client, session).second;
        GALGO_CHECK(added);
        by_last_commit_.emplace(session.last_commit, client);
    }
    /// As it was stored. There may be more than `sessions_max` then, until the next start pushes
    /// them out. False: the client has one already.
    bool restore(ClientId client, Session session) {
        const bool added = by_client_.emplace(client, session).second;
        if (added) {
            by_last_commit_.emplace(session.last_commit, client);
        }
        return added;
    }
    void end(ClientId client) {
        const auto found = by_client_.find(client);
        GALGO_CHECK(found != by_client_.end());
        by_last_commit_.erase({found->second.last_commit, client});
        by_client_.erase(found);
    }
    /// An operation of the client was committed. Unknown clients are ignored.
    void touch(ClientId client, OpNumber op) {
        const auto found = by_client_.find(client);
        if (found == by_client_.end()) {
            return;
        }
        by_last_commit_.erase({found->second.last_commit, client});
        found->second.last_commit = op;
        by_last_commit_.emplace(op, client);
    }

    /// The clients of `user`, ascending.
    [[nodiscard]] std::vector<ClientId> clients_of(model::UserId user) const {
        std::vector<ClientId> clients;
        for (const auto& [client, session] : by_client_) {
            if (session.user == user) {
                clients.push_back(client);
            }
        }
        return clients;
    }
    /// For those who start from now on; nobody has a session at the moment.
    void set_sessions_max(std::size_t sessions_max) {
        GALGO_CHECK(sessions_max > 0 && by_client_.empty());
        sessions_max_ = sessions_max;
    }
    [[nodiscard]] std::size_t size() const noexcept { return by_client_.size(); }
    [[nodiscard]] std::size_t sessions_max() const noexcept { return sessions_max_; }
    /// By ascending client id.
    [[nodiscard]] const std::map<ClientId, Session>& by_client() const noexcept {
        return by_client_;
    }

 private:
    std::size_t sessions_max_;
    std::map<ClientId, Session> by_client_;
    std::set<std::pair<OpNumber, ClientId>> by_last_commit_;
};

}  // namespace galgo::metadata

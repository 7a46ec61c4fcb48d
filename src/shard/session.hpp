// What a shard knows of one of its connections: who is on the other end. One connection is bound to
// at most one (client, session, user); binding happens at login, ends at logout, eviction or loss.
#pragma once

#include <map>

#include "base/ids.hpp"
#include "metadata/sessions.hpp"
#include "metadata/state.hpp"
#include "model/ids.hpp"
#include "net/connection_sink.hpp"

namespace galgo::shard {

struct Session final : net::ConnectionContext {
    net::ConnectionFacts facts;
    bool bound = false;
    ClientId client;
    SessionId epoch;
    model::UserId user = model::kNoUserId;
    OpNumber checked_at;  ///< last operation of the state that refresh() looked at
};

/// The bound sessions of one shard, by client id. The sessions themselves belong to their
/// connections.
class SessionIndex {
 public:
    /// `published` is the table of this shard's metadata. False, and nothing is bound: the session
    /// ended while the answer to its Register was on its way here (the client logged in elsewhere,
    /// the table was full), and the word of that came before there was anything to unbind. An end
    /// that is not published yet is told later.
    [[nodiscard]] bool bind(Session& session, ClientId client, SessionId epoch, model::UserId user,
                            const metadata::Sessions& published) {
        const metadata::Session* current = published.find(client);
        if (current == nullptr || current->epoch != epoch) {
            return false;
        }
        session.bound = session.authenticated = true;
        session.client = client;
        session.epoch = epoch;
        session.user = user;
        session.checked_at = {};
        by_client_[client] = &session;
        return true;
    }
    void unbind(Session& session) {
        const auto found = by_client_.find(session.client);
        if (session.bound && found != by_client_.end() && found->second == &session) {
            by_client_.erase(found);
        }
        session.bound = session.authenticated = false;
        session.client = {};
        session.epoch = {};
        session.user = model::kNoUserId;
    }
    /// Unbinds a session that ended, or whose user may no longer act, by what this shard has
    /// published: whoever ended it was not answered before, but the word of it may still be on its
    /// way. Before each request; does nothing while nothing was published.
    void refresh(Session& session, const metadata::State& state) {
        if (!session.bound || session.checked_at == state.op()) {
            return;
        }
        const metadata::Session* current = state.sessions().find(session.client);
        if (current == nullptr || current->epoch != session.epoch ||
            state.find_user_of_session(session.user, session.epoch) == nullptr) {
            unbind(session);
            return;
        }
        session.checked_at = state.op();
    }
    /// The session ended elsewhere (table full, logged in again): its connection is anonymous from
    /// now on.
    void end(ClientId client, SessionId epoch) {
        const auto found = by_client_.find(client);
        if (found != by_client_.end() && found->second->epoch == epoch) {
            unbind(*found->second);
        }
    }

 private:
    std::map<ClientId, Session*> by_client_;
};

}  // namespace galgo::shard

// Executes one operation on a State. Each operation is a method that checks everything first and
// changes the state only when nothing can fail any more; so a refusal leaves no trace. Split over
// the files apply.cpp (dispatch, sessions, root), apply_streams.cpp, apply_topics.cpp,
// apply_groups.cpp and apply_users.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "metadata/apply.hpp"
#include "metadata/operation.hpp"
#include "metadata/partition_stats.hpp"
#include "metadata/state.hpp"

namespace galgo::metadata {

class Applier {
 public:
    Applier(State& state, PartitionStatsRegistry& registry, const PrepareView& prepare) noexcept
        : state_(state), registry_(registry), prepare_(prepare) {}

    [[nodiscard]] ApplyOutcome run();

 private:
    using Payload = std::vector<std::byte>;
    struct TopicTarget {
        Stream* stream;
        Topic* topic;
    };

    [[nodiscard]] Result<Payload> execute();

    // apply.cpp
    [[nodiscard]] Result<Payload> register_client();
    [[nodiscard]] Result<Payload> logout();
    [[nodiscard]] Result<Payload> reset_sessions();
    [[nodiscard]] Result<Payload> create_root();
    void end_session(ClientId client);
    // apply_streams.cpp
    [[nodiscard]] Result<Payload> create_stream();
    [[nodiscard]] Result<Payload> update_stream();
    [[nodiscard]] Result<Payload> delete_stream();
    [[nodiscard]] Result<Payload> purge_stream();
    // apply_topics.cpp
    [[nodiscard]] Result<Payload> create_topic();
    [[nodiscard]] Result<Payload> update_topic();
    [[nodiscard]] Result<Payload> delete_topic();
    [[nodiscard]] Result<Payload> purge_topic();
    [[nodiscard]] Result<Payload> create_partitions();
    [[nodiscard]] Result<Payload> delete_partitions();
    void append_partitions(const Stream& stream, Topic& topic, std::uint32_t count);
    void drop_partitions(const Stream& stream, Topic& topic, std::uint32_t count);
    void purge_partitions(const Stream& stream, Topic& topic);
    /// Everything that a topic leaves behind elsewhere: partitions, memberships.
    void drop_contents(const Stream& stream, Topic& topic);
    void resize_groups(const Stream& stream, Topic& topic);
    // apply_groups.cpp
    [[nodiscard]] Result<Payload> create_group();
    [[nodiscard]] Result<Payload> delete_group();
    [[nodiscard]] Result<Payload> join_group();
    [[nodiscard]] Result<Payload> leave_group();
    void forget_members(const GroupAddress& address, const ConsumerGroup& group);
    void forget_membership(ClientId client, const GroupAddress& address);

    // apply_users.cpp
    [[nodiscard]] Result<Payload> create_user();
    [[nodiscard]] Result<Payload> update_user();
    [[nodiscard]] Result<Payload> delete_user();
    [[nodiscard]] Result<Payload> update_permissions();
    [[nodiscard]] Result<Payload> change_password();
    [[nodiscard]] Result<Payload> create_token();
    [[nodiscard]] Result<Payload> delete_token();
    [[nodiscard]] Result<Payload> expire_tokens();
    void erase_expired_tokens(User& user);
    void end_sessions_of(model::UserId user);
    /// Right of the asking user, then the target. Errors: 41, 20.
    [[nodiscard]] Result<User*> managed_user(const wire::Identifier& id);

    /// The user that asks. Null when it is gone or was deactivated: the session ended with that,
    /// but the operation was on its way. A row under its id that is younger than the session is
    /// somebody else's. (Root is never gone, and keeps its rights.)
    [[nodiscard]] User* acting_user();
    /// Error: 41.
    [[nodiscard]] Status require(model::Rule rule, model::StreamId stream = {},
                                 model::TopicId topic = {});
    // Target and right of the asking user, in this order. Errors: 1009, 2010, 41.
    [[nodiscard]] Result<Stream*> stream_target(const wire::Identifier& stream, model::Rule rule);
    [[nodiscard]] Result<TopicTarget> topic_target(const wire::Identifier& stream,
                                                   const wire::Identifier& topic, model::Rule rule);

    void changed(const Change& change) { changes_.push_back(change); }
    [[nodiscard]] Incarnation incarnation() const noexcept {
        return Incarnation(prepare_.op.value());
    }

    State& state_;
    PartitionStatsRegistry& registry_;
    const PrepareView& prepare_;
    std::vector<Change> changes_;
};

}  // namespace galgo::metadata

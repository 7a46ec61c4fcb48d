// The metadata of a node: streams with their topics, partitions and consumer groups; users;
// sessions.
//
// A State is a plain copyable value, changed only by metadata/apply.hpp, one committed operation at
// a time. Shard 0 holds two of them (left and right) and applies every operation to both; all other
// shards read the published one. Nothing in it depends on addresses, hashes or clocks: equal logs
// give equal states (metadata/digest.hpp), and every walk over rows is by ascending id.
//
// Invariants (check_invariants):
//  * a name is unique in its scope and its index entry names the row that bears it;
//  * partitions are dense, ids 0..n-1; a group spans exactly the partitions of its topic;
//  * group ids only grow; group members have a session; `memberships_of` mirrors the groups;
//  * incarnation of a partition = op that created or last purged it.
//
// Pointers and references handed out are valid until the next operation is applied to this State.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/ids.hpp"
#include "groups/group.hpp"
#include "metadata/partition_stats.hpp"
#include "metadata/sessions.hpp"
#include "metadata/slot_table.hpp"
#include "model/ids.hpp"
#include "model/permissions.hpp"
#include "wire/primitives.hpp"
#include "wire/requests.hpp"
#include "wire/topic_catalog.hpp"

namespace galgo::metadata {

struct NameHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view name) const noexcept {
        return std::hash<std::string_view>{}(name);
    }
};
/// Byte-exact name to id. For look-ups only: its order is not deterministic, so nothing walks it.
template <class Id>
class NameIndex {
 public:
    [[nodiscard]] std::optional<Id> find(std::string_view name) const noexcept {
        const auto found = ids_.find(name);
        return found == ids_.end() ? std::nullopt : std::optional(found->second);
    }
    void insert(std::string_view name, Id id) { ids_.emplace(name, id); }
    void erase(std::string_view name) {
        if (const auto found = ids_.find(name); found != ids_.end()) {
            ids_.erase(found);
        }
    }
    [[nodiscard]] std::size_t size() const noexcept { return ids_.size(); }

 private:
    std::unordered_map<std::string, Id, NameHash, std::equal_to<>> ids_;
};

struct Partition {
    Timestamp created_at;
    Incarnation incarnation;
    std::shared_ptr<PartitionStats> stats;  ///< never null; shared by both copies of the state
};

struct ConsumerGroup {
    model::GroupId id;
    std::string name;
    groups::Group assignment;
};

struct Topic {
    model::TopicId id;
    std::string name;
    Timestamp created_at;
    wire::ResolvedTopicOptions options;   ///< values, and the two blocks they come from
    std::vector<Partition> partitions{};  ///< by partition id
    std::map<model::GroupId, ConsumerGroup> groups{};
    NameIndex<model::GroupId> group_names{};
    model::GroupId next_group_id{};

    [[nodiscard]] const Partition* find_partition(model::PartitionId wanted) const noexcept {
        return wanted.value() < partitions.size() ? &partitions[wanted.value()] : nullptr;
    }
    [[nodiscard]] const ConsumerGroup* find_group(const wire::Identifier& wanted) const noexcept;
    [[nodiscard]] ConsumerGroup* find_group(const wire::Identifier& wanted) noexcept;
    [[nodiscard]] std::uint32_t partition_count() const noexcept {
        return static_cast<std::uint32_t>(partitions.size());
    }
};

struct Stream {
    model::StreamId id;
    std::string name;
    Timestamp created_at;
    SlotTable<model::TopicId, Topic> topics{};
    NameIndex<model::TopicId> topic_names{};

    [[nodiscard]] const Topic* find_topic(const wire::Identifier& wanted) const noexcept;
    [[nodiscard]] Topic* find_topic(const wire::Identifier& wanted) noexcept;
};

struct User {
    model::UserId id;
    std::string name;
    Timestamp created_at;
    wire::UserStatus status = wire::UserStatus::kActive;
    std::string password_hash;  ///< PHC string
    std::optional<model::Permissions> permissions;
};

/// Names a consumer group in this node.
struct GroupAddress {
    model::StreamId stream;
    model::TopicId topic;
    model::GroupId group;

    constexpr auto operator<=>(const GroupAddress&) const noexcept = default;
};

struct StateOptions {
    std::size_t sessions_max = kSessionsMaxDefault;  ///< equal on all replicas
};

class State {
 public:
    using Streams = SlotTable<model::StreamId, Stream>;
    using Users = SlotTable<model::UserId, User>;

    explicit State(StateOptions options = {}) : sessions_(options.sessions_max) {}

    /// Last applied operation; 0 = none.
    [[nodiscard]] OpNumber op() const noexcept { return op_; }
    /// Last operation that changed streams, topics, partitions or groups: unequal revisions tell a
    /// reader that a cached resolution may be stale.
    [[nodiscard]] OpNumber metadata_revision() const noexcept { return metadata_revision_; }

    // Look-ups by number or byte-exact name; null when there is none.
    [[nodiscard]] const Stream* find_stream(const wire::Identifier& id) const noexcept;
    [[nodiscard]] const Topic* find_topic(const wire::Identifier& stream,
                                          const wire::Identifier& topic) const noexcept;
    [[nodiscard]] const ConsumerGroup* find_group(const wire::Identifier& stream,
                                                  const wire::Identifier& topic,
                                                  const wire::Identifier& group) const noexcept;
    [[nodiscard]] const ConsumerGroup* find_group(const GroupAddress& address) const noexcept;
    /// The row behind a packed key.
    [[nodiscard]] const Partition* find_partition(PartitionKey key) const noexcept;
    [[nodiscard]] const User* find_user(const wire::Identifier& id) const noexcept;
    [[nodiscard]] const User* find_user_by_name(std::string_view name) const noexcept;

    [[nodiscard]] const Streams& streams() const noexcept { return streams_; }
    [[nodiscard]] const Users& users() const noexcept { return users_; }
    [[nodiscard]] const Sessions& sessions() const noexcept { return sessions_; }
    /// The groups that `client` is a member of, ascending; null when there are none.
    [[nodiscard]] const std::set<GroupAddress>* memberships_of(ClientId client) const noexcept;

    /// Does `user` pass `rule`? Root passes everything; an unknown user and one without a
    /// permission record nothing. The stream counts for rules at stream and topic level, the topic
    /// for those at topic level.
    [[nodiscard]] bool allows(model::UserId user, model::Rule rule, model::StreamId stream = {},
                              model::TopicId topic = {}) const noexcept;

    /// Aborts when an invariant of the head comment does not hold. O(everything): for tests and
    /// simulation.
    void check_invariants() const;

 private:
    friend class Applier;
    friend class StateCodec;

    [[nodiscard]] Stream* find_stream_row(const wire::Identifier& id) noexcept;

    OpNumber op_;
    OpNumber metadata_revision_;
    Streams streams_;
    NameIndex<model::StreamId> stream_names_;
    Users users_;
    NameIndex<model::UserId> user_names_;
    Sessions sessions_;
    std::map<ClientId, std::set<GroupAddress>> memberships_;
};

}  // namespace galgo::metadata

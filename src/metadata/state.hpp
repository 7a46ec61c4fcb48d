// The metadata of a node: streams with their topics, partitions and consumer groups; users with
// their permissions and access tokens; sessions.
//
// A State is a plain copyable value, changed only by metadata/apply.hpp, one committed operation at
// a time. Shard 0 holds two of them (left and right) and applies every operation to both; all other
// shards read the published one. Nothing in it depends on addresses, hashes or clocks: equal logs
// give equal states (metadata/snapshot.hpp), and every walk over rows is by ascending id.
//
// Invariants (check_invariants):
//  * a name is unique in its scope and its index entry names the row that bears it;
//  * partitions are dense, ids 0..n-1; a group spans exactly the partitions of its topic;
//  * group ids only grow; group members have a session; `memberships_of` mirrors the groups;
//  * incarnation of a partition = op that created or last purged it;
//  * root is there as soon as any user is; every session belongs to a user that is active;
//  * a token's hash names it in the whole node; both token indexes mirror the users' tokens.
//
// Pointers and references handed out are valid until the next operation is applied to this State.
#pragma once

#include <array>
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
#include <utility>
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

/// Users of a node. Ours; the reference server has no bound.
inline constexpr std::uint32_t kUserCountMax = 1U << 16U;
inline constexpr std::uint32_t kTokensPerUserMaxDefault = 100;

/// SHA-256 of an access token. The token itself is known to its holder alone.
using TokenHash = std::array<std::byte, 32>;

struct Token {
    TokenHash hash{};
    std::optional<Timestamp> expiry_at;  ///< none: never

    [[nodiscard]] bool expired(Timestamp now) const noexcept {
        return expiry_at.has_value() && *expiry_at <= now;
    }
    bool operator==(const Token&) const noexcept = default;
};

struct User {
    model::UserId id;
    std::string name;
    Timestamp created_at;
    /// Op that created it: tells apart two users that had the same id one after the other.
    OpNumber created_op;
    wire::UserStatus status = wire::UserStatus::kActive;
    std::string password_hash;  ///< PHC string
    std::optional<model::Permissions> permissions;
    std::map<std::string, Token, std::less<>> tokens{};  ///< by name
};

/// A token and whose it is. Borrows the rows.
struct TokenRow {
    const User& user;
    std::string_view name;
    const Token& token;
};

/// Names a consumer group in this node.
struct GroupAddress {
    model::StreamId stream;
    model::TopicId topic;
    model::GroupId group;

    constexpr auto operator<=>(const GroupAddress&) const noexcept = default;
};

struct StateOptions {
    /// Until the log brings another (kResetSessions).
    std::size_t sessions_max = kSessionsMaxDefault;
};

class State {
 public:
    using Streams = SlotTable<model::StreamId, Stream>;
    using Users = SlotTable<model::UserId, User>;

    explicit State(StateOptions options = {}) : sessions_(options.sessions_max) {}

    /// Last applied operation; 0 = none.
    [[nodiscard]] OpNumber op() const noexcept { return op_; }
    /// Last operation that changed anything but sessions: unequal revisions tell a reader that a
    /// cached resolution or permission may be stale.
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
    /// Whom a session acts for. Null when the user is gone or inactive, or when its id is another
    /// user's by now: the session ended with that, but not everybody has heard of it yet.
    [[nodiscard]] const User* find_user_of_session(model::UserId user,
                                                   SessionId session) const noexcept;
    /// Expired ones too, until they are removed.
    [[nodiscard]] std::optional<TokenRow> find_token(const TokenHash& hash) const noexcept;
    /// Is there something for Operation kExpireTokens to do?
    [[nodiscard]] bool has_expired_tokens(Timestamp now) const noexcept;

    [[nodiscard]] const Streams& streams() const noexcept { return streams_; }
    [[nodiscard]] const Users& users() const noexcept { return users_; }
    [[nodiscard]] const Sessions& sessions() const noexcept { return sessions_; }
    /// The groups that `client` is a member of, ascending; null when there are none.
    [[nodiscard]] const std::set<GroupAddress>* memberships_of(ClientId client) const noexcept;

    /// Does `user` pass `rule`? Root passes everything; an unknown user, an inactive one and one
    /// without a permission record nothing. The stream counts for rules at stream and topic level,
    /// the topic for those at topic level.
    [[nodiscard]] bool allows(model::UserId user, model::Rule rule, model::StreamId stream = {},
                              model::TopicId topic = {}) const noexcept;

    /// Aborts when an invariant of the head comment does not hold. O(everything): for tests and
    /// simulation.
    void check_invariants() const;

 private:
    friend class Applier;
    friend class StateCodec;

    struct TokenAddress {
        model::UserId user;
        std::string name;

        auto operator<=>(const TokenAddress&) const noexcept = default;
    };

    [[nodiscard]] Stream* find_stream_row(const wire::Identifier& id) noexcept;
    [[nodiscard]] User* find_user_row(const wire::Identifier& id) noexcept;
    void insert_token(User& user, std::string_view name, const Token& token);
    void erase_token(User& user, std::string_view name);

    OpNumber op_;
    OpNumber metadata_revision_;
    Streams streams_;
    NameIndex<model::StreamId> stream_names_;
    Users users_;
    NameIndex<model::UserId> user_names_;
    std::map<TokenHash, TokenAddress> token_hashes_;
    std::set<std::pair<Timestamp, TokenAddress>> token_expiries_;  ///< of those that expire
    Sessions sessions_;
    std::map<ClientId, std::set<GroupAddress>> memberships_;
};

}  // namespace galgo::metadata

#include "metadata/state.hpp"

#include "base/check.hpp"

namespace galgo::metadata {
namespace {

/// Id form or name form, over a table with ids and its name index.
template <class Id, class Table>
auto find_in(Table& table, const NameIndex<Id>& names, const wire::Identifier& id) noexcept {
    if (id.is_numeric()) {
        return table.find(Id(id.number()));
    }
    const std::optional<Id> by_name = names.find(id.name());
    return by_name.has_value() ? table.find(*by_name) : nullptr;
}

}  // namespace

const ConsumerGroup* Topic::find_group(const wire::Identifier& wanted) const noexcept {
    const std::optional<model::GroupId> group =
        wanted.is_numeric() ? model::GroupId(wanted.number()) : group_names.find(wanted.name());
    if (!group.has_value()) {
        return nullptr;
    }
    const auto found = groups.find(*group);
    return found == groups.end() ? nullptr : &found->second;
}

ConsumerGroup* Topic::find_group(const wire::Identifier& wanted) noexcept {
    return const_cast<ConsumerGroup*>(std::as_const(*this).find_group(wanted));
}

const Topic* Stream::find_topic(const wire::Identifier& wanted) const noexcept {
    return find_in(topics, topic_names, wanted);
}

Topic* Stream::find_topic(const wire::Identifier& wanted) noexcept {
    return find_in(topics, topic_names, wanted);
}

const Stream* State::find_stream(const wire::Identifier& id) const noexcept {
    return find_in(streams_, stream_names_, id);
}

Stream* State::find_stream_row(const wire::Identifier& id) noexcept {
    return find_in(streams_, stream_names_, id);
}

const Topic* State::find_topic(const wire::Identifier& stream,
                               const wire::Identifier& topic) const noexcept {
    const Stream* row = find_stream(stream);
    return row == nullptr ? nullptr : row->find_topic(topic);
}

const ConsumerGroup* State::find_group(const wire::Identifier& stream,
                                       const wire::Identifier& topic,
                                       const wire::Identifier& group) const noexcept {
    const Topic* row = find_topic(stream, topic);
    return row == nullptr ? nullptr : row->find_group(group);
}

const ConsumerGroup* State::find_group(const GroupAddress& address) const noexcept {
    const Stream* stream = streams_.find(address.stream);
    const Topic* topic = stream == nullptr ? nullptr : stream->topics.find(address.topic);
    if (topic == nullptr) {
        return nullptr;
    }
    const auto group = topic->groups.find(address.group);
    return group == topic->groups.end() ? nullptr : &group->second;
}

const Partition* State::find_partition(PartitionKey key) const noexcept {
    const model::PartitionAddress address = model::unpack_partition_key(key);
    const Stream* stream = streams_.find(address.stream);
    const Topic* topic = stream == nullptr ? nullptr : stream->topics.find(address.topic);
    return topic == nullptr ? nullptr : topic->find_partition(address.partition);
}

const User* State::find_user(const wire::Identifier& id) const noexcept {
    return find_in(users_, user_names_, id);
}

const User* State::find_user_by_name(std::string_view name) const noexcept {
    const std::optional<model::UserId> id = user_names_.find(name);
    return id.has_value() ? users_.find(*id) : nullptr;
}

const User* State::find_user_of_session(model::UserId user, SessionId session) const noexcept {
    const User* row = users_.find(user);
    return row != nullptr && row->status == wire::UserStatus::kActive &&
                   row->created_op.value() < session.value()
               ? row
               : nullptr;
}

User* State::find_user_row(const wire::Identifier& id) noexcept {
    return find_in(users_, user_names_, id);
}

std::optional<TokenRow> State::find_token(const TokenHash& hash) const noexcept {
    const auto found = token_hashes_.find(hash);
    if (found == token_hashes_.end()) {
        return std::nullopt;
    }
    const User& user = *users_.find(found->second.user);
    const auto& [name, token] = *user.tokens.find(found->second.name);
    return TokenRow{.user = user, .name = name, .token = token};
}

bool State::has_expired_tokens(Timestamp now) const noexcept {
    return !token_expiries_.empty() && token_expiries_.begin()->first <= now;
}

/// The user has no token of that name, and nobody one of that hash.
void State::insert_token(User& user, std::string_view name, const Token& token) {
    const TokenAddress address{.user = user.id, .name = std::string(name)};
    const bool hash_added = token_hashes_.emplace(token.hash, address).second;
    const bool name_added = user.tokens.emplace(name, token).second;
    GALGO_CHECK(hash_added);
    GALGO_CHECK(name_added);
    if (token.expiry_at.has_value()) {
        token_expiries_.emplace(*token.expiry_at, address);
    }
}

/// The user has it.
void State::erase_token(User& user, std::string_view name) {
    const auto found = user.tokens.find(name);
    GALGO_CHECK(found != user.tokens.end());
    if (found->second.expiry_at.has_value()) {
        token_expiries_.erase(
            {*found->second.expiry_at, TokenAddress{.user = user.id, .name = found->first}});
    }
    token_hashes_.erase(found->second.hash);
    user.tokens.erase(found);
}

const std::set<GroupAddress>* State::memberships_of(ClientId client) const noexcept {
    const auto found = memberships_.find(client);
    return found == memberships_.end() ? nullptr : &found->second;
}

bool State::allows(model::UserId user, model::Rule rule, model::StreamId stream,
                   model::TopicId topic) const noexcept {
    if (user == model::kRootUserId) {
        return true;
    }
    const User* row = users_.find(user);
    return row != nullptr && row->status == wire::UserStatus::kActive &&
           row->permissions.has_value() && model::allows(*row->permissions, rule, stream, topic);
}

void State::check_invariants() const {
    std::size_t membership_count = 0;
    GALGO_CHECK(stream_names_.size() == streams_.size());
    GALGO_CHECK(user_names_.size() == users_.size());
    GALGO_CHECK(metadata_revision_ <= op_);
    GALGO_CHECK(users_.empty() || users_.find(model::kRootUserId) != nullptr);
    std::size_t token_count = 0;
    std::size_t expiring_count = 0;
    for (const User& user : users_.rows()) {
        GALGO_CHECK(user_names_.find(user.name) == user.id);
        GALGO_CHECK(user.id.value() < kUserCountMax);
        GALGO_CHECK(user.created_op <= op_);
        for (const auto& [name, token] : user.tokens) {
            const auto by_hash = token_hashes_.find(token.hash);
            GALGO_CHECK(by_hash != token_hashes_.end());
            GALGO_CHECK(by_hash->second == (TokenAddress{.user = user.id, .name = name}));
            ++token_count;
            if (token.expiry_at.has_value()) {
                GALGO_CHECK(token_expiries_.contains(
                    {*token.expiry_at, TokenAddress{.user = user.id, .name = name}}));
                ++expiring_count;
            }
        }
    }
    GALGO_CHECK(token_hashes_.size() == token_count);
    GALGO_CHECK(token_expiries_.size() == expiring_count);
    for (const auto& [client, session] : sessions_.by_client()) {
        const User* user = users_.find(session.user);
        GALGO_CHECK(user != nullptr);
        GALGO_CHECK(user->status == wire::UserStatus::kActive);
        GALGO_CHECK(user->created_op.value() < session.epoch.value());
        GALGO_CHECK(session.epoch.value() <= op_.value());
    }
    for (const Stream& stream : streams_.rows()) {
        GALGO_CHECK(stream_names_.find(stream.name) == stream.id);
        GALGO_CHECK(stream.id.value() < model::kStreamCountMax);
        GALGO_CHECK(stream.topic_names.size() == stream.topics.size());
        for (const Topic& topic : stream.topics.rows()) {
            GALGO_CHECK(stream.topic_names.find(topic.name) == topic.id);
            GALGO_CHECK(topic.id.value() < model::kTopicCountMax);
            GALGO_CHECK(topic.partitions.size() <= model::kPartitionIdMax);
            GALGO_CHECK(topic.group_names.size() == topic.groups.size());
            for (const Partition& partition : topic.partitions) {
                GALGO_CHECK(partition.stats != nullptr);
                GALGO_CHECK(partition.incarnation.value() <= op_.value());
            }
            for (const auto& [id, group] : topic.groups) {
                GALGO_CHECK(group.id == id);
                GALGO_CHECK(id < topic.next_group_id);
                GALGO_CHECK(topic.group_names.find(group.name) == id);
                GALGO_CHECK(group.assignment.partition_count() == topic.partitions.size());
                group.assignment.check_invariants();
                for (const groups::Member& member : group.assignment.members()) {
                    GALGO_CHECK(sessions_.find(member.client) != nullptr);
                    const std::set<GroupAddress>* known = memberships_of(member.client);
                    GALGO_CHECK(known != nullptr);
                    GALGO_CHECK(known->contains({stream.id, topic.id, id}));
                    ++membership_count;
                }
            }
        }
    }
    std::size_t mirrored = 0;
    for (const auto& [client, groups] : memberships_) {
        GALGO_CHECK(!groups.empty());
        mirrored += groups.size();
    }
    // Every membership is mirrored, and the counts agree: there is no other mirror entry.
    GALGO_CHECK(mirrored == membership_count);
}

}  // namespace galgo::metadata

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
    return row != nullptr && row->permissions.has_value() &&
           model::allows(*row->permissions, rule, stream, topic);
}

void State::check_invariants() const {
    std::size_t membership_count = 0;
    GALGO_CHECK(stream_names_.size() == streams_.size());
    GALGO_CHECK(user_names_.size() == users_.size());
    GALGO_CHECK(metadata_revision_ <= op_);
    for (const User& user : users_.rows()) {
        GALGO_CHECK(user_names_.find(user.name) == user.id);
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

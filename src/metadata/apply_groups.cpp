// Consumer groups: create, delete, join, leave. All need the right to read the topic.
#include <limits>

#include "metadata/detail/applier.hpp"
#include "metadata/detail/records.hpp"
#include "wire/requests.hpp"

namespace galgo::metadata {

Result<Applier::Payload> Applier::create_group() {
    GALGO_TRY_ASSIGN(const auto request, wire::CreateGroupRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicRead));
    Topic& topic = *target.topic;
    if (topic.group_names.find(request.name).has_value()) {
        return fail(ErrorCode::kConsumerGroupNameAlreadyExists);
    }
    const model::GroupId id = topic.next_group_id;
    if (id.value() == std::numeric_limits<std::uint32_t>::max()) {
        return fail(ErrorCode::kInvalidConsumerGroupId);  // ids of a topic are used up
    }
    topic.next_group_id = id.next();
    const auto [row, added] = topic.groups.emplace(
        id, ConsumerGroup{.id = id,
                          .name = std::string(request.name),
                          .assignment = groups::Group(topic.partition_count())});
    GALGO_CHECK(added);
    topic.group_names.insert(request.name, id);
    changed({.kind = ChangeKind::kGroupCreated,
             .stream = target.stream->id,
             .topic = topic.id,
             .group = id});
    return detail::group_details(row->second);
}

Result<Applier::Payload> Applier::delete_group() {
    GALGO_TRY_ASSIGN(const auto request, wire::GroupRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicRead));
    Topic& topic = *target.topic;
    const ConsumerGroup* group = topic.find_group(request.group);
    if (group == nullptr) {
        return fail(ErrorCode::kConsumerGroupIdNotFound);
    }
    const GroupAddress address{.stream = target.stream->id, .topic = topic.id, .group = group->id};
    forget_members(address, *group);
    topic.group_names.erase(group->name);
    topic.groups.erase(address.group);
    changed({.kind = ChangeKind::kGroupDeleted,
             .stream = address.stream,
             .topic = address.topic,
             .group = address.group});
    return Payload{};
}

Result<Applier::Payload> Applier::join_group() {
    GALGO_TRY_ASSIGN(const auto request, wire::GroupRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicRead));
    ConsumerGroup* group = target.topic->find_group(request.group);
    if (group == nullptr) {
        return fail(ErrorCode::kConsumerGroupIdNotFound);
    }
    // The session may have ended between admission and commit; its member would never leave again.
    const Session* session = state_.sessions_.find(prepare_.client);
    if (session == nullptr || session->epoch != prepare_.session) {
        return fail(ErrorCode::kUnauthenticated);
    }
    if (group->assignment.join(prepare_.client)) {
        const GroupAddress address{
            .stream = target.stream->id, .topic = target.topic->id, .group = group->id};
        state_.memberships_[prepare_.client].insert(address);
        changed({.kind = ChangeKind::kGroupChanged,
                 .stream = address.stream,
                 .topic = address.topic,
                 .group = address.group});
    }
    return Payload{};
}

Result<Applier::Payload> Applier::leave_group() {
    GALGO_TRY_ASSIGN(const auto request, wire::GroupRequest::decode(prepare_.body));
    GALGO_TRY_ASSIGN(const TopicTarget target,
                     topic_target(request.stream, request.topic, model::Rule::kTopicRead));
    ConsumerGroup* group = target.topic->find_group(request.group);
    if (group == nullptr) {
        return fail(ErrorCode::kConsumerGroupIdNotFound);
    }
    if (!group->assignment.leave(prepare_.client)) {
        return fail(ErrorCode::kConsumerGroupMemberNotFound);
    }
    const GroupAddress address{
        .stream = target.stream->id, .topic = target.topic->id, .group = group->id};
    forget_membership(prepare_.client, address);
    changed({.kind = ChangeKind::kGroupChanged,
             .stream = address.stream,
             .topic = address.topic,
             .group = address.group});
    return Payload{};
}

void Applier::forget_members(const GroupAddress& address, const ConsumerGroup& group) {
    for (const groups::Member& member : group.assignment.members()) {
        forget_membership(member.client, address);
    }
}

void Applier::forget_membership(ClientId client, const GroupAddress& address) {
    const auto groups = state_.memberships_.find(client);
    GALGO_CHECK(groups != state_.memberships_.end());
    groups->second.erase(address);
    if (groups->second.empty()) {
        state_.memberships_.erase(groups);
    }
}

}  // namespace galgo::metadata

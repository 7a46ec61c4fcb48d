// The permission rules, one case each. wire: permission table of the reference server.
#include "model/permissions.hpp"

namespace galgo::model {
namespace {

const StreamPermissions* find_stream(const Permissions& permissions, StreamId stream) noexcept {
    const auto found = permissions.streams.find(stream);
    return found == permissions.streams.end() ? nullptr : &found->second;
}

TopicPermissions find_topic(const StreamPermissions& stream, TopicId topic) noexcept {
    const auto found = stream.topics.find(topic);
    return found == stream.topics.end() ? TopicPermissions{} : found->second;
}

bool allows_globally(const GlobalPermissions& g, Rule rule) noexcept {
    const bool read_streams = g.read_streams || g.manage_streams;
    const bool manage_topics = g.manage_streams || g.manage_topics;
    const bool read_topics = read_streams || g.manage_topics || g.read_topics;
    switch (rule) {
        case Rule::kServerRead:
            return g.manage_servers || g.read_servers;
        case Rule::kUsersRead:
            return g.manage_users || g.read_users;
        case Rule::kUsersManage:
            return g.manage_users;
        case Rule::kStreamsRead:
        case Rule::kStreamRead:
            return read_streams;
        case Rule::kStreamsManage:
        case Rule::kStreamManage:
            return g.manage_streams;
        case Rule::kTopicsRead:
        case Rule::kTopicRead:
            return read_topics;
        case Rule::kTopicsManage:
        case Rule::kTopicManage:
            return manage_topics;
        case Rule::kTopicPoll:
            return g.poll_messages || read_topics;
        case Rule::kTopicSend:
            return g.send_messages || manage_topics;
    }
    return false;
}

bool allows_on_stream(const StreamPermissions& s, Rule rule) noexcept {
    const bool manage_topics = s.manage_stream || s.manage_topics;
    const bool read_topics = manage_topics || s.read_stream || s.read_topics;
    switch (rule) {
        case Rule::kStreamRead:
            return s.manage_stream || s.read_stream;
        case Rule::kStreamManage:
            return s.manage_stream;
        case Rule::kTopicsRead:
        case Rule::kTopicRead:
            return read_topics;
        case Rule::kTopicsManage:
        case Rule::kTopicManage:
            return manage_topics;
        case Rule::kTopicPoll:
            return s.poll_messages || read_topics;
        case Rule::kTopicSend:
            return s.send_messages || manage_topics;
        case Rule::kServerRead:
        case Rule::kUsersRead:
        case Rule::kUsersManage:
        case Rule::kStreamsRead:
        case Rule::kStreamsManage:
            return false;
    }
    return false;
}

bool allows_on_topic(const TopicPermissions& t, Rule rule) noexcept {
    switch (rule) {
        case Rule::kTopicRead:
            return t.manage_topic || t.read_topic;
        case Rule::kTopicManage:
            return t.manage_topic;
        case Rule::kTopicPoll:
            return t.manage_topic || t.read_topic || t.poll_messages;
        case Rule::kTopicSend:
            return t.manage_topic || t.send_messages;
        default:
            return false;
    }
}

}  // namespace

Permissions all_permissions() {
    return Permissions{.global = {.manage_servers = true,
                                  .read_servers = true,
                                  .manage_users = true,
                                  .read_users = true,
                                  .manage_streams = true,
                                  .read_streams = true,
                                  .manage_topics = true,
                                  .read_topics = true,
                                  .poll_messages = true,
                                  .send_messages = true},
                       .streams = {}};
}

bool allows(const Permissions& permissions, Rule rule, StreamId stream, TopicId topic) noexcept {
    if (allows_globally(permissions.global, rule)) {
        return true;
    }
    const StreamPermissions* on_stream = find_stream(permissions, stream);
    if (on_stream == nullptr) {
        return false;
    }
    return allows_on_stream(*on_stream, rule) ||
           allows_on_topic(find_topic(*on_stream, topic), rule);
}

}  // namespace galgo::model

// Rights of a user, and the rules that tell which bits allow which kind of request. Three levels:
// global, one stream, one topic; any one bit of a rule suffices. A user without a Permissions
// record has no rights; root passes before the rules are asked. Pure; the caller resolves ids
// first.
#pragma once

#include <cstdint>
#include <map>

#include "model/ids.hpp"

namespace galgo::model {

// Member order is the order on the wire.
struct GlobalPermissions {
    bool manage_servers = false;
    bool read_servers = false;
    bool manage_users = false;
    bool read_users = false;
    bool manage_streams = false;
    bool read_streams = false;
    bool manage_topics = false;
    bool read_topics = false;
    bool poll_messages = false;
    bool send_messages = false;

    constexpr bool operator==(const GlobalPermissions&) const noexcept = default;
};

struct TopicPermissions {
    bool manage_topic = false;
    bool read_topic = false;
    bool poll_messages = false;
    bool send_messages = false;

    constexpr bool operator==(const TopicPermissions&) const noexcept = default;
};

struct StreamPermissions {
    bool manage_stream = false;
    bool read_stream = false;
    bool manage_topics = false;
    bool read_topics = false;
    bool poll_messages = false;
    bool send_messages = false;
    std::map<TopicId, TopicPermissions> topics;

    bool operator==(const StreamPermissions&) const noexcept = default;
};

struct Permissions {
    GlobalPermissions global;
    std::map<StreamId, StreamPermissions> streams;

    bool operator==(const Permissions&) const noexcept = default;
};

/// Every right, as the root user shows it.
[[nodiscard]] Permissions all_permissions();

/// What a request needs.
enum class Rule : std::uint8_t {
    kServerRead,
    kUsersRead,
    kUsersManage,
    kStreamsRead,    ///< list of all streams
    kStreamRead,     ///< one stream
    kStreamsManage,  ///< create a stream
    kStreamManage,
    kTopicsRead,  ///< list of the topics of a stream
    kTopicRead,
    kTopicsManage,  ///< create a topic in a stream
    kTopicManage,
    kTopicPoll,
    kTopicSend,
};

/// Does a holder of `permissions` pass `rule`? The stream counts for rules at stream and topic
/// level, the topic for rules at topic level; the others ignore them.
[[nodiscard]] bool allows(const Permissions& permissions, Rule rule, StreamId stream = StreamId{},
                          TopicId topic = TopicId{}) noexcept;

}  // namespace galgo::model

// One row for every command of the protocol: how it travels, which plane serves it, what it needs.
// The dispatch table of the server and the client's choice of an operation both come from here.
// wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "model/permissions.hpp"
#include "wire/codes.hpp"

namespace galgo::wire {

enum class CommandKind : std::uint8_t {
    kRead,       ///< answered from local state, never in a log
    kMetadata,   ///< through the metadata log
    kPartition,  ///< through the log of a partition
    kSession,    ///< login and logout
    kSpecial,    ///< DeleteSegments: metadata shape, partition effect
    kRefused,    ///< known, always refused
};

/// Who may ask. kRule: the rule in `CommandRow::rule`; kSelfOrRule: no right needed for oneself.
enum class Access : std::uint8_t { kAnyone, kAuthenticated, kRule, kSelfOrRule };

struct CommandRow {
    CommandCode code{};
    std::string_view name;
    Operation operation = Operation::kNone;
    CommandKind kind = CommandKind::kRead;
    Access access = Access::kAuthenticated;
    model::Rule rule{};  ///< counts for kRule and kSelfOrRule
};

namespace detail {
// clang-format off
using C = CommandCode; using O = Operation; using K = CommandKind; using A = Access; using R = model::Rule;
inline constexpr std::array kCommandRows{
    CommandRow{C::kPing, "ping", O::kNonReplicated, K::kRead, A::kAnyone, {}},
    CommandRow{C::kGetStats, "get_stats", O::kNonReplicated, K::kRead, A::kRule, R::kServerRead},
    CommandRow{C::kGetSnapshot, "get_snapshot", O::kNonReplicated, K::kRead, A::kRule, R::kServerRead},
    CommandRow{C::kGetClusterMetadata, "get_cluster_metadata", O::kNonReplicated, K::kRead, A::kAuthenticated, {}},
    CommandRow{C::kDescribeOptions, "describe_options", O::kNonReplicated, K::kRead, A::kAuthenticated, {}},
    CommandRow{C::kAttachConsumerSession, "attach_consumer_session", O::kNonReplicated, K::kRead, A::kAuthenticated, {}},
    CommandRow{C::kGetMe, "get_me", O::kNonReplicated, K::kRead, A::kAuthenticated, {}},
    CommandRow{C::kGetClient, "get_client", O::kNonReplicated, K::kRead, A::kRule, R::kServerRead},
    CommandRow{C::kGetClients, "get_clients", O::kNonReplicated, K::kRead, A::kRule, R::kServerRead},
    CommandRow{C::kGetUser, "get_user", O::kNonReplicated, K::kRead, A::kSelfOrRule, R::kUsersRead},
    CommandRow{C::kGetUsers, "get_users", O::kNonReplicated, K::kRead, A::kRule, R::kUsersRead},
    CommandRow{C::kCreateUser, "create_user", O::kCreateUser, K::kMetadata, A::kRule, R::kUsersManage},
    CommandRow{C::kDeleteUser, "delete_user", O::kDeleteUser, K::kMetadata, A::kRule, R::kUsersManage},
    CommandRow{C::kUpdateUser, "update_user", O::kUpdateUser, K::kMetadata, A::kRule, R::kUsersManage},
    CommandRow{C::kUpdatePermissions, "update_permissions", O::kUpdatePermissions, K::kMetadata, A::kRule, R::kUsersManage},
    CommandRow{C::kChangePassword, "change_password", O::kChangePassword, K::kMetadata, A::kSelfOrRule, R::kUsersManage},
    CommandRow{C::kLoginUser, "login_user", O::kNonReplicated, K::kRefused, A::kAnyone, {}},
    CommandRow{C::kLogoutUser, "logout_user", O::kLogout, K::kSession, A::kAuthenticated, {}},
    CommandRow{C::kLoginRegister, "login_register", O::kRegister, K::kSession, A::kAnyone, {}},
    CommandRow{C::kGetPersonalAccessTokens, "get_personal_access_tokens", O::kNonReplicated, K::kRead, A::kAuthenticated, {}},
    CommandRow{C::kCreatePersonalAccessToken, "create_personal_access_token", O::kCreatePersonalAccessToken, K::kMetadata, A::kAuthenticated, {}},
    CommandRow{C::kDeletePersonalAccessToken, "delete_personal_access_token", O::kDeletePersonalAccessToken, K::kMetadata, A::kAuthenticated, {}},
    CommandRow{C::kLoginWithPersonalAccessToken, "login_with_personal_access_token", O::kNonReplicated, K::kRefused, A::kAnyone, {}},
    CommandRow{C::kLoginRegisterWithPersonalAccessToken, "login_register_with_personal_access_token", O::kRegister, K::kSession, A::kAnyone, {}},
    CommandRow{C::kPollMessages, "poll_messages", O::kNonReplicated, K::kRead, A::kRule, R::kTopicPoll},
    CommandRow{C::kSendMessages, "send_messages", O::kSendMessages, K::kPartition, A::kRule, R::kTopicSend},
    CommandRow{C::kFlushUnsavedBuffer, "flush_unsaved_buffer", O::kNonReplicated, K::kRefused, A::kAuthenticated, {}},
    CommandRow{C::kGetPollRouting, "get_poll_routing", O::kNonReplicated, K::kRead, A::kRule, R::kTopicPoll},
    CommandRow{C::kPollMessagesOnPrimary, "poll_messages_on_primary", O::kNonReplicated, K::kRead, A::kRule, R::kTopicPoll},
    CommandRow{C::kGetConsumerOffset, "get_consumer_offset", O::kNonReplicated, K::kRead, A::kRule, R::kTopicPoll},
    CommandRow{C::kStoreConsumerOffset, "store_consumer_offset", O::kStoreConsumerOffset, K::kPartition, A::kRule, R::kTopicPoll},
    CommandRow{C::kDeleteConsumerOffset, "delete_consumer_offset", O::kDeleteConsumerOffset, K::kPartition, A::kRule, R::kTopicPoll},
    CommandRow{C::kGetConsumerOffsetRouting, "get_consumer_offset_routing", O::kNonReplicated, K::kRead, A::kRule, R::kTopicPoll},
    CommandRow{C::kGetStream, "get_stream", O::kNonReplicated, K::kRead, A::kRule, R::kStreamRead},
    CommandRow{C::kGetStreams, "get_streams", O::kNonReplicated, K::kRead, A::kRule, R::kStreamsRead},
    CommandRow{C::kCreateStream, "create_stream", O::kCreateStream, K::kMetadata, A::kRule, R::kStreamsManage},
    CommandRow{C::kDeleteStream, "delete_stream", O::kDeleteStream, K::kMetadata, A::kRule, R::kStreamManage},
    CommandRow{C::kUpdateStream, "update_stream", O::kUpdateStream, K::kMetadata, A::kRule, R::kStreamManage},
    CommandRow{C::kPurgeStream, "purge_stream", O::kPurgeStream, K::kMetadata, A::kRule, R::kStreamManage},
    CommandRow{C::kGetTopic, "get_topic", O::kNonReplicated, K::kRead, A::kRule, R::kTopicRead},
    CommandRow{C::kGetTopics, "get_topics", O::kNonReplicated, K::kRead, A::kRule, R::kTopicsRead},
    CommandRow{C::kCreateTopic, "create_topic", O::kCreateTopic, K::kMetadata, A::kRule, R::kTopicsManage},
    CommandRow{C::kDeleteTopic, "delete_topic", O::kDeleteTopic, K::kMetadata, A::kRule, R::kTopicManage},
    CommandRow{C::kUpdateTopic, "update_topic", O::kUpdateTopic, K::kMetadata, A::kRule, R::kTopicManage},
    CommandRow{C::kPurgeTopic, "purge_topic", O::kPurgeTopic, K::kMetadata, A::kRule, R::kTopicManage},
    CommandRow{C::kCreatePartitions, "create_partitions", O::kCreatePartitions, K::kMetadata, A::kRule, R::kTopicManage},
    CommandRow{C::kDeletePartitions, "delete_partitions", O::kDeletePartitions, K::kMetadata, A::kRule, R::kTopicManage},
    CommandRow{C::kDeleteSegments, "delete_segments", O::kDeleteSegments, K::kSpecial, A::kRule, R::kTopicManage},
    CommandRow{C::kGetConsumerGroup, "get_consumer_group", O::kNonReplicated, K::kRead, A::kRule, R::kTopicRead},
    CommandRow{C::kGetConsumerGroups, "get_consumer_groups", O::kNonReplicated, K::kRead, A::kRule, R::kTopicRead},
    CommandRow{C::kCreateConsumerGroup, "create_consumer_group", O::kCreateConsumerGroup, K::kMetadata, A::kRule, R::kTopicRead},
    CommandRow{C::kDeleteConsumerGroup, "delete_consumer_group", O::kDeleteConsumerGroup, K::kMetadata, A::kRule, R::kTopicRead},
    CommandRow{C::kJoinConsumerGroup, "join_consumer_group", O::kJoinConsumerGroup, K::kMetadata, A::kRule, R::kTopicRead},
    CommandRow{C::kLeaveConsumerGroup, "leave_consumer_group", O::kLeaveConsumerGroup, K::kMetadata, A::kRule, R::kTopicRead},
    CommandRow{C::kSyncConsumerGroup, "sync_consumer_group", O::kNonReplicated, K::kRead, A::kAuthenticated, {}},
};
// clang-format on
static_assert(std::ranges::is_sorted(kCommandRows, {}, &CommandRow::code));
}  // namespace detail

/// Every command, ordered by code.
inline constexpr const auto& kCommandTable = detail::kCommandRows;

/// The row of a code, nullptr for an unknown number.
[[nodiscard]] constexpr const CommandRow* find_command(CommandCode code) noexcept {
    const auto found = std::ranges::lower_bound(kCommandTable, code, {}, &CommandRow::code);
    return found != kCommandTable.end() && found->code == code ? &*found : nullptr;
}

/// The row of a replicated operation, nullptr for kNonReplicated, for internal and unknown ones.
/// kRegister gives the row of the login with password.
[[nodiscard]] constexpr const CommandRow* find_command(Operation operation) noexcept {
    if (operation == Operation::kNonReplicated) {
        return nullptr;
    }
    const auto found = std::ranges::find(kCommandTable, operation, &CommandRow::operation);
    return found != kCommandTable.end() ? &*found : nullptr;
}

}  // namespace galgo::wire

// Bodies of the read commands that are answered from the metadata alone: streams, topics, groups,
// users, tokens, and the totals of GET_STATS. Counters come from the partitions' statistics lines,
// so two records of one reply may be from two moments. Any shard, on the published state; pure;
// allocates the reply.
//
// Order of checks: target first (an unknown stream, topic or group is an empty body, or an error
// where the protocol has one), then the right of `user` (41).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "base/ids.hpp"
#include "metadata/state.hpp"
#include "model/ids.hpp"
#include "wire/primitives.hpp"

namespace galgo::metadata {

using ReplyBody = std::vector<std::byte>;

/// GET_STREAM. Unknown stream: empty body. Error: 41.
[[nodiscard]] Result<ReplyBody> get_stream_reply(const State& state, model::UserId user,
                                                 const wire::Identifier& stream);
/// GET_STREAMS. Error: 41.
[[nodiscard]] Result<ReplyBody> get_streams_reply(const State& state, model::UserId user);
/// GET_TOPIC. Unknown stream or topic: empty body. Error: 41.
[[nodiscard]] Result<ReplyBody> get_topic_reply(const State& state, model::UserId user,
                                                const wire::Identifier& stream,
                                                const wire::Identifier& topic);
/// GET_TOPICS. Unknown stream: an empty list. Error: 41.
[[nodiscard]] Result<ReplyBody> get_topics_reply(const State& state, model::UserId user,
                                                 const wire::Identifier& stream);
/// GET_USER. Unknown user: empty body. Oneself needs no right. Error: 41.
[[nodiscard]] Result<ReplyBody> get_user_reply(const State& state, model::UserId user,
                                               const wire::Identifier& wanted);
/// GET_USERS. Error: 41.
[[nodiscard]] Result<ReplyBody> get_users_reply(const State& state, model::UserId user);
/// GET_PERSONAL_ACCESS_TOKENS: names and expiries of the user's own tokens, by name. Expired ones
/// are shown until they are removed.
[[nodiscard]] ReplyBody get_tokens_reply(const State& state, model::UserId user);
/// GET_CONSUMER_GROUP. Unknown group: empty body. Errors: 1009, 2010, 41.
[[nodiscard]] Result<ReplyBody> get_group_reply(const State& state, model::UserId user,
                                                const wire::Identifier& stream,
                                                const wire::Identifier& topic,
                                                const wire::Identifier& group);
/// GET_CONSUMER_GROUPS. Errors: 1009, 2010, 41.
[[nodiscard]] Result<ReplyBody> get_groups_reply(const State& state, model::UserId user,
                                                 const wire::Identifier& stream,
                                                 const wire::Identifier& topic);
/// SYNC_CONSUMER_GROUP for the bound `client`. Not a member, or anything unknown: empty body.
[[nodiscard]] ReplyBody sync_group_reply(const State& state, ClientId client,
                                         const wire::Identifier& stream,
                                         const wire::Identifier& topic,
                                         const wire::Identifier& group);

/// Sums over a part of the state.
struct Totals {
    std::uint64_t size_bytes = 0;
    std::uint64_t message_count = 0;
    std::uint64_t segment_count = 0;
    std::uint32_t stream_count = 0;
    std::uint32_t topic_count = 0;
    std::uint32_t partition_count = 0;
    std::uint32_t group_count = 0;

    Totals& operator+=(const Totals& other) noexcept;
    constexpr bool operator==(const Totals&) const noexcept = default;
};
[[nodiscard]] Totals totals_of(const Topic& topic) noexcept;
[[nodiscard]] Totals totals_of(const Stream& stream) noexcept;
[[nodiscard]] Totals totals_of(const State& state) noexcept;

}  // namespace galgo::metadata

#include "metadata/read_replies.hpp"

#include <utility>

#include "metadata/authorise.hpp"
#include "metadata/detail/records.hpp"
#include "wire/replies.hpp"

namespace galgo::metadata {
namespace {

Result<const Topic*> readable_topic(const State& state, model::UserId user,
                                    const wire::Identifier& stream, const wire::Identifier& topic) {
    const Stream* stream_row = state.find_stream(stream);
    if (stream_row == nullptr) {
        return fail(ErrorCode::kStreamIdNotFound);
    }
    const Topic* topic_row = stream_row->find_topic(topic);
    if (topic_row == nullptr) {
        return fail(ErrorCode::kTopicIdNotFound);
    }
    if (!state.allows(user, model::Rule::kTopicRead, stream_row->id, topic_row->id)) {
        return fail(ErrorCode::kUnauthorized);
    }
    return topic_row;
}

}  // namespace

Result<ReplyBody> get_stream_reply(const State& state, model::UserId user,
                                   const wire::Identifier& stream) {
    const Stream* row = state.find_stream(stream);
    if (row == nullptr) {
        return ReplyBody{};
    }
    if (!state.allows(user, model::Rule::kStreamRead, row->id)) {
        return fail(ErrorCode::kUnauthorized);
    }
    return detail::stream_details(*row);
}

Result<ReplyBody> get_streams_reply(const State& state, model::UserId user) {
    if (!state.allows(user, model::Rule::kStreamsRead)) {
        return fail(ErrorCode::kUnauthorized);
    }
    ByteWriter to;
    for (const Stream& stream : state.streams().rows()) {
        detail::put_stream(to, stream);
    }
    return std::move(to).take();
}

Result<ReplyBody> get_topic_reply(const State& state, model::UserId user,
                                  const wire::Identifier& stream, const wire::Identifier& topic) {
    const Result<const Topic*> row = readable_topic(state, user, stream, topic);
    if (row.has_value()) {
        return detail::topic_details(**row);
    }
    if (row.error().code == ErrorCode::kUnauthorized) {
        return std::unexpected(row.error());
    }
    return ReplyBody{};
}

Result<ReplyBody> get_topics_reply(const State& state, model::UserId user,
                                   const wire::Identifier& stream) {
    ByteWriter to;
    const Stream* row = state.find_stream(stream);
    if (row == nullptr) {
        to.put<std::uint32_t>(0);
        return std::move(to).take();
    }
    if (!state.allows(user, model::Rule::kTopicsRead, row->id)) {
        return fail(ErrorCode::kUnauthorized);
    }
    to.put<std::uint32_t>(static_cast<std::uint32_t>(row->topics.size()));
    for (const Topic& topic : row->topics.rows()) {
        detail::put_topic(to, topic);
    }
    return std::move(to).take();
}

Result<ReplyBody> get_group_reply(const State& state, model::UserId user,
                                  const wire::Identifier& stream, const wire::Identifier& topic,
                                  const wire::Identifier& group) {
    GALGO_TRY_ASSIGN(const Topic* const topic_row, readable_topic(state, user, stream, topic));
    const ConsumerGroup* row = topic_row->find_group(group);
    return row == nullptr ? ReplyBody{} : detail::group_details(*row);
}

Result<ReplyBody> get_groups_reply(const State& state, model::UserId user,
                                   const wire::Identifier& stream, const wire::Identifier& topic) {
    GALGO_TRY_ASSIGN(const Topic* const topic_row, readable_topic(state, user, stream, topic));
    ByteWriter to;
    for (const auto& [id, group] : topic_row->groups) {
        detail::put_group(to, group);
    }
    return std::move(to).take();
}

ReplyBody sync_group_reply(const State& state, ClientId client, const wire::Identifier& stream,
                           const wire::Identifier& topic, const wire::Identifier& group) {
    const ConsumerGroup* row = state.find_group(stream, topic, group);
    const groups::Member* member = row == nullptr ? nullptr : row->assignment.find_member(client);
    if (member == nullptr) {
        return {};
    }
    ByteWriter to;
    wire::put_sync_reply(to, row->assignment.generation().value(), member->partitions);
    return std::move(to).take();
}

Result<ReplyBody> get_user_reply(const State& state, model::UserId user,
                                 const wire::Identifier& wanted) {
    const User* row = state.find_user(wanted);
    if (row == nullptr) {
        return ReplyBody{};
    }
    GALGO_TRY(authorise(state, user, wire::CommandCode::kGetUser, {.user = row->id}));
    return detail::user_details(*row);
}

Result<ReplyBody> get_users_reply(const State& state, model::UserId user) {
    GALGO_TRY(authorise(state, user, wire::CommandCode::kGetUsers));
    ByteWriter to;
    for (const User& row : state.users().rows()) {
        detail::put_user(to, row);
    }
    return std::move(to).take();
}

ReplyBody get_tokens_reply(const State& state, model::UserId user) {
    ByteWriter to;
    if (const User* row = state.users().find(user); row != nullptr) {
        for (const auto& [name, token] : row->tokens) {
            wire::put_token_record(to, name, token.expiry_at);
        }
    }
    return std::move(to).take();
}

Totals& Totals::operator+=(const Totals& other) noexcept {
    size_bytes += other.size_bytes;
    message_count += other.message_count;
    segment_count += other.segment_count;
    stream_count += other.stream_count;
    topic_count += other.topic_count;
    partition_count += other.partition_count;
    group_count += other.group_count;
    return *this;
}

Totals totals_of(const Topic& topic) noexcept {
    Totals totals{.topic_count = 1,
                  .partition_count = topic.partition_count(),
                  .group_count = static_cast<std::uint32_t>(topic.groups.size())};
    for (const Partition& partition : topic.partitions) {
        const PartitionCounters counters = partition.stats->load();
        totals.size_bytes += counters.size_bytes;
        totals.message_count += counters.message_count;
        totals.segment_count += counters.segment_count;
    }
    return totals;
}

Totals totals_of(const Stream& stream) noexcept {
    Totals sum{.stream_count = 1};
    for (const Topic& topic : stream.topics.rows()) {
        sum += totals_of(topic);
    }
    return sum;
}

Totals totals_of(const State& state) noexcept {
    Totals sum;
    for (const Stream& stream : state.streams().rows()) {
        sum += totals_of(stream);
    }
    return sum;
}

}  // namespace galgo::metadata

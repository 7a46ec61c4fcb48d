#include "sim/workload.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/bytes.hpp"
#include "metadata/operation.hpp"
#include "model/permissions.hpp"
#include "wire/options.hpp"
#include "wire/requests.hpp"

namespace galgo::sim {
namespace {

using wire::Identifier;
using wire::Operation;

template <class Request>
std::vector<std::byte> body_of(const Request& request) {
    ByteWriter to;
    request.encode(to);
    return std::move(to).take();
}

std::string name_of(char kind, std::uint8_t number) {
    return std::string(1, kind) + "-name-" + std::to_string(number);
}

}  // namespace

Workload::Workload() {
    add_users_and_tokens();
    const wire::OptionBlock no_options = *wire::OptionBlock::parse({});
    for (std::uint8_t s = 0; s < kStreams; ++s) {
        const std::string stream = name_of('s', s);
        const Identifier stream_id = Identifier::named(stream);
        const auto of_stream = [&](Operation operation, std::vector<std::byte> body,
                                   std::uint32_t weight) {
            add({.operation = operation, .stream = s, .body = std::move(body)}, weight);
        };
        of_stream(Operation::kCreateStream,
                  body_of(wire::CreateStreamRequest{.name = stream, .options = {}}), 36);
        of_stream(Operation::kDeleteStream, body_of(wire::StreamRequest{stream_id}), 6);
        of_stream(Operation::kPurgeStream, body_of(wire::StreamRequest{stream_id}), 4);
        for (std::uint8_t to = 0; to < kStreams; ++to) {
            const std::string new_name = name_of('s', to);
            add({.operation = Operation::kUpdateStream,
                 .stream = s,
                 .stream_to = to,
                 .body = body_of(wire::UpdateStreamRequest{
                     .stream = stream_id, .name = new_name, .options = {}})},
                2);
        }
        for (std::uint8_t t = 0; t < kTopics; ++t) {
            const std::string topic = name_of('t', t);
            const Identifier topic_id = Identifier::named(topic);
            const auto of_topic = [&](Operation operation, std::vector<std::byte> body,
                                      std::uint32_t weight) {
                add({.operation = operation, .stream = s, .topic = t, .body = std::move(body)},
                    weight);
            };
            of_topic(Operation::kCreateTopic,
                     body_of(wire::CreateTopicRequest{.stream = stream_id,
                                                      .partitions_count = kPartitionsAdded,
                                                      .name = topic,
                                                      .options = no_options}),
                     8);
            of_topic(Operation::kDeleteTopic, body_of(wire::TopicRequest{stream_id, topic_id}), 2);
            of_topic(Operation::kPurgeTopic, body_of(wire::TopicRequest{stream_id, topic_id}), 2);
            of_topic(Operation::kCreatePartitions,
                     body_of(wire::PartitionsRequest{stream_id, topic_id, kPartitionsAdded}), 2);
            of_topic(Operation::kDeletePartitions,
                     body_of(wire::PartitionsRequest{stream_id, topic_id, kPartitionsAdded}), 3);
            for (std::uint8_t g = 0; g < kGroups; ++g) {
                const std::string group = name_of('g', g);
                const Identifier group_id = Identifier::named(group);
                const auto of_group = [&](Operation operation, std::vector<std::byte> body,
                                          std::uint32_t weight) {
                    add({.operation = operation,
                         .stream = s,
                         .topic = t,
                         .group = g,
                         .body = std::move(body)},
                        weight);
                };
                const wire::GroupRequest request{stream_id, topic_id, group_id};
                of_group(Operation::kCreateConsumerGroup,
                         body_of(wire::CreateGroupRequest{stream_id, topic_id, group}), 4);
                of_group(Operation::kDeleteConsumerGroup, body_of(request), 1);
                of_group(Operation::kJoinConsumerGroup, body_of(request), 5);
                of_group(Operation::kLeaveConsumerGroup, body_of(request), 2);
            }
        }
    }
}

void Workload::add_users_and_tokens() {
    for (std::uint8_t u = 0; u < kUsers; ++u) {
        const std::string name = name_of('u', u);
        const Identifier id = Identifier::named(name);
        add({.operation = Operation::kCreateUser,
             .user = u,
             .body = body_of(wire::CreateUserRequest{
                 .username = name, .password = "password", .permissions = {}, .options = {}})},
            6);
        add({.operation = Operation::kDeleteUser,
             .user = u,
             .body = body_of(wire::UserRequest{id})},
            4);
        for (const bool reads : {false, true}) {
            model::Permissions permissions;
            permissions.global.read_streams = reads;
            add({.operation = Operation::kUpdatePermissions,
                 .user = u,
                 .body = body_of(
                     wire::UpdatePermissionsRequest{.user = id, .permissions = permissions})},
                2);
        }
    }
    for (std::uint8_t t = 0; t < kTokens; ++t) {
        const std::string name = name_of('p', t);
        add({.operation = Operation::kCreatePersonalAccessToken,
             .token = t,
             .body = body_of(wire::CreateTokenRequest{.name = name})},
            6);
        add({.operation = Operation::kDeletePersonalAccessToken,
             .token = t,
             .body = body_of(wire::DeleteTokenRequest{.name = name})},
            4);
    }
}

void Workload::add(Command command, std::uint32_t weight) {
    weighted_.insert(weighted_.end(), weight, static_cast<std::uint16_t>(commands_.size()));
    commands_.push_back(std::move(command));
}

std::uint16_t Workload::draw(Random& random) const {
    return weighted_[random.below(weighted_.size())];
}

void Model::reset(std::uint32_t sessions_max) noexcept {
    *this = Model{};
    sessions_max_ = sessions_max;
}

std::uint32_t Model::session_count() const noexcept {
    return static_cast<std::uint32_t>(std::ranges::count_if(
        sessions_, [](const SessionOf& session) { return session.epoch != SessionId(0); }));
}

void Model::end_session(std::uint8_t client) {
    sessions_[client] = {};
    for (Stream& stream : streams_) {
        for (Topic& topic : stream.topics) {
            for (std::uint32_t& members : topic.members) {
                members &= ~(1U << client);
            }
        }
    }
}

void Model::start_session(std::uint8_t client, OpNumber op) {
    end_session(client);
    while (session_count() >= sessions_max_) {
        std::uint8_t oldest = kClientsMax;
        for (std::uint8_t i = 0; i < kClientsMax; ++i) {
            if (sessions_[i].epoch != SessionId(0) &&
                (oldest == kClientsMax ||
                 sessions_[i].last_commit < sessions_[oldest].last_commit)) {
                oldest = i;
            }
        }
        end_session(oldest);
        ++pushed_out_;
    }
    sessions_[client] = {.epoch = SessionId(op.value()), .last_commit = op};
}

ErrorCode Model::apply(const Workload& workload, const LogEntry& entry, std::uint8_t client) {
    switch (entry.operation) {
        case metadata::LogOperation::kRegister:
            // The body says which user was looked at: id u32, op of its creation u64.
            if (root_ == OpNumber(0) || load<std::uint64_t>(entry.body(), 4) != root_.value()) {
                return ErrorCode::kInvalidCredentials;
            }
            start_session(client, entry.prepare.op);
            return ErrorCode::kOk;
        case metadata::LogOperation::kLogout:
            if (sessions_[client].epoch == entry.session) {
                end_session(client);
            }
            return ErrorCode::kOk;
        case metadata::LogOperation::kCreateRoot:
            if (root_ != OpNumber(0)) {
                return ErrorCode::kUserAlreadyExists;
            }
            root_ = entry.prepare.op;
            return ErrorCode::kOk;
        case metadata::LogOperation::kResetSessions:
            for (std::uint8_t i = 0; i < kClientsMax; ++i) {
                end_session(i);
            }
            return ErrorCode::kOk;
        default:
            return apply_command(
                workload.command(static_cast<std::uint16_t>(entry.request_checksum & 0xffffU)),
                entry, client);
    }
}

ErrorCode Model::apply_command(const Workload::Command& command, const LogEntry& entry,
                               std::uint8_t client) {
    SessionOf& session = sessions_[client];
    const bool session_holds = session.epoch != SessionId(0) && session.epoch == entry.session;
    if (session_holds) {
        session.last_commit = entry.prepare.op;
    }
    switch (command.operation) {
        case wire::Operation::kCreateUser:
        case wire::Operation::kDeleteUser:
        case wire::Operation::kUpdatePermissions:
        case wire::Operation::kCreatePersonalAccessToken:
        case wire::Operation::kDeletePersonalAccessToken:
            return apply_to_user(command);
        default:
            break;
    }
    Stream& stream = streams_[command.stream];
    if (command.operation == wire::Operation::kCreateStream) {
        return std::exchange(stream.exists, true) ? ErrorCode::kStreamNameAlreadyExists
                                                  : ErrorCode::kOk;
    }
    if (!stream.exists) {
        return ErrorCode::kStreamIdNotFound;
    }
    if (command.operation == wire::Operation::kDeleteStream) {
        stream = {};
        return ErrorCode::kOk;
    }
    if (command.operation == wire::Operation::kPurgeStream) {
        return ErrorCode::kOk;
    }
    if (command.operation == wire::Operation::kUpdateStream) {
        if (command.stream_to == command.stream) {
            return ErrorCode::kOk;
        }
        if (streams_[command.stream_to].exists) {
            return ErrorCode::kStreamNameAlreadyExists;
        }
        streams_[command.stream_to] = std::exchange(stream, {});
        return ErrorCode::kOk;
    }
    Topic& topic = stream.topics[command.topic];
    if (command.operation == wire::Operation::kCreateTopic) {
        if (topic.exists) {
            return ErrorCode::kTopicNameAlreadyExists;
        }
        topic = {};
        topic.exists = true;
        topic.partitions = Workload::kPartitionsAdded;
        return ErrorCode::kOk;
    }
    if (!topic.exists) {
        return ErrorCode::kTopicIdNotFound;
    }
    switch (command.operation) {
        case wire::Operation::kDeleteTopic:
            topic = {};
            return ErrorCode::kOk;
        case wire::Operation::kPurgeTopic:
            return ErrorCode::kOk;
        case wire::Operation::kCreatePartitions:
            topic.partitions += Workload::kPartitionsAdded;
            return ErrorCode::kOk;
        case wire::Operation::kDeletePartitions:
            if (topic.partitions < Workload::kPartitionsAdded) {
                return ErrorCode::kInvalidPartitionsCount;
            }
            topic.partitions -= Workload::kPartitionsAdded;
            return ErrorCode::kOk;
        default:
            return apply_to_group(command, topic, client, session_holds);
    }
}

ErrorCode Model::apply_to_user(const Workload::Command& command) {
    bool& user = users_[command.user];
    bool& token = tokens_[command.token];
    switch (command.operation) {
        case wire::Operation::kCreateUser:
            return std::exchange(user, true) ? ErrorCode::kUserAlreadyExists : ErrorCode::kOk;
        case wire::Operation::kDeleteUser:
            return std::exchange(user, false) ? ErrorCode::kOk : ErrorCode::kResourceNotFound;
        case wire::Operation::kUpdatePermissions:
            return user ? ErrorCode::kOk : ErrorCode::kResourceNotFound;
        case wire::Operation::kCreatePersonalAccessToken:
            return std::exchange(token, true) ? ErrorCode::kPersonalAccessTokenAlreadyExists
                                              : ErrorCode::kOk;
        default:
            return std::exchange(token, false) ? ErrorCode::kOk : ErrorCode::kResourceNotFound;
    }
}

ErrorCode Model::apply_to_group(const Workload::Command& command, Topic& topic, std::uint8_t client,
                                bool session_holds) {
    bool& exists = topic.groups[command.group];
    std::uint32_t& members = topic.members[command.group];
    if (command.operation == wire::Operation::kCreateConsumerGroup) {
        return std::exchange(exists, true) ? ErrorCode::kConsumerGroupNameAlreadyExists
                                           : ErrorCode::kOk;
    }
    if (!exists) {
        return ErrorCode::kConsumerGroupIdNotFound;
    }
    const std::uint32_t bit = 1U << client;
    switch (command.operation) {
        case wire::Operation::kDeleteConsumerGroup:
            exists = false;
            members = 0;
            return ErrorCode::kOk;
        case wire::Operation::kJoinConsumerGroup:
            if (!session_holds) {
                return ErrorCode::kUnauthenticated;
            }
            members |= bit;
            return ErrorCode::kOk;
        default:
            if ((members & bit) == 0) {
                return ErrorCode::kConsumerGroupMemberNotFound;
            }
            members &= ~bit;
            return ErrorCode::kOk;
    }
}

}  // namespace galgo::sim

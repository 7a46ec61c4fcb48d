#include "metadata/snapshot.hpp"

#include <algorithm>
#include <utility>

#include "metadata/detail/sealed.hpp"
#include "metadata/detail/topic_blocks.hpp"
#include "wire/permissions.hpp"
#include "wire/primitives.hpp"

namespace galgo::metadata {

/// Sees the private parts of State to write and to rebuild them.
class StateCodec {
 public:
    static std::vector<std::byte> encode(const State& state);
    static Result<State> decode(ConstBytes bytes, PartitionStatsRegistry& registry,
                                StateOptions options);

 private:
    StateCodec(ConstBytes bytes, PartitionStatsRegistry& registry) noexcept
        : from_(bytes), registry_(registry) {}

    bool decode_stream(State& state);
    bool decode_topic(Stream& stream);
    bool decode_group(Topic& topic);
    bool decode_user(State& state);
    bool decode_token(State& state, User& user, std::string& last_name);
    bool decode_session(State& state);
    bool index_memberships(State& state) const;

    /// Calls `decode_row` as often as the count in front says; a list cannot have more rows than
    /// bytes.
    template <class DecodeRow>
    bool decode_list(DecodeRow&& decode_row) {
        const std::uint32_t count = from_.u32();
        if (from_.failed() || count > from_.remaining()) {
            return false;
        }
        for (std::uint32_t i = 0; i < count; ++i) {
            if (!decode_row() || from_.failed()) {
                return false;
            }
        }
        return true;
    }

    wire::FieldReader from_;
    PartitionStatsRegistry& registry_;
    OpNumber op_;
};

namespace {

constexpr detail::SealedKind kKind{.magic = 0x4E53'4D47, .version = 2};  // "GMSN"

void put_count(ByteWriter& to, std::size_t count) {
    to.put<std::uint32_t>(static_cast<std::uint32_t>(count));
}

void encode_group(ByteWriter& to, const ConsumerGroup& group) {
    to.put<std::uint32_t>(group.id.value());
    wire::put_name(to, group.name);
    to.put<std::uint64_t>(group.assignment.generation().value());
    put_count(to, group.assignment.member_count());
    for (const groups::Member& member : group.assignment.members()) {
        to.put<std::uint32_t>(member.id.value());
        to.put<u128>(member.client.value());
        put_count(to, member.partitions.size());
        for (const model::PartitionId partition : member.partitions) {
            to.put<std::uint32_t>(partition.value());
        }
    }
}

void encode_topic(ByteWriter& to, const Topic& topic) {
    to.put<std::uint32_t>(topic.id.value());
    wire::put_name(to, topic.name);
    to.put<std::uint64_t>(topic.created_at.value());
    wire::put_block32(to, topic.options.explicit_block);
    wire::put_block32(to, topic.options.derived_block);
    put_count(to, topic.partitions.size());
    for (const Partition& partition : topic.partitions) {
        to.put<std::uint64_t>(partition.created_at.value());
        to.put<std::uint64_t>(partition.incarnation.value());
    }
    to.put<std::uint32_t>(topic.next_group_id.value());
    put_count(to, topic.groups.size());
    for (const auto& [id, group] : topic.groups) {
        encode_group(to, group);
    }
}

}  // namespace

std::vector<std::byte> StateCodec::encode(const State& state) {
    ByteWriter to = detail::begin_sealed(kKind);
    to.put<std::uint64_t>(state.op_.value());
    to.put<std::uint64_t>(state.metadata_revision_.value());
    put_count(to, state.streams_.size());
    for (const Stream& stream : state.streams_.rows()) {
        to.put<std::uint32_t>(stream.id.value());
        wire::put_name(to, stream.name);
        to.put<std::uint64_t>(stream.created_at.value());
        put_count(to, stream.topics.size());
        for (const Topic& topic : stream.topics.rows()) {
            encode_topic(to, topic);
        }
    }
    put_count(to, state.users_.size());
    for (const User& user : state.users_.rows()) {
        to.put<std::uint32_t>(user.id.value());
        wire::put_name(to, user.name);
        to.put<std::uint64_t>(user.created_at.value());
        to.put<std::uint64_t>(user.created_op.value());
        to.put<std::uint8_t>(static_cast<std::uint8_t>(user.status));
        wire::put_str32(to, user.password_hash);
        ByteWriter permissions;
        if (user.permissions.has_value()) {
            wire::put_permissions(permissions, *user.permissions);
        }
        wire::put_block32(to, permissions.bytes());
        put_count(to, user.tokens.size());
        for (const auto& [name, token] : user.tokens) {
            wire::put_name(to, name);
            to.put_bytes(token.hash);
            to.put<std::uint64_t>(token.expiry_at.value_or(Timestamp(0)).value());
        }
    }
    put_count(to, state.sessions_.size());
    for (const auto& [client, session] : state.sessions_.by_client()) {
        to.put<u128>(client.value());
        to.put<std::uint64_t>(session.epoch.value());
        to.put<std::uint32_t>(session.user.value());
        to.put<std::uint64_t>(session.last_commit.value());
    }
    return detail::seal(std::move(to));
}

Result<State> StateCodec::decode(ConstBytes bytes, PartitionStatsRegistry& registry,
                                 StateOptions options) {
    GALGO_TRY_ASSIGN(const ConstBytes content, detail::open_sealed(bytes, kKind));
    StateCodec codec(content, registry);
    State state(options);
    state.op_ = codec.op_ = codec.from_.id<OpNumber>();
    state.metadata_revision_ = codec.from_.id<OpNumber>();
    const bool rows_fit = codec.decode_list([&] { return codec.decode_stream(state); }) &&
                          codec.decode_list([&] { return codec.decode_user(state); }) &&
                          codec.decode_list([&] { return codec.decode_session(state); }) &&
                          codec.index_memberships(state);
    if (!rows_fit || codec.from_.failed() || codec.from_.remaining() != 0 ||
        state.metadata_revision_ > state.op_) {
        return detail::corrupted(detail::kSealedHeadSize + codec.from_.position());
    }
    // What reads well may still have been written otherwise: then two equal states would have
    // unequal bytes.
    if (!std::ranges::equal(encode(state), bytes)) {
        return detail::corrupted(0);
    }
    return state;
}

bool StateCodec::decode_stream(State& state) {
    Stream stream;
    stream.id = from_.id<model::StreamId>();
    stream.name = from_.name();
    stream.created_at = from_.id<Timestamp>();
    // Ascending ids: the next one is behind all that are in the table.
    if (from_.failed() || stream.id.value() >= model::kStreamCountMax ||
        stream.id < state.streams_.end_id() || state.stream_names_.find(stream.name).has_value() ||
        !decode_list([&] { return decode_topic(stream); })) {
        return false;
    }
    state.stream_names_.insert(stream.name, stream.id);
    state.streams_.restore(std::move(stream));
    return true;
}

bool StateCodec::decode_topic(Stream& stream) {
    Topic topic;
    topic.id = from_.id<model::TopicId>();
    topic.name = from_.name();
    topic.created_at = from_.id<Timestamp>();
    const ConstBytes explicit_block = from_.block32();
    const ConstBytes derived_block = from_.block32();
    if (from_.failed() || topic.id.value() >= model::kTopicCountMax ||
        topic.id < stream.topics.end_id() || stream.topic_names.find(topic.name).has_value()) {
        return false;
    }
    std::uint32_t next_partition = 0;
    const bool partitions_fit = decode_list([&] {
        Partition partition;
        partition.created_at = from_.id<Timestamp>();
        partition.incarnation = from_.id<Incarnation>();
        if (next_partition >= model::kPartitionIdMax ||
            partition.incarnation.value() > op_.value()) {
            return false;
        }
        partition.stats = registry_.get_or_create(
            model::pack_partition_key(stream.id, topic.id, model::PartitionId(next_partition)),
            partition.incarnation);
        ++next_partition;
        topic.partitions.push_back(std::move(partition));
        return true;
    });
    topic.next_group_id = from_.id<model::GroupId>();
    if (!partitions_fit || from_.failed() || !decode_list([&] { return decode_group(topic); })) {
        return false;
    }
    Result<wire::ResolvedTopicOptions> options =
        detail::stored_topic_options(explicit_block, derived_block);
    if (!options.has_value()) {
        return false;
    }
    topic.options = *std::move(options);
    stream.topic_names.insert(topic.name, topic.id);
    stream.topics.restore(std::move(topic));
    return true;
}

bool StateCodec::decode_group(Topic& topic) {
    const auto id = from_.id<model::GroupId>();
    std::string name(from_.name());
    const auto generation = from_.id<groups::Generation>();
    std::vector<groups::Member> members;
    const bool members_fit = decode_list([&] {
        groups::Member member;
        member.id = from_.id<model::MemberId>();
        member.client = from_.id<ClientId>();
        const bool partitions_fit = decode_list([&] {
            member.partitions.push_back(from_.id<model::PartitionId>());
            return true;
        });
        members.push_back(std::move(member));
        return partitions_fit;
    });
    if (!members_fit || from_.failed() || id >= topic.next_group_id ||
        (!topic.groups.empty() && id <= topic.groups.rbegin()->first) ||
        topic.group_names.find(name).has_value()) {
        return false;
    }
    std::optional<groups::Group> assignment =
        groups::Group::restored(topic.partition_count(), generation, std::move(members));
    if (!assignment.has_value()) {
        return false;
    }
    topic.group_names.insert(name, id);
    topic.groups.emplace(
        id, ConsumerGroup{.id = id, .name = std::move(name), .assignment = *std::move(assignment)});
    return true;
}

bool StateCodec::decode_user(State& state) {
    User user;
    user.id = from_.id<model::UserId>();
    user.name = from_.name();
    user.created_at = from_.id<Timestamp>();
    user.created_op = from_.id<OpNumber>();
    user.status = from_.one_of(wire::UserStatus::kActive, wire::UserStatus::kInactive);
    user.password_hash = from_.str32();
    const ConstBytes permissions = from_.block32();
    // Root comes first.
    if (from_.failed() || user.id.value() >= kUserCountMax || user.created_op > op_ ||
        state.users_.empty() != (user.id == model::kRootUserId) ||
        user.id < state.users_.end_id() || state.user_names_.find(user.name).has_value()) {
        return false;
    }
    if (!permissions.empty()) {
        Result<model::Permissions> decoded = wire::decode_permissions(permissions);
        if (!decoded.has_value()) {
            return false;
        }
        user.permissions = *std::move(decoded);
    }
    std::string last_name;
    if (!decode_list([&] { return decode_token(state, user, last_name); })) {
        return false;
    }
    state.user_names_.insert(user.name, user.id);
    state.users_.restore(std::move(user));
    return true;
}

bool StateCodec::decode_token(State& state, User& user, std::string& last_name) {
    const std::string_view name = from_.name();
    Token token;
    std::ranges::copy(from_.bytes(token.hash.size()), token.hash.begin());
    if (const auto expiry_at = from_.id<Timestamp>(); expiry_at != Timestamp(0)) {
        token.expiry_at = expiry_at;
    }
    if (from_.failed() || name <= last_name || state.token_hashes_.contains(token.hash)) {
        return false;
    }
    last_name = name;
    state.insert_token(user, name, token);
    return true;
}

bool StateCodec::decode_session(State& state) {
    const auto client = from_.id<ClientId>();
    Session session;
    session.epoch = from_.id<SessionId>();
    session.user = from_.id<model::UserId>();
    session.last_commit = from_.id<OpNumber>();
    const User* user = state.users_.find(session.user);
    return !from_.failed() && user != nullptr && user->status == wire::UserStatus::kActive &&
           user->created_op.value() < session.epoch.value() &&
           session.epoch.value() <= op_.value() && session.last_commit <= op_ &&
           state.sessions_.restore(client, session);
}

bool StateCodec::index_memberships(State& state) const {
    for (const Stream& stream : state.streams_.rows()) {
        for (const Topic& topic : stream.topics.rows()) {
            for (const auto& [id, group] : topic.groups) {
                for (const groups::Member& member : group.assignment.members()) {
                    if (state.sessions_.find(member.client) == nullptr) {
                        return false;
                    }
                    state.memberships_[member.client].insert({stream.id, topic.id, id});
                }
            }
        }
    }
    return true;
}

std::vector<std::byte> encode_snapshot(const State& state) {
    return StateCodec::encode(state);
}

Result<State> decode_snapshot(ConstBytes bytes, PartitionStatsRegistry& registry,
                              StateOptions options) {
    return StateCodec::decode(bytes, registry, options);
}

std::uint64_t digest(const State& state) {
    const std::vector<std::byte> bytes = encode_snapshot(state);
    return load<std::uint64_t>(bytes, bytes.size() - detail::kSealedChecksumSize);
}

}  // namespace galgo::metadata

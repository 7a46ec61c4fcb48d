// Codec of request bodies: each decoder lists its fields in order, the reader remembers the first
// failure.
#include "wire/requests.hpp"

#include "wire/permissions.hpp"

namespace galgo::wire {
namespace {

OptionBlock take_options(FieldReader& reader) noexcept {
    const Result<OptionBlock> block = OptionBlock::parse(reader.rest());
    if (!block) {
        reader.set_failed();
        return {};
    }
    return *block;
}

LoginPrefix take_login_prefix(FieldReader& reader) noexcept {
    LoginPrefix prefix;
    prefix.protocol_version = reader.u32();
    prefix.sdk_name = reader.name();
    prefix.sdk_version = reader.name();
    return prefix;
}

void put_login_prefix(ByteWriter& to, const LoginPrefix& prefix) {
    to.put<std::uint32_t>(prefix.protocol_version);
    put_name(to, prefix.sdk_name);
    put_name(to, prefix.sdk_version);
}

/// Flag, and if it is 1 a length-prefixed record that decodes exactly.
std::optional<model::Permissions> take_permissions(FieldReader& reader) {
    if (reader.u8() != 1) {
        return std::nullopt;
    }
    Result<model::Permissions> permissions = decode_permissions(reader.block32());
    if (!permissions) {
        reader.set_failed();
        return std::nullopt;
    }
    return *std::move(permissions);
}

void put_optional_permissions(ByteWriter& to, const std::optional<model::Permissions>& from) {
    to.put<std::uint8_t>(from ? 1 : 0);
    if (from) {
        const std::size_t size_at = to.size();
        to.put<std::uint32_t>(0);
        put_permissions(to, *from);
        to.patch<std::uint32_t>(size_at, static_cast<std::uint32_t>(to.size() - size_at - 4));
    }
}

bool is_snapshot_kind(std::byte value) noexcept {
    const auto kind = std::to_integer<std::uint8_t>(value);
    return (kind >= static_cast<std::uint8_t>(SnapshotKind::kFilesystemOverview) &&
            kind <= static_cast<std::uint8_t>(SnapshotKind::kServerConfig)) ||
           kind == static_cast<std::uint8_t>(SnapshotKind::kAll);
}

}  // namespace

Result<LoginPrefix> LoginPrefix::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    return reader.finish(take_login_prefix(reader));
}

Result<LoginRequest> LoginRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    LoginRequest request;
    request.prefix = take_login_prefix(reader);
    request.username = reader.name();
    request.password = reader.str8();
    request.context = reader.str32();
    return reader.finish(request);
}

void LoginRequest::encode(ByteWriter& to) const {
    put_login_prefix(to, prefix);
    put_name(to, username);
    put_str8(to, password);
    put_str32(to, context);
}

Result<TokenLoginRequest> TokenLoginRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    TokenLoginRequest request;
    request.prefix = take_login_prefix(reader);
    request.token = reader.str8();
    request.context = reader.str32();
    return reader.finish(request);
}

void TokenLoginRequest::encode(ByteWriter& to) const {
    put_login_prefix(to, prefix);
    put_str8(to, token);
    put_str32(to, context);
}

Result<GetSnapshotRequest> GetSnapshotRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    GetSnapshotRequest request;
    request.compression = reader.one_of(SnapshotCompression::kStored, SnapshotCompression::kXz);
    request.kinds = reader.bytes(reader.u8());
    for (const std::byte kind : request.kinds) {
        if (!is_snapshot_kind(kind)) {
            reader.set_failed();
        }
    }
    return reader.finish(request);
}

void GetSnapshotRequest::encode(ByteWriter& to) const {
    GALGO_CHECK(kinds.size() <= kFieldBytesMax);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(compression));
    to.put<std::uint8_t>(static_cast<std::uint8_t>(kinds.size()));
    to.put_bytes(kinds);
}

Result<DescribeOptionsRequest> DescribeOptionsRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    return reader.finish(
        DescribeOptionsRequest{.scope = reader.one_of(OptionScope::kTopic, OptionScope::kUser)});
}

void DescribeOptionsRequest::encode(ByteWriter& to) const {
    to.put<std::uint8_t>(static_cast<std::uint8_t>(scope));
}

Result<GetClientRequest> GetClientRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    return reader.finish(GetClientRequest{.connection = reader.id<model::ConnectionId>()});
}

void GetClientRequest::encode(ByteWriter& to) const {
    to.put<std::uint32_t>(connection.value());
}

Result<AttachConsumerSessionRequest> AttachConsumerSessionRequest::decode(
    ConstBytes body) noexcept {
    FieldReader reader(body);
    AttachConsumerSessionRequest request;
    request.client = reader.id<ClientId>();
    request.session = reader.id<SessionId>();
    request.metadata_watermark = reader.u64();
    return reader.finish(request);
}

void AttachConsumerSessionRequest::encode(ByteWriter& to) const {
    to.put<u128>(client.value());
    to.put<std::uint64_t>(session.value());
    to.put<std::uint64_t>(metadata_watermark);
}

Result<StreamRequest> StreamRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    return reader.finish(StreamRequest{.stream = reader.identifier()});
}

void StreamRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
}

Result<CreateStreamRequest> CreateStreamRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    CreateStreamRequest request;
    request.name = reader.name();
    request.options = take_options(reader);
    return reader.finish(request);
}

void CreateStreamRequest::encode(ByteWriter& to) const {
    put_name(to, name);
    to.put_bytes(options.bytes());
}

Result<UpdateStreamRequest> UpdateStreamRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    UpdateStreamRequest request;
    request.stream = reader.identifier();
    request.name = reader.name();
    request.options = take_options(reader);
    return reader.finish(request);
}

void UpdateStreamRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_name(to, name);
    to.put_bytes(options.bytes());
}

Result<TopicRequest> TopicRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    TopicRequest request;
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    return reader.finish(request);
}

void TopicRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_identifier(to, topic);
}

Result<CreateTopicRequest> CreateTopicRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    CreateTopicRequest request;
    request.stream = reader.identifier();
    request.partitions_count = reader.u32();
    request.name = reader.name();
    request.options = take_options(reader);
    return reader.finish(request);
}

void CreateTopicRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    to.put<std::uint32_t>(partitions_count);
    put_name(to, name);
    to.put_bytes(options.bytes());
}

Result<UpdateTopicRequest> UpdateTopicRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    UpdateTopicRequest request;
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.name = reader.name();
    request.options = take_options(reader);
    return reader.finish(request);
}

void UpdateTopicRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_identifier(to, topic);
    put_name(to, name);
    to.put_bytes(options.bytes());
}

Result<PartitionsRequest> PartitionsRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    PartitionsRequest request;
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.partitions_count = reader.u32();
    return reader.finish(request);
}

void PartitionsRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_identifier(to, topic);
    to.put<std::uint32_t>(partitions_count);
}

Result<DeleteSegmentsRequest> DeleteSegmentsRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    DeleteSegmentsRequest request;
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.partition = reader.id<model::PartitionId>();
    request.segments_count = reader.u32();
    return reader.finish(request);
}

void DeleteSegmentsRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_identifier(to, topic);
    to.put<std::uint32_t>(partition.value());
    to.put<std::uint32_t>(segments_count);
}

Result<GroupRequest> GroupRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    GroupRequest request;
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.group = reader.identifier();
    return reader.finish(request);
}

void GroupRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_identifier(to, topic);
    put_identifier(to, group);
}

Result<CreateGroupRequest> CreateGroupRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    CreateGroupRequest request;
    request.stream = reader.identifier();
    request.topic = reader.identifier();
    request.name = reader.name();
    return reader.finish(request);
}

void CreateGroupRequest::encode(ByteWriter& to) const {
    put_identifier(to, stream);
    put_identifier(to, topic);
    put_name(to, name);
}

Result<UserRequest> UserRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    return reader.finish(UserRequest{.user = reader.identifier()});
}

void UserRequest::encode(ByteWriter& to) const {
    put_identifier(to, user);
}

Result<CreateUserRequest> CreateUserRequest::decode(ConstBytes body) {
    FieldReader reader(body);
    CreateUserRequest request;
    request.username = reader.name();
    request.password = reader.str8();
    request.status = reader.one_of(UserStatus::kActive, UserStatus::kInactive);
    request.permissions = take_permissions(reader);
    request.options = take_options(reader);
    return reader.finish(std::move(request));
}

void CreateUserRequest::encode(ByteWriter& to) const {
    put_name(to, username);
    put_str8(to, password);
    to.put<std::uint8_t>(static_cast<std::uint8_t>(status));
    put_optional_permissions(to, permissions);
    to.put_bytes(options.bytes());
}

Result<UpdateUserRequest> UpdateUserRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    UpdateUserRequest request;
    request.user = reader.identifier();
    if (reader.u8() == 1) {
        request.username = reader.name();
    }
    if (reader.u8() == 1) {
        request.status = reader.one_of(UserStatus::kActive, UserStatus::kInactive);
    }
    request.options = take_options(reader);
    return reader.finish(request);
}

void UpdateUserRequest::encode(ByteWriter& to) const {
    put_identifier(to, user);
    to.put<std::uint8_t>(username ? 1 : 0);
    if (username) {
        put_name(to, *username);
    }
    to.put<std::uint8_t>(status ? 1 : 0);
    if (status) {
        to.put<std::uint8_t>(static_cast<std::uint8_t>(*status));
    }
    to.put_bytes(options.bytes());
}

Result<UpdatePermissionsRequest> UpdatePermissionsRequest::decode(ConstBytes body) {
    FieldReader reader(body);
    UpdatePermissionsRequest request;
    request.user = reader.identifier();
    request.permissions = take_permissions(reader);
    return reader.finish(std::move(request));
}

void UpdatePermissionsRequest::encode(ByteWriter& to) const {
    put_identifier(to, user);
    put_optional_permissions(to, permissions);
}

Result<ChangePasswordRequest> ChangePasswordRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    ChangePasswordRequest request;
    request.user = reader.identifier();
    request.current_password = reader.str8();
    request.new_password = reader.str8();
    return reader.finish(request);
}

void ChangePasswordRequest::encode(ByteWriter& to) const {
    put_identifier(to, user);
    put_str8(to, current_password);
    put_str8(to, new_password);
}

Result<CreateTokenRequest> CreateTokenRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    CreateTokenRequest request;
    request.name = reader.name();
    request.expiry_us = reader.u64();
    return reader.finish(request);
}

void CreateTokenRequest::encode(ByteWriter& to) const {
    put_name(to, name);
    to.put<std::uint64_t>(expiry_us);
}

Result<DeleteTokenRequest> DeleteTokenRequest::decode(ConstBytes body) noexcept {
    FieldReader reader(body);
    return reader.finish(DeleteTokenRequest{.name = reader.name()});
}

void DeleteTokenRequest::encode(ByteWriter& to) const {
    put_name(to, name);
}

}  // namespace galgo::wire

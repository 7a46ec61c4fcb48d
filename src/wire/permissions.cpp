// Codec of permission records.
#include "wire/permissions.hpp"

#include <array>
#include <initializer_list>

#include "wire/primitives.hpp"

namespace galgo::wire {
namespace {

using model::GlobalPermissions;
using model::StreamPermissions;
using model::TopicPermissions;

// The order on the wire, once for both directions.
constexpr std::array kGlobalFields{
    &GlobalPermissions::manage_servers, &GlobalPermissions::read_servers,
    &GlobalPermissions::manage_users,   &GlobalPermissions::read_users,
    &GlobalPermissions::manage_streams, &GlobalPermissions::read_streams,
    &GlobalPermissions::manage_topics,  &GlobalPermissions::read_topics,
    &GlobalPermissions::poll_messages,  &GlobalPermissions::send_messages};
constexpr std::array kStreamFields{
    &StreamPermissions::manage_stream, &StreamPermissions::read_stream,
    &StreamPermissions::manage_topics, &StreamPermissions::read_topics,
    &StreamPermissions::poll_messages, &StreamPermissions::send_messages};
constexpr std::array kTopicFields{&TopicPermissions::manage_topic, &TopicPermissions::read_topic,
                                  &TopicPermissions::poll_messages,
                                  &TopicPermissions::send_messages};

template <class T, class Fields>
void read_bits(FieldReader& reader, T& to, const Fields& fields) noexcept {
    for (const auto field : fields) {
        to.*field = reader.u8() != 0;
    }
}

template <class T, class Fields>
void put_bits(ByteWriter& to, const T& from, const Fields& fields) {
    for (const auto field : fields) {
        to.put<std::uint8_t>(from.*field ? 1 : 0);
    }
}

void read_stream(FieldReader& reader, StreamPermissions& to) {
    read_bits(reader, to, kStreamFields);
    bool more = reader.u8() != 0;
    while (more && !reader.failed()) {
        TopicPermissions topic;
        const auto id = reader.id<model::TopicId>();
        read_bits(reader, topic, kTopicFields);
        more = reader.u8() != 0;
        to.topics.insert_or_assign(id, topic);
    }
}

}  // namespace

Result<model::Permissions> decode_permissions(ConstBytes bytes) {
    FieldReader reader(bytes);
    model::Permissions permissions;
    read_bits(reader, permissions.global, kGlobalFields);
    bool more = reader.u8() != 0;
    while (more && !reader.failed()) {
        StreamPermissions stream;
        const auto id = reader.id<model::StreamId>();
        read_stream(reader, stream);
        more = reader.u8() != 0;
        permissions.streams.insert_or_assign(id, std::move(stream));
    }
    if (reader.remaining() != 0) {
        reader.set_failed();
    }
    return reader.finish(std::move(permissions));
}

void put_permissions(ByteWriter& to, const model::Permissions& permissions) {
    put_bits(to, permissions.global, kGlobalFields);
    to.put<std::uint8_t>(permissions.streams.empty() ? 0 : 1);
    std::size_t streams_left = permissions.streams.size();
    for (const auto& [stream_id, stream] : permissions.streams) {
        to.put<std::uint32_t>(stream_id.value());
        put_bits(to, stream, kStreamFields);
        to.put<std::uint8_t>(stream.topics.empty() ? 0 : 1);
        std::size_t topics_left = stream.topics.size();
        for (const auto& [topic_id, topic] : stream.topics) {
            to.put<std::uint32_t>(topic_id.value());
            put_bits(to, topic, kTopicFields);
            to.put<std::uint8_t>(--topics_left > 0 ? 1 : 0);
        }
        to.put<std::uint8_t>(--streams_left > 0 ? 1 : 0);
    }
}

}  // namespace galgo::wire

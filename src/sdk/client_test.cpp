// The client against a peer that plays a script on a loopback socket: what it sends, what it takes
// for an answer, what breaks it.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "crypto/hash.hpp"
#include "sdk/client.hpp"
#include "wire/batch.hpp"
#include "wire/message_requests.hpp"
#include "wire/replies.hpp"
#include "wire/requests.hpp"

namespace galgo::sdk {
namespace {

using wire::CommandCode;
using wire::Operation;

struct Frame {
    wire::RequestHeader header;
    std::vector<std::byte> body;
};

std::vector<std::byte> reply(const Frame& frame, ConstBytes body,
                             ErrorCode status = ErrorCode::kOk) {
    wire::ReplyHeader header = wire::reply_to(frame.header);
    header.size = static_cast<std::uint32_t>(wire::kHeaderSize + body.size());
    header.status = status;
    std::vector<std::byte> bytes(wire::kHeaderSize);
    wire::encode_reply_header(bytes, header);
    bytes.insert(bytes.end(), body.begin(), body.end());
    return bytes;
}

std::vector<std::byte> eviction(const Frame& frame, wire::EvictionReason reason) {
    std::vector<std::byte> bytes(wire::kHeaderSize);
    wire::encode_eviction(bytes, {.client = frame.header.client, .reason = reason});
    return bytes;
}

using Answer = std::function<std::vector<std::byte>(const Frame&)>;

/// Takes one connection, answers one request a step, then closes. Keeps what it was asked.
class Peer {
 public:
    explicit Peer(std::vector<Answer> script) : script_(std::move(script)) {
        listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        auto* any = reinterpret_cast<sockaddr*>(&address);
        EXPECT_EQ(::bind(listener_, any, size), 0);
        EXPECT_EQ(::listen(listener_, 1), 0);
        EXPECT_EQ(::getsockname(listener_, any, &size), 0);
        port_ = ntohs(address.sin_port);
        thread_ = std::thread([this] { run(); });
    }
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;
    ~Peer() {
        if (thread_.joinable()) {
            thread_.join();
        }
        ::close(listener_);
    }

    [[nodiscard]] Result<Client> connect(const ClientOptions& options = {}) const {
        return Client::connect({.host = "127.0.0.1", .port = port_}, options);
    }
    /// Waits for the end of the script.
    std::vector<Frame>& seen() {
        thread_.join();
        return seen_;
    }

 private:
    void run() {
        const int connection = ::accept(listener_, nullptr, nullptr);
        for (const Answer& answer : script_) {
            Frame frame;
            std::vector<std::byte> header(wire::kHeaderSize);
            if (!receive(connection, header)) {
                break;
            }
            frame.header = wire::decode_request_header(header, wire::kMaxFrameBytesDefault).header;
            frame.body.resize(frame.header.body_size());
            if (!receive(connection, frame.body)) {
                break;
            }
            const std::vector<std::byte> bytes = answer(frame);
            seen_.push_back(std::move(frame));
            // In pieces, so that the client meets short reads.
            for (std::size_t at = 0; at < bytes.size();) {
                const std::size_t piece = std::min<std::size_t>(bytes.size() - at, 100);
                const ssize_t sent = ::send(connection, &bytes[at], piece, MSG_NOSIGNAL);
                if (sent <= 0) {
                    break;
                }
                at += static_cast<std::size_t>(sent);
            }
        }
        ::close(connection);
    }
    static bool receive(int connection, MutableBytes to) {
        return to.empty() || ::recv(connection, to.data(), to.size(), MSG_WAITALL) ==
                                 static_cast<ssize_t>(to.size());
    }

    std::vector<Answer> script_;
    std::vector<Frame> seen_;
    int listener_ = -1;
    std::uint16_t port_ = 0;
    std::thread thread_;
};

Answer answer_empty() {
    return [](const Frame& frame) { return reply(frame, {}); };
}
Answer answer_result_ok() {
    return [](const Frame& frame) { return reply(frame, wire::kResultOk); };
}
Answer answer_status(ErrorCode status) {
    return [status](const Frame& frame) { return reply(frame, {}, status); };
}
Answer answer_login() {
    return [](const Frame& frame) {
        ByteWriter writer;
        wire::put_login_reply(writer, {.user = model::UserId(0),
                                       .session = SessionId(77),
                                       .protocol_version = wire::kProtocolVersion,
                                       .server_version = "1.2.3"});
        return reply(frame, writer.bytes());
    };
}

constexpr Credentials kCredentials{.username = "iggy", .password = "secret"};
const wire::Identifier kStream = wire::Identifier::named("s");
const wire::Identifier kTopic = wire::Identifier::named("t");
const PartitionRef kPartition{.stream = kStream, .topic = kTopic};

TEST(Client, NumbersRequestsAndStampsWhatTheProtocolStamps) {
    Peer peer({answer_empty(), answer_login(), answer_empty(), answer_result_ok(),
               answer_result_ok(), answer_empty()});
    Result<Client> client = peer.connect();
    ASSERT_TRUE(client.has_value());
    EXPECT_TRUE(client->ping().has_value());
    const Result<Session> session = client->login(kCredentials);
    ASSERT_TRUE(session.has_value());
    EXPECT_EQ(session->session, SessionId(77));
    EXPECT_EQ(session->server_version, "1.2.3");
    EXPECT_TRUE(client->ping().has_value());
    EXPECT_TRUE(client->create_stream("s").has_value());
    EXPECT_TRUE(client->create_topic({.stream = kStream, .name = "t"}).has_value());
    EXPECT_TRUE(client->logout().has_value());

    const std::vector<Frame>& seen = peer.seen();
    ASSERT_EQ(seen.size(), 6U);
    const auto login = wire::LoginRequest::decode(seen[1].body);
    ASSERT_TRUE(login.has_value());
    EXPECT_EQ(login->username, "iggy");
    EXPECT_EQ(login->password, "secret");
    EXPECT_EQ(login->prefix.protocol_version, wire::kProtocolVersion);
    EXPECT_EQ(seen[1].header.session, SessionId(0));
    EXPECT_EQ(seen[1].header.request, RequestNumber(0));
    EXPECT_NE(seen[1].header.client, ClientId(0));
    EXPECT_NE(seen[1].header.client, seen[0].header.client);
    // A read carries the number of the next write and does not use it up.
    EXPECT_EQ(seen[2].header.code, CommandCode::kPing);
    EXPECT_EQ(seen[2].header.request, RequestNumber(1));
    EXPECT_EQ(seen[2].header.request_checksum, u128{0});
    EXPECT_EQ(seen[3].header.request, RequestNumber(1));
    EXPECT_EQ(seen[3].header.session, SessionId(77));
    EXPECT_EQ(seen[3].header.request_checksum, u128{crypto::xxh3_64(seen[3].body)});
    EXPECT_EQ(seen[4].header.request, RequestNumber(2));
    const auto topic = wire::CreateTopicRequest::decode(seen[4].body);
    ASSERT_TRUE(topic.has_value());
    EXPECT_TRUE(topic->options.empty());
    EXPECT_EQ(topic->partitions_count, 1U);
    EXPECT_EQ(seen[5].header.operation, Operation::kLogout);
    EXPECT_EQ(seen[5].header.request, RequestNumber(3));
}

TEST(Client, SendsTopicOptions) {
    Peer peer({answer_result_ok()});
    Result<Client> client = peer.connect();
    ASSERT_TRUE(client.has_value());
    const std::array<TopicOption, 1> options{{{.key = "durability", .value = "persisted"}}};
    EXPECT_TRUE(
        client->create_topic({.stream = kStream, .name = "t", .options = options}).has_value());
    const std::vector<Frame>& seen = peer.seen();
    ASSERT_EQ(seen.size(), 1U);
    const auto topic = wire::CreateTopicRequest::decode(seen[0].body);
    ASSERT_TRUE(topic.has_value());
    const auto option = topic->options.find("durability");
    ASSERT_TRUE(option.has_value());
    EXPECT_EQ(as_text(option->value), "persisted");
}

TEST(Client, SendsABatchAndReadsItBack) {
    wire::BatchBuilder builder;
    builder.reset(5);
    builder.add({.id = 1, .timestamp_us = 5, .payload = as_bytes("one")});
    builder.add({.id = 2, .timestamp_us = 6, .payload = as_bytes("two")});
    const ConstBytes batch = builder.finish();
    Peer peer({[](const Frame& frame) {
                   return reply(
                       frame, wire::send_confirmation_body(
                                  {.partition = model::PartitionId(0), .base_offset = Offset(40)}));
               },
               answer_empty(),
               [batch](const Frame& frame) {
                   ByteWriter writer;
                   writer.put_bytes(
                       wire::poll_prefix({.current_offset = Offset(41), .messages_count = 2}));
                   std::vector<std::byte> stored(batch.begin(), batch.end());
                   (void)wire::stamp_batch(stored, {.base_offset = Offset(40)});
                   writer.put_bytes(stored);
                   return reply(frame, writer.bytes());
               }});
    Result<Client> client = peer.connect();
    ASSERT_TRUE(client.has_value());
    SendTarget to(kPartition);
    const auto sent = client->send(to, batch);
    ASSERT_TRUE(sent.has_value() && sent->has_value());
    EXPECT_EQ((*sent)->base_offset, Offset(40));
    const auto unknown_place = client->send(to, batch);
    ASSERT_TRUE(unknown_place.has_value());
    EXPECT_FALSE(unknown_place->has_value());

    PollTarget from({.id = wire::Identifier::numbered(1)}, kPartition);
    auto reader = client->poll(from, {.strategy = {.kind = wire::PollingKind::kFirst}, .count = 2});
    ASSERT_TRUE(reader.has_value());
    EXPECT_EQ(reader->prefix().current_offset, Offset(41));
    for (const auto& [offset, text] : {std::pair{40U, "one"}, std::pair{41U, "two"}}) {
        const auto message = reader->next();
        ASSERT_TRUE(message.has_value() && message->has_value());
        EXPECT_EQ((*message)->offset, Offset(offset));
        EXPECT_EQ(as_text((*message)->view.payload), text);
    }
    const auto end = reader->next();
    ASSERT_TRUE(end.has_value());
    EXPECT_FALSE(end->has_value());

    const std::vector<Frame>& seen = peer.seen();
    ASSERT_EQ(seen.size(), 3U);
    const auto request = wire::SendMessagesRequest::decode(seen[0].body);
    ASSERT_TRUE(request.has_value());
    EXPECT_EQ(request->messages_count, 2U);
    EXPECT_TRUE(std::ranges::equal(request->batch, batch));
    EXPECT_EQ(seen[0].header.request_checksum, u128{0});
    EXPECT_EQ(seen[1].header.request, RequestNumber(2));
}

TEST(Client, RefusesBytesThatAreNoBatchBeforeSending) {
    Peer peer({answer_empty()});
    Result<Client> client = peer.connect();
    ASSERT_TRUE(client.has_value());
    SendTarget to(kPartition);
    EXPECT_FALSE(client->send(to, as_bytes("no batch")).has_value());
    EXPECT_TRUE(client->ping().has_value());
}

TEST(Client, ReportsStatusRejectionAndEvictionAndStaysUsable) {
    Peer peer({answer_status(ErrorCode::kUnauthorized),
               [](const Frame& frame) {
                   return reply(frame, wire::rejection_body(ErrorCode::kUserInactive));
               },
               [](const Frame& frame) {
                   return eviction(frame, wire::EvictionReason::kInvalidCredentials);
               },
               answer_empty()});
    Result<Client> client = peer.connect();
    ASSERT_TRUE(client.has_value());
    EXPECT_EQ(client->stats().error().code, ErrorCode::kUnauthorized);
    EXPECT_EQ(client->purge_stream(kStream).error().code, ErrorCode::kUserInactive);
    EXPECT_EQ(client->login(kCredentials).error().code, ErrorCode::kInvalidCredentials);
    EXPECT_TRUE(client->ping().has_value());
}

TEST(Client, SendsATransientRefusalAgainUnchanged) {
    Peer peer({answer_status(ErrorCode::kTransientNotAccepted),
               [](const Frame& frame) {
                   return reply(frame, wire::rejection_body(ErrorCode::kTransientNotCommitted));
               },
               answer_result_ok()});
    Result<Client> client = peer.connect();
    ASSERT_TRUE(client.has_value());
    EXPECT_TRUE(client->delete_stream(kStream).has_value());
    const std::vector<Frame>& seen = peer.seen();
    ASSERT_EQ(seen.size(), 3U);
    EXPECT_EQ(seen[0].header.request, RequestNumber(1));
    EXPECT_EQ(seen[2].header.request, RequestNumber(1));
    EXPECT_EQ(seen[0].body, seen[2].body);
}

TEST(Client, GivesUpOnTransientRefusals) {
    Peer peer({answer_status(ErrorCode::kTransientNotAccepted),
               answer_status(ErrorCode::kTransientNotAccepted)});
    Result<Client> client = peer.connect({.transient_tries_max = 2});
    ASSERT_TRUE(client.has_value());
    EXPECT_EQ(client->ping().error().code, ErrorCode::kTransientNotAccepted);
    EXPECT_TRUE(client->is_usable());
}

void expect_broken(const Answer& answer, ErrorCode code) {
    Peer peer({answer});
    Result<Client> client = peer.connect({.io_timeout_ms = 5000, .reply_bytes_max = 1000});
    ASSERT_TRUE(client.has_value());
    const Status status = client->ping();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, code);
    EXPECT_EQ(client->ping().error().code, ErrorCode::kNotConnected);
    EXPECT_FALSE(client->is_usable());
}

TEST(Client, IsBrokenByWhatIsNoAnswer) {
    const auto half = [](const Frame& frame) {
        std::vector<std::byte> bytes = reply(frame, {});
        bytes.resize(100);
        return bytes;
    };
    expect_broken(half, ErrorCode::kDisconnected);
    const auto request_command = [](const Frame& frame) {
        std::vector<std::byte> bytes = reply(frame, {});
        bytes[60] = std::byte{5};
        return bytes;
    };
    expect_broken(request_command, ErrorCode::kInvalidCommand);
    const auto other_operation = [](const Frame& frame) {
        Frame other = frame;
        other.header.operation = Operation::kSendMessages;
        return reply(other, {});
    };
    expect_broken(other_operation, ErrorCode::kInvalidCommand);
    const auto too_large = [](const Frame& frame) {
        return reply(frame, std::vector<std::byte>(1000));
    };
    expect_broken(too_large, ErrorCode::kInvalidSizeBytes);
}

TEST(Client, TimesOut) {
    Peer peer({[](const Frame&) {
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return std::vector<std::byte>{};
    }});
    Result<Client> client = peer.connect({.io_timeout_ms = 50});
    ASSERT_TRUE(client.has_value());
    const Status status = client->ping();
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().code, ErrorCode::kTcpError);
    EXPECT_EQ(status.error().os_errno, ETIMEDOUT);
}

TEST(Client, ReportsThatNobodyListens) {
    std::uint16_t port = 0;
    {
        const int bound = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof(address);
        auto* any = reinterpret_cast<sockaddr*>(&address);
        ASSERT_EQ(::bind(bound, any, size), 0);
        ASSERT_EQ(::getsockname(bound, any, &size), 0);
        port = ntohs(address.sin_port);
        ::close(bound);
    }
    const Result<Client> client = Client::connect({.host = "127.0.0.1", .port = port});
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().code, ErrorCode::kCannotEstablishConnection);
    EXPECT_EQ(client.error().os_errno, ECONNREFUSED);
}

}  // namespace
}  // namespace galgo::sdk

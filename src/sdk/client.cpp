// The exchange of one frame against one, and the commands on top of it.
#include "sdk/client.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "crypto/hash.hpp"
#include "crypto/random.hpp"
#include "sdk/detail/tcp_stream.hpp"
#include "wire/message_requests.hpp"
#include "wire/options.hpp"
#include "wire/requests.hpp"

namespace galgo::sdk {
namespace {

using wire::CommandCode;
using wire::Operation;

constexpr std::string_view kSdkName = "galgo-sdk";
constexpr std::string_view kSdkVersion = "0.1.0";
constexpr std::chrono::milliseconds kTransientPause{50};
constexpr std::size_t kReplyBufferSize = 4096;

bool advances_request_number(Operation operation) noexcept {
    return operation != Operation::kNonReplicated && operation != Operation::kRegister;
}

/// Reads and partition operations travel unstamped, as those of the official client do.
bool is_checksum_stamped(Operation operation) noexcept {
    return operation != Operation::kNonReplicated && !wire::is_partition_operation(operation);
}

ClientId random_client_id() noexcept {
    std::array<std::byte, sizeof(u128)> bytes;
    crypto::random_bytes(bytes);
    const u128 value = load<u128>(bytes, 0);
    return ClientId(value == 0 ? 1 : value);
}

template <class Body>
std::vector<std::byte> encoded(const Body& body) {
    ByteWriter writer;
    body.encode(writer);
    return std::move(writer).take();
}

}  // namespace

Result<Client> Client::connect(const Address& address, const ClientOptions& options) {
    GALGO_TRY_ASSIGN(detail::TcpStream stream,
                     detail::TcpStream::connect(address, options.io_timeout_ms));
    return Client(std::make_unique<detail::TcpStream>(std::move(stream)), options);
}

Client::Client(std::unique_ptr<detail::TcpStream> stream, const ClientOptions& options)
    : stream_(std::move(stream)),
      options_(options),
      client_id_(random_client_id()),
      header_(wire::kHeaderSize),
      reply_(kReplyBufferSize) {}

Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

Result<Session> Client::login(const Credentials& credentials) {
    client_id_ = random_client_id();
    session_ = SessionId(0);
    const std::vector<std::byte> body =
        encoded(wire::LoginRequest{.prefix = {.protocol_version = options_.protocol_version,
                                              .sdk_name = kSdkName,
                                              .sdk_version = kSdkVersion},
                                   .username = credentials.username,
                                   .password = credentials.password,
                                   .context = {}});
    GALGO_TRY_ASSIGN(const ConstBytes payload,
                     call({.operation = Operation::kRegister, .body = body}));
    GALGO_TRY_ASSIGN(const wire::LoginReply reply, wire::decode_login_reply(payload));
    session_ = reply.session;
    next_request_ = RequestNumber(1);
    return Session{.user = reply.user,
                   .session = reply.session,
                   .protocol_version = reply.protocol_version,
                   .server_version = std::string(reply.server_version)};
}

Status Client::logout() {
    GALGO_TRY(call({.operation = Operation::kLogout}));
    session_ = SessionId(0);
    return {};
}

Status Client::ping() {
    GALGO_TRY(call({.code = CommandCode::kPing}));
    return {};
}

Result<Stats> Client::stats() {
    GALGO_TRY_ASSIGN(const ConstBytes payload, call({.code = CommandCode::kGetStats}));
    return decode_stats(payload);
}

template <class Body>
Result<ConstBytes> Client::call_with(Operation operation, const Body& body) {
    const std::vector<std::byte> bytes = encoded(body);
    return call({.operation = operation, .body = bytes});
}

Status Client::create_stream(std::string_view name) {
    GALGO_TRY(call_with(Operation::kCreateStream, wire::CreateStreamRequest{.name = name}));
    return {};
}

Status Client::delete_stream(const wire::Identifier& stream) {
    GALGO_TRY(call_with(Operation::kDeleteStream, wire::StreamRequest{.stream = stream}));
    return {};
}

Status Client::purge_stream(const wire::Identifier& stream) {
    GALGO_TRY(call_with(Operation::kPurgeStream, wire::StreamRequest{.stream = stream}));
    return {};
}

Status Client::create_topic(const NewTopic& topic) {
    wire::OptionBlockBuilder builder;
    for (const TopicOption& option : topic.options) {
        builder.put_string(option.key, option.value);
    }
    const std::vector<std::byte> block = builder.encode();
    GALGO_TRY_ASSIGN(const wire::OptionBlock options, wire::OptionBlock::parse(block));
    GALGO_TRY(call_with(Operation::kCreateTopic,
                        wire::CreateTopicRequest{.stream = topic.stream,
                                                 .partitions_count = topic.partitions_count,
                                                 .name = topic.name,
                                                 .options = options}));
    return {};
}

Result<std::optional<wire::TopicDetails>> Client::topic(const wire::Identifier& stream,
                                                        const wire::Identifier& topic) {
    const std::vector<std::byte> body =
        encoded(wire::TopicRequest{.stream = stream, .topic = topic});
    GALGO_TRY_ASSIGN(const ConstBytes payload,
                     call({.code = CommandCode::kGetTopic, .body = body}));
    return wire::decode_topic_details(payload);
}

Result<std::optional<wire::SendConfirmation>> Client::send(SendTarget& target, ConstBytes batch) {
    GALGO_TRY_ASSIGN(const wire::BatchHeader header, wire::decode_batch_header(batch));
    GALGO_TRY_ASSIGN(const ConstBytes payload,
                     call({.operation = Operation::kSendMessages,
                           .body = target.metadata_for(header.message_count),
                           .body_rest = batch}));
    return wire::decode_send_confirmation(payload);
}

Result<wire::PollReplyReader> Client::poll(PollTarget& target, const PollSpec& spec) {
    GALGO_TRY_ASSIGN(const ConstBytes payload,
                     call({.code = CommandCode::kPollMessages, .body = target.body_for(spec)}));
    return wire::PollReplyReader::begin(payload);
}

Result<ConstBytes> Client::call(const Request& request) {
    const std::size_t size = wire::kHeaderSize + request.body.size() + request.body_rest.size();
    if (size > wire::kMaxFrameBytesDefault) {
        return fail(ErrorCode::kInvalidSizeBytes);
    }
    const bool is_register = request.operation == Operation::kRegister;
    wire::encode_request_header(header_,
                                {.size = static_cast<std::uint32_t>(size),
                                 .operation = request.operation,
                                 .code = request.code,
                                 .client = client_id_,
                                 .session = session_,
                                 .request = is_register ? RequestNumber(0) : next_request_,
                                 .request_checksum = is_checksum_stamped(request.operation)
                                                         ? u128{crypto::xxh3_64(request.body)}
                                                         : u128{0}});
    if (advances_request_number(request.operation)) {
        next_request_ = next_request_.next();
    }
    Result<ConstBytes> answer = exchange(request);
    for (std::uint32_t tries = 1;
         !answer && usable_ && answer.error().retry == RetryClass::kSameNode &&
         tries < options_.transient_tries_max;
         ++tries) {
        std::this_thread::sleep_for(kTransientPause);
        answer = exchange(request);
    }
    return answer;
}

Result<ConstBytes> Client::exchange(const Request& request) {
    if (!usable_) {
        return fail(ErrorCode::kNotConnected);
    }
    usable_ = false;  // until a whole reply is there
    const std::array<ConstBytes, 3> pieces{header_, request.body, request.body_rest};
    GALGO_TRY(stream_->write_all(pieces));
    return read_reply(request);
}

Result<ConstBytes> Client::read_reply(const Request& request) {
    reply_size_ = 0;
    GALGO_TRY(read_until(wire::kHeaderSize));
    const ConstBytes header_bytes = ConstBytes(reply_).first(wire::kHeaderSize);
    if (wire::header_command(header_bytes) == wire::Command::kEviction) {
        GALGO_TRY_ASSIGN(const wire::EvictionHeader eviction, wire::decode_eviction(header_bytes));
        usable_ = reply_size_ == wire::kHeaderSize;
        return fail(wire::eviction_error(eviction.reason));
    }
    GALGO_TRY_ASSIGN(const wire::ReplyHeader header, wire::decode_reply_header(header_bytes));
    if (header.size > options_.reply_bytes_max) {
        return fail(ErrorCode::kInvalidSizeBytes);
    }
    if (reply_.size() < header.size) {
        reply_.resize(header.size);
    }
    GALGO_TRY(read_until(header.size));
    // One request is in flight: bytes behind its reply belong to nothing. An answer to another
    // request would be taken for this one's; a server may say the internal form of an operation.
    if (reply_size_ != header.size ||
        (header.operation != request.operation && !wire::is_internal_operation(header.operation))) {
        return fail(ErrorCode::kInvalidCommand);
    }
    usable_ = true;
    return wire::reply_payload(header,
                               ConstBytes(reply_).subspan(wire::kHeaderSize, header.body_size()));
}

Status Client::read_until(std::size_t count) {
    while (reply_size_ < count) {
        GALGO_TRY_ASSIGN(const std::size_t came,
                         stream_->read_some(MutableBytes(reply_).subspan(reply_size_)));
        reply_size_ += came;
    }
    return {};
}

}  // namespace galgo::sdk

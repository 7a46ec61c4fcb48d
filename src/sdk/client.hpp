// A blocking client: one TCP connection, one request in flight, used by one thread at a time.
//
// Every call writes one frame and reads one. It checks the reply's command, operation, size, status
// and result section, and reports an eviction as the error that it stands for. A refusal that a
// server marks as transient (57, 58) is answered by sending the same bytes again every 50 ms, until
// `transient_tries_max` is used up. An I/O error or a reply that is no frame breaks the client:
// every later call answers kNotConnected; connect anew. Errors that the server answered leave it
// usable. Buffers are kept: send and poll allocate nothing once they saw their largest reply.
// wire: iggy_binary_protocol 0.11.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/error.hpp"
#include "base/ids.hpp"
#include "model/ids.hpp"
#include "sdk/address.hpp"
#include "sdk/stats.hpp"
#include "sdk/targets.hpp"
#include "wire/codes.hpp"
#include "wire/header.hpp"
#include "wire/reply_decoders.hpp"

namespace galgo::sdk {

namespace detail {
class TcpStream;
}

struct ClientOptions {
    /// Longest wait of one read or write without progress.
    std::uint32_t io_timeout_ms = 30'000;
    /// Bound of one reply, header included.
    std::uint32_t reply_bytes_max = wire::kMaxFrameBytesDefault;
    std::uint32_t transient_tries_max = 600;
    /// What a login says; a server refuses a minor version above its own.
    std::uint32_t protocol_version = wire::kProtocolVersion;
};

struct Credentials {
    std::string_view username;
    std::string_view password;
};

struct Session {
    model::UserId user;
    SessionId session;
    std::uint32_t protocol_version = 0;  ///< of the server, packed
    std::string server_version;
};

/// A topic option as the catalogue names it ("durability", "persisted"); values travel as text.
struct TopicOption {
    std::string_view key;
    std::string_view value;
};

struct NewTopic {
    wire::Identifier stream;
    std::string_view name;
    std::uint32_t partitions_count = 1;
    std::span<const TopicOption> options;  ///< empty: nothing is sent, the server's defaults hold
};

class Client {
 public:
    /// Connects; no byte is sent. Errors: kInvalidServerAddress, kCannotEstablishConnection.
    [[nodiscard]] static Result<Client> connect(const Address& address,
                                                const ClientOptions& options = {});
    Client(Client&&) noexcept;
    Client& operator=(Client&&) noexcept;
    ~Client();

    /// Opens a session under a new random client id. Errors: kInvalidCredentials, ...
    [[nodiscard]] Result<Session> login(const Credentials& credentials);
    [[nodiscard]] Status logout();
    /// Works before a login as well.
    [[nodiscard]] Status ping();
    [[nodiscard]] Result<Stats> stats();

    [[nodiscard]] Status create_stream(std::string_view name);
    [[nodiscard]] Status delete_stream(const wire::Identifier& stream);
    [[nodiscard]] Status purge_stream(const wire::Identifier& stream);
    [[nodiscard]] Status create_topic(const NewTopic& topic);
    /// Nothing if there is no such stream or topic. Text in the answer lives until the next call.
    [[nodiscard]] Result<std::optional<wire::TopicDetails>> topic(const wire::Identifier& stream,
                                                                  const wire::Identifier& topic);

    /// Sends a complete batch (wire::BatchBuilder) and waits for its confirmation, which a server
    /// may leave out. The batch is not copied.
    [[nodiscard]] Result<std::optional<wire::SendConfirmation>> send(SendTarget& target,
                                                                     ConstBytes batch);
    /// The messages live until the next call.
    [[nodiscard]] Result<wire::PollReplyReader> poll(PollTarget& target, const PollSpec& spec);

    struct Request {
        wire::Operation operation = wire::Operation::kNonReplicated;
        wire::CommandCode code{};  ///< for kNonReplicated
        ConstBytes body;
        ConstBytes body_rest;  ///< follows `body`; not covered by the request checksum
    };
    /// Any request; the payload (behind the result section) lives until the next call.
    [[nodiscard]] Result<ConstBytes> call(const Request& request);

    [[nodiscard]] bool is_usable() const noexcept { return usable_; }

 private:
    Client(std::unique_ptr<detail::TcpStream> stream, const ClientOptions& options);
    [[nodiscard]] Result<ConstBytes> exchange(const Request& request);
    [[nodiscard]] Result<ConstBytes> read_reply(const Request& request);
    [[nodiscard]] Status read_until(std::size_t count);
    template <class Body>
    [[nodiscard]] Result<ConstBytes> call_with(wire::Operation operation, const Body& body);

    std::unique_ptr<detail::TcpStream> stream_;
    ClientOptions options_;
    ClientId client_id_;
    SessionId session_;
    RequestNumber next_request_{1};
    bool usable_ = true;
    std::vector<std::byte> header_;  ///< of the request
    std::vector<std::byte> reply_;   ///< keeps its largest size; the first reply_size_ bytes count
    std::size_t reply_size_ = 0;
};

}  // namespace galgo::sdk

// What clients ask for, and an independent model of what must come of it.
//
// Workload: a table of metadata commands over a few names, so that they meet. Model: streams,
// topics, groups and sessions as small arrays; given a committed entry it says with which result
// the state machine must have carried it out. It shares no code with metadata/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error_code.hpp"
#include "base/ids.hpp"
#include "sim/entry.hpp"
#include "sim/random.hpp"
#include "sim/swarm.hpp"
#include "wire/codes.hpp"

namespace galgo::sim {

enum class RequestKind : std::uint8_t { kRegister, kLogout, kCommand };
enum class ReplyKind : std::uint8_t {
    kResult,     ///< of an operation that was carried out; `result`, `reply_hash`
    kApplied,    ///< it was carried out once, and the reply is gone
    kTransient,  ///< not accepted, or nobody knows: ask again
    kEvicted,    ///< no such session
};

/// A request, or the reply to it.
struct ClientMessage {
    RequestKind kind{};
    ReplyKind reply{};
    std::uint8_t client = 0;  ///< number of the simulated client
    std::uint8_t node = 0;    ///< that it goes to or comes from
    std::uint16_t command = 0;
    ErrorCode result = ErrorCode::kOk;
    SessionId session;
    RequestNumber request;
    std::uint64_t checksum = 0;  ///< its low 16 bits are the command
    std::uint64_t reply_hash = 0;
    OpNumber op;       ///< where it was carried out, where the node knows it
    OpNumber applied;  ///< what the node had carried out when it answered
};

[[nodiscard]] inline ClientId client_id(std::uint8_t client) noexcept {
    return ClientId(u128{client} << 64U | 0xc0ffeeU);
}

class Workload {
 public:
    static constexpr std::uint8_t kStreams = 4;
    static constexpr std::uint8_t kTopics = 3;
    static constexpr std::uint8_t kGroups = 2;
    static constexpr std::uint8_t kUsers = 2;   ///< beside root
    static constexpr std::uint8_t kTokens = 2;  ///< of root
    static constexpr std::uint32_t kPartitionsAdded = 2;

    struct Command {
        wire::Operation operation{};
        std::uint8_t stream = 0;
        std::uint8_t topic = 0;
        std::uint8_t group = 0;
        std::uint8_t user = 0;
        std::uint8_t token = 0;
        std::uint8_t stream_to = 0;  ///< of a rename
        std::vector<std::byte> body;
    };

    Workload();
    [[nodiscard]] const Command& command(std::uint16_t index) const { return commands_[index]; }
    [[nodiscard]] std::uint16_t draw(Random& random) const;

 private:
    void add_users_and_tokens();
    void add(Command command, std::uint32_t weight);

    std::vector<Command> commands_;
    std::vector<std::uint16_t> weighted_;
};

class Model {
 public:
    struct SessionOf {
        SessionId epoch;  ///< 0: none
        OpNumber last_commit;
    };

    void reset(std::uint32_t sessions_max) noexcept;
    /// What the entry must result in; the model is changed by it. `client`: its number.
    ErrorCode apply(const Workload& workload, const LogEntry& entry, std::uint8_t client);
    [[nodiscard]] const SessionOf& session(std::uint8_t client) const noexcept {
        return sessions_[client];
    }
    [[nodiscard]] std::uint32_t session_count() const noexcept;
    [[nodiscard]] std::uint64_t pushed_out() const noexcept { return pushed_out_; }

 private:
    struct Topic {
        bool exists = false;
        std::uint32_t partitions = 0;
        std::array<bool, Workload::kGroups> groups{};
        std::array<std::uint32_t, Workload::kGroups> members{};  ///< bits of clients
    };
    struct Stream {
        bool exists = false;
        std::array<Topic, Workload::kTopics> topics{};
    };

    ErrorCode apply_command(const Workload::Command& command, const LogEntry& entry,
                            std::uint8_t client);
    ErrorCode apply_to_user(const Workload::Command& command);
    ErrorCode apply_to_group(const Workload::Command& command, Topic& topic, std::uint8_t client,
                             bool session_holds);
    void start_session(std::uint8_t client, OpNumber op);
    void end_session(std::uint8_t client);

    std::array<Stream, Workload::kStreams> streams_{};
    std::array<bool, Workload::kUsers> users_{};
    std::array<bool, Workload::kTokens> tokens_{};
    std::array<SessionOf, kClientsMax> sessions_{};
    std::uint32_t sessions_max_ = 1;
    std::uint64_t pushed_out_ = 0;
    OpNumber root_;  ///< that created the only user; 0: not yet
};

}  // namespace galgo::sim

// What the tests of this module share: a node of two state copies that every operation is applied
// to, a client table, and bodies of requests.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.hpp"
#include "gtest/gtest.h"
#include "metadata/apply.hpp"
#include "metadata/client_table.hpp"
#include "metadata/operation.hpp"
#include "metadata/snapshot.hpp"
#include "metadata/state.hpp"
#include "wire/options.hpp"
#include "wire/requests.hpp"

namespace galgo::metadata::test {

using Bytes = std::vector<std::byte>;
using wire::Identifier;
using wire::Operation;

inline ClientId client(std::uint32_t number) {
    return ClientId(u128{number} << 64U | number);
}

template <class Request>
Bytes body_of(const Request& request) {
    ByteWriter to;
    request.encode(to);
    return std::move(to).take();
}

inline Bytes create_stream(std::string_view name) {
    return body_of(wire::CreateStreamRequest{.name = name, .options = {}});
}
inline Bytes update_stream(Identifier stream, std::string_view name) {
    return body_of(wire::UpdateStreamRequest{.stream = stream, .name = name, .options = {}});
}
inline Bytes stream_body(Identifier stream) {
    return body_of(wire::StreamRequest{stream});
}
inline Bytes topic_body(Identifier stream, Identifier topic) {
    return body_of(wire::TopicRequest{stream, topic});
}
inline Bytes create_topic(Identifier stream, std::string_view name, std::uint32_t partitions,
                          const Bytes& options = {}) {
    return body_of(wire::CreateTopicRequest{.stream = stream,
                                            .partitions_count = partitions,
                                            .name = name,
                                            .options = *wire::OptionBlock::parse(options)});
}
inline Bytes update_topic(Identifier stream, Identifier topic, std::string_view name,
                          const Bytes& options = {}) {
    return body_of(wire::UpdateTopicRequest{.stream = stream,
                                            .topic = topic,
                                            .name = name,
                                            .options = *wire::OptionBlock::parse(options)});
}
inline Bytes partitions_body(Identifier stream, Identifier topic, std::uint32_t count) {
    return body_of(wire::PartitionsRequest{stream, topic, count});
}
inline Bytes create_group(Identifier stream, Identifier topic, std::string_view name) {
    return body_of(wire::CreateGroupRequest{stream, topic, name});
}
inline Bytes group_body(Identifier stream, Identifier topic, Identifier group) {
    return body_of(wire::GroupRequest{stream, topic, group});
}

inline Bytes user_body(Identifier user) {
    return body_of(wire::UserRequest{user});
}
inline Bytes create_user(std::string_view name, std::optional<model::Permissions> permissions = {},
                         wire::UserStatus status = wire::UserStatus::kActive) {
    return body_of(wire::CreateUserRequest{.username = name,
                                           .password = "password",
                                           .status = status,
                                           .permissions = std::move(permissions),
                                           .options = {}});
}
inline Bytes rename_user(Identifier user, std::string_view name) {
    return body_of(
        wire::UpdateUserRequest{.user = user, .username = name, .status = {}, .options = {}});
}
inline Bytes set_status(Identifier user, wire::UserStatus status) {
    return body_of(
        wire::UpdateUserRequest{.user = user, .username = {}, .status = status, .options = {}});
}
inline Bytes update_permissions(Identifier user, std::optional<model::Permissions> permissions) {
    return body_of(
        wire::UpdatePermissionsRequest{.user = user, .permissions = std::move(permissions)});
}
inline Bytes change_password(Identifier user) {
    return body_of(wire::ChangePasswordRequest{
        .user = user, .current_password = "password", .new_password = "another"});
}
inline Bytes create_token(std::string_view name, std::uint64_t lifetime_us = 0) {
    return body_of(wire::CreateTokenRequest{.name = name, .expiry_us = lifetime_us});
}
inline Bytes delete_token(std::string_view name) {
    return body_of(wire::DeleteTokenRequest{.name = name});
}
inline TokenHash token_hash(std::uint32_t number) {
    TokenHash hash{};
    store<std::uint32_t>(hash, 0, number);
    return hash;
}

inline Identifier id(std::uint32_t number) {
    return Identifier::numbered(number);
}
inline Identifier named(std::string_view name) {
    return Identifier::named(name);
}

/// One node: left and right copy, registry, client table, and the log so far.
class Node {
 public:
    explicit Node(StateOptions options = {}) : options_(options), left_(options), right_(options) {}

    struct Who {
        ClientId client = test::client(1);
        model::UserId user = model::kRootUserId;
    };

    /// Applies to both copies, which must agree on everything.
    ApplyOutcome commit(const Admitted& admitted, Who who) {
        const Session* session = left_.sessions().find(who.client);
        return commit_as(admitted, who, session == nullptr ? SessionId(0) : session->epoch);
    }
    ApplyOutcome commit_as(const Admitted& admitted, Who who, SessionId session) {
        op_ = op_.next();
        now_ = now_.plus(1000);
        log_.push_back(Entry{.operation = admitted.operation,
                             .op = op_,
                             .timestamp = now_,
                             .client = who.client,
                             .session = session,
                             .request = RequestNumber(op_.value()),
                             .user = who.user,
                             .body = admitted.body});
        const PrepareView prepare = view(log_.back());
        ApplyOutcome outcome = apply(left_, registry_, prepare);
        record_commit(table_, prepare, outcome, as_bytes("reply"));
        const ApplyOutcome again = apply(right_, registry_, prepare);
        EXPECT_EQ(outcome, again);
        left_.check_invariants();
        EXPECT_EQ(digest(left_), digest(right_));
        return outcome;
    }

    /// Admission, then commit; a refusal at admission gives its code as result.
    ApplyOutcome request(Operation operation, const Bytes& body, Who who,
                         const Sealed& sealed = {.password_hash = "hash",
                                                 .verified_hash = "hash"}) {
        const Result<Admitted> admitted = admit(left_, {.operation = operation,
                                                        .body = body,
                                                        .user = who.user,
                                                        .sealed = &sealed,
                                                        .tokens_per_user_max = kTokensPerUserMax});
        if (!admitted.has_value()) {
            ApplyOutcome refused;
            refused.result = admitted.error().code;
            return refused;
        }
        ApplyOutcome outcome = commit(*admitted, who);
        // A start refuses a log with an entry that does not decode.
        EXPECT_NE(outcome.result, ErrorCode::kInvalidCommand);
        return outcome;
    }
    ApplyOutcome request(Operation operation, const Bytes& body) {
        return request(operation, body, Who{});
    }
    ErrorCode result(Operation operation, const Bytes& body, Who who) {
        return request(operation, body, who).result;
    }
    ErrorCode result(Operation operation, const Bytes& body, Who who, const Sealed& sealed) {
        return request(operation, body, who, sealed).result;
    }
    ErrorCode result(Operation operation, const Bytes& body) {
        return request(operation, body).result;
    }
    /// Creates root if need be and logs `who` in.
    void login(Who who) {
        if (left_.users().empty()) {
            EXPECT_EQ(commit(make_create_root("iggy", "hash"), Who{}).result, ErrorCode::kOk);
        }
        EXPECT_EQ(try_login(who), ErrorCode::kOk);
    }
    ErrorCode try_login(Who who, std::optional<TokenHash> token = {}) {
        const User* user = left_.users().find(who.user);
        Login login{.user = who.user, .user_created = OpNumber(0), .token = token};
        if (user == nullptr) {
            login.password.emplace();
        } else if (token.has_value()) {
            login.user_created = user->created_op;
        } else {
            login = login_by_password(*user);
        }
        return commit(make_register(login), who).result;
    }

    /// A third state from the log alone.
    State replayed(PartitionStatsRegistry& registry) const {
        State state(options_);
        replay_behind(state, registry);
        return state;
    }
    /// Brings a state of this log up to its end.
    void replay_behind(State& state, PartitionStatsRegistry& registry) const {
        for (const Entry& entry : log_) {
            if (entry.op > state.op()) {
                (void)apply(state, registry, view(entry));
            }
        }
    }
    /// Bodies of the whole log, one behind the other.
    [[nodiscard]] Bytes log_bytes() const {
        Bytes bytes;
        for (const Entry& entry : log_) {
            bytes.insert(bytes.end(), entry.body.begin(), entry.body.end());
        }
        return bytes;
    }
    void advance_clock(std::uint64_t us) { now_ = now_.plus(us); }
    static constexpr std::uint32_t kTokensPerUserMax = 3;

    [[nodiscard]] const State& state() const noexcept { return left_; }
    [[nodiscard]] const State& other_copy() const noexcept { return right_; }
    [[nodiscard]] PartitionStatsRegistry& registry() noexcept { return registry_; }
    [[nodiscard]] ClientTable& table() noexcept { return table_; }
    [[nodiscard]] OpNumber op() const noexcept { return op_; }
    [[nodiscard]] Timestamp now() const noexcept { return now_; }

 private:
    struct Entry {
        LogOperation operation;
        OpNumber op;
        Timestamp timestamp;
        ClientId client;
        SessionId session;
        RequestNumber request;
        model::UserId user;
        Bytes body;
    };

    static PrepareView view(const Entry& entry) {
        return PrepareView{.operation = entry.operation,
                           .op = entry.op,
                           .timestamp = entry.timestamp,
                           .client = entry.client,
                           .session = entry.session,
                           .request = entry.request,
                           .request_checksum = 0,
                           .user = entry.user,
                           .body = entry.body};
    }

    StateOptions options_;
    State left_;
    State right_;
    PartitionStatsRegistry registry_;
    ClientTable table_;
    OpNumber op_;
    Timestamp now_{1'700'000'000'000'000};
    std::vector<Entry> log_;
};

}  // namespace galgo::metadata::test

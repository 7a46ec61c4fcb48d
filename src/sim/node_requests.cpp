// What a node does for clients: the way of a request up to the core, and of a committed entry into
// state and client table.
#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "crypto/hash.hpp"
#include "metadata/client_table_snapshot.hpp"
#include "metadata/snapshot.hpp"
#include "sim/node.hpp"
#include "wire/replies.hpp"

namespace galgo::sim {
namespace {

constexpr Odds kAskedAnyway = Odds::per_million(20'000);

}  // namespace

void Node::on_request(const ClientMessage& message) {
    if (status_ != NodeStatus::kUp || context_.checkers.failed()) {
        return;
    }
    if (!replica_->admits() && random_.chance(kAskedAnyway)) {
        // What it could do was looked at a moment ago, and then it was another.
        const metadata::Admitted admitted = register_root();
        if (!in_flight_[message.client]) {
            propose(message, admitted.operation, admitted.body, false);
        }
        return;
    }
    if (!replica_->admits() || !proposed_at_start_) {
        answer(message, ReplyKind::kTransient);
        return;
    }
    if (in_flight_[message.client]) {
        context_.marks.hit(SimMark::kRequestInFlight);
        answer(message, ReplyKind::kTransient);
        return;
    }
    switch (message.kind) {
        case RequestKind::kRegister: {
            const metadata::Admitted admitted = register_root();
            propose(message, admitted.operation, admitted.body, false);
            return;
        }
        case RequestKind::kLogout:
            propose(message, metadata::make_logout().operation, {}, false);
            return;
        case RequestKind::kCommand:
            serve_command(message);
            return;
    }
}

void Node::serve_command(const ClientMessage& message) {
    using Verdict = metadata::ClientTable::Verdict;
    const Workload::Command& command = context_.workload.command(message.command);
    const auto known = clients_->classify(
        client_id(message.client), message.session, message.request,
        static_cast<metadata::LogOperation>(command.operation), message.checksum);
    switch (known.verdict) {
        case Verdict::kReplay: {
            if (context_.bug == Bug::kExecuteAgain) {
                ClientMessage again = message;
                again.request = message.request.plus(1'000'000);
                propose(again, static_cast<metadata::LogOperation>(command.operation), command.body,
                        false);
                return;
            }
            context_.marks.hit(SimMark::kReplyRepeated);
            ClientMessage reply = message;
            reply.reply_hash = crypto::xxh3_64(known.reply);
            reply.result = static_cast<ErrorCode>(load<std::uint32_t>(known.reply, 0));
            answer(reply, ReplyKind::kResult);
            return;
        }
        case Verdict::kApplied:
            context_.marks.hit(SimMark::kReplyGone);
            answer(message, ReplyKind::kApplied);
            return;
        case Verdict::kNoSession:
            context_.marks.hit(SimMark::kSessionUnknown);
            answer(message, ReplyKind::kEvicted);
            return;
        case Verdict::kSessionTooLow:
            context_.marks.hit(SimMark::kSessionTooLow);
            answer(message, ReplyKind::kEvicted);
            return;
        case Verdict::kDrop:
            context_.marks.hit(SimMark::kFaultyClientDropped);
            return;
        case Verdict::kExecute:
            break;
    }
    // What the edge adds: a hash of the password, and one of a token that nobody had before.
    metadata::Sealed sealed;
    if (metadata::carries_secret(command.operation)) {
        sealed.password_hash = "hash";
        store<std::uint64_t>(sealed.token_hash, 0, message.checksum);
        store<std::uint64_t>(sealed.token_hash, 8, message.session.value());
    }
    const Result<metadata::Admitted> admitted =
        metadata::admit(*state_, {.operation = command.operation,
                                  .body = command.body,
                                  .user = model::kRootUserId,
                                  .sealed = &sealed});
    GALGO_CHECK(admitted.has_value());
    propose(message, admitted->operation, admitted->body, false);
}

/// The login of the only user, who may not be there yet.
metadata::Admitted Node::register_root() const {
    const metadata::User* root = state_->users().find(model::kRootUserId);
    return metadata::make_register(root != nullptr
                                       ? metadata::login_by_password(*root)
                                       : metadata::Login{.user = model::kRootUserId,
                                                         .user_created = {},
                                                         .token = {},
                                                         .password = metadata::PasswordDigest{}});
}

void Node::propose(const ClientMessage& message, metadata::LogOperation operation, ConstBytes body,
                   bool own) {
    if (free_slots_.empty()) {
        if (own) {
            proposed_at_start_ = false;
        } else {
            answer(message, ReplyKind::kTransient);
        }
        return;
    }
    const std::uint16_t index = free_slots_.back();
    free_slots_.pop_back();
    Slot& slot = slots_[index];
    slot.used = true;
    slot.own = own;
    slot.message = message;
    LogEntry& entry = slot.entry;
    entry.operation = operation;
    entry.client = own ? ClientId{} : client_id(message.client);
    entry.session = message.session;
    entry.request = message.request;
    entry.request_checksum = message.checksum;
    entry.user = model::kRootUserId;
    entry.set_body(body);
    if (!own) {
        in_flight_[message.client] = true;
    }
    step(consensus::ClientRequest{.token = consensus::Token(std::uint64_t{index} + 1),
                                  .wall = clock_.wall(context_.schedule.now()),
                                  .body = digest_of(entry)});
}

void Node::propose_own(metadata::LogOperation operation, ConstBytes body) {
    ClientMessage message;
    message.node = number_;
    propose(message, operation, body, true);
}

/// Root, in an empty log; and the end of all sessions of the life before, where the run has it so.
void Node::propose_at_start() {
    if (!replica_->admits()) {
        return;
    }
    proposed_at_start_ = true;
    if (state_->users().empty()) {
        const metadata::Admitted root = metadata::make_create_root("root", "hash");
        propose_own(root.operation, root.body);
    } else if (context_.swarm.reset_sessions_at_boot && state_->sessions().size() != 0) {
        const metadata::Admitted reset = metadata::make_reset_sessions(context_.swarm.sessions_max);
        propose_own(reset.operation, reset.body);
    }
}

void Node::answer(ClientMessage message, ReplyKind kind) {
    message.reply = kind;
    message.node = number_;
    message.applied = applied_;
    context_.trace.add(static_cast<std::uint64_t>(kind) << 8U | message.client,
                       message.request.value());
    context_.checkers.on_reply(message);
    context_.network.send_reply(message);
}

/// Into state and client table; the reply is result code and payload.
Outcome Node::apply(const LogEntry& entry) {
    metadata::PrepareView prepare = entry.view_for_apply();
    if (context_.bug == Bug::kApplyByNode && number_ != 0) {
        prepare.timestamp = prepare.timestamp.next();
    }
    metadata::ApplyOutcome outcome = metadata::apply(*state_, *registry_, prepare);
    if (context_.bug == Bug::kOtherResult &&
        outcome.result == ErrorCode::kStreamNameAlreadyExists) {
        outcome.result = ErrorCode::kOk;
    }
    applied_ = entry.prepare.op;
    std::array<std::byte, 1024> reply;
    const std::size_t size = std::min(outcome.payload.size(), reply.size() - 4);
    store<std::uint32_t>(reply, 0, static_cast<std::uint32_t>(outcome.result));
    std::copy_n(outcome.payload.begin(), size, reply.begin() + 4);
    const ConstBytes bytes = ConstBytes(reply).first(4 + size);
    metadata::record_commit(*clients_, prepare, outcome, bytes);
    Outcome known{.result = outcome.result,
                  .reply_bytes = static_cast<std::uint32_t>(bytes.size()),
                  .reply_hash = crypto::xxh3_64(bytes)};
    known.repeated_hash = known.reply_hash;
    if (entry.operation == metadata::LogOperation::kCreatePersonalAccessToken &&
        outcome.result == ErrorCode::kOk) {
        // Nobody is shown a token twice.
        const auto exists = wire::rejection_body(ErrorCode::kPersonalAccessTokenAlreadyExists);
        known.reply_bytes = exists.size();
        known.repeated_hash = crypto::xxh3_64(exists);
    }
    return known;
}

/// Of the state and of the client table, both in their canonical form.
std::uint64_t Node::digest() const {
    const std::uint64_t table = crypto::xxh3_64(metadata::encode_client_table(*clients_));
    return metadata::digest(*state_) ^ (table * 0x9e3779b97f4a7c15U) ^ 1U;
}

/// The planted bug: a session ends on this node because this node thinks so.
void Node::evict_by_local_state() {
    if (state_->sessions().size() != 0) {
        clients_->end_session(state_->sessions().by_client().begin()->first);
    }
}

}  // namespace galgo::sim

// What a node does with the effects of its core.
#include <algorithm>
#include <format>
#include <variant>

#include "base/check.hpp"
#include "sim/node.hpp"

namespace galgo::sim {

void Node::carry_out(const consensus::EffectList& effects) {
    const std::uint32_t life = life_;
    for (const consensus::Effect& effect : effects.view()) {
        context_.trace.add(std::uint64_t{number_} << 8U | effect.index(), replica_->head().value());
        if (const auto* append = std::get_if<consensus::Append>(&effect)) {
            carry_out_append(*append);
        } else if (const auto* send = std::get_if<consensus::Send>(&effect)) {
            carry_out_send(*send);
        } else if (const auto* read = std::get_if<consensus::Read>(&effect)) {
            if (context_.bug != Bug::kNeverSendsAgain) {
                read_from_memory_or_disk(read->op);
            }
        } else if (const auto* persist = std::get_if<consensus::PersistSuperblock>(&effect)) {
            storage_.persist(persist->state);
        } else if (const auto* commit = std::get_if<consensus::Commit>(&effect)) {
            carry_out_commit(*commit);
        } else if (const auto* abandon = std::get_if<consensus::Abandon>(&effect)) {
            carry_out_abandon(*abandon);
        } else if (const auto* reject = std::get_if<consensus::Reject>(&effect)) {
            carry_out_reject(*reject);
        } else if (const auto* fatal = std::get_if<consensus::Fatal>(&effect)) {
            context_.checkers.on_fatal(number_, *fatal);
        } else if (const auto* note = std::get_if<consensus::Note>(&effect);
                   note->kind == consensus::NoteKind::kBackupStarved) {
            starved_[note->peer.value()] = note->op;
        }
        if (context_.checkers.failed()) {
            return;
        }
        boundary(Fault::kCrashAtEffect);
        if (life_ != life) {
            return;
        }
    }
}

void Node::carry_out_append(const consensus::Append& append) {
    LogEntry& entry = ring_[append.prepare.op.value() % kRing];
    if (append.token == consensus::Token{}) {
        GALGO_CHECK(incoming_ != nullptr);
        entry = *incoming_;
    } else {
        entry = slots_[append.token.value() - 1].entry;
    }
    entry.prepare = append.prepare;
    entry.view = append.view;
    entry.commit = append.commit;
    context_.checkers.on_append(number_, append.prepare);
    if (context_.checkers.failed()) {
        return;
    }
    if (context_.bug == Bug::kReplyNotFromLog && append.token != consensus::Token{} &&
        !slots_[append.token.value() - 1].own) {
        ClientMessage message = slots_[append.token.value() - 1].message;
        message.op = append.prepare.op;
        answer(message, ReplyKind::kResult);
        if (context_.checkers.failed()) {
            return;
        }
    }
    storage_.append(entry);
}

void Node::carry_out_send(const consensus::Send& send) {
    const consensus::Frame& frame = send.frame.values();
    context_.checkers.on_send(number_, frame);
    const LogEntry* entry = nullptr;
    if (const auto* prepare = std::get_if<consensus::PrepareFrame>(&frame.payload)) {
        entry = from_disk_ != nullptr && from_disk_->prepare.op == prepare->prepare.op
                    ? from_disk_
                    : entry_of(prepare->prepare.op);
        if (entry == nullptr || entry->prepare != prepare->prepare) {
            context_.checkers.fail("law 1: a prepare is sent whose body nobody has");
            return;
        }
    }
    for (std::uint8_t to = 0; to < context_.swarm.nodes; ++to) {
        if (send.to.contains(consensus::ReplicaIndex(to))) {
            context_.network.send(number_, to, frame, entry);
        }
    }
}

void Node::carry_out_commit(const consensus::Commit& commit) {
    const LogEntry* entry = entry_of(commit.head.op);
    if (entry == nullptr) {
        context_.checkers.fail("law 2: an op is carried out that the node does not have");
        return;
    }
    if (entry->prepare.op <= applied_) {
        context_.checkers.fail("law 2: an op is carried out twice");
        return;
    }
    const Outcome outcome = apply(*entry);
    context_.trace.add(commit.head.op.value(), commit.head.identity.value());
    context_.checkers.on_commit(number_, commit.head, *entry, outcome);
    if (Checkers::wants_digest(commit.head.op)) {
        context_.checkers.on_digest(number_, commit.head.op, digest());
    }
    if (commit.token == consensus::Token{} || context_.checkers.failed()) {
        return;
    }
    Slot& slot = slots_[commit.token.value() - 1];
    if (!slot.own) {
        ClientMessage reply = slot.message;
        reply.op = commit.head.op;
        reply.result = outcome.result;
        reply.reply_hash = outcome.reply_hash;
        if (reply.kind == RequestKind::kRegister && outcome.result == ErrorCode::kOk) {
            reply.session = SessionId(commit.head.op.value());
        }
        in_flight_[reply.client] = false;
        answer(reply, ReplyKind::kResult);
    }
    slot.used = false;
    free_slots_.push_back(static_cast<std::uint16_t>(commit.token.value() - 1));
}

/// Nobody knows yet what becomes of it: in a group of one the entry may still be on the disk when
/// its write could not be taken back.
void Node::carry_out_abandon(const consensus::Abandon& abandon) {
    if (abandon.token == consensus::Token{}) {
        return;
    }
    Slot& slot = slots_[abandon.token.value() - 1];
    if (!slot.used) {
        return;
    }
    context_.marks.hit(SimMark::kOutcomeUnknown);
    if (slot.own) {
        proposed_at_start_ = false;
    } else {
        in_flight_[slot.message.client] = false;
        answer(slot.message, ReplyKind::kTransient);
    }
    slot.used = false;
    free_slots_.push_back(static_cast<std::uint16_t>(abandon.token.value() - 1));
}

void Node::carry_out_reject(const consensus::Reject& reject) {
    Slot& slot = slots_[reject.token.value() - 1];
    if (slot.own) {
        proposed_at_start_ = false;
    } else {
        in_flight_[slot.message.client] = false;
        answer(slot.message, ReplyKind::kTransient);
    }
    slot.used = false;
    free_slots_.push_back(static_cast<std::uint16_t>(reject.token.value() - 1));
}

const LogEntry* Node::entry_of(OpNumber op) const noexcept {
    const LogEntry& entry = ring_[op.value() % kRing];
    return entry.prepare.op == op ? &entry : nullptr;
}

void Node::read_from_memory_or_disk(OpNumber op) {
    const bool in_memory = entry_of(op) != nullptr &&
                           (op > replica_->commit() || replica_->commit().value() - op.value() <
                                                           context_.swarm.memory_entries);
    if (!in_memory) {
        context_.marks.hit(SimMark::kPrepareFromDisk);
        storage_.read(op);
        return;
    }
    memory_reads_.push_back(op);
    ask_wake();
}

}  // namespace galgo::sim

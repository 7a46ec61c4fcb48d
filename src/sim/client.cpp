#include "sim/client.hpp"

#include <algorithm>

namespace galgo::sim {

Clients::Clients(const Workload& workload, Schedule& schedule, Network& network, Checkers& checkers)
    : workload_(workload), schedule_(schedule), network_(network), checkers_(checkers) {}

void Clients::reset(const Swarm& swarm, FaultCounts& faults) {
    faults_ = &faults;
    odds_ = swarm.client;
    random_ = Random::child(swarm.seed, 3);
    count_ = swarm.clients;
    nodes_ = swarm.nodes;
    stopped_ = false;
    clients_ = {};
    for (std::uint8_t i = 0; i < count_; ++i) {
        set_timer(clients_[i], i, random_.between(1, odds_.think_max));
    }
}

void Clients::set_healthy() noexcept {
    odds_.request_lost = odds_.request_doubled = odds_.reply_lost = odds_.old_request =
        odds_.logout = Odds::never();
    odds_.timeout = std::min<Time>(odds_.timeout, 500'000);
    // One that goes on asking a node that is down learns nothing about the others.
    odds_.any_node = Odds::percent(100);
    // Neither so slow that the healing is about waiting, nor so fast that the log ends before it.
    odds_.think_min = 5'000;
    odds_.think_max = 100'000;
}

void Clients::go_on() {
    stopped_ = false;
    for (std::uint8_t i = 0; i < count_; ++i) {
        if (!clients_[i].waiting) {
            set_timer(clients_[i], i, think());
        }
    }
}

Time Clients::think() {
    return random_.between(odds_.think_min, odds_.think_max);
}

void Clients::set_timer(One& one, std::uint8_t number, Time delay) {
    ++one.generation;
    schedule_.add({.at = schedule_.now() + delay,
                   .argument = number,
                   .life = one.generation,
                   .kind = EventKind::kClientTimer});
}

void Clients::on_timer(std::uint8_t client, std::uint32_t generation) {
    One& one = clients_[client];
    if (generation != one.generation) {
        return;
    }
    if (!one.waiting) {
        if (!stopped_) {
            begin_request(one, client);
        }
        return;
    }
    // No answer.
    std::uint8_t node = one.node;
    if (nodes_ > 1 && random_.chance(odds_.any_node)) {
        faults_->hit(Fault::kRequestToAnyNode);
        node = static_cast<std::uint8_t>(random_.below(nodes_));
        one.node = node;
    }
    send(one, node);
    set_timer(one, client, odds_.timeout + random_.below(odds_.timeout));
}

void Clients::begin_request(One& one, std::uint8_t number) {
    if (one.old_count != 0 && random_.chance(odds_.old_request)) {
        repeat_old(one);
    }
    ClientMessage& message = one.pending;
    message = {};
    message.client = number;
    if (one.session == SessionId(0)) {
        message.kind = RequestKind::kRegister;
        one.last_request = {};
    } else {
        one.last_request = one.last_request.plus(random_.between(1, 3));
        message.session = one.session;
        message.request = one.last_request;
        if (random_.chance(odds_.logout)) {
            message.kind = RequestKind::kLogout;
        } else {
            message.kind = RequestKind::kCommand;
            message.command = workload_.draw(random_);
            message.checksum = (random_.next() << 16U) | message.command;
        }
    }
    one.waiting = true;
    send(one, one.node);
    set_timer(one, number, odds_.timeout);
}

void Clients::repeat_old(One& one) {
    ClientMessage message = one.old[random_.below(std::min(one.old_count, kOld))];
    faults_->hit(Fault::kOldRequestRepeated);
    if (random_.chance(odds_.wrong_checksum)) {
        message.checksum ^= std::uint64_t{1} << 40U;
    }
    message.node = static_cast<std::uint8_t>(random_.below(nodes_));
    network_.send_request(message, 0);
}

void Clients::send(One& one, std::uint8_t node) {
    one.pending.node = node;
    network_.send_request(one.pending, 0);
}

void Clients::finish(One& one, std::uint8_t number) {
    one.waiting = false;
    ++one.answered;
    if (one.pending.kind == RequestKind::kCommand) {
        one.old[one.old_count % kOld] = one.pending;
        ++one.old_count;
    }
    set_timer(one, number, think());
}

void Clients::on_reply(const ClientMessage& reply) {
    One& one = clients_[reply.client];
    // A reply is known by its request; that of a login has no number, and any of them will do.
    const bool for_pending =
        one.waiting && reply.kind == one.pending.kind && reply.request == one.pending.request &&
        (reply.kind == RequestKind::kRegister || reply.session == one.pending.session);
    if (reply.reply == ReplyKind::kResult && reply.kind == RequestKind::kCommand) {
        checkers_.on_acknowledged(reply);
    }
    if (!for_pending) {
        return;
    }
    one.node = reply.node;
    switch (reply.reply) {
        case ReplyKind::kTransient:
            // Asked again soon, and somewhere else if there is somewhere else.
            one.node = static_cast<std::uint8_t>(random_.below(nodes_));
            set_timer(one, reply.client, random_.between(1'000, 50'000));
            return;
        case ReplyKind::kEvicted:
            one.waiting = false;
            one.session = {};
            set_timer(one, reply.client, think());
            return;
        case ReplyKind::kApplied:
            finish(one, reply.client);
            return;
        case ReplyKind::kResult:
            break;
    }
    if (reply.kind != RequestKind::kCommand) {
        checkers_.on_acknowledged(reply);
    }
    if (reply.kind == RequestKind::kRegister) {
        one.session = reply.result == ErrorCode::kOk ? reply.session : SessionId{};
    } else if (reply.kind == RequestKind::kLogout) {
        one.session = {};
    }
    finish(one, reply.client);
}

bool Clients::all_progressed(std::uint64_t times) const noexcept {
    return std::all_of(clients_.begin(), clients_.begin() + count_,
                       [&](const One& one) { return one.answered >= times; });
}

void Clients::reset_progress() noexcept {
    for (One& one : clients_) {
        one.answered = 0;
    }
}

}  // namespace galgo::sim

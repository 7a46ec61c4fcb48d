#include "sim/network.hpp"

#include <algorithm>
#include <numeric>
#include <variant>

#include "base/check.hpp"

namespace galgo::sim {

Network::Network(Schedule& schedule)
    : schedule_(schedule), packets_(kPackets), messages_(kPackets) {
    free_.reserve(kPackets);
    free_messages_.reserve(kPackets);
}

void Network::reset(const Swarm& swarm, FaultCounts& faults) {
    faults_ = &faults;
    odds_ = swarm.network;
    client_odds_ = swarm.client;
    nodes_ = swarm.nodes;
    random_ = Random::child(swarm.seed, 2);
    free_.resize(kPackets);
    std::iota(free_.begin(), free_.end(), std::uint32_t{0});
    free_messages_ = free_;
    last_arrival_ = {};
    cut_ = {};
}

void Network::set_healthy() noexcept {
    odds_.delayed = odds_.lost = odds_.doubled = odds_.reordered = odds_.corrupted = odds_.forged =
        Odds::never();
    client_odds_.request_lost = client_odds_.request_doubled = client_odds_.reply_lost =
        Odds::never();
    cut_ = {};
}

void Network::send(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
                   const LogEntry* entry) {
    if (cut_[from][to]) {
        faults_->hit(Fault::kFrameCut);
        return;
    }
    if (random_.chance(odds_.lost)) {
        faults_->hit(Fault::kFrameLost);
        return;
    }
    if (random_.chance(odds_.corrupted)) {
        corrupt(from, to, frame, entry);
        return;
    }
    deliver(from, to, frame, entry, PacketKind::kAsSent);
    if (random_.chance(odds_.doubled)) {
        faults_->hit(Fault::kFrameDoubled);
        deliver(from, to, frame, entry, PacketKind::kAsSent);
    }
    if (random_.chance(odds_.forged)) {
        faults_->hit(Fault::kFrameForged);
        forge(from, to, frame, entry);
    }
}

void Network::deliver(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
                      const LogEntry* entry, PacketKind kind) {
    if (free_.empty()) {
        return;
    }
    Time at = schedule_.now() + random_.between(odds_.latency_min, odds_.latency_max);
    if (random_.chance(odds_.delayed)) {
        faults_->hit(Fault::kFrameDelayed);
        at += random_.between(1, odds_.delayed_max);
    }
    Time& last = last_arrival_[from][to];
    // What is due at the same moment comes in any order, so a later frame is due later.
    if (at <= last) {
        if (random_.chance(odds_.reordered)) {
            faults_->hit(Fault::kFrameReordered);
        } else {
            at = last + 1;
        }
    }
    last = std::max(last, at);
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Packet& packet = packets_[index];
    packet.kind = kind;
    packet.frame = frame;
    packet.from = from;
    if (entry != nullptr) {
        packet.entry = *entry;
    }
    schedule_.add({.at = at, .argument = index, .node = to, .kind = EventKind::kFrame});
}

/// A prepare with one bit turned: of the body, of what the digest covers beside it, or of the
/// fields under the identity. The commit beside it is left out, as that may be news.
void Network::corrupt(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
                      const LogEntry* entry) {
    consensus::Frame corrupted = frame;
    auto* prepare = std::get_if<consensus::PrepareFrame>(&corrupted.payload);
    if (prepare == nullptr) {
        deliver(from, to, corrupted, nullptr, PacketKind::kCorrupted);
        return;
    }
    LogEntry other = *entry;
    prepare->commit = {};
    const std::uint64_t bit = std::uint64_t{1} << random_.below(64);
    consensus::Prepare& fields = prepare->prepare;
    switch (random_.below(10)) {
        case 0:
            other.client = ClientId(other.client.value() ^ bit);
            break;
        case 1:
            other.session = SessionId(other.session.value() ^ bit);
            break;
        case 2:
            other.request = RequestNumber(other.request.value() ^ bit);
            break;
        case 3:
            other.request_checksum ^= bit;
            break;
        case 4:
            fields.timestamp = Timestamp(fields.timestamp.value() ^ bit);
            break;
        case 5:
            fields.parent = consensus::Identity(fields.parent.value() ^ bit);
            break;
        case 6:
            fields.identity = consensus::Identity(fields.identity.value() ^ bit);
            break;
        case 7:
            fields.op = OpNumber(fields.op.value() ^ std::uint64_t{1} << random_.below(16));
            break;
        default:
            if (other.body_size == 0) {
                fields.body = consensus::BodyDigest(fields.body.value() ^ bit);
            } else {
                other.body_bytes[random_.below(other.body_size)] ^=
                    static_cast<std::byte>(1U << random_.below(8));
            }
            break;
    }
    other.prepare = fields;
    deliver(from, to, corrupted, &other, PacketKind::kCorrupted);
}

/// A well-formed frame that a replica must not act upon, whatever it holds: one of a view that it
/// is not in; a prepare of another log (its identity is right, its parent is not); an
/// acknowledgement of what never was, or of another log; a heartbeat from long ago.
void Network::forge(std::uint8_t from, std::uint8_t to, const consensus::Frame& frame,
                    const LogEntry* entry) {
    consensus::Frame forged = frame;
    if (random_.below(4) == 0) {
        forged.header.view = forged.header.view.next();
        deliver(from, to, forged, entry, PacketKind::kForged);
    } else if (auto* prepare = std::get_if<consensus::PrepareFrame>(&forged.payload)) {
        LogEntry other = *entry;
        other.prepare.op = entry->prepare.op.plus(random_.below(2));
        other.prepare.parent = consensus::Identity(random_.next() | 1U);
        other.prepare.identity = consensus::compute_identity(
            frame.header.group, frame.header.incarnation, other.prepare);
        prepare->prepare = other.prepare;
        prepare->commit = {};
        deliver(from, to, forged, &other, PacketKind::kForged);
    } else if (auto* ok = std::get_if<consensus::PrepareOkFrame>(&forged.payload)) {
        if (random_.coin()) {
            ok->durable.op = ok->received = ok->durable.op.plus(1'000'000);
        }
        ok->durable.identity = consensus::Identity(random_.next() | 1U);
        deliver(from, to, forged, nullptr, PacketKind::kForged);
    } else if (auto* heartbeat = std::get_if<consensus::CommitFrame>(&forged.payload)) {
        heartbeat->counter = 0;
        heartbeat->commit = {};  // a true one would be news, whoever brings it
        deliver(from, to, forged, nullptr, PacketKind::kForged);
    }
}

void Network::put_message(const ClientMessage& message, EventKind kind, Time delay) {
    if (free_messages_.empty()) {
        return;
    }
    const std::uint32_t index = free_messages_.back();
    free_messages_.pop_back();
    messages_[index] = message;
    schedule_.add(
        {.at = schedule_.now() + delay, .argument = index, .node = message.node, .kind = kind});
}

void Network::send_request(const ClientMessage& message, Time delay_min) {
    if (random_.chance(client_odds_.request_lost)) {
        faults_->hit(Fault::kRequestLost);
        return;
    }
    put_message(message, EventKind::kRequest,
                delay_min + random_.between(odds_.latency_min, odds_.latency_max));
    if (random_.chance(client_odds_.request_doubled)) {
        faults_->hit(Fault::kRequestDoubled);
        put_message(message, EventKind::kRequest,
                    delay_min + random_.between(odds_.latency_min, 4 * odds_.latency_max));
    }
}

void Network::send_reply(const ClientMessage& message) {
    if (random_.chance(client_odds_.reply_lost)) {
        faults_->hit(Fault::kReplyLost);
        return;
    }
    put_message(message, EventKind::kReply, random_.between(odds_.latency_min, odds_.latency_max));
}

void Network::cut() {
    const std::uint64_t victim = random_.below(nodes_);
    const std::uint64_t kind = random_.below(3);
    faults_->hit(Fault::kLinkCut);
    cut_ = {};
    for (std::uint8_t other = 0; other < nodes_; ++other) {
        if (other == victim) {
            continue;
        }
        cut_[victim][other] = kind != 1;
        cut_[other][victim] = kind != 2;
    }
}

void Network::heal_cut() noexcept {
    cut_ = {};
}

}  // namespace galgo::sim

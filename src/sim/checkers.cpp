#include "sim/checkers.hpp"

#include <algorithm>
#include <format>
#include <utility>
#include <variant>

#include "consensus/quorum.hpp"

namespace galgo::sim {
namespace {

constexpr std::size_t kOpsMax = 1U << 16U;
constexpr std::size_t kExecutedLookedAt = 256;
// wire: as many as the reference keeps; not taken from the table that is looked at here.
constexpr std::ptrdiff_t kRepliesPerClient = 5;

}  // namespace

Checkers::Checkers(const Workload& workload) : workload_(workload), log_(kOpsMax) {
    for (OfNode& node : nodes_) {
        node.appended.resize(kOpsMax);
        node.ended_well.resize(kOpsMax);
    }
    cached_.reserve(64);
    for (std::uint8_t i = 0; i < kClientsMax; ++i) {
        executed_[i].reserve(kOpsMax / 4);
        sessions_[i].reserve(kOpsMax / 16);
    }
}

void Checkers::reset(const Swarm& swarm, SimMarkCounts& marks) {
    marks_ = &marks;
    node_count_ = swarm.nodes;
    model_.reset(swarm.sessions_max);
    cached_.clear();
    cached_bytes_ = 0;
    cached_bytes_max_ = swarm.reply_bytes_max;
    for (OfNode& node : nodes_) {
        std::vector<consensus::Identity> appended = std::move(node.appended);
        std::vector<std::uint8_t> ended_well = std::move(node.ended_well);
        std::fill_n(appended.begin(), node.appended_end, consensus::Identity{});
        std::fill_n(ended_well.begin(), node.appended_end, std::uint8_t{0});
        node = OfNode{};
        node.appended = std::move(appended);
        node.ended_well = std::move(ended_well);
    }
    std::fill_n(log_.begin(), log_end_, Committed{});
    log_end_ = 0;
    for (std::uint8_t i = 0; i < kClientsMax; ++i) {
        executed_[i].clear();
        sessions_[i].clear();
    }
    committed_ = {};
    committed_identity_ = {};
    last_timestamp_ = {};
    highest_timestamp_ = {};
    acknowledged_ = {};
    acknowledged_count_ = 0;
    failed_ = false;
    failure_.clear();
}

void Checkers::fail(std::string text) {
    if (!failed_) {
        failed_ = true;
        failure_ = std::move(text);
    }
}

std::uint8_t Checkers::number_of(ClientId client) const noexcept {
    return static_cast<std::uint8_t>(static_cast<std::uint64_t>(client.value() >> 64U) %
                                     kClientsMax);
}

// ---- what a node does ------------------------------------------------------------------------

void Checkers::on_boot(std::uint8_t node) {
    OfNode& one = nodes_[node];
    one.appended_last = one.recovered;
    one.durable = OpNumber(0);
    raise_durable(one);
    one.commit = OpNumber(0);
    one.stopped = false;
}

/// A log of a single node may lack what failed, and nobody counts its prefix.
void Checkers::raise_durable(OfNode& one) noexcept {
    while (one.durable.value() + 1 < one.appended_end &&
           one.ended_well[one.durable.value() + 1] != 0) {
        one.durable = one.durable.next();
    }
}

bool Checkers::speaks_after_fatal(std::uint8_t node, std::string_view what) {
    if (nodes_[node].stopped) {
        fail(std::format("law 2: node {} {} after it said that it stops", node, what));
    }
    return nodes_[node].stopped;
}

void Checkers::on_append(std::uint8_t node, const consensus::Prepare& prepare) {
    OfNode& one = nodes_[node];
    if (speaks_after_fatal(node, "appends")) {
        return;
    }
    if (prepare.op <= one.appended_last) {
        fail(std::format("law 1: node {} appends op {} again (its last one was {})", node,
                         prepare.op.value(), one.appended_last.value()));
        return;
    }
    if (prepare.op.value() >= kOpsMax) {
        fail("the log of this run is too long for the checkers");
        return;
    }
    highest_timestamp_ = std::max(highest_timestamp_, prepare.timestamp);
    one.appended_last = prepare.op;
    one.appended[prepare.op.value()] = prepare.identity;
    one.ended_well[prepare.op.value()] = 0;
    one.appended_end = std::max<std::size_t>(one.appended_end, prepare.op.value() + 1);
    if (prepare.op <= committed_ && log_[prepare.op.value()].identity != prepare.identity) {
        fail(std::format("law 1: node {} appends op {}, which was committed with another identity",
                         node, prepare.op.value()));
    }
}

void Checkers::on_durable(std::uint8_t node, OpNumber op, consensus::Identity identity) {
    OfNode& one = nodes_[node];
    if (op.value() >= kOpsMax || one.appended[op.value()] != identity) {
        fail(std::format("law 3: node {}: the append of op {} ended, which was not asked for", node,
                         op.value()));
        return;
    }
    one.ended_well[op.value()] = 1;
    raise_durable(one);
}

void Checkers::on_superblock(std::uint8_t node, ViewNumber view) {
    nodes_[node].superblock = true;
    nodes_[node].view_durable = view;
}

void Checkers::on_send(std::uint8_t node, const consensus::Frame& frame) {
    OfNode& one = nodes_[node];
    if (speaks_after_fatal(node, "sends")) {
        return;
    }
    if (!one.superblock || one.view_durable < frame.header.view) {
        fail(std::format(
            "law 3: node {} sends a frame of view {}, which its superblock does not have", node,
            frame.header.view.value()));
        return;
    }
    if (frame.header.view < one.view_sent) {
        fail(std::format("law 2: node {} speaks for view {} after {}", node,
                         frame.header.view.value(), one.view_sent.value()));
        return;
    }
    one.view_sent = frame.header.view;
    if (const auto* ok = std::get_if<consensus::PrepareOkFrame>(&frame.payload)) {
        if (ok->durable.op > one.durable ||
            (ok->durable.op != OpNumber(0) &&
             one.appended[ok->durable.op.value()] != ok->durable.identity)) {
            fail(std::format("law 3: node {} acknowledges op {}, and has {} durable", node,
                             ok->durable.op.value(), one.durable.value()));
            return;
        }
        one.promised = std::max(one.promised, ok->durable.op);
    }
}

void Checkers::on_fatal(std::uint8_t node, const consensus::Fatal& fatal) {
    nodes_[node].stopped = true;
    if (std::exchange(nodes_[node].fatal_expected, false)) {
        return;
    }
    fail(std::format("law 1: node {} stops for reason {} at op {}", node,
                     static_cast<unsigned>(fatal.reason), fatal.op.value()));
}

void Checkers::on_empty_boot(std::uint8_t node, bool stopped) {
    if (!stopped) {
        fail(std::format("law 4: node {} starts with an empty disk in the place of what it had",
                         node));
    }
}

void Checkers::on_belief(std::uint8_t node, std::uint8_t peer, OpNumber op) {
    const OfNode& one = nodes_[peer];
    if (op > std::max(one.durable, one.durable_once)) {
        fail(std::format("law 3: node {} believes that node {} has op {}, and that has {} durable",
                         node, peer, op.value(), one.durable.value()));
    }
}

void Checkers::on_fenced(std::uint8_t node, bool log_poisoned) {
    if (!nodes_[node].stopped && !log_poisoned) {
        fail(std::format("law 9: node {} is fenced, and nothing was wrong", node));
    }
}

void Checkers::on_commit(std::uint8_t node, const consensus::Head& head, const LogEntry& entry,
                         const Outcome& outcome) {
    OfNode& one = nodes_[node];
    if (speaks_after_fatal(node, "carries out")) {
        return;
    }
    if (head.op <= one.commit || (node_count_ > 1 && head.op != one.commit.next())) {
        fail(std::format("law 2: node {} carries out op {} after {}", node, head.op.value(),
                         one.commit.value()));
        return;
    }
    one.commit = head.op;
    if (entry.prepare.op != head.op || entry.prepare.identity != head.identity) {
        fail(std::format("law 1: node {} carries out op {} with the body of another", node,
                         head.op.value()));
        return;
    }
    if (head.op.value() >= kOpsMax || one.ended_well[head.op.value()] == 0 ||
        one.appended[head.op.value()] != head.identity ||
        (node_count_ > 1 && one.durable < head.op)) {
        fail(
            std::format("law 3: node {} carries out op {}, which is not durable; {} is, with all "
                        "before it",
                        node, head.op.value(), one.durable.value()));
        return;
    }
    one.promised = std::max(one.promised, head.op);
    if (head.op > committed_) {
        commit_first(node, head, entry, outcome);
        return;
    }
    const Committed& known = log_[head.op.value()];
    if (known.identity != head.identity) {
        fail(std::format("law 1: node {} carries out another op {} than was committed", node,
                         head.op.value()));
    } else if (known.reply_hash != outcome.reply_hash) {
        fail(std::format("law 7: op {} has another outcome on node {}", head.op.value(), node));
    }
}

void Checkers::commit_first(std::uint8_t node, const consensus::Head& head, const LogEntry& entry,
                            const Outcome& outcome) {
    // The chain runs through an op that was abandoned, too.
    if (head.op == OpNumber(0) ||
        entry.prepare.parent != nodes_[node].appended[head.op.value() - 1]) {
        fail(std::format("law 1: op {} is not linked to the one before", head.op.value()));
        return;
    }
    if (node_count_ > 1) {
        if (head.op != committed_.next() || entry.prepare.parent != committed_identity_) {
            fail(std::format("law 1: op {} does not follow op {}", head.op.value(),
                             committed_.value()));
            return;
        }
        std::uint8_t copies = 0;
        for (std::uint8_t i = 0; i < node_count_; ++i) {
            const OfNode& one = nodes_[i];
            const bool has = one.appended[head.op.value()] == head.identity &&
                             std::max(one.durable, one.durable_once) >= head.op;
            copies = static_cast<std::uint8_t>(copies + has);
        }
        if (copies < consensus::quorums_of(node_count_).replication) {
            fail(std::format("law 3: op {} is committed with {} durable copies", head.op.value(),
                             copies));
            return;
        }
    } else if (head.op.value() > committed_.value() + 1) {
        marks_->hit(SimMark::kOpNumberSkipped);
    }
    if (entry.prepare.timestamp < last_timestamp_) {
        fail(std::format("law 1: the stamp of op {} goes back", head.op.value()));
        return;
    }
    last_timestamp_ = entry.prepare.timestamp;
    committed_ = head.op;
    committed_identity_ = head.identity;
    log_[head.op.value()] = {
        .identity = head.identity, .reply_hash = outcome.reply_hash, .digest = 0};
    log_end_ = std::max<std::size_t>(log_end_, head.op.value() + 1);
    check_once(entry, head.op, outcome);
    const std::uint64_t pushed_out = model_.pushed_out();
    const ErrorCode expected = model_.apply(workload_, entry, number_of(entry.client));
    marks_->hit(SimMark::kSessionPushedOut, model_.pushed_out() - pushed_out);
    if (expected != outcome.result) {
        fail(std::format("law 8: op {} (operation {}) on node {} has result {}, the model says {}",
                         head.op.value(), static_cast<unsigned>(entry.operation), node,
                         static_cast<unsigned>(outcome.result), static_cast<unsigned>(expected)));
        return;
    }
    if (outcome.result != ErrorCode::kOk) {
        marks_->hit(SimMark::kOperationRefused);
    }
    note_sessions(head.op);
    note_reply(entry, head.op, outcome.reply_bytes);
}

void Checkers::check_once(const LogEntry& entry, OpNumber op, const Outcome& outcome) {
    if (entry.request == RequestNumber(0) || entry.session == SessionId(0) ||
        entry.operation == metadata::LogOperation::kLogout) {
        return;
    }
    std::vector<Executed>& executed = executed_[number_of(entry.client)];
    const std::size_t looked_at = std::min(executed.size(), kExecutedLookedAt);
    for (auto one = executed.rbegin();
         one != executed.rbegin() + static_cast<std::ptrdiff_t>(looked_at); ++one) {
        // No two requests of a client have the same checksum.
        if (one->checksum == entry.request_checksum) {
            fail(std::format("law 5: the request of op {} is carried out again at op {}",
                             one->op.value(), op.value()));
            return;
        }
        if (one->session == entry.session && one->request >= entry.request) {
            fail(
                std::format("law 5: request {} of client {} is carried out at op {}, after request "
                            "{} at op {}",
                            entry.request.value(), number_of(entry.client), op.value(),
                            one->request.value(), one->op.value()));
            return;
        }
    }
    executed.push_back({.session = entry.session,
                        .request = entry.request,
                        .op = op,
                        .checksum = entry.request_checksum,
                        .reply_hash = outcome.reply_hash,
                        .repeated_hash = outcome.repeated_hash,
                        .reply_gone = {}});
}

/// What a client table may have forgotten: of each client all but the last replies, the oldest of
/// all beyond a number of bytes.
void Checkers::note_reply(const LogEntry& entry, OpNumber op, std::uint32_t bytes) {
    const std::uint8_t client = number_of(entry.client);
    if (executed_[client].empty() || executed_[client].back().op != op ||
        model_.session(client).epoch != entry.session) {
        return;
    }
    const auto forget = [&](std::vector<CachedReply>::iterator reply) {
        executed_[reply->client][reply->executed].reply_gone = op;
        cached_bytes_ -= reply->bytes;
        cached_.erase(reply);
    };
    if (std::ranges::count(cached_, client, &CachedReply::client) == kRepliesPerClient) {
        forget(std::ranges::find(cached_, client, &CachedReply::client));
    }
    cached_.push_back({.client = client,
                       .bytes = bytes,
                       .executed = static_cast<std::uint32_t>(executed_[client].size() - 1)});
    cached_bytes_ += bytes;
    while (cached_bytes_ > cached_bytes_max_) {
        forget(cached_.begin());
    }
}

void Checkers::note_sessions(OpNumber op) {
    for (std::uint8_t i = 0; i < kClientsMax; ++i) {
        const SessionId epoch = model_.session(i).epoch;
        std::vector<SessionSpan>& spans = sessions_[i];
        const bool open = !spans.empty() && spans.back().ended == OpNumber(0);
        if (open && spans.back().epoch != epoch) {
            spans.back().ended = op;
            std::erase_if(cached_, [&](const CachedReply& reply) {
                cached_bytes_ -= reply.client == i ? reply.bytes : 0;
                return reply.client == i;
            });
        }
        if (epoch != SessionId(0) && (spans.empty() || spans.back().epoch != epoch)) {
            spans.push_back({.epoch = epoch, .ended = {}});
        }
    }
}

void Checkers::on_digest(std::uint8_t node, OpNumber op, std::uint64_t digest) {
    if (op > committed_) {
        return;
    }
    Committed& known = log_[op.value()];
    if (known.digest == 0) {
        known.digest = digest;
    } else if (known.digest != digest) {
        fail(std::format("law 7: node {} has another state at op {}", node, op.value()));
    }
}

// ---- recovery --------------------------------------------------------------------------------

void Checkers::on_recovery_begin(std::uint8_t node) noexcept {
    OfNode& one = nodes_[node];
    one.recovered = {};
    one.recovered_identity = {};
    std::fill_n(one.ended_well.begin(), one.appended_end, std::uint8_t{0});
}

void Checkers::on_recovered_entry(std::uint8_t node, const LogEntry& entry) {
    OfNode& one = nodes_[node];
    const std::uint64_t op = entry.prepare.op.value();
    if (op == 0 || op >= kOpsMax || one.appended[op] != entry.prepare.identity ||
        digest_of(entry) != entry.prepare.body) {
        fail(std::format("law 4: node {} recovers an op {} that it never wrote", node, op));
        return;
    }
    if (entry.prepare.op <= one.recovered ||
        (node_count_ > 1 && (entry.prepare.op != one.recovered.next() ||
                             entry.prepare.parent != one.recovered_identity))) {
        fail(
            std::format("law 4: node {} recovers op {} after {}", node, op, one.recovered.value()));
        return;
    }
    // The log of a single node may lack what it abandoned, and nothing else.
    for (OpNumber lacking = one.recovered.next(); lacking < entry.prepare.op;
         lacking = lacking.next()) {
        if (lacking <= committed_ && log_[lacking.value()].identity != consensus::Identity{}) {
            fail(std::format("law 4: node {} recovers its log without op {}, which was committed",
                             node, lacking.value()));
            return;
        }
    }
    one.ended_well[op] = 1;
    one.recovered = entry.prepare.op;
    one.recovered_identity = entry.prepare.identity;
}

void Checkers::on_recovered(std::uint8_t node) {
    OfNode& one = nodes_[node];
    if (one.recovered < one.promised) {
        fail(std::format("law 4: node {} promised op {} and recovers up to {}", node,
                         one.promised.value(), one.recovered.value()));
    }
}

void Checkers::on_disk_lost(std::uint8_t node) noexcept {
    OfNode& one = nodes_[node];
    on_gone(node);
    // What it promised is gone with the disk; that it does not promise anew is what is looked at.
    one.promised = {};
    one.durable_once = std::max(one.durable_once, one.durable);
    one.durable = {};
    one.superblock = false;
}

void Checkers::on_refused(std::uint8_t node, bool disk_damaged) {
    if (!disk_damaged) {
        fail(std::format("law 4: node {} refuses to start, and its disk is not damaged", node));
    }
    on_gone(node);
}

void Checkers::check_acknowledged(OpNumber op) {
    if (op == OpNumber(0)) {
        return;
    }
    const consensus::Identity identity = log_[op.value()].identity;
    std::uint8_t have = 0;
    for (std::uint8_t i = 0; i < node_count_; ++i) {
        // One that is gone had it once, or never. One whose damaged disk did not let it lose its
        // power has what it holds; what the others lost was noticed when they recovered.
        const OfNode& one = nodes_[i];
        const OpNumber before = one.gone ? std::max(one.durable_once, one.promised) : OpNumber(0);
        const OpNumber reached = std::max({one.recovered, one.durable, before});
        const bool counts = reached >= op && one.appended[op.value()] == identity;
        have = static_cast<std::uint8_t>(have + counts);
    }
    if (have < consensus::quorums_of(node_count_).replication) {
        fail(std::format("law 5: op {} was acknowledged, and {} of {} nodes have it", op.value(),
                         have, node_count_));
    }
}

// ---- replies ---------------------------------------------------------------------------------

const Checkers::Executed* Checkers::find_executed(const ClientMessage& message) const {
    const std::vector<Executed>& executed = executed_[message.client];
    for (auto one = executed.rbegin(); one != executed.rend(); ++one) {
        if (one->session == message.session && one->request == message.request) {
            return &*one;
        }
    }
    return nullptr;
}

void Checkers::on_reply(const ClientMessage& message) {
    if (message.reply == ReplyKind::kTransient) {
        return;
    }
    if (message.reply == ReplyKind::kEvicted) {
        for (const SessionSpan& span : sessions_[message.client]) {
            if (span.epoch == message.session && span.epoch.value() <= message.applied.value() &&
                (span.ended == OpNumber(0) || span.ended > message.applied)) {
                fail(std::format("law 6: node {} evicts client {} from session {}, which holds",
                                 message.node, message.client, message.session.value()));
                return;
            }
        }
        return;
    }
    if (message.kind != RequestKind::kCommand) {
        if (message.op > committed_ || log_[message.op.value()].reply_hash != message.reply_hash) {
            fail(std::format(
                "law 6: node {} answers client {} for op {}, which is not in the log so",
                message.node, message.client, message.op.value()));
        }
        return;
    }
    const Executed* executed = find_executed(message);
    if (executed == nullptr) {
        fail(std::format("law 6: node {} answers request {} of client {}, which is not in the log",
                         message.node, message.request.value(), message.client));
        return;
    }
    if (message.reply == ReplyKind::kApplied &&
        (executed->reply_gone == OpNumber(0) || executed->reply_gone > message.applied)) {
        fail(
            std::format("law 6: node {} has no reply for request {} of client {}, which it must "
                        "still have",
                        message.node, message.request.value(), message.client));
        return;
    }
    // Only what answers the request itself knows its op.
    const std::uint64_t expected =
        message.op == OpNumber(0) ? executed->repeated_hash : executed->reply_hash;
    if (message.reply == ReplyKind::kResult && expected != message.reply_hash) {
        fail(std::format("law 6: node {} answers request {} of client {} otherwise than the log",
                         message.node, message.request.value(), message.client));
    }
}

void Checkers::on_acknowledged(const ClientMessage& message) {
    OpNumber op = message.op;
    if (message.kind == RequestKind::kCommand) {
        const Executed* executed = find_executed(message);
        if (executed == nullptr) {
            return;
        }
        op = executed->op;
    }
    acknowledged_ = std::max(acknowledged_, op);
    ++acknowledged_count_;
}

}  // namespace galgo::sim

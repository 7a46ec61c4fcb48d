// Life and death of a node, and the effects of its core.
#include "sim/node.hpp"

#include <algorithm>
#include <format>
#include <numeric>
#include <utility>
#include <variant>

#include "base/check.hpp"

namespace galgo::sim {
namespace {

constexpr consensus::ClusterId kCluster{0x5eed};
constexpr Incarnation kIncarnation{1};
constexpr Odds kAnsweredTwice = Odds::per_million(5'000);

consensus::Mutations mutations_of(Bug bug) noexcept {
    consensus::Mutations mutations;
    for (const PlantedBug& planted : kPlantedBugs) {
        if (planted.bug == bug && planted.mutation.has_value()) {
            mutations.add(*planted.mutation);
        }
    }
    return mutations;
}

}  // namespace

void Context::next_boundary_crash() noexcept {
    boundaries_left =
        swarm.crash_boundary_mean == 0 ? 0 : crash_random.between(1, 2 * swarm.crash_boundary_mean);
}

Node::Node(Context& context, std::uint8_t number)
    : context_(context), number_(number), storage_(*this, disk_), ring_(kRing), slots_(kSlots) {
    free_slots_.reserve(kSlots);
    recovered_.reserve(4096);
    memory_reads_.reserve(64);
}

void Node::reset() {
    const Swarm& swarm = context_.swarm;
    replica_.reset();
    status_ = NodeStatus::kDown;
    paused_ = false;
    disk_lost_ = false;
    life_ = 0;
    tick_random_ = Random::child(swarm.seed, 400U + number_);
    disk_.reset(Random::child(swarm.seed, 100U + number_), swarm.disk, ModelStorage::kJournalFirst,
                context_.faults);
    random_ = Random::child(swarm.seed, 300U + number_);
    storage_.reset(Random::child(swarm.seed, 200U + number_), context_.bug, swarm.nodes > 1,
                   swarm.log_sectors, context_.faults, context_.marks);
    clock_.reset(swarm.drift_ppm[number_], swarm.offset_us[number_]);
    options_ = {.cluster = kCluster,
                .replica = consensus::ReplicaIndex(number_),
                .replica_count = swarm.nodes,
                .pipeline_max = swarm.pipeline_max,
                .marks = &context_.core_marks};
}

// ---- life ------------------------------------------------------------------------------------

void Node::boot() {
    GALGO_CHECK(status_ == NodeStatus::kDown);
    replica_.reset();
    status_ = NodeStatus::kBooting;
    recovered_.clear();
    context_.checkers.on_recovery_begin(number_);
    storage_.recover();
}

void Node::lose_disk() {
    GALGO_CHECK(status_ == NodeStatus::kDown && life_ != 0);
    if (!context_.checkers.superblock_durable(number_)) {
        return;  // there was nothing on it
    }
    context_.faults.hit(Fault::kDiskLost);
    const Swarm& swarm = context_.swarm;
    disk_.reset(Random::child(swarm.seed, 500U + number_), swarm.disk, ModelStorage::kJournalFirst,
                context_.faults);
    storage_.reset(Random::child(swarm.seed, 600U + number_), context_.bug, swarm.nodes > 1,
                   swarm.log_sectors, context_.faults, context_.marks);
    context_.checkers.on_disk_lost(number_);
    disk_lost_ = true;
}

bool Node::may_crash() const {
    if (status_ == NodeStatus::kDown || status_ == NodeStatus::kRefused) {
        return false;
    }
    // No single disk can tell the loss of a last batch that nothing names from a torn one: a
    // damaged disk gets the time to name it.
    return !disk_.damaged() || storage_.tail_is_marked();
}

bool Node::crash(bool power) {
    if (!may_crash()) {
        return false;
    }
    context_.faults.hit(power ? Fault::kCrashOfPower : Fault::kCrashOfProcess);
    if (status_ == NodeStatus::kBooting) {
        context_.faults.hit(Fault::kCrashDuringBoot);
    }
    if (disk_.under_way() != DiskOp::kNone) {
        context_.faults.hit(Fault::kCrashDuringDiskOp);
    }
    ++life_;
    status_ = NodeStatus::kDown;
    paused_ = false;
    disk_.crash(power);
    storage_.crash();
    memory_reads_.clear();
    // The replica itself goes at the next boot: a crash may come from within one of its steps.
    return true;
}

/// The moment between two effects or two disk operations.
void Node::boundary(Fault kind) {
    if (context_.boundaries_left == 0 || --context_.boundaries_left != 0) {
        return;
    }
    const bool power = context_.crash_random.chance(context_.swarm.crash_of_power);
    context_.next_boundary_crash();
    const bool costs = serves() && context_.swarm.nodes > 1;
    if (costs && (context_.crashes_left == 0 || (number_ == 0 && !context_.swarm.crash_primary))) {
        return;
    }
    if (!crash(power)) {
        return;
    }
    if (costs) {
        --context_.crashes_left;
    }
    context_.faults.hit(kind);
    context_.schedule.add({.at = context_.schedule.now() +
                                 context_.crash_random.between(1, context_.swarm.restart_max),
                           .life = life_,
                           .node = number_,
                           .kind = EventKind::kRestart});
}

bool Node::serves() const noexcept {
    return status_ == NodeStatus::kUp &&
           replica_->status() != consensus::ReplicaStatus::kRecovering && !replica_->fenced();
}

bool Node::may_serve() const noexcept {
    return status_ == NodeStatus::kUp ? serves() : status_ != NodeStatus::kRefused;
}

/// Would a restart help, and nothing else?
bool Node::needs_operator() const noexcept {
    return status_ == NodeStatus::kUp && (storage_.poisoned() || replica_->fenced());
}

void Node::on_recovered_entry(const LogEntry& entry) {
    context_.checkers.on_recovered_entry(number_, entry);
    recovered_.push_back(entry);
}

void Node::on_recovered(RecoveryResult result,
                        const std::optional<consensus::SuperblockState>& superblock) {
    if (result == RecoveryResult::kRefused) {
        status_ = NodeStatus::kRefused;
        ++context_.boots_refused;
        context_.checkers.on_refused(number_, disk_.damaged());
        return;
    }
    if (result == RecoveryResult::kFailed) {
        context_.marks.hit(SimMark::kBootAgain);
        status_ = NodeStatus::kDown;
        ++life_;
        storage_.crash();
        context_.schedule.add({.at = context_.schedule.now() + 10 * kTick,
                               .life = life_,
                               .node = number_,
                               .kind = EventKind::kRestart});
        return;
    }
    context_.checkers.on_recovered(number_);
    if (context_.checkers.failed()) {
        return;
    }
    start_replica(superblock);
}

void Node::start_replica(const std::optional<consensus::SuperblockState>& superblock) {
    status_ = NodeStatus::kUp;
    registry_.emplace();
    state_.emplace(metadata::StateOptions{.sessions_max = context_.swarm.sessions_max});
    clients_.emplace(context_.swarm.reply_bytes_max);
    applied_ = {};
    proposed_at_start_ = false;
    ticks_in_life_ = 0;
    for (Slot& slot : slots_) {
        slot.used = false;
    }
    free_slots_.resize(kSlots);
    std::iota(free_slots_.begin(), free_slots_.end(), std::uint16_t{0});
    in_flight_ = {};
    for (LogEntry& entry : ring_) {
        entry.prepare.op = {};
    }
    // Whoever set up the group knows of a superblock that was written.
    consensus::Boot boot{.superblock = superblock,
                         .log = {},
                         .now = clock_.ticks(context_.schedule.now()),
                         .fresh = !disk_lost_ && !context_.checkers.superblock_durable(number_)};
    if (!recovered_.empty()) {
        const LogEntry& last = recovered_.back();
        boot.log = {.head = last.prepare.head(),
                    .commit = last.commit,
                    .last_timestamp = last.prepare.timestamp};
        const std::size_t kept = std::min(recovered_.size(), kRing / 2);
        for (std::size_t i = recovered_.size() - kept; i < recovered_.size(); ++i) {
            ring_[recovered_[i].prepare.op.value() % kRing] = recovered_[i];
        }
    }
    if (superblock.has_value()) {
        context_.checkers.on_superblock(number_, superblock->view);
    }
    context_.checkers.on_boot(number_);
#ifdef GALGO_PLANTED_BUGS
    replica_.emplace(pool_, options_, consensus::kMetadataGroup, kIncarnation,
                     mutations_of(context_.bug));
#else
    static_cast<void>(mutations_of);
    replica_.emplace(pool_, options_, consensus::kMetadataGroup, kIncarnation);
#endif
    if (disk_lost_) {
        context_.checkers.expect_fatal(number_);
    }
    consensus::EffectList effects;
    replica_->step(boot, effects);
    if (replica_->status() == consensus::ReplicaStatus::kNormal) {
        // What is committed already; a replica that recovers learns that later.
        for (const LogEntry& entry : recovered_) {
            if (entry.prepare.op > replica_->commit() || context_.checkers.failed()) {
                break;
            }
            context_.marks.hit(SimMark::kAppliedOnRestart);
            ErrorCode result{};
            const std::uint64_t hash = apply(entry, result);
            context_.checkers.on_commit(number_, entry.prepare.head(), entry, result, hash);
            // The last one that the checkers have a digest of covers all before it.
            if (Checkers::wants_digest(entry.prepare.op) &&
                entry.prepare.op.plus(Checkers::kDigestEvery) > replica_->commit()) {
                context_.checkers.on_digest(number_, entry.prepare.op, digest());
            }
        }
    }
    recovered_.clear();
    carry_out(effects);
    if (disk_lost_ && replica_->fenced() && status_ == NodeStatus::kUp) {
        status_ = NodeStatus::kRefused;
        ++context_.boots_refused;
        return;
    }
    if (status_ == NodeStatus::kUp) {
        propose_at_start();
    }
}

// ---- events ----------------------------------------------------------------------------------

template <class EventType>
void Node::step(const EventType& event) {
    consensus::EffectList effects;
    replica_->step(event, effects);
    if (!effects.empty()) {
        carry_out(effects);
    }
}
template void Node::step(const consensus::ClientRequest&);  // node_requests.cpp

void Node::tick() {
    ++ticks_in_life_;
    const Time now = context_.schedule.now();
    step(consensus::Tick{.now = clock_.ticks(now), .random = tick_random_.next()});
    if (status_ == NodeStatus::kUp && !proposed_at_start_) {
        propose_at_start();
    }
    if (context_.bug == Bug::kEvictByLocalState && ticks_in_life_ % 128 == 0) {
        evict_by_local_state();
    }
}

void Node::on_frame(const Packet& packet) {
    if (status_ != NodeStatus::kUp) {
        return;
    }
    const auto* prepare = std::get_if<consensus::PrepareFrame>(&packet.frame.payload);
    if (prepare != nullptr && (digest_of(packet.entry) != prepare->prepare.body ||
                               packet.entry.prepare != prepare->prepare)) {
        return;
    }
    incoming_ = prepare != nullptr ? &packet.entry : nullptr;
    step(consensus::Received{.peer = consensus::ReplicaIndex(packet.from), .frame = packet.frame});
    incoming_ = nullptr;
}

void Node::hear_of_another_commit(bool beside_a_prepare) {
    consensus::Head other = replica_->commit_head();
    other.identity = consensus::Identity(other.identity.value() ^ 1U);
    const ViewNumber view = replica_->view();
    const consensus::ReplicaIndex primary = consensus::primary_of(view, context_.swarm.nodes);
    context_.checkers.expect_fatal(number_);
    consensus::Received received{.peer = primary,
                                 .frame = {.header = {.cluster = kCluster,
                                                      .group = consensus::kMetadataGroup,
                                                      .incarnation = kIncarnation,
                                                      .view = view,
                                                      .replica = primary},
                                           .payload = consensus::CommitFrame{
                                               .commit = other, .counter = ~std::uint64_t{0}}}};
    const LogEntry* known = beside_a_prepare ? entry_of(other.op) : nullptr;
    if (known != nullptr) {
        received.frame.payload =
            consensus::PrepareFrame{.prepare = known->prepare, .commit = other};
    }
    step(received);
    if (!replica_->fenced()) {
        context_.checkers.fail(
            std::format("law 1: node {} goes on, though another op {} was committed", number_,
                        other.op.value()));
    }
}

void Node::begin_disk_op() {
    context_.schedule.add({.at = context_.schedule.now() + disk_.draw_latency(),
                           .life = life_,
                           .node = number_,
                           .kind = EventKind::kDisk});
}

void Node::ask_wake() {
    context_.schedule.add({.at = context_.schedule.now() + 1,
                           .life = life_,
                           .node = number_,
                           .kind = EventKind::kStorage});
}

void Node::on_disk_event() {
    storage_.on_disk_done();
    if (status_ == NodeStatus::kUp || status_ == NodeStatus::kBooting) {
        boundary(Fault::kCrashBetweenDiskOps);
    }
}

void Node::on_wake_event() {
    // Entries that a read found in memory.
    while (!memory_reads_.empty() && status_ == NodeStatus::kUp) {
        const OpNumber op = memory_reads_.front();
        // Now and then an answer comes twice.
        if (!random_.chance(kAnsweredTwice)) {
            memory_reads_.erase(memory_reads_.begin());
        }
        const LogEntry* entry = entry_of(op);
        on_read_done(
            op, entry == nullptr ? consensus::ReadStatus::kAbsent : consensus::ReadStatus::kPresent,
            entry);
    }
    if (status_ == NodeStatus::kUp) {
        storage_.on_wake();
    }
}

void Node::on_append_done(OpNumber op, consensus::Identity identity, bool durable) {
    if (durable) {
        context_.checkers.on_durable(number_, op, identity);
    }
    step(consensus::AppendDone{
        .op = op,
        .identity = identity,
        .status = durable ? consensus::AppendStatus::kDurable : consensus::AppendStatus::kFailed});
}

void Node::on_superblock_done(const consensus::SuperblockState& state, bool written) {
    if (written) {
        context_.checkers.on_superblock(number_, state.view);
    }
    step(consensus::SuperblockDone{.state = state, .written = written});
}

void Node::on_read_done(OpNumber op, consensus::ReadStatus status, const LogEntry* entry) {
    from_disk_ = entry;
    step(consensus::ReadDone{.op = op,
                             .status = status,
                             .prepare = entry == nullptr ? consensus::Prepare{} : entry->prepare});
    from_disk_ = nullptr;
}

// ---- effects ---------------------------------------------------------------------------------

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
    ErrorCode result{};
    const std::uint64_t hash = apply(*entry, result);
    context_.trace.add(commit.head.op.value(), commit.head.identity.value());
    context_.checkers.on_commit(number_, commit.head, *entry, result, hash);
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
        reply.result = result;
        reply.reply_hash = hash;
        if (reply.kind == RequestKind::kRegister && result == ErrorCode::kOk) {
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

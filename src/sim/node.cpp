// Life and death of a node, and the events that reach it.
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
    memory_reads_.clear();
    starved_ = {};
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
    starved_ = {};
    consensus::EffectList effects;
    replica_->step(boot, effects);
    if (disk_lost_) {
        context_.checkers.on_empty_boot(number_, replica_->fenced());
    }
    if (replica_->status() == consensus::ReplicaStatus::kNormal) {
        // What is committed already; a replica that recovers learns that later.
        for (const LogEntry& entry : recovered_) {
            if (entry.prepare.op > replica_->commit() || context_.checkers.failed()) {
                break;
            }
            context_.marks.hit(SimMark::kAppliedOnRestart);
            context_.checkers.on_commit(number_, entry.prepare.head(), entry, apply(entry));
            // The last one that the checkers have a digest of covers all before it.
            if (Checkers::wants_digest(entry.prepare.op) &&
                entry.prepare.op.plus(Checkers::kDigestEvery) > replica_->commit()) {
                context_.checkers.on_digest(number_, entry.prepare.op, digest());
            }
        }
    }
    recovered_.clear();
    carry_out(effects);
    context_.checkers.expect_fatal(number_, false);
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
    if (replica_->fenced() && status_ == NodeStatus::kUp) {
        context_.checkers.on_fenced(number_, storage_.poisoned());
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
    if (packet.kind == PacketKind::kCorrupted && prepare == nullptr) {
        context_.faults.hit(Fault::kFrameCorrupted);
        return;  // its seal
    }
    // One record on the wire: header and body, and the header says what the body is.
    if (prepare != nullptr && digest_of(packet.entry) != prepare->prepare.body &&
        context_.bug != Bug::kTrustBodies) {
        if (packet.kind == PacketKind::kCorrupted) {
            context_.faults.hit(Fault::kFrameCorrupted);
        }
        return;
    }
    const std::uint32_t life = life_;
    const consensus::Head head = replica_->log_head();
    const consensus::Head commit = replica_->commit_head();
    incoming_ = prepare != nullptr ? &packet.entry : nullptr;
    step(consensus::Received{.peer = consensus::ReplicaIndex(packet.from), .frame = packet.frame});
    incoming_ = nullptr;
    if (life_ != life || status_ != NodeStatus::kUp) {
        return;
    }
    if (replica_->is_primary()) {
        context_.checkers.on_belief(
            number_, packet.from, replica_->acknowledged_by(consensus::ReplicaIndex(packet.from)));
    }
    if (packet.kind == PacketKind::kAsSent) {
        return;
    }
    if (packet.kind == PacketKind::kCorrupted) {
        context_.faults.hit(Fault::kFrameCorrupted);
    }
    if (replica_->log_head() != head || replica_->commit_head() != commit) {
        context_.checkers.fail(std::format(
            "law 1: node {} believes a {} frame: it goes from op {} to {}, commit {} "
            "to {}",
            number_, packet.kind == PacketKind::kForged ? "forged" : "corrupted", head.op.value(),
            replica_->head().value(), commit.op.value(), replica_->commit().value()));
    }
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
}

bool Node::disk_op_ended() {
    const std::uint32_t life = life_;
    boundary(Fault::kCrashBetweenDiskOps);
    return life_ == life;
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

}  // namespace galgo::sim

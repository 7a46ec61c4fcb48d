#include "sim/cluster.hpp"

#include <algorithm>
#include <cstdio>
#include <format>
#include <iterator>
#include <utility>

#include "base/check.hpp"
#include "consensus/quorum.hpp"

namespace galgo::sim {
namespace {

constexpr std::uint64_t kHealTicksMax = 6'000;  // a minute
constexpr std::uint64_t kPowerTicksMax = 2'000;
constexpr std::uint64_t kLoadTicks = 48;       // before the power goes
constexpr std::uint64_t kLoadAfterwards = 24;  // so many of them at least with a misled backup
constexpr std::uint64_t kAnswersAfterHealing = 2;
constexpr std::uint64_t kLookAfterEvery = 8;
constexpr std::uint32_t kCrashInBoot = 1;  ///< argument of kCrash: no other one follows it

std::string_view event_name(EventKind kind) noexcept {
    constexpr std::string_view kNames[] = {
        "disk",       "storage", "frame",     "request", "reply",     "client timer",
        "crash",      "restart", "pause",     "resume",  "disk full", "disk has room",
        "clock jump", "rot",     "partition", "heal",    "tick"};
    return kNames[static_cast<std::size_t>(kind)];
}

}  // namespace

Cluster::Cluster(const Workload& workload)
    : context_(workload),
      clients_(workload, context_.schedule, context_.network, context_.checkers) {
    for (std::uint8_t i = 0; i < kNodesMax; ++i) {
        nodes_.push_back(std::make_unique<Node>(context_, i));
        deferred_[i].reserve(1024);
    }
}

RunResult Cluster::run(std::uint64_t seed, const RunOptions& options) {
    start(seed, options);
    phase_safety();
    phase_healing();
    phase_power();
    RunResult result{.verdict = ended() ? Verdict::kCorrectness : verdict_,
                     .failure = context_.checkers.failure(),
                     .nodes = count_,
                     .ticks = ticks_,
                     .events = events_,
                     .committed = context_.checkers.committed().value(),
                     .acknowledged = context_.checkers.acknowledged()};
    context_.trace.add(ticks_, events_);
    context_.trace.add(static_cast<std::uint64_t>(result.verdict), result.committed);
    result.trace = context_.trace.hash();
    if (result.verdict == Verdict::kLiveness) {
        result.failure = "no progress after the healing: " + stuck_;
    }
    return result;
}

void Cluster::start(std::uint64_t seed, const RunOptions& options) {
    context_.swarm = draw_swarm(seed);
    if (options.nodes != 0) {
        context_.swarm.nodes = options.nodes;
    }
    const Swarm& swarm = context_.swarm;
    context_.bug = options.bug;
    context_.log = options.log;
    context_.trace = {};
    context_.schedule.clear(Random::child(seed, 4));
    context_.network.reset(swarm, context_.faults);
    context_.checkers.reset(swarm, context_.marks);
    context_.crash_random = Random::child(seed, 5);
    context_.next_boundary_crash();
    context_.crashes_left = swarm.crashes_max;
    fault_random_ = Random::child(seed, 6);
    clients_.reset(swarm, context_.faults);
    count_ = swarm.nodes;
    ticks_ = 0;
    events_ = 0;
    verdict_ = Verdict::kPassed;
    healthy_ = false;
    for (std::uint8_t i = 0; i < count_; ++i) {
        deferred_[i].clear();
        nodes_[i]->reset();
        start_node(i);
        departure_[i] = 0;
        schedule_tick(i);
        schedule_next(EventKind::kCrash, i, swarm.crash_mean);
        schedule_next(EventKind::kPause, i, swarm.pause_mean);
        schedule_next(EventKind::kClockJump, i, swarm.jump_mean);
        schedule_next(EventKind::kRot, i, swarm.rot_mean);
        schedule_next(EventKind::kDiskFills, i, swarm.full_mean);
    }
    if (count_ > 1) {
        schedule_next(EventKind::kPartition, 0, swarm.partition_mean);
    }
    if (options.log) {
        std::fputs(swarm.describe().c_str(), stdout);
    }
}

void Cluster::start_node(std::uint8_t number) {
    if (nodes_[number]->life() != 0 && !healthy_ &&
        fault_random_.chance(context_.swarm.disk_lost)) {
        nodes_[number]->lose_disk();
    }
    nodes_[number]->boot();
    // Now and then it does not even get that far.
    if (!healthy_ && fault_random_.chance(context_.swarm.crash_in_boot)) {
        context_.schedule.add({.at = context_.schedule.now() + fault_random_.below(2'000),
                               .argument = kCrashInBoot,
                               .node = number,
                               .kind = EventKind::kCrash});
    }
}

void Cluster::schedule_next(EventKind kind, std::uint8_t node, Time mean) {
    if (mean == 0 || healthy_) {
        return;
    }
    context_.schedule.add({.at = context_.schedule.now() + fault_random_.between(1, 2 * mean),
                           .node = node,
                           .kind = kind});
}

// ---- phases ----------------------------------------------------------------------------------

void Cluster::phase_safety() {
    for (std::uint64_t i = 0; i < context_.swarm.ticks && !ended(); ++i) {
        tick();
        if (i % kLookAfterEvery == 0) {
            look_after_nodes();
            const bool long_enough = std::any_of(
                nodes_.begin(), nodes_.begin() + count_,
                [](const std::unique_ptr<Node>& node) { return node->storage().long_enough(); });
            if (long_enough || !quorum_possible()) {
                break;
            }
        }
    }
}

void Cluster::phase_healing() {
    if (ended()) {
        return;
    }
    healthy_ = true;
    context_.boundaries_left = 0;
    context_.network.set_healthy();
    clients_.set_healthy();
    clients_.reset_progress();
    for (std::uint8_t i = 0; i < count_; ++i) {
        nodes_[i]->disk().set_healthy();
        nodes_[i]->clock().correct(context_.schedule.now(), context_.checkers.highest_timestamp());
        if (nodes_[i]->paused()) {
            resume(i);
        }
        if (nodes_[i]->status() == NodeStatus::kDown) {
            restart_soon(i);
        }
    }
    bool idle = false;
    for (std::uint64_t i = 0; i < kHealTicksMax && !ended(); ++i) {
        tick();
        if (i % kLookAfterEvery != 0) {
            continue;
        }
        look_after_nodes();
        if (!quorum_possible()) {
            context_.marks.hit(SimMark::kQuorumLost);
            verdict_ = Verdict::kUnavailable;
            return;
        }
        if (!idle && clients_.all_progressed(kAnswersAfterHealing)) {
            idle = true;
            clients_.stop();
        }
        if (idle && all_reach_the_end(/*but_starved=*/false)) {
            return;
        }
    }
    if (ended()) {
        return;
    }
    if (excused_by_starving(idle)) {
        context_.marks.hit(SimMark::kBackupLeftBehind);
        verdict_ = Verdict::kUnavailable;
    } else {
        verdict_ = Verdict::kLiveness;
        stuck_ = describe_nodes();
    }
}

/// With nothing more to do, every replica that serves has carried out all there is: the last commit
/// must reach it without another request.
bool Cluster::all_reach_the_end(bool but_starved) const {
    const OpNumber end = context_.checkers.committed();
    for (std::uint8_t i = 0; i < count_; ++i) {
        const Node& node = *nodes_[i];
        if (node.status() == NodeStatus::kDown || node.status() == NodeStatus::kBooting) {
            return false;
        }
        if (node.serves() && (node.replica()->commit() < end || node.replica()->in_flight() != 0) &&
            !(but_starved && (starved(i) || node.replica()->is_primary()))) {
            return false;
        }
    }
    return true;
}

/// The primary said that it cannot give this backup its next op, because that has rotted in its
/// log, and nothing else gave it.
bool Cluster::starved(std::uint8_t number) const {
    const Node& first = *nodes_[primary().value()];
    return count_ > 1 && number != primary().value() && first.disk().damaged() &&
           first.starved(number) == nodes_[number]->replica()->head().next();
}

/// Is rot in the primary's log all that keeps the group from going on, or from being at one op?
bool Cluster::excused_by_starving(bool answered) const {
    std::uint8_t fed = 0;
    std::uint8_t hungry = 0;
    for (std::uint8_t i = 0; i < count_; ++i) {
        if (nodes_[i]->serves()) {
            ++(starved(i) ? hungry : fed);
        }
    }
    return hungry != 0 && all_reach_the_end(/*but_starved=*/true) &&
           (answered || fed < consensus::quorums_of(count_).replication);
}

/// Counts what might still serve. The core has no view change yet: without the primary of the view
/// nothing goes on.
bool Cluster::quorum_possible() const {
    std::uint8_t serving = 0;
    for (std::uint8_t i = 0; i < count_; ++i) {
        serving = static_cast<std::uint8_t>(serving + nodes_[i]->may_serve());
    }
    const Node& first = *nodes_[primary().value()];
    const bool alone_and_fixable = count_ == 1 && first.needs_operator();
    return (serving >= consensus::quorums_of(count_).replication && first.may_serve()) ||
           alone_and_fixable;
}

consensus::ReplicaIndex Cluster::primary() const {
    ViewNumber view;
    for (std::uint8_t i = 0; i < count_; ++i) {
        if (nodes_[i]->status() == NodeStatus::kUp) {
            view = std::max(view, nodes_[i]->replica()->view());
        }
    }
    return consensus::primary_of(view, count_);
}

std::string Cluster::describe_nodes() const {
    std::string text = clients_.all_progressed(kAnswersAfterHealing) ? "every client was answered"
                                                                     : "a client was not answered";
    for (std::uint8_t i = 0; i < count_; ++i) {
        const Node& node = *nodes_[i];
        std::format_to(std::back_inserter(text), "; node {} ", i);
        if (node.status() == NodeStatus::kUp) {
            std::format_to(std::back_inserter(text), "{} at op {}, commit {}",
                           node.serves() ? "serves" : "takes no part",
                           node.replica()->head().value(), node.replica()->commit().value());
        } else {
            text += node.status() == NodeStatus::kRefused ? "refused to start" : "is down";
        }
    }
    return text;
}

/// What an operator does: a node whose log takes nothing more is started again.
void Cluster::look_after_nodes() {
    for (std::uint8_t i = 0; i < count_; ++i) {
        Node& node = *nodes_[i];
        if (node.needs_operator() && !node.paused() && (count_ == 1 || healthy_) &&
            node.crash(false)) {
            restart_soon(i);
        }
    }
}

void Cluster::phase_power() {
    if (ended() || verdict_ == Verdict::kLiveness) {
        return;
    }
    // Under load: what is under way is lost with the power.
    clients_.go_on();
    mislead_a_backup();
    clients_.stop();
    // Time for damaged disks to name their last batch, then the power goes.
    for (std::uint64_t i = 0; i < kPowerTicksMax && !ended(); ++i) {
        tick();
        const bool settled = std::all_of(
            nodes_.begin(), nodes_.begin() + count_, [](const std::unique_ptr<Node>& node) {
                return node->status() == NodeStatus::kRefused ||
                       (node->status() == NodeStatus::kUp && node->may_crash());
            });
        if (settled) {
            break;
        }
    }
    // Requests may still be on their way, and be carried out as soon as a node is there again.
    const OpNumber acknowledged = context_.checkers.acknowledged_op();
    for (std::uint8_t i = 0; i < count_ && !ended(); ++i) {
        if (nodes_[i]->crash(true)) {
            restart_soon(i);
        }
    }
    for (std::uint64_t i = 0; i < kPowerTicksMax && !ended(); ++i) {
        tick();
        const bool started = std::all_of(
            nodes_.begin(), nodes_.begin() + count_, [](const std::unique_ptr<Node>& node) {
                return node->status() == NodeStatus::kRefused || node->status() == NodeStatus::kUp;
            });
        if (started) {
            break;
        }
    }
    if (!ended()) {
        context_.checkers.check_acknowledged(acknowledged);
    }
    const bool refused = std::any_of(
        nodes_.begin(), nodes_.begin() + count_,
        [](const std::unique_ptr<Node>& node) { return node->status() == NodeStatus::kRefused; });
    if (refused && verdict_ == Verdict::kPassed) {
        verdict_ = Verdict::kUnavailable;
    }
}

/// A backup that is about to carry something out hears of another commit than it has: by a
/// heartbeat, or by a prepare that it knows. It must stop, and do nothing more.
void Cluster::mislead_a_backup() {
    bool told = false;
    for (std::uint64_t i = 0; i < kLoadTicks && !ended(); ++i) {
        tick();
        const bool any = i + kLoadAfterwards >= kLoadTicks;
        for (std::uint8_t number = 0; number < count_ && !told; ++number) {
            Node& node = *nodes_[number];
            if (node.serves() && !node.replica()->is_primary() &&
                node.replica()->commit() != OpNumber{0} &&
                (any || node.replica()->commit_max() > node.replica()->commit())) {
                told = true;
                node.hear_of_another_commit(fault_random_.coin());
            }
        }
    }
}

// ---- time ------------------------------------------------------------------------------------

void Cluster::tick() {
    const Time end = (context_.schedule.now() / kTick + 1) * kTick;
    while (context_.schedule.due(end)) {
        handle(context_.schedule.take());
        if (ended()) {
            return;
        }
    }
    context_.schedule.set_now(end);
}

void Cluster::schedule_tick(std::uint8_t number) {
    const NodeClock& clock = nodes_[number]->clock();
    const std::uint64_t last = clock.ticks(context_.schedule.now()).value();
    context_.schedule.add(
        {.at = std::max(context_.schedule.now() + 1, clock.time_of_tick(last + 1)),
         .node = number,
         .kind = EventKind::kTick});
}

/// By the clock of the node, which is not that of the others.
void Cluster::tick_node(std::uint8_t number) {
    schedule_tick(number);
    Node& node = *nodes_[number];
    if (node.status() != NodeStatus::kUp || node.paused()) {
        return;
    }
    const Time now = context_.schedule.now();
    const std::int64_t departure = static_cast<std::int64_t>(node.clock().ticks(now).value()) -
                                   static_cast<std::int64_t>(now / kTick);
    if (std::exchange(departure_[number], departure) != departure) {
        context_.faults.hit(Fault::kClockDrift);
    }
    ++ticks_;
    node.tick();
}

void Cluster::handle(const Event& event) {
    ++events_;
    context_.trace.add(event.at << 8U | static_cast<std::uint64_t>(event.kind),
                       std::uint64_t{event.node} << 32U | event.argument);
    if (context_.log && event.kind != EventKind::kTick) {
        log_event(event);
    }
    const Swarm& swarm = context_.swarm;
    switch (event.kind) {
        case EventKind::kReply:
            clients_.on_reply(context_.network.message(event.argument));
            context_.network.release_message(event.argument);
            return;
        case EventKind::kClientTimer:
            clients_.on_timer(static_cast<std::uint8_t>(event.argument), event.life);
            return;
        case EventKind::kCrash:
            crash_by_time(event.node);
            if (event.argument != kCrashInBoot) {
                schedule_next(EventKind::kCrash, event.node, swarm.crash_mean);
            }
            return;
        case EventKind::kRestart:
            if (nodes_[event.node]->life() == event.life &&
                nodes_[event.node]->status() == NodeStatus::kDown) {
                ++context_.restarts;
                start_node(event.node);
            }
            return;
        case EventKind::kPause:
            if (!healthy_) {
                if (nodes_[event.node]->status() == NodeStatus::kUp &&
                    !nodes_[event.node]->paused()) {
                    context_.faults.hit(Fault::kPause);
                    nodes_[event.node]->pause(true);
                    context_.schedule.add(
                        {.at = context_.schedule.now() + fault_random_.between(1, swarm.pause_max),
                         .life = nodes_[event.node]->life(),
                         .node = event.node,
                         .kind = EventKind::kResume});
                }
                schedule_next(EventKind::kPause, event.node, swarm.pause_mean);
            }
            return;
        case EventKind::kResume:
            if (nodes_[event.node]->life() == event.life && nodes_[event.node]->paused()) {
                resume(event.node);
            }
            return;
        case EventKind::kClockJump:
            if (!healthy_) {
                // Mostly seconds, sometimes hours.
                const auto by = static_cast<std::int64_t>(fault_random_.below(16) == 0
                                                              ? fault_random_.below(7'200'000'000)
                                                              : fault_random_.below(8'000'000));
                const bool forward = fault_random_.coin();
                context_.faults.hit(forward ? Fault::kClockJumpForward : Fault::kClockJumpBack);
                nodes_[event.node]->clock().jump(forward ? by : -by);
                schedule_next(EventKind::kClockJump, event.node, swarm.jump_mean);
            }
            return;
        case EventKind::kRot:
            if (!healthy_) {
                Node& node = *nodes_[event.node];
                const auto sector = node.storage().pick_sector_to_rot(fault_random_.next());
                if (node.status() == NodeStatus::kUp && node.storage().tail_is_marked() &&
                    sector.has_value()) {
                    node.disk().rot(*sector);
                }
                schedule_next(EventKind::kRot, event.node, swarm.rot_mean);
            }
            return;
        case EventKind::kDiskFills:
            if (!healthy_) {
                nodes_[event.node]->disk().set_full(true);
                context_.schedule.add(
                    {.at = context_.schedule.now() + fault_random_.between(1, swarm.full_max),
                     .node = event.node,
                     .kind = EventKind::kDiskHasRoom});
            }
            return;
        case EventKind::kDiskHasRoom:
            nodes_[event.node]->disk().set_full(false);
            schedule_next(EventKind::kDiskFills, event.node, swarm.full_mean);
            return;
        case EventKind::kPartition:
            if (!healthy_) {
                context_.network.cut();
                context_.schedule.add(
                    {.at = context_.schedule.now() + fault_random_.between(1, swarm.partition_max),
                     .kind = EventKind::kHeal});
            }
            return;
        case EventKind::kHeal:
            context_.network.heal_cut();
            schedule_next(EventKind::kPartition, 0, swarm.partition_mean);
            return;
        case EventKind::kTick:
            tick_node(event.node);
            return;
        case EventKind::kDisk:
        case EventKind::kStorage:
        case EventKind::kFrame:
        case EventKind::kRequest:
            handle_for_node(event);
            return;
    }
}

void Cluster::handle_for_node(const Event& event) {
    Node& node = *nodes_[event.node];
    const bool own = event.kind == EventKind::kDisk || event.kind == EventKind::kStorage;
    if (own && event.life != node.life()) {
        return;
    }
    if (node.paused() && node.status() == NodeStatus::kUp) {
        defer(event);
        return;
    }
    switch (event.kind) {
        case EventKind::kDisk:
            node.on_disk_event();
            return;
        case EventKind::kStorage:
            node.on_wake_event();
            return;
        case EventKind::kFrame:
            node.on_frame(context_.network.packet(event.argument));
            context_.network.release(event.argument);
            return;
        default: {
            // Copied: the answer may take the place of the message.
            const ClientMessage message = context_.network.message(event.argument);
            context_.network.release_message(event.argument);
            node.on_request(message);
            return;
        }
    }
}

void Cluster::defer(const Event& event) {
    deferred_[event.node].push_back(event);
}

void Cluster::resume(std::uint8_t node) {
    nodes_[node]->pause(false);
    std::vector<Event>& waiting = deferred_[node];
    for (Event event : waiting) {
        event.at = context_.schedule.now();
        context_.schedule.add(event);
    }
    waiting.clear();
}

void Cluster::crash_by_time(std::uint8_t number) {
    Node& node = *nodes_[number];
    if (healthy_) {
        return;
    }
    const bool costs = count_ > 1 && node.serves();
    if (costs && (context_.crashes_left == 0 || (number == 0 && !context_.swarm.crash_primary))) {
        return;
    }
    if (node.crash(fault_random_.chance(context_.swarm.crash_of_power))) {
        context_.crashes_left -= costs ? 1U : 0U;
        restart_soon(number);
    }
}

void Cluster::restart_soon(std::uint8_t number) {
    // What came for the life before is dropped when its time comes.
    resume(number);
    const Time delay = healthy_ ? kTick : fault_random_.between(1, context_.swarm.restart_max);
    context_.schedule.add({.at = context_.schedule.now() + delay,
                           .life = nodes_[number]->life(),
                           .node = number,
                           .kind = EventKind::kRestart});
}

void Cluster::log_event(const Event& event) const {
    std::fputs(std::format("{:>12} us node {} {} {}\n", event.at, event.node,
                           event_name(event.kind), event.argument)
                   .c_str(),
               stdout);
    if (event.kind == EventKind::kFrame) {
        const Packet& packet = context_.network.packet(event.argument);
        std::fputs(
            std::format("{:>15} from {} kind {} view {} op {}\n", "", packet.from,
                        packet.frame.payload.index(), packet.frame.header.view.value(),
                        packet.frame.payload.index() == 0 ? packet.entry.prepare.op.value() : 0)
                .c_str(),
            stdout);
    }
}

}  // namespace galgo::sim

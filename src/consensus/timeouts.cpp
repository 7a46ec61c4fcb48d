// Time: heartbeats and sending again on the primary, suspicion on a backup. A group of one has none
// of it.
#include <algorithm>
#include <bit>

#include "consensus/detail/cluster.hpp"
#include "consensus/replica.hpp"

namespace galgo::consensus {
namespace {

constexpr std::uint8_t kBackoffMax = 4;  // 16 times the first wait

/// Up to a half more than `wait`, by the bits of `random` that belong to this peer: groups and
/// peers that lost something at the same moment do not ask for it again in step.
std::uint64_t spread(std::uint64_t wait, std::uint64_t random, std::uint8_t peer) noexcept {
    const std::uint64_t drawn = std::rotl(random, 2 * peer) >> 32U;
    return wait + ((wait / 2 + 1) * drawn >> 32U);
}

}  // namespace

void Replica::step(const Tick& tick, EffectList& effects) {
    if (cluster_ == nullptr) {
        return;
    }
    Cluster& cluster = *cluster_;
    cluster.now = std::max(cluster.now, tick.now);
    cluster.resend_budget = options_.resend_per_tick_max;
    cluster.gap_reported = false;
    if (cluster.superblock_attempts != 0 && !cluster.superblock.under_way() &&
        cluster.superblock_due <= cluster.now && !fenced_) {
        GALGO_MARK(SuperblockRetried);
        persist_superblock(effects);
    }
    if (may_send()) {
        if (is_primary()) {
            tick_primary(tick, effects);
        } else {
            tick_backup(effects);
        }
    }
    check_invariants();
}

void Replica::tick_primary(const Tick& tick, EffectList& effects) {
    Cluster& cluster = *cluster_;
    ReplicaSet all;
    for (std::uint8_t i = 0; i < options_.replica_count; ++i) {
        const ReplicaIndex index(i);
        if (index == options_.replica) {
            continue;
        }
        all.add(index);
        PeerProgress& peer = cluster.peers[i];
        if (peer.have == log_.op()) {
            continue;
        }
        if (peer.due <= cluster.now) {
            GALGO_MARK(ResendTimeout);
            const unsigned backoff = std::min(peer.attempts, kBackoffMax);
            const std::uint64_t wait = std::uint64_t{options_.resend_ticks} << backoff;
            peer.due = cluster.now.plus(spread(wait, tick.random, i));
            peer.attempts = static_cast<std::uint8_t>(std::min(peer.attempts + 1, 255));
            peer.sent = peer.asked = peer.have;
            peer.read_failed = false;
        }
        resend(index, effects);
    }
    if (cluster.heartbeat_due <= cluster.now) {
        cluster.heartbeat_due = cluster.now.plus(options_.heartbeat_ticks);
        ++cluster.heartbeat_counter;
        send(all,
             maker().make_commit(*cluster.superblock.proof(), commit_, cluster.heartbeat_counter),
             effects);
    }
}

void Replica::tick_backup(EffectList& effects) {
    Cluster& cluster = *cluster_;
    if (!cluster.suspected &&
        cluster.now.value() - cluster.heard.value() >= options_.election_ticks) {
        GALGO_MARK(PrimarySuspected);
        cluster.suspected = true;
        effects.push(Note{.kind = NoteKind::kPrimarySuspected, .op = log_.op(), .view = view_});
    }
}

}  // namespace galgo::consensus

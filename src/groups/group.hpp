// One consumer group of one topic: who is a member, which partitions each member may poll, and the
// generation that fences polls and offset writes of members that have not heard of a change yet.
//
// Called by metadata/apply on shard 0 (twice a change: one copy for each side of the left-right
// pair) and read by every shard. Pure: no clock, no randomness, no addresses in any order, so that
// two copies that saw the same calls are equal.
//
// Invariants (check_invariants):
//  * without members no partition has an owner; with members each partition has exactly one;
//  * shares differ by at most one; each member's list ascends;
//  * member ids are slots, the lowest free slot is taken first; one client is one member;
//  * generation grows by one with each change of membership or of the partition count, and only
//  then.
//
// Rebalancing is immediate: a partition moves in the same operation that changed the membership.
// Cooperative revocation (a source that drains before it gives a partition up) belongs between
// `owner_of` (who may poll) and the new share of the joining member: a partition then has a holder
// and a claimant, and only the holder's offset writes pass.
//
// Costs: join, leave and a changed partition count are O(partitions + members); look-ups are O(log
// n).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.hpp"
#include "base/strong_id.hpp"
#include "model/ids.hpp"

namespace galgo::groups {

/// Slot of a member in its group, 0-based; the lowest free one is used again.
using model::MemberId;
using model::PartitionId;
/// Version of a group's assignment, from 0 (a new group without members).
using Generation = StrongId<struct GenerationTag, std::uint64_t>;

struct Member {
    MemberId id;
    ClientId client;
    std::vector<PartitionId> partitions;  ///< owned, ascending

    bool operator==(const Member&) const = default;
};

class Group {
 public:
    /// A group without members over partitions 0..partition_count-1.
    explicit Group(std::uint32_t partition_count);

    /// Makes `client` a member in the lowest free slot and rebalances. False: it was one already,
    /// and nothing changed.
    bool join(ClientId client);
    /// Ends the membership of `client` and rebalances. False: it was no member, and nothing
    /// changed.
    bool leave(ClientId client);
    /// Ends every membership at once. False: there was none, and nothing changed.
    bool remove_all_members();
    /// Partitions are 0..partition_count-1 from now on. False: the count is the same, nothing
    /// changed.
    bool set_partition_count(std::uint32_t partition_count);

    [[nodiscard]] Generation generation() const noexcept { return generation_; }
    [[nodiscard]] std::uint32_t partition_count() const noexcept {
        return static_cast<std::uint32_t>(owners_.size());
    }
    [[nodiscard]] std::uint32_t member_count() const noexcept {
        return static_cast<std::uint32_t>(members_.size());
    }
    /// Members by slot, ascending.
    [[nodiscard]] std::span<const Member> members() const noexcept { return members_; }
    /// Null when `client` is no member. Valid until the next change.
    [[nodiscard]] const Member* find_member(ClientId client) const noexcept;
    /// The one member that may poll `partition`; null without members or beyond the partition
    /// count.
    [[nodiscard]] const Member* owner_of(PartitionId partition) const noexcept;
    [[nodiscard]] bool owns(ClientId client, PartitionId partition) const noexcept;

    /// A stored group again: `members` as members() gave them. Nothing if they are not a state that
    /// the invariants allow (the bytes they came from are damaged).
    [[nodiscard]] static std::optional<Group> restored(std::uint32_t partition_count,
                                                       Generation generation,
                                                       std::vector<Member> members);

    /// Aborts when an invariant of the head comment does not hold. O(partitions + members).
    void check_invariants() const;

    bool operator==(const Group&) const = default;

 private:
    void rebalance();
    [[nodiscard]] bool is_consistent() const noexcept;

    Generation generation_;
    std::vector<Member> members_;  ///< by slot, ascending; slots may have holes
    std::map<ClientId, MemberId> slots_;
    std::vector<std::optional<MemberId>> owners_;  ///< by partition id
};

}  // namespace galgo::groups

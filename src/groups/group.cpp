#include "groups/group.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace galgo::groups {
namespace {

auto slot_position(auto& members, MemberId id) {
    return std::ranges::lower_bound(members, id, {}, &Member::id);
}

}  // namespace

Group::Group(std::uint32_t partition_count) : owners_(partition_count) {}

std::optional<Group> Group::restored(std::uint32_t partition_count, Generation generation,
                                     std::vector<Member> members) {
    Group group(partition_count);
    group.generation_ = generation;
    group.members_ = std::move(members);
    for (const Member& member : group.members_) {
        group.slots_.emplace(member.client, member.id);
        for (const PartitionId partition : member.partitions) {
            if (partition.value() < partition_count) {
                group.owners_[partition.value()] = member.id;
            }
        }
    }
    if (!group.is_consistent()) {
        return std::nullopt;
    }
    return group;
}

bool Group::join(ClientId client) {
    if (slots_.contains(client)) {
        return false;
    }
    // Members are sorted by slot, so the first that is out of step marks the lowest hole.
    std::uint32_t slot = 0;
    while (slot < members_.size() && members_[slot].id.value() == slot) {
        ++slot;
    }
    const MemberId id(slot);
    members_.insert(members_.begin() + slot, Member{.id = id, .client = client, .partitions = {}});
    slots_.emplace(client, id);
    rebalance();
    return true;
}

bool Group::leave(ClientId client) {
    const auto slot = slots_.find(client);
    if (slot == slots_.end()) {
        return false;
    }
    const auto member = slot_position(members_, slot->second);
    for (const PartitionId partition : member->partitions) {
        owners_[partition.value()].reset();
    }
    members_.erase(member);
    slots_.erase(slot);
    rebalance();
    return true;
}

bool Group::remove_all_members() {
    if (members_.empty()) {
        return false;
    }
    members_.clear();
    slots_.clear();
    std::ranges::fill(owners_, std::nullopt);
    rebalance();
    return true;
}

bool Group::set_partition_count(std::uint32_t partition_count) {
    if (partition_count == owners_.size()) {
        return false;
    }
    owners_.resize(partition_count);
    for (Member& member : members_) {
        std::erase_if(member.partitions,
                      [&](PartitionId partition) { return partition.value() >= partition_count; });
    }
    rebalance();
    return true;
}

const Member* Group::find_member(ClientId client) const noexcept {
    const auto slot = slots_.find(client);
    return slot == slots_.end() ? nullptr : &*slot_position(members_, slot->second);
}

const Member* Group::owner_of(PartitionId partition) const noexcept {
    const std::uint32_t index = partition.value();
    if (index >= owners_.size() || !owners_[index].has_value()) {
        return nullptr;
    }
    return &*slot_position(members_, *owners_[index]);
}

bool Group::owns(ClientId client, PartitionId partition) const noexcept {
    const Member* owner = owner_of(partition);
    return owner != nullptr && owner->client == client;
}

/// Moves as few partitions as a balanced assignment allows: the members that already hold more than
/// the common share get the larger shares, surplus is cut from the end of a list, and what has no
/// owner is dealt in ascending order over the members below their share, in slot order. A group
/// that starts from nothing thereby gets partition i at member i modulo the member count.
void Group::rebalance() {
    generation_ = generation_.next();
    if (members_.empty()) {
        return;
    }
    const std::size_t share = owners_.size() / members_.size();
    std::size_t larger_shares = owners_.size() % members_.size();
    std::vector<std::size_t> targets(members_.size(), share);
    const auto grant_larger = [&](auto&& wanted) {
        for (std::size_t i = 0; i < members_.size() && larger_shares > 0; ++i) {
            if (targets[i] == share && wanted(members_[i])) {
                ++targets[i];
                --larger_shares;
            }
        }
    };
    grant_larger([&](const Member& member) { return member.partitions.size() > share; });
    grant_larger([](const Member&) { return true; });

    for (std::size_t i = 0; i < members_.size(); ++i) {
        std::vector<PartitionId>& partitions = members_[i].partitions;
        while (partitions.size() > targets[i]) {
            owners_[partitions.back().value()].reset();
            partitions.pop_back();
        }
    }
    std::size_t next = 0;
    for (std::uint32_t index = 0; index < owners_.size(); ++index) {
        if (owners_[index].has_value()) {
            continue;
        }
        // The targets add up to the partition count, so somebody is below his share.
        while (members_[next].partitions.size() >= targets[next]) {
            next = (next + 1) % members_.size();
        }
        members_[next].partitions.push_back(PartitionId(index));
        owners_[index] = members_[next].id;
        next = (next + 1) % members_.size();
    }
    for (Member& member : members_) {
        std::ranges::sort(member.partitions);
    }
}

void Group::check_invariants() const {
    GALGO_CHECK(is_consistent());
}

bool Group::is_consistent() const noexcept {
    std::size_t owned = 0;
    std::size_t smallest = owners_.size();
    std::size_t largest = 0;
    for (std::size_t i = 0; i < members_.size(); ++i) {
        const Member& member = members_[i];
        const auto slot = slots_.find(member.client);
        if ((i > 0 && members_[i - 1].id >= member.id) || slot == slots_.end() ||
            slot->second != member.id || !std::ranges::is_sorted(member.partitions)) {
            return false;
        }
        for (const PartitionId partition : member.partitions) {
            if (partition.value() >= owners_.size() || owners_[partition.value()] != member.id) {
                return false;
            }
        }
        owned += member.partitions.size();
        smallest = std::min(smallest, member.partitions.size());
        largest = std::max(largest, member.partitions.size());
    }
    if (members_.empty()) {
        return slots_.empty() &&
               std::ranges::none_of(owners_, [](const auto& owner) { return owner.has_value(); });
    }
    // Each listed partition names its lister as owner, all have one, and the sums agree: complete
    // and disjoint.
    return slots_.size() == members_.size() && owned == owners_.size() && largest - smallest <= 1 &&
           std::ranges::all_of(owners_, [](const auto& owner) { return owner.has_value(); });
}

}  // namespace galgo::groups

// The offsets stored in one partition, by consumer. A plain map with a bound; every change is a
// record of the shard's journal, the files are a checkpoint that is written when asked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "partitions/types.hpp"

namespace galgo::partitions {

class Offsets {
 public:
    struct Entry {
        Offset offset;
        bool changed = false;  ///< since the last checkpoint
    };

    [[nodiscard]] std::optional<Offset> find(ConsumerKey consumer) const {
        const auto found = entries_.find(consumer);
        return found == entries_.end() ? std::nullopt : std::optional(found->second.offset);
    }
    void store(ConsumerKey consumer, Offset offset) { put(consumer, offset).changed = true; }
    /// As the files have it.
    void restore(ConsumerKey consumer, Offset offset) { put(consumer, offset); }
    /// Never lowers; true when it changed something.
    bool raise(ConsumerKey consumer, Offset offset) {
        const auto found = entries_.find(consumer);
        if (found != entries_.end() && found->second.offset >= offset) {
            return false;
        }
        store(consumer, offset);
        return true;
    }
    /// False: there was none.
    bool erase(ConsumerKey consumer) {
        if (entries_.erase(consumer) == 0) {
            return false;
        }
        --counts_[index_of(consumer.kind)];
        erased_.push_back(consumer);
        return true;
    }
    /// How many consumers of this kind have one.
    [[nodiscard]] std::size_t count(wire::ConsumerKind kind) const noexcept {
        return counts_[index_of(kind)];
    }
    [[nodiscard]] std::map<ConsumerKey, Entry>& entries() noexcept { return entries_; }
    /// Consumers erased since the last checkpoint: their files go.
    [[nodiscard]] std::vector<ConsumerKey>& erased() noexcept { return erased_; }

 private:
    static std::size_t index_of(wire::ConsumerKind kind) noexcept {
        return kind == wire::ConsumerKind::kGroup ? 1 : 0;
    }
    Entry& put(ConsumerKey consumer, Offset offset) {
        const auto [entry, added] = entries_.try_emplace(consumer);
        if (added) {
            ++counts_[index_of(consumer.kind)];
        }
        entry->second.offset = offset;
        return entry->second;
    }

    std::map<ConsumerKey, Entry> entries_;
    std::array<std::size_t, 2> counts_{};  ///< of entries_, by kind
    std::vector<ConsumerKey> erased_;
};

}  // namespace galgo::partitions

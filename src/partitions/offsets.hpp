// The offsets stored in one partition, by consumer. A plain map with a bound; every change is a
// record of the shard's journal, the files are a checkpoint that is written when asked.
#pragma once

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
    void store(ConsumerKey consumer, Offset offset) {
        Entry& entry = entries_[consumer];
        entry.offset = offset;
        entry.changed = true;
    }
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
        erased_.push_back(consumer);
        return true;
    }
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] std::map<ConsumerKey, Entry>& entries() noexcept { return entries_; }
    /// Consumers erased since the last checkpoint: their files go.
    [[nodiscard]] std::vector<ConsumerKey>& erased() noexcept { return erased_; }

 private:
    std::map<ConsumerKey, Entry> entries_;
    std::vector<ConsumerKey> erased_;
};

}  // namespace galgo::partitions

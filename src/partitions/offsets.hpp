// The offsets stored in one partition, by consumer. Every change is a record of the shard's
// journal, the files are a checkpoint that is written when asked. The change with the highest op
// wins, in whatever order they arrive here: so it is when the journal is replayed. Of a consumer
// whose file is damaged nobody knows what it had stored, until it stores or deletes one.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/ids.hpp"
#include "partitions/types.hpp"

namespace galgo::partitions {

class Offsets {
 public:
    struct Entry {
        Offset offset;
        OpNumber op;           ///< of the change that it comes from; 0 = none yet, or from a file
        bool changed = false;  ///< since the last checkpoint
        bool on_file = false;  ///< it has a file, of this value or an older one
        /// Journal file with the record of that change; 0 = none that the next checkpoint gives up.
        std::uint64_t record_file = 0;
    };

    [[nodiscard]] std::optional<Offset> find(ConsumerKey consumer) const {
        const auto found = entries_.find(consumer);
        return found == entries_.end() ? std::nullopt : std::optional(found->second.offset);
    }
    void store(ConsumerKey consumer, Offset offset, OpNumber op) {
        Entry& entry = put(consumer);
        if (entry.op <= op) {
            entry.offset = offset;
            entry.op = op;
            entry.changed = true;
        }
    }
    /// As the files have it.
    void restore(ConsumerKey consumer, Offset offset) {
        Entry& entry = put(consumer);
        entry.offset = offset;
        entry.on_file = true;
    }
    /// A checkpoint wrote its file.
    void note_file(ConsumerKey consumer) {
        const auto found = entries_.find(consumer);
        if (found != entries_.end()) {
            found->second.on_file = true;
        }
    }
    /// Consumers that have a file, damaged or not.
    template <class Fn>
    void for_each_file(Fn fn) const {
        for (const auto& [consumer, entry] : entries_) {
            if (entry.on_file) {
                fn(consumer);
            }
        }
        for (const ConsumerKey& consumer : damaged_) {
            fn(consumer);
        }
    }
    /// Its file does not say what it was.
    void set_damaged(ConsumerKey consumer) {
        if (!entries_.contains(consumer)) {
            damaged_.insert(consumer);
        }
    }
    [[nodiscard]] bool is_damaged(ConsumerKey consumer) const {
        return damaged_.contains(consumer);
    }
    [[nodiscard]] const std::set<ConsumerKey>& damaged() const noexcept { return damaged_; }
    /// Ahead of its op, which note_op() tells. Never lowers; true when it changed something.
    bool raise(ConsumerKey consumer, Offset offset) {
        const auto found = entries_.find(consumer);
        if (found != entries_.end() && found->second.offset >= offset) {
            return false;
        }
        Entry& entry = put(consumer);
        entry.offset = offset;
        entry.changed = true;
        return true;
    }
    /// `offset` was raised and has its op now.
    void note_op(ConsumerKey consumer, Offset offset, OpNumber op) {
        const auto found = entries_.find(consumer);
        if (found != entries_.end() && found->second.offset == offset) {
            found->second.op = std::max(found->second.op, op);
        }
    }
    /// The change with this op, which raised to `offset`, is committed. What was raised further
    /// meanwhile stays: its own change may not even have been admitted.
    void confirm(ConsumerKey consumer, Offset offset, OpNumber op) {
        Entry& entry = put(consumer);
        if (entry.op <= op) {
            entry.offset = std::max(entry.offset, offset);
            entry.op = op;
            entry.changed = true;
        }
    }
    /// Not one that a later change has stored already.
    void erase(ConsumerKey consumer, OpNumber op) {
        const auto found = entries_.find(consumer);
        if (damaged_.erase(consumer) != 0) {
            erased_.push_back(consumer);
        } else if (found != entries_.end() && found->second.op <= op) {
            entries_.erase(found);
            --counts_[index_of(consumer.kind)];
            erased_.push_back(consumer);
        }
    }
    /// How many consumers of this kind have one.
    [[nodiscard]] std::size_t count(wire::ConsumerKind kind) const noexcept {
        return counts_[index_of(kind)];
    }
    /// A store of `consumer` is on its way until end_store(): it has its place already.
    void begin_store(ConsumerKey consumer) { ++coming_[consumer]; }
    void end_store(ConsumerKey consumer) {
        const auto found = coming_.find(consumer);
        if (found != coming_.end() && --found->second == 0) {
            coming_.erase(found);
        }
    }
    [[nodiscard]] bool is_coming(ConsumerKey consumer) const { return coming_.contains(consumer); }
    /// How many consumers of this kind have none yet, but one on its way.
    [[nodiscard]] std::size_t count_coming(wire::ConsumerKind kind) const {
        return static_cast<std::size_t>(std::ranges::count_if(coming_, [&](const auto& coming) {
            return coming.first.kind == kind && !entries_.contains(coming.first) &&
                   !damaged_.contains(coming.first);
        }));
    }
    [[nodiscard]] std::map<ConsumerKey, Entry>& entries() noexcept { return entries_; }
    /// Consumers erased since the last checkpoint: their files go.
    [[nodiscard]] std::vector<ConsumerKey>& erased() noexcept { return erased_; }

 private:
    static std::size_t index_of(wire::ConsumerKind kind) noexcept {
        return kind == wire::ConsumerKind::kGroup ? 1 : 0;
    }
    Entry& put(ConsumerKey consumer) {
        const auto [entry, is_new] = entries_.try_emplace(consumer);
        if (is_new) {
            damaged_.erase(consumer);
            ++counts_[index_of(consumer.kind)];
        }
        return entry->second;
    }

    std::map<ConsumerKey, Entry> entries_;
    std::set<ConsumerKey> damaged_;        ///< none of them has an entry
    std::array<std::size_t, 2> counts_{};  ///< of entries_, by kind
    std::vector<ConsumerKey> erased_;
    /// Stores on their way: as many as the pipeline of the group holds and may wait for it at most.
    std::map<ConsumerKey, std::uint32_t> coming_;
};

}  // namespace galgo::partitions

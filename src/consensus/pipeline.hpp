// The ops of one group behind its commit: prepared here, and not carried out yet. A ring of at most
// 127 entries, from commit + 1 to the head, each linked to the one before. A group borrows a
// pipeline from its shard while it has ops in flight, so that an idle group holds none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/check.hpp"
#include "consensus/events.hpp"
#include "consensus/head.hpp"
#include "consensus/types.hpp"

namespace galgo::consensus {

enum class AppendState : std::uint8_t { kPending, kDurable, kFailed };

struct PipelineEntry {
    Identity identity;
    Token token;
    AppendState state = AppendState::kPending;
    bool abandoned = false;  ///< its request was answered already
};

class Pipeline {
 public:
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
    /// Of a pipeline that is not empty.
    [[nodiscard]] OpNumber first_op() const noexcept { return first_op_; }

    void push(const Prepare& prepare, Token token) noexcept {
        GALGO_CHECK(size_ < kPipelineMax);
        if (size_ == 0) {
            first_op_ = prepare.op;
            first_parent_ = prepare.parent;
        } else {
            GALGO_CHECK(prepare.op == first_op_.plus(size_));
            GALGO_CHECK(prepare.parent == back().identity);
        }
        entries_[(first_ + size_) % kSlots] = {.identity = prepare.identity, .token = token};
        ++size_;
    }
    [[nodiscard]] const PipelineEntry& front() const noexcept {
        GALGO_CHECK(size_ > 0);
        return entries_[first_];
    }
    [[nodiscard]] const PipelineEntry& back() const noexcept {
        GALGO_CHECK(size_ > 0);
        return entries_[(first_ + size_ - 1) % kSlots];
    }
    void pop_front() noexcept {
        GALGO_CHECK(size_ > 0);
        first_parent_ = entries_[first_].identity;
        first_ = (first_ + 1) % kSlots;
        first_op_ = first_op_.next();
        --size_;
    }
    /// The entry of `op`; ops in a pipeline are consecutive, so this is arithmetic.
    [[nodiscard]] const PipelineEntry* find(OpNumber op) const noexcept {
        return holds(op) ? &entries_[slot_of(op)] : nullptr;
    }

    /// How the append of an entry ended; it was pending, and is the one that was asked for.
    void record(const AppendDone& done) noexcept {
        GALGO_CHECK(holds(done.op));
        PipelineEntry& entry = entries_[slot_of(done.op)];
        GALGO_CHECK(entry.identity == done.identity);
        GALGO_CHECK(entry.state == AppendState::kPending);
        entry.state =
            done.status == AppendStatus::kDurable ? AppendState::kDurable : AppendState::kFailed;
    }
    /// The request of `op`, which is in here, was answered before its turn.
    void abandon(OpNumber op) noexcept {
        GALGO_CHECK(holds(op));
        entries_[slot_of(op)].abandoned = true;
    }
    /// The entry behind `prefix`, when it was recorded as durable. It is linked to `prefix`.
    [[nodiscard]] std::optional<Head> durable_after(const Head& prefix) const noexcept {
        const OpNumber op = prefix.op.next();
        const PipelineEntry* entry = find(op);
        if (entry == nullptr || entry->state != AppendState::kDurable) {
            return std::nullopt;
        }
        const Identity parent = op == first_op_ ? first_parent_ : find(prefix.op)->identity;
        GALGO_CHECK(parent == prefix.identity);
        return Head{.op = op, .identity = entry->identity};
    }

#ifdef GALGO_PLANTED_BUGS
    void planted_pop_back() noexcept { --size_; }
#endif

 private:
    [[nodiscard]] bool holds(OpNumber op) const noexcept {
        return op >= first_op_ && op.value() - first_op_.value() < size_;
    }
    [[nodiscard]] std::size_t slot_of(OpNumber op) const noexcept {
        return (first_ + static_cast<std::size_t>(op.value() - first_op_.value())) % kSlots;
    }

    static constexpr std::size_t kSlots = 128;
    static_assert(kPipelineMax < kSlots);
    std::array<PipelineEntry, kSlots> entries_;
    OpNumber first_op_;
    Identity first_parent_;  ///< of the first entry
    std::size_t first_ = 0;
    std::size_t size_ = 0;
};

/// Pipelines of one shard, lent to groups that are busy. Keeps what came back for the next
/// borrower, 3 MiB at most: as long as no more groups are busy at once, none of them allocates.
class PipelinePool {
 public:
    [[nodiscard]] std::unique_ptr<Pipeline> borrow() {
        if (free_.empty()) {
            return std::make_unique<Pipeline>();
        }
        std::unique_ptr<Pipeline> pipeline = std::move(free_.back());
        free_.pop_back();
        return pipeline;
    }
    void give_back(std::unique_ptr<Pipeline> pipeline) {
        GALGO_CHECK(pipeline != nullptr && pipeline->empty());
        if (free_.size() < kKeptMax) {
            free_.push_back(std::move(pipeline));
        }
    }

 private:
    static constexpr std::size_t kKeptMax = 1000;
    static_assert(kKeptMax * sizeof(Pipeline) <= std::size_t{3} << 20U);
    std::vector<std::unique_ptr<Pipeline>> free_;
};

}  // namespace galgo::consensus

// The ops of one group that are prepared and not yet committed: a ring of at most 127 entries. A
// group borrows a pipeline from its shard while it has ops in flight, so that an idle group holds
// none.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.hpp"
#include "consensus/effects.hpp"

namespace galgo::consensus {

inline constexpr std::size_t kPipelineMax = 127;

enum class AppendState : std::uint8_t { kPending, kDurable, kFailed };

struct PipelineEntry {
    OpNumber op;
    Token token;
    AppendState state = AppendState::kPending;
};

class Pipeline {
 public:
    [[nodiscard]] std::size_t size() const noexcept { return size_; }
    [[nodiscard]] bool empty() const noexcept { return size_ == 0; }

    void push(const PipelineEntry& entry) noexcept {
        GALGO_CHECK(size_ < kPipelineMax);
        entries_[(first_ + size_) % kSlots] = entry;
        ++size_;
    }
    [[nodiscard]] PipelineEntry& front() noexcept {
        GALGO_CHECK(size_ > 0);
        return entries_[first_];
    }
    void pop_front() noexcept {
        GALGO_CHECK(size_ > 0);
        first_ = (first_ + 1) % kSlots;
        --size_;
    }
    /// The entry of `op`; ops in a pipeline are consecutive, so this is arithmetic.
    [[nodiscard]] PipelineEntry* find(OpNumber op) noexcept {
        if (size_ == 0 || op < front().op || op.value() - front().op.value() >= size_) {
            return nullptr;
        }
        return &entries_[(first_ + static_cast<std::size_t>(op.value() - front().op.value())) %
                         kSlots];
    }

 private:
    static constexpr std::size_t kSlots = 128;
    static_assert(kPipelineMax < kSlots);
    std::array<PipelineEntry, kSlots> entries_;
    std::size_t first_ = 0;
    std::size_t size_ = 0;
};

/// Pipelines of one shard, lent to groups that are busy. Keeps what came back for the next
/// borrower.
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
    static constexpr std::size_t kKeptMax = 64;
    std::vector<std::unique_ptr<Pipeline>> free_;
};

}  // namespace galgo::consensus

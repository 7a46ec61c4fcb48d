// Group: one replica of one consensus group as a pure state machine. The metadata log and every
// partition are such a group; a single node is a group of one on this same path: append = prepare,
// commit = a quorum of one has appended.
//
// Invariants (checked after every step):
//   commit <= head;  ops of the pipeline are consecutive and end at head;  timestamps never
//   decrease; an op number is given once, also when its append failed.
// Size: at most 64 bytes idle; a busy group borrows a Pipeline. No timer, no allocation in a step.
//
// Where the paper's rules enter as the replica count grows: on_request here is the primary's normal
// operation; an append acknowledged by peers will count into the same AppendState.
#pragma once

#include <memory>

#include "consensus/effects.hpp"
#include "consensus/pipeline.hpp"

namespace galgo::consensus {

class Group {
 public:
    struct Start {
        ViewNumber view;
        OpNumber head;             ///< last op in the log; all of it is committed in a group of one
        Timestamp last_timestamp;  ///< stamp of the last prepare; the next one is not lower
        std::uint8_t pipeline_max = 32;  ///< 1..=127 ops in flight
    };

    Group(PipelinePool& pool, const Start& start) noexcept;
    ~Group();
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    /// Admits a request (effect kAppend) or rejects it with 58 when the pipeline is full.
    void step(const Request& request, EffectList& effects);
    /// Records the end of an append and commits what has become contiguous.
    void step(const AppendDone& done, EffectList& effects);

    [[nodiscard]] ViewNumber view() const noexcept { return view_; }
    [[nodiscard]] OpNumber head() const noexcept { return head_; }
    [[nodiscard]] OpNumber commit() const noexcept { return commit_; }
    [[nodiscard]] Timestamp last_timestamp() const noexcept { return last_timestamp_; }
    [[nodiscard]] std::size_t in_flight() const noexcept {
        return pipeline_ == nullptr ? 0 : pipeline_->size();
    }
    void check_invariants() const;

 private:
    void commit_contiguous(EffectList& effects);

    PipelinePool& pool_;
    std::unique_ptr<Pipeline> pipeline_;
    OpNumber head_;
    OpNumber commit_;
    Timestamp last_timestamp_;
    ViewNumber view_;
    std::uint8_t pipeline_max_;
};
static_assert(sizeof(Group) <= 64);

}  // namespace galgo::consensus

// Proofs that something is durable, as types. A replica must not speak for a view before its
// superblock says so, and must not acknowledge an entry before its log holds it: both promises
// take such a proof as an argument (frames.hpp). Each kind of proof has one maker, which knows what
// was asked for and makes it from the completed write of exactly that, or from what recovery read
// back before anything was asked for:
//
//   DurableView   SuperblockWrites, from the SuperblockDone of the write that is under way
//   DurableEntry  DurableLog, entry by entry, from what Pipeline recorded of each AppendDone
#pragma once

#include <optional>

#include "base/check.hpp"
#include "base/ids.hpp"
#include "consensus/events.hpp"
#include "consensus/head.hpp"
#include "consensus/pipeline.hpp"

namespace galgo::consensus {

/// The superblock on stable storage names this view.
class DurableView {
 public:
    [[nodiscard]] constexpr ViewNumber view() const noexcept { return view_; }

 private:
    friend class SuperblockWrites;
    explicit constexpr DurableView(ViewNumber view) noexcept : view_(view) {}
    ViewNumber view_;
};

/// This entry and all before it are durable in the own log.
class DurableEntry {
 public:
    [[nodiscard]] constexpr const Head& head() const noexcept { return head_; }

 private:
    friend class DurableLog;
    explicit constexpr DurableEntry(const Head& head) noexcept : head_(head) {}
    Head head_;
};

/// The superblock of one replica: the write under way, and what the last good one proved.
class SuperblockWrites {
 public:
    /// Before the first write, once.
    void recovered(const Boot& boot) noexcept {
        GALGO_CHECK(!asked_.has_value() && !proof_.has_value());
        if (boot.superblock.has_value()) {
            proof_ = DurableView(boot.superblock->view);
        }
    }
    void asked(const SuperblockState& state) noexcept {
        GALGO_CHECK(!asked_.has_value());
        asked_ = state;
    }
    /// The write that was asked for ended. False: badly; what was proven before stays so.
    [[nodiscard]] bool ended(const SuperblockDone& done) noexcept {
        GALGO_CHECK(asked_.has_value() && *asked_ == done.state);
        asked_.reset();
        if (done.written) {
            proof_ = DurableView(done.state.view);
        }
        return done.written;
    }
    [[nodiscard]] bool under_way() const noexcept { return asked_.has_value(); }
    /// Empty when there is none yet.
    [[nodiscard]] const std::optional<DurableView>& proof() const noexcept { return proof_; }

#ifdef GALGO_PLANTED_BUGS
    void plant(ViewNumber view) noexcept { proof_ = DurableView(view); }
#endif

 private:
    std::optional<SuperblockState> asked_;
    std::optional<DurableView> proof_;
};

/// The own log as far as it is durable without a hole.
class DurableLog {
 public:
    /// Of an empty log.
    DurableLog() noexcept : proof_(Head{}) {}
    /// What recovery read back.
    explicit DurableLog(const Boot& boot) noexcept : proof_(boot.log.head) {}

    /// Takes over what was recorded as durable and follows; false: nothing.
    bool extend(const Pipeline& pipeline) noexcept {
        const OpNumber before = proof_.head().op;
        while (const std::optional<Head> next = pipeline.durable_after(proof_.head())) {
            proof_ = DurableEntry(*next);
        }
        return proof_.head().op > before;
    }
    [[nodiscard]] const DurableEntry& proof() const noexcept { return proof_; }
    [[nodiscard]] OpNumber op() const noexcept { return proof_.head().op; }

#ifdef GALGO_PLANTED_BUGS
    void plant(const Head& head) noexcept { proof_ = DurableEntry(head); }
    [[nodiscard]] static DurableEntry planted(const Head& head) noexcept {
        return DurableEntry(head);
    }
#endif

 private:
    DurableEntry proof_;
};

}  // namespace galgo::consensus

// Proofs that something is durable, as types. A replica must not speak for a view before its
// superblock says so, and must not acknowledge an entry before its log holds it: both promises
// take such a proof as an argument (frames.hpp), and a proof comes only from the event that says
// that the write ended well, or from the recovery that read it back.
#pragma once

#include <optional>

#include "base/ids.hpp"
#include "consensus/events.hpp"
#include "consensus/head.hpp"

namespace galgo::consensus {

/// The superblock on stable storage names this view.
class DurableView {
 public:
    /// Empty when the write failed.
    [[nodiscard]] static constexpr std::optional<DurableView> proven_by(
        const SuperblockDone& done) noexcept {
        return done.written ? std::optional(DurableView(done.state)) : std::nullopt;
    }
    /// Empty when there was no superblock.
    [[nodiscard]] static constexpr std::optional<DurableView> proven_by(const Boot& boot) noexcept {
        return boot.superblock.has_value() ? std::optional(DurableView(*boot.superblock))
                                           : std::nullopt;
    }
    [[nodiscard]] constexpr ViewNumber view() const noexcept { return view_; }
    [[nodiscard]] constexpr ViewNumber log_view() const noexcept { return log_view_; }

#ifdef GALGO_PLANTED_BUGS
    static DurableView planted(const SuperblockState& state) noexcept { return DurableView(state); }
#endif

 private:
    explicit constexpr DurableView(const SuperblockState& state) noexcept
        : view_(state.view), log_view_(state.log_view) {}
    ViewNumber view_;
    ViewNumber log_view_;
};

/// This entry and all before it are durable in the own log. What Pipeline::record was told by
/// AppendDone extends it, op by op.
class DurableEntry {
 public:
    /// What recovery read back.
    [[nodiscard]] static constexpr DurableEntry proven_by(const Boot& boot) noexcept {
        return DurableEntry(boot.log.head);
    }
    [[nodiscard]] constexpr const Head& head() const noexcept { return head_; }

#ifdef GALGO_PLANTED_BUGS
    static DurableEntry planted(const Head& head) noexcept { return DurableEntry(head); }
#endif

 private:
    friend class Pipeline;
    explicit constexpr DurableEntry(const Head& head) noexcept : head_(head) {}
    Head head_;
};

}  // namespace galgo::consensus

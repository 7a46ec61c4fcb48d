// What goes into a consensus group and what comes out: events and effects as plain values. The
// group does no I/O, reads no clock and draws no random number; whoever runs it carries the effects
// out and reports back by events (replication/ in the server, sim/ in the simulator).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/check.hpp"
#include "base/error_code.hpp"
#include "base/ids.hpp"

namespace galgo::consensus {

/// The caller's own mark for a request; comes back in every effect about it. Opaque to the group.
using Token = StrongId<struct TokenTag, std::uint64_t>;

/// A client asks for one operation. `wall` is the primary's wall clock now.
struct Request {
    Token token;
    Timestamp wall;
};

/// The append of `op` to the log ended. `durable` is true when it reached the level that the group
/// promises (page cache or stable storage); false when it failed and nothing may be promised.
struct AppendDone {
    OpNumber op;
    bool durable = false;
};

enum class EffectKind : std::uint8_t {
    kAppend,   ///< write the prepare {view, op, timestamp} to the log, then report AppendDone
    kCommit,   ///< `op` is committed: apply it, make it visible, answer its request
    kAbandon,  ///< `op` failed to append: answer its request with `error`; its number is never
               ///< reused
    kReject,   ///< the request was not admitted (no op was given); answer with `error`
};

struct Effect {
    EffectKind kind{};
    ErrorCode error = ErrorCode::kOk;
    ViewNumber view;
    OpNumber op;
    Timestamp timestamp;  ///< kAppend: stamp of the prepare; never decreases from op to op
    Token token;
};

/// Effects of one step, in the order in which they must be carried out. One step yields at most one
/// effect for each op in flight and one more.
class EffectList {
 public:
    static constexpr std::size_t kCapacity = 129;

    void push(const Effect& effect) noexcept {
        GALGO_CHECK(count_ < kCapacity);
        effects_[count_++] = effect;
    }
    void clear() noexcept { count_ = 0; }
    [[nodiscard]] std::span<const Effect> view() const noexcept {
        return {effects_.data(), count_};
    }

 private:
    // Left uninitialised on purpose: a step touches only what it pushes.
    std::array<Effect, kCapacity> effects_;
    std::size_t count_ = 0;
};

}  // namespace galgo::consensus

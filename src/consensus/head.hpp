// The head of a log: op number and identity, one value. The identity of a prepare is a hash over
// the identity of its predecessor, its own fields and the digest of its body, so equal identities
// mean equal logs up to there. The view is not in it: a prepare that is sent again in a later view
// stays the same prepare.
//
// LogHead is the head of the own log and the only thing that moves one: a primary extends it by a
// new prepare, a backup by the prepare that follows it. It never goes back.
//
// Identity 0 belongs to op 0, and to a head whose log was written without identities (a single
// node before them).
#pragma once

#include <cstdint>

#include "base/ids.hpp"
#include "consensus/types.hpp"

namespace galgo::consensus {

/// XXH3-64 over the fields named at compute_identity.
using Identity = StrongId<struct IdentityTag, std::uint64_t>;
/// Digest of all that a prepare carries and that the core does not know: operation, client, body.
/// Its owner says over which bytes, and checks it before a received prepare enters the core.
using BodyDigest = StrongId<struct BodyDigestTag, std::uint64_t>;

struct Head {
    OpNumber op;
    Identity identity;
    constexpr bool operator==(const Head&) const noexcept = default;
};

/// One entry of the log as the core knows it: what is hashed into its identity, and that.
struct Prepare {
    OpNumber op;
    Timestamp timestamp;
    Identity parent;  ///< identity of op - 1
    BodyDigest body;
    Identity identity;
    constexpr bool operator==(const Prepare&) const noexcept = default;

    [[nodiscard]] constexpr Head head() const noexcept { return {.op = op, .identity = identity}; }
};

/// The identity of a prepare with these fields in this group (48 bytes: group, incarnation, op,
/// timestamp, parent, body; little-endian). Never 0.
[[nodiscard]] Identity compute_identity(GroupId group, Incarnation incarnation,
                                        const Prepare& prepare) noexcept;

class LogHead {
 public:
    enum class Link : std::uint8_t {
        kFollows,      ///< op + 1, and its parent is this head
        kKnown,        ///< at or below this head
        kGap,          ///< beyond op + 1
        kOtherParent,  ///< op + 1 of another log
    };

    constexpr LogHead() noexcept = default;
    explicit constexpr LogHead(const Head& recovered) noexcept : head_(recovered) {}

    [[nodiscard]] constexpr const Head& get() const noexcept { return head_; }
    [[nodiscard]] constexpr OpNumber op() const noexcept { return head_.op; }

    /// A primary's next prepare; it is the head afterwards.
    Prepare extend(GroupId group, Incarnation incarnation, Timestamp timestamp,
                   BodyDigest body) noexcept;
    [[nodiscard]] Link link(const Prepare& prepare) const noexcept;
    /// Makes `prepare`, for which link() is kFollows, the head.
    void advance(const Prepare& prepare) noexcept;

#ifdef GALGO_PLANTED_BUGS
    void planted_set(const Head& head) noexcept { head_ = head; }
#endif

 private:
    Head head_;
};

}  // namespace galgo::consensus

#include "consensus/head.hpp"

#include <array>

#include "base/bytes.hpp"
#include "base/check.hpp"
#include "crypto/hash.hpp"

namespace galgo::consensus {

Identity compute_identity(GroupId group, Incarnation incarnation, const Prepare& prepare) noexcept {
    std::array<std::byte, 48> hashed;
    const MutableBytes bytes(hashed);
    store<std::uint64_t>(bytes, 0, group.value());
    store<std::uint64_t>(bytes, 8, incarnation.value());
    store<std::uint64_t>(bytes, 16, prepare.op.value());
    store<std::uint64_t>(bytes, 24, prepare.timestamp.value());
    store<std::uint64_t>(bytes, 32, prepare.parent.value());
    store<std::uint64_t>(bytes, 40, prepare.body.value());
    const std::uint64_t hash = crypto::xxh3_64(bytes);
    return Identity(hash == 0 ? 1 : hash);
}

Prepare LogHead::extend(GroupId group, Incarnation incarnation, Timestamp timestamp,
                        BodyDigest body) noexcept {
    Prepare prepare{.op = head_.op.next(),
                    .timestamp = timestamp,
                    .parent = head_.identity,
                    .body = body,
                    .identity = {}};
    prepare.identity = compute_identity(group, incarnation, prepare);
    head_ = prepare.head();
    return prepare;
}

LogHead::Link LogHead::link(const Prepare& prepare) const noexcept {
    if (prepare.op <= head_.op) {
        return Link::kKnown;
    }
    // Not op + 1: a peer may say the largest number there is.
    if (prepare.op.value() - head_.op.value() > 1) {
        return Link::kGap;
    }
    return prepare.parent == head_.identity ? Link::kFollows : Link::kOtherParent;
}

void LogHead::advance(const Prepare& prepare) noexcept {
    GALGO_CHECK(link(prepare) == Link::kFollows);
    head_ = prepare.head();
}

}  // namespace galgo::consensus

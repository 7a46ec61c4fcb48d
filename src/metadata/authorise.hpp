// May this user do that? Answered for any command of the protocol from the command table (which
// rule a command needs) and the user's permissions (model/permissions.hpp). For code at the edge
// that must know before it works: to hash a password, to show a user. Names are resolved first: an
// unknown target is not found before it is forbidden. Most commands do not come by here: what is
// applied (apply_*.cpp) and read (read_replies.cpp) names its rule itself, next to the look-up of
// its target. permission_matrix_test.cpp holds both ways against the rules of the wire.
//
// Pure; any shard, on the published state.
#pragma once

#include "base/error.hpp"
#include "metadata/state.hpp"
#include "model/ids.hpp"
#include "wire/codes.hpp"

namespace galgo::metadata {

/// What a command is about; the fields that its rule does not look at may stay as they are.
struct Target {
    model::StreamId stream{};
    model::TopicId topic{};
    model::UserId user = model::kNoUserId;  ///< GetUser, ChangePassword: whom
};

/// Errors: 40 nobody is logged in (`user` is kNoUserId, unknown or inactive) and the command is not
/// for anyone, 41 without the right, 3 an unknown command.
[[nodiscard]] Status authorise(const State& state, model::UserId user, wire::CommandCode command,
                               const Target& target = {});
/// The same by operation, which must not be kNonReplicated.
[[nodiscard]] Status authorise(const State& state, model::UserId user, wire::Operation operation,
                               const Target& target = {});

}  // namespace galgo::metadata
